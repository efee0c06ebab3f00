//! Uploads of older tables, on every database.
//!
//! Types, keys or deciding columns have changed since.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, deploy, int, text};
use model::{Code, Value};
use syncline_consolidated::Event::{
    ResolveConflict, UploadDelete, UploadFetch, UploadFetchColumnConflict, UploadInsert,
    UploadUpdate,
};
use syncline_consolidated::{Applied, Event};

/// A center and a remote that has synchronized with it, then a schema change.
fn changed(
    backend: Backend,
    schema: &str,
    before: &str,
    sql: &str,
    after: &str,
) -> (Center, Remote) {
    let mut center = Center::on(backend, schema, before);
    let mut remote = Remote::new("r");
    remote.claims.insert("name".into(), "ann".into());
    center.synchronize(&mut remote, &[]);
    center.foreign(sql);
    deploy(&center.url, after).unwrap();
    center.reconnect();
    (center, remote)
}

fn codes(download: &Download) -> Vec<(Value, u16)> {
    let reject = |(_, key, code): &(String, Row, u16)| (key[0].clone(), *code);
    download.rejects.iter().map(reject).collect()
}

fn counts(applied: &Applied) -> (u64, u64, u64, u64, u64) {
    let Applied { inserts, updates, deletes, conflicts, rejected, .. } = applied;
    (*inserts, *updates, *deletes, *conflicts, *rejected)
}

/// Builds the table `t` with another type of `v`, as an SQLite owner does.
fn rebuilt(declared: &str) -> String {
    format!(
        "CREATE TABLE fresh (id INTEGER PRIMARY KEY, v {declared}, note TEXT);
         INSERT INTO fresh SELECT * FROM t; DROP TABLE t; ALTER TABLE fresh RENAME TO t"
    )
}

