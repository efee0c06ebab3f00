//! A table that was filled out of sight is the same as one that was written in place.

use super::*;
use crate::apply::apply_once;
use crate::testing::{Incoming, Site, int, text};
use model::{Code, Value};

/// Tables of all kinds, and what an owner may have added.
const KINDS: &str = "
    CREATE TABLE \"a parent\" (id INTEGER PRIMARY KEY AUTOINCREMENT, code TEXT UNIQUE,
        size INTEGER CHECK (size >= 0), twice INTEGER AS (size * 2) STORED,
        boss INTEGER REFERENCES \"a parent\" ON DELETE SET NULL);
    CREATE TABLE child (k TEXT COLLATE NOCASE, n INTEGER, parent INTEGER NOT NULL
        REFERENCES \"a parent\" (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, note ANY,
        PRIMARY KEY (k, n DESC), UNIQUE (note)) WITHOUT ROWID, STRICT;
    CREATE TABLE by_text (id TEXT PRIMARY KEY, parent TEXT,
        FOREIGN KEY (parent) REFERENCES \"a parent\" (code) ON UPDATE CASCADE);
    CREATE INDEX by_size ON \"a parent\" (size DESC, lower(code)) WHERE size > 1;
    CREATE UNIQUE INDEX by_note ON child (parent, note COLLATE RTRIM);
    CREATE VIEW everything AS SELECT p.code, c.note FROM \"a parent\" AS p JOIN child AS c
        ON c.parent = p.id;
    CREATE TABLE own (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES \"a parent\"
        ON DELETE CASCADE, at);
    CREATE TRIGGER \"on parents\" AFTER INSERT ON \"a parent\"
        BEGIN INSERT INTO own (parent, at) VALUES (NEW.id, NEW.code); END;";

const SEARCH: &str =
    "CREATE VIRTUAL TABLE search USING fts5 (code, content='a parent', content_rowid='id')";

/// A remote with tables of all kinds, none of them received yet.
fn kinds(fills: bool) -> Site {
    let mut site = site(KINDS, fills);
    let published: Vec<_> = site
        .all_tables()
        .into_iter()
        .filter(|table| ["a parent", "child", "by_text"].contains(&table.name.as_str()))
        .collect();
    site.publish(&published);
    site.write(SEARCH);
    site
}

fn site(sql: &str, fills: bool) -> Site {
    let mut site = Site::empty();
    site.write(sql);
    site.remote.fill_hidden_from(if fills { 1 } else { u64::MAX });
    site
}

/// Every row and every definition that the file has, and whether it is whole.
fn content(site: &Site) -> Vec<String> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
        AND name NOT LIKE 'search%' ORDER BY name";
    let mut lines = site.rows("SELECT type, name, tbl_name, sql FROM sqlite_schema");
    for name in site.rows(tables) {
        let name = name.trim_matches('\'');
        lines.push(format!("== {name}"));
        let mut rows = site.rows(&format!("SELECT * FROM {}", ident(name)));
        rows.sort();
        // Some other facts that are forgotten stay like this too.
        lines.extend(rows.into_iter().filter(|row| *row != format!("'{FILLING}', NULL")));
    }
    lines.extend(site.rows("PRAGMA integrity_check"));
    lines.extend(site.rows("PRAGMA foreign_key_check"));
    lines
}

/// Where the tables begin in the file.
fn pages(site: &Site) -> Vec<String> {
    site.rows(
        "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name IN
         (SELECT name FROM syncline_table) ORDER BY name",
    )
}

