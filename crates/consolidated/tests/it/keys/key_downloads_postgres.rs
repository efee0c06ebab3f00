//! Keys that change at a PostgreSQL center: which transactions count, what its log lacks.
//!
//! `key_downloads.rs` tests what both databases promise.

use crate::support::center::{self, Center, Download, Remote, Row, int, text};
use crate::support::on_postgres;
use harness::postgres::{Cluster, PsqlSession, SUPERUSER, TestDatabase};
use harness::until;
use std::collections::BTreeMap;
use syncline_consolidated::DownloadedTable::{Changes, Refresh};

const FAMILY: &str = "
    CREATE TABLE parent (id integer PRIMARY KEY, v text);
    CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent ON UPDATE CASCADE);
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO child VALUES (10, 1), (20, 2);";

const ALL: &str = "[table.parent]\n[table.child]\n";

fn synchronized(schema: &str, tables: &str) -> (Center, TestDatabase, Remote) {
    let (mut center, database) = on_postgres::center(schema, tables);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, database, remote)
}

/// A family in a cluster where nobody else is.
fn synchronized_alone(cluster: &Cluster) -> (Center, TestDatabase, Remote) {
    let database = cluster.database();
    database.sql(FAMILY);
    let mut center = on_postgres::deployed(&database, ALL);
    let mut remote = Remote::another();
    center.synchronize(&mut remote, &[]);
    (center, database, remote)
}

fn next(center: &mut Center, remote: &mut Remote) -> Download {
    center.synchronize(remote, &[]).1
}

/// Old and new key of each row of a table that came with both.
fn told(download: &Download, table: &str) -> Vec<(String, String)> {
    let of = download.key_changes.iter().filter(|(name, ..)| name == table);
    let mut told: Vec<_> =
        of.map(|(_, old, row)| (old[0].as_ref().display(), row[0].as_ref().display())).collect();
    told.sort();
    told
}

fn pair(old: i64, new: i64) -> (String, String) {
    (old.to_string(), new.to_string())
}

/// Which keys have changed since is decided by the transactions that a remote has seen, not by the
/// numbers that they or their entries have.
// S2, S3, Trap 1
#[test]
fn key_changes_count_from_the_transactions_that_a_remote_has_not_seen() {
    let (mut center, database, mut remote) = synchronized(FAMILY, ALL);
    let mut early = database.session();
    // The first transaction and the first entry, committed last.
    early.sql("BEGIN; UPDATE parent SET id = 30 WHERE id = 3");
    let mut late = database.session();
    late.sql("BEGIN; UPDATE parent SET id = 5 WHERE id = 1");
    early.begin("UPDATE parent SET id = 6 WHERE v = 'a'");
    let waits = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until("the first to wait for the second", || database.count(waits) == 1);
    assert_eq!(told(&next(&mut center, &mut remote), "parent"), []);
    late.sql("COMMIT");
    early.wait();
    let mut other = remote.clone();
    other.id = Remote::another().id;
    assert_eq!(told(&next(&mut center, &mut remote), "parent"), [pair(1, 5)]);
    // Nothing comes twice while an older transaction is open.
    assert_eq!(told(&next(&mut center, &mut remote), "parent"), []);
    early.sql("COMMIT");
    let download = next(&mut center, &mut remote);
    assert_eq!(told(&download, "parent"), [pair(3, 30), pair(5, 6)]);
    assert_eq!(told(&next(&mut center, &mut remote), "parent"), []);
}

/// A small generator: the same seed makes the same story.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

/// The rows that a remote holds: texts, which stay with their rows, by key.
type Held = BTreeMap<i64, String>;

fn written(row: &Row) -> String {
    row[1].as_ref().display().trim_matches('\'').to_owned()
}

fn number(row: &Row) -> i64 {
    row[0].as_ref().display().parse().unwrap()
}