/// A change of a type: how the value of row 1 is declared and stored before, how it is declared
/// after, and what waits.
struct Retyped {
    before: &'static str,
    stored: Value,
    after: &'static str,
    /// A value that the new type takes, and how it is there then, as text.
    fits: (Value, &'static str),
    /// One that it does not take.
    unfit: Option<Value>,
}

fn retyped() -> Vec<Retyped> {
    let case = |before, stored, after, fits, unfit| Retyped { before, stored, after, fits, unfit };
    vec![
        case("integer", int(5), "text", (int(50), "50"), None),
        case("integer", int(5), "bigint", (int(1 << 30), "1073741824"), None),
        case("text", text("5"), "numeric(9,2)", (text("7.5"), "7.50"), Some(text("seven"))),
        case("text", text("5"), "integer", (text("7"), "7"), Some(text("seven"))),
        case("varchar(9)", text("nut"), "varchar(4)", (text("bolt"), "bolt"), Some(text("washer"))),
        case("bigint", int(5), "smallint", (int(7), "7"), Some(int(70_000))),
        case("integer", int(1), "boolean USING v = 1", (int(0), "false"), Some(int(7))),
        case(
            "text",
            text("2026-01-02"),
            "date USING v::date",
            (text("2026-02-03"), "2026-02-03"),
            Some(text("soon")),
        ),
    ]
}

// S1, S5, S11, Trap 24: a value of another type is converted where the new type can hold it, and is
// a reject of its row alone where not. No change becomes a conflict without a cause.
#[test]
fn what_waits_for_a_column_of_another_type_is_converted_or_told() {
    for case in retyped() {
        let schema = format!(
            "CREATE TABLE t (id integer PRIMARY KEY, v {}, note text);
             INSERT INTO t SELECT i, '{}', 'old' FROM generate_series(1, 4) AS i",
            case.before,
            case.stored.as_ref().display().trim_matches('\''),
        );
        let using = match case.after.contains("USING") {
            true => case.after.to_owned(),
            false => {
                format!("{0} USING v::{0}", case.after)
            }
        };
        let alter = format!("ALTER TABLE t ALTER COLUMN v TYPE {using}");
        let (mut center, mut remote) =
            changed(Backend::Postgres, &schema, "[table.t]", &alter, "[table.t]");
        let row = |id, v: &Value, note: &str| vec![int(id), v.clone(), text(note)];
        let (stored, (fits, shown)) = (&case.stored, &case.fits);
        let mut changes = vec![
            Upload::Update("t", row(1, stored, "old"), row(1, fits, "old")),
            Upload::Update("t", row(2, stored, "old"), row(2, stored, "new")),
            Upload::Insert("t", row(5, fits, "mine")),
            Upload::Delete("t", row(4, stored, "old")),
        ];
        if let Some(unfit) = &case.unfit {
            changes.push(Upload::Update("t", row(3, stored, "old"), row(3, unfit, "old")));
            changes.push(Upload::Insert("t", row(6, unfit, "mine")));
        }
        let rejected = if case.unfit.is_some() { 2 } else { 0 };
        let (applied, download) = center.synchronize(&mut remote, &changes);
        let what = format!("{} to {}", case.before, case.after);
        let (inserts, updates) = if rejected > 0 { (2, 3) } else { (1, 2) };
        let expected = (inserts, updates, 1, 0, rejected);
        assert_eq!(counts(&applied), expected, "{what}: {:?}", codes(&download));
        let refused = Code::RowRefused.number();
        let told = [(int(3), refused), (int(6), refused)];
        assert_eq!(codes(&download), told[..rejected as usize], "{what}");
        let values =
            center.list("SELECT to_json(v) #>> '{}' AS v FROM t WHERE id IN (1, 5) ORDER BY id");
        assert_eq!(values, format!("{shown},{shown}"), "{what}");
        assert_eq!(center.list("SELECT note AS v FROM t ORDER BY id"), "old,new,old,mine");
    }
}

// S5, Trap 24: at an SQLite center a column of another affinity stores the same value in another
// storage class, which is not a change.
#[test]
fn what_waits_for_a_column_of_another_affinity_is_applied() {
    for (before, stored, after, new, shown) in [
        ("INTEGER", int(5), "TEXT", int(50), "'50'"),
        ("TEXT", text("5"), "INTEGER", text("50"), "50"),
        ("INTEGER", int(5), "REAL", int(50), "50.0"),
        ("TEXT", text("5"), "NUMERIC", text("7.5"), "7.5"),
        ("TEXT", text("5"), "INTEGER", text("many"), "'many'"),
    ] {
        let value = stored.as_ref().display();
        let schema = format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v {before}, note TEXT);
             INSERT INTO t VALUES (1, {value}, 'old'), (2, {value}, 'old'), (3, {value}, 'old')"
        );
        let (mut center, mut remote) =
            changed(Backend::Sqlite, &schema, "[table.t]", &rebuilt(after), "[table.t]");
        let row = |id, v: &Value, note: &str| vec![int(id), v.clone(), text(note)];
        let changes = [
            Upload::Update("t", row(1, &stored, "old"), row(1, &new, "old")),
            Upload::Update("t", row(2, &stored, "old"), row(2, &stored, "new")),
            Upload::Delete("t", row(3, &stored, "old")),
            Upload::Insert("t", row(4, &new, "mine")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        let what = format!("{before} to {after}");
        assert_eq!(counts(&applied), (1, 2, 1, 0, 0), "{what}");
        let values = "SELECT quote(v) AS v FROM t WHERE id IN (1, 4) ORDER BY id";
        assert_eq!(center.list(values), format!("{shown},{shown}"), "{what}");
        assert_eq!(center.list("SELECT note AS v FROM t ORDER BY id"), "old,new,mine", "{what}");
    }
}

// S5, S11: a column that was NULL at a remote, and may not be any more.
#[test]
fn a_row_with_null_where_none_may_be_any_more_is_told() {
    Backend::each(|backend| {
        let alter = backend.pick(
            "CREATE TABLE fresh (id INTEGER PRIMARY KEY, v TEXT NOT NULL);
             INSERT INTO fresh SELECT * FROM t; DROP TABLE t; ALTER TABLE fresh RENAME TO t",
            "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
        );
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
            INSERT INTO t VALUES (1, 'a'), (2, 'b')";
        let (mut center, mut remote) = changed(backend, schema, "[table.t]", alter, "[table.t]");
        let changes = [
            Upload::Update("t", vec![int(1), text("a")], vec![int(1), Value::Null]),
            Upload::Update("t", vec![int(2), text("b")], vec![int(2), text("bb")]),
            Upload::Insert("t", vec![int(3), Value::Null]),
            Upload::Insert("t", vec![int(4), text("d")]),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (2, 2, 0, 0, 2), "{backend:?}");
        let refused = Code::RowRefused.number();
        assert_eq!(codes(&download), [(int(1), refused), (int(3), refused)], "{backend:?}");
        assert_eq!(center.list("SELECT v FROM t ORDER BY id"), "a,bb,d", "{backend:?}");
    });
}

// S7, Trap 24: the column that decides who receives a row came while the remote was away. Its rows
// are judged by what the center has of them, new ones by the column's default. All of them became
// rejects at PostgreSQL.
#[test]
fn rows_without_the_column_that_decides_are_judged_by_what_the_center_has() {
    let column = "\"owner = {u.name}\"";
    let custom = "{ custom = \"t.owner = {u.name}\" }";
    for (partition, rule) in [
        (column, "consolidated_wins"),
        (column, "remote_wins"),
        (column, "merge"),
        (custom, "merge"),
    ] {
        Backend::each(|backend| {
            let schema = "CREATE TABLE task (id INTEGER PRIMARY KEY, job TEXT, more TEXT);
                INSERT INTO task VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'x'),
                    (4, 'd', 'x'), (5, 'e', 'x')";
            let after = format!("[table.task]\npartition = {partition}\nconflict = \"{rule}\"\n");
            let add = "ALTER TABLE task ADD COLUMN owner TEXT DEFAULT 'ann';
                UPDATE task SET owner = 'bob' WHERE id IN (2, 4)";
            let (mut center, mut remote) = changed(backend, schema, "[table.task]", add, &after);
            center.foreign("UPDATE task SET job = 'center' WHERE id = 5");
            let task = |id, job: &str| vec![int(id), text(job), text("x")];
            let changes = [
                Upload::Update("task", task(1, "a"), task(1, "mine")),
                Upload::Update("task", task(2, "b"), task(2, "not mine")),
                Upload::Delete("task", task(3, "c")),
                Upload::Delete("task", task(4, "d")),
                Upload::Update("task", task(5, "e"), vec![int(5), text("e"), text("y")]),
                Upload::Insert("task", task(6, "new")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            let what = format!("{backend:?} {partition} {rule}");
            let told: Vec<Value> = codes(&download).into_iter().map(|(key, _)| key).collect();
            assert_eq!(told, [int(2), int(4)], "{what}: {:?}", codes(&download));
            assert_eq!((applied.conflicts, applied.rejected), (1, 2), "{what}");
            let fifth = match rule {
                "consolidated_wins" => "5centerxann",
                "merge" => "5centeryann",
                _ => "5eyann",
            };
            let held = center.list("SELECT id || job || more || owner AS v FROM task ORDER BY id");
            let expected = format!("1minexann,2bxbob,4dxbob,{fifth},6newxann");
            assert_eq!(held, expected, "{what}");
        });
    }
}

// S7: a new row whose default is outside the partition, or unknown, is a reject. The others are
// applied.
#[test]
fn new_rows_outside_by_their_default_are_told() {
    Backend::each(|backend| {
        for default in ["", "DEFAULT 'bob'"] {
            let schema = "CREATE TABLE task (id INTEGER PRIMARY KEY, job TEXT);
                INSERT INTO task VALUES (1, 'a'), (2, 'b')";
            let after = "[table.task]\npartition = \"owner = {u.name}\"\n";
            let add = format!(
                "ALTER TABLE task ADD COLUMN owner TEXT {default};
                 UPDATE task SET owner = 'ann' WHERE id = 1"
            );
            let (mut center, mut remote) = changed(backend, schema, "[table.task]", &add, after);
            let task = |id, job: &str| vec![int(id), text(job)];
            let changes = [
                Upload::Update("task", task(1, "a"), task(1, "mine")),
                Upload::Insert("task", task(3, "new")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            let what = format!("{backend:?} {default}");
            assert_eq!(counts(&applied), (1, 1, 0, 0, 1), "{what}");
            let outside = Code::RowOutsideSubscription.number();
            assert_eq!(codes(&download), [(int(3), outside)], "{what}");
            assert_eq!(center.list("SELECT job AS v FROM task ORDER BY id"), "mine,b", "{what}");
        }
    });
}

// S7, Trap 24: the same for a table whose parent decides, through a column that came meanwhile.
#[test]
fn children_without_the_column_of_their_parent_are_judged_by_what_the_center_has() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE box (id INTEGER PRIMARY KEY, owner TEXT);
            CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO box VALUES (1, 'ann'), (2, 'bob');
            INSERT INTO part VALUES (10, 'a'), (20, 'b')";
        let boxes = "[table.box]\npartition = \"owner = {u.name}\"\n";
        let add = "ALTER TABLE part ADD COLUMN box_id INTEGER REFERENCES box(id);
            UPDATE part SET box_id = id / 10";
        let (mut center, mut remote) = changed(
            backend,
            schema,
            &format!("{boxes}[table.part]\n"),
            add,
            &format!("{boxes}[table.part]\nparent = \"box\"\n"),
        );
        let part = |id, name: &str| vec![int(id), text(name)];
        let changes = [
            Upload::Update("part", part(10, "a"), part(10, "mine")),
            Upload::Update("part", part(20, "b"), part(20, "not mine")),
            Upload::Insert("part", part(30, "of no box")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (1, 2, 0, 0, 2), "{backend:?}: {:?}", codes(&download));
        assert_eq!(center.list("SELECT name AS v FROM part ORDER BY id"), "mine,b", "{backend:?}");
    });
}

// S11, E23: an edit of nothing but a dropped column is in the center's reject table too.
#[test]
fn the_center_keeps_what_a_remote_said_of_a_dropped_column() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, note TEXT);
            INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', NULL)";
        let (mut center, mut remote) = changed(
            backend,
            schema,
            "[table.t]",
            "ALTER TABLE t DROP COLUMN note",
            "[table.t]\ndropped = [\"note\"]",
        );
        let row = |id, v: &str, note: Value| vec![int(id), text(v), note];
        let changes = [
            Upload::Update("t", row(1, "a", Value::Null), row(1, "a", text("only this"))),
            Upload::Update("t", row(2, "b", Value::Null), row(2, "bb", text("this too"))),
            Upload::Insert("t", row(3, "c", text("and this"))),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (1, 2, 0, 0, 3), "{backend:?}");
        let told: Vec<Value> = codes(&download).into_iter().map(|(key, _)| key).collect();
        assert_eq!(told, [int(1), int(2), int(3)], "where the remote has them");
        let prefix = backend.pick("", "syncline.");
        let kept = center.rows(&format!(
            "SELECT operation, row_key, code, row_content FROM {prefix}syncline_reject \
             ORDER BY row_key"
        ));
        let word = |value: &Value| value.as_ref().display();
        assert_eq!(kept.len(), 3, "{backend:?}: {kept:?}");
        for (row, said) in kept.iter().zip(["only this", "this too", "and this"]) {
            assert_eq!(row[2], int(i64::from(Code::ColumnDropped.number())), "{backend:?}");
            assert!(word(&row[3]).contains(said), "{backend:?}: {row:?}");
        }
    });
}

