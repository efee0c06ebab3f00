//! Changes at the center, by any program, arrive at remotes (S2).
//!
//! On every database, except for abilities that only one of them has.

use crate::support::center::{self, Backend, Center, Remote, Upload, int, text};
use model::{Code, Value};
use syncline_consolidated::DownloadedTable;

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
    let nothing = again.upserts.is_empty() && again.deletes.is_empty();
    assert!(nothing, "{sql}: nothing comes twice");
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

// Trap 3, Trap 30
#[test]
fn a_remote_that_has_seen_a_later_state_is_compared_alone() {
    let (mut center, mut remote) = synchronized(Backend::Sqlite);
    let mut other = Remote::new("other");
    center.synchronize(&mut other, &[]);
    let backup = center.folder.path().join("backup.db");
    center.foreign(&format!("VACUUM INTO '{}'", backup.display()));
    center.foreign("INSERT INTO customer VALUES (50, 'lost', NULL)");
    center.synchronize(&mut remote, &[]);
    // Restored, and then as many new changes as there were lost ones: the numbers agree again.
    let path = center.path();
    let Center { folder, url, writer, reader, .. } = center;
    drop((writer, reader));
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    std::fs::copy(&backup, &path).unwrap();
    let (writer, reader) = (
        syncline_consolidated::open_writer(&url).unwrap(),
        syncline_consolidated::open_reader(&url).unwrap(),
    );
    let mut center = Center { folder, url, writer, reader, by_writer: false };
    center.foreign("INSERT INTO customer VALUES (60, 'new', NULL)");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert!(download.restored);
    assert_eq!(download.modes, [DownloadedTable::Refresh; 2]);
    assert!(names(&download.upserts).contains(&"customer 60".to_owned()));
    // Its word is no evidence for others; what the center itself knows is seen when it is served.
    let (_, download) = center.synchronize(&mut other, &[]);
    assert!(!download.restored && download.modes == [DownloadedTable::Changes; 2]);
    assert!(names(&download.upserts).contains(&"customer 60".to_owned()));
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
            center.writer.begin_synchronization(&session, &center::attempt(&remote), None).unwrap();
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
            let begun = center
                .writer
                .begin_synchronization(&session, &center::attempt(remote), None)
                .unwrap();
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
            .upload(&syncline_consolidated::UploadRequest {
                session: &session,
                identity: remote.identity,
                receipt: None,
                epoch: Some(late.epoch),
                previous: model::Progress(0),
                progress: model::Progress(1),
                uploads: true,
                download_follows: true,
                marks: &[],
                left_out: None,
                entered_again: None,
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
        let begun = center.writer.begin_synchronization(&session, &asked, None).unwrap();
        assert_eq!(begun.progress.0, 0, "nothing is committed");
        let failure = center.writer.begin_synchronization(&session, &late, None).unwrap_err();
        assert_eq!(failure.code(), Code::Superseded);
        center.writer.commit().unwrap();
        center.synchronize(&mut remote, &[]);
    });
}

/// What a remote holds of the table `part`: id and value.
type Held = std::collections::BTreeMap<i64, Value>;

/// Takes a download over; what it has must be what the center has for `owner`.
fn take(center: &Center, held: &mut Held, download: &center::Download, owner: &str) {
    let id = |row: &[Value]| match row[0] {
        Value::Integer(id) => id,
        _ => panic!("{row:?} has no id"),
    };
    if download.modes == [DownloadedTable::Refresh] {
        held.clear();
    }
    download.deletes.iter().for_each(|(_, key)| drop(held.remove(&id(key))));
    for (_, row) in &download.upserts {
        held.insert(id(row), row[2].clone());
    }
    let rows = center.rows(&format!("SELECT id, v FROM part WHERE owner = '{owner}' ORDER BY id"));
    let there: Held = rows.iter().map(|row| (id(row), row[1].clone())).collect();
    assert_eq!(*held, there, "{owner}");
}

