//! Scripts that decide since when a remote lacks what was stamped.

use super::own_times_postgres::grant;
use crate::support::center::{Backend, Center, Download, Remote, Upload, int, text};
use model::Code;
use std::collections::BTreeSet;
use syncline_consolidated::DownloadedTable::{Changes, Refresh};
use syncline_consolidated::Event::{
    self, DownloadCursor, DownloadDeleteCursor, GenerateNextLastDownloadTimestamp,
    ModifyLastDownloadTimestamp, ModifyNextLastDownloadTimestamp, PrepareForDownload,
};

const MODEL: &str = "[table.visit]\ncolumns = [\"id\", \"words\"]\n[table.other]\n";

fn schema(backend: Backend) -> String {
    let time = backend.pick("TEXT", "timestamptz");
    format!(
        "CREATE TABLE visit (id INTEGER PRIMARY KEY, words TEXT,
             stamped {time} NOT NULL DEFAULT CURRENT_TIMESTAMP);
         CREATE TABLE other (id INTEGER PRIMARY KEY, words TEXT);
         CREATE TABLE told (n INTEGER, words TEXT);
         INSERT INTO visit VALUES
             (1, 'old', '2020-01-01 00:00:00'), (2, 'newer', '2024-01-01 00:00:00');
         INSERT INTO other VALUES (1, 'a'), (2, 'b');"
    )
}

/// A moment, as a script spells it.
fn moment(backend: Backend, moment: &str) -> String {
    format!("{}'{moment}'", backend.pick("", "timestamptz "))
}

/// The same in ways that mean it too.
fn spellings(backend: Backend, at: &str) -> Vec<String> {
    let text = [format!("'{at}'"), format!("'{at}Z'"), format!("'{at}+00:00'")];
    text.into_iter().chain([moment(backend, at)]).collect()
}

/// `{s.…}` as text.
fn told(backend: Backend, name: &str) -> String {
    let written = format!("to_char({{s.{name}}} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')");
    match backend {
        Backend::Sqlite => format!("{{s.{name}}}"),
        Backend::Postgres => written,
    }
}

fn ready(backend: Backend, scripts: &[(Event, String)]) -> (Center, Remote) {
    if backend == Backend::Postgres {
        grant();
    }
    let mut center = Center::on(backend, &schema(backend), MODEL);
    deploy(&mut center, scripts);
    (center, Remote::another())
}

/// With cursors that compare times, and these scripts of the version.
fn deploy(center: &mut Center, scripts: &[(Event, String)]) {
    let rows = "SELECT id, words FROM visit WHERE stamped >= {s.last_table_download}";
    let keys = "SELECT id FROM visit WHERE words = 'gone'";
    let mut all = vec![("visit", DownloadCursor, rows), ("visit", DownloadDeleteCursor, keys)];
    all.extend(scripts.iter().map(|(event, text)| ("", *event, text.as_str())));
    center.deploy_own(MODEL, &all).unwrap();
}

/// The rows of a download, sorted. None comes twice.
fn came(download: &Download) -> Vec<String> {
    let spelled = |(table, row): &(String, Vec<model::Value>)| format!("{table} {:?}", row[0]);
    let rows: BTreeSet<String> = download.upserts.iter().map(spelled).collect();
    assert_eq!(rows.len(), download.upserts.len());
    rows.into_iter().map(|row| row.replace("Integer(", "").replace(')', "")).collect()
}

const ALL: [&str; 4] = ["other 1", "other 2", "visit 1", "visit 2"];

