//! Many runs: the files of a suite, and how it continues after an interruption.

use super::Site;
use harness::Outcome;
use harness::postgres::{Cluster, SUPERUSER};
use harness::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SMALLEST: [&str; 4] = ["--scale", "0.002", "--clients-on", "wire"];

fn suite(site: &Site, url: &str, arguments: &[&str]) -> Outcome {
    let fixed = ["bench", "suite", "--consolidated", url];
    site.syncline.run(&[&fixed, &SMALLEST[..], arguments].concat())
}

/// Makes a suite that must succeed; its last line.
fn summary(site: &Site, url: &str, arguments: &[&str]) -> String {
    let outcome = suite(site, url, arguments);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.stdout.lines().last().unwrap().to_owned()
}

/// The tests of a suite that are there on every machine: links need root.
fn tests_of(suite: &Value) -> Vec<&Value> {
    let is_link = |test: &Value| test["name"].as_str().unwrap().starts_with("link-");
    suite["tests"].as_array().unwrap().iter().filter(|test| !is_link(test)).collect()
}

#[test]
fn a_suite_records_its_tests_and_makes_no_run_twice() {
    let site = Site::new();
    let chosen = ["--only", "conflicts", "--only", "small", "--sets", "1"];
    let told = summary(&site, "sqlite:x.db", &chosen);
    assert_eq!(told, "8 runs made, 0 there before, 0 failed; the results are in bench-suite");
    assert_eq!(site.names(), ["bench-suite"], "a suite leaves nothing else behind");

    let recorded = site.json("bench-suite/suite.json");
    assert_eq!(recorded["suite_version"], 1);
    let tests = tests_of(&recorded);
    let mut runs = 0;
    for test in &tests {
        assert_eq!(test["missing"].is_string(), test["points"] == Value::Array(vec![]));
        for point in test["points"].as_array().unwrap() {
            for run in point["runs"].as_array().unwrap() {
                let file = format!("bench-suite/{}", run["file"].as_str().unwrap());
                let result = site.json(&file);
                assert_eq!(result["error"], Value::Null, "{file}");
                assert_eq!(result["operation"], run["operation"]);
                assert!(run["command"].as_str().unwrap().starts_with("syncline bench run --op"));
                runs += 1;
            }
        }
    }
    assert_eq!((tests.len(), runs), (5, 8), "two tests, and three that are missing yet");

    // One result is lost, one is that of a run that failed, one was made with other settings.
    let path = |name: &str| site.folder.path().join("bench-suite").join(name);
    std::fs::remove_file(path("small/1-row-download.json")).unwrap();
    let failed = path("small/no-row-download.json");
    let text = std::fs::read_to_string(&failed).unwrap();
    std::fs::write(&failed, text.replace("\"error\": null", "\"error\": {}")).unwrap();
    std::fs::copy(
        path("conflicts/0-percent-upload-update.json"),
        path("conflicts/1-percent-upload-update.json"),
    )
    .unwrap();
    let told = summary(&site, "sqlite:x.db", &chosen);
    assert_eq!(told, "3 runs made, 5 there before, 0 failed; the results are in bench-suite");

    // Another test joins those that were recorded before.
    summary(&site, "sqlite:x.db", &["--only", "merge-replication", "--sets", "1"]);
    let again = site.json("bench-suite/suite.json");
    assert_eq!(tests_of(&again).len(), 6);
    assert_eq!(again["started"], recorded["started"]);
}

#[test]
fn a_signal_ends_a_suite_which_goes_on_later() {
    let database = Cluster::shared().database();
    let (site, url) = (Site::new(), database.url());
    let fixed = ["bench", "suite", "--consolidated", &url, "--dir", "results", "--only", "small"];
    let long = [&fixed, &SMALLEST[..], &["--sets", "1000"]].concat();
    let child = site.syncline.command(&long).spawn().unwrap();
    until("the rows of a run", || {
        let counted = database.try_sql("SELECT 1 / count(*) FROM syncline_bench.purchase");
        counted.code == Some(0)
    });
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let outcome = harness::finish(child);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.message("E9003");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname ~ 'syncline'";
    assert_eq!(database.count(schemas), 0);

    let interrupted = site.json("results/small/1-row-download.json");
    assert_eq!(interrupted["error"]["code"], "E9003");

    let short = ["--dir", "results", "--only", "small", "--sets", "1"];
    let told = summary(&site, "sqlite:x.db", &short);
    assert!(told.starts_with("5 runs made, 0 there before, 0 failed"), "{told}");
    let told = summary(&site, "sqlite:x.db", &short);
    assert!(told.starts_with("0 runs made, 5 there before, 0 failed"), "{told}");
}

#[test]
fn a_run_that_fails_does_not_end_the_suite() {
    let database = Cluster::shared().database();
    // The tables can be made, but not deployed.
    let superuser = database.as_role(SUPERUSER);
    superuser.sql(
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no triggers here'; END $$;
         CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TRIGGER')
            EXECUTE FUNCTION refuse()",
    );
    let site = Site::new();
    let chosen = ["--only", "small", "--sets", "1"];
    let outcome = suite(&site, &database.url(), &chosen);
    superuser.sql("DROP EVENT TRIGGER refuse");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let message = outcome.message("E9002");
    assert!(message.contains("5 runs of the suite failed"), "{message}");
    let result = site.json("bench-suite/small/no-row-download.json");
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains("no triggers here"), "{message}");
}

/// A database that no run could use is refused once, and nothing is written.
#[test]
fn a_database_that_no_run_could_use_is_refused_before_the_first_one() {
    let site = Site::new();
    let chosen = ["--only", "small", "--sets", "1"];
    suite(&site, "sqlite:no/such/folder/x.db", &chosen).message("E6010");
    suite(&site, "oracle:x", &chosen).message("E6006");
    suite(&site, "postgres://nobody@127.0.0.1:1/x", &chosen).message("E3001");
    assert!(site.names().is_empty(), "{:?}", site.names());
    for wrong in [&["--only", "everything"][..], &["--scale", "0"], &["--sets", "0"]] {
        assert_eq!(suite(&site, "sqlite:x.db", wrong).code, Some(2));
    }
}
