//! Tables and columns of users that are named like something of ours.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};

/// Names that our own tables, columns and aliases have, or what comes behind our prefixes.
const NAMES: [&str; 34] = [
    "syncline",
    "state",
    "State",
    "sequence",
    "rowid",
    "oid",
    "place_id",
    "place_rep",
    "moved",
    "first_sequence",
    "last_sequence",
    "table_name",
    "excluded",
    "EXCLUDED",
    "t",
    "l",
    "u",
    "r",
    "k",
    "d",
    "g",
    "s",
    "o",
    "was",
    "new",
    "old_v",
    "old_id",
    "inserts",
    "updates",
    "keys",
    "value",
    "watermark",
    "remote_id",
    "rows",
];

/// Every kind of change goes up and comes down.
fn synchronizes(center: &mut Center, table: &'static str, is_parted: bool, told: &str) {
    let join = |id: &'static str| {
        let mut remote = Remote::new(id);
        remote.claims.insert("rep".into(), "1".into());
        remote
    };
    let row = |id: i64, v: &str| -> Row {
        let mut row = vec![int(id), text(v)];
        row.extend(is_parted.then(|| int(1)));
        row
    };
    let (mut one, mut two) = (join("one"), join("two"));
    center.synchronize(&mut one, &[]);
    center.synchronize(&mut two, &[]);
    let inserts = [1, 2, 3].map(|id| Upload::Insert(table, row(id, "a")));
    let (applied, _) = center.synchronize(&mut one, &inserts);
    assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{told}");
    assert_eq!(center.synchronize(&mut two, &[]).1.upserts.len(), 3, "{told}");
    let changes = [
        Upload::Update(table, row(1, "a"), row(1, "b")),
        Upload::Update(table, row(2, "stale"), row(2, "c")),
        Upload::Delete(table, row(3, "a")),
    ];
    let (applied, _) = center.synchronize(&mut one, &changes);
    assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{told}");
    let (_, download) = center.synchronize(&mut two, &[]);
    let upserts: Vec<&Row> = download.upserts.iter().map(|(_, row)| row).collect();
    assert!(upserts.contains(&&row(1, "b")), "{told}: {download:?}");
    assert_eq!(download.deletes, [(table.to_owned(), vec![int(3)])], "{told}");
}

/// With the name for a table, its key, a column, and the column of a partition.
fn each_place(backend: Backend, name: &'static str, is_parted: bool) {
    for (table, key, v, rep) in [
        (name, "id", "v", "rep"),
        ("tab", name, "v", "rep"),
        ("tab", "id", name, "rep"),
        ("tab", "id", "v", name),
    ] {
        if !is_parted && rep == name {
            continue;
        }
        let told = format!("{backend:?}: {table} ({key}, {v}, {rep}) {is_parted}");
        let more = if is_parted { format!(", \"{rep}\" INTEGER") } else { String::new() };
        let schema =
            format!("CREATE TABLE \"{table}\" (\"{key}\" INTEGER PRIMARY KEY, \"{v}\" TEXT{more})");
        let partition = match is_parted {
            true => format!("partition = '\"{rep}\" = {{u.rep}}'\n"),
            false => String::new(),
        };
        let model = format!("[table.\"{table}\"]\nconflict = \"merge\"\n{partition}");
        let mut center = Center::on(backend, &schema, &model);
        synchronizes(&mut center, table, is_parted, &told);
    }
}

#[test]
fn names_of_ours_are_names_like_others() {
    Backend::each(|backend| {
        for name in NAMES {
            each_place(backend, name, true);
            if backend == Backend::Sqlite {
                each_place(backend, name, false);
            }
        }
    });
}

// The trigger of one was that of the other.
#[test]
fn a_table_may_be_named_like_another_with_a_word_before_it() {
    Backend::each(|backend| {
        for name in ["replace_t", "displace_t", "log_t", "runs_t", "update_t", "update_replace_t"] {
            let schema = format!(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
                 CREATE TABLE {name} (id INTEGER PRIMARY KEY, v TEXT UNIQUE)"
            );
            let mut center = Center::on(backend, &schema, &format!("[table.t]\n[table.{name}]\n"));
            let mut remote = Remote::new("r");
            center.synchronize(&mut remote, &[]);
            let row = |v: &str| vec![int(1), text(v)];
            let changes = [Upload::Insert("t", row("a")), Upload::Insert(name, row("b"))];
            let (applied, _) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?} {name}");
            let changes =
                [Upload::Update("t", row("a"), row("c")), Upload::Update(name, row("b"), row("d"))];
            let (applied, _) = center.synchronize(&mut remote, &changes);
            assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?} {name}");
            let all = center.list(&format!("SELECT v AS v FROM {name}"));
            assert_eq!((center.list("SELECT v AS v FROM t"), all), ("c".into(), "d".into()));
        }
    });
}
