//! Downloads that the connection that writes fetches.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, marks, text};
use model::{Code, Failure};
use syncline_consolidated::Event::DownloadCursor;
use syncline_consolidated::{Applied, DownloadBatch, FetchRequest};

const SCHEMA: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT, words TEXT);
    CREATE TABLE line (id INTEGER PRIMARY KEY, note INTEGER REFERENCES note, words TEXT);
    CREATE TABLE served (n INTEGER);
    INSERT INTO served VALUES (0);
    INSERT INTO note VALUES (1, 'ann', 'a'), (2, 'ann', 'b'), (3, 'ben', 'c');
    INSERT INTO line VALUES (1, 1, 'x'), (2, 3, 'y');";

const MODEL: &str = "[table.note]
partition = \"owner = {u.owner}\"
[table.line]
parent = \"note\"
";

fn note(id: i64, owner: &str, words: &str) -> Row {
    vec![int(id), text(owner), text(words)]
}

fn of_ann() -> Remote {
    let mut remote = Remote::another();
    remote.claims.insert("owner".into(), "ann".into());
    remote
}

/// How the tables come, and what; sorted.
fn came(download: Download) -> String {
    let Download { modes, mut upserts, mut deletes, filtered, .. } = download;
    upserts.sort_by_key(|row| format!("{row:?}"));
    deletes.sort_by_key(|row| format!("{row:?}"));
    format!("{modes:?} {upserts:?} {deletes:?} {filtered}")
}

// S2, S3, Trap 5: also what a remote is owed.
#[test]
fn the_writer_fetches_what_a_reader_fetches() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, MODEL);
        let mut remotes = [of_ann(), of_ann()];
        let steps: [(&str, &[Upload]); 4] = [
            ("INSERT INTO note VALUES (4, 'ann', 'd')", &[]),
            ("UPDATE note SET owner = 'ben' WHERE id = 2; DELETE FROM line WHERE id = 1", &[]),
            // What they upload has a conflict, for it has changed meanwhile.
            (
                "UPDATE note SET words = 'center' WHERE id = 1",
                &[Upload::Update("note", note(1, "ann", "a"), note(1, "ann", "remote"))],
            ),
            ("UPDATE note SET owner = 'ann'", &[]),
        ];
        for (sql, rows) in steps.iter().flat_map(|(sql, rows)| [("", *rows), (*sql, *rows)]) {
            let rows = if sql.is_empty() { &[] } else { rows };
            if !sql.is_empty() {
                center.foreign(sql);
            }
            let [read, written] = [0, 1].map(|who| {
                center.by_writer = who == 1;
                came(center.synchronize(&mut remotes[who], rows).1)
            });
            assert_eq!(written, read, "{sql}");
        }
        // Its connection is none the worse for it.
        let new = Upload::Insert("note", note(9, "ann", "new"));
        center.synchronize(&mut remotes[1], &[new]);
        assert_eq!(center.value("SELECT count(*) FROM note WHERE id = 9"), int(1));
    });
}

#[test]
fn a_fetch_of_nothing_ends() {
    Backend::each(|backend| {
        let model = "[table.note]\ndirection = \"upload_only\"\n";
        let mut center = Center::on(backend, SCHEMA, model);
        center.by_writer = true;
        let mut remote = Remote::another();
        for _ in 0..2 {
            let (_, download) = center.synchronize(&mut remote, &[]);
            assert_eq!(came(download), "[None] [] [] 0");
        }
    });
}

// S2: nor does the transaction stay open.
#[test]
fn a_fetch_that_fails_leaves_the_writer_as_it_was() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, MODEL);
        center.by_writer = true;
        let mut remote = of_ann();
        let applied = center.upload(&mut remote, &[]).unwrap();
        let refuse = |_| Err(Failure::new(Code::DatabaseDiskFull, "the spill is full"));
        let failure = fetch(&mut center, &remote, &applied, &mut { refuse }).unwrap_err();
        assert_eq!(failure.code(), Code::DatabaseDiskFull);
        center.foreign("UPDATE note SET words = 'z' WHERE id = 1");
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert!(download.upserts.contains(&("note".to_owned(), note(1, "ann", "z"))));
    });
}