// H1, S5: a key of columns that the remote has: rows are found by it.
#[test]
fn rows_are_found_by_a_new_key_whose_columns_the_remote_has() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, code TEXT NOT NULL, v TEXT);
            INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'x')";
        let alter = backend.pick(
            "CREATE TABLE fresh (id INTEGER NOT NULL, code TEXT NOT NULL PRIMARY KEY, v TEXT);
             INSERT INTO fresh SELECT * FROM t; DROP TABLE t; ALTER TABLE fresh RENAME TO t",
            "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (code)",
        );
        let (mut center, mut remote) = changed(backend, schema, "[table.t]", alter, "[table.t]");
        let row = |id, code: &str, v: &str| vec![int(id), text(code), text(v)];
        let changes = [
            Upload::Update("t", row(1, "a", "x"), row(1, "a", "y")),
            // What was an ordinary update would change the key of today.
            Upload::Update("t", row(2, "b", "x"), row(2, "bb", "x")),
            Upload::Insert("t", row(4, "d", "x")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (1, 2, 0, 0, 1), "{backend:?}: {:?}", codes(&download));
        let told: Vec<_> = download.rejects.iter().map(|(.., code)| *code).collect();
        assert_eq!(told, [Code::RowKeyFixed.number()], "{backend:?}");
        let held = center.list("SELECT id || code || v AS v FROM t ORDER BY code");
        assert_eq!(held, "1ay,2bx,3cx,4dx", "{backend:?}");
    });
}

