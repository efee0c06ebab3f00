//! Any SQLite program may write to a remote and to the center, in any way that SQLite allows.
//!
//! Table-driven: a case is a schema, SQL at one remote and SQL at the center, run by the sqlite3
//! shell on one side and by Python on the other. Two remotes then synchronize, and all databases
//! must have the same rows, without a conflict or a reject unless the case says so. So no change
//! was lost, overwritten or invented.

#![allow(clippy::print_stdout, reason = "tells which case failed")]

use harness::{ForeignTool, Server, World, count, query, sql, tables};
use serde_json::{Value, json};
use std::fs;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

/// What may be different from case to case.
#[derive(Debug, Clone, Copy, Default)]
struct Case<'a> {
    name: &'a str,
    schema: &'a str,
    /// Options of tables, as in `model.toml`; empty: the model that `init` writes.
    model: &'a str,
    remote: &'a str,
    center: &'a str,
    conflicts: u64,
    rejected: u64,
}

/// Runs cases; who writes with which program alternates.
fn check(cases: &[Case<'_>]) {
    for (number, case) in cases.iter().enumerate() {
        let tool = ForeignTool::ALL[number % 2];
        println!("=== {}, {tool:?} at the remote", case.name);
        check_case(tool, case);
    }
}

fn check_case(tool: ForeignTool, case: &Case<'_>) -> (World, Server) {
    let (world, server) = deployed(case.schema, case.model);
    for name in ["a", "b"] {
        synchronize(&world, &server, name);
    }
    tool.sql(&world.remote("a"), case.remote);
    tool.other().sql(&world.consolidated(), case.center);
    let first = [synchronize(&world, &server, "a"), synchronize(&world, &server, "b")];
    let again = [synchronize(&world, &server, "a"), synchronize(&world, &server, "b")];
    let sum = |field: &str| -> u64 {
        first.iter().chain(&again).map(|report| report[field].as_u64().unwrap()).sum()
    };
    let (conflicts, rejected) = (sum("conflicts"), sum("rejected"));
    let told = format!("{}: {first:?}, then {again:?}", case.name);
    for name in ["a", "b"] {
        let lines = world.differences(name);
        assert!(lines.is_empty(), "{name} differs:\n{}\n{told}", lines.join("\n"));
    }
    for path in [world.remote("a"), world.remote("b"), world.consolidated()] {
        let broken = "SELECT count(*) FROM pragma_foreign_key_check";
        assert_eq!(count(&path, broken), 0, "{} {told}", path.display());
    }
    assert_eq!((conflicts, rejected), (case.conflicts, case.rejected), "{told}");
    if case.conflicts + case.rejected == 0 {
        // Nothing comes back to where it came from, and nothing is sent twice.
        for report in &again {
            assert_eq!(report["uploaded"], json!({ "inserts": 0, "updates": 0, "deletes": 0 }));
            assert_eq!(report["downloaded"], json!({ "upserts": 0, "deletes": 0 }), "{told}");
        }
    }
    (world, server)
}

/// A deployed schema with the user ann, and a server.
fn deployed(schema: &str, model: &str) -> (World, Server) {
    let world = World::without_deployment(PROGRAM, schema);
    world.syncline.ok(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
    if !model.is_empty() {
        fs::write(world.path("model.toml"), format!("script_version = \"v1\"\n{model}")).unwrap();
    }
    world.syncline.ok(&["deploy"]);
    world.add_user("ann");
    let server = world.serve();
    (world, server)
}

fn arguments<'a>(file: &'a str, server: &'a Server) -> Vec<&'a str> {
    let mut arguments = vec!["sync", file, "--server", &server.url, "--user", "ann"];
    arguments.extend(["--password-file", "ann.password", "--json"]);
    arguments
}

fn synchronize(world: &World, server: &Server, name: &str) -> Value {
    world.syncline.json(&arguments(&format!("{name}.db"), server))
}

/// Twelve rows with a primary key and two unique constraints; the remote changes the first six,
/// the center the others.
const UNIQUE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INTEGER, w TEXT,
        note TEXT, UNIQUE (v, w));
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
    INSERT INTO t SELECT i, 'u' || i, i, 'w' || i, 'note ' || i FROM n";

// Trap 9: victims of REPLACE leave no trace but what a trigger notes before they go.
#[test]
fn replace_takes_its_victims_along_everywhere() {
    let by_key =
        |id: u32| format!("INSERT OR REPLACE INTO t VALUES ({id}, 'x{id}', 0, 'r{id}', {id});");
    let by_unique = |id: u32, a: u32, b: u32| {
        format!("REPLACE INTO t VALUES ({id}, 'u{a}', {b}, 'w{b}', 'took {a} and {b}');")
    };
    let update = |id: u32, a: u32| format!("UPDATE OR REPLACE t SET u = 'u{a}' WHERE id = {id};");
    let chosen = |a: u32| format!("REPLACE INTO t (u, v, w) VALUES ('u{a}', 1000, 'new{a}');");
    let three = |id: u32, a: u32, b: u32| by_unique(id, a, b);
    let onto =
        |id: u32, other: u32| format!("UPDATE OR REPLACE t SET id = {other} WHERE id = {id};");
    // A row that the center knows keeps its key at a remote.
    let new_onto = |other: u32| {
        format!("INSERT INTO t VALUES (300, 'x300', 0, 'r300', NULL); {}", onto(300, other))
    };
    let pairs = [
        ("by the primary key", by_key(1), by_key(7)),
        ("by two unique constraints", by_unique(100, 2, 3), by_unique(200, 8, 9)),
        ("by key and both constraints", three(1, 2, 3), three(7, 8, 9)),
        ("by an update", update(1, 2), update(7, 8)),
        ("by an update of the key", new_onto(2), onto(7, 8)),
        ("where SQLite chooses the key", "".to_owned(), chosen(8)),
        ("where SQLite chooses the key of the remote", chosen(2), "".to_owned()),
        (
            "again and again",
            by_unique(100, 2, 3) + &by_unique(101, 2, 4) + &by_key(2) + &new_onto(5),
            by_unique(200, 8, 9) + &by_unique(201, 8, 10) + &by_key(8) + &onto(8, 11),
        ),
        (
            "with recursive triggers, which fire delete triggers too",
            format!("PRAGMA recursive_triggers = ON; {}{}", by_unique(100, 2, 3), update(1, 4)),
            format!("PRAGMA recursive_triggers = ON; {}{}", by_unique(200, 8, 9), update(7, 10)),
        ),
    ];
    let cases: Vec<Case<'_>> = pairs
        .iter()
        .map(|(name, remote, center)| Case {
            name,
            schema: UNIQUE,
            remote,
            center,
            ..Case::default()
        })
        .collect();
    check(&cases);
}

// Trap 9: the same with the other kinds of tables and indexes.
#[test]
fn replace_is_noticed_in_every_kind_of_table() {
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8)
        INSERT INTO t SELECT 'k' || i, i, 'u' || i, 'n' || i FROM n";
    let replaces = |a: u32, b: u32, new: &str| {
        format!(
            "REPLACE INTO t VALUES ('k{a}', {a}, '{new}1', 'replaced');
             REPLACE INTO t VALUES ('{new}', 100, 'U{b}', 'by unique');"
        )
    };
    let (remote, center) = (replaces(1, 2, "r"), replaces(5, 6, "c"));
    let schemas = [
        (
            "without rowid, strict, composite key, a unique index that ignores case",
            format!(
                "CREATE TABLE t (k TEXT, n INTEGER, u TEXT NOT NULL, note TEXT, PRIMARY KEY (k, n))
                     STRICT, WITHOUT ROWID;
                 CREATE UNIQUE INDEX i ON t (u COLLATE NOCASE); {rows}"
            ),
        ),
        (
            "a partial index",
            format!(
                "CREATE TABLE t (k TEXT NOT NULL, n INTEGER NOT NULL, u TEXT COLLATE NOCASE,
                     note TEXT, PRIMARY KEY (k, n));
                 CREATE UNIQUE INDEX i ON t (u) WHERE note <> 'other'; {rows}"
            ),
        ),
        (
            "a unique computed column",
            format!(
                "CREATE TABLE t (k TEXT NOT NULL PRIMARY KEY, n INTEGER, u TEXT, note TEXT,
                     low TEXT GENERATED ALWAYS AS (lower(u)) STORED UNIQUE,
                     twice INTEGER AS (n * 2)); {rows}"
            )
            .replace("INTO t SELECT", "INTO t (k, n, u, note) SELECT"),
        ),
    ];
    for (number, (name, schema)) in schemas.iter().enumerate() {
        let named = |sql: &str| sql.replace("INTO t VALUES", "INTO t (k, n, u, note) VALUES");
        let (remote, center) = (named(&remote), named(&center));
        let case = Case { name, schema, remote: &remote, center: &center, ..Case::default() };
        check_case(ForeignTool::ALL[number % 2], &case);
    }
}

