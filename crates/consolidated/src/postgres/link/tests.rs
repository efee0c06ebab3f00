//! Flights against a real server, which is restarted under them.

use super::*;
use crate::url::Url;
use harness::postgres::{APP_PASSWORD, Cluster, SUPERUSER, TestDatabase};

fn open(url: &str) -> Result<Link, Failure> {
    let Url::Postgres(url) = Url::parse(url).unwrap() else { panic!("{url}") };
    Link::open(&url, Role::Apply)
}

fn link(database: &TestDatabase) -> Link {
    open(&database.url()).unwrap()
}

fn backend(link: &mut Link) -> i32 {
    link.query("SELECT pg_backend_pid()", &[]).unwrap()[0].get(0)
}

fn code(outcome: Result<Link, Failure>) -> Code {
    outcome.map(|_| ()).unwrap_err().code()
}

#[test]
fn a_flight_runs_in_order_and_costs_one_round_trip() {
    let mut link = link(&Cluster::shared().database());
    let fly = |link: &mut Link| {
        link.begin(&[
            Call::Simple("BEGIN; CREATE TABLE IF NOT EXISTS t (id int)"),
            Call::Simple("DELETE FROM t"),
            Call::new("INSERT INTO pg_temp.made VALUES ($1) RETURNING id", &[&1]),
            Call::new("SELECT count(*) FROM pg_temp.made WHERE id = $1", &[&1]),
            Call::Simple("COMMIT"),
        ])
    };
    link.batch("CREATE TEMPORARY TABLE made (id int)").unwrap();
    let before = link.round_trips();
    let answers = fly(&mut link).unwrap();
    assert_eq!(link.round_trips() - before, 2, "the first time they are prepared");
    assert_eq!((answers[2].affected, answers[2].rows[0].get::<_, i32>(0)), (1, 1));
    let answers = fly(&mut link).unwrap();
    assert_eq!(link.round_trips() - before, 3);
    assert_eq!(answers[3].rows[0].get::<_, i64>(0), 2);
}

// S11
#[test]
fn the_call_that_failed_is_named_and_rows_are_not_quoted() {
    let mut link = link(&Cluster::shared().database());
    link.batch("CREATE TABLE t (secret text UNIQUE); INSERT INTO t VALUES ('hidden')").unwrap();
    let fault = link
        .flight(&[
            Call::Simple("BEGIN"),
            Call::new("INSERT INTO t VALUES ($1)", &[&"hidden"]),
            Call::new("SELECT 1", &[]),
        ])
        .unwrap_err();
    assert_eq!((fault.call, fault.sqlstate().unwrap().code()), (1, "23505"));
    assert!(!fault.is_lost());
    let failure = fault.failure("insert");
    assert!(failure.full_message().contains("t_secret_key"), "{}", failure.full_message());
    assert!(!failure.full_message().contains("hidden"), "{}", failure.full_message());
    link.roll_back();
    assert_eq!(link.query("SELECT 1", &[]).unwrap().len(), 1);
}

