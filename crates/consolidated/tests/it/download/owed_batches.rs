//! What a remote is owed, as it comes; on every database.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};

fn row(a: &str, id: i64) -> Row {
    vec![text(a), int(id)]
}

/// Five rows that the remote has seen.
fn five_rows(backend: Backend) -> (Center, Remote) {
    let mut center = Center::on(
        backend,
        "CREATE TABLE t (a TEXT, id INTEGER PRIMARY KEY);
         INSERT INTO t VALUES ('a', 1), ('a', 2), ('a', 3), ('a', 4), ('a', 5);",
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

/// Changes of all five that lose.
fn losers() -> Vec<Upload> {
    (1..=5).map(|id| Upload::Update("t", row("a", id), row("mine", id))).collect()
}

const THEIRS: &str = "UPDATE t SET a = 'theirs' WHERE id < 4; DELETE FROM t WHERE id > 3";

/// Each row came once, as it is at the center, and rows came together.
fn assert_told(download: &Download, what: &str) {
    let mut upserts = download.upserts.clone();
    upserts.sort_by_key(|(_, row)| format!("{:?}", row[1]));
    let rows = (1..=3).map(|id| ("t".to_owned(), row("theirs", id)));
    assert_eq!(upserts, rows.collect::<Vec<_>>(), "{what}");
    let mut deletes = download.deletes.clone();
    deletes.sort_by_key(|(_, key)| format!("{key:?}"));
    let keys = (4..=5).map(|id| ("t".to_owned(), vec![int(id)]));
    assert_eq!(deletes, keys.collect::<Vec<_>>(), "{what}");
    assert_eq!(download.batches, 2, "{what}: rows, and keys of those that are gone");
}

// Trap 5: what the cursor returns is not looked up and sent a second time.
#[test]
fn rows_that_lost_come_once_and_together() {
    Backend::each(|backend| {
        let (mut center, mut remote) = five_rows(backend);
        center.foreign(THEIRS);
        let (applied, download) = center.synchronize(&mut remote, &losers());
        assert_eq!(applied.conflicts, 5, "{backend:?}");
        assert_told(&download, &format!("{backend:?}"));
    });
}

// Trap 5: the watermark is newer than what they lost against, so no cursor returns them.
#[test]
fn rows_that_no_cursor_returns_come_together() {
    Backend::each(|backend| {
        let (mut center, mut remote) = five_rows(backend);
        center.foreign(THEIRS);
        center.synchronize(&mut remote, &[]);
        let applied = center.upload(&mut remote, &losers()).unwrap();
        assert_eq!(applied.conflicts, 5, "{backend:?}");
        // The first download is lost.
        let mut receiver = remote.clone();
        for attempt in ["first", "second"] {
            receiver = remote.clone();
            let download = center.download(&mut receiver, &applied);
            assert_told(&download, &format!("{backend:?}, {attempt}"));
        }
        let (_, download) = center.synchronize(&mut receiver, &[]);
        assert_eq!(download.batches, 0, "{backend:?}: what it was owed is settled");
    });
}

// S9, Trap 5: what is owed is asked about in parts where its keys are more than fit in memory.
#[test]
fn more_keys_than_are_asked_about_at_once_all_come() {
    Backend::each(|backend| {
        const ROWS: i64 = 900;
        let begin = "k".repeat(900);
        let key = |n: i64| text(&format!("{begin}{n:03}"));
        let schema = format!(
            "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER);
             INSERT INTO t WITH RECURSIVE number(n) AS (
                 SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < {ROWS})
             SELECT '{begin}' || substr(CAST(1000 + n AS TEXT), 2), n FROM number;"
        );
        let mut center = Center::on(backend, &schema, "[table.t]\n");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("DELETE FROM t WHERE n % 3 = 0; UPDATE t SET n = -n");
        center.synchronize(&mut remote, &[]);
        let losers = (0..ROWS).map(|n| {
            let (old, new) = (vec![key(n), int(n)], vec![key(n), int(5000)]);
            Upload::Update("t", old, new)
        });
        let losers: Vec<Upload> = losers.collect();
        let (applied, download) = center.synchronize(&mut remote, &losers);
        assert_eq!(applied.conflicts, ROWS as u64, "{backend:?}");
        let mut upserts: Vec<Row> = download.upserts.into_iter().map(|(_, row)| row).collect();
        upserts.sort_by_key(|row| format!("{:?}", row[0]));
        let there = (0..ROWS).filter(|n| n % 3 != 0).map(|n| vec![key(n), int(-n)]);
        assert!(upserts == there.collect::<Vec<Row>>(), "{backend:?}: {}", upserts.len());
        let mut deletes: Vec<Row> = download.deletes.into_iter().map(|(_, key)| key).collect();
        deletes.sort_by_key(|key| format!("{key:?}"));
        let gone = (0..ROWS).filter(|n| n % 3 == 0).map(|n| vec![key(n)]);
        assert!(deletes == gone.collect::<Vec<Row>>(), "{backend:?}: {}", deletes.len());
    });
}
