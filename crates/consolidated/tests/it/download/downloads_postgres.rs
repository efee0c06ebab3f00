//! Changes in PostgreSQL arrive once, no matter who makes them and when they commit.

use crate::support::center::{self, Center, Download, Remote, Upload, int, text};
use crate::support::on_postgres;
use harness::postgres::{Cluster, SUPERUSER, TestDatabase};
use harness::until;
use model::{Code, RemoteId, Value};
use syncline_consolidated::DownloadedTable::{Changes, Refresh};
use syncline_consolidated::{Acknowledgement, Echo, FetchRequest, open_reader};

const SCHEMA: &str = "
    CREATE TABLE customer (id integer PRIMARY KEY, name text NOT NULL);
    CREATE TABLE purchase (id integer PRIMARY KEY, customer integer REFERENCES customer);
    INSERT INTO customer VALUES (1, 'Ann'), (2, 'Bob');
    INSERT INTO purchase VALUES (10, 1);";
const TABLES: &str = "[table.customer]\n[table.purchase]\n";

fn synchronized() -> (Center, TestDatabase, Remote) {
    let (mut center, database) = on_postgres::center(SCHEMA, TABLES);
    let mut remote = Remote::new("r");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.modes, [Refresh, Refresh]);
    assert_eq!(came(&download), ["customer 1", "customer 2", "purchase 10"]);
    (center, database, remote)
}

/// What a download brought: tables and keys, deletes with a minus.
fn came(download: &Download) -> Vec<String> {
    let key = |row: &[model::Value]| row[0].as_ref().display();
    let upserts = download.upserts.iter().map(|(table, row)| format!("{table} {}", key(row)));
    let deletes = download.deletes.iter().map(|(table, row)| format!("-{table} {}", key(row)));
    let mut all: Vec<String> = upserts.chain(deletes).collect();
    all.sort();
    all
}

fn download(center: &mut Center, remote: &mut Remote) -> Vec<String> {
    came(&center.synchronize(remote, &[]).1)
}

// S2, Trap 1: neither missed nor sent twice, however long a transaction is open.
#[test]
fn a_row_comes_once_after_its_commit_whatever_is_open_meanwhile() {
    let (mut center, database, mut remote) = synchronized();
    let (mut old, mut saved) = (database.session(), database.session());
    old.sql("BEGIN; INSERT INTO customer VALUES (3, 'Cid')");
    // A savepoint has a transaction number of its own, which no snapshot shows.
    saved.sql(
        "BEGIN; SAVEPOINT a; INSERT INTO customer VALUES (4, 'Dan'); SAVEPOINT b;
         UPDATE customer SET name = 'Ben' WHERE id = 2; RELEASE b; RELEASE a;
         SAVEPOINT c; INSERT INTO customer VALUES (99, 'undone'); ROLLBACK TO c",
    );
    database.sql("BEGIN; DELETE FROM purchase; PREPARE TRANSACTION 'later'");
    database.sql("COPY customer (id, name) FROM STDIN;\n5\tEve\n\\.\n");
    assert_eq!(download(&mut center, &mut remote), ["customer 5"]);
    assert!(download(&mut center, &mut remote).is_empty());
    saved.sql("COMMIT");
    assert_eq!(download(&mut center, &mut remote), ["customer 2", "customer 4"]);
    database.sql("INSERT INTO purchase VALUES (11, 4)");
    assert_eq!(download(&mut center, &mut remote), ["purchase 11"]);
    database.sql("COMMIT PREPARED 'later'");
    assert_eq!(download(&mut center, &mut remote), ["-purchase 10"]);
    old.sql("COMMIT");
    assert_eq!(download(&mut center, &mut remote), ["customer 3"]);
    assert!(download(&mut center, &mut remote).is_empty());
}

