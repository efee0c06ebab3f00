//! Scripts around the cursors of a download, with the same results on both databases.

use crate::support::center::{
    Backend, Center, Download, Remote, Row, Upload, fetch_request, int, text,
};
use model::{Code, ScriptVersion, UserName};
use syncline_consolidated::Event::{
    self, BeginDownload, BeginDownloadDeletes, BeginDownloadRows, BeginSynchronization,
    DownloadCursor, DownloadDeleteCursor, DownloadStatistics, EndDownload, EndDownloadDeletes,
    EndDownloadRows, EndSynchronization, PrepareForDownload,
};
use syncline_consolidated::{DownloadBatch, Ending, ScriptFile, SyncModel, administer};

fn schema(backend: Backend) -> String {
    let number = backend.pick("INTEGER PRIMARY KEY", "serial PRIMARY KEY");
    format!(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
         CREATE TABLE line (id INTEGER PRIMARY KEY, n INTEGER);
         CREATE TABLE pool (id {number}, owner TEXT);
         CREATE TABLE served (id INTEGER PRIMARY KEY, owner TEXT);
         CREATE TABLE ran (number {number}, what TEXT);
         CREATE TABLE once (n INTEGER PRIMARY KEY);"
    )
}

const MODEL: &str = "[table.item]\n[table.line]\n";

type Own = (&'static str, Event, String);

/// A script that notes that it ran, and for what.
fn noting(event: Event, told: &str) -> String {
    format!("INSERT INTO ran (what) VALUES ('{event} ' || {told})")
}

fn everywhere() -> Vec<Own> {
    let mut scripts = Vec::new();
    for event in [BeginDownload, EndDownload, DownloadStatistics] {
        scripts.push(("", event, noting(event, "{s.username}")));
        scripts.extend(["item", "line"].map(|table| (table, event, noting(event, "{s.table}"))));
    }
    for event in [BeginDownloadDeletes, EndDownloadDeletes, BeginDownloadRows, EndDownloadRows] {
        scripts.extend(["item", "line"].map(|table| (table, event, noting(event, "{s.table}"))));
    }
    scripts
}

fn deploy(center: &mut Center, model: &str, scripts: &[Own]) {
    let scripts: Vec<_> = scripts.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
    center.deploy_own(model, &scripts).unwrap();
}

fn center(backend: Backend, model: &str, scripts: &[Own]) -> (Center, Remote) {
    let mut center = Center::on(backend, &schema(backend), MODEL);
    deploy(&mut center, model, scripts);
    (center, Remote::another())
}

/// What has run since it was asked last.
fn ran(center: &Center) -> Vec<String> {
    let ran = center.list("SELECT what AS v FROM ran ORDER BY number");
    center.foreign("DELETE FROM ran");
    ran.split(',').filter(|what| !what.is_empty()).map(str::to_owned).collect()
}

fn synchronize(center: &mut Center, remote: &mut Remote) -> Download {
    center.synchronize(remote, &[]).1
}

fn sent(table: &str, rows: &[Row]) -> Vec<(String, Row)> {
    rows.iter().map(|row| (table.to_owned(), row.clone())).collect()
}

#[test]
fn scripts_run_around_the_cursors_in_the_published_order() {
    Backend::each(|backend| {
        let mut scripts = everywhere();
        // What has run by then.
        let so_far = "SELECT 1, CAST(count(*) AS INTEGER) FROM ran";
        let to_delete = "SELECT CAST(1000 + count(*) AS INTEGER) FROM ran";
        for table in ["item", "line"] {
            scripts.push((table, DownloadCursor, so_far.to_owned()));
            scripts.push((table, DownloadDeleteCursor, to_delete.to_owned()));
        }
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        let expected = [
            "begin_download ann",
            "begin_download item",
            "begin_download line",
            "begin_download_deletes item",
            "end_download_deletes item",
            "begin_download_rows item",
            "end_download_rows item",
            "begin_download_deletes line",
            "end_download_deletes line",
            "begin_download_rows line",
            "end_download_rows line",
            "end_download item",
            "end_download line",
            "end_download ann",
            "download_statistics item",
            "download_statistics line",
            "download_statistics ann",
        ];
        synchronize(&mut center, &mut remote);
        assert_eq!(ran(&center), expected);
        let download = synchronize(&mut center, &mut remote);
        assert_eq!(ran(&center), expected);
        let rows = [("item", 6), ("line", 10)].map(|(of, n)| (of.to_owned(), vec![int(1), int(n)]));
        assert_eq!(download.upserts, rows);
        let keys = [("item", 1004), ("line", 1008)].map(|(of, id)| (of.to_owned(), vec![int(id)]));
        assert_eq!(download.deletes, keys);
    });
}

// An own cursor is not the only one that is surrounded, and what scripts remove is noticed.
#[test]
fn generated_cursors_see_what_scripts_have_written() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, MODEL, &[]);
        center.foreign("INSERT INTO item VALUES (1, 1), (2, 2), (3, 3)");
        synchronize(&mut center, &mut remote);
        let mut scripts = everywhere();
        scripts.retain(|(of, event, _)| (*of, *event) != ("item", BeginDownload));
        let change = "DELETE FROM item WHERE id = 1; UPDATE item SET n = n + 10 WHERE id = 2";
        scripts.push(("item", BeginDownload, change.to_owned()));
        deploy(&mut center, MODEL, &scripts);
        let download = synchronize(&mut center, &mut remote);
        assert_eq!(download.upserts, sent("item", &[vec![int(2), int(12)]]));
        assert_eq!(download.deletes, sent("item", &[vec![int(1)]]));
    });
}

