//! The rows that a download reads exist while it reads, and still exist after a crash.

use crate::support::center::{Center, Remote};
use crate::support::on_postgres;
use harness::postgres::{Cluster, PsqlSession, TestDatabase};
use harness::{full, until};
use model::{Code, Failure};
use std::process::Command;
use syncline_consolidated::{Applied, DownloadBatch, FetchRequest};

const SCHEMA: &str = "
    CREATE TABLE member (project integer, person text, note text, PRIMARY KEY (project, person));
    CREATE TABLE task (id integer PRIMARY KEY, project integer, note text);
    CREATE INDEX task_project ON task (project);
    CREATE TABLE comment (id integer PRIMARY KEY, task integer NOT NULL REFERENCES task, note text);
    CREATE INDEX comment_task ON comment (task);
    CREATE TABLE word (id integer PRIMARY KEY, note text);
    CREATE TABLE listed (id integer PRIMARY KEY, note text);
    INSERT INTO member VALUES (3, 'p', ''), (4, 'q', '');
    INSERT INTO task VALUES (1, 3, ''), (2, 4, '');
    INSERT INTO comment VALUES (11, 1, ''), (12, 1, ''), (21, 2, '');
    INSERT INTO word VALUES (1, '');
    INSERT INTO listed VALUES (1, '');";

const TABLES: &str = "[table.task]
partition = \"project IN (SELECT project FROM member WHERE person = {u.person})\"
[table.comment]
parent = \"task\"
[table.word]
partition = { custom = \"t.id IN (SELECT id FROM public.listed)\" }
";

fn synchronized_with(database: &TestDatabase) -> (Center, Remote) {
    database.sql(SCHEMA);
    let center = on_postgres::deployed(database, TABLES);
    let mut remote = Remote::another();
    remote.claims.insert("person".into(), "p".into());
    (center, remote)
}

/// Downloads, and runs `between` when the snapshot is taken and no row is read yet. Returns the
/// rows, each as table and key.
fn download(
    center: &mut Center,
    remote: &Remote,
    applied: &Applied,
    between: &mut dyn FnMut(),
) -> Result<Vec<String>, Failure> {
    let session = center.session(remote);
    let request = FetchRequest {
        is_counted: false,
        session: &session,
        counter: applied.counter,
        marks: &remote.marks,
        held_marks: &[],
        echo: &applied.echo,
        time_us: None,
        wanted: &[],
        batch_bytes: 1 << 20,
        batch_rows: 1,
        row_bytes_max: u64::MAX,
        resuming: Default::default(),
    };
    let mut came = Vec::new();
    center.fetch(&request, &mut |batch| {
        match batch {
            DownloadBatch::Begin { .. } => between(),
            DownloadBatch::Upserts { table, rows, .. } => {
                let key = model::RowReader::new(&rows).value()?.display();
                came.push(format!("{} {key}", session.schema.tables[table].name));
            }
            _ => {}
        }
        Ok(())
    })?;
    came.sort();
    Ok(came)
}

/// Begins a statement in a session of its own, and waits until it is done or waits for a lock.
fn begin(database: &TestDatabase, sql: &str) -> PsqlSession {
    let mut owner = database.session();
    let process = owner.sql("SELECT pg_backend_pid()");
    owner.begin(sql);
    let rests = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {}
         AND (state LIKE 'idle%' OR wait_event_type = 'Lock')
         AND query NOT LIKE '%pg_backend_pid%'",
        process.trim()
    );
    until("the owner's statement to be done or to wait", || database.count(&rests) == 1);
    owner
}

const SWAP: &str = "BEGIN;
    CREATE TABLE another (LIKE TABLE_NAME INCLUDING ALL);
    INSERT INTO another SELECT * FROM TABLE_NAME;
    ALTER TABLE TABLE_NAME RENAME TO former; ALTER TABLE another RENAME TO TABLE_NAME; COMMIT";

/// Between the snapshot of a download and its rows the owner rewrote a table. To the snapshot it
/// was empty from then on: the download brought nothing, its watermark said that the remote has
/// everything, and the rows never came. That went for tables that only decide, too.
// S2, Trap 20
#[test]
fn a_table_that_is_rewritten_during_a_download_loses_no_row() {
    let rewrites = [
        ("ALTER TABLE TABLE_NAME ADD COLUMN more double precision DEFAULT random()", "all"),
        ("ALTER TABLE TABLE_NAME ALTER COLUMN note TYPE text USING note || '!'", "all"),
        ("ALTER TABLE TABLE_NAME SET UNLOGGED", "member comment word listed"),
        ("TRUNCATE TABLE_NAME", "member comment word listed"),
        ("VACUUM FULL TABLE_NAME", "all"),
        (SWAP, "member comment word listed"),
    ];
    let all = ["comment 11", "comment 12", "task 1", "word 1"];
    for (number, (rewrite, tables)) in rewrites.into_iter().enumerate() {
        for (place, table) in
            ["member", "task", "comment", "word", "listed"].into_iter().enumerate()
        {
            if tables != "all" && !tables.contains(table) {
                continue;
            }
            for first in [true, false] {
                // A full run has each table both ways.
                if !full() && first != ((number + place) % 2 == 0) {
                    continue;
                }
                let database = Cluster::shared().database();
                let (mut center, mut remote) = synchronized_with(&database);
                center.by_writer = first == (place % 2 == 0);
                let applied = if first {
                    center.upload(&mut remote, &[]).unwrap()
                } else {
                    center.synchronize(&mut remote, &[]);
                    database.sql("UPDATE task SET note = 'x'; UPDATE comment SET note = 'x'");
                    center.upload(&mut remote, &[]).unwrap()
                };
                let sql = rewrite.replace("TABLE_NAME", table);
                let mut owner = None;
                let came = download(&mut center, &remote, &applied, &mut || {
                    owner = Some(begin(&database, &sql));
                });
                assert_eq!(came.unwrap(), all, "{sql}, first: {first}");
                owner.unwrap().wait();
            }
        }
    }
}