// Trap 12
#[test]
fn every_way_to_change_a_row_is_noticed() {
    let (mut center, database, mut remote) = synchronized();
    let mut check = |sql: &str, expected: &[&str]| {
        database.sql(sql);
        assert_eq!(download(&mut center, &mut remote), expected, "{sql}");
        assert!(download(&mut center, &mut remote).is_empty(), "{sql}: nothing comes twice");
    };
    check("UPDATE customer SET name = 'Ben' WHERE id = 2", &["customer 2"]);
    check("UPDATE customer SET id = 3 WHERE id = 2", &["-customer 2", "customer 3"]);
    check("DELETE FROM purchase; INSERT INTO purchase VALUES (10, 3)", &["purchase 10"]);
    check(
        "INSERT INTO purchase VALUES (11, 1); DELETE FROM purchase WHERE id = 11",
        &["-purchase 11"],
    );
    check(
        "INSERT INTO customer VALUES (3, 'x') ON CONFLICT (id) DO UPDATE SET name = 'y'",
        &["customer 3"],
    );
    check("BEGIN; UPDATE customer SET name = 'z'; ROLLBACK", &[]);
}

// Trap 12
#[test]
fn triggers_that_are_off_for_replicas_still_note_what_a_replica_writes() {
    let (mut center, database, mut remote) = synchronized();
    database.as_role(SUPERUSER).sql(
        "SET session_replication_role = replica;
         UPDATE customer SET name = 'Ben' WHERE id = 2; DELETE FROM purchase",
    );
    assert_eq!(download(&mut center, &mut remote), ["-purchase 10", "customer 2"]);
}

#[test]
fn an_emptied_table_is_sent_afresh_and_no_other() {
    let (mut center, database, mut remote) = synchronized();
    database.sql("TRUNCATE purchase; INSERT INTO purchase VALUES (12, 1)");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.modes, [Changes, Refresh]);
    assert_eq!(came(&download), ["purchase 12"]);
}

// S9
#[test]
fn what_was_trimmed_is_made_good_by_sending_the_table_afresh() {
    // A cluster where nothing else is open: entries go only when no older transaction is.
    let cluster = Cluster::start_with("autovacuum = off");
    let database = cluster.database();
    database.sql(SCHEMA);
    let mut center = on_postgres::deployed(&database, TABLES);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let mut away = remote.clone();
    database.sql("INSERT INTO purchase SELECT g, 1 FROM generate_series(20, 29) AS g");
    for id in 20..30 {
        database.sql(&format!("DELETE FROM purchase WHERE id = {id}"));
    }
    center.synchronize(&mut remote, &[]);
    center.writer.trim_logs(3).unwrap();
    assert_eq!(database.count("SELECT count(*) FROM syncline.syncline_gone_purchase"), 3);
    let (_, near) = center.synchronize(&mut remote, &[]);
    assert_eq!((near.modes.as_slice(), near.upserts.len()), ([Changes, Changes].as_slice(), 0));
    let applied =
        syncline_consolidated::Applied { counter: away.identity.counter, ..Default::default() };
    let far = center.download(&mut away, &applied);
    assert_eq!(far.modes, [Changes, Refresh]);
    assert_eq!(came(&far), ["purchase 10"]);
}

// Trap 3, Trap 30
#[test]
fn a_remote_that_is_ahead_is_compared_alone() {
    let (mut center, database, mut remote) = synchronized();
    let mut other = Remote::new("other");
    center.synchronize(&mut other, &[]);
    center.synchronize(&mut remote, &[]);
    database.sql("UPDATE syncline.syncline_remote SET counter = 1 WHERE remote_id = 'r'");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert!(download.restored);
    assert_eq!(download.modes, [Refresh, Refresh]);
    let (_, download) = center.synchronize(&mut other, &[]);
    assert!(!download.restored);
    assert_eq!(download.modes, [Changes, Changes]);
    assert!(!center.synchronize(&mut remote, &[]).1.restored);
}

// S8
#[test]
fn a_remote_whose_predecessor_still_applies_is_told_to_come_back() {
    let (mut center, database, remote) = synchronized();
    let session = center.session(&remote);
    let mut predecessor = database.session();
    predecessor.sql("BEGIN; SELECT * FROM syncline.syncline_remote FOR UPDATE");
    let again = center::attempt(&remote);
    let failure = center.writer.begin_synchronization(&session, &again, None).unwrap_err();
    assert_eq!(failure.code(), Code::AlreadySynchronizing);
    assert!(failure.retry_after().is_some());
    drop(predecessor);
    until("the lock to be free", || {
        let again = center::attempt(&remote);
        center.writer.begin_synchronization(&session, &again, None).is_ok()
    });
}

