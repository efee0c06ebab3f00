//! Uploads by scripts that a user wrote.

use crate::support::center::{Backend, Center, Remote, Upload, int, text};
use model::{Code, Value};
use syncline_consolidated::Event::{UploadDelete, UploadInsert, UploadUpdate};
use syncline_consolidated::{ConflictNote, Notes, RejectNote, administer};

const SCHEMA: &str = "
    CREATE TABLE visit (id INTEGER PRIMARY KEY, place INTEGER, note TEXT, by TEXT DEFAULT 'center');
    CREATE TABLE line (id INTEGER PRIMARY KEY, visit INTEGER REFERENCES visit, note TEXT);
    CREATE TABLE heard (number INTEGER PRIMARY KEY, words TEXT);
    INSERT INTO visit (id, place, note) VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c');";

/// `by` is not published: only the own scripts set it.
const MODEL: &str = "[table.visit]
    columns = [\"id\", \"place\", \"note\"]
    [table.line]\n";

const INSERT: &str = "INSERT INTO visit (id, place, note, by)
    VALUES ({r.id, r.place, ml r.note}, {s.username} || {s.remote_id})";
const UPDATE: &str = "UPDATE visit SET note = {r.note}, by = {s.username} WHERE id = {r.id}";
const CHECKED: &str = "UPDATE visit SET note = {r.note}, by = {s.username}
    WHERE id = {r.id} AND note IS {o.note}";

fn visit(id: i64, place: i64, note: &str) -> Vec<Value> {
    vec![int(id), int(place), text(note)]
}

fn insert(id: i64, note: &str) -> Upload {
    Upload::Insert("visit", visit(id, 1, note))
}

fn update(id: i64, old: &str, new: &str) -> Upload {
    Upload::Update("visit", visit(id, 1, old), visit(id, 1, new))
}

fn delete(id: i64, old: &str) -> Upload {
    Upload::Delete("visit", visit(id, 1, old))
}

fn center(model: &str, scripts: &[(&str, syncline_consolidated::Event, &str)]) -> (Center, Remote) {
    let mut center = Center::on(Backend::Sqlite, SCHEMA, model);
    center.deploy_own(model, scripts).unwrap();
    let mut remote = Remote::new("r");
    remote.claims.insert("place".into(), "1".into());
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn visits(center: &Center) -> String {
    center.list("SELECT id || note || by AS v FROM visit ORDER BY id")
}

fn rejects(center: &Center) -> Vec<RejectNote> {
    administer(&center.url).unwrap().rejects(&Notes::newest(10)).unwrap()
}

fn conflicts(center: &Center) -> Vec<ConflictNote> {
    administer(&center.url).unwrap().conflicts(&Notes::newest(10)).unwrap()
}

#[test]
fn own_scripts_write_what_the_remote_does_not_know() {
    let remove = "UPDATE visit SET by = 'removed' WHERE id = {r.id}";
    let scripts = [
        ("visit", UploadInsert, INSERT),
        ("visit", UploadUpdate, UPDATE),
        ("visit", UploadDelete, remove),
    ];
    let (mut center, mut remote) = center(MODEL, &scripts);
    let uploads = [insert(9, "n"), update(1, "a", "A"), delete(2, "b")];
    let (applied, download) = center.synchronize(&mut remote, &uploads);
    assert_eq!((applied.inserts, applied.updates, applied.deletes), (1, 1, 1));
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert_eq!(visits(&center), "1Aann,2bremoved,3ccenter,9nannr");
    // The remote has what it sent. The row that it deleted is there still, and comes again.
    assert_eq!(download.upserts, [("visit".to_owned(), visit(2, 1, "b"))]);
}

// S5: a script that looks at the old image and changes nothing has found a conflict.
#[test]
fn a_row_that_a_script_did_not_change_is_decided_by_the_rule() {
    for (rule, kept) in [("consolidated_wins", "xcenter"), ("remote_wins", "Acenter")] {
        let model =
            MODEL.replace("[table.visit]", &format!("[table.visit]\nconflict = \"{rule}\""));
        let (mut center, mut remote) = center(&model, &[("visit", UploadUpdate, CHECKED)]);
        center.foreign("UPDATE visit SET note = 'x' WHERE id = 1");
        let uploads = [update(1, "a", "A"), update(2, "b", "B")];
        let (applied, download) = center.synchronize(&mut remote, &uploads);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{rule}");
        assert_eq!(visits(&center), format!("1{kept},2Bann,3ccenter"), "{rule}");
        assert_eq!(conflicts(&center).len(), 1);
        let comes = download.upserts.iter().any(|(_, row)| row[0] == int(1));
        assert_eq!(comes, rule == "consolidated_wins");
    }
}

// Nothing is lost in silence: the row is as the remote saw it, and the script left it so.
#[test]
fn a_row_that_a_script_leaves_alone_is_rejected_and_comes_back() {
    let never = "UPDATE visit SET note = {r.note} WHERE id = {r.id} AND 1 = 0";
    let nothing = "INSERT INTO visit (id) SELECT {r.id} WHERE 1 = 0";
    let scripts = [("visit", UploadUpdate, never), ("visit", UploadInsert, nothing)];
    let (mut center, mut remote) = center(MODEL, &scripts);
    let (applied, download) =
        center.synchronize(&mut remote, &[insert(9, "n"), update(1, "a", "A")]);
    assert_eq!(applied.rejected, 2);
    assert_eq!(download.upserts, [("visit".to_owned(), visit(1, 1, "a"))]);
    assert_eq!(download.deletes, [("visit".to_owned(), vec![int(9)])]);
    let mut told: Vec<String> = rejects(&center).into_iter().map(|note| note.message).collect();
    told.sort();
    let of = |event| format!("the script {event} did not change the row");
    assert_eq!(told, [of("upload_insert"), of("upload_update")]);
}

// A call, and several statements, say nothing: their count is never taken for a conflict.
#[test]
fn several_statements_run_in_order_and_their_count_says_nothing() {
    let script = "INSERT INTO heard (words) VALUES ('begin' || {r.id});
        UPDATE visit SET note = {r.note} WHERE id = {r.id} AND 1 = 0; -- done
        INSERT INTO heard (words) VALUES ('end' || {r.id});";
    let (mut center, mut remote) = center(MODEL, &[("visit", UploadUpdate, script)]);
    let (applied, _) = center.synchronize(&mut remote, &[update(1, "a", "A"), update(2, "b", "B")]);
    assert_eq!((applied.updates, applied.conflicts, applied.rejected), (2, 0, 0));
    assert_eq!(
        center.list("SELECT words AS v FROM heard ORDER BY number"),
        "begin1,end1,begin2,end2"
    );
}

// The row whose second statement fails is taken back as a whole; the others are there, in order.
#[test]
fn a_fault_takes_back_one_row_and_keeps_the_order() {
    let script = "INSERT INTO heard (words) VALUES ({r.note});
        INSERT INTO visit (id, place, note) VALUES ({r.id, r.place, r.note})";
    let (mut center, mut remote) = center(MODEL, &[("visit", UploadInsert, script)]);
    let uploads = [insert(7, "x"), insert(3, "y"), insert(8, "z"), insert(1, "q"), insert(9, "w")];
    let (applied, download) = center.synchronize(&mut remote, &uploads);
    assert_eq!((applied.rejected, applied.conflicts), (2, 0));
    assert_eq!(center.list("SELECT words AS v FROM heard ORDER BY number"), "x,z,w");
    let codes: Vec<u16> = rejects(&center).iter().map(|note| note.code).collect();
    assert_eq!(codes, [Code::RowNotUnique.number(); 2]);
    // What the center has under these keys comes.
    let mut keys: Vec<&Value> = download.upserts.iter().map(|(_, row)| &row[0]).collect();
    keys.sort_by_key(|key| format!("{key:?}"));
    assert_eq!(keys, [&int(1), &int(3)]);
}

// S7: the fence holds for scripts that do not know of it, before the write and afterwards.
#[test]
fn a_script_does_not_reach_beyond_the_partition() {
    let model = "[table.visit]
        columns = [\"id\", \"place\", \"note\"]
        partition = \"place = {u.place}\"\n";
    let anywhere = "UPDATE visit SET note = {r.note}, place = {r.place} WHERE id = {r.id}";
    let upsert = "INSERT INTO visit (id, place, note) VALUES ({r.id, r.place, r.note})
        ON CONFLICT (id) DO UPDATE SET note = excluded.note";
    let remove = "DELETE FROM visit WHERE id = {r.id}";
    let scripts = [
        ("visit", UploadUpdate, anywhere),
        ("visit", UploadInsert, upsert),
        ("visit", UploadDelete, remove),
    ];
    let (mut center, mut remote) = center(model, &scripts);
    let uploads = [
        // Outside already.
        update(3, "c", "C"),
        insert(3, "C"),
        delete(3, "c"),
        // Outside afterwards.
        Upload::Update("visit", visit(1, 1, "a"), visit(1, 2, "A")),
        Upload::Insert("visit", visit(8, 2, "n")),
        // Inside.
        insert(9, "n"),
        update(2, "b", "B"),
    ];
    let (applied, _) = center.synchronize(&mut remote, &uploads);
    assert_eq!(applied.rejected, 5);
    assert_eq!(visits(&center), "1acenter,2Bcenter,3ccenter,9ncenter");
    let outside = Code::RowOutsideSubscription.number();
    assert!(rejects(&center).iter().all(|note| note.code == outside));
}

// They stay at the remote until the row of the center changes: not owed, and no conflict.
#[test]
fn an_ignored_script_leaves_both_sides_as_they_are() {
    let ignore = "--{ignore} the office decides\nCOMMIT;";
    let scripts = [
        ("visit", UploadInsert, ignore),
        ("visit", UploadUpdate, ignore),
        ("visit", UploadDelete, ignore),
    ];
    let (mut center, mut remote) = center(MODEL, &scripts);
    let uploads = [insert(9, "n"), update(1, "a", "A"), delete(2, "b")];
    let (applied, download) = center.synchronize(&mut remote, &uploads);
    assert_eq!(applied.ignored, 3);
    assert_eq!((applied.inserts, applied.updates, applied.deletes), (0, 0, 0));
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert!(download.upserts.is_empty() && download.deletes.is_empty());
    assert_eq!(visits(&center), "1acenter,2bcenter,3ccenter");
    center.foreign("UPDATE visit SET note = 'now' WHERE id = 1");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.upserts, [("visit".to_owned(), visit(1, 1, "now"))]);
}

// The other tables are as generated: their rows wait for parents that come later.
#[test]
fn generated_tables_beside_it_are_as_before() {
    let (mut center, mut remote) = center(MODEL, &[("visit", UploadInsert, INSERT)]);
    let line = |id: i64, visit: i64| Upload::Insert("line", vec![int(id), int(visit), text("l")]);
    let uploads = [line(1, 9), insert(9, "n"), line(2, 77)];
    let (applied, _) = center.synchronize(&mut remote, &uploads);
    assert_eq!(applied.rejected, 1);
    assert_eq!(center.list("SELECT id AS v FROM line"), "1");
    let references = Code::RowReferences.number();
    assert_eq!(rejects(&center)[0].code, references);
}

// A row that an own script moves to the values that another row had is refused at its turn.
#[test]
fn own_rows_do_not_wait_for_each_other() {
    let mut center = Center::on(
        Backend::Sqlite,
        "CREATE TABLE seat (id INTEGER PRIMARY KEY, place INTEGER UNIQUE);
         INSERT INTO seat VALUES (1, 1), (2, 2);",
        "[table.seat]\n",
    );
    let script = "UPDATE seat SET place = {r.place} WHERE id = {r.id}";
    center.deploy_own("[table.seat]\n", &[("seat", UploadUpdate, script)]).unwrap();
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let seat = |id: i64, place: i64| vec![int(id), int(place)];
    let uploads = [
        Upload::Update("seat", seat(1, 1), seat(1, 2)),
        Upload::Update("seat", seat(2, 2), seat(2, 3)),
    ];
    let (applied, download) = center.synchronize(&mut remote, &uploads);
    assert_eq!(applied.rejected, 1);
    assert_eq!(center.list("SELECT id || place AS v FROM seat ORDER BY id"), "11,23");
    assert_eq!(download.upserts, [("seat".to_owned(), seat(1, 1))]);
}

#[test]
fn a_view_is_written_by_its_trigger() {
    let mut center = Center::on(
        Backend::Sqlite,
        "CREATE TABLE visit (id INTEGER PRIMARY KEY, note TEXT);
         CREATE VIEW entry AS SELECT * FROM visit;
         CREATE TRIGGER entered INSTEAD OF INSERT ON entry BEGIN
             INSERT INTO visit VALUES (NEW.id, upper(NEW.note)); END;",
        "[table.visit]\n",
    );
    let script = "INSERT INTO entry VALUES ({r.id, r.note})";
    center.deploy_own("[table.visit]\n", &[("visit", UploadInsert, script)]).unwrap();
    let mut remote = Remote::new("r");
    let row = |note: &str| vec![int(1), text(note)];
    let (applied, download) = center.synchronize(&mut remote, &[Upload::Insert("visit", row("a"))]);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert_eq!(download.upserts, [("visit".to_owned(), row("A"))]);
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    let mut center = Center::on(Backend::Sqlite, SCHEMA, MODEL);
    let scripts = [
        ("visit", UploadInsert, "INSERT INTO visit (id)\nVALUES ({r.id}, {r.nope})"),
        ("visit", UploadUpdate, "UPDATE visit SET note = {r.note},\n    nowt = 1"),
        ("visit", UploadDelete, "DELETE FROM visit WHERE id IN (SELECT id FROM {deletes})"),
        ("line", UploadInsert, "INSERT INTO line VALUES (:id, {r.visit}, '')"),
        ("nobody", UploadInsert, "SELECT 1"),
    ];
    let before = center.list("SELECT count(*) AS v FROM syncline_script");
    let failure = center.deploy_own(MODEL, &scripts).unwrap_err();
    assert_eq!(failure.code(), Code::ScriptInvalid);
    let mut lines: Vec<&str> = failure.message().lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "scripts/v1/line/upload_insert.sql:1:26: a value is named in braces, such as \
             {r.column}",
            "scripts/v1/nobody/upload_insert.sql: script version v1 publishes no table nobody",
            "scripts/v1/visit/upload_delete.sql:1:56: there are no batches on SQLite: name values \
             of one row",
            "scripts/v1/visit/upload_insert.sql:2:18: unknown parameter {r.nope}",
            "scripts/v1/visit/upload_update.sql:2:5: no such column: nowt",
        ]
    );
    assert_eq!(center.list("SELECT count(*) AS v FROM syncline_script"), before);
}