// S3: keys change, in all the ways they can.
#[test]
fn primary_keys_are_updated_and_upserted() {
    let autoincrement = UNIQUE.replace("PRIMARY KEY,", "PRIMARY KEY AUTOINCREMENT,");
    let text = "CREATE TABLE t (k TEXT NOT NULL, n REAL NOT NULL, v, PRIMARY KEY (n, k));
        INSERT INTO t VALUES ('a', 1, 1), ('b', 2, 2), ('c', 3, 3), ('d', 4.5, 4), ('e', -1, 5),
            ('f', 9e999, 6), ('g', 7, 7), ('h', 8, 8)";
    let base = Case { schema: UNIQUE, ..Case::default() };
    check(&[
        Case {
            name: "moved out, and to where another was",
            remote: "INSERT INTO t (id, u) VALUES (99, 'n99'); UPDATE t SET id = 100 WHERE id = 99;
                DELETE FROM t WHERE id = 1; UPDATE t SET id = 1 WHERE id = 100;",
            center: "UPDATE t SET id = 200 WHERE id = 7; UPDATE t SET id = 7 WHERE id = 8;",
            ..base
        },
        Case {
            name: "two keys swap",
            remote: "INSERT INTO t (id, u) VALUES (91, 'n91'), (92, 'n92');
                UPDATE t SET id = -1 WHERE id = 91; UPDATE t SET id = 91 WHERE id = 92;
                UPDATE t SET id = 92 WHERE id = -1;",
            center: "UPDATE t SET id = -7 WHERE id = 7; UPDATE t SET id = 7 WHERE id = 8;
                UPDATE t SET id = 8 WHERE id = -7;",
            ..base
        },
        Case {
            name: "there and back, deleted and inserted again, inserted and deleted",
            remote: "INSERT INTO t (id, u) VALUES (50, 'n50');
                UPDATE t SET id = 51 WHERE id = 50; UPDATE t SET id = 50 WHERE id = 51;
                DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (2, 'other', 0, '', NULL);
                INSERT INTO t VALUES (60, 'x', 1, '', ''); DELETE FROM t WHERE id = 60;",
            center: "DELETE FROM t WHERE id = 8; INSERT INTO t VALUES (8, 'center', 0, 'z', NULL);",
            ..base
        },
        Case {
            name: "by rowid, and the key that SQLite chooses",
            remote: "INSERT INTO t (id, u) VALUES (99, 'n99');
                UPDATE t SET rowid = 100 WHERE _rowid_ = 99; INSERT INTO t (u) VALUES ('next');
                INSERT INTO t (id, u) VALUES (NULL, 'one more'); DELETE FROM t WHERE id = 102;",
            center: "UPDATE t SET oid = 200 WHERE id = 7; INSERT INTO t (u) VALUES ('at center');",
            ..base
        },
        Case {
            name: "autoincrement",
            schema: &autoincrement,
            remote: "DELETE FROM t WHERE id = 12; INSERT INTO t (u) VALUES ('next');",
            center: "UPDATE t SET id = 500 WHERE id = 11;",
            ..base
        },
        Case {
            name: "upserts",
            remote: "INSERT INTO t VALUES (1, 'new', 1, 'q', NULL) ON CONFLICT (id) DO UPDATE
                    SET u = excluded.u, note = note || '!';
                INSERT INTO t VALUES (70, 'u2', 70, '', NULL) ON CONFLICT (u) DO UPDATE SET w = 'm';
                INSERT INTO t VALUES (3, 'u4', 5, 'w5', NULL) ON CONFLICT DO NOTHING;
                INSERT OR IGNORE INTO t VALUES (71, 'u4', 5, 'w5', NULL);",
            center: "INSERT INTO t VALUES (7, 'c', 7, 'q', 'n') ON CONFLICT (id) DO UPDATE
                    SET u = excluded.u; REPLACE INTO t VALUES (72, 'u9', 10, 'w10', NULL);",
            ..base
        },
        Case {
            name: "composite keys of text and real, VACUUM before synchronizing",
            schema: text,
            remote: "DELETE FROM t WHERE k = 'a'; INSERT INTO t VALUES ('b', -9e999, 20);
                INSERT INTO t VALUES ('ä''\"', 3, 30); UPDATE t SET v = 40 WHERE n = 4.5;
                DELETE FROM t WHERE n = 9e999; VACUUM;",
            center: "DELETE FROM t WHERE k = 'e'; UPDATE t SET n = 0.1, k = '' WHERE k = 'g';
                VACUUM;",
            ..base
        },
    ]);
}

