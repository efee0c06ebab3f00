//! Triggers of the center that give an uploaded row another key.
//!
//! The remote gets the row under the key that the center has, and nothing under its own.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::Code;

fn ticket(id: i64, title: &str) -> Row {
    vec![int(id), text(title)]
}

fn note(id: &str, ticket: i64) -> Row {
    vec![text(id), int(ticket)]
}

/// Tickets whose negative numbers are placeholders, and notes about them.
fn numbering(backend: Backend, model: &str) -> (Center, Remote) {
    let triggers = backend.pick(
        "CREATE TRIGGER number AFTER INSERT ON ticket WHEN NEW.id < 0
             BEGIN UPDATE ticket SET id = 100 - NEW.id WHERE id = NEW.id; END;
         CREATE TRIGGER renumber AFTER UPDATE OF title ON ticket WHEN NEW.title = 'move'
             BEGIN UPDATE ticket SET id = NEW.id + 1000 WHERE id = NEW.id; END;",
        "CREATE FUNCTION number() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.id < 0 THEN NEW.id := 100 - NEW.id; END IF;
             IF NEW.title = 'move' THEN NEW.id := NEW.id + 1000; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER number BEFORE INSERT OR UPDATE ON ticket
             FOR EACH ROW EXECUTE FUNCTION number();",
    );
    let schema = format!(
        "CREATE TABLE ticket (id INTEGER PRIMARY KEY, title TEXT);
         CREATE TABLE note (id TEXT PRIMARY KEY, ticket INTEGER NOT NULL REFERENCES ticket);
         INSERT INTO ticket VALUES (7, 'rope');{triggers}"
    );
    let mut center = Center::on(backend, &schema, model);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

#[test]
fn a_row_that_gets_another_key_is_at_the_remote_under_that_key_only() {
    Backend::each(|backend| {
        let (mut center, mut remote) = numbering(backend, "[table.ticket]\n[table.note]\n");
        let inserts = [
            Upload::Insert("ticket", ticket(-1, "lamp")),
            Upload::Insert("ticket", ticket(8, "oil")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &inserts);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(download.deletes, [("ticket".into(), vec![int(-1)])], "{backend:?}");
        assert_eq!(download.upserts, [("ticket".into(), ticket(101, "lamp"))], "{backend:?}");
        assert_eq!(download.rejects, [], "{backend:?}");
        // It is owed once.
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!((download.deletes, download.upserts), (vec![], vec![]), "{backend:?}");
    });
}

#[test]
fn an_edit_that_moves_a_row_moves_it_at_the_remote_too() {
    Backend::each(|backend| {
        let (mut center, mut remote) = numbering(backend, "[table.ticket]\n[table.note]\n");
        let edit = [Upload::Update("ticket", ticket(7, "rope"), ticket(7, "move"))];
        let (applied, download) = center.synchronize(&mut remote, &edit);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{backend:?}");
        assert_eq!(download.deletes, [("ticket".into(), vec![int(7)])], "{backend:?}");
        assert_eq!(download.upserts, [("ticket".into(), ticket(1007, "move"))], "{backend:?}");
    });
}

#[test]
fn a_child_of_the_key_that_the_remote_used_is_rejected() {
    Backend::each(|backend| {
        let (mut center, mut remote) = numbering(backend, "[table.ticket]\n[table.note]\n");
        let rows = [
            Upload::Insert("ticket", ticket(-1, "lamp")),
            Upload::Insert("note", note("of lamp", -1)),
            Upload::Insert("note", note("of rope", 7)),
        ];
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{backend:?}");
        let code = Code::RowReferences.number();
        assert_eq!(download.rejects, [("note".into(), vec![text("of lamp")], code)]);
        assert!(download.deletes.contains(&("ticket".into(), vec![int(-1)])), "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM ticket ORDER BY id"), "7,101", "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM note"), "of rope", "{backend:?}");
    });
}

// What only goes up stays at the remote as it is.
#[test]
fn a_table_that_is_only_uploaded_owes_nothing() {
    Backend::each(|backend| {
        let model = "[table.ticket]\ndirection = \"upload_only\"\n";
        let (mut center, mut remote) = numbering(backend, model);
        let insert = [Upload::Insert("ticket", ticket(-1, "lamp"))];
        let (_, download) = center.synchronize(&mut remote, &insert);
        assert_eq!((download.deletes, download.upserts), (vec![], vec![]), "{backend:?}");
        let system = backend.pick("syncline_owed", "syncline.syncline_owed");
        assert_eq!(center.list(&format!("SELECT count(*) AS v FROM {system}")), "0");
        assert_eq!(center.list("SELECT id AS v FROM ticket ORDER BY id"), "7,101", "{backend:?}");
    });
}
