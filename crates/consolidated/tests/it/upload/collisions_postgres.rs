//! Uploads meet other transactions, and deployments.

use crate::support::center::{self, Center, Remote, Upload, int, text};
use crate::support::on_postgres;
use harness::postgres::{Cluster, SUPERUSER, TestDatabase};
use harness::until;
use model::Code;
use std::thread;
use syncline_consolidated::DownloadedTable::Refresh;

const SCHEMA: &str = "
    CREATE TABLE first (id integer PRIMARY KEY, note text);
    CREATE TABLE second (id integer PRIMARY KEY, region text, note text);
    INSERT INTO first VALUES (1, ''), (2, '');
    INSERT INTO second VALUES (1, 'north', ''), (2, 'south', '');";

const TABLES: &str = "[table.first]\n[table.second]\n";

fn synchronized() -> (Center, TestDatabase, Remote) {
    let (mut center, database) = on_postgres::center(SCHEMA, TABLES);
    let mut remote = Remote::another();
    remote.claims.insert("regions".into(), "north".into());
    center.synchronize(&mut remote, &[]);
    (center, database, remote)
}

/// How many of our connections wait for a lock.
fn waiting(database: &TestDatabase) -> i64 {
    database.count(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
         AND application_name = 'syncline' AND wait_event_type = 'Lock'",
    )
}

fn note(id: i64, from: &str, to: &str) -> Upload {
    Upload::Update("first", vec![int(id), text(from)], vec![int(id), text(to)])
}

/// A deployment gave a table a partition while an upload went on that had not come to this table
/// yet. The upload then deleted a row under the old model: its departure had no place, and the row
/// stayed at other remotes for good; it inserted one outside of its own fence; and received E2113
/// although it was committed.
// S6, S7, Trap 28
#[test]
fn a_deployment_waits_for_the_uploads_that_are_under_way() {
    let (mut center, database, mut remote) = synchronized();
    let mut owner = database.session();
    owner.sql("BEGIN; SELECT FROM first WHERE id = 1 FOR UPDATE");
    let url = center.url.clone();
    let (mut center, applied) = thread::scope(|scope| {
        let remote = &mut remote;
        let upload = scope.spawn(move || {
            let rows = [
                note(1, "", "x"),
                Upload::Delete("second", vec![int(1), text("north"), text("")]),
                Upload::Insert("second", vec![int(3), text("south"), text("")]),
            ];
            let applied = center.upload(remote, &rows).unwrap();
            (center, applied)
        });
        until("the upload to wait for the owner", || waiting(&database) == 1);
        let partition = "[table.first]\n[table.second]\npartition = \"region IN {u.regions}\"\n";
        let deploy = scope.spawn(move || center::deploy(&url, partition).unwrap());
        until("the deployment to wait for the upload", || {
            waiting(&database) == 2 || deploy.is_finished()
        });
        owner.sql("COMMIT");
        let applied = upload.join().unwrap();
        deploy.join().unwrap();
        applied
    });
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    let departures = "SELECT count(*) FROM syncline.syncline_gone_second";
    assert_eq!(database.count(&format!("{departures} WHERE syncline_place_region IS NULL")), 0);
    // The download that follows is of the new model, under which it has other rows.
    let session = center.session(&remote);
    assert_eq!(session.schema.tables.len(), 2);
    let download = center.download(&mut remote, &applied);
    assert_eq!(download.modes[1], Refresh);
    assert!(download.upserts.iter().all(|(table, _)| table == "first"), "{download:?}");
}

// S9, S11, Trap 28
#[test]
fn an_upload_waits_for_a_deployment_that_is_under_way() {
    let (mut center, database, mut remote) = synchronized();
    let mut deployment = database.session();
    deployment.sql("BEGIN; LOCK TABLE syncline.syncline_deploying IN EXCLUSIVE MODE");
    let (mut center, mut remote) = thread::scope(|scope| {
        let upload = scope.spawn(move || {
            assert_eq!(center.upload(&mut remote, &[note(1, "", "x")]).unwrap().updates, 1);
            (center, remote)
        });
        until("the upload to wait", || waiting(&database) == 1);
        deployment.sql("COMMIT");
        upload.join().unwrap()
    });
    let applied =
        syncline_consolidated::Applied { counter: remote.identity.counter, ..Default::default() };
    center.download(&mut remote, &applied);
    assert_eq!(database.text("SELECT note FROM first WHERE id = 1"), "x\n");
}

/// Above READ COMMITTED a statement that met another transaction was repeated behind a savepoint,
/// in the same snapshot, in which it could only meet the same again.
// S5, Trap 14
#[test]
fn an_upload_that_cannot_be_serialized_is_begun_anew() {
    for isolation in ["repeatable read", "serializable"] {
        let (_, database, mut remote) = synchronized();
        database.sql(&format!(
            "ALTER DATABASE {} SET default_transaction_isolation = '{isolation}'",
            database.name
        ));
        let mut center = on_postgres::connected(&database);
        let mut other = database.session();
        other.sql("BEGIN; UPDATE first SET note = 'theirs' WHERE id = 1");
        let applied = thread::scope(|scope| {
            let center = &mut center;
            let remote = &mut remote;
            let upload = scope.spawn(move || center.upload(remote, &[note(1, "", "ours")]));
            until("the upload to wait", || waiting(&database) == 1);
            other.sql("COMMIT");
            upload.join().unwrap().unwrap()
        });
        assert_eq!((applied.updates, applied.conflicts), (1, 1), "{isolation}");
        let (_, download) = center.synchronize(&mut remote, &[note(2, "", "more")]);
        assert!(download.rejects.is_empty());
    }
}