/// Two tables, locked one after the other, by a download and by the owner in turn: PostgreSQL ended
/// the owner's migration as the victim of the deadlock.
// S10, Trap 20
#[test]
fn the_owners_statement_is_never_the_victim_of_a_download() {
    let cluster = Cluster::start_with("deadlock_timeout = 400ms");
    let database = cluster.database();
    let (mut center, mut remote) = synchronized_with(&database);
    let applied = center.upload(&mut remote, &[]).unwrap();
    let mut owner = database.session();
    // The last in the order of names.
    owner.sql("BEGIN; LOCK TABLE word IN ACCESS EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let came = scope.spawn(|| download(&mut center, &remote, &applied, &mut || {}));
        until("the download to wait", || {
            database.count(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                 AND application_name = 'syncline'",
            ) == 1
        });
        owner.sql("ALTER TABLE comment ADD COLUMN more double precision DEFAULT random(); COMMIT");
        let came = came.join().unwrap().unwrap();
        assert_eq!(came, ["comment 11", "comment 12", "task 1", "word 1"]);
    });
}

// S9, S11
#[test]
fn a_download_whose_table_stays_locked_is_told_to_come_back() {
    let cluster = Cluster::start_with("deadlock_timeout = 100ms");
    let database = cluster.database();
    let (mut center, mut remote) = synchronized_with(&database);
    let applied = center.upload(&mut remote, &[]).unwrap();
    let mut owner = database.session();
    owner.sql("BEGIN; LOCK TABLE listed IN ACCESS EXCLUSIVE MODE");
    let failure = download(&mut center, &remote, &applied, &mut || {}).unwrap_err();
    assert_eq!(failure.code(), Code::DatabaseBusy);
    assert!(failure.retry_after().is_some());
    owner.sql("COMMIT");
    assert_eq!(download(&mut center, &remote, &applied, &mut || {}).unwrap().len(), 4);
}

/// Another program committed with `synchronous_commit = off`. Its rows were downloaded, then the
/// database crashed before they had reached its disk: the remote kept rows that exist nowhere, and
/// their numbers were given out again.
// S3, Trap 27
#[test]
fn what_a_crash_undoes_was_never_downloaded() {
    let cluster = Cluster::start_with("autovacuum = off\nbgwriter_lru_maxpages = 0");
    let database = cluster.database();
    let (mut center, mut remote) = synchronized_with(&database);
    center.synchronize(&mut remote, &[]);
    let applied = center.upload(&mut remote, &[]).unwrap();
    stop_log_writer(&cluster);
    database.sql("SET synchronous_commit = off; INSERT INTO comment VALUES (13, 1, 'async')");
    let came = download(&mut center, &remote, &applied, &mut || {}).unwrap();
    assert_eq!(came, ["comment 13", "word 1"]);
    cluster.kill();
    cluster.restart();
    assert_eq!(database.text("SELECT id FROM comment WHERE id = 13"), "13\n");
}

/// Nothing else writes the log to the disk now, but who commits.
fn stop_log_writer(cluster: &Cluster) {
    let all = cluster.database_named("postgres").as_role(harness::postgres::SUPERUSER);
    let writer = all.text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    let stopped = Command::new("kill").args(["-STOP", writer.trim()]).status();
    assert!(stopped.unwrap().success());
}

// Trap 27: a remote that is sent nothing does not wait, and one write serves all who wait.
#[test]
fn a_download_without_rows_writes_nothing() {
    let cluster = Cluster::start_with("autovacuum = off\nbgwriter_lru_maxpages = 0");
    let database = cluster.database();
    database.sql("CREATE TABLE word (id integer PRIMARY KEY, note text);");
    let mut center = on_postgres::deployed(&database, "[table.word]\n");
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    let applied = center.upload(&mut remote, &[]).unwrap();
    stop_log_writer(&cluster);
    database.sql(
        "CREATE TABLE other (id integer); SET synchronous_commit = off;
         INSERT INTO other VALUES (1)",
    );
    let row_version = "SELECT ctid FROM syncline.syncline_timeline";
    let before = database.text(row_version);
    assert!(download(&mut center, &remote, &applied, &mut || {}).unwrap().is_empty());
    assert_eq!(database.text(row_version), before);
    database.sql("SET synchronous_commit = off; INSERT INTO word VALUES (1, 'x')");
    assert_eq!(download(&mut center, &remote, &applied, &mut || {}).unwrap(), ["word 1"]);
    let after = database.text(row_version);
    assert_ne!(after, before);
    // It is on the disk now, and so is everything that the next download shows.
    assert_eq!(download(&mut center, &remote, &applied, &mut || {}).unwrap(), ["word 1"]);
    assert_eq!(database.text(row_version), after);
}
