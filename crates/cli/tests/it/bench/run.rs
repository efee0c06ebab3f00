//! One run: every operation, what it leaves behind, and how it fails.

use super::{OPERATIONS, Site, check_counts};
use harness::postgres::{Cluster, TestDatabase};
use harness::{full, until};
use rusqlite::Connection;
use serde_json::Value;
use std::path::Path;

#[test]
fn every_operation_runs_with_every_kind_of_client() {
    let site = Site::new();
    std::fs::write(site.folder.path().join("result.json"), "an earlier result").unwrap();
    std::fs::write(site.folder.path().join("mine.db"), "never touched").unwrap();
    let kinds = ["wire", "memory", "file"];
    for (number, operation) in OPERATIONS.into_iter().enumerate() {
        // Once each is enough to see that it runs.
        let kinds = if full() { &kinds[..] } else { &kinds[number % 3..=number % 3] };
        for &kind in kinds {
            let sizes = ["--clients", "3", "--rows", "5", "--sets", "1"];
            let what = ["--operation", operation, "--clients-on", kind];
            let result = site.figures("sqlite:mine.db", &[&what[..], &sizes].concat());
            check_counts(&result, operation, 3, 5, 1);
            assert_eq!(result["settings"]["clients_on"], kind);
            assert_eq!(result["sets"].as_array().map(Vec::len), Some(1), "{result}");
            let share = &result["ratio_to_tracked_delete"];
            assert_eq!(share.is_number(), operation == "upload-delete", "{result}");
            assert_eq!(result["cpu_us_per_row"]["consolidated"], Value::Null);
        }
    }
    assert_eq!(site.names(), ["mine.db", "result.json"], "a run leaves nothing behind");
    let mine = std::fs::read_to_string(site.folder.path().join("mine.db")).unwrap();
    assert_eq!(mine, "never touched");
}

#[test]
fn a_full_server_sends_clients_away_and_they_come_back() {
    let site = Site::new();
    let sizes = ["--clients", "8", "--rows", "300", "--sets", "2", "--workers", "1"];
    let limits = ["--connection-limit", "1", "--retry-delay", "0.01"];
    let what = ["--operation", "upload-update", "--clients-on", "wire"];
    let result = site.figures("sqlite:x.db", &[&what[..], &sizes, &limits].concat());
    check_counts(&result, "upload-update", 8, 300, 2);
    assert_eq!(result["settings"]["connection_limit"], 1);
}

#[test]
fn rows_that_somebody_else_changed_make_the_run_a_failure() {
    let site = Site::new();
    let what = ["bench", "run", "--operation", "upload-insert", "--consolidated", "sqlite:x.db"];
    let sizes = ["--clients", "2", "--rows", "1", "--sets", "1000", "--clients-on", "wire"];
    let to = ["--json", "result.json"];
    let child = site.syncline.command(&[&what[..], &sizes, &to].concat()).spawn().unwrap();
    // The run notices in one of the many sets that follow.
    until("a row of the run to change", || change_a_row(site.folder.path()));
    let outcome = harness::finish(child);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.message("E9002");
    assert_eq!(site.result()["error"]["code"], "E9002");
    assert_eq!(site.result().get("rows_per_second"), None);
    assert_eq!(site.names(), ["result.json"]);
}

#[test]
fn a_signal_ends_a_run_and_nothing_stays_behind() {
    let database = Cluster::shared().database();
    let site = Site::new();
    let url = database.url();
    let what = ["bench", "run", "--operation", "upload-insert", "--consolidated", &url];
    let sizes = ["--clients", "2", "--rows", "1", "--sets", "1000", "--clients-on", "wire"];
    let to = ["--json", "result.json"];
    let child = site.syncline.command(&[&what[..], &sizes, &to].concat()).spawn().unwrap();
    until("the rows of the run", || {
        let counted = database.try_sql("SELECT 1 / count(*) FROM syncline_bench.purchase");
        counted.code == Some(0)
    });
    let id = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let outcome = harness::finish(child);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.message("E9003");
    assert_eq!(site.result()["error"]["code"], "E9003");
    assert_eq!(database.count("SELECT count(*) FROM pg_namespace WHERE nspname ~ 'syncline'"), 0);
}

