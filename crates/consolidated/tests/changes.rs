//! Changes at the centre, by any program, arrive at remotes (S2).
//!
//! On every database, but for what only one of them can do.

#![allow(clippy::unwrap_used)]

#[path = "support/center.rs"]
#[allow(dead_code, reason = "no test needs all of it")]
mod center;

use center::{Backend, Center, Remote, Upload, int, text};
use consolidated::DownloadedTable;
use model::{Code, Value};

const SCHEMA: &str = "
    CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, city TEXT);
    CREATE TABLE orders (id INTEGER PRIMARY KEY,
        customer INTEGER REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE);
    INSERT INTO customer VALUES (1, 'Ann', 'Ulm'), (2, 'Bob', 'Rom'), (3, 'Cid', 'Rom');
    INSERT INTO orders VALUES (10, 1), (11, 1), (20, 2);";
const TABLES: &str = "[table.customer]\n[table.orders]\n";

fn synchronized(backend: Backend) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, TABLES);
    let mut remote = Remote::new("r");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.modes, [DownloadedTable::Refresh; 2]);
    assert_eq!(download.upserts.len(), 6);
    assert_eq!(download.deletes, []);
    (center, remote)
}

fn names(rows: &[(String, Vec<Value>)]) -> Vec<String> {
    let mut names: Vec<String> =
        rows.iter().map(|(table, row)| format!("{table} {}", row[0].as_ref().display())).collect();
    names.sort();
    names
}

fn check(backend: Backend, sql: &str, upserts: &[&str], deletes: &[&str]) {
    let (mut center, mut remote) = synchronized(backend);
    let heeding = backend.pick("PRAGMA foreign_keys = ON;", "");
    center.foreign(&format!("{heeding} {sql}"));
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(names(&download.upserts), upserts, "{backend:?}: {sql}");
    assert_eq!(names(&download.deletes), deletes, "{backend:?}: {sql}");
    let (_, again) = center.synchronize(&mut remote, &[]);
    assert!(again.upserts.is_empty() && again.deletes.is_empty(), "{sql}: nothing comes twice");
}

// S2, Trap 12
#[test]
fn every_way_to_change_a_row_is_noticed() {
    Backend::each(every_way_to_change_a_row);
}

fn every_way_to_change_a_row(backend: Backend) {
    let check =
        |sql: &str, upserts: &[&str], deletes: &[&str]| check(backend, sql, upserts, deletes);
    check("INSERT INTO customer VALUES (4, 'Dan', NULL)", &["customer 4"], &[]);
    check("UPDATE customer SET city = 'Bonn' WHERE id < 3", &["customer 1", "customer 2"], &[]);
    check("DELETE FROM customer WHERE id = 3", &[], &["customer 3"]);
    check("DELETE FROM orders", &[], &["orders 10", "orders 11", "orders 20"]);
    check("UPDATE customer SET id = 9 WHERE id = 3", &["customer 9"], &["customer 3"]);
    check("UPDATE customer SET id = 9 WHERE id = 2", &["customer 9", "orders 20"], &["customer 2"]);
    check("DELETE FROM customer WHERE id = 1", &[], &["customer 1", "orders 10", "orders 11"]);
    check("BEGIN; INSERT INTO customer VALUES (4, 'D', ''); ROLLBACK", &[], &[]);
    check(
        "INSERT INTO customer VALUES (3, 'x', 'y') ON CONFLICT (id) DO UPDATE SET city = 'Kiel'",
        &["customer 3"],
        &[],
    );
    check(
        "DELETE FROM orders WHERE id = 10; INSERT INTO orders VALUES (10, 2)",
        &["orders 10"],
        &[],
    );
    check(
        "INSERT INTO orders VALUES (30, 3); DELETE FROM orders WHERE id = 30",
        &[],
        &["orders 30"],
    );
}

// Trap 9
#[test]
fn rows_that_replace_removes_are_noticed_although_no_delete_trigger_fires() {
    let check = |sql: &str, upserts: &[&str], deletes: &[&str]| {
        check(Backend::Sqlite, sql, upserts, deletes);
    };
    check("INSERT OR REPLACE INTO customer VALUES (3, 'Cid', 'Bonn')", &["customer 3"], &[]);
    check(
        "PRAGMA foreign_keys = OFF; INSERT OR REPLACE INTO customer VALUES (7, 'Bob', 'x')",
        &["customer 7"],
        &["customer 2"],
    );
    check(
        "PRAGMA foreign_keys = OFF; UPDATE OR REPLACE customer SET name = 'Bob' WHERE id = 3",
        &["customer 3"],
        &["customer 2"],
    );
    check(
        "REPLACE INTO customer VALUES (2, 'Cid', 'x')",
        &["customer 2"],
        &["customer 3", "orders 20"],
    );
}

// Trap 3
#[test]
fn a_restored_database_gives_every_remote_its_rows_anew() {
    let (mut center, mut remote) = synchronized(Backend::Sqlite);
    let mut other = Remote::new("other");
    center.synchronize(&mut other, &[]);
    let backup = center.folder.path().join("backup.db");
    center.foreign(&format!("VACUUM INTO '{}'", backup.display()));
    center.foreign("INSERT INTO customer VALUES (50, 'lost', NULL)");
    center.synchronize(&mut remote, &[]);
    // Restored, and then as many new changes as there were lost ones: the numbers agree again.
    let path = center.path();
    let Center { folder, url, writer, reader } = center;
    drop((writer, reader));
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    std::fs::copy(&backup, &path).unwrap();
    let (writer, reader) =
        (consolidated::open_writer(&url).unwrap(), consolidated::open_reader(&url).unwrap());
    let mut center = Center { folder, url, writer, reader };
    center.foreign("INSERT INTO customer VALUES (60, 'new', NULL)");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert!(download.restored);
    assert_eq!(download.modes, [DownloadedTable::Refresh; 2]);
    assert!(names(&download.upserts).contains(&"customer 60".to_owned()));
    // The other remote's own counter proves nothing, but the generation reaches it too.
    let (_, download) = center.synchronize(&mut other, &[]);
    assert!(download.restored && download.modes == [DownloadedTable::Refresh; 2]);
}