#[test]
fn rows_are_handed_on_as_they_arrive_and_can_be_refused() {
    let mut link = link(&Cluster::shared().database());
    let calls = [
        Call::new("SELECT g FROM generate_series(1, 50000) AS g", &[]),
        Call::new("SELECT 7", &[]),
    ];
    let mut seen = [0_i64; 2];
    link.stream(&calls, &mut |call, row| {
        seen[call] += i64::from(row.get::<_, i32>(0));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [1_250_025_000, 7]);
    let full = || Failure::new(Code::SpillFailed, "full");
    let fault = link.stream(&calls, &mut |_, _| Err(full())).unwrap_err();
    assert_eq!(fault.failure("fetch").code(), Code::SpillFailed);
    assert!(link.query("SELECT 1", &[]).unwrap_err().is_lost());
    assert!(link.begin(&[Call::new("SELECT 1", &[])]).is_ok());
}

#[test]
fn a_lost_connection_is_made_anew_at_the_beginning_and_only_there() {
    let database = Cluster::shared().database();
    let (mut link, mut other) = (link(&database), link(&database));
    let end = |other: &mut Link, backend: i32| {
        other.query("SELECT pg_terminate_backend($1, 60000)", &[&backend]).unwrap();
    };
    let first = backend(&mut link);
    end(&mut other, first);
    link.begin(&[Call::Simple("BEGIN")]).unwrap();
    let second = backend(&mut link);
    assert_ne!(first, second);
    end(&mut other, second);
    let fault = link.flight(&[Call::Simple("COMMIT")]).unwrap_err();
    assert!(fault.is_lost());
    let failure = fault.failure("commit");
    assert_eq!((failure.code(), failure.retry()), (Code::DatabaseUnavailable, true));
    assert!(link.flight(&[Call::Simple("COMMIT")]).unwrap_err().is_lost());
    link.begin(&[Call::Simple("BEGIN")]).unwrap();
}

#[test]
fn a_killed_database_needs_no_new_link() {
    let cluster = Cluster::start();
    let mut link = link(&cluster.database());
    assert_eq!(link.place().timeline, 1);
    cluster.kill();
    let fault = link.begin(&[Call::Simple("BEGIN")]).unwrap_err();
    assert_eq!(fault.failure("begin").code(), Code::DatabaseUnavailable);
    cluster.restart();
    link.begin(&[Call::Simple("BEGIN")]).unwrap();
}

#[test]
fn a_table_that_changed_under_a_prepared_statement_is_asked_anew() {
    let mut link = link(&Cluster::shared().database());
    link.batch("CREATE TABLE t (id int); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(link.query("SELECT * FROM t", &[]).unwrap()[0].len(), 1);
    link.batch("ALTER TABLE t ADD COLUMN more text").unwrap();
    let failure = link.query("SELECT * FROM t", &[]).unwrap_err().failure("read");
    assert_eq!(failure.code(), Code::DatabaseBusy);
    assert_eq!(link.query("SELECT * FROM t", &[]).unwrap()[0].len(), 2);
}

#[test]
fn tls_and_passwords_are_checked_as_libpq_does() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let root = cluster.root_certificate();
    let over_tls = |host: &str, mode: &str, root: Option<&std::path::Path>| {
        let url = database.tcp_url(APP_PASSWORD).replace("127.0.0.1", host);
        let root = root.map(|root| format!("&sslrootcert={}", root.display()));
        let mut link = open(&format!("{url}?sslmode={mode}{}", root.unwrap_or_default()))?;
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        Ok::<bool, Failure>(link.query(sql, &[]).unwrap()[0].get(0))
    };
    for (mode, with_root, encrypted) in [
        ("disable", false, false),
        ("prefer", false, true),
        ("require", false, true),
        ("verify-ca", true, true),
        ("verify-full", true, true),
    ] {
        let root = with_root.then_some(root.as_path());
        assert_eq!(over_tls("localhost", mode, root).unwrap(), encrypted, "{mode}");
    }
    // Nobody whom the system trusts has signed it.
    for mode in ["verify-ca", "verify-full"] {
        let refused = over_tls("localhost", mode, None).unwrap_err();
        assert!(
            matches!(refused.code(), Code::DatabaseUnavailable | Code::ConfigUnreadable),
            "{}",
            refused.full_message()
        );
    }
    let wrong = open(&database.tcp_url("a-wrong-password")).map(|_| ()).unwrap_err();
    assert_eq!(wrong.code(), Code::DatabaseUnavailable);
    let told = format!("{} {}", wrong.full_message(), wrong.hint_text());
    assert!(told.contains("pg_hba.conf") && !told.contains("a-wrong-password"), "{told}");
}

// Trap 1: a standby does not know the transactions in flight.
#[test]
fn a_standby_is_refused_until_it_is_promoted() {
    let primary = Cluster::start();
    let standby = primary.standby();
    let database = standby.database_named("postgres").as_role(SUPERUSER);
    assert_eq!(code(open(&database.url())), Code::NotPrimary);
    standby.promote();
    let (old, new) = (primary.database_named("postgres").as_role(SUPERUSER), link(&database));
    let old = link(&old).place();
    assert_eq!(new.place().system, old.system);
    assert_eq!((old.timeline, new.place().timeline), (1, 2));
}
