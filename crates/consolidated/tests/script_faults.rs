//! Scripts that only read, and fail for the data of one row; on every database.

#![allow(clippy::unwrap_used)]

#[path = "support/center.rs"]
#[allow(dead_code, reason = "no test needs all of it")]
mod center;

use center::{Backend, Center, Remote, Upload, int, text};
use consolidated::{Notes, administer};
use model::Code;

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
         WHERE table_name = 'doc' AND event = 'upload_fetch'"
    ));
    center.reconnect();
}

/// A centre whose script cannot read rows 1 and 4, which somebody has changed as well as row 2.
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
        let notes = administer(&center.url).unwrap().rejects(Notes::Newest(10)).unwrap();
        let mut keys: Vec<&str> = notes.iter().map(|note| note.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, [r#"{"id":1}"#, r#"{"id":4}"#], "{backend:?}");
        for note in &notes {
            assert_eq!(note.code, Code::RowRefused.number(), "{backend:?}: {note:?}");
            assert!(note.message.to_lowercase().contains("json"), "{backend:?}: {note:?}");
        }
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
        let notes = administer(&center.url).unwrap().rejects(Notes::Newest(10)).unwrap();
        assert!(notes.is_empty(), "{backend:?}: {notes:?}");
    });
}