/// Scripts of a user for `t` of today: they set and compare `added`, which the remote lacks, and
/// `c`, which it knows as `b`.
const OWN: [(&str, Event, &str); 3] = [
    ("t", UploadInsert, "INSERT INTO t (id, a, c, added) VALUES ({r.id, r.a, r.c, r.added})"),
    (
        "t",
        UploadUpdate,
        "UPDATE t SET a = {r.a}, c = {r.c}, added = {r.added} WHERE id = {r.id}
             AND a IS NOT DISTINCT FROM {o.a} AND c IS NOT DISTINCT FROM {o.c}
             AND added IS NOT DISTINCT FROM {o.added}",
    ),
    (
        "t",
        UploadDelete,
        "DELETE FROM t WHERE id = {r.id} AND c IS NOT DISTINCT FROM {o.4}
             AND added IS NOT DISTINCT FROM {r.2}",
    ),
];

/// A remote that holds `t` without `added`, which stands among the columns that it has, and a
/// center with scripts of a user for all of it.
fn owned(
    backend: Backend,
    keys: &str,
    scripts: &[(&str, Event, &str)],
) -> (Center, Remote, Vec<String>) {
    let schema =
        "CREATE TABLE t (id integer PRIMARY KEY, added text DEFAULT 'new', a text, b text);
        CREATE TABLE gone (id integer, added text);
        INSERT INTO t (id, added, a, b) VALUES (1, 'x1', 'a', 'b'), (2, 'x2', 'a', 'b'),
            (3, 'x3', 'a', 'b'), (4, 'x4', 'a', 'b'), (5, 'x5', 'a', 'b'), (6, NULL, 'a', 'b')";
    let before = "[table.t]\ncolumns = [\"id\", \"a\", \"b\"]\n";
    let mut center = Center::on(backend, schema, before);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    center.foreign("ALTER TABLE t RENAME COLUMN b TO c");
    let after = format!("[table.t]\nrenamed = {{ c = \"b\" }}\n{keys}");
    let notices = center.deploy_own(&after, scripts).unwrap().notices;
    (center, remote, notices)
}