// S8, S10: a later synchronization of the remote has its row, so an acknowledgement comes too late.
#[test]
fn an_acknowledgement_waits_for_nobody_who_has_the_row_of_the_remote() {
    let (mut center, database, mut remote) = synchronized();
    let nonce = remote.identity.nonce_attempt;
    let (applied, _) = center.synchronize(&mut remote, &[]);
    let said = Acknowledgement {
        remote_id: RemoteId::new("r").unwrap(),
        epoch: applied.epoch,
        counter: applied.counter,
        nonce,
        incarnation: applied.incarnation,
    };
    let acknowledged = |center: &mut Center| {
        center.writer.begin().unwrap();
        center.writer.acknowledge(&said).unwrap();
        center.writer.commit().unwrap();
        database.count("SELECT acknowledged FROM syncline.syncline_remote")
    };
    let mut successor = database.session();
    successor.sql("BEGIN; SELECT * FROM syncline.syncline_remote FOR UPDATE");
    assert_eq!(acknowledged(&mut center), 0);
    successor.sql("ROLLBACK");
    assert_eq!(acknowledged(&mut center), 2);
}

// S8: two that begin with the same new remote ID: neither is lost or admitted twice.
#[test]
fn two_first_connections_of_one_remote_are_told_apart() {
    let (mut center, database, _) = synchronized();
    let remote = Remote::new("new");
    let session = center.session(&remote);
    let mut elsewhere = database.session();
    elsewhere.sql(
        "BEGIN; INSERT INTO syncline.syncline_remote (remote_id, user_name, script_version,
             progress, counter, nonce, epoch, attempt) VALUES ('new', 'ann', 'v1', 0, 7, 8, 1, 1)",
    );
    let first = center::attempt(&remote);
    let waited = center.writer.begin_synchronization(&session, &first, None).unwrap_err();
    assert_eq!(waited.code(), Code::AlreadySynchronizing);
    elsewhere.sql("COMMIT");
    let second = center::attempt(&remote);
    let begun = center.writer.begin_synchronization(&session, &second, None).unwrap();
    assert_eq!(begun.epoch, 2, "it took over what the other had begun");
}

// Trap 2: numbers that the old primary gave out are given out again by the new one.
#[test]
fn after_a_promotion_nothing_is_missed_and_what_is_proven_is_not_sent_again() {
    let primary = Cluster::start();
    let database = primary.database();
    database.sql(SCHEMA);
    let mut center = on_postgres::deployed(&database, TABLES);
    let (mut proven, mut beyond) = (Remote::new("proven"), Remote::new("beyond"));
    center.synchronize(&mut proven, &[]);
    let standby = primary.standby();
    database.sql("INSERT INTO customer VALUES (3, 'Cid')");
    let applied = center.upload(&mut beyond, &[]).unwrap();
    standby.wait_until_replayed(&primary);
    let alone = standby.database_named("postgres").as_role(SUPERUSER);
    alone.sql("ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()");
    until("the standby to stop following", || {
        alone.count("SELECT count(*) FROM pg_stat_wal_receiver") == 0
    });
    // What never reaches the standby is what the remote has seen.
    for id in 100..110 {
        database.sql(&format!("INSERT INTO customer VALUES ({id}, 'lost')"));
    }
    assert_eq!(center.download(&mut beyond, &applied).upserts.len(), 14);
    primary.kill();
    standby.promote();
    let database = standby.database_named(&database.name);
    let mut center = on_postgres::connected(&database);
    for id in 200..203 {
        database.sql(&format!("INSERT INTO customer VALUES ({id}, 'new')"));
    }
    let (_, download) = center.synchronize(&mut proven, &[]);
    assert_eq!(download.modes, [Changes, Changes]);
    assert_eq!(came(&download), ["customer 200", "customer 201", "customer 202", "customer 3"]);
    let (_, download) = center.synchronize(&mut beyond, &[]);
    assert_eq!(download.modes, [Refresh, Refresh]);
    assert_eq!(download.upserts.len(), 7);
}