// S3: names and kinds that a program that quotes carelessly would stumble over.
#[test]
fn every_kind_of_table_travels() {
    let quoted = "CREATE TABLE \"order line's \"\"big\"\" [x]\" (\"primary key\" TEXT NOT NULL,
            \"select\" INTEGER, `a.b` TEXT, [ö €] BLOB, PRIMARY KEY (\"primary key\"));
        INSERT INTO \"order line's \"\"big\"\" [x]\" VALUES ('1', 1, 'a', x'00'),
            ('2', 2, 'b', NULL),
            ('3', 3, 'c', ''), ('4', 4, 'd', 4.0)";
    let nocase =
        "CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, v TEXT COLLATE RTRIM);
        INSERT INTO t VALUES ('Ann', 'x'), ('Ben', 'x'), ('Cleo', 'x'), ('Dora', 'x')";
    let untyped = "CREATE TABLE t (k PRIMARY KEY NOT NULL, v) WITHOUT ROWID;
        INSERT INTO t VALUES (1, 1), ('1', '1'), (x'31', x'31'), (2.5, 2.5), ('', ''), (x'', x'')";
    let only_key = "CREATE TABLE t (a INTEGER NOT NULL, b INTEGER NOT NULL, PRIMARY KEY (b, a))
            WITHOUT ROWID; INSERT INTO t VALUES (1, 2), (2, 1), (3, 3)";
    let generated = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER CHECK (a >= 0), b INTEGER,
            total INTEGER GENERATED ALWAYS AS (a * b) STORED, half AS (a / 2.0) VIRTUAL);
        CREATE INDEX i ON t (total); CREATE INDEX j ON t (a + b) WHERE a > 1;
        INSERT INTO t VALUES (1, 2, 3), (2, 3, 4), (3, 4, 5)";
    let q = "\"order line's \"\"big\"\" [x]\"";
    check(&[
        Case {
            name: "names that need quotes",
            schema: quoted,
            remote: &format!(
                "UPDATE {q} SET [ö €] = x'ff', \"select\" = 0 WHERE \"primary key\" = '1';
                 REPLACE INTO {q} VALUES ('2', 22, 'r', NULL); INSERT INTO {q} (\"primary key\")
                 VALUES ('new'); DELETE FROM {q} WHERE `a.b` = 'c'; VACUUM;"
            ),
            center: &format!("UPDATE {q} SET `a.b` = 'center' WHERE \"primary key\" = '4';"),
            ..Case::default()
        },
        Case {
            name: "keys that ignore case change their case",
            schema: nocase,
            remote: "UPDATE t SET v = 'y' WHERE k = 'ann'; UPDATE t SET v = 'X' WHERE k = 'BEN';
                REPLACE INTO t VALUES ('EVE', 'new');",
            center: "UPDATE t SET k = 'CLEO' WHERE k = 'cleo';
                REPLACE INTO t VALUES ('dora', 'y');",
            ..Case::default()
        },
        Case {
            name: "no types: 1, '1' and x'31' are three keys",
            schema: untyped,
            remote: "UPDATE t SET v = 'int' WHERE k = 1; DELETE FROM t WHERE k = '1';
                DELETE FROM t WHERE k = x'31'; INSERT INTO t VALUES (x'32', x'31');",
            center: "UPDATE t SET v = 'empty blob' WHERE k = x''; DELETE FROM t WHERE k = '';",
            ..Case::default()
        },
        Case {
            name: "nothing but a key",
            schema: only_key,
            remote: "INSERT INTO t VALUES (5, 5); DELETE FROM t WHERE a = 1;
                REPLACE INTO t VALUES (3, 3);",
            center: "UPDATE t SET a = 9 WHERE a = 2;",
            ..Case::default()
        },
        Case {
            name: "computed columns, indexes over expressions",
            schema: generated,
            remote: "UPDATE t SET a = 10 WHERE id = 1; INSERT INTO t (id, a, b) VALUES (9, 9, 9);",
            center: "UPDATE t SET b = 7 WHERE id = 2; DELETE FROM t WHERE id = 3;",
            ..Case::default()
        },
    ]);
}