// Without its file, the generated script is back.
#[test]
fn a_script_is_in_use_for_as_long_as_its_file_is_there() {
    let (mut center, mut remote) = center(MODEL, &[("visit", UploadUpdate, UPDATE)]);
    center.synchronize(&mut remote, &[update(1, "a", "A")]);
    let again = center.deploy_own(MODEL, &[("visit", UploadUpdate, UPDATE)]).unwrap();
    assert_eq!(again.statements, [""; 0]);
    assert!(!center.deploy_own(MODEL, &[]).unwrap().statements.is_empty());
    let mut other = Remote::new("other");
    center.synchronize(&mut other, &[]);
    center.synchronize(&mut other, &[update(2, "b", "B")]);
    assert_eq!(visits(&center), "1Aann,2Bcenter,3ccenter");
}

#[test]
fn what_nobody_generates_must_be_written() {
    let mut center = Center::on(Backend::Sqlite, SCHEMA, "[table.visit]\n");
    let model = "scripts = \"own\"\n[table.visit]\ndirection = \"upload_only\"\n";
    let failure = center.deploy_own(model, &[("visit", UploadInsert, INSERT)]).unwrap_err();
    assert_eq!(
        failure.message().lines().collect::<Vec<_>>(),
        [
            "visit: upload_update is missing; write it, or a file with --{ignore}",
            "visit: upload_delete is missing; write it, or a file with --{ignore}",
        ]
    );
}
