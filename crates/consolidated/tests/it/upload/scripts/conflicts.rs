//! Conflicts that scripts of the user's find and resolve, with the same results on both databases.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use model::Value;
use syncline_consolidated::Event::{
    ResolveConflict, UploadDelete, UploadFetch, UploadFetchColumnConflict, UploadInsert,
    UploadNewRowInsert, UploadOldRowInsert, UploadUpdate,
};
use syncline_consolidated::{Applied, Event, Notes, administer};

/// Tills sell from one stock. `changed` is not published.
const SCHEMA: &str = "
    CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, pieces INTEGER, price INTEGER,
        changed INTEGER DEFAULT 0);
    CREATE TABLE product_conflict (side TEXT, id INTEGER, name TEXT, pieces INTEGER, price INTEGER);
    CREATE TABLE heard (words TEXT);
    INSERT INTO product (id, name, pieces, price) VALUES (1, 'tea', 10, 3), (2, 'salt', 20, 1);";

const MODEL: &str = "[table.product]\ncolumns = [\"id\", \"name\", \"pieces\", \"price\"]\n";

type Own<'a> = (&'a str, Event, &'a str);

const UPDATE: Own<'_> = (
    "product",
    UploadUpdate,
    "UPDATE product SET name = {r.name}, pieces = {r.pieces}, price = {r.price}, changed = 1
     WHERE id = {r.id}",
);
const FETCH: Own<'_> =
    ("product", UploadFetch, "SELECT id, name, pieces, price FROM product WHERE id = {r.id}");
const FETCH_COLUMNS: Own<'_> = ("product", UploadFetchColumnConflict, FETCH.2);
const OLD: Own<'_> = (
    "product",
    UploadOldRowInsert,
    "INSERT INTO product_conflict VALUES ('O', {r.id, r.name, r.pieces, r.price})",
);
const NEW: Own<'_> = (
    "product",
    UploadNewRowInsert,
    "INSERT INTO product_conflict VALUES ('N', {r.id, r.name, r.pieces, r.price})",
);
/// Adds up what was sold.
const RESOLVE: Own<'_> = (
    "product",
    ResolveConflict,
    "UPDATE product SET pieces = product.pieces - o.pieces + n.pieces, price = n.price
     FROM product_conflict AS o, product_conflict AS n
     WHERE o.side = 'O' AND n.side = 'N' AND o.id = product.id AND n.id = product.id;
     INSERT INTO heard SELECT side || id FROM product_conflict ORDER BY side;
     DELETE FROM product_conflict",
);

fn product(id: i64, name: &str, pieces: i64, price: i64) -> Row {
    vec![int(id), text(name), int(pieces), int(price)]
}

fn tea(pieces: i64) -> Row {
    product(1, "tea", pieces, 3)
}

fn sells(from: i64, to: i64) -> Upload {
    Upload::Update("product", tea(from), tea(to))
}