fn own_row(id: i64, a: &str, b: &str) -> Row {
    vec![int(id), text(a), text(b)]
}

fn own_update(id: i64, a: &str, b: &str) -> Upload {
    Upload::Update("t", own_row(id, "a", "b"), own_row(id, a, b))
}

fn own_delete(id: i64) -> Upload {
    Upload::Delete("t", own_row(id, "a", "b"))
}

fn owned_rows(center: &Center) -> String {
    center.list("SELECT id || a || c || coalesce(added, '-') AS v FROM t ORDER BY id")
}

// S1, S5, Trap 24: all of it became rejects. What the remote lacks stays as it is at the center,
// and no conflict is found in it.
#[test]
fn a_script_of_a_user_for_the_columns_of_today_takes_rows_of_an_older_definition() {
    Backend::each(|backend| {
        let (mut center, mut remote, notices) = owned(backend, "", &OWN);
        let changes = [
            own_update(1, "A", "b"),
            own_update(2, "a", "B"),
            own_update(6, "A", "B"),
            Upload::Insert("t", own_row(9, "n", "m")),
            own_delete(3),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (1, 3, 1, 0, 0), "{backend:?}: {:?}", codes(&download));
        let held = "1Abx1,2aBx2,4abx4,5abx5,6AB-,9nm-";
        assert_eq!(owned_rows(&center), held, "{backend:?}");
        assert_eq!(notices, ["t: column added is published from now on"], "{backend:?}");
        // With the tables of today it has all of that.
        let mut came: Vec<Row> = download.upserts.into_iter().map(|(_, row)| row).collect();
        came.sort_by_key(|row| row[0].as_ref().display());
        assert_eq!(came[0], [int(1), text("x1"), text("A"), text("b")], "{backend:?}");
        let edit = |added: &str| vec![int(1), text(added), text("A"), text("b")];
        let change = Upload::Update("t", edit("x1"), edit("y"));
        let (applied, _) = center.synchronize(&mut remote, &[change]);
        assert_eq!(counts(&applied), (0, 1, 0, 0, 0), "{backend:?}");
        assert_eq!(owned_rows(&center), held.replace("x1", "y"), "{backend:?}");
    });
}