fn fetch(
    center: &mut Center,
    remote: &Remote,
    applied: &Applied,
    sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let session = center.session(remote);
    let request = FetchRequest {
        is_counted: false,
        session: &session,
        counter: applied.counter,
        marks: &marks(&session, remote),
        held_marks: &[],
        echo: &applied.echo,
        time_us: None,
        wanted: &[],
        batch_bytes: 1 << 20,
        batch_rows: 100,
        row_bytes_max: u64::MAX,
        resuming: Default::default(),
    };
    center.fetch(&request, sink).map(drop)
}

/// Returns every row, and counts that.
const SERVE: &str = "CREATE FUNCTION serve() RETURNS integer LANGUAGE sql
    AS 'UPDATE served SET n = n + 1 RETURNING n';";

fn serving() -> Center {
    let mut center = Center::on(Backend::Postgres, &format!("{SCHEMA}{SERVE}"), "[table.note]\n");
    let cursor = "SELECT id, owner, words FROM note WHERE id = 1 AND serve() > 0";
    center.deploy_own("[table.note]\n", &[("note", DownloadCursor, cursor)]).unwrap();
    center
}

fn served(center: &Center) -> model::Value {
    center.value("SELECT n FROM served")
}

// S2: where the rows found no place, the database had been told to commit behind them.
#[test]
fn what_is_written_during_a_fetch_stays_if_it_succeeds() {
    let mut center = serving();
    let mut remote = Remote::another();
    let applied = center.upload(&mut remote, &[]).unwrap();
    let failure = center.try_download(&mut remote, &applied).unwrap_err();
    assert_eq!(failure.code(), Code::NotPrimary, "a reader must not write");
    center.by_writer = true;
    let full = |batch| match batch {
        DownloadBatch::Upserts { .. } => {
            Err(Failure::new(Code::DatabaseDiskFull, "the spill is full"))
        }
        _ => Ok(()),
    };
    fetch(&mut center, &remote, &applied, &mut { full }).unwrap_err();
    assert_eq!(served(&center), int(0));
    center.try_download(&mut remote, &applied).unwrap();
    assert_eq!(served(&center), int(1));
}

#[test]
fn a_fetch_that_meets_another_transaction_begins_again() {
    let mut center = serving();
    center.by_writer = true;
    let mut remote = Remote::another();
    let applied = center.upload(&mut remote, &[]).unwrap();
    let url = center.url.to_string();
    let (mut begun, mut rows) = (0, 0);
    let mut sink = |batch| {
        match batch {
            DownloadBatch::Begin { .. } => {
                (begun, rows) = (begun + 1, 0);
                if begun < 3 {
                    // The snapshot is taken, and no row is read yet.
                    crate::support::center::psql(&url, "UPDATE served SET n = n + 10");
                }
            }
            DownloadBatch::Upserts { count, .. } => rows += count,
            _ => {}
        }
        Ok(())
    };
    fetch(&mut center, &remote, &applied, &mut sink).unwrap();
    assert_eq!((begun, rows), (3, 1));
    assert_eq!(served(&center), int(21));
}

// A cursor is planned the same way, whoever runs it, and uploads are planned as before.
#[test]
fn a_fetch_has_the_settings_of_a_reader_and_leaves_none_behind() {
    let mut center = Center::on(Backend::Postgres, SCHEMA, "[table.note]\n");
    let names = [
        "plan_cache_mode",
        "enable_seqscan",
        "enable_indexscan",
        "jit",
        "max_parallel_workers_per_gather",
        "transaction_isolation",
    ];
    let all: Vec<String> = names.map(|name| format!("current_setting('{name}')")).into();
    let all = all.join(" || ' ' || ");
    let cursor = format!("SELECT 1, 'ann'::text, {all}");
    let upload = format!("INSERT INTO note VALUES ({{r.id}}, {{r.owner}}, {all})");
    let scripts = [
        ("note", DownloadCursor, cursor.as_str()),
        ("note", syncline_consolidated::Event::UploadInsert, upload.as_str()),
    ];
    center.deploy_own("[table.note]\n", &scripts).unwrap();
    let [read, written] = [false, true].map(|by_writer| {
        center.by_writer = by_writer;
        let mut remote = Remote::another();
        let key = 10 + i64::from(by_writer);
        let download = center.synchronize(&mut remote, &[]).1;
        center.upload(&mut remote, &[Upload::Insert("note", note(key, "ann", ""))]).unwrap();
        let uploads = center.value(&format!("SELECT words FROM note WHERE id = {key}"));
        (came(download), uploads)
    });
    assert_eq!(written, read);
}
