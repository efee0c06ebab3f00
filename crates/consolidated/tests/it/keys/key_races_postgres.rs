//! Keys that change at a PostgreSQL center while an upload is being applied.

use crate::support::center::{Remote, Upload, int, text};
use crate::support::on_postgres;
use harness::until;
use std::thread;

/// Rows of `first` wait for a lock. What is inserted comes before them: where that fails, rows are
/// applied one by one, and changed keys have been asked for when they wait.
const SCHEMA: &str = "
    CREATE TABLE first (id integer PRIMARY KEY, note text CHECK (note <> 'bad'));
    CREATE TABLE second (id integer PRIMARY KEY, note text);
    INSERT INTO first VALUES (1, '');
    INSERT INTO second VALUES (1, 'a'), (2, 'b');
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
    CREATE TRIGGER wait BEFORE UPDATE ON first FOR EACH ROW EXECUTE FUNCTION wait();";

/// No key has changed when the upload checks, and one changes while it is applied row by row. A
/// change under the old key then found no row, or the row that took the key.
// S5, Trap 21
#[test]
fn a_key_that_changes_while_an_upload_is_isolated_is_followed() {
    for rule in ["consolidated_wins", "remote_wins", "merge"] {
        for taken in [false, true] {
            let tables = format!("[table.first]\n[table.second]\nconflict = \"{rule}\"\n");
            let (mut center, database) = on_postgres::center(SCHEMA, &tables);
            let mut remote = Remote::another();
            center.synchronize(&mut remote, &[]);
            let mut other = database.session();
            other.sql("BEGIN; SELECT pg_advisory_xact_lock(1)");
            let rows = [
                Upload::Insert("first", vec![int(2), text("bad")]),
                Upload::Update("first", vec![int(1), text("")], vec![int(1), text("x")]),
                Upload::Update("second", vec![int(1), text("a")], vec![int(1), text("mine")]),
            ];
            let applied = thread::scope(|scope| {
                let upload = scope.spawn(|| center.upload(&mut remote, &rows).unwrap());
                let waits = "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d
                    ON d.oid = l.database WHERE d.datname = current_database()
                    AND l.locktype = 'advisory' AND NOT l.granted";
                until("the upload to wait", || database.count(waits) == 1);
                other.sql("UPDATE second SET id = 5 WHERE id = 1");
                if taken {
                    other.sql("UPDATE second SET id = 1 WHERE id = 2");
                }
                other.sql("COMMIT");
                upload.join().unwrap()
            });
            let said = format!("{rule}, {taken}: {applied:?}");
            let notes = database.text("SELECT id, note FROM second ORDER BY id");
            let others = if taken { "1|b\n" } else { "2|b\n" };
            assert_eq!(notes, format!("{others}5|mine\n"), "{said}");
            assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{said}");
        }
    }
}