/// Does the same at two remotes, one of which fills out of sight; both must be the same
/// afterwards. Yields it, and the outcome.
fn both(
    make: &dyn Fn(bool) -> Site,
    before: &dyn Fn(&Site),
    download: &dyn Fn(Incoming<'_>) -> Incoming<'_>,
) -> (Site, Result<(), Code>) {
    let apply = |fills: bool| {
        let mut site = make(fills);
        before(&site);
        let outcome = download(site.download()).apply().map_err(|failure| failure.code());
        (site, outcome)
    };
    let (filled, outcome) = apply(true);
    let (plain, expected) = apply(false);
    assert_eq!(outcome, expected);
    pretty(&content(&filled), &content(&plain));
    (filled, outcome)
}

fn pretty(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

fn parents(incoming: Incoming<'_>) -> Incoming<'_> {
    let parent = |id: i64, code: &str, boss: Value| [int(id), text(code), int(id % 7), boss];
    let mut rows = vec![parent(900, "late", int(1))];
    rows.extend((1..60).map(|id| parent(id, &format!("c{id}"), int(1 + id * 11 % 59))));
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    incoming.refresh("a parent").upsert("a parent", &rows)
}

fn children(incoming: Incoming<'_>) -> Incoming<'_> {
    let rows: Vec<[Value; 4]> =
        (1..90).map(|n| [text("Key"), int(n), int(1 + n % 59), text(&format!("n{n}"))]).collect();
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    incoming.refresh("child").upsert("child", &rows)
}

fn by_text(incoming: Incoming<'_>) -> Incoming<'_> {
    let rows: Vec<[Value; 2]> =
        (1..50).map(|n| [text(&format!("t{n}")), text(&format!("c{n}"))]).collect();
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    incoming.refresh("by_text").upsert("by_text", &rows)
}

fn everything(incoming: Incoming<'_>) -> Incoming<'_> {
    // Children before their parents.
    parents(by_text(children(incoming)))
}

// S3, S4: a table that takes the place of another must not differ from one that was written in
// place: not in a definition, not in a row, not in the next key that it gives out.
#[test]
fn tables_of_all_kinds_are_as_if_they_had_been_written_in_place() {
    let before = pages(&kinds(true));
    let (filled, outcome) = both(&kinds, &|_| {}, &everything);
    outcome.unwrap();
    let after = pages(&filled);
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{after:?}");
    assert_eq!(filled.rows("SELECT count(*) FROM everything"), ["89"]);
    // Whoever writes now meets the triggers, the owner's and those that capture.
    filled.write("INSERT INTO \"a parent\" (code, size) VALUES ('own', 3)");
    assert_eq!(filled.rows("SELECT id, twice FROM \"a parent\" WHERE code = 'own'"), ["901, 6"]);
    assert_eq!(filled.rows("SELECT parent, at FROM own"), ["901, 'own'"]);
    assert!(filled.try_write("INSERT INTO \"a parent\" (code) VALUES ('c7')").is_err());
    assert!(filled.try_write("INSERT INTO child VALUES ('KEY', 7, 1, 'x')").is_err());
    filled.write("DELETE FROM by_text WHERE parent = 'c2'; DELETE FROM \"a parent\" WHERE id = 2");
    assert_eq!(filled.rows("SELECT count(*) FROM child WHERE parent = 2"), ["0"]);
    let mut filled = filled;
    let upload = filled.upload();
    assert!(upload.contains(&"insert a parent (901, 'own', 3, NULL)".to_owned()), "{upload:?}");
}

#[test]
fn tables_are_filled_in_files_of_every_make() {
    for pragma in ["auto_vacuum = FULL", "auto_vacuum = INCREMENTAL", "page_size = 512"] {
        for journal in ["WAL", "DELETE"] {
            let make = |fills: bool| {
                let mut site = Site::empty();
                let setup = format!(
                    "PRAGMA journal_mode = DELETE; PRAGMA {pragma}; VACUUM;
                     PRAGMA journal_mode = {journal};"
                );
                site.remote.connection.execute_batch(&setup).unwrap();
                site.write(KINDS);
                site.remote.fill_hidden_from(if fills { 1 } else { u64::MAX });
                let tables = site.all_tables().into_iter();
                let published: Vec<_> = tables.filter(|table| table.name != "own").collect();
                site.publish(&published);
                site
            };
            let (site, outcome) = both(&make, &|_| {}, &everything);
            outcome.unwrap();
            assert_eq!(site.rows("SELECT count(*) FROM by_text"), ["49"]);
        }
    }
}

// S1, Trap 7: rows that an application has written into the empty table are its changes, whether
// or not the center has rows with their keys.
#[test]
fn rows_that_were_written_meanwhile_stay_changes_beside_what_comes() {
    let write = |site: &Site| {
        site.write(
            "INSERT INTO \"a parent\" (id, code, size) VALUES (5, 'mine', 1), (700, 'other', 2);
             INSERT INTO child VALUES ('key', 3, 5, 'mine'), ('elsewhere', 1, 700, 'too');
             INSERT INTO \"a parent\" (id, code) VALUES (6, 'gone'), (701, 'gone too');
             DELETE FROM \"a parent\" WHERE id IN (6, 701);
             INSERT INTO by_text VALUES ('t8', 'mine');
             UPDATE by_text SET id = 't9';",
        );
    };
    let (mut site, outcome) = both(&kinds, &write, &everything);
    outcome.unwrap();
    assert_eq!(site.rows("SELECT code FROM \"a parent\" WHERE id IN (5, 6)"), ["'mine'", "'c6'"]);
    let incoming = "SELECT new_code FROM \"syncline_incoming_a parent\"";
    assert_eq!(site.rows(incoming), ["'c5'"]);
    assert_eq!(
        site.upload(),
        [
            "insert a parent (5, 'mine', 1, NULL)",
            "insert a parent (700, 'other', 2, NULL)",
            "insert child ('elsewhere', 1, 700, 'too')",
            "insert child ('key', 3, 5, 'mine')",
            "insert by_text ('t9', 'mine')",
        ]
    );
}

#[test]
fn a_row_in_the_way_of_one_that_comes_is_uploaded_first() {
    let write = |site: &Site| {
        site.write("INSERT INTO \"a parent\" (id, code) VALUES (5000, 'c5')");
    };
    let (site, outcome) = both(&kinds, &write, &everything);
    assert_eq!(outcome, Err(Code::ApplyBlocked));
    assert_eq!(site.rows("SELECT id, code FROM \"a parent\""), ["5000, 'c5'"]);
}

#[test]
fn rows_that_the_center_knows_already_are_written_in_place() {
    let make = |fills: bool| {
        let mut site = kinds(fills);
        parents(site.download()).apply().unwrap();
        site
    };
    let before = |site: &Site| site.write("UPDATE \"a parent\" SET size = 99 WHERE id = 7");
    both(&make, &before, &everything).1.unwrap();
}

#[test]
fn rows_that_a_table_of_the_file_refuses_are_kept_back() {
    let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL CHECK (a <> 'bad'), b);
               CREATE UNIQUE INDEX own_index ON t (b) WHERE id < 10";
    let make = |fills: bool| {
        let mut site = site(sql, fills);
        site.publish(&site.all_tables());
        site
    };
    fn refused(incoming: Incoming<'_>) -> Incoming<'_> {
        let rows: Vec<[Value; 3]> = (1..40)
            .map(|n| match n {
                17 => [int(n), text("bad"), Value::Null],
                23 => [int(n), Value::Null, int(n)],
                _ => [int(n), text("good"), int(n)],
            })
            .collect();
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        incoming.refresh("t").upsert("t", &rows)
    }
    let (site, outcome) = both(&make, &|_| {}, &refused);
    outcome.unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM t"), ["37"]);
    assert_eq!(site.rows("SELECT key_id FROM syncline_incoming_t"), ["17", "23"]);
    // An index that only the file has refuses rows too; then all are written in place.
    fn twice(incoming: Incoming<'_>) -> Incoming<'_> {
        let row = |id: i64, b: i64| [int(id), text("x"), int(b)];
        let rows = [row(1, 1), row(2, 1), row(11, 5), row(12, 5)];
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        incoming.refresh("t").upsert("t", &rows)
    }
    let (site, outcome) = both(&make, &|_| {}, &twice);
    outcome.unwrap();
    assert_eq!(site.rows("SELECT id FROM t"), ["1", "11", "12"]);
}

#[test]
fn the_last_of_several_rows_with_a_key_counts_and_deletes_follow() {
    fn download(incoming: Incoming<'_>) -> Incoming<'_> {
        let later: [&[Value]; 2] = [
            &[int(3), text("third"), int(1), Value::Null],
            &[int(3), text("c4"), int(1), Value::Null],
        ];
        let other: [&[Value]; 1] = [&[int(4), text("fourth"), int(2), int(3)]];
        everything(incoming)
            .upsert("a parent", &later)
            .upsert("a parent", &other)
            .delete("a parent", &[&[int(10)], &[int(4000)]])
            .delete("by_text", &[&[text("t10")]])
            .delete("child", &[&[text("KEY"), int(9)], &[text("KEY"), int(68)]])
    }
    let (site, outcome) = both(&kinds, &|_| {}, &download);
    outcome.unwrap();
    let codes = "SELECT code FROM \"a parent\" WHERE id IN (3, 4)";
    assert_eq!(site.rows(codes), ["'c4'", "'fourth'"]);
}

// Trap 26: rows without a parent come, and are set aside.
#[test]
fn orphans_among_the_rows_are_set_aside() {
    fn download(incoming: Incoming<'_>) -> Incoming<'_> {
        let orphans: [&[Value]; 2] = [
            &[text("lost"), int(1), int(77_777), text("x")],
            &[text("lost"), int(2), int(1), text("y")],
        ];
        everything(incoming).upsert("child", &orphans)
    }
    let (site, outcome) = both(&kinds, &|_| {}, &download);
    outcome.unwrap();
    assert_eq!(site.rows("SELECT new_n FROM syncline_orphan_child"), ["1"]);
}

/// Fills out of sight, lets `meanwhile` happen, and applies the download.
fn apply_with_a_pause(site: &mut Site, meanwhile: &dyn Fn()) -> Result<(), Failure> {
    let incoming = everything(site.download());
    incoming.apply_by(&mut |connection, download, end, circumstances| {
        let fill = fill(connection, download, circumstances, &mut |_| {})?;
        assert_eq!(fill.tables.len(), 3);
        meanwhile();
        apply_once(connection, download, end, circumstances, &fill, &mut |_| {})?;
        fill.end(connection)
    })
}

fn writer(site: &Site) -> Connection {
    let connection = Connection::open(site.path()).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
}

// S1, S4: nobody sees a hidden row, and no foreign key reaches one. A delete of a parent that was
// made here would otherwise take along the center's children of another parent with its key.
#[test]
fn what_happens_while_rows_are_hidden_counts_for_visible_rows_only() {
    let mut site = kinds(true);
    let other = writer(&site);
    let count = |sql: &str| -> i64 { other.query_row(sql, [], |row| row.get(0)).unwrap() };
    apply_with_a_pause(&mut site, &|| {
        assert_eq!(count("SELECT count(*) FROM everything"), 0);
        let sql = "INSERT INTO \"a parent\" (id, code, size) VALUES (2, 'short', 1);
                   DELETE FROM \"a parent\" WHERE id = 2;
                   INSERT INTO \"a parent\" (id, code, size) VALUES (3, 'long', 1);
                   INSERT INTO \"a parent\" (code, size) VALUES ('next', 1)";
        other.execute_batch(sql).unwrap();
    })
    .unwrap();
    assert_eq!(count("SELECT count(*) FROM child"), 89);
    assert_eq!(count("SELECT count(*) FROM child WHERE parent = 2"), 2);
    let codes = "SELECT code FROM \"a parent\" WHERE id IN (2, 3)";
    assert_eq!(site.rows(codes), ["'c2'", "'long'"]);
    assert_eq!(site.rows("SELECT new_code FROM \"syncline_incoming_a parent\""), ["'c3'", "'c4'"]);
    assert_eq!(site.rows("PRAGMA integrity_check"), ["'ok'"]);
    assert_eq!(site.rows("PRAGMA foreign_key_check"), Vec::<String>::new());
    assert!(hidden::names(&site.remote.connection).unwrap().is_empty());
}

#[test]
fn a_table_that_changes_meanwhile_is_written_in_place() {
    for (sql, tables) in [
        ("CREATE INDEX another ON child (n)", 3),
        ("DROP INDEX by_size", 3),
        ("ALTER TABLE by_text ADD COLUMN mine DEFAULT 7", 3),
        ("VACUUM", 3),
        ("ANALYZE; INSERT INTO own (at) VALUES ('x')", 3),
    ] {
        let mut site = kinds(true);
        let other = writer(&site);
        apply_with_a_pause(&mut site, &|| other.execute_batch(sql).unwrap()).unwrap();
        assert_eq!(site.rows("SELECT count(*) FROM syncline_table"), [tables.to_string()]);
        assert_eq!(site.rows("SELECT count(*) FROM everything"), ["89"], "{sql}");
        assert_eq!(site.rows("SELECT count(*) FROM by_text"), ["49"], "{sql}");
        assert_eq!(site.rows("PRAGMA integrity_check"), ["'ok'"], "{sql}");
        assert!(hidden::names(&site.remote.connection).unwrap().is_empty(), "{sql}");
        assert_eq!(facts::get::<bool>(&site.remote.connection, FILLING).unwrap(), None, "{sql}");
    }
}

#[test]
fn a_table_whose_sql_makes_no_second_one_is_written_in_place() {
    for sql in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a CHECK (t.a IS NOT 7))",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t (a) WHERE t.a > 3",
    ] {
        let make = |fills: bool| {
            let mut site = site(sql, fills);
            site.publish(&site.all_tables());
            site
        };
        fn download(incoming: Incoming<'_>) -> Incoming<'_> {
            incoming.refresh("t").upsert("t", &[&[int(1), int(8)]])
        }
        let (site, outcome) = both(&make, &|_| {}, &download);
        outcome.unwrap();
        assert_eq!(site.rows("SELECT a FROM t"), ["8"]);
    }
}

// S4: whatever a dead attempt has left is removed: by the next one, by a reset, by a detach.
#[test]
fn what_was_left_behind_is_removed() {
    let left_behind = || {
        let mut site = kinds(true);
        let incoming = everything(site.download());
        incoming
            .apply_by(&mut |connection, download, _, circumstances| {
                fill(connection, download, circumstances, &mut |_| {}).map(drop)
            })
            .unwrap();
        assert_eq!(hidden::names(&site.remote.connection).unwrap().len(), 3);
        assert_eq!(site.rows("SELECT count(*) FROM everything"), ["0"]);
        site
    };
    let is_gone = |site: &Site| {
        hidden::names(&site.remote.connection).unwrap().is_empty()
            && site.rows("PRAGMA integrity_check") == ["'ok'"]
    };
    let mut site = left_behind();
    everything(site.download()).apply().unwrap();
    assert!(is_gone(&site));
    assert_eq!(site.rows("SELECT count(*) FROM everything"), ["89"]);

    let mut site = left_behind().opened_again();
    site.remote.reset(true).unwrap();
    assert!(is_gone(&site));

    let mut site = left_behind();
    site.remote.detach().unwrap();
    assert!(is_gone(&site));
}

#[test]
fn large_rows_are_never_few() {
    let mut site = site("CREATE TABLE t (id INTEGER PRIMARY KEY, a BLOB)", false);
    site.publish(&site.all_tables());
    let before = pages(&site);
    let large = Value::Blob(vec![7; (BYTES_MIN / 4) as usize]);
    let rows: Vec<[Value; 2]> = (1..=4).map(|id| [int(id), large.clone()]).collect();
    let mut incoming = site.download().refresh("t");
    for row in &rows {
        incoming = incoming.upsert("t", &[&row[..]]);
    }
    incoming.apply().unwrap();
    assert_ne!(pages(&site), before);
    assert_eq!(site.rows("SELECT sum(length(a)) FROM t"), [BYTES_MIN.to_string()]);
}
