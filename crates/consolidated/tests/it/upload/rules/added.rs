//! The rule `add`: the changes of both sides count.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use model::Value;
use syncline_consolidated::Event;

const SCHEMA: &str = "CREATE TABLE stock (id INTEGER PRIMARY KEY, qty INTEGER, note TEXT)";

const MODEL: &str = "[table.stock]\nconflict = { add = \"qty\" }\n";

fn row(id: i64, qty: i64, note: &str) -> Row {
    vec![int(id), int(qty), text(note)]
}

fn sold(id: i64, from: i64, to: i64) -> Upload {
    Upload::Update("stock", row(id, from, "a"), row(id, to, "a"))
}

/// A center with these rows, which two remotes have.
fn with(backend: Backend, schema: &str, rows: &str) -> (Center, [Remote; 2]) {
    let mut center = Center::on(backend, schema, MODEL);
    center.foreign(&format!("INSERT INTO stock {rows}"));
    let mut remotes = ["one", "two"].map(Remote::new);
    remotes.iter_mut().for_each(|remote| drop(center.synchronize(remote, &[])));
    (center, remotes)
}

fn came(download: Download) -> Vec<Row> {
    download.upserts.into_iter().map(|(_, row)| row).collect()
}

fn quantities(center: &Center) -> String {
    center.list("SELECT qty AS v FROM stock ORDER BY id")
}

// S5: two sell from one stock.
#[test]
fn both_changes_of_a_number_count() {
    Backend::each(|backend| {
        let (mut center, [mut one, mut two]) = with(backend, SCHEMA, "VALUES (1, 10, 'a')");
        let (applied, _) = center.synchronize(&mut one, &[sold(1, 10, 7)]);
        assert_eq!(applied.conflicts, 0);
        // The other columns are merged.
        let uploads = [Upload::Update("stock", row(1, 10, "a"), row(1, 8, "b"))];
        let (applied, download) = center.synchronize(&mut two, &uploads);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        assert_eq!(center.rows("SELECT id, qty, note FROM stock"), [row(1, 5, "b")], "{backend:?}");
        assert_eq!(came(download), [row(1, 5, "b")]);
        let (_, download) = center.synchronize(&mut one, &[]);
        assert_eq!(came(download), [row(1, 5, "b")]);
    });
}

// S5: equal changes were taken for one. The conflicts are many, so that they are foreseen.
#[test]
fn equal_changes_of_a_number_are_two_changes() {
    Backend::each(|backend| {
        let rows =
            "WITH RECURSIVE s (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM s WHERE id < 20)
            SELECT id, 10, 'a' FROM s";
        let (mut center, [mut one, mut two]) = with(backend, SCHEMA, rows);
        let uploads: Vec<Upload> = (1..=20).map(|id| sold(id, 10, 8)).collect();
        let (applied, _) = center.synchronize(&mut one, &uploads);
        assert_eq!(applied.conflicts, 0);
        let (applied, download) = center.synchronize(&mut two, &uploads);
        assert_eq!((applied.conflicts, applied.rejected), (20, 0), "{backend:?}");
        assert_eq!(quantities(&center), ["6"; 20].join(","), "{backend:?}");
        assert_eq!(came(download).len(), 20);
        // What is no change of the number is the same change as ever.
        let noted = [Upload::Update("stock", row(1, 6, "a"), row(1, 6, "b"))];
        center.synchronize(&mut one, &[]);
        center.synchronize(&mut one, &noted);
        let (applied, download) = center.synchronize(&mut two, &noted);
        assert_eq!((applied.conflicts, came(download).len()), (0, 0), "{backend:?}");
    });
}

// S4, S5: what was added once is not added again.
#[test]
fn an_upload_that_is_repeated_adds_nothing() {
    Backend::each(|backend| {
        let (mut center, [mut one, mut two]) = with(backend, SCHEMA, "VALUES (1, 10, 'a')");
        center.synchronize(&mut one, &[sold(1, 10, 8)]);
        let before = two.clone();
        center.upload(&mut two, &[sold(1, 10, 8)]).unwrap();
        assert_eq!(quantities(&center), "6", "{backend:?}");
        // The answer was lost, and the remote does not ask what became of the upload.
        center.upload(&mut before.clone(), &[sold(1, 10, 8)]).unwrap_err();
        assert_eq!(quantities(&center), "6", "{backend:?}");
        // The remote has heard of nothing but the commit. It sells another one.
        let (applied, download) = center.synchronize(&mut two, &[sold(1, 8, 7)]);
        assert_eq!((applied.conflicts, quantities(&center).as_str()), (1, "5"), "{backend:?}");
        assert_eq!(came(download), [row(1, 5, "a")], "{backend:?}");
    });
}

