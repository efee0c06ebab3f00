//! Flights against a real server, which is restarted under them.

mod pooler;
mod proofs;

use super::*;
use crate::serving::Timeouts;
use crate::serving::clock;
use crate::url::Url;
use harness::postgres::{APP_PASSWORD, Cluster, SUPERUSER, TestDatabase};
use model::Code;
use postgres_driver::STATEMENTS_MAX;
use postgres_types::FromSql;
use std::time::Duration;

/// Reads what a test knows to be there.
trait Get {
    fn get<'r, T: FromSql<'r>>(&'r self, at: usize) -> T;
}

impl Get for Row {
    fn get<'r, T: FromSql<'r>>(&'r self, at: usize) -> T {
        self.try_get(at).unwrap()
    }
}

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

/// Seconds went into compiling what a deployment asks the catalog once, in milliseconds.
#[test]
fn no_connection_compiles_its_statements() {
    let database = Cluster::shared().database();
    let Url::Postgres(url) = Url::parse(&database.url()).unwrap() else { panic!() };
    for role in [Role::Administer, Role::Read, Role::Apply] {
        let mut link = Link::open(&url, role).unwrap();
        let rows = link.query("SELECT current_setting('jit')", &[]).unwrap();
        assert_eq!(rows[0].get::<String>(0), "off", "{role:?}");
    }
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
    assert_eq!((answers[2].affected, answers[2].rows[0].get::<i32>(0)), (1, 1));
    let answers = fly(&mut link).unwrap();
    assert_eq!(link.round_trips() - before, 3);
    assert_eq!(answers[3].rows[0].get::<i64>(0), 2);
}

// S8, S11: a transaction whose server works on its own for long looked like one whose server hangs,
// and was ended (25P03).
#[test]
fn a_transaction_is_heard_of_while_rows_pass() {
    let database = Cluster::shared().database();
    let mut link = link(&database);
    let pulse = link.pulse();
    let idle = Role::Apply.idle_in_transaction(&Timeouts::default());
    // How often the database is asked something by one whose clock is ahead by so much.
    let trips = |link: &Link, ahead: Duration| {
        let before = link.round_trips();
        pulse.beat_at(clock::now() + ahead).unwrap();
        link.round_trips() - before
    };
    assert_eq!(trips(&link, idle), 0, "there is none");
    link.begin(&[Call::Simple("BEGIN; SAVEPOINT s")]).unwrap();
    assert_eq!(trips(&link, idle / 100), 0, "it was asked something just now");
    assert_eq!((trips(&link, idle / 2), trips(&link, idle / 2)), (1, 1));
    // Where a statement failed it is heard too, and a statement behind goes on.
    link.batch("SELECT 1 / 0").unwrap_err();
    assert_eq!(trips(&link, idle / 2), 1);
    link.batch("ROLLBACK TO SAVEPOINT s").unwrap();
    // One that is lost is not begun again by the way.
    let backend = backend(&mut link);
    let mut other = self::link(&database);
    other.query("SELECT pg_terminate_backend($1, 60000)", &[&backend]).unwrap();
    pulse.beat_at(clock::now() + idle).unwrap_err();
    assert!(link.is_lost());
    pulse.beat_at(clock::now() + idle).unwrap();
}

/// Runs these texts in one flight and returns how often an answer was awaited.
fn flown(link: &mut Link, texts: &[String]) -> u64 {
    let before = link.round_trips();
    let calls: Vec<Call<'_>> = texts.iter().map(|sql| Call::new(sql, &[])).collect();
    link.begin(&calls).unwrap();
    link.round_trips() - before
}

// S9: all were forgotten at once before, and all prepared again by the next flight.
#[test]
fn statements_that_were_not_used_for_longest_make_room() {
    let mut link = link(&Cluster::shared().database());
    let texts = |numbers: std::ops::Range<usize>| -> Vec<String> {
        numbers.map(|number| format!("SELECT {number}")).collect()
    };
    let used = texts(0..10);
    for begin in (0..STATEMENTS_MAX + 500).step_by(500) {
        flown(&mut link, &texts(begin..begin + 500));
        flown(&mut link, &used);
    }
    assert_eq!(flown(&mut link, &used), 1, "what is used stays");
    assert_eq!(flown(&mut link, &texts(STATEMENTS_MAX..STATEMENTS_MAX + 500)), 1);
    assert_eq!(flown(&mut link, &texts(10..11)), 2, "what was not used for longest is gone");
    let prepared = |link: &mut Link| {
        let kept = link.query("SELECT count(*) FROM pg_prepared_statements", &[]).unwrap();
        usize::try_from(kept[0].get::<i64>(0)).unwrap()
    };
    assert!(prepared(&mut link) <= STATEMENTS_MAX + 2);

    let many = texts(0..STATEMENTS_MAX + 500);
    assert_eq!(flown(&mut link, &many), 2, "a flight has all that it needs");
    assert_eq!(flown(&mut link, &many), 1);
    assert_eq!(flown(&mut link, &texts(9_000_000..9_000_001)), 2);
    assert!(prepared(&mut link) <= STATEMENTS_MAX + 2);
}

// S9, S11: every wait ends, and the operator sets every limit.
#[test]
fn sessions_of_a_server_have_the_limits_that_it_was_given() {
    let database = Cluster::shared().database();
    let Url::Postgres(url) = Url::parse(&database.url()).unwrap() else { panic!() };
    let timeouts = Timeouts {
        statement: Duration::from_millis(7_001),
        lock: Duration::from_millis(3_001),
        idle_in_transaction: Duration::from_millis(2_001),
    };
    let serving = Serving { timeouts, ..Serving::default() };
    for (role, limits) in [
        (Role::Apply, "7001ms 3001ms 2001ms"),
        (Role::Read, "7001ms 3001ms 12006ms"),
        (Role::Administer, "0 5s 1min"),
    ] {
        let mut link = Link::open_for(&url, role, &serving).unwrap();
        let shown = "SELECT concat_ws(' ', current_setting('statement_timeout'),
            current_setting('lock_timeout'),
            current_setting('idle_in_transaction_session_timeout'))";
        assert_eq!(link.query(shown, &[]).unwrap()[0].get::<String>(0), limits, "{role:?}");
    }
    let mut link = Link::open_for(&url, Role::Apply, &serving).unwrap();
    link.batch("SET statement_timeout = 1").unwrap();
    let fault = link.query("SELECT pg_sleep(3600)", &[]).unwrap_err();
    assert!(!fault.is_lost());
    let failure = fault.failure("sleep");
    assert_eq!(failure.code(), Code::DatabaseBusy);
    assert!(failure.retry_after().is_some());
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
    assert_eq!((fault.call, fault.sqlstate().unwrap()), (1, "23505"));
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
        seen[call] += i64::from(row.try_get::<i32>(0).unwrap());
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

// A server that has much to say does not listen before it was heard.
#[test]
fn both_sides_may_have_much_to_say_in_one_flight() {
    let database = Cluster::shared().database();
    let over_tls = format!("{}?sslmode=require", database.tcp_url(APP_PASSWORD));
    let much = "x".repeat(12 << 20);
    let rows = "SELECT repeat('y', 1000) FROM generate_series(1, 12000)";
    let length = "SELECT length($1)::text";
    for url in [database.url(), over_tls] {
        let mut link = open(&url).unwrap();
        let parameters: [&(dyn ToSql + Sync); 1] = [&much];
        let calls = [Call::new(rows, &[]), Call::new(length, &parameters)].repeat(2);
        let mut seen = [0; 4];
        link.stream(&calls, &mut |call, row| {
            let text: &str = row.try_get(0).unwrap();
            seen[call] += if call % 2 == 0 { text.len() } else { text.parse().unwrap() };
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [12_000_000, 12 << 20, 12_000_000, 12 << 20]);
    }
}

#[test]
fn what_follows_a_failure_is_skipped_and_begin_leaves_nothing_behind() {
    let mut link = link(&Cluster::shared().database());
    link.batch("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    let insert = "INSERT INTO t VALUES ($1)";
    let fault = link
        .flight(&[
            Call::new("BEGIN", &[]),
            Call::new(insert, &[&1]),
            Call::new(insert, &[&1]),
            Call::new("COMMIT", &[]),
        ])
        .unwrap_err();
    assert_eq!((fault.call, fault.sqlstate()), (2, Some("23505")));
    let count = Call::new("SELECT count(*) FROM t", &[]);
    assert_eq!(link.begin(&[count]).unwrap()[0].rows[0].get::<i64>(0), 0);
    // Text that is sent as it is stands for itself.
    let calls =
        [Call::new("SELECT 1 / $1::int", &[&0]), Call::Simple("INSERT INTO t VALUES (7)"), count];
    assert_eq!(link.flight(&calls).unwrap_err().call, 0);
    assert_eq!(link.begin(&[count]).unwrap()[0].rows[0].get::<i64>(0), 1);
    // What is checked at the end is reported too.
    link.batch("CREATE TABLE u (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED)").unwrap();
    let fault = link.query("INSERT INTO u VALUES (8)", &[]).unwrap_err();
    assert_eq!((fault.call, fault.sqlstate()), (0, Some("23503")));
    assert_eq!(link.query("SELECT 1", &[]).unwrap().len(), 1);
}

#[test]
fn what_the_server_tells_of_its_own_accord_is_no_answer() {
    let mut link = link(&Cluster::shared().database());
    let answers = link
        .flight(&[
            Call::Simple("LISTEN news"),
            Call::new("NOTIFY news, 'something'", &[]),
            Call::new("DO $$ BEGIN RAISE WARNING 'look'; END $$", &[]),
            Call::new("SET application_name = 'another'", &[]),
            Call::new("SELECT current_setting('application_name')", &[]),
        ])
        .unwrap();
    assert_eq!(answers[4].rows[0].get::<&str>(0), "another");
    assert_eq!(link.query("SELECT 1", &[]).unwrap().len(), 1);
}

// S11
#[test]
fn copy_is_refused_and_waits_for_nothing() {
    let mut link = link(&Cluster::shared().database());
    link.batch("CREATE TABLE t (id int)").unwrap();
    for sql in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
        for call in [Call::Simple(sql), Call::new(sql, &[])] {
            let failure = link.begin(&[call]).unwrap_err().failure("run a script");
            assert_eq!(failure.code(), Code::ScriptFailed, "{}", failure.full_message());
            assert!(failure.full_message().contains("COPY"), "{}", failure.full_message());
        }
    }
    assert_eq!(link.begin(&[Call::new("SELECT 1", &[])]).unwrap()[0].rows.len(), 1);
}

// Trap 15
#[test]
fn a_nul_in_text_is_refused_wherever_it_is() {
    let mut link = link(&Cluster::shared().database());
    let fault = link.query("SELECT $1::text", &[&"a\0b"]).unwrap_err();
    assert_eq!(fault.sqlstate(), Some("22021"));
    for call in [Call::Simple("SELECT '\0'"), Call::new("SELECT '\0'", &[])] {
        let failure = link.begin(&[call]).unwrap_err().failure("run a script");
        assert_eq!(failure.code(), Code::ScriptFailed);
    }
    assert!(link.begin(&[Call::new("SELECT 1", &[])]).is_ok());
}

#[test]
fn types_of_the_database_have_their_names() {
    let mut link = link(&Cluster::shared().database());
    link.batch("CREATE TYPE mood AS ENUM ('good'); CREATE TYPE pair AS (a int, b int)").unwrap();
    let mut seen = Vec::new();
    let calls = [Call::new("SELECT $1::text::mood, (1, 2)::pair, 1", &[&"good"])];
    link.stream(&calls, &mut |_, row| {
        for Column { type_, .. } in row.columns() {
            let is_enum = matches!(type_.kind(), postgres_types::Kind::Enum(_));
            seen.push((type_.name().to_owned(), is_enum));
        }
        Ok(())
    })
    .unwrap();
    let names = [("mood", true), ("pair", false), ("int4", false)];
    assert_eq!(seen, names.map(|(name, is_enum)| (name.to_owned(), is_enum)));
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
    assert_eq!(link.number_space().timeline, 1);
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
    assert_eq!(link.query("SELECT * FROM t", &[]).unwrap()[0].columns().len(), 1);
    link.batch("ALTER TABLE t ADD COLUMN more text").unwrap();
    let failure = link.query("SELECT * FROM t", &[]).unwrap_err().failure("read");
    assert_eq!(failure.code(), Code::DatabaseBusy);
    assert_eq!(link.query("SELECT * FROM t", &[]).unwrap()[0].columns().len(), 2);
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
    // It is not signed by an authority that the system trusts.
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
    let old = link(&old).number_space();
    assert_eq!(new.number_space().system, old.system);
    assert_eq!((old.timeline, new.number_space().timeline), (1, 2));
}

#[test]
fn a_script_is_planned_each_time_and_other_plans_are_kept() {
    let mut link = link(&Cluster::shared().database());
    link.batch("CREATE TEMPORARY TABLE t (id int PRIMARY KEY)").unwrap();
    let (script, other) = ("INSERT INTO t VALUES ($1)", "SELECT FROM t WHERE id = $1");
    for id in 0..20 {
        let before = link.round_trips();
        // A script that fails on the way leaves it open whether it was prepared again.
        let twice = link.flight(&[
            Call::Simple("BEGIN"),
            Call::new(other, &[&id]),
            Call::planned_anew(script, &[&id]),
            Call::planned_anew(script, &[&id]),
        ]);
        assert_eq!(twice.unwrap_err().sqlstate(), Some("23505"));
        let answers = link.flight(&[
            Call::Simple("ROLLBACK"),
            Call::planned_anew(script, &[&id]),
            Call::planned_anew(script, &[&(id + 100)]),
        ]);
        assert_eq!(answers.unwrap()[2].affected, 1);
        let asked = u64::from(id == 0);
        assert_eq!(link.round_trips() - before, 2 + asked, "the first time they are prepared");
        let plans = |link: &mut Link, sql: &str| -> (i64, i64) {
            let plans = "SELECT generic_plans, custom_plans FROM pg_prepared_statements
                         WHERE statement = $1";
            let rows = link.query(plans, &[&sql]).unwrap();
            (rows[0].get(0), rows[0].get(1))
        };
        let (kept, planned) = plans(&mut link, script);
        assert!(kept == 0 && planned <= 5, "{kept} {planned}");
        assert_eq!(plans(&mut link, other).0, i64::from(id).saturating_sub(4).max(0));
    }
}