// Trap 2: a crash gives out again the numbers of which nothing had reached the disk.
#[test]
fn after_a_crash_nothing_is_missed() {
    let cluster = Cluster::start_with("autovacuum = off\nbgwriter_lru_maxpages = 0");
    let database = cluster.database();
    database.sql(SCHEMA);
    let mut center = on_postgres::deployed(&database, TABLES);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let applied = center.upload(&mut remote, &[]).unwrap();
    let all = cluster.database_named("postgres").as_role(SUPERUSER);
    let writer = all.text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    let stop = std::process::Command::new("kill").args(["-STOP", writer.trim()]).status();
    assert!(stop.unwrap().success());
    for _ in 0..10 {
        database.sql("BEGIN; INSERT INTO customer VALUES (50, 'undone'); ROLLBACK");
    }
    center.download(&mut remote, &applied);
    cluster.kill();
    cluster.restart();
    database.sql("INSERT INTO customer VALUES (60, 'new')");
    assert_eq!(download(&mut center, &mut remote), ["customer 60"]);
}

#[test]
fn a_server_that_runs_on_notices_a_deployment_from_scratch() {
    let (mut center, database, remote) = synchronized();
    let before = center.session(&remote);
    syncline_consolidated::administer(&center.url).unwrap().undeploy(false).unwrap();
    database.sql("ALTER TABLE customer ADD COLUMN city text");
    center::deploy(&center.url, TABLES).unwrap();
    let after = center.session(&remote);
    assert_ne!(after.database_id, before.database_id);
    assert_eq!(after.schema.tables[0].columns, ["id", "name", "city"]);
}