/// A center, and two tills that have what is there.
fn center(backend: Backend, model: &str, scripts: &[Own<'_>]) -> (Center, [Remote; 2]) {
    let mut center = Center::on(backend, SCHEMA, MODEL);
    center.deploy_own(model, scripts).unwrap();
    let mut tills = [Remote::new("ida"), Remote::new("jon")];
    for till in &mut tills {
        center.synchronize(till, &[]);
    }
    (center, tills)
}

fn products(center: &Center) -> String {
    center.list("SELECT id || name || '=' || pieces || '/' || price AS v FROM product ORDER BY id")
}

fn heard(center: &Center) -> String {
    center.list("SELECT words AS v FROM heard ORDER BY words")
}

fn comes(download: &Download) -> Vec<Row> {
    download.upserts.iter().map(|(_, row)| row.clone()).collect()
}

fn outcome(applied: &Applied) -> [u64; 3] {
    [applied.conflicts, applied.rejected, applied.ignored]
}

#[test]
fn what_a_script_fetches_otherwise_is_resolved_by_scripts_and_comes_back() {
    Backend::each(|backend| {
        let scripts = [UPDATE, FETCH, OLD, NEW, RESOLVE];
        let (mut center, [mut ida, mut jon]) = center(backend, MODEL, &scripts);
        let (applied, _) = center.synchronize(&mut ida, &[sells(10, 7)]);
        assert_eq!(outcome(&applied), [0; 3]);
        let (applied, download) = center.synchronize(&mut jon, &[sells(10, 8)]);
        assert_eq!(outcome(&applied), [1, 0, 0]);
        assert_eq!(products(&center), "1tea=5/3,2salt=20/1");
        assert_eq!(comes(&download), [tea(5)]);
        assert_eq!(heard(&center), "N1,O1");
        let (_, download) = center.synchronize(&mut ida, &[]);
        assert_eq!(comes(&download), [tea(5)]);
        let notes = administer(&center.url).unwrap().conflicts(&Notes::newest(9)).unwrap();
        let pieces = |json: &Option<String>| {
            let row: serde_json::Value = serde_json::from_str(json.as_ref().unwrap()).unwrap();
            row["pieces"].as_i64().unwrap()
        };
        let note = &notes[0];
        let seen = [&note.new, &note.consolidated, &note.result].map(pieces);
        assert_eq!((notes.len(), seen), (1, [8, 7, 5]));
    });
}

// A rule of the model takes the same change for agreement; to a script it is two sales.
#[test]
fn the_same_sale_at_two_tills_counts_twice() {
    Backend::each(|backend| {
        let scripts = [UPDATE, FETCH, OLD, NEW, RESOLVE];
        let (mut center, [mut ida, mut jon]) = center(backend, MODEL, &scripts);
        center.synchronize(&mut ida, &[sells(10, 8)]);
        let (applied, download) = center.synchronize(&mut jon, &[sells(10, 8)]);
        assert_eq!(outcome(&applied), [1, 0, 0]);
        assert_eq!(products(&center), "1tea=6/3,2salt=20/1");
        assert_eq!(comes(&download), [tea(6)]);
    });
}

// One statement that names both images needs no table of conflicts.
#[test]
fn a_script_may_resolve_a_conflict_by_both_images_alone() {
    let resolve = (
        "product",
        ResolveConflict,
        "UPDATE product SET pieces = pieces + {r.pieces} - {o.pieces} WHERE id = {r.id}",
    );
    Backend::each(|backend| {
        // Generated: an update that changes no row has a conflict.
        let (mut center, [mut ida, mut jon]) = center(backend, MODEL, &[resolve]);
        center.synchronize(&mut ida, &[sells(10, 7)]);
        let (applied, download) = center.synchronize(&mut jon, &[sells(10, 8)]);
        assert_eq!(outcome(&applied), [1, 0, 0]);
        assert_eq!(products(&center), "1tea=5/3,2salt=20/1");
        assert_eq!(comes(&download), [tea(5)]);
    });
}

#[test]
fn an_update_that_applies_to_no_row_is_a_conflict_by_count() {
    let update = (
        "product",
        UploadUpdate,
        "UPDATE product SET pieces = {r.pieces} WHERE id = {r.id} AND pieces = {o.pieces}",
    );
    Backend::each(|backend| {
        let (mut center, [mut ida, mut jon]) = center(backend, MODEL, &[update, OLD, NEW, RESOLVE]);
        center.foreign("DELETE FROM product WHERE id = 2");
        center.synchronize(&mut ida, &[sells(10, 7)]);
        let salt = Upload::Update("product", product(2, "salt", 20, 1), product(2, "salt", 15, 1));
        let (applied, download) = center.synchronize(&mut jon, &[sells(10, 8), salt]);
        assert_eq!(outcome(&applied), [2, 0, 0]);
        assert_eq!(products(&center), "1tea=5/3");
        assert_eq!(heard(&center), "N1,N2,O1,O2");
        assert_eq!(comes(&download), [tea(5)]);
        // What is resolved to nothing is deleted at the remote.
        assert_eq!(download.deletes, [("product".to_owned(), vec![int(2)])]);
    });
}

#[test]
fn columns_that_one_side_changed_stay_both() {
    Backend::each(|backend| {
        let scripts = [UPDATE, FETCH_COLUMNS, OLD, NEW, RESOLVE];
        let (mut center, [mut ida, mut jon]) = center(backend, MODEL, &scripts);
        let priced = Upload::Update("product", tea(10), product(1, "tea", 10, 4));
        center.synchronize(&mut ida, &[priced]);
        let (applied, download) = center.synchronize(&mut jon, &[sells(10, 8)]);
        assert_eq!(outcome(&applied), [0; 3]);
        assert_eq!(products(&center), "1tea=8/4,2salt=20/1");
        assert_eq!(comes(&download), [product(1, "tea", 8, 4)]);
        let row = |pieces| product(1, "tea", pieces, 4);
        center.synchronize(&mut ida, &[]);
        center.synchronize(&mut ida, &[Upload::Update("product", row(8), row(7))]);
        let both = Upload::Update("product", row(8), row(6));
        let (applied, _) = center.synchronize(&mut jon, &[both]);
        assert_eq!(outcome(&applied), [1, 0, 0]);
        assert_eq!(products(&center), "1tea=5/4,2salt=20/1");
    });
}

#[test]
fn without_scripts_that_apply_rows_every_row_is_a_conflict() {
    let model = format!("scripts = \"own\"\n{MODEL}");
    let cursor = ("product", Event::DownloadCursor, "SELECT id, name, pieces, price FROM product");
    let deletes = ("product", Event::DownloadDeleteCursor, "--{ignore}");
    let resolve = (
        "product",
        ResolveConflict,
        "INSERT INTO heard SELECT side || id || '=' || pieces FROM product_conflict;
         DELETE FROM product_conflict",
    );
    Backend::each(|backend| {
        let scripts = [OLD, NEW, resolve, cursor, deletes];
        let (mut center, [mut ida, _]) = center(backend, &model, &scripts);
        let uploads = [
            sells(10, 7),
            Upload::Insert("product", product(3, "rice", 5, 2)),
            Upload::Delete("product", product(2, "salt", 20, 1)),
        ];
        let (applied, download) = center.synchronize(&mut ida, &uploads);
        assert_eq!(outcome(&applied), [3, 0, 0]);
        assert_eq!(heard(&center), "N1=7,N3=5,O1=10,O2=20");
        // The scripts have left the table alone, so the remote gets it back as it is.
        assert_eq!(products(&center), "1tea=10/3,2salt=20/1");
        let mut rows = comes(&download);
        rows.dedup();
        assert_eq!(rows, [tea(10), product(2, "salt", 20, 1)]);
        assert_eq!(download.deletes, [("product".to_owned(), vec![int(3)])]);
    });
}

// An insert that meets a row, and a delete, are decided by the rule of the model as before.
#[test]
fn other_conflicts_are_decided_by_the_rule_of_the_model() {
    Backend::each(|backend| {
        let model = format!("{MODEL}conflict = \"remote_wins\"\n");
        let (mut center, [mut ida, _]) = center(backend, &model, &[UPDATE, FETCH, RESOLVE]);
        center.foreign("UPDATE product SET pieces = 19 WHERE id = 2");
        center.foreign("INSERT INTO product (id, name, pieces, price) VALUES (3, 'oil', 1, 1)");
        let uploads = [
            Upload::Insert("product", product(3, "rice", 5, 2)),
            Upload::Delete("product", product(2, "salt", 20, 1)),
        ];
        let (applied, _) = center.synchronize(&mut ida, &uploads);
        assert_eq!(outcome(&applied), [2, 0, 0]);
        assert_eq!(products(&center), "1tea=10/3,3rice=5/2");
    });
}

// S1, S4: what cannot be resolved is a reject, and nothing of its scripts remains.
#[test]
fn a_conflict_whose_script_fails_is_rejected_alone() {
    let resolve = (
        "product",
        ResolveConflict,
        "INSERT INTO heard VALUES ('begun' || {r.id});
         UPDATE product SET pieces = {r.pieces} / ({r.pieces} - 8), id = CASE {r.pieces}
             WHEN 8 THEN 2 ELSE {r.id} END WHERE id = {r.id}",
    );
    Backend::each(|backend| {
        let (mut center, [mut ida, mut jon]) = center(backend, MODEL, &[UPDATE, FETCH, resolve]);
        let salt = |from, to| {
            Upload::Update("product", product(2, "salt", from, 1), product(2, "salt", to, 1))
        };
        center.synchronize(&mut ida, &[sells(10, 7), salt(20, 19)]);
        let (applied, download) = center.synchronize(&mut jon, &[sells(10, 8), salt(20, 18)]);
        assert_eq!(outcome(&applied), [1, 1, 0]);
        assert_eq!(heard(&center), "begun2");
        assert_eq!(products(&center), "1tea=7/3,2salt=1/1");
        let mut keys: Vec<Value> = comes(&download).iter().map(|row| row[0].clone()).collect();
        keys.sort_by_key(|key| format!("{key:?}"));
        assert_eq!(keys, [int(1), int(2)]);
        assert_eq!(download.rejects.len(), 1);
    });
}

#[test]
fn a_thousand_updates_with_three_hundred_conflicts_take_eight_exchanges() {
    let counted = (
        "product",
        UploadUpdate,
        "UPDATE product SET pieces = {r.pieces} WHERE id = {r.id} AND pieces = {o.pieces}",
    );
    let locked = (
        FETCH.0,
        FETCH.1,
        "SELECT id, name, pieces, price FROM product WHERE id = {r.id}
        FOR UPDATE",
    );
    for scripts in [[UPDATE, locked, OLD, NEW, RESOLVE], [counted, NEW, OLD, NEW, RESOLVE]] {
        let (mut center, [mut ida, _]) = center(Backend::Postgres, MODEL, &scripts);
        center.foreign(
            "INSERT INTO product (id, name, pieces, price)
             SELECT i, 'p', 10, 1 FROM generate_series(1001, 2000) AS i",
        );
        let row = |id, pieces| product(id, "p", pieces, 1);
        let updates = |from, to| -> Vec<Upload> {
            let update = |id| Upload::Update("product", row(id, from), row(id, to));
            (1001..=2000).map(update).collect()
        };
        let mut upload = |center: &mut Center, from: i64| {
            center.synchronize(&mut ida, &[]);
            center.foreign("UPDATE product SET pieces = pieces - 1 WHERE id > 1700");
            let trips = center.writer.round_trips();
            let applied = center.upload(&mut ida, &updates(from, from - 2)).unwrap();
            assert_eq!(outcome(&applied), [300, 0, 0]);
            center.writer.round_trips() - trips
        };
        // The connection knows all statements when they have run.
        let mut trips = 0;
        for _ in 0..3 {
            center.foreign("UPDATE product SET pieces = 10 WHERE id > 1000");
            trips = upload(&mut center, 10);
        }
        assert!(trips <= 8, "{trips}");
        let sums = "SELECT sum(pieces) AS v FROM product WHERE id > 1000";
        assert_eq!(center.value(sums), int(700 * 8 + 300 * 7));
    }
}

#[test]
fn what_cannot_be_a_way_to_find_conflicts_is_refused_or_told() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, MODEL);
        let mut refused = |scripts: &[Own<'_>]| {
            center.deploy_own(MODEL, scripts).unwrap_err().message().to_owned()
        };
        let both = refused(&[UPDATE, FETCH, FETCH_COLUMNS, RESOLVE]);
        assert!(both.contains("upload_fetch.sql is there too; keep one"), "{both}");
        let narrow = refused(&[(FETCH.0, FETCH.1, "SELECT id FROM product"), RESOLVE]);
        assert!(narrow.contains("returns 1 columns"), "{narrow}");
        let writes = refused(&[(FETCH.0, FETCH.1, "DELETE FROM product"), RESOLVE]);
        assert!(writes.contains("upload_fetch must be a SELECT"), "{writes}");
        let set = refused(&[("product", ResolveConflict, "SELECT * FROM {updates} AS u")]);
        assert!(set.contains("resolve_conflict is not for a batch"), "{set}");
        let old = refused(&[(OLD.0, OLD.1, "INSERT INTO heard VALUES ({o.name})")]);
        assert!(old.contains("{o.name}: this event has no such row"), "{old}");
        let deployment = center.deploy_own(MODEL, &[UPDATE, FETCH]).unwrap();
        let told = deployment.notices.join("\n");
        assert!(told.contains("upload_fetch.sql: it is not used"), "{told}");
        assert!(
            center
                .deploy_own(
                    MODEL,
                    &[UploadInsert, UploadDelete].map(|event| { ("product", event, "--{ignore}") })
                )
                .is_ok()
        );
    });
}