/// Changes a row at the consolidated database of the run in this folder, as soon as there is one.
fn change_a_row(folder: &Path) -> bool {
    let mut entries = folder.read_dir().unwrap().flatten().map(|entry| entry.path());
    let file = entries.find_map(|path| {
        let file = path.join("consolidated.db");
        file.exists().then_some(file)
    });
    let Some(file) = file else { return false };
    let change = || -> rusqlite::Result<usize> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.execute("UPDATE purchase SET notes = 'mine' WHERE purch_id = 200000000", [])
    };
    // The table may not be there yet.
    change().is_ok_and(|rows| rows > 0)
}

#[test]
fn failures_are_told_and_wrong_usage_is_refused() {
    let site = Site::new();
    let run = ["--operation", "download", "--clients", "1", "--rows", "1", "--sets", "1"];
    let outcome = site.run("sqlite:no/such/folder/x.db", &run);
    assert_eq!(outcome.code, Some(1));
    outcome.message("E6010");
    assert_eq!(site.result()["error"]["code"], "E6010");
    assert_eq!(site.result()["operation"], "download");

    let outcome = site.run("oracle:x", &run);
    outcome.message("E6006");
    assert_eq!(site.result()["error"]["code"], "E6006");

    for wrong in [
        &["--operation", "download", "--server-url", "tcp://127.0.0.1:1"][..],
        &["--operation", "everything"],
        &["--operation", "download", "--conflicts", "1"],
        &["--operation", "upload-insert", "--model", "order-lines", "--conflicts", "1"],
        &["--operation", "upload-update", "--conflicts", "101"],
        &["--operation", "download", "--model", "overlapping", "--rows", "3"],
        &["--operation", "download", "--model", "overlapping", "--clients", "1"],
        &["--operation", "download", "--cpus", "1024"],
        &["--operation", "download", "--transport", "ftp"],
        &["--clients", "3"],
    ] {
        let outcome = site.run("sqlite:x.db", wrong);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
}

fn run_on(database: &TestDatabase, operation: &str, kind: &str) -> Value {
    let site = Site::new();
    let sizes = ["--clients", "3", "--rows", "5", "--sets", "2"];
    let what = ["--operation", operation, "--clients-on", kind];
    site.figures(&database.url(), &[&what[..], &sizes].concat())
}

#[test]
fn every_operation_runs_on_postgres_and_leaves_the_database_as_it_was() {
    let database = Cluster::shared().database();
    database.sql("CREATE TABLE purchase (id int PRIMARY KEY); INSERT INTO purchase VALUES (1)");
    let before = database.dump(&[]);
    for (operation, kind) in OPERATIONS.iter().zip(["memory", "wire", "memory", "wire", "memory"]) {
        let result = run_on(&database, operation, kind);
        check_counts(&result, operation, 3, 5, 2);
        let round_trips = &result["database"]["round_trips_per_sync"];
        assert!(round_trips.as_f64() > Some(0.0), "{result}");
        assert_eq!(result["settings"]["consolidated"]["database"], "PostgreSQL");
        assert!(result["cpu_us_per_row"]["consolidated"].is_number(), "{result}");
        let share = &result["ratio_to_tracked_delete"];
        assert_eq!(share.is_number(), *operation == "upload-delete", "{result}");
    }
    assert_eq!(database.dump(&[]), before);
}

// Whether an upload fits behind Hello or not, it is one transaction.
#[test]
fn an_upload_of_any_size_is_one_commit() {
    let database = Cluster::shared().database();
    for rows in ["5", "1000"] {
        let site = Site::new();
        let sizes = ["--clients", "2", "--rows", rows, "--sets", "2", "--clients-on", "memory"];
        let what = ["--operation", "upload-insert"];
        let result = site.figures(&database.url(), &[&what[..], &sizes].concat());
        assert_eq!(result["database"]["commits_per_sync"], 1.0, "{rows}: {result}");
    }
}

#[test]
fn a_database_that_serves_somebody_is_refused() {
    let database = Cluster::shared().database();
    database.sql("CREATE TABLE customer (id int PRIMARY KEY)");
    let site = Site::new();
    site.syncline.ok(&["init", "center", "--consolidated", &database.url()]);
    site.syncline.ok(&["deploy", "--dir", "center"]);
    let before = database.dump(&[]);
    let outcome = site.run(&database.url(), &["--operation", "download", "--clients", "1"]);
    assert_eq!(outcome.code, Some(1));
    outcome.message("E6005");
    assert_eq!(database.dump(&[]), before);
}