// S5: what the remote has and the center has changed is a conflict as before.
#[test]
fn a_conflict_of_an_older_definition_is_found_behind_a_script_of_a_user() {
    for (rule, kept) in [
        ("consolidated_wins", "1Abx1,2zby2,3azx3,4abx4,5abx5"),
        ("remote_wins", "1Abx1,2Aby2,4abx4,5abx5,6ABnew"),
    ] {
        Backend::each(|backend| {
            let keys = format!("conflict = \"{rule}\"\n");
            let (mut center, mut remote, _) = owned(backend, &keys, &OWN);
            center.foreign(
                "UPDATE t SET a = 'z', added = 'y2' WHERE id = 2; UPDATE t SET c = 'z' WHERE id = 3;
                 DELETE FROM t WHERE id = 6",
            );
            let changes = [
                own_update(1, "A", "b"),
                own_update(2, "A", "b"),
                own_update(6, "A", "B"),
                own_delete(3),
            ];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            let what = format!("{backend:?} {rule}");
            assert_eq!(counts(&applied), (0, 3, 1, 3, 0), "{what}: {:?}", codes(&download));
            assert_eq!(owned_rows(&center), kept, "{what}");
        });
    }
}

// S5: scripts that find and resolve conflicts compare what the remote has. What it lacks is to them
// as the center has it.
#[test]
fn scripts_of_a_user_resolve_conflicts_of_an_older_definition() {
    let update = (
        "t",
        UploadUpdate,
        "UPDATE t SET a = {r.a}, c = {r.c}, added = {r.added} WHERE id = {r.id}",
    );
    let counted = ("t", UploadUpdate, OWN[1].2);
    let fetch = "SELECT id, added, a, c FROM t WHERE id = {r.id}";
    let resolve = (
        "t",
        ResolveConflict,
        "UPDATE t SET a = a || {o.a} || {r.a}, c = c || {r.added} WHERE id = {r.id}",
    );
    let (rows, columns) = (("t", UploadFetch, fetch), ("t", UploadFetchColumnConflict, fetch));
    for (scripts, conflicts, second) in [
        (&[update, rows, resolve][..], 2, "2zaaby2y2"),
        (&[counted, resolve], 2, "2zaaby2y2"),
        (&[resolve], 2, "2zaaby2y2"),
        (&[update, columns, resolve], 1, "2zBy2"),
    ] {
        Backend::each(|backend| {
            let (mut center, mut remote, _) = owned(backend, "", scripts);
            center.foreign(
                "UPDATE t SET a = 'z', added = 'y1' WHERE id = 1;
                 UPDATE t SET a = 'z', added = 'y2' WHERE id = 2;
                 UPDATE t SET added = 'y3' WHERE id = 3",
            );
            let changes =
                [own_update(1, "A", "b"), own_update(2, "a", "B"), own_update(3, "A", "b")];
            let (applied, download) = center.synchronize(&mut remote, &changes);
            let what = format!("{backend:?} {scripts:?}");
            assert_eq!(counts(&applied), (0, 3, 0, conflicts, 0), "{what}: {:?}", codes(&download));
            let sql = "SELECT id || a || c || added AS v FROM t WHERE id < 4 ORDER BY id";
            let held = center.list(sql);
            assert_eq!(held, format!("1zaAby1y1,{second},3Aby3"), "{what}");
        });
    }
}

// The script sees what the row was, whatever its statements have done with it.
#[test]
fn all_statements_of_a_script_see_what_the_center_had_of_a_column_that_the_remote_lacks() {
    Backend::each(|backend| {
        let keep = "DELETE FROM t WHERE id = {o.id};
            INSERT INTO gone VALUES ({o.id}, {o.added})";
        let (mut center, mut remote, _) = owned(backend, "", &[("t", UploadDelete, keep)]);
        let (applied, _) = center.synchronize(&mut remote, &[own_delete(1), own_delete(6)]);
        assert_eq!(counts(&applied), (0, 0, 2, 0, 0), "{backend:?}");
        let kept = center.list("SELECT id || coalesce(added, '-') AS v FROM gone ORDER BY id");
        assert_eq!(kept, "1x1,6-", "{backend:?}");
        assert_eq!(owned_rows(&center), "2abx2,3abx3,4abx4,5abx5", "{backend:?}");
    });
}