const POOL: &str = "[table.pool]\n[table.served]\n";

/// A pool of keys that is filled before each download, and rows that are gone when they were sent.
fn pool(more: &[Own]) -> Vec<Own> {
    let owned = |table| format!("SELECT id, owner FROM {table} WHERE owner = {{s.username}}");
    let mut scripts = vec![
        ("pool", BeginDownload, "INSERT INTO pool (owner) VALUES ({s.username})".to_owned()),
        ("served", EndDownload, "DELETE FROM served WHERE owner = {s.username}".to_owned()),
    ];
    for table in ["pool", "served"] {
        scripts.push((table, DownloadCursor, owned(table)));
        scripts.push((table, DownloadDeleteCursor, "--{ignore}".to_owned()));
    }
    scripts.extend_from_slice(more);
    scripts
}

fn left(center: &Center) -> String {
    center.list("SELECT 'pool ' || id AS v FROM pool UNION ALL SELECT 'served ' || id FROM served")
}

#[test]
fn a_download_carries_the_keys_that_it_has_drawn() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, POOL, &pool(&[]));
        center.foreign("INSERT INTO served VALUES (7, 'ann'), (8, 'ben')");
        let first = synchronize(&mut center, &mut remote);
        let mine = |id| vec![int(id), text("ann")];
        assert_eq!(first.upserts, [sent("pool", &[mine(1)]), sent("served", &[mine(7)])].concat());
        assert_eq!(left(&center), "pool 1,served 8");
        let second = synchronize(&mut center, &mut remote);
        assert_eq!(second.upserts, sent("pool", &[mine(1), mine(2)]));
        assert!(second.deletes.is_empty());
    });
}

