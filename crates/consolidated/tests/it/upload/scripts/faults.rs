//! Scripts that only read, and fail for the data of one row; on every database.

use crate::support::center::{Backend, Center, Remote, Upload, int, text};
use model::Code;
use syncline_consolidated::{Notes, administer};

const SCHEMA: &str = "CREATE TABLE doc (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
    INSERT INTO doc VALUES (1, 1, '{}'), (2, 2, '{}'), (3, 3, '{}'), (4, 4, '{}'), (5, 5, '{}');";

fn update(id: i64) -> Upload {
    let old = vec![int(id), int(id), text("{}")];
    Upload::Update("doc", old, vec![int(id), int(10 * id), text("{}")])
}

/// Replaces a part of the script that reads a row back for the resolution of conflicts.
fn change_fetch(center: &mut Center, backend: Backend, part: &str, by: &str) {
    let table = backend.pick("syncline_script", "syncline.syncline_script");
    center.foreign(&format!(
        "UPDATE {table} SET script = replace(script, '{part}', '{by}')
         WHERE table_name = 'doc' AND event = 'upload_look'"
    ));
    center.reconnect();
}

/// A center whose script cannot read rows 1 and 4, which somebody has changed as well as row 2.
fn spoilt(backend: Backend) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, "[table.doc]\n");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    match backend {
        Backend::Sqlite => change_fetch(&mut center, backend, "\"body\"", "json(\"body\")"),
        Backend::Postgres => {
            change_fetch(&mut center, backend, "t.\"body\"", "(t.\"body\"::json)::text");
        }
    }
    center.foreign(
        "UPDATE doc SET body = '{' WHERE id IN (1, 4); UPDATE doc SET n = 22 WHERE id = 2",
    );
    (center, remote)
}