#[test]
fn a_reader_survives_the_loss_of_its_connection() {
    let (mut center, database, mut remote) = synchronized();
    database.sql("INSERT INTO customer VALUES (3, 'Cid')");
    database.sql(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    assert_eq!(download(&mut center, &mut remote), ["customer 3"]);
}

/// S2: the database restarts, and a model is deployed. A download reads the deployment first, and
/// did so with the connection that was lost, until the server was started again (E3001).
#[test]
fn a_reader_survives_the_loss_of_its_connection_before_a_deployment() {
    let (mut center, database, remote) = synchronized();
    database.sql("CREATE TABLE extra (id integer PRIMARY KEY)");
    center::deploy(&center.url, &format!("{TABLES}[table.extra]\n")).unwrap();
    database.sql(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    // Another reader admits the remote.
    let mut downloads = std::mem::replace(&mut center.reader, open_reader(&center.url).unwrap());
    let session = center.session(&remote);
    let request = FetchRequest {
        is_counted: false,
        session: &session,
        counter: remote.identity.counter,
        marks: &center::marks(&session, &remote),
        held_marks: &[],
        echo: &Echo::default(),
        time_us: None,
        wanted: &[],
        batch_bytes: 100,
        batch_rows: 3,
        row_bytes_max: 1000,
        resuming: Default::default(),
    };
    let mut batches = 0;
    let count = &mut |_| {
        batches += 1;
        Ok(())
    };
    downloads.fetch(&request, count).unwrap();
    assert!(batches > 0);
}

/// What one upload deletes is an entry for each place, with an array for each column: of domains
/// too, not of arrays; and equal places that are spelled otherwise are others.
// S6
#[test]
fn departures_of_one_statement_come_apart_into_their_rows() {
    let (mut center, database) = on_postgres::center(
        "CREATE DOMAIN code AS varchar(10) CHECK (VALUE <> '');
         CREATE TABLE part (place numeric(4, 2), id code, tags integer[], shelf integer,
             PRIMARY KEY (place, id, tags));
         CREATE TABLE bin (id integer PRIMARY KEY, place numeric(4, 2), part code, tags integer[],
             FOREIGN KEY (place, part, tags) REFERENCES part ON DELETE CASCADE);
         INSERT INTO part SELECT 1, 'p' || n, '{1}', nullif(n, 2) FROM generate_series(1, 4) AS n;
         INSERT INTO part VALUES (1.00, 'p5', '{1}', 5), (1, 'p6', '{1,2}', 6), (2, 'p7', '{}', 7);
         INSERT INTO bin SELECT shelf, place, id, tags FROM part WHERE shelf IS NOT NULL;",
        "[table.part]\npartition = \"place IN {u.places}\"\n[table.bin]\nparent = \"part\"\n",
    );
    let [mut one, mut other] = ["one", "other"].map(Remote::new);
    for remote in [&mut one, &mut other] {
        remote.claims.insert("places".into(), "1, 2".into());
        center.synchronize(remote, &[]);
    }
    let part = |place, id, tags, shelf| {
        Upload::Delete("part", vec![int(place), text(id), text(tags), shelf])
    };
    let deletes = [
        part(1, "p2", "{1}", Value::Null),
        part(1, "p3", "{1}", int(3)),
        part(1, "p5", "{1}", int(5)),
        part(1, "p6", "{1,2}", int(6)),
        part(2, "p7", "{}", int(7)),
    ];
    let (applied, _) = center.synchronize(&mut one, &deletes);
    assert_eq!((applied.deletes, applied.conflicts), (5, 0));
    assert_eq!(
        database.text(
            "SELECT place, id, tags, syncline_rows FROM syncline.syncline_gone_part ORDER BY id"
        ),
        "1.00|{p2,p3,p5}|{1}|3\n1.00|{p6}|{1,2}|1\n2.00|{p7}|{}|1\n"
    );
    let (_, download) = center.synchronize(&mut other, &[]);
    let keys = download.deletes.iter().filter(|(table, _)| *table == "part").map(|(_, key)| {
        let values = key.iter().map(|value| value.as_ref().display());
        values.collect::<Vec<_>>().join(" ").replace('\'', "")
    });
    let mut keys: Vec<String> = keys.collect();
    keys.sort();
    assert_eq!(keys, ["1 p2 {1}", "1 p3 {1}", "1 p5 {1}", "1 p6 {1,2}", "2 p7 {}"]);
    let bins: Vec<String> = came(&download).into_iter().filter(|row| row.contains("bin")).collect();
    assert_eq!(bins, ["-bin 3", "-bin 5", "-bin 6", "-bin 7"]);
    // A row that comes back is there, though an entry still names it.
    database.sql("INSERT INTO part VALUES (1, 'p3', '{1}', 3)");
    let (_, download) = center.synchronize(&mut other, &[]);
    assert_eq!((download.upserts.len(), download.deletes.len()), (1, 0));
}

// S9, S10: in a download of many tables, earlier statements displaced the prepared later ones.
#[test]
fn a_download_of_many_tables_prepares_nothing_again() {
    const TABLES: usize = 420;
    let cluster = Cluster::start_with("log_min_duration_statement = 0");
    let database = cluster.database();
    let all = |line: &dyn Fn(usize) -> String| (0..TABLES).map(line).collect::<String>();
    database.sql(&all(&|n| format!("CREATE TABLE t{n} (id integer PRIMARY KEY, name text);")));
    let mut center = on_postgres::deployed(&database, &all(&|n| format!("[table.t{n}]\n")));
    let mut remote = Remote::new("r");
    let prepares = |sync: &mut dyn FnMut()| {
        database.sql("SELECT 'begins'");
        sync();
        database.sql("SELECT 'ends'");
        let log = cluster.log();
        let from = log.rfind("'begins'").unwrap();
        log[from..].matches("  parse ").count()
    };
    let mut change = |number: usize| {
        database.sql(&all(&|n| format!("INSERT INTO t{n} VALUES ({number}, 'x');")));
        prepares(&mut || assert_eq!(download(&mut center, &mut remote).len(), TABLES))
    };
    // The first sends whole tables.
    assert!(change(1) > TABLES);
    change(2);
    assert_eq!(change(3), 0);
    assert_eq!(change(4), 0);
}