/// Takes a download as a remote does. Each row that moves is the one that it was, and each row
/// that the remote has and the center too has moved where its key is another one.
fn take(held: &mut Held, download: &Download, story: &[String]) {
    let mut moved = Vec::new();
    for (_, old, row) in &download.key_changes {
        let (old, new, v) = (number(old), number(row), written(row));
        let was = held.remove(&old);
        assert!(was.is_none() || was.as_ref() == Some(&v), "{old} became {new}: {story:#?}");
        moved.push((new, v));
    }
    let before: Vec<String> = held.values().cloned().collect();
    held.extend(moved);
    for (_, row) in &download.upserts {
        let (key, v) = (number(row), written(row));
        let stayed = held.get(&key) == Some(&v);
        assert!(stayed || !before.contains(&v), "{v} came as another row: {story:#?}");
        held.insert(key, v);
    }
    for (_, key) in &download.deletes {
        held.remove(&number(key));
    }
}

/// Three programs change keys in transactions that overlap, with savepoints in them, while a remote
/// downloads: whatever it sees of them, its rows stay the rows that they were.
// S2, S3, Trap 10
#[test]
fn rows_stay_the_same_through_transactions_that_overlap() {
    for seed in 1..=4 {
        let mut chance = Chance(seed);
        let schema = "CREATE TABLE parent (id integer PRIMARY KEY, v text);
            INSERT INTO parent SELECT g, 'v' || g FROM generate_series(1, 5) AS g;";
        let (mut center, database, mut remote) = synchronized(schema, "[table.parent]\n");
        let mut held: Held = (1..=5).map(|id| (id, format!("v{id}"))).collect();
        let mut sessions: Vec<PsqlSession> = (0..3).map(|_| database.session()).collect();
        let (mut open, mut story) = ([false; 3], vec![format!("seed {seed}")]);
        for step in 0..120 {
            let who = chance.below(3) as usize;
            let sql = match chance.below(10) {
                0..=5 if open[who] => {
                    let (from, to) = (1 + chance.below(8), 1 + chance.below(8));
                    let statement = match chance.below(12) {
                        0 => format!("DELETE FROM parent WHERE id = {from}"),
                        1 => format!("INSERT INTO parent VALUES ({to}, 'w{step}')"),
                        _ => format!("UPDATE parent SET id = {to} WHERE id = {from}"),
                    };
                    format!(
                        "DO $$ BEGIN {statement}; EXCEPTION WHEN unique_violation
                         OR lock_not_available OR deadlock_detected THEN NULL; END $$"
                    )
                }
                0..=7 if open[who] => {
                    open[who] = false;
                    ["COMMIT", "ROLLBACK"][usize::from(chance.below(5) == 0)].to_owned()
                }
                0..=7 => {
                    open[who] = true;
                    "SET lock_timeout = '5ms'; BEGIN".to_owned()
                }
                _ => {
                    let download = next(&mut center, &mut remote);
                    story.push(format!("download {download:?}"));
                    take(&mut held, &download, &story);
                    let now = center.rows("SELECT id, v FROM parent ORDER BY id");
                    let now = now.iter().map(|row| (number(row), written(row)));
                    assert_eq!(held, now.collect::<Held>(), "{story:#?}");
                    continue;
                }
            };
            sessions[who].sql(&sql);
            story.push(format!("{who}: {sql}"));
        }
    }
}

/// For replicas and restores foreign keys do nothing: the children stayed with the old key, so at a
/// remote they must not follow the row to the new one.
// S3, Trap 26
#[test]
fn a_key_that_changes_without_its_children_is_not_told_as_a_key_change() {
    let (mut center, database, mut remote) = synchronized(FAMILY, ALL);
    database.as_role(SUPERUSER).sql(
        "SET session_replication_role = replica;
         UPDATE parent SET id = 5 WHERE id = 1;
         RESET session_replication_role;
         UPDATE parent SET id = 6 WHERE id = 2",
    );
    let download = next(&mut center, &mut remote);
    assert_eq!(told(&download, "parent"), [pair(2, 6)]);
    assert_eq!(told(&download, "child"), []);
    let came: Vec<&Row> = download.upserts.iter().map(|(_, row)| row).collect();
    assert_eq!(came, [&vec![int(5), text("a")], &vec![int(20), int(6)]]);
    assert_eq!(download.deletes, [("parent".into(), vec![int(1)])]);
}

