//! The rows that lose conflicts are kept where the model wants that.

use crate::support::center::{Backend, Center, Remote, Row, Upload, deploy, int, text};
use model::{Code, Value};

const SCHEMA: &str = "CREATE TABLE price (id INTEGER PRIMARY KEY, n INTEGER, note TEXT);
    CREATE TABLE lost_price (id INTEGER, n INTEGER, note TEXT, more TEXT DEFAULT 'now')";

fn row(id: i64, n: i64, note: &str) -> Row {
    vec![int(id), int(n), text(note)]
}

fn model(rule: &str) -> String {
    format!("[table.price]\nconflict = {rule}\nkeep_losers = \"lost_price\"\n")
}

/// What was kept of a conflict of two updates, an update of a row that is gone, two inserts, a
/// delete, and an update without a conflict.
fn kept(backend: Backend, rule: &str) -> Vec<Row> {
    let mut center = Center::on(backend, SCHEMA, &model(rule));
    center
        .foreign("INSERT INTO price VALUES (1, 10, 'a'), (2, 10, 'a'), (4, 10, 'a'), (5, 10, 'a')");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign(
        "UPDATE price SET n = 7 WHERE id IN (1, 4);
         DELETE FROM price WHERE id = 2;
         INSERT INTO price VALUES (3, 7, 'a')",
    );
    let (applied, _) = center.synchronize(
        &mut remote,
        &[
            Upload::Update("price", row(1, 10, "a"), row(1, 8, "b")),
            Upload::Update("price", row(2, 10, "a"), row(2, 8, "b")),
            Upload::Update("price", row(5, 10, "a"), row(5, 8, "b")),
            Upload::Insert("price", row(3, 8, "b")),
            Upload::Delete("price", row(4, 10, "a")),
        ],
    );
    assert_eq!(applied.conflicts, 4, "{backend:?} {rule}");
    assert_eq!(center.value("SELECT count(*) FROM lost_price WHERE more IS NULL"), int(0));
    center.rows("SELECT id, n, note FROM lost_price ORDER BY id")
}

// S5
#[test]
fn the_row_that_loses_is_kept() {
    Backend::each(|backend| {
        for (rule, wanted) in [
            ("\"consolidated_wins\"", vec![row(1, 8, "b"), row(2, 8, "b"), row(3, 8, "b")]),
            ("\"remote_wins\"", vec![row(1, 7, "a"), row(3, 7, "a")]),
            ("{ maximum = \"n\" }", vec![row(1, 7, "a"), row(3, 7, "a")]),
            ("{ minimum = \"n\" }", vec![row(1, 8, "b"), row(3, 8, "b")]),
            ("\"merge\"", vec![row(1, 8, "b"), row(3, 8, "b")]),
            // Nothing of the update is lost.
            ("{ add = \"n\" }", vec![row(3, 8, "b")]),
        ] {
            assert_eq!(kept(backend, rule), wanted, "{backend:?} {rule}");
        }
    });
}

// S4, S5: an upload is tried anew where a row fails, and then its losers were kept twice.
#[test]
fn a_row_that_loses_is_kept_once() {
    Backend::each(|backend| {
        let schema = SCHEMA.replace("note TEXT)", "note TEXT UNIQUE)");
        let mut center = Center::on(backend, &schema, &model("\"consolidated_wins\""));
        center.foreign("INSERT INTO price VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE price SET n = 7 WHERE id = 1; INSERT INTO price VALUES (9, 9, 'x')");
        let uploads = [
            Upload::Update("price", row(1, 1, "a"), row(1, 8, "a")),
            Upload::Update("price", row(2, 2, "b"), row(2, 2, "c")),
            Upload::Update("price", row(3, 3, "c"), row(3, 3, "b")),
            Upload::Insert("price", row(8, 8, "x")),
        ];
        let (applied, _) = center.synchronize(&mut remote, &uploads);
        assert_eq!((applied.conflicts, applied.rejected), (1, 1), "{backend:?}");
        let kept = center.rows("SELECT id, n, note FROM lost_price");
        assert_eq!(kept, [row(1, 8, "a")], "{backend:?}");
    });
}

// S5: a table that does not take the row would lose it.
#[test]
fn an_upload_fails_whose_losers_cannot_be_kept() {
    Backend::each(|backend| {
        let schema =
            SCHEMA.replace("lost_price (id INTEGER", "lost_price (id INTEGER CHECK (id > 1)");
        let mut center = Center::on(backend, &schema, &model("\"remote_wins\""));
        center.foreign("INSERT INTO price VALUES (1, 10, 'a')");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE price SET n = 7");
        let uploads = [Upload::Update("price", row(1, 10, "a"), row(1, 8, "a"))];
        let failure = center.upload(&mut remote, &uploads).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed, "{backend:?}");
        let message = "a row of price that lost a conflict cannot be kept: ";
        assert!(failure.message().starts_with(message), "{}", failure.message());
        assert_eq!(center.value("SELECT n FROM price"), int(7), "{backend:?}");
        center.foreign(
            "DROP TABLE lost_price; CREATE TABLE lost_price (id INTEGER, n INTEGER, note TEXT)",
        );
        center.synchronize(&mut remote, &uploads);
        assert_eq!(center.value("SELECT n FROM price"), int(8), "{backend:?}");
        assert_eq!(center.value("SELECT n FROM lost_price"), int(7), "{backend:?}");
    });
}

#[test]
fn a_table_that_cannot_keep_the_rows_is_refused() {
    Backend::each(|backend| {
        let others = "CREATE TABLE narrow (id INTEGER, n INTEGER);
            CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER, note TEXT);
            CREATE TABLE strict (id INTEGER, n INTEGER, note TEXT, more TEXT NOT NULL);
            CREATE TABLE typed (id INTEGER, n DATE, note TEXT)";
        let center = Center::on(backend, &format!("{SCHEMA};{others}"), "[table.price]\n");
        let typed = ("typed", "whose column n is of another type");
        for (name, message) in [
            ("gone", "but there is no such table"),
            ("other", "which is published"),
            ("narrow", "which has no column note"),
            (
                "strict",
                "whose column more is not published, and neither accepts NULL nor has a default",
            ),
        ]
        .into_iter()
        .chain((backend == Backend::Postgres).then_some(typed))
        {
            let model = format!("[table.price]\nkeep_losers = \"{name}\"\n[table.other]\n");
            let refused = deploy(&center.url, &model).unwrap_err();
            assert_eq!(refused.code(), Code::ModelMismatch, "{name}");
            let wanted = format!("model.toml: table price: keep_losers names {name}, {message}");
            assert_eq!(refused.message(), wanted, "{backend:?}");
        }
        assert_eq!(center.value("SELECT count(*) FROM lost_price"), Value::Integer(0));
    });
}