const FAMILY: &str = "CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
    CREATE TABLE child (id TEXT PRIMARY KEY NOT NULL, v,
        cascading INTEGER REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE,
        nulling TEXT REFERENCES parent (name) ON DELETE SET NULL ON UPDATE CASCADE,
        falling INTEGER DEFAULT 1 REFERENCES parent ON DELETE SET DEFAULT ON UPDATE SET NULL);
    CREATE TABLE grandchild (a INTEGER, b TEXT, PRIMARY KEY (a, b),
        FOREIGN KEY (b) REFERENCES child ON DELETE CASCADE ON UPDATE CASCADE) WITHOUT ROWID;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
    INSERT INTO parent SELECT i, 'p' || i FROM n;
    INSERT INTO child
        SELECT 'c' || id, id, id, 'p' || (id % 12 + 1), (id + 1) % 12 + 1 FROM parent;
    INSERT INTO grandchild SELECT 1, id FROM child UNION ALL SELECT 2, id FROM child";

// Trap 11: cascades change rows that the statement does not name.
#[test]
fn cascades_are_changes_like_any_other() {
    let base = Case { schema: FAMILY, ..Case::default() };
    check(&[
        Case {
            name: "deletes cascade, set NULL and set defaults",
            remote: "DELETE FROM parent WHERE id IN (2, 3);",
            center: "DELETE FROM parent WHERE id IN (7, 8);",
            ..base
        },
        Case {
            name: "updates of keys cascade",
            remote: "UPDATE parent SET name = 'new' WHERE id = 2;
                INSERT INTO child (id) VALUES ('n'); INSERT INTO grandchild VALUES (1, 'n');
                UPDATE child SET id = 'c103' WHERE id = 'n';",
            center: "UPDATE parent SET id = 108, name = 'center' WHERE id = 8;
                UPDATE child SET id = 'c109' WHERE id = 'c9';",
            ..base
        },
        Case {
            name: "REPLACE of a parent cascades",
            remote: "REPLACE INTO parent VALUES (2, 'p2'); REPLACE INTO parent VALUES (103, 'p3');",
            center: "REPLACE INTO parent VALUES (8, 'p8'); REPLACE INTO parent VALUES (109, 'p9');",
            ..base
        },
        Case {
            name: "a row goes by cascade and comes again",
            remote: "DELETE FROM parent WHERE id = 2; INSERT INTO parent VALUES (2, 'p2');
                INSERT INTO child VALUES ('c2', 'again', 2, 'p2', NULL);",
            center: "DELETE FROM parent WHERE id = 8; INSERT INTO parent VALUES (8, 'p8');
                INSERT INTO child VALUES ('c8', 'again', 8, 'p8', NULL);",
            ..base
        },
        Case {
            name: "children at one side of a parent deleted at the other",
            remote: "INSERT INTO child VALUES ('r', 1, 7, NULL, NULL);
                DELETE FROM parent WHERE id = 2;",
            center: "DELETE FROM parent WHERE id = 7;
                INSERT INTO child VALUES ('c', 1, 2, NULL, NULL);",
            conflicts: 0,
            rejected: 1,
            ..base
        },
    ]);
}

// Trap 11: references in circles, to the own table, and children before their parents.
#[test]
fn foreign_keys_in_circles_and_out_of_order() {
    let circle = "CREATE TABLE team (id INTEGER PRIMARY KEY, captain INTEGER REFERENCES player
            DEFERRABLE INITIALLY DEFERRED);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER NOT NULL REFERENCES team
            ON DELETE CASCADE);
        INSERT INTO team VALUES (1, NULL), (2, NULL), (3, NULL);
        INSERT INTO player VALUES (1, 1), (2, 2), (3, 3); UPDATE team SET captain = id";
    let tree = "CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node
            ON DELETE CASCADE, path TEXT UNIQUE);
        INSERT INTO node VALUES (9, NULL, '9'), (5, 9, '95'), (1, 5, '951'), (8, NULL, '8'),
            (7, 8, '87'), (3, 3, '3')";
    let restrict = "CREATE TABLE a (id INTEGER PRIMARY KEY, v);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER NOT NULL REFERENCES a
            ON DELETE RESTRICT ON UPDATE RESTRICT);
        INSERT INTO a VALUES (1, 1), (2, 2), (3, 3), (4, 4); INSERT INTO b SELECT id, id FROM a";
    check(&[
        Case {
            name: "a circle",
            schema: circle,
            remote: "BEGIN; INSERT INTO team VALUES (10, 10); INSERT INTO player VALUES (10, 10);
                COMMIT; BEGIN; DELETE FROM team WHERE id = 1; COMMIT;",
            center: "BEGIN; INSERT INTO team VALUES (20, 20); INSERT INTO player VALUES (20, 20);
                COMMIT; UPDATE team SET captain = 3 WHERE id = 2;",
            ..Case::default()
        },
        Case {
            name: "a tree whose parents have larger keys",
            schema: tree,
            remote: "BEGIN; PRAGMA defer_foreign_keys = ON; INSERT INTO node VALUES (2, 4, '42');
                INSERT INTO node VALUES (4, 9, '94'); COMMIT; UPDATE node SET up = 9 WHERE id = 1;
                DELETE FROM node WHERE id = 5;",
            center: "DELETE FROM node WHERE id = 8; UPDATE node SET up = 9 WHERE id = 3;
                INSERT INTO node VALUES (8, NULL, '87'), (6, 8, '8');",
            ..Case::default()
        },
        Case {
            name: "RESTRICT",
            schema: restrict,
            remote: "DELETE FROM b WHERE id = 1; DELETE FROM a WHERE id = 1;
                UPDATE b SET a = 4 WHERE id = 2; DELETE FROM a WHERE id = 2;",
            center: "UPDATE b SET a = 4 WHERE id = 3; UPDATE a SET id = 30 WHERE id = 3;
                INSERT INTO b VALUES (30, 30);",
            ..Case::default()
        },
    ]);
}

