//! Runs besides the four published ones.
//!
//! Other models, conflicts, empty synchronizations, slow networks, fewer processors, and a server
//! that another process runs.

use super::{OPERATIONS, Site, check_counts};
use harness::postgres::Cluster;
use harness::{Network, World, finish, full, until};
use serde_json::Value;

const SIZES: [&str; 6] = ["--clients", "3", "--rows", "12", "--sets", "2"];

#[test]
fn every_model_runs_with_every_operation() {
    let site = Site::new();
    let kinds = ["memory", "wire"].iter().cycle();
    let models = ["order-lines", "overlapping", "merge"];
    // Each operation once, which is each model once or twice; or each with each.
    let runs: Vec<(&str, &str)> = match full() {
        true => models.iter().flat_map(|model| OPERATIONS.map(|it| (*model, it))).collect(),
        false => models.into_iter().cycle().zip(OPERATIONS).collect(),
    };
    for ((model, operation), kind) in runs.into_iter().zip(kinds) {
        let what = ["--operation", operation, "--model", model, "--clients-on", kind];
        let result = site.figures("sqlite:x.db", &[&what[..], &SIZES].concat());
        check_counts(&result, operation, 3, 12, 2);
        assert_eq!(result["settings"]["model"], model);
    }
}

#[test]
fn models_run_on_postgres() {
    let database = Cluster::shared().database();
    let site = Site::new();
    for (model, operation, kind) in [
        ("order-lines", "upload-delete", "memory"),
        ("order-lines", "download", "wire"),
        ("overlapping", "upload-insert", "memory"),
        ("merge", "exchange", "wire"),
    ] {
        let what = ["--operation", operation, "--model", model, "--clients-on", kind];
        let result = site.figures(&database.url(), &[&what[..], &SIZES].concat());
        check_counts(&result, operation, 3, 12, 2);
    }
}

#[test]
fn empty_tables_can_be_published_beside_the_one_with_rows() {
    let database = Cluster::shared().database();
    let site = Site::new();
    for (url, kind) in [("sqlite:x.db", "memory"), (&database.url(), "wire")] {
        let what = ["--operation", "download", "--tables", "12", "--clients-on", kind];
        let result = site.figures(url, &[&what[..], &SIZES].concat());
        check_counts(&result, "download", 3, 12, 2);
        assert_eq!(result["settings"]["tables"], 12);
    }
}

// S5
#[test]
fn conflicts_are_as_many_as_asked_for() {
    let database = Cluster::shared().database();
    let site = Site::new();
    for (url, kind) in [("sqlite:x.db", "memory"), (&database.url(), "wire")] {
        for (percent, conflicts) in [("25", 3), ("100", 12)] {
            let what = ["--operation", "upload-update", "--conflicts", percent];
            let all = [&what[..], &["--clients-on", kind], &SIZES].concat();
            let result = site.figures(url, &all);
            check_counts(&result, "upload-update", 3, 12, 2);
            assert_eq!(result["conflicts"], conflicts * 3 * 2, "{result}");
        }
    }
}

#[test]
fn an_empty_synchronization_has_no_rows_but_a_cost() {
    let site = Site::new();
    for kind in ["memory", "wire"] {
        let what = ["--operation", "download", "--rows", "0", "--clients-on", kind];
        let sizes = ["--clients", "3", "--sets", "2"];
        let result = site.figures("sqlite:x.db", &[&what[..], &sizes].concat());
        assert_eq!((&result["syncs"], &result["rows"]), (&6.into(), &0.into()));
        assert!(result["syncs_per_second"].as_f64() > Some(0.0), "{result}");
        assert!(result["cpu_us_per_sync"]["server"].is_number(), "{result}");
        assert_eq!(result["cpu_us_per_row"]["server"], Value::Null);
        assert_eq!(result["ceiling"], Value::Null);
    }
}

#[test]
fn a_slow_network_takes_its_time() {
    let site = Site::new();
    for (operation, kind) in [("upload-insert", "wire"), ("download", "memory")] {
        let what = ["--operation", operation, "--clients-on", kind, "--client-bandwidth", "3000"];
        let sizes = ["--clients", "2", "--rows", "20", "--sets", "1"];
        let result = site.figures("sqlite:x.db", &[&what[..], &sizes].concat());
        // Twenty rows have 1,840 bytes at least.
        assert!(result["total_server_time_s"].as_f64() > Some(1840.0 / 3000.0), "{result}");
    }
}

#[test]
fn processors_can_be_fewer() {
    let database = Cluster::shared().database();
    let site = Site::new();
    let what = ["--operation", "upload-insert", "--cpus", "1", "--clients-on", "wire"];
    let all = [&what[..], &SIZES].concat();
    let result = site.figures("sqlite:x.db", &all);
    check_counts(&result, "upload-insert", 3, 12, 2);
    assert_eq!(result["settings"]["cpus"], 1);

    // A process of another user can be pinned only by its owner, or with a special right.
    let outcome = site.run(&database.url(), &all);
    match outcome.code {
        Some(0) => check_counts(&site.result(), "upload-insert", 3, 12, 2),
        _ => drop(outcome.message("E9004")),
    }
}

#[test]
fn a_server_that_somebody_else_runs_can_be_measured() {
    let world = World::on_database(env!("CARGO_BIN_EXE_syncline"), Cluster::shared().database());
    let url = world.database().url();
    let network = Network::without_server();
    let what = ["bench", "run", "--operation", "exchange", "--consolidated", &url];
    let server = ["--server-url", &network.url, "--retry-delay", "0.1", "--json", "result.json"];
    let run = world.syncline.command(&[&what[..], &server, &SIZES].concat()).spawn().unwrap();
    until("the users of the run", || {
        let users = world.database().try_sql("SELECT 1 / count(*) FROM syncline.syncline_user");
        users.code == Some(0)
    });
    let glue = if url.contains('?') { '&' } else { '?' };
    let config =
        format!("consolidated = \"{url}{glue}options=-c%20search_path%3Dsyncline_bench\"\n");
    std::fs::write(world.path("syncline.toml"), config + "[server]\n").unwrap();
    let server = world.serve();
    network.lead_to(&server.url);
    let outcome = finish(run);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("waiting for the server"), "{outcome:?}");
    let text = std::fs::read_to_string(world.path("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&result["rows"], &result["settings"]["server"]), (&72.into(), &"given".into()));
    // The use of a server of another process is unknown.
    assert_eq!(result["cpu_us_per_row"]["server"], Value::Null);
    assert_eq!(result["database"], Value::Null);
}