// S5
#[test]
fn where_one_of_the_three_is_null_a_number_is_merged() {
    Backend::each(|backend| {
        let schema = "CREATE TABLE stock (id INTEGER PRIMARY KEY, qty INTEGER, note TEXT)";
        let (mut center, mut remote) = (Center::on(backend, schema, MODEL), Remote::new("r"));
        // As the remote saw it, what it made of it, what it meets, and what becomes of that.
        let cases = [
            (Some(10), Some(8), Some(7), Some(5)),
            (None, Some(8), Some(7), Some(7)),
            (Some(10), None, Some(7), Some(7)),
            (Some(10), Some(8), None, None),
            (None, Some(8), None, Some(8)),
            (Some(10), None, Some(10), None),
            (Some(10), Some(10), Some(7), Some(7)),
            (Some(10), Some(10), None, None),
        ];
        let number = |n: Option<i64>| n.map_or(Value::Null, int);
        let sql = |n: Option<i64>| n.map_or("NULL".to_owned(), |n| n.to_string());
        for (id, (old, ..)) in (1..).zip(cases) {
            center.foreign(&format!("INSERT INTO stock VALUES ({id}, {}, 'a')", sql(old)));
        }
        center.synchronize(&mut remote, &[]);
        let mut uploads = Vec::new();
        for (id, (old, new, now, _)) in (1..).zip(cases) {
            let set = format!("qty = {}, note = 'b'", sql(now));
            center.foreign(&format!("UPDATE stock SET {set} WHERE id = {id}"));
            let row = |n| vec![int(id), number(n), text("a")];
            uploads.push(Upload::Update("stock", row(old), row(new)));
        }
        let (applied, _) = center.synchronize(&mut remote, &uploads);
        assert_eq!((applied.conflicts, applied.rejected), (8, 0), "{backend:?}");
        let found = center.rows("SELECT qty FROM stock ORDER BY id");
        let wanted: Vec<Row> = cases.iter().map(|(.., wanted)| vec![number(*wanted)]).collect();
        assert_eq!(found, wanted, "{backend:?}");
        assert_eq!(center.value("SELECT count(*) FROM stock WHERE note = 'b'"), int(8));
    });
}

// S5
#[test]
fn an_inserted_row_that_meets_another_one_is_merged() {
    Backend::each(|backend| {
        let (mut center, [mut remote, _]) = with(backend, SCHEMA, "VALUES (1, 10, 'a')");
        center.foreign("INSERT INTO stock VALUES (2, 4, 'a'), (3, NULL, 'a'), (4, 4, 'a')");
        let inserts = [2, 3, 4].map(|id| Upload::Insert("stock", row(id, 4 + id % 2, "a")));
        let (applied, _) = center.synchronize(&mut remote, &inserts);
        // Two are equal.
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        assert_eq!(quantities(&center), "10,4,5,4", "{backend:?}");
        // A row that was entered again is sent as an update.
        center.foreign("UPDATE stock SET qty = 7, note = 'b' WHERE id = 1");
        let again = [Upload::Again("stock", row(1, 10, "a"), row(1, 8, "c"))];
        let (applied, download) = center.synchronize(&mut remote, &again);
        assert_eq!((applied.conflicts, applied.rejected), (1, 1), "{backend:?}");
        assert_eq!(download.told(), ["stock 1 E7007"]);
        assert_eq!(center.rows("SELECT id, qty, note FROM stock WHERE id = 1"), [row(1, 5, "b")]);
    });
}

// S2, S5
#[test]
fn a_sum_that_is_too_large_or_breaks_a_constraint_is_rejected() {
    Backend::each(|backend| {
        let largest = backend.pick("9223372036854775807", "2147483647");
        let schema = "CREATE TABLE stock (id INTEGER PRIMARY KEY, \
                      qty INTEGER CHECK (qty >= 0), note TEXT)";
        let rows = "VALUES (1, 10, 'a'), (2, 10, 'a'), (3, 10, 'a')";
        let (mut center, [mut remote, _]) = with(backend, schema, rows);
        center.foreign(&format!(
            "UPDATE stock SET qty = 3;
             UPDATE stock SET qty = {largest} WHERE id = 2"
        ));
        let uploads = [sold(1, 10, 2), sold(2, 10, 11), sold(3, 10, 8)];
        let (applied, download) = center.synchronize(&mut remote, &uploads);
        assert_eq!(applied.rejected, 2, "{backend:?}");
        assert_eq!(download.told(), ["stock 1 E7002", "stock 2 E7002"], "{backend:?}");
        assert_eq!(quantities(&center), format!("3,{largest},1"), "{backend:?}");
        let exact = backend.pick(
            "SELECT count(*) FROM stock WHERE typeof(qty) = 'integer'",
            "SELECT count(*) FROM stock",
        );
        assert_eq!(center.value(exact), int(3));
        // The remote gets the row back.
        let brought = came(download);
        assert!(brought.contains(&row(1, 3, "a")), "{backend:?}: {brought:?}");
    });
}

