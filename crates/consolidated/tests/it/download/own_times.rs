//! Cursors that compare what rows were stamped with, on SQLite.

use crate::support::center::{Backend, Center, Remote, deploy_own, text};
use harness::{Chance, full};
use model::{Code, Value};
use std::collections::BTreeMap;
use syncline_consolidated::Event::DownloadCursor;

const SCHEMA: &str = "
    CREATE TABLE visit (id INTEGER PRIMARY KEY, words TEXT,
        stamped TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE counted (id INTEGER PRIMARY KEY, changed INTEGER);";

const MODEL: &str = "[table.visit]\ncolumns = [\"id\", \"words\"]\n[table.counted]\n";

const ROWS: &str = "SELECT id, words FROM visit WHERE stamped >= {s.last_table_download}";

#[test]
fn a_time_is_that_of_current_timestamp() {
    let mut center = Center::on(Backend::Sqlite, SCHEMA, MODEL);
    let script = "SELECT 1, {s.last_table_download} || ' ' || {s.last_download}";
    center.deploy_own(MODEL, &[("visit", DownloadCursor, script)]).unwrap();
    let mut remote = Remote::new("r");
    let mut told = || center.synchronize(&mut remote, &[]).1.upserts[0].1[1].clone();
    assert_eq!(told(), text("1900-01-01 00:00:00 1900-01-01 00:00:00"));
    let Value::Text(second) = told() else { panic!("no text") };
    assert_eq!(second.len(), "1900-01-01 00:00:00 1900-01-01 00:00:00".len());
    assert!(second.starts_with(b"20"));
}

// DT1: rows are stamped in whole seconds, in the very seconds in which remotes synchronize.
#[test]
fn every_row_arrives_that_is_stamped_in_the_second_of_a_download() {
    let mut center = Center::on(Backend::Sqlite, SCHEMA, MODEL);
    center.deploy_own(MODEL, &[("visit", DownloadCursor, ROWS)]).unwrap();
    let (mut chance, mut remote) = (Chance::usual(3), Remote::new("r"));
    let mut received = BTreeMap::new();
    let mut take = |center: &mut Center| {
        for (_, row) in center.synchronize(&mut remote, &[]).1.upserts {
            received.insert(format!("{:?}", row[0]), row);
        }
    };
    for number in 0..2_000 {
        let id = chance.below(400);
        center.foreign(&format!(
            "INSERT INTO visit (id, words) VALUES ({id}, 'w{number}') ON CONFLICT (id) DO
             UPDATE SET words = excluded.words, stamped = CURRENT_TIMESTAMP"
        ));
        if chance.below(if full() { 3 } else { 12 }) == 0 {
            take(&mut center);
        }
    }
    take(&mut center);
    let there = center.rows("SELECT id, words FROM visit");
    assert_eq!(received.len(), there.len());
    for row in there {
        assert_eq!(received[&format!("{:?}", row[0])], row);
    }
}

#[test]
fn a_time_beside_a_number_is_told_and_there_is_no_time_zone() {
    let center = Center::on(Backend::Sqlite, SCHEMA, MODEL);
    let numbers = "SELECT id, changed FROM counted WHERE changed>= {s.last_download}";
    let deployed = deploy_own(&center.url, MODEL, &[("counted", DownloadCursor, numbers)]).unwrap();
    let place = "scripts/v1/counted/download_cursor.sql:1:50: changed is a column of numbers";
    assert!(deployed.notices.iter().any(|it| it.starts_with(place)), "{:?}", deployed.notices);
    let right = numbers.replace("{s.last_download}", "unixepoch({s.last_download})");
    for script in [right.as_str(), ROWS] {
        let table = if script == ROWS { "visit" } else { "counted" };
        let deployed = deploy_own(&center.url, MODEL, &[(table, DownloadCursor, script)]).unwrap();
        assert!(!deployed.notices.iter().any(|it| it.contains("numbers")));
    }
    let model = format!("time_zone = \"UTC\"\n{MODEL}");
    let failure = deploy_own(&center.url, &model, &[]).unwrap_err();
    assert_eq!(failure.code(), Code::ScriptInvalid);
}