// Also what has generated cursors comes whole, and what left meanwhile goes.
#[test]
fn back_to_1900_sends_everything_once() {
    Backend::each(|backend| {
        let (mut center, mut remote) = ready(backend, &[]);
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), ALL);
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), [""; 0]);
        let back = moment(backend, "1900-01-01");
        deploy(
            &mut center,
            &[(ModifyLastDownloadTimestamp, format!("SELECT {back} AS last_download"))],
        );
        let new = Upload::Insert("other", vec![int(3), text("new")]);
        let (_, download) = center.synchronize(&mut remote, &[new]);
        assert_eq!(download.modes, [Refresh, Refresh]);
        let all = ["other 1", "other 2", "other 3", "visit 1", "visit 2"];
        assert_eq!(came(&download), all);
        deploy(&mut center, &[]);
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!((download.modes.clone(), came(&download)), (vec![Changes; 2], Vec::new()));
        // No cursor asks for times.
        center.deploy_own(MODEL, &[]).unwrap();
        center.synchronize(&mut remote, &[]);
        let script = format!("SELECT {back} AS last_download");
        center.deploy_own(MODEL, &[("", ModifyLastDownloadTimestamp, &script)]).unwrap();
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(
            (download.modes.clone(), came(&download)),
            (vec![Refresh; 2], all.map(String::from).to_vec())
        );
    });
}

#[test]
fn what_was_stamped_since_comes_again_and_no_row_is_left_out() {
    Backend::each(|backend| {
        let since = |time: &str| format!("SELECT {} AS last_download", moment(backend, time));
        let script = since("2023-06-01 10:00:00");
        let noted = format!("INSERT INTO told VALUES (1, {})", told(backend, "last_download"));
        let scripts = [(ModifyLastDownloadTimestamp, script), (PrepareForDownload, noted)];
        let (mut center, mut remote) = ready(backend, &scripts);
        // A later time than the remote has counts for nothing.
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), ALL);
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), ["visit 2"]);
        assert_eq!(
            center.list("SELECT words AS v FROM told ORDER BY words"),
            "1900-01-01 00:00:00,2023-06-01 10:00:00"
        );
        let given = "SELECT {s.last_download} AS last_download".to_owned();
        for script in [given, "SELECT NULL AS last_download".to_owned()] {
            let script = match backend {
                Backend::Postgres => script.replace("NULL", "NULL::timestamptz"),
                Backend::Sqlite => script,
            };
            deploy(&mut center, &[(ModifyLastDownloadTimestamp, script)]);
            assert_eq!(came(&center.synchronize(&mut remote, &[]).1), [""; 0]);
        }
    });
}

#[test]
fn scripts_generate_and_modify_the_time_that_is_handed_out() {
    Backend::each(|backend| {
        let at = moment(backend, "2023-06-01 10:00:00");
        let generate = format!("SELECT {at} AS next_last_download");
        let scripts = [(GenerateNextLastDownloadTimestamp, generate)];
        let (mut center, mut remote) = ready(backend, &scripts);
        let told_next = told(backend, "next_last_download");
        let mut came_then = || {
            center.synchronize(&mut remote, &[]);
            came(&center.synchronize(&mut remote, &[]).1)
        };
        assert_eq!(came_then(), ["visit 2"]);
        let earlier = backend.pick(
            "SELECT datetime({s.next_last_download}, '-4 years') AS next_last_download",
            "SELECT {s.next_last_download} - interval '4 years' AS next_last_download",
        );
        let noted = format!("INSERT INTO told VALUES (1, {told_next}); {earlier}");
        let mut both = scripts.to_vec();
        both.push((ModifyNextLastDownloadTimestamp, noted));
        deploy(&mut center, &both);
        center.synchronize(&mut remote, &[]);
        assert_eq!(center.value("SELECT min(words) FROM told"), text("2023-06-01 10:00:00"));
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(came(&download), ["visit 1", "visit 2"]);
        // Of the database: no row is stamped later than what it hands out.
        deploy(
            &mut center,
            &[(ModifyNextLastDownloadTimestamp, earlier.replace("4 years", "0 days"))],
        );
        center.synchronize(&mut remote, &[]);
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), [""; 0]);
    });
}