// The other events are generated: a new row gets the default of what the remote lacks.
#[test]
fn generated_scripts_beside_one_of_a_user_take_an_older_definition_as_before() {
    Backend::each(|backend| {
        let (mut center, mut remote, _) = owned(backend, "", &[OWN[1]]);
        center.foreign("UPDATE t SET a = 'z' WHERE id = 5");
        let changes = [
            own_update(1, "A", "b"),
            Upload::Insert("t", own_row(9, "n", "m")),
            own_delete(3),
            own_delete(5),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (1, 1, 2, 1, 0), "{backend:?}: {:?}", codes(&download));
        let held = "1Abx1,2abx2,4abx4,5zbx5,6ab-,9nmnew";
        assert_eq!(owned_rows(&center), held, "{backend:?}");
    });
}

#[test]
fn what_a_script_of_a_user_ignores_is_ignored_under_an_older_definition() {
    Backend::each(|backend| {
        let ignore = ("t", UploadUpdate, "--{ignore}\n");
        let (mut center, mut remote, _) = owned(backend, "", &[ignore, OWN[2]]);
        let changes = [own_update(1, "A", "b"), own_delete(2)];
        let (applied, _) = center.synchronize(&mut remote, &changes);
        assert_eq!((counts(&applied), applied.ignored), ((0, 0, 1, 0, 0), 1), "{backend:?}");
        assert_eq!(owned_rows(&center), "1abx1,3abx3,4abx4,5abx5,6ab-", "{backend:?}");
    });
}

// S7: the column that decides is one that the remote lacks.
#[test]
fn a_script_of_a_user_stays_within_a_partition_that_an_older_definition_does_not_know() {
    Backend::each(|backend| {
        let partition = "partition = \"added = {u.name}\"\n";
        let (mut center, mut remote, _) = owned(backend, partition, &OWN);
        remote.claims.insert("name".into(), "x1".into());
        let changes = [
            own_update(1, "A", "b"),
            own_update(2, "A", "b"),
            Upload::Insert("t", own_row(9, "n", "m")),
            own_delete(3),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(counts(&applied), (1, 2, 1, 0, 3), "{backend:?}");
        let outside = Code::RowOutsideSubscription.number();
        assert_eq!(codes(&download), [2, 3, 9].map(|id| (int(id), outside)), "{backend:?}");
        assert_eq!(owned_rows(&center), "1Abx1,2abx2,3abx3,4abx4,5abx5,6ab-", "{backend:?}");
    });
}

// Where nothing is generated.
#[test]
fn scripts_of_a_user_alone_take_an_older_definition() {
    Backend::each(|backend| {
        let (mut center, mut remote, _) = owned(backend, "", &OWN);
        let only = "scripts = \"own\"\n[table.t]\ndirection = \"upload_only\"\n\
            renamed = { c = \"b\" }\n";
        center.deploy_own(only, &OWN).unwrap();
        center.foreign("UPDATE t SET a = 'z' WHERE id = 2");
        let changes = [
            own_update(1, "A", "b"),
            own_update(2, "A", "b"),
            Upload::Insert("t", own_row(9, "n", "m")),
            own_delete(3),
        ];
        let applied = center.upload(&mut remote, &changes).unwrap();
        assert_eq!(counts(&applied), (1, 2, 1, 1, 0), "{backend:?}");
        assert_eq!(owned_rows(&center), "1Abx1,2zbx2,4abx4,5abx5,6ab-,9nm-", "{backend:?}");
    });
}

// S1: what a script leaves alone is told, and the remote gets the row of the center.
#[test]
fn what_the_remote_is_owed_of_an_older_definition_comes_back() {
    Backend::each(|backend| {
        let never = "UPDATE t SET added = {r.added} WHERE id = {r.id} AND 1 = 0";
        let (mut center, mut remote, _) = owned(backend, "", &[("t", UploadUpdate, never)]);
        let (applied, download) = center.synchronize(&mut remote, &[own_update(2, "A", "b")]);
        assert_eq!(counts(&applied), (0, 1, 0, 0, 1), "{backend:?}");
        assert_eq!(codes(&download), [(int(2), Code::RowVetoed.number())], "{backend:?}");
        let row = vec![int(2), text("x2"), text("a"), text("b")];
        assert!(download.upserts.contains(&("t".to_owned(), row)), "{backend:?}");
    });
}