/// What the log does not know any more comes as any row does, and the log is bounded.
// S3, S9
#[test]
fn a_log_of_keys_is_trimmed_with_the_departures_and_what_it_lacks_is_sent_afresh() {
    // Entries go only when no older transaction is open.
    let cluster = Cluster::start_with("autovacuum = off");
    let (mut center, database, remote) = synchronized_alone(&cluster);
    let mut away = remote.clone();
    for (to, from) in [(5, 1), (6, 5), (7, 6), (8, 7), (1, 2)] {
        database.sql(&format!("UPDATE parent SET id = {to} WHERE id = {from}"));
    }
    database.sql("UPDATE child SET id = 15 WHERE id = 10");
    let mut near = away.clone();
    let applied =
        syncline_consolidated::Applied { counter: near.identity.counter, ..Default::default() };
    let download = center.download(&mut near, &applied);
    assert_eq!(told(&download, "parent"), [pair(1, 8), pair(2, 1)]);
    assert_eq!(told(&download, "child"), [pair(10, 15)]);
    center.writer.trim_logs(3).unwrap();
    let entries = |table: &str| {
        let sql = "SELECT count(*) FROM syncline.syncline_key_change WHERE table_name";
        database.count(&format!("{sql} = '{table}'"))
    };
    // Of what is cut the last one stays.
    assert_eq!((entries("parent"), entries("child")), (4, 1));
    let download = center.download(&mut away, &applied);
    assert_eq!(download.modes, [Refresh, Changes]);
    assert_eq!(told(&download, "parent"), []);
    assert_eq!(told(&download, "child"), [pair(10, 15)]);
    // A table that is not published any more leaves nothing behind.
    center::deploy(&center.url, "[table.parent]\n").unwrap();
    center.reconnect();
    center.writer.trim_logs(3).unwrap();
    assert_eq!((entries("parent"), entries("child")), (4, 0));
}

/// So many keys at once are no key changes any more.
// S9
#[test]
fn beyond_its_bound_a_download_brings_rows_and_deletes() {
    let schema = "CREATE TABLE big (id integer PRIMARY KEY);
        INSERT INTO big SELECT generate_series(1, 100001);";
    let (mut center, database, mut remote) = synchronized(schema, "[table.big]\n");
    let mut away = remote.clone();
    database.sql("UPDATE big SET id = id + 1000000 WHERE id <= 2");
    let download = next(&mut center, &mut remote);
    assert_eq!(told(&download, "big"), [pair(1, 1_000_001), pair(2, 1_000_002)]);
    away.identity = remote.identity;
    database.sql("UPDATE big SET id = id + 1000000 WHERE id <= 100001");
    let download = next(&mut center, &mut away);
    assert_eq!(download.modes, [Changes]);
    assert_eq!((download.key_changes.len(), download.upserts.len()), (0, 100_001));
    assert_eq!(download.deletes.len(), 100_001);
}