// S4, S5, S11: the script that reads a row back failed for one row, and with it the upload, again
// and again: nothing of the remote arrived any more.
#[test]
fn a_row_that_a_script_cannot_read_back_is_rejected_and_blocks_no_other() {
    Backend::each(|backend| {
        let (mut center, mut remote) = spoilt(backend);
        let insert = Upload::Insert("doc", vec![int(9), int(9), text("{}")]);
        let uploads = [update(1), update(2), update(3), insert, update(4), update(5)];
        let applied = center.upload(&mut remote, &uploads).unwrap();
        assert_eq!((applied.rejected, applied.conflicts), (2, 1), "{backend:?}");
        assert_eq!((applied.inserts, applied.updates), (1, 5), "{backend:?}");
        for (id, n) in [(1, 1), (2, 22), (3, 30), (4, 4), (5, 50), (9, 9)] {
            let found = center.value(&format!("SELECT n FROM doc WHERE id = {id}"));
            assert_eq!(found, int(n), "{backend:?}: {id}");
        }
        let notes = administer(&center.url).unwrap().rejects(&Notes::newest(10)).unwrap();
        let mut keys: Vec<&str> = notes.iter().map(|note| note.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, [r#"{"id":1}"#, r#"{"id":4}"#], "{backend:?}");
        for note in &notes {
            assert_eq!(note.code, Code::RowRefused.number(), "{backend:?}: {note:?}");
            assert!(note.message.to_lowercase().contains("json"), "{backend:?}: {note:?}");
        }
    });
}

/// Uploads an update of each of 6,000 rows. A script cannot read the odd ones, which are conflicts
/// and those that a trigger changes.
fn upload_many(backend: Backend, trigger: bool) {
    const COUNT: i64 = 6000;
    let made = match (trigger, backend) {
        (false, _) => String::new(),
        (true, Backend::Sqlite) => "CREATE TRIGGER made AFTER UPDATE ON doc BEGIN
                UPDATE doc SET body = '{' WHERE id = NEW.id AND id % 2 = 1 AND body <> '{'; END;"
            .to_owned(),
        (true, Backend::Postgres) => "CREATE FUNCTION made() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN NEW.body = '{'; RETURN NEW; END $$;
            CREATE TRIGGER made BEFORE UPDATE ON doc FOR EACH ROW WHEN (NEW.id % 2 = 1)
                EXECUTE FUNCTION made();"
            .to_owned(),
    };
    let schema = format!(
        "CREATE TABLE doc (id INTEGER PRIMARY KEY, n INTEGER, body TEXT);
         WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {COUNT})
         INSERT INTO doc SELECT n, n, '{{}}' FROM number; {made}"
    );
    let mut center = Center::on(backend, &schema, "[table.doc]\n");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    match backend {
        Backend::Sqlite => change_fetch(&mut center, backend, "\"body\"", "json(\"body\")"),
        Backend::Postgres => {
            change_fetch(&mut center, backend, "t.\"body\"", "(t.\"body\"::json)::text");
        }
    }
    if !trigger {
        center.foreign("UPDATE doc SET body = '{' WHERE id % 2 = 1");
    }
    let uploads: Vec<Upload> = (1..=COUNT).map(update).collect();
    let applied = center.upload(&mut remote, &uploads).unwrap();
    assert_eq!(applied.updates, COUNT as u64, "{backend:?}");
    let changed = "SELECT count(*) FROM doc WHERE n = 10 * id";
    match trigger && backend == Backend::Postgres {
        // Nothing is read there for what a trigger made.
        true => assert_eq!(center.value(changed), int(COUNT), "{backend:?}"),
        false => {
            assert_eq!(applied.rejected, COUNT as u64 / 2, "{backend:?}");
            assert_eq!(center.value(changed), int(COUNT / 2), "{backend:?}");
        }
    }
}

// S1, S4, S5, S9: each such row made the upload begin again, at most a hundred times: one with more
// of them failed for ever.
#[test]
fn any_number_of_rows_that_a_script_cannot_read_is_rejected() {
    Backend::each(|backend| upload_many(backend, false));
}

// S1, S4, S9: the same where a script reads what a trigger made of a row.
#[test]
fn any_number_of_rows_that_a_trigger_spoils_is_rejected() {
    Backend::each(|backend| upload_many(backend, true));
}

// S2, S3: whether a row lies under the key that another one gave up is asked by the same script.
#[test]
fn a_row_that_cannot_be_read_lies_under_its_key() {
    Backend::each(|backend| {
        let (mut center, mut remote) = spoilt(backend);
        center.foreign(
            "UPDATE doc SET id = 30 WHERE id = 3; INSERT INTO doc VALUES (3, 7, '{');
             UPDATE doc SET id = 50 WHERE id = 5; INSERT INTO doc VALUES (5, 8, '{}')",
        );
        let (_, download) = center.synchronize(&mut remote, &[]);
        let arrived = |id: i64, n: i64, body: &str| {
            let row = vec![int(id), int(n), text(body)];
            assert!(download.upserts.contains(&("doc".to_owned(), row)), "{backend:?}: {id}");
        };
        arrived(30, 3, "{}");
        arrived(3, 7, "{");
        arrived(50, 5, "{}");
        arrived(5, 8, "{}");
    });
}

// S2, S11: what is wrong with the script is no row's fault.
#[test]
fn a_script_that_reads_nothing_fails_the_upload_and_rejects_nothing() {
    Backend::each(|backend| {
        let (mut center, mut remote) = spoilt(backend);
        let (part, by) = match backend {
            Backend::Sqlite => ("json(", "nowhere("),
            Backend::Postgres => ("::json", "::nowhere"),
        };
        change_fetch(&mut center, backend, part, by);
        let failure = center.upload(&mut remote, &[update(1), update(3)]).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed, "{backend:?}: {failure:?}");
        assert_eq!(center.value("SELECT n FROM doc WHERE id = 3"), int(3), "{backend:?}");
        let notes = administer(&center.url).unwrap().rejects(&Notes::newest(10)).unwrap();
        assert!(notes.is_empty(), "{backend:?}: {notes:?}");
    });
}