// S2: the remote has not received it, so nothing of it may have happened.
#[test]
fn a_download_that_fails_has_written_nothing() {
    Backend::each(|backend| {
        let twice = "INSERT INTO once VALUES (1);\nINSERT INTO once VALUES (1)";
        let fails = backend.pick(
            "SELECT id, json('x' || id) FROM served",
            "SELECT id, (1 / (id - id))::text FROM served",
        );
        for (of, event, script) in [
            ("", EndDownload, twice),
            ("pool", EndDownload, twice),
            ("served", EndDownloadRows, twice),
            ("served", DownloadStatistics, twice),
            ("served", DownloadCursor, fails),
        ] {
            let (mut center, mut remote) = center(backend, POOL, &pool(&[]));
            center.foreign("INSERT INTO served VALUES (7, 'ann')");
            let mut failing = pool(&[]);
            failing.retain(|(table, other, _)| (*table, *other) != (of, event));
            failing.push((of, event, script.to_owned()));
            deploy(&mut center, POOL, &failing);
            let applied = center.upload(&mut remote, &[]).unwrap();
            let failure = center.try_download(&mut remote, &applied).unwrap_err();
            assert_eq!(failure.code(), Code::ScriptFailed, "{event}");
            if event != DownloadCursor {
                let folder = if of.is_empty() { String::new() } else { format!("{of}/") };
                let place = format!("scripts/v1/{folder}{event}.sql:2:1: ");
                assert!(failure.message().contains(&place), "{}", failure.message());
            }
            assert_eq!(left(&center), "served 7", "{event}");
            assert_eq!(center.value("SELECT count(*) AS v FROM once"), int(0));
            deploy(&mut center, POOL, &pool(&[]));
            let download = synchronize(&mut center, &mut remote);
            let served = sent("served", &[vec![int(7), text("ann")]]);
            assert!(download.upserts.ends_with(&served), "{event}: {:?}", download.upserts);
            assert_eq!(download.upserts.len(), 2);
        }
    });
}