/// The log keeps keys as texts. What is read back is the key that the remote has, letter by letter.
// Trap 15, Trap 22
#[test]
fn keys_of_all_types_are_told_as_the_remote_knows_them() {
    for (kind, old, new) in [
        ("smallint", "1", "2"),
        ("bigint", "9223372036854775807", "-9223372036854775808"),
        ("text", "'a \"b\" \\ ü, {c}'", "''"),
        ("varchar(20)", "'a  '", "'b'"),
        ("char(5)", "'a'", "'b'"),
        ("uuid", "'4e6b1d7c-0a53-4d2b-9c55-0f7f8f2a9f10'", "gen_random_uuid()"),
        ("date", "'2024-02-29'", "'0044-03-15 BC'"),
        ("timestamp", "'2024-02-29 12:00:00.123456'", "'infinity'"),
        ("timestamptz", "'2024-02-29 12:00:00.123456+05'", "'1960-01-01 00:00+00'"),
        ("time", "'23:59:59.999999'", "'00:00'"),
        ("boolean", "true", "false"),
        ("bytea", "'\\x00ff'", "'\\x'"),
        ("double precision", "0.1", "1e300"),
        ("real", "0.1", "3e38"),
        ("numeric(30, 0)", "123456789012345678901234567890", "-5"),
        ("numeric(10, 2)", "1.50", "2"),
        ("inet", "'10.0.0.1/8'", "'::1'"),
        ("interval second", "'1 second'", "'2 seconds'"),
        ("mood", "'ok'", "'sad'"),
        ("tall", "'x'", "'y'"),
    ] {
        let schema = format!(
            "CREATE TYPE mood AS ENUM ('ok', 'sad');
             CREATE DOMAIN tall AS text CHECK (VALUE <> '');
             CREATE TABLE thing (k {kind} PRIMARY KEY, v text);
             INSERT INTO thing VALUES ({old}, '');"
        );
        let database = Cluster::shared().database();
        database.sql(&schema);
        let url = syncline_consolidated::Url::parse(&database.url()).unwrap();
        if center::deploy(&url, "[table.thing]\n").is_err() {
            // Several spellings of one key: that is refused.
            assert_eq!(kind, "interval second");
            continue;
        }
        let mut center = on_postgres::connected(&database);
        let mut remote = Remote::another();
        let first = next(&mut center, &mut remote);
        database.sql(&format!("UPDATE thing SET k = {new}"));
        let download = next(&mut center, &mut remote);
        assert_eq!(download.deletes, [], "{kind}");
        assert_eq!(download.key_changes.len(), 1, "{kind}: {download:?}");
        assert_eq!(download.key_changes[0].1[0], first.upserts[0].1[0], "{kind}");
        assert_eq!(told(&next(&mut center, &mut remote), "thing"), [], "{kind}");
    }
}

/// A row that went and came back within the fence: the log does not know in which order, so that it
/// comes as any row does.
// S6, S7
#[test]
fn a_row_that_was_elsewhere_meanwhile_comes_as_any_row() {
    let schema = "CREATE TABLE note (id integer PRIMARY KEY, owner text NOT NULL, v text);
        INSERT INTO note VALUES (1, 'ann', 'a'), (2, 'ann', 'b');";
    let tables = "[table.note]\npartition = \"owner = {s.username}\"\n";
    let (mut center, database, mut remote) = synchronized(schema, tables);
    database.sql(
        "UPDATE note SET owner = 'ben' WHERE id = 1; UPDATE note SET owner = 'ann' WHERE id = 1;
         UPDATE note SET id = 9 WHERE id = 1; UPDATE note SET v = 'B' WHERE id = 2;
         UPDATE note SET id = 8 WHERE id = 2",
    );
    let download = next(&mut center, &mut remote);
    assert_eq!(told(&download, "note"), [pair(2, 8)]);
    assert_eq!(download.upserts, [("note".into(), vec![int(9), text("ann"), text("a")])]);
    assert_eq!(download.deletes, [("note".into(), vec![int(1)])]);
}

/// Whether a key has changed is asked in the flight that begins a download anyway.
#[test]
fn only_a_download_with_changed_keys_asks_for_more() {
    // Transactions of other tests would make a download ask more, or less.
    let cluster = Cluster::start_with("autovacuum = off");
    let (mut center, database, mut remote) = synchronized_alone(&cluster);
    let mut open = database.session();
    open.sql("BEGIN; INSERT INTO parent VALUES (9, 'open')");
    let mut round_trips = |center: &mut Center| {
        // The least of several: statements are prepared, and now and then other things are asked.
        let mut download = || {
            database.sql("UPDATE parent SET v = v WHERE id = 3");
            let applied = center.upload(&mut remote, &[]).unwrap();
            let before = center.reader.round_trips();
            center.download(&mut remote, &applied);
            center.reader.round_trips() - before
        };
        (0..5).map(|_| download()).min().unwrap()
    };
    let before = round_trips(&mut center);
    database.sql("UPDATE parent SET id = 5 WHERE id = 1");
    assert_eq!(round_trips(&mut center), before);
}