/// The owner rewrote a table while an upload waited for it. To the snapshot of the upload, which it
/// keeps at this isolation, the table was empty: its edit lost against nothing.
// S5, Trap 20
#[test]
fn a_table_that_is_rewritten_is_not_empty_to_an_upload_that_keeps_its_snapshot() {
    let (_, database, mut remote) = synchronized();
    database.sql(&format!(
        "ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'",
        database.name
    ));
    let mut center = on_postgres::connected(&database);
    let mut owner = database.session();
    owner.sql("BEGIN; ALTER TABLE first ADD COLUMN more double precision DEFAULT random()");
    let applied = thread::scope(|scope| {
        let upload = scope.spawn(|| center.upload(&mut remote, &[note(1, "", "ours")]));
        until("the upload to wait", || waiting(&database) == 1);
        owner.sql("COMMIT");
        upload.join().unwrap().unwrap()
    });
    assert_eq!((applied.updates, applied.conflicts, applied.rejected), (1, 0, 0));
    assert_eq!(database.text("SELECT note FROM first WHERE id = 1"), "ours\n");
}

/// The connection is lost where an upload resolves its conflicts, again and again. That says
/// nothing about any row: the upload fails until it can be applied, and then all of it is.
// S1, S4, S5
#[test]
fn a_connection_that_is_lost_among_conflicts_rejects_no_row() {
    for ends in 1..=5 {
        let (mut center, database) = on_postgres::center(
            "CREATE TABLE first (id integer PRIMARY KEY, note text);
             INSERT INTO first SELECT n, '' FROM generate_series(1, 300) AS n;",
            "[table.first]\nconflict = \"remote_wins\"\n",
        );
        let mut remote = Remote::another();
        center.synchronize(&mut remote, &[]);
        database.sql(&format!(
            "UPDATE first SET note = 'theirs' WHERE id IN (7, 150, 299);
             CREATE SEQUENCE tries;
             CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF nextval('tries') <= {ends} THEN
                     PERFORM pg_terminate_backend(pg_backend_pid());
                     PERFORM pg_sleep(60);
                 END IF;
                 RETURN NEW; END $$;
             CREATE TRIGGER lose BEFORE UPDATE ON first
                 FOR EACH ROW WHEN (OLD.note = 'theirs') EXECUTE FUNCTION lose()"
        ));
        let rows: Vec<Upload> = (1..=300).map(|id| note(id, "", "ours")).collect();
        let applied = loop {
            match center.upload(&mut remote, &rows) {
                Ok(applied) => break applied,
                Err(failure) => assert_eq!(failure.code(), Code::DatabaseUnavailable, "{failure}"),
            }
            assert_eq!(database.count("SELECT count(*) FROM first WHERE note = 'ours'"), 0);
        };
        assert_eq!((applied.updates, applied.conflicts, applied.rejected), (300, 3, 0), "{ends}");
        assert_eq!(database.count("SELECT count(*) FROM first WHERE note = 'ours'"), 300);
        assert_eq!(database.count("SELECT count(*) FROM syncline.syncline_reject"), 0);
        assert!(database.count("SELECT last_value FROM tries") > ends, "{ends}: it was not lost");
    }
}

/// A trigger of the upload locks two rows, and another transaction does so in the other order.
/// PostgreSQL chooses to end the upload: some failed with «deadlock detected».
// S1, Trap 14
#[test]
fn an_upload_that_deadlocks_is_done_again() {
    let cluster = Cluster::start_with("deadlock_timeout = 10ms");
    let database = cluster.database();
    database.sql(
        "CREATE TABLE total (id integer PRIMARY KEY, n integer NOT NULL);
         INSERT INTO total VALUES (0, 0), (1, 0);
         CREATE TABLE first (id integer PRIMARY KEY, note text);
         CREATE FUNCTION add_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             UPDATE total SET n = n + 1 WHERE id = NEW.note::integer;
             PERFORM pg_sleep(CASE NEW.note WHEN '0' THEN 1 ELSE 0 END); RETURN NULL; END $$;
         CREATE TRIGGER add_up AFTER INSERT ON first FOR EACH ROW EXECUTE FUNCTION add_up()",
    );
    let mut center = on_postgres::deployed(&database, "[table.first]\n");
    let mut remote = Remote::another();
    let superuser = database.as_role(SUPERUSER);
    let mut other = superuser.session();
    // It never looks for the deadlock itself.
    other.sql("SET deadlock_timeout = '1h'; BEGIN; UPDATE total SET n = n + 10 WHERE id = 1");
    let applied = thread::scope(|scope| {
        let rows = [0, 1].map(|at| Upload::Insert("first", vec![int(at), text(&at.to_string())]));
        let upload = scope.spawn(move || center.upload(&mut remote, &rows));
        until("the upload to hold the first row", || {
            let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            superuser.count(asleep) == 1
        });
        other.sql("UPDATE total SET n = n + 10 WHERE id = 0; COMMIT");
        upload.join().unwrap().unwrap()
    });
    assert_eq!((applied.inserts, applied.rejected), (2, 0));
    assert_eq!(database.text("SELECT n FROM total ORDER BY id"), "11\n11\n");
    // The statistics come a moment later.
    until("the deadlock to be counted", || {
        let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        superuser.count(sql) == 1
    });
}
