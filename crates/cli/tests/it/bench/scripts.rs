//! Runs that compare scripts of a user with generated ones.

use super::{Site, check_counts};
use harness::postgres::Cluster;
use serde_json::Value;

const RUN: [&str; 9] = [
    "--operation",
    "upload-insert",
    "--clients",
    "2",
    "--rows",
    "12",
    "--sets",
    "2",
    "--clients-on=wire",
];

/// Writes `scripts/_all/purchase/upload_insert.sql`.
fn write(site: &Site, text: &str) {
    let folder = site.folder.path().join("scripts/_all/purchase");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("upload_insert.sql"), text).unwrap();
}

#[test]
fn own_scripts_are_measured_beside_generated_ones() {
    let database = Cluster::shared().database();
    let site = Site::new();
    write(
        &site,
        "INSERT INTO purchase (emp_id, purch_id, cust_id, cost, order_date, notes) VALUES
         ({r.emp_id, r.purch_id, r.cust_id, r.cost, r.order_date, r.notes})",
    );
    for url in ["sqlite:x.db", &database.url()] {
        let outcome = site.run(url, &[&RUN[..], &["--scripts", "scripts"]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let headings = outcome.stdout.lines().nth(1).unwrap_or_default().split_whitespace();
        let headings: Vec<&str> = headings.collect();
        assert_eq!(headings, ["figure", "generated", "own", "own", "/", "generated"]);
        let result = site.result();
        // Two runs of two sets.
        check_counts(&result, "upload-insert", 2, 12, 4);
        let own = &result["own_scripts"];
        assert_eq!((&own["syncs"], &own["rows"]), (&8.into(), &96.into()), "{own}");
        assert_eq!(own["sets"].as_array().map(Vec::len), Some(4), "{own}");
        for figure in ["/rows_per_second", "/latency_ms/p50", "/database/commits_per_sync"] {
            let number = |of: &Value| of.pointer(figure).unwrap().as_f64().unwrap();
            let quotient = number(own) / number(&result);
            let told = number(&own["ratio"]);
            assert!((told / quotient - 1.0).abs() < 0.01, "{figure}: {result}");
        }
        assert_eq!(own.get("ceiling"), None);
    }
    let trips = |of: &Value| of["database"]["round_trips_per_sync"].as_f64();
    let result = site.result();
    assert!(trips(&result) > Some(0.0), "{result}");
    assert!(trips(&result["own_scripts"]) > trips(&result), "{result}");
    assert!(trips(&result["own_scripts"]["ratio"]) > Some(1.0), "{result}");
    assert_eq!(database.count("SELECT count(*) FROM pg_namespace WHERE nspname ~ 'syncline'"), 0);
    assert_eq!(site.names(), ["result.json", "scripts"]);
}

#[test]
fn a_mistake_in_a_script_is_told_and_nothing_is_measured() {
    let database = Cluster::shared().database();
    let site = Site::new();
    for url in ["sqlite:x.db", &database.url()] {
        write(&site, "INSERT INTO purchase\nVALUES ({r.nope})");
        let scripts = [&RUN[..], &["--scripts", "scripts"]].concat();
        let outcome = site.run(url, &scripts);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let message = outcome.message("E6151");
        let place = "scripts/_all/purchase/upload_insert.sql:2:10: unknown parameter {r.nope}";
        assert!(message.contains(place), "{outcome:?}");
        assert_eq!(site.result()["error"]["code"], "E6151");
        assert_eq!(outcome.stdout, "");
    }
    assert_eq!(database.count("SELECT count(*) FROM pg_namespace WHERE nspname ~ 'syncline'"), 0);

    std::fs::create_dir(site.folder.path().join("empty")).unwrap();
    site.run("sqlite:x.db", &[&RUN[..], &["--scripts", "empty"]].concat()).message("E6151");
    let outcome = site.run("sqlite:x.db", &[&RUN[..], &["--scripts", "missing"]].concat());
    assert!(outcome.stderr.contains("cannot read missing"), "{outcome:?}");
    let given = ["--scripts", "scripts", "--server-url", "tcp://127.0.0.1:1"];
    let outcome = site.run(&database.url(), &[&RUN[..], &given].concat());
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert_eq!(site.names(), ["empty", "result.json", "scripts"]);
}