// S7, Trap 11: a row that may not be is refused on its own, no matter who is to blame for it.
#[test]
fn broken_references_are_blamed_on_the_right_rows() {
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT UNIQUE, v);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a,
            name TEXT REFERENCES a (name), loose TEXT REFERENCES a, v);
        CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node);
        INSERT INTO a VALUES (1, 'x', 0), (2, 'y', 0), (3, 'z', 0);
        INSERT INTO node VALUES (1, NULL); INSERT INTO b VALUES (1, 1, NULL, NULL, 0)";
    let base = Case { schema, ..Case::default() };
    check(&[
        Case {
            name: "a child that a conflict keeps at the parent that is deleted",
            remote: "UPDATE b SET a = 2 WHERE id = 1; DELETE FROM a WHERE id = 1;",
            center: "UPDATE b SET v = 1 WHERE id = 1;",
            conflicts: 1,
            rejected: 1,
            ..base
        },
        Case {
            name: "a parent by another column than its key is deleted",
            remote: "DELETE FROM a WHERE name = 'y'; INSERT INTO a VALUES (9, 'nine', 9);",
            center: "INSERT INTO b VALUES (5, NULL, 'y', NULL, 0);",
            rejected: 1,
            ..base
        },
        Case {
            name: "a parent's value is changed, and given to another",
            remote: "UPDATE a SET name = 'was y' WHERE id = 2; UPDATE a SET name = 'q', v = 1
                WHERE id = 3; INSERT INTO a VALUES (9, 'nine', 9);",
            center: "INSERT INTO b VALUES (5, NULL, 'y', NULL, 0);",
            rejected: 1,
            ..base
        },
        Case {
            name: "values that only SQLite finds equal",
            remote: "DELETE FROM a WHERE id = 3; INSERT INTO a VALUES (9, 'nine', 9);",
            center: "INSERT INTO b VALUES (5, NULL, NULL, '3', 0);",
            rejected: 1,
            ..base
        },
        Case {
            name: "a long chain below a row that is gone",
            remote: "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 301)
                INSERT INTO node SELECT i, i - 1 FROM n; INSERT INTO a VALUES (9, 'nine', 9);",
            center: "DELETE FROM node;",
            rejected: 300,
            ..base
        },
    ]);
}

// Trap 10: unique values change places, at the remote and at the center.
#[test]
fn unique_values_swap_in_both_directions() {
    let swap = |a: u32, b: u32| {
        format!(
            "UPDATE t SET u = '' WHERE id = {a}; UPDATE t SET u = 'u{a}' WHERE id = {b};
             UPDATE t SET u = 'u{b}' WHERE id = {a};
             UPDATE t SET w = '' WHERE id = {a}; UPDATE t SET v = {a}, w = 'w{a}' WHERE id = {b};
             UPDATE t SET v = {b}, w = 'w{b}' WHERE id = {a};"
        )
    };
    let rotate = |a: u32, b: u32, c: u32| {
        format!(
            "UPDATE t SET u = '' WHERE id = {a}; UPDATE t SET u = 'u{a}' WHERE id = {b};
             UPDATE t SET u = 'u{b}' WHERE id = {c}; UPDATE t SET u = 'u{c}' WHERE id = {a};"
        )
    };
    let inherit = |gone: u32, heir: u32| {
        format!(
            "DELETE FROM t WHERE id = {gone}; UPDATE t SET u = 'u{gone}' WHERE id = {heir};
             INSERT INTO t VALUES ({gone}00, 'u{heir}', {gone}, 'w{gone}', 'heir of {heir}');"
        )
    };
    let not_null = UNIQUE.replace("UNIQUE, v INTEGER", "NOT NULL UNIQUE CHECK (u <> 'x'), v REAL");
    let children = format!(
        "{UNIQUE}; CREATE TABLE c (id INTEGER PRIMARY KEY, u TEXT REFERENCES t (u)
             ON UPDATE CASCADE); INSERT INTO c SELECT id, u FROM t"
    );
    for (number, schema) in [UNIQUE, &not_null, &children].iter().enumerate() {
        let cases = [
            ("swap", swap(1, 2), swap(7, 8)),
            ("rotate", rotate(1, 2, 3), rotate(7, 8, 9)),
            (
                "shift",
                "UPDATE t SET v = -(v % 5 + 1) WHERE id < 6;
                 UPDATE t SET w = 'w' || -v, v = -v WHERE id < 6;"
                    .to_owned(),
                String::new(),
            ),
            ("inherit", inherit(1, 2), inherit(7, 8)),
            ("everything", swap(1, 2) + &rotate(3, 4, 5), rotate(7, 8, 9) + &swap(10, 11)),
        ];
        let inherits = number < 2;
        let cases: Vec<Case<'_>> = cases
            .iter()
            .filter(|(name, ..)| inherits || *name != "inherit")
            .map(|(name, remote, center)| Case { name, schema, remote, center, ..Case::default() })
            .collect();
        check(&cases);
    }
}