const PART: &str = "CREATE TABLE part (id INTEGER PRIMARY KEY, owner TEXT, v TEXT);
    CREATE INDEX part_owner ON part (owner);";
const PART_MODEL: &str = "[table.part]\npartition = \"owner = {u.name}\"\n";

fn remote_of(id: &'static str, owner: &str) -> Remote {
    let mut remote = Remote::new(id);
    remote.claims.insert("name".into(), owner.into());
    remote
}

/// Entries of a log are found by the runs of those with the same owner, which the server makes when
/// it commits, or one by one where it has not yet.
// S2, S3
#[test]
fn changes_of_one_owner_are_found_in_runs_and_behind_them() {
    let mut center = Center::new(PART, PART_MODEL);
    let owners = ["ann", "bob"];
    let mut remotes = [remote_of("a", "ann"), remote_of("b", "bob")];
    let mut held = [Held::new(), Held::new()];
    for round in 1..=6_i64 {
        // Long runs, short ones, and unusual owners: NULL, and text that is not UTF-8.
        center.foreign(&format!(
            "INSERT INTO part SELECT {round} * 100 + value, CASE value % 7
                 WHEN 0 THEN 'bob' WHEN 1 THEN NULL WHEN 2 THEN CAST(x'ff41' AS TEXT)
                 ELSE 'ann' END, 'new' FROM generate_series(1, 40);
             UPDATE part SET owner = 'bob' WHERE owner = 'ann' AND id % 5 = {round} % 5;
             UPDATE part SET v = 'round {round}' WHERE id % 3 = {round} % 3;
             DELETE FROM part WHERE id % 11 = {round};"
        ));
        for (at, owner) in owners.iter().enumerate() {
            let id = round * 1000 + at as i64 * 10;
            let row = vec![int(id), text(owner), text("up")];
            let applied = center.upload(&mut remotes[at], &[Upload::Insert("part", row)]).unwrap();
            held[at].insert(id, text("up"));
            // Behind the last run.
            center.foreign(&format!(
                "INSERT INTO part VALUES ({id} + 500, 'ann', 'late'), ({id} + 501, 'bob', 'late');
                 UPDATE part SET owner = CASE owner WHEN 'ann' THEN 'bob' ELSE 'ann' END
                 WHERE id % 17 = {round};
                 DELETE FROM part WHERE id % 13 = {round};"
            ));
            let download = center.download(&mut remotes[at], &applied);
            assert_eq!(download.modes[0] == DownloadedTable::Refresh, round == 1);
            take(&center, &mut held[at], &download, owner);
        }
        let found = center.value("SELECT max(last_sequence) FROM syncline_runs_part");
        assert!(found != Value::Null, "the server made runs");
        if round == 4 {
            // All runs are removed, because the later entries are more than the kept ones.
            center.writer.trim_logs(3).unwrap();
        }
        for (at, owner) in owners.iter().enumerate() {
            let (_, download) = center.synchronize(&mut remotes[at], &[]);
            take(&center, &mut held[at], &download, owner);
            let (_, again) = center.synchronize(&mut remotes[at], &[]);
            assert!(again.upserts.is_empty() && again.deletes.is_empty(), "nothing comes twice");
        }
    }
    let broken = "SELECT count(*) FROM syncline_runs_part AS s JOIN syncline_log_part AS l
        ON l.syncline_sequence BETWEEN s.first_sequence AND s.last_sequence
        WHERE s.syncline_place_owner IS NOT l.syncline_place_owner";
    assert_eq!(center.value(broken), int(0));
    let outside = "SELECT count(*) FROM syncline_log_part
        WHERE syncline_sequence <= (SELECT max(last_sequence) FROM syncline_runs_part)
          AND NOT EXISTS (SELECT 1 FROM syncline_runs_part
                          WHERE syncline_sequence BETWEEN first_sequence AND last_sequence)";
    assert_eq!(center.value(outside), int(0));
}