// The value is told to the next synchronization as it was set.
#[test]
fn a_time_is_the_same_in_every_spelling() {
    Backend::each(|backend| {
        let at = "2023-06-01 10:00:00";
        let (mut center, mut remote) = ready(backend, &[]);
        let told = told(backend, "last_download");
        for spelled in spellings(backend, at) {
            let next = format!("SELECT {spelled} AS next_last_download");
            let noted = format!("INSERT INTO told SELECT 1, {told} || ' ' || {{u.at}}");
            let sets = format!("SELECT {spelled} AS u_at");
            deploy(
                &mut center,
                &[
                    (GenerateNextLastDownloadTimestamp, next),
                    (Event::BeginSynchronization, sets),
                    (PrepareForDownload, noted),
                ],
            );
            center.synchronize(&mut remote, &[]);
            center.foreign("DELETE FROM told");
            center.synchronize(&mut remote, &[]);
            let told = center.list("SELECT words AS v FROM told");
            assert!(told.starts_with(&format!("{at} {at}")), "{spelled}: {told}");
        }
    });
}

// What was committed before stays, and the remote keeps the time that it has.
#[test]
fn what_is_no_time_fails_and_is_told() {
    const WRONG: [&str; 4] = ["tomorrow or so", "99999-01-01 00:00:00", "-infinity", "1"];
    Backend::each(|backend| {
        let (mut center, mut remote) = ready(backend, &[]);
        let mut rows = 2;
        for (event, name) in [
            (GenerateNextLastDownloadTimestamp, "next_last_download"),
            (ModifyLastDownloadTimestamp, "last_download"),
            (ModifyNextLastDownloadTimestamp, "next_last_download"),
        ] {
            let cases: String =
                (0..).zip(WRONG).map(|(at, wrong)| format!(" WHEN {at} THEN '{wrong}'")).collect();
            let which = "(SELECT count(*) FROM other) % 4";
            deploy(&mut center, &[(event, format!("SELECT CASE {which}{cases} END AS {name}"))]);
            for _ in WRONG {
                rows += 1;
                let new = Upload::Insert("other", vec![int(rows), text("new")]);
                let applied = center.upload(&mut remote, &[new]).unwrap();
                let stopped = match &applied.stopped {
                    Some(stopped) => stopped.full_message(),
                    None => center.try_download(&mut remote, &applied).unwrap_err().full_message(),
                };
                let wrong = WRONG[rows as usize % 4];
                let place = format!("scripts/v1/{event}.sql:1:1: it returns \"{wrong}\" as {name}");
                assert!(stopped.contains(&place), "{stopped}");
                assert_eq!(center.value("SELECT count(*) FROM other"), int(rows));
            }
            let nothing = [("", event, "SELECT 1 AS other")];
            assert_eq!(center.deploy_own(MODEL, &nothing).unwrap_err().code(), Code::ScriptInvalid);
        }
    });
}

// A procedure, and a column without time zone, which is UTC.
#[test]
fn procedures_set_times() {
    let backend = Backend::Postgres;
    let (mut center, mut remote) = ready(backend, &[]);
    center.synchronize(&mut remote, &[]);
    for type_ in ["timestamptz", "timestamp"] {
        center.foreign(&format!(
            "DROP PROCEDURE IF EXISTS back;
             CREATE PROCEDURE back(INOUT of {type_}) LANGUAGE plpgsql AS $$
             BEGIN of := '2023-06-01 10:00:00'; END $$"
        ));
        let call = format!("CALL back({{s.last_download}}::{type_})");
        deploy(&mut center, &[(ModifyLastDownloadTimestamp, call)]);
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), ["visit 2"]);
    }
    let wrong = "SELECT current_date AS last_download";
    let failure =
        center.deploy_own(MODEL, &[("", ModifyLastDownloadTimestamp, wrong)]).unwrap_err();
    let said = failure.full_message();
    assert!(said.contains("it returns last_download as date: cast it to timestamptz"), "{said}");
}