// Trap 10, S5: two sides take the same unique value, and swap the same pair.
#[test]
fn unique_values_that_meet_are_rejected_and_everybody_agrees() {
    let swap = "UPDATE t SET u = '' WHERE id = 1; UPDATE t SET u = 'u1' WHERE id = 2;
        UPDATE t SET u = 'u2' WHERE id = 1;";
    check(&[
        Case {
            name: "both give another row the same value",
            schema: UNIQUE,
            remote: "UPDATE t SET u = 'same' WHERE id = 1;
                INSERT INTO t VALUES (100, 'new', 100, '', '');",
            center: "UPDATE t SET u = 'same' WHERE id = 7;
                INSERT INTO t VALUES (200, 'new', 200, '', '');",
            rejected: 2,
            ..Case::default()
        },
        Case {
            name: "both swap the same two",
            schema: UNIQUE,
            remote: swap,
            center: swap,
            conflicts: 0,
            ..Case::default()
        },
        Case {
            name: "the remote swaps what the center rotates",
            schema: UNIQUE,
            remote: swap,
            center: "UPDATE t SET u = '' WHERE id = 1; UPDATE t SET u = 'u1' WHERE id = 3;
                UPDATE t SET u = 'u3' WHERE id = 2; UPDATE t SET u = 'u2' WHERE id = 1;",
            conflicts: 1,
            ..Case::default()
        },
    ]);
}

// Trap 15: every value arrives as it was, old images included.
#[test]
fn every_value_arrives_as_it_was() {
    let values = [
        "9223372036854775807",
        "-9223372036854775808",
        "9007199254740993",
        "9e999",
        "-9e999",
        "0.1",
        "5e-324",
        "1.0",
        "-0.0",
        "NULL",
        "''",
        "x''",
        "zeroblob(70000)",
        "'007'",
        "'1e3'",
        "' 1'",
        "'9223372036854775808'",
        "char(0)",
        "'a' || char(0) || 'b'",
        "CAST(x'ff00fe' AS TEXT)",
        "CAST(x'edA080' AS TEXT)",
        "x'4142'",
        "'AB'",
        "'a' || char(10) || char(27) || '[2J'",
        "'ä€😀'",
        "'2030-01-01T00:00:00Z'",
    ];
    let columns = |value: &str| [value; 6].join(", ");
    let rows = |prefix: &str, by: &dyn Fn(usize) -> usize| -> String {
        let row = |n: usize| format!("('{prefix}' || {n}, {})", columns(values[by(n)]));
        let rows: Vec<String> = (0..values.len()).map(row).collect();
        format!("INSERT INTO v VALUES {};", rows.join(", "))
    };
    // Each row becomes what its neighbor is, so every value is an old image and a new one.
    let change = |prefix: &str| -> String {
        let set = |n: usize| {
            let value = values[(n + 1) % values.len()];
            let columns = ["i", "r", "n", "t", "b", "u"].map(|name| format!("{name} = {value}"));
            format!("UPDATE v SET {} WHERE k = '{prefix}{n}';", columns.join(", "))
        };
        (0..values.len()).map(set).collect()
    };
    let schema = format!(
        "CREATE TABLE v (k TEXT PRIMARY KEY NOT NULL, i INTEGER, r REAL, n NUMERIC, t TEXT, b BLOB,
             u); {}{}{}{}",
        rows("changed here ", &|n| n),
        rows("changed there ", &|n| n),
        rows("deleted here ", &|n| n),
        rows("deleted there ", &|n| n),
    );
    let write = |at: &str| {
        format!(
            "{}{}DELETE FROM v WHERE k LIKE 'deleted {at}%';",
            rows(&format!("new {at} "), &|n| n),
            change(&format!("changed {at} "))
        )
    };
    let (remote, center) = (write("here"), write("there"));
    let case = Case { schema: &schema, remote: &remote, center: &center, ..Case::default() };
    for tool in ForeignTool::ALL {
        let (world, _server) = check_case(tool, &case);
        let text = query(&world.remote("b"), "SELECT hex(t) FROM v WHERE k = 'new here 19'");
        assert_eq!(text, [["'FF00FE'"]]);
        assert_eq!(count(&world.remote("b"), "SELECT count(*) FROM v"), 4 * 26);
    }
}

// Trap 15: the same values as keys.
#[test]
fn every_value_can_be_a_key() {
    let keys = "INSERT INTO t VALUES (9223372036854775807, 0), (-9223372036854775808, 0), (0, 0),
            (0.1, 0), (9e999, 0), (-9e999, 0), (9007199254740993, 0), ('', 0), (x'', 0),
            (char(0), 0), ('a' || char(0), 0), (CAST(x'ff' AS TEXT), 0), (x'ff', 0), ('0.1', 0)";
    for declared in ["", "TEXT", "BLOB", "REAL", "NUMERIC"] {
        let key = format!("k {declared} PRIMARY KEY NOT NULL");
        let insert = keys.replace("INSERT", "INSERT OR IGNORE");
        let schema = format!("CREATE TABLE t ({key}, v) WITHOUT ROWID; {insert}");
        let case = Case { name: declared, schema: &schema, ..Case::default() };
        // Every row is changed at one side, and every third is deleted there.
        let remote = "CREATE TEMP TABLE n AS SELECT k, row_number() OVER (ORDER BY k) AS i FROM t;
            UPDATE t SET v = 'here' WHERE k IN (SELECT k FROM n WHERE i % 4 = 0);
            DELETE FROM t WHERE k IN (SELECT k FROM n WHERE i % 4 = 1);";
        let center = remote.replace("% 4 = 0", "% 4 = 2").replace("% 4 = 1", "% 4 = 3");
        check_case(ForeignTool::Shell, &Case { remote, center: &center, ..case });
    }
    let integers = "CREATE TABLE t (id INTEGER PRIMARY KEY, v);
        INSERT INTO t VALUES (9223372036854775807, 1), (-9223372036854775808, 2), (-1, 3), (0, 4)";
    check(&[Case {
        name: "integers at the end of their range, where SQLite cannot count on",
        schema: integers,
        remote: "UPDATE t SET v = 10 WHERE id > 0; DELETE FROM t WHERE id = -1;
            INSERT INTO t (v) VALUES ('anywhere'); INSERT INTO t VALUES (-1, 'again');",
        center: "UPDATE t SET v = 20 WHERE id < -1; UPDATE t SET id = 5 WHERE id = 0;",
        ..Case::default()
    }]);
}