#[test]
fn a_download_of_another_version_does_not_wait_for_scripts() {
    Backend::each(|backend| {
        let (mut center, remote) = center(backend, MODEL, &[]);
        center.foreign("INSERT INTO item VALUES (1, 1)");
        let model = |version| {
            SyncModel::parse(&format!("script_version = \"{version}\"\n{MODEL}"), "m").unwrap()
        };
        let mut scripted = model("v1");
        for (table, event, text) in everywhere() {
            let name = format!("scripts/v1/{table}/{event}.sql");
            let file = ScriptFile { name, text, for_all: false };
            scripted.own_scripts.insert((table.to_owned(), event), file);
        }
        administer(&center.url).unwrap().deploy(&[scripted, model("v2")], false).unwrap();
        center.reconnect();
        let mut remote = remote;
        let applied = center.upload(&mut remote, &[]).unwrap();
        let session = center.session(&remote);
        let (user, id) = (UserName::new("ann").unwrap(), model::RemoteId::new("other").unwrap());
        let version = ScriptVersion::new("v2").unwrap();
        let claims = Default::default();
        let other = center.reader.session(&user, claims, &id, Some(&version), &[]).unwrap();
        assert_eq!((session.fetched_by_writer, other.fetched_by_writer), (true, false));
        let request = |session| fetch_request(session, &applied, &[], (1 << 20, 100));
        let Center { writer, reader, .. } = &mut center;
        let mut rows = 0;
        let mut count = |batch: &DownloadBatch| {
            rows += u64::from(matches!(batch, DownloadBatch::Upserts { .. }));
        };
        writer
            .fetch(&request(&session), &mut |batch| {
                count(&batch);
                if let DownloadBatch::Begin { .. } = batch {
                    // Scripts have written by now, and are not committed.
                    reader.fetch(&request(&other), &mut |batch| {
                        count(&batch);
                        Ok(())
                    })?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, 2);
        assert_eq!(ran(&center).len(), 17);
    });
}

#[test]
fn scripts_are_told_how_much_is_sent() {
    Backend::each(|backend| {
        let told = "{s.fetched_rows} || ' ' || {s.deleted_rows} || ' ' || {s.filtered_rows}
            || ' ' || {s.warnings} || ' ' || {s.errors} || ' ' || ({s.bytes} > 0)";
        let scripts = ["item", "line", ""]
            .map(|of| (of, DownloadStatistics, noting(DownloadStatistics, told)));
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        center.foreign("INSERT INTO item VALUES (1, 1), (2, 2); INSERT INTO line VALUES (1, 1)");
        synchronize(&mut center, &mut remote);
        let yes = backend.pick("1", "true");
        let no = backend.pick("0", "false");
        let heard = |of: &str, bytes| format!("download_statistics {of} 0 0 {bytes}");
        assert_eq!(ran(&center), [heard("2 0 0", yes), heard("1 0 0", yes), heard("3 0 0", yes)]);
        center.foreign("DELETE FROM item WHERE id = 1; UPDATE line SET n = 2");
        let mine = Upload::Insert("item", vec![int(3), int(3)]);
        center.synchronize(&mut remote, &[mine]);
        assert_eq!(ran(&center), [heard("0 1 1", yes), heard("1 0 0", yes), heard("1 1 1", yes)]);
        synchronize(&mut center, &mut remote);
        assert_eq!(ran(&center), [heard("0 0 0", no), heard("0 0 0", no), heard("0 0 0", no)]);
    });
}

#[test]
fn what_a_script_sets_is_known_to_cursors_and_to_all_that_follow() {
    Backend::each(|backend| {
        let scripts = [
            ("", BeginSynchronization, "SELECT 1 AS u_a, 1 AS u_b".to_owned()),
            ("", BeginDownload, "SELECT {u.a} || '2' AS u_a".to_owned()),
            ("line", BeginDownloadRows, "SELECT 5 AS u_b".to_owned()),
            ("item", DownloadCursor, "SELECT 1, CAST({u.a} AS INTEGER)".to_owned()),
            ("line", DownloadCursor, "SELECT 1, CAST({u.a} || {u.b} AS INTEGER)".to_owned()),
            ("", EndDownload, noting(EndDownload, "{u.a} || {u.b}")),
            ("", EndSynchronization, noting(EndSynchronization, "{u.a} || {u.b}")),
        ];
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        let applied = center.upload(&mut remote, &[]).unwrap();
        let session = applied.session(&center.session(&remote).into());
        let mut rows = Vec::new();
        let request = fetch_request(&session, &applied, &[], (1 << 20, 100));
        let fetched = center.writer.fetch(&request, &mut |batch| {
            if let DownloadBatch::Upserts { rows: bytes, .. } = batch {
                let mut reader = model::RowReader::new(&bytes);
                reader.value()?;
                rows.push(reader.value()?.to_owned());
            }
            Ok(())
        });
        let session = fetched.unwrap().session(&session);
        assert_eq!(rows, [int(12), int(125)]);
        center.writer.begin().unwrap();
        center.writer.end(&Ending { session: &session, ok: true }).unwrap();
        center.writer.commit().unwrap();
        assert_eq!(ran(&center), ["end_download 125", "end_synchronization 125"]);
    });
}

// Also where no cursor asks for them.
#[test]
fn scripts_are_told_since_when_the_remote_lacks_what_was_stamped() {
    Backend::each(|backend| {
        if backend == Backend::Postgres {
            crate::download::own_times_postgres::grant();
        }
        let year = |of| match backend {
            Backend::Sqlite => format!("substr({of}, 1, 4)"),
            Backend::Postgres => format!("extract(year FROM {of})::text"),
        };
        let (all, one) = (year("{s.last_download}"), year("{s.last_table_download}"));
        let told = noting(EndDownload, &format!("{one} || ' ' || {all}"));
        let scripts =
            [("", BeginDownload, noting(BeginDownload, &all)), ("item", EndDownload, told)];
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        synchronize(&mut center, &mut remote);
        assert_eq!(ran(&center), ["begin_download 1900", "end_download 1900 1900"]);
        synchronize(&mut center, &mut remote);
        let second = ran(&center);
        assert!(second.iter().all(|it| !it.contains("1900")), "{second:?}");
        assert_eq!(second.len(), 2);
    });
}

// DT1: what is only uploaded is sent nothing, and so has no time.
#[test]
fn the_oldest_time_is_that_of_what_is_downloaded() {
    Backend::each(|backend| {
        let late = backend.pick("'1950'", "timestamptz '1950-01-01'");
        let told = format!("CASE WHEN {{s.last_download}} > {late} THEN 'late' ELSE 'never' END");
        let events = [PrepareForDownload, BeginDownload, EndDownload];
        let scripts = events.map(|event| ("", event, noting(event, &told)));
        let model = "[table.item]\n[table.line]\ndirection = \"upload_only\"\n";
        let (mut center, mut remote) = center(backend, model, &scripts);
        for when in ["never", "late", "late"] {
            synchronize(&mut center, &mut remote);
            assert_eq!(ran(&center), events.map(|event| format!("{event} {when}")));
        }
    });
}