// S5
#[test]
fn numbers_with_a_fraction_are_added() {
    let cases = [
        (Backend::Sqlite, "REAL", Value::Real(0.5), Value::Real(0.25)),
        (Backend::Sqlite, "NUMERIC", Value::Real(0.5), Value::Real(0.25)),
        (Backend::Postgres, "numeric(10, 2)", text("0.50"), text("0.25")),
        (Backend::Postgres, "double precision", Value::Real(0.5), Value::Real(0.25)),
    ];
    for (backend, declared, half, quarter) in cases {
        let schema = SCHEMA.replace("qty INTEGER", &format!("qty {declared}"));
        let model = match declared.starts_with("numeric") {
            true => format!("{MODEL}as = {{ qty = \"text\" }}\n"),
            false => MODEL.to_owned(),
        };
        let (mut center, mut remote) = (Center::on(backend, &schema, &model), Remote::new("r"));
        center.foreign("INSERT INTO stock VALUES (1, 0.5, 'a')");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE stock SET qty = 0.75");
        let row = |qty: Value| vec![int(1), qty, text("a")];
        let uploads = [Upload::Update("stock", row(half), row(quarter))];
        let (applied, _) = center.synchronize(&mut remote, &uploads);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?} {declared}");
        assert_eq!(
            center.value("SELECT count(*) FROM stock WHERE qty = 0.5"),
            int(1),
            "{declared}"
        );
    }
}

// S5: a value that is no number, and sums that SQLite makes inexact or infinite.
#[test]
fn what_sqlite_has_beside_numbers_is_never_added() {
    let (mut center, mut remote) = (Center::new(SCHEMA, MODEL), Remote::new("r"));
    center
        .foreign("INSERT INTO stock VALUES (1, 10, 'a'), (2, 10, 'a'), (3, 'x', 'a'), (4, 1, 'a')");
    center.synchronize(&mut remote, &[]);
    center.foreign(
        "UPDATE stock SET qty = 'ten' WHERE id = 1;
         UPDATE stock SET qty = x'31' WHERE id = 2;
         UPDATE stock SET qty = 7 WHERE id = 3;
         UPDATE stock SET qty = 1.7e308 WHERE id = 4",
    );
    let from_text = |qty: Value| vec![int(3), qty, text("a")];
    let large = vec![int(4), Value::Real(1.7e308), text("a")];
    let (applied, download) = center.synchronize(
        &mut remote,
        &[
            sold(1, 10, 8),
            sold(2, 10, 8),
            Upload::Update("stock", from_text(text("x")), from_text(int(8))),
            Upload::Update("stock", row(4, 1, "a"), large),
        ],
    );
    assert_eq!((applied.conflicts, applied.rejected), (3, 1));
    assert_eq!(download.told(), ["stock 4 E7002"]);
    let left = "SELECT quote(qty) AS v FROM stock WHERE id < 4 ORDER BY id";
    assert_eq!(center.list(left), "'ten',X'31',7");
}

// S5: a change that was rebased onto what a trigger has made of the number would replace it.
#[test]
fn a_number_that_a_trigger_has_changed_too_is_added_to() {
    Backend::each(|backend| {
        let trigger = backend.pick(
            "CREATE TRIGGER reserve AFTER UPDATE OF qty ON stock WHEN NEW.note <> 'done' BEGIN
                 UPDATE stock SET qty = NEW.qty - 1, note = 'done' WHERE id = NEW.id; END",
            "CREATE FUNCTION reserve() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NEW.note <> 'done' THEN NEW.qty := NEW.qty - 1; NEW.note := 'done'; END IF;
                 RETURN NEW; END $$;
             CREATE TRIGGER reserve BEFORE UPDATE OF qty ON stock
                 FOR EACH ROW EXECUTE FUNCTION reserve()",
        );
        let schema = format!("{SCHEMA};\n{trigger}");
        let (mut center, [mut remote, _]) = with(backend, &schema, "VALUES (1, 10, 'a')");
        center.upload(&mut remote, &[sold(1, 10, 8)]).unwrap();
        assert_eq!(
            center.rows("SELECT id, qty, note FROM stock"),
            [row(1, 7, "done")],
            "{backend:?}"
        );
        // The remote has not received that.
        center.upload(&mut remote, &[sold(1, 8, 7)]).unwrap();
        assert_eq!(
            center.rows("SELECT id, qty, note FROM stock"),
            [row(1, 6, "done")],
            "{backend:?}"
        );
    });
}

// S5: a row that is as the remote wants it may be the work of the user's script.
#[test]
fn what_a_script_of_the_users_may_have_changed_is_not_added_to() {
    Backend::each(|backend| {
        let (mut center, [mut one, mut two]) = with(backend, SCHEMA, "VALUES (1, 10, 'a')");
        let script = "UPDATE stock SET qty = {r.qty} WHERE id = {r.id} AND qty = {o.qty}";
        center.deploy_own(MODEL, &[("stock", Event::UploadUpdate, script)]).unwrap();
        center.synchronize(&mut one, &[sold(1, 10, 8)]);
        let (applied, _) = center.synchronize(&mut two, &[sold(1, 10, 8)]);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(quantities(&center), "8", "{backend:?}");
        // Another change is in the way for certain.
        let (applied, _) = center.synchronize(&mut two, &[sold(1, 10, 7)]);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?}");
        assert_eq!(quantities(&center), "5", "{backend:?}");
    });
}