// S3, Trap 8: triggers of the application, at the remote and at the center, which change the row
// itself and others.
#[test]
fn triggers_of_the_application_do_what_they_do() {
    let schema = "CREATE TABLE invoice (id INTEGER PRIMARY KEY, total REAL DEFAULT 0, stamp TEXT);
        CREATE TABLE line (invoice INTEGER REFERENCES invoice, n INTEGER, amount REAL,
            PRIMARY KEY (invoice, n));
        INSERT INTO invoice VALUES (1, 0, 'old'), (2, 0, 'old'), (3, 0, 'old');
        INSERT INTO line VALUES (1, 1, 5), (2, 1, 7), (3, 1, 9);
        CREATE TRIGGER total AFTER INSERT ON line BEGIN
            UPDATE invoice SET total = total + NEW.amount, stamp = 'center' WHERE id = NEW.invoice;
        END;
        CREATE TRIGGER round AFTER UPDATE OF amount ON line BEGIN
            UPDATE line SET amount = round(NEW.amount, 1) WHERE rowid = NEW.rowid; END";
    check(&[
        Case {
            name: "the center's triggers run for uploads, and what they change is sent",
            schema,
            remote: "INSERT INTO line VALUES (1, 2, 0.5); UPDATE line SET amount = 7.77
                WHERE invoice = 2;",
            center: "INSERT INTO line VALUES (3, 2, 1.5);",
            ..Case::default()
        },
        Case {
            name: "a remote's triggers run for its programs",
            schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, stamp INTEGER);
                INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0), (4, 'd', 0)",
            remote: "CREATE TRIGGER changed AFTER UPDATE ON t BEGIN
                    UPDATE t SET stamp = OLD.stamp + 1 WHERE id = NEW.id; END;
                CREATE TRIGGER made AFTER INSERT ON t BEGIN
                    UPDATE t SET stamp = 100 WHERE id = NEW.id; END;
                CREATE TRIGGER going BEFORE DELETE ON t BEGIN
                    UPDATE t SET u = u || ' was ' || OLD.u WHERE id = 4; END;
                UPDATE t SET u = 'aa' WHERE id = 1; INSERT INTO t VALUES (5, 'e', 0);
                REPLACE INTO t VALUES (6, 'aa', 0); DELETE FROM t WHERE id = 2;",
            center: "UPDATE t SET u = 'center' WHERE id = 3;",
            ..Case::default()
        },
    ]);
}

// S3: columns that are not published stay what they are at the center, and out of the remotes.
#[test]
fn a_publication_may_leave_columns_out() {
    let schema =
        "CREATE TABLE t (hidden TEXT DEFAULT 'default', id INTEGER, name TEXT, secret BLOB,
            kind TEXT COLLATE NOCASE, PRIMARY KEY (id), UNIQUE (name, kind), UNIQUE (secret));
        CREATE UNIQUE INDEX i ON t (kind, hidden);
        INSERT INTO t VALUES ('h1', 1, 'n1', x'01', 'k1'), ('h2', 2, 'n2', x'02', 'k2'),
            ('h3', 3, 'n3', x'03', 'k3'), ('h4', 4, 'n4', x'04', 'k4'),
            ('h5', 5, 'n5', x'05', 'k5')";
    let case = Case {
        name: "columns",
        schema,
        model: "[table.t]\ncolumns = [\"name\", \"kind\"]\n",
        remote: "UPDATE t SET name = 'remote' WHERE id = 1; DELETE FROM t WHERE id = 2;
            INSERT INTO t (id, name, kind) VALUES (9, 'n9', 'k9');
            UPDATE OR REPLACE t SET name = 'n4', kind = 'K4' WHERE id = 1;",
        center: "UPDATE t SET secret = x'ff', hidden = 'changed' WHERE id = 3;
            UPDATE t SET kind = 'center' WHERE id = 5;",
        ..Case::default()
    };
    for tool in ForeignTool::ALL {
        let (world, _server) = check_case(tool, &case);
        let columns = "SELECT name FROM pragma_table_info('t')";
        assert_eq!(query(&world.remote("a"), columns).concat(), ["'id'", "'name'", "'kind'"]);
        let rows =
            query(&world.consolidated(), "SELECT id, hidden, hex(secret) FROM t ORDER BY id");
        let expected = [
            ["1", "'h1'", "'01'"],
            ["3", "'changed'", "'FF'"],
            ["5", "'h5'", "'05'"],
            ["9", "'default'", "''"],
        ];
        assert_eq!(rows, expected);
    }
}

