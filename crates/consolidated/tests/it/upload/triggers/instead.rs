//! Triggers of the center that do something else instead of an uploaded change.
//!
//! What they do stays. The remote gets the row as it is then; an insert or an update that is not
//! there is rejected, with its content.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::Code;

const RULES: [&str; 3] = ["\"consolidated_wins\"", "\"remote_wins\"", "\"merge\""];

fn each(test: impl Fn(Backend, &str)) {
    Backend::each(|backend| RULES.iter().for_each(|rule| test(backend, rule)));
}

fn row(id: i64, note: &str, gone: i64) -> Row {
    vec![int(id), text(note), int(gone)]
}

/// Five rows. A delete marks the row instead, changes to `divert` go to another table, and an
/// insert of `twice` is made by the trigger.
fn center(backend: Backend, rule: &str) -> (Center, Remote) {
    let triggers = backend.pick(
        "CREATE TRIGGER soft BEFORE DELETE ON t BEGIN
             UPDATE t SET gone = 1 WHERE id = OLD.id; SELECT RAISE(IGNORE); END;
         CREATE TRIGGER divert BEFORE INSERT ON t WHEN NEW.note = 'divert' BEGIN
             INSERT INTO other (note) VALUES (NEW.id); SELECT RAISE(IGNORE); END;
         CREATE TRIGGER redirect BEFORE UPDATE ON t WHEN NEW.note = 'divert' BEGIN
             INSERT INTO other (note) VALUES (NEW.id); SELECT RAISE(IGNORE); END;
         CREATE TRIGGER made BEFORE INSERT ON t WHEN NEW.note = 'made' BEGIN
             INSERT INTO t VALUES (NEW.id, NEW.note, NEW.gone); SELECT RAISE(IGNORE); END;",
        "CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF TG_OP = 'DELETE' THEN
                 UPDATE t SET gone = 1 WHERE id = OLD.id;
                 RETURN NULL;
             ELSIF NEW.note = 'divert' THEN
                 INSERT INTO other (note) VALUES (NEW.id::text);
                 RETURN NULL;
             ELSIF TG_OP = 'INSERT' AND NEW.note = 'made' AND pg_trigger_depth() = 1 THEN
                 INSERT INTO t VALUES (NEW.id, NEW.note, NEW.gone);
                 RETURN NULL;
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER instead BEFORE INSERT OR UPDATE OR DELETE ON t
             FOR EACH ROW EXECUTE FUNCTION instead();",
    );
    let schema = format!(
        "CREATE TABLE other (note TEXT);
         CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT, gone INTEGER);
         INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0), (4, 'd', 0), (5, 'e', 0);
         {triggers}"
    );
    let mut center = Center::on(backend, &schema, &format!("[table.t]\nconflict = {rule}\n"));
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

#[test]
fn a_delete_that_becomes_a_mark_is_sent_back_with_the_mark() {
    each(|backend, rule| {
        let (mut center, mut remote) = center(backend, rule);
        let changes = [
            Upload::Insert("t", row(6, "f", 0)),
            Upload::Update("t", row(4, "d", 0), row(4, "dd", 0)),
            Upload::Delete("t", row(2, "b", 0)),
            Upload::Delete("t", row(3, "c", 0)),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        let told = format!("{backend:?} {rule}: {download:?}");
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{told}");
        let mut upserts = download.upserts;
        upserts.sort_by_key(|(_, row)| format!("{row:?}"));
        let marked = [("t".into(), row(2, "b", 1)), ("t".into(), row(3, "c", 1))];
        assert_eq!(upserts, marked, "{told}");
        assert_eq!(center.list("SELECT id AS v FROM t WHERE gone = 1 ORDER BY id"), "2,3");
        assert_eq!(center.list("SELECT note AS v FROM t ORDER BY id"), "a,b,c,dd,e,f");
    });
}

// The row is not as the remote saw it, and the rule decides about the delete.
#[test]
fn a_delete_of_a_row_that_others_have_changed_is_a_conflict() {
    each(|backend, rule| {
        let (mut center, mut remote) = center(backend, rule);
        let changes = [Upload::Delete("t", row(2, "what it never was", 0))];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{backend:?} {rule}");
        let gone = i64::from(rule == "\"remote_wins\"");
        assert_eq!(download.upserts, [("t".into(), row(2, "b", gone))], "{backend:?} {rule}");
    });
}

#[test]
fn what_a_trigger_puts_elsewhere_stays_there_and_is_told() {
    each(|backend, rule| {
        let (mut center, mut remote) = center(backend, rule);
        let changes = [
            Upload::Insert("t", row(6, "divert", 0)),
            Upload::Insert("t", row(7, "divert", 0)),
            Upload::Insert("t", row(8, "h", 0)),
            Upload::Update("t", row(1, "a", 0), row(1, "divert", 0)),
            Upload::Update("t", row(4, "d", 0), row(4, "dd", 0)),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        let told = format!("{backend:?} {rule}: {download:?}");
        assert_eq!((applied.conflicts, applied.rejected), (0, 3), "{told}");
        let code = Code::RowVetoed.number();
        assert!(download.rejects.iter().all(|(_, _, told)| *told == code), "{told}");
        assert!(download.upserts.contains(&("t".into(), row(1, "a", 0))), "{told}");
        assert_eq!(center.list("SELECT note AS v FROM other ORDER BY note"), "1,6,7", "{told}");
        assert_eq!(center.list("SELECT note AS v FROM t ORDER BY id"), "a,b,c,dd,e,h", "{told}");
    });
}

#[test]
fn a_row_that_the_trigger_writes_itself_is_applied() {
    each(|backend, rule| {
        let (mut center, mut remote) = center(backend, rule);
        let changes = [Upload::Insert("t", row(6, "made", 0)), Upload::Insert("t", row(7, "g", 0))];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        let told = format!("{backend:?} {rule}: {download:?}");
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{told}");
        assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "1,2,3,4,5,6,7", "{told}");
    });
}