// Trap 13
#[test]
fn a_copied_remote_is_told_so_and_the_original_goes_on() {
    Backend::each(|backend| {
        let (mut center, mut remote) = synchronized(backend);
        let mut copy = remote.clone();
        center.synchronize(&mut remote, &[]);
        copy.identity.nonce_attempt.0 += 77;
        assert_eq!(center.upload(&mut copy, &[]).unwrap_err().code(), Code::CopiedRemote);
        center.synchronize(&mut remote, &[]);
    });
}

// S1
#[test]
fn a_lost_answer_is_not_taken_for_a_copy() {
    Backend::each(|backend| {
        let (mut center, mut remote) = synchronized(backend);
        let insert = || Upload::Insert("customer", vec![int(5), text("Eve"), Value::Null]);
        let before = remote.identity;
        center.upload(&mut remote, &[insert()]).unwrap();
        // The answer was lost: the remote only knows what it knew before, and that it tried.
        remote.identity = before;
        remote.identity.outcome_unknown = true;
        let session = center.session(&remote);
        center.writer.begin().unwrap();
        let begun =
            center.writer.begin_synchronization(&session, &center::attempt(&remote)).unwrap();
        center.writer.commit().unwrap();
        assert_eq!(begun.progress.0, before.progress.0 + 1);
        assert_eq!(center.value("SELECT count(*) FROM customer WHERE name = 'Eve'"), int(1));
    });
}

// Trap 6
#[test]
fn an_upload_that_does_not_follow_the_last_one_is_refused_whole() {
    Backend::each(|backend| {
        let (mut center, mut remote) = synchronized(backend);
        let insert = |id| Upload::Insert("customer", vec![int(id), text("Eve"), Value::Null]);
        let begin = |center: &mut Center, remote: &Remote| {
            let session = center.session(remote);
            center.writer.begin().unwrap();
            let begun =
                center.writer.begin_synchronization(&session, &center::attempt(remote)).unwrap();
            center.writer.commit().unwrap();
            begun
        };
        let late = begin(&mut center, &remote);
        // The remote tried again, learned that nothing was committed, and uploaded something else.
        center.upload(&mut remote, &[insert(5)]).unwrap();
        let session = center.session(&remote);
        center.writer.begin().unwrap();
        let failure = center
            .writer
            .upload(&consolidated::UploadRequest {
                session: &session,
                identity: remote.identity,
                epoch: Some(late.epoch),
                previous: model::Progress(0),
                progress: model::Progress(1),
                download_follows: true,
                marks: &[],
                batches: &|_| panic!("the rows must not even be looked at"),
            })
            .unwrap_err();
        center.writer.commit().unwrap();
        assert_eq!(
            failure.code(),
            Code::Superseded,
            "S8: a late predecessor is shut out by its epoch"
        );
    });
}

// S9
#[test]
fn a_trimmed_log_costs_a_remote_a_refresh_and_no_row() {
    let (mut center, mut remote) = synchronized(Backend::Sqlite);
    center.foreign(
        "UPDATE customer SET city = 'a'; UPDATE customer SET city = 'b'; DELETE FROM orders",
    );
    center.writer.trim_logs(2).unwrap();
    assert_eq!(center.value("SELECT count(*) FROM syncline_log_customer"), int(2));
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.modes, [DownloadedTable::Refresh; 2]);
    assert_eq!(names(&download.upserts), ["customer 1", "customer 2", "customer 3"]);
    center.foreign("DELETE FROM customer WHERE id = 3");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(names(&download.deletes), ["customer 3"], "numbers go on where they were");
}

#[test]
fn a_log_made_anew_sends_the_table_anew() {
    let (mut center, mut remote) = synchronized(Backend::Sqlite);
    center.foreign("DROP TRIGGER syncline_insert_customer");
    center.foreign("INSERT INTO customer VALUES (8, 'unnoticed', NULL)");
    center::deploy(&center.url, TABLES).unwrap();
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.modes, [DownloadedTable::Refresh, DownloadedTable::Changes]);
    assert!(names(&download.upserts).contains(&"customer 8".to_owned()));
}

// S1, S8, Trap 6: the upload of a client that died was delivered after its successor had learned
// that it was not committed; it was applied, the successor was taken for a copy, and what it
// uploaded then lost against its own former self.
#[test]
fn an_upload_that_arrives_after_its_successor_asked_is_shut_out() {
    Backend::each(|backend| {
        let (mut center, mut remote) = synchronized(backend);
        let late = center::attempt(&remote);
        let mut asking = remote.clone();
        asking.identity.outcome_unknown = true;
        let session = center.session(&remote);
        center.writer.begin().unwrap();
        let asked = center::attempt(&asking);
        let begun = center.writer.begin_synchronization(&session, &asked).unwrap();
        assert_eq!(begun.progress.0, 0, "nothing is committed");
        let failure = center.writer.begin_synchronization(&session, &late).unwrap_err();
        assert_eq!(failure.code(), Code::Superseded);
        center.writer.commit().unwrap();
        center.synchronize(&mut remote, &[]);
    });
}