// S7: directions, and what a program is sent that writes against them.
#[test]
fn directions_are_kept_on_both_sides() {
    let schema = "CREATE TABLE price (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
        CREATE TABLE reading (id TEXT PRIMARY KEY NOT NULL, v REAL);
        CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT);
        INSERT INTO price VALUES (1, 'a'), (2, 'b'); INSERT INTO reading VALUES ('center', 1);
        INSERT INTO note VALUES (1, 'x')";
    let model = "[table.price]\ndirection = \"download_only\"\n\
        [table.reading]\ndirection = \"upload_only\"\n[table.note]\n";
    for tool in ForeignTool::ALL {
        let (world, server) = deployed(schema, model);
        let everybody = ["a", "b"];
        for name in everybody {
            synchronize(&world, &server, name);
        }
        for write in [
            "INSERT INTO price VALUES (3, 'c');",
            "UPDATE price SET v = 'z' WHERE id = 1;",
            "DELETE FROM price;",
            "REPLACE INTO price VALUES (1, 'b');",
            "INSERT INTO note VALUES (5, ''); INSERT OR IGNORE INTO price VALUES (4, 'd');",
        ] {
            let outcome = tool.try_sql(&world.remote("a"), write);
            assert_eq!(outcome.code, Some(1), "{write}: {outcome:?}");
            let told = outcome.stderr.contains("syncline: table price is download only");
            assert!(told, "{write}: {outcome:?}");
        }
        tool.sql(
            &world.remote("a"),
            "INSERT INTO reading VALUES ('a', 1.5), ('b', 2.5); UPDATE reading SET v = 3
             WHERE id = 'b'; INSERT INTO note VALUES (2, 'y');",
        );
        tool.other().sql(
            &world.consolidated(),
            "REPLACE INTO price VALUES (3, 'b'); INSERT INTO reading VALUES ('later', 2);
             UPDATE note SET v = 'z' WHERE id = 1;",
        );
        for name in everybody.iter().chain(&everybody) {
            let report = synchronize(&world, &server, name);
            assert_eq!((&report["conflicts"], &report["rejected"]), (&json!(0), &json!(0)));
        }
        for name in everybody {
            let shared = ["price".to_owned(), "note".to_owned()];
            let lines = harness::differences(&world.consolidated(), &world.remote(name), &shared);
            assert!(lines.is_empty(), "{lines:?}");
        }
        let readings =
            |path: &std::path::Path| query(path, "SELECT id, v FROM reading ORDER BY id");
        let (a, b) = (["'a'", "1.5"], ["'b'", "3.0"]);
        let center = [a, b, ["'center'", "1.0"], ["'later'", "2.0"]];
        assert_eq!(readings(&world.consolidated()), center);
        assert_eq!(readings(&world.remote("a")), [a, b], "nothing comes down");
        assert_eq!(readings(&world.remote("b")).len(), 0);
    }
}

// Trap 12: a trigger is dropped or a table changed. Nothing is synchronized until it is repaired,
// and no change of the time between is missed (S2).
#[test]
fn drift_at_the_center_stops_everything_until_it_is_deployed() {
    let (world, server) = deployed(UNIQUE, "");
    for name in ["a", "b"] {
        synchronize(&world, &server, name);
    }
    // What columns became of is declared, because remotes of the old shape exist.
    let declared = |drift: &str| match drift {
        _ if drift.contains("TO remark") => "renamed = { remark = \"note\" }\n",
        _ if drift.contains("TO x") => "renamed = { x = \"v\" }\n",
        _ => "",
    };
    let drifts = [
        "DROP TRIGGER syncline_delete_t; DELETE FROM t WHERE id = 7;",
        "DROP TRIGGER syncline_update_t; UPDATE t SET note = 'unseen' WHERE id = 8;",
        "DROP TRIGGER syncline_insert_t; REPLACE INTO t VALUES (90, 'u9', 90, '', '');",
        "DROP TABLE syncline_log_t;",
        "CREATE UNIQUE INDEX more ON t (note); REPLACE INTO t VALUES (91, 'x', 91, '', 'note 11');",
        "ALTER TABLE t RENAME COLUMN note TO remark; UPDATE t SET remark = 'r' WHERE id = 12;",
        "DROP INDEX more;",
        "ALTER TABLE t RENAME COLUMN v TO x;",
    ];
    for (number, drift) in drifts.iter().enumerate() {
        let tool = ForeignTool::ALL[number % 2];
        tool.sql(&world.remote("a"), &format!("UPDATE t SET w = 'a' WHERE id = {number} + 1;"));
        sql(&world.consolidated(), drift);
        world.syncline.fails("E3005", &arguments("a.db", &server));
        world.syncline.fails("E3005", &["check"]);
        let model = format!("script_version = \"v1\"\n[table.t]\n{}", declared(drift));
        fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        for name in ["a", "b", "a", "b"] {
            synchronize(&world, &server, name);
        }
        for name in ["a", "b"] {
            let lines = world.differences(name);
            assert!(lines.is_empty(), "{drift}: {name} differs:\n{}", lines.join("\n"));
        }
        let columns = "SELECT group_concat(name) FROM pragma_table_info('t')";
        assert_eq!(query(&world.consolidated(), columns), query(&world.remote("b"), columns));
    }
    // A new column is no drift: it is not published until it is deployed.
    sql(&world.consolidated(), "ALTER TABLE t ADD COLUMN extra TEXT; UPDATE t SET extra = 'e'");
    synchronize(&world, &server, "a");
    world.syncline.fails("E3005", &["check"]);
    world.syncline.ok(&["deploy"]);
    for name in ["a", "b"] {
        synchronize(&world, &server, name);
    }
    world.assert_converged(&["a", "b"]);
    assert_eq!(tables(&world.remote("a")), ["t"]);
}
