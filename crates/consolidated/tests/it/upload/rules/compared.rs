//! What the rules `maximum`, `minimum` and `priority` decide.

use super::latest::decided;
use crate::support::center::{Backend, Center, Remote, Upload, deploy, int, text};
use model::{Code, Value};

/// Pairs of which the first value loses, and pairs of which neither wins.
type Pairs = (&'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const NUMBERS: Pairs =
    (&[("9", "10"), ("-2", "-1"), ("0", "5"), ("NULL", "-5")], &[("7", "7"), ("NULL", "NULL")]);

const TEXTS: Pairs = (
    &[("'a'", "'b'"), ("'a'", "'ab'"), ("'10'", "'9'"), ("NULL", "''")],
    &[("'a'", "'a'"), ("NULL", "NULL")],
);

// S5
#[test]
fn the_greater_value_wins_by_maximum_and_the_smaller_by_minimum() {
    for (backend, declared, (pairs, same)) in [
        (Backend::Sqlite, "INTEGER", NUMBERS),
        (Backend::Sqlite, "", NUMBERS),
        (Backend::Sqlite, "TEXT", TEXTS),
        // Letter by letter, whatever the collation.
        (Backend::Sqlite, "TEXT COLLATE NOCASE", (&[("'B'", "'a'"), ("'A'", "'a'")], &[])),
        // As SQLite compares them.
        (Backend::Sqlite, "", (&[("9", "'1'"), ("'9'", "x'00'"), ("1.5", "2")], &[])),
        (Backend::Postgres, "integer", NUMBERS),
        (Backend::Postgres, "numeric(10, 2)", NUMBERS),
        (Backend::Postgres, "text", TEXTS),
        (Backend::Postgres, "text COLLATE \"und-x-icu\"", (&[("'a'", "'B'")], &[])),
        (Backend::Postgres, "date", (&[("'2026-01-31'", "'2026-02-01'")], &[])),
    ] {
        decided(backend, declared, "{ maximum = \"at\" }", pairs, same);
        let smaller = pairs.iter().map(|(smaller, greater)| match *smaller {
            // NULL gives way to whatever there is.
            "NULL" => ("NULL", *greater),
            smaller => (*greater, smaller),
        });
        decided(backend, declared, "{ minimum = \"at\" }", &Vec::from_iter(smaller), same);
    }
}

// S5
#[test]
fn the_value_that_stands_earlier_in_the_list_wins() {
    let words: Pairs = (
        &[
            ("'denied'", "'it''s {r.id}'"),
            ("'open'", "'it''s {r.id}'"),
            ("'open'", "'denied'"),
            ("'unknown'", "'open'"),
            ("'DENIED'", "'open'"),
            ("NULL", "'open'"),
        ],
        &[("'open'", "'open'"), ("'unknown'", "'other'"), ("'unknown'", "NULL")],
    );
    let rule = "{ priority = \"at\", order = [\"it's {r.id}\", \"denied\", \"open\"] }";
    for declared in ["TEXT", "TEXT COLLATE NOCASE", ""] {
        decided(Backend::Sqlite, declared, rule, words.0, words.1);
    }
    for declared in ["text", "varchar(20)"] {
        decided(Backend::Postgres, declared, rule, words.0, words.1);
    }
    let numbers: Pairs = (&[("1", "3"), ("2", "1"), ("0", "2")], &[("3", "3"), ("0", "7")]);
    let rule = "{ priority = \"at\", order = [3, 1, \"2\"] }";
    for (backend, declared) in [
        (Backend::Sqlite, "INTEGER"),
        (Backend::Postgres, "smallint"),
        (Backend::Postgres, "bigint"),
    ] {
        decided(backend, declared, rule, numbers.0, numbers.1);
    }
    let texts: Pairs = (&[("'1'", "'3'"), ("'2'", "'1'")], &[("'x'", "'y'")]);
    decided(Backend::Sqlite, "TEXT", rule, texts.0, texts.1);
}

// S5: an enumeration has an order of its own.
#[test]
fn words_of_an_enumeration_decide() {
    for (rule, winner) in [
        ("{ maximum = \"state\" }", "approved"),
        ("{ minimum = \"state\" }", "open"),
        ("{ priority = \"state\", order = [\"denied\"] }", "open"),
        ("{ priority = \"state\", order = [\"approved\", \"open\"] }", "approved"),
    ] {
        let mut center = Center::on(
            Backend::Postgres,
            "CREATE TYPE state AS ENUM ('open', 'denied', 'approved');
             CREATE TABLE t (id integer PRIMARY KEY, state state);
             INSERT INTO t VALUES (1, 'denied')",
            &format!("[table.t]\nconflict = {rule}\n"),
        );
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE t SET state = 'open'");
        let row = |state: &str| vec![int(1), text(state)];
        center.synchronize(&mut remote, &[Upload::Update("t", row("denied"), row("approved"))]);
        assert_eq!(center.value("SELECT state FROM t"), text(winner), "{rule}");
    }
}

// S5
#[test]
fn an_update_wins_over_a_delete_by_every_rule_that_compares() {
    Backend::each(|backend| {
        for rule in [
            "{ earliest = \"n\" }",
            "{ maximum = \"n\" }",
            "{ minimum = \"n\" }",
            "{ priority = \"n\", order = [1] }",
            "{ add = \"n\" }",
        ] {
            let mut center = Center::on(
                backend,
                "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
                 INSERT INTO t VALUES (1, 5), (2, 5)",
                &format!("[table.t]\nconflict = {rule}\n"),
            );
            let mut remote = Remote::new("r");
            center.synchronize(&mut remote, &[]);
            center.foreign("DELETE FROM t WHERE id = 1; UPDATE t SET n = 6 WHERE id = 2");
            let row = |id: i64, n: i64| vec![int(id), int(n)];
            let uploads =
                [Upload::Update("t", row(1, 5), row(1, 4)), Upload::Delete("t", row(2, 5))];
            let (applied, download) = center.synchronize(&mut remote, &uploads);
            assert_eq!((applied.conflicts, applied.rejected), (2, 0), "{backend:?} {rule}");
            assert_eq!(center.rows("SELECT id, n FROM t ORDER BY id"), [row(1, 4), row(2, 6)]);
            assert_eq!(download.upserts, [("t".to_owned(), row(2, 6))], "{backend:?} {rule}");
        }
    });
}

#[test]
fn a_rule_for_a_column_that_cannot_decide_is_refused() {
    let schema = |numbers: &str, other: &str| {
        format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, hidden INTEGER, {numbers}, \
             other {other})"
        )
    };
    let both = [
        ("{ earliest = \"gone\" }", "earliest names gone, but there is no such column"),
        ("{ maximum = \"gone\" }", "maximum names gone, but there is no such column"),
        ("{ minimum = \"hidden\" }", "minimum names hidden, which is not published"),
        ("{ priority = \"hidden\", order = [1] }", "priority names hidden, which is not published"),
        ("{ add = [\"n\", \"gone\"] }", "add names gone, but there is no such column"),
        ("{ add = \"hidden\" }", "add names hidden, which is not published"),
        ("{ add = \"id\" }", "add names id, which is part of the key"),
        ("{ add = \"name\" }", "add names name, which is not a number"),
        ("{ add = \"other\" }", "add names other, which is not a number"),
    ];
    let postgres = [
        (
            "{ earliest = \"other\" }",
            "earliest names other, which is not a date, time, number or text",
        ),
        ("{ maximum = \"other\" }", "maximum names other, which is not of a type with an order"),
        (
            "{ priority = \"n\", order = [1] }",
            "priority names n, which is not a text or a whole number",
        ),
    ];
    for (backend, schema, more) in [
        (Backend::Sqlite, schema("n REAL", "BLOB"), &[][..]),
        (Backend::Postgres, schema("n numeric", "json"), &postgres[..]),
    ] {
        let center = Center::on(backend, &schema, "[table.t]\n");
        let published = "columns = [\"id\", \"name\", \"n\", \"other\"]";
        for (rule, message) in both.iter().chain(more) {
            let model = format!("[table.t]\n{published}\nconflict = {rule}\n");
            let refused = deploy(&center.url, &model).unwrap_err();
            assert_eq!(refused.code(), Code::ModelMismatch, "{rule}");
            assert_eq!(refused.message(), format!("model.toml: table t: {message}"), "{backend:?}");
        }
        deploy(&center.url, &format!("[table.t]\n{published}\nconflict = {{ add = \"n\" }}\n"))
            .unwrap();
        let deployed = center.value(backend.pick(
            "SELECT conflict_rule FROM syncline_table",
            "SELECT conflict_rule FROM syncline.syncline_table",
        ));
        assert_eq!(deployed, Value::Text(b"merge by column, add n".to_vec()));
    }
}
