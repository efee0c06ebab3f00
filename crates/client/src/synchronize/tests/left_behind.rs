//! Rows that no frame takes, and everything beside them.

use super::{assert_nothing_doubled, center, commits, joined, noting, rows, sync};
use crate::synchronize::{Counts, Report};
use crate::testing::Site;
use crate::testing::center::{Center, published};
use harness::Side;
use model::Code;
use protocol::Compression;

/// The smallest limit that a server can have.
const FRAME_BYTES: usize = 64 << 10;

/// The largest row below it.
const ROW_BYTES: u64 = FRAME_BYTES as u64 - 64;

const LIBRARY: &str = "CREATE TABLE doc(id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE page(id INTEGER PRIMARY KEY, doc INTEGER NOT NULL REFERENCES doc);
    CREATE TABLE word(id INTEGER PRIMARY KEY, page INTEGER REFERENCES page,
        before INTEGER REFERENCES word);
    INSERT INTO doc VALUES (1, 'one'); INSERT INTO page VALUES (10, 1)";

fn library() -> (Center, Site) {
    let center = Center::new(LIBRARY);
    center.limit_frames(FRAME_BYTES);
    let site = joined(&center);
    (center, site)
}

/// SQL for a text that is too large.
fn text(bytes: usize) -> String {
    format!("replace(hex(zeroblob({})), '00', 'xy')", bytes / 2)
}

fn content(rows: &dyn Fn(&str) -> Vec<String>) -> Vec<String> {
    let queries = [
        "SELECT id, length(v) FROM doc ORDER BY id",
        "SELECT id, doc FROM page ORDER BY id",
        "SELECT id, page, before FROM word ORDER BY id",
    ];
    queries.into_iter().flat_map(rows).collect()
}

fn assert_same(site: &Site, center: &Center) {
    assert_eq!(content(&|sql| site.rows(sql)), content(&|sql| center.rows(sql)));
    assert_eq!(site.remote.pending().unwrap(), []);
}

/// What stays behind, as table, key and bytes.
fn left(report: &Report) -> Vec<(&str, &str, u64)> {
    let rows = &report.left_behind.rows;
    assert!(rows.iter().all(|row| row.bytes_max == ROW_BYTES && row.bytes > ROW_BYTES));
    rows.iter().map(|row| (row.table.as_str(), row.key.as_str(), row.bytes)).collect()
}

fn inserts(inserts: u64) -> Counts {
    Counts { inserts, ..Counts::default() }
}

// S1, S11
#[test]
fn a_row_above_the_limit_stays_with_what_refers_to_it_and_the_rest_crosses() {
    let (center, mut site) = library();
    site.write(&format!(
        "INSERT INTO doc VALUES (2, {}), (3, 'three');
         INSERT INTO page VALUES (20, 2), (30, 3), (40, 1);
         UPDATE page SET doc = 2 WHERE id = 10;
         INSERT INTO word VALUES (200, 20, NULL), (300, 30, NULL), (301, NULL, 200),
            (302, NULL, 301), (303, 40, 300);",
        text(70_000)
    ));
    center.write("INSERT INTO doc VALUES (9, 'nine')");
    let pending = ["doc id = 2", "page id = 10", "page id = 20", "word id = 200", "word id = 301"];
    let pending = [&pending[..], &["word id = 302"]].concat();
    for (round, uploaded) in [inserts(5), inserts(0), inserts(0)].into_iter().enumerate() {
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(left(&report), [("doc", "id = 2", 70_007)], "{round}");
        assert_eq!((report.left_behind.unnamed, report.left_behind.others), (0, 5));
        assert_eq!((report.uploaded, report.rejected), (uploaded, 0));
        let told: Vec<String> = site
            .remote
            .pending()
            .unwrap()
            .into_iter()
            .map(|it| format!("{} {}", it.table, it.key))
            .collect();
        assert_eq!(told, pending);
        assert_eq!(site.remote.too_large().unwrap(), report.left_behind);
        assert!(!site.remote.status().unwrap().outcome_unknown);
        assert_eq!(center.rows("SELECT id FROM word ORDER BY id"), ["300", "303"]);
        assert_eq!(center.rows("SELECT doc FROM page WHERE id = 10"), ["1"]);
        assert_eq!(site.rows("SELECT v FROM doc WHERE id = 9"), ["'nine'"]);
    }
    assert_eq!(commits(&center).len(), 1, "nothing is uploaded where all stays");
    assert_eq!(site.remote.reset(false).unwrap_err().code(), Code::PendingChanges);
    // A later change makes it small.
    site.write("UPDATE doc SET v = 'two' WHERE id = 2");
    let report = sync(&mut site, &center).unwrap();
    assert!(report.left_behind.is_empty());
    assert_eq!(report.uploaded, Counts { inserts: 5, updates: 1, deletes: 0 });
    assert_same(&site, &center);
}

#[test]
fn a_row_that_is_deleted_lets_go_what_waited_with_it() {
    let (center, mut site) = library();
    site.write(&format!(
        "INSERT INTO doc VALUES (2, {}); INSERT INTO page VALUES (20, 2), (21, 2)",
        text(70_000)
    ));
    assert_eq!(sync(&mut site, &center).unwrap().left_behind.others, 2);
    site.write(
        "UPDATE page SET doc = 1 WHERE id = 20; DELETE FROM page WHERE id = 21;
         DELETE FROM doc WHERE id = 2",
    );
    let report = sync(&mut site, &center).unwrap();
    assert!(report.left_behind.is_empty());
    assert_eq!(report.uploaded, inserts(1));
    assert_same(&site, &center);
}

// An update has two images, and a delete the former one.
#[test]
fn both_images_count_and_a_raised_limit_takes_what_stayed() {
    let (center, mut site) = library();
    site.write(&format!("INSERT INTO doc VALUES (2, {}), (3, {0})", text(60_000)));
    assert_eq!(sync(&mut site, &center).unwrap().uploaded, inserts(2));
    site.write(&format!(
        "UPDATE doc SET v = v || 'x' WHERE id = 2; UPDATE doc SET v = {} WHERE id = 3;
         INSERT INTO page VALUES (20, 2)",
        text(4_000)
    ));
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(left(&report), [("doc", "id = 2", 120_011)]);
    let sent = Counts { inserts: 1, updates: 1, deletes: 0 };
    assert_eq!(report.uploaded, sent, "the center has what a changed row is referred to by");
    site.write("DELETE FROM page WHERE id = 20; DELETE FROM doc WHERE id = 2");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, Counts { deletes: 2, ..Counts::default() });
    assert_same(&site, &center);

    center.limit_frames(1 << 20);
    site.write(&format!("INSERT INTO doc VALUES (4, {})", text(70_000)));
    sync(&mut site, &center).unwrap();
    assert_same(&site, &center);
    center.limit_frames(FRAME_BYTES);
    sync(&mut site, &center).unwrap();
    site.write("DELETE FROM doc WHERE id = 4; INSERT INTO doc VALUES (5, 'five')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(left(&report), [("doc", "id = 4", 70_007)]);
    assert_eq!(report.uploaded, inserts(1));
    assert_eq!(site.rows("SELECT id FROM doc WHERE id = 4"), [""; 0], "it stays deleted");
    center.limit_frames(1 << 20);
    assert_eq!(left(&sync(&mut site, &center).unwrap()), []);
    assert_same(&site, &center);
}

// The frame of a row needs some bytes beside it.
#[test]
fn the_limit_is_exact_and_leaves_room_for_the_frame() {
    let (center, mut site) = library();
    // Two bytes for the key, and three before a text of such a length.
    let fits = ROW_BYTES as usize - 5;
    for (id, bytes) in [(2, fits), (3, fits + 1), (4, FRAME_BYTES - 1)] {
        site.write(&format!(
            "INSERT INTO doc VALUES ({id}, substr({}, 1, {bytes}))",
            text(1 << 17)
        ));
    }
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, inserts(1));
    let expected = [("doc", "id = 3", ROW_BYTES + 1), ("doc", "id = 4", FRAME_BYTES as u64 + 4)];
    assert_eq!(left(&report), expected);
}

// The default limit, of which the server says nothing.
#[test]
fn a_row_of_seventy_megabytes_stays_and_the_rest_crosses() {
    let center = center();
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (7, zeroblob(70000000)), (8, 'eight')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded, report.left_behind.rows[0].bytes), (inserts(1), 70_000_007));
    site.write("UPDATE t SET v = 'small' WHERE id = 7");
    sync(&mut site, &center).unwrap();
    super::assert_equal(&site, &center);
}

// S1: the row and its later changes survive whatever happens to the upload of the others.
#[test]
fn what_stays_is_neither_lost_nor_doubled_wherever_the_connection_ends() {
    for from in [Side::Client, Side::Server] {
        for bytes in (0..).map(|n| n * 97) {
            let center = noting();
            center.limit_frames(FRAME_BYTES);
            let mut site = joined(&center);
            site.write(&format!(
                "INSERT INTO t VALUES (2, 'two'), (3, {}); UPDATE t SET v = 'ONE' WHERE id = 1",
                text(70_000)
            ));
            center.write("INSERT INTO t VALUES (9, 'nine')");
            center.proxy.cut_after(from, bytes);
            let failed = sync(&mut site, &center).is_err();
            center.proxy.pass_all();
            let mut site = site.opened_again();
            site.write(
                "UPDATE t SET v = 'TWO' WHERE id = 2; UPDATE t SET v = v || 'x' WHERE id = 3",
            );
            let place = format!("{from:?} {bytes}");
            let report = sync(&mut site, &center).unwrap();
            assert_eq!(left(&report), [("t", "id = 3", 70_008)], "{place}");
            assert_eq!(center.rows("SELECT id FROM t ORDER BY id"), ["1", "2", "9"], "{place}");
            site.write("UPDATE t SET v = 'three' WHERE id = 3");
            sync(&mut site, &center).unwrap();
            super::assert_equal(&site, &center);
            let expected = ["1, 'ONE'", "2, 'TWO'", "3, 'three'", "9, 'nine'"];
            assert_eq!(rows(&site), expected, "{place}");
            assert_nothing_doubled(&center, &place);
            if !failed {
                break;
            }
        }
    }
}

// S4: what the center deletes stays here while a row that cannot leave refers to it, and everything
// else of the download arrives.
#[test]
fn a_download_meets_what_stays_as_any_pending_row() {
    let center = Center::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1);
         CREATE TABLE t(id INTEGER PRIMARY KEY, p INTEGER REFERENCES p, v TEXT);
         INSERT INTO t VALUES (5, 1, 'five')",
    );
    center.limit_frames(FRAME_BYTES);
    let mut site = joined(&center);
    let large = text(70_000);
    site.write(&format!("INSERT INTO t VALUES (2, 1, {large}); UPDATE t SET v = {large}"));
    center.write(
        "UPDATE t SET p = NULL; DELETE FROM p; UPDATE t SET v = 'theirs' WHERE id = 5;
         INSERT INTO t VALUES (9, NULL, 'nine')",
    );
    for _ in 0..2 {
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(left(&report).len(), 2);
        assert_eq!(
            site.rows("SELECT id, length(v) FROM t ORDER BY id"),
            ["2, 70000", "5, 70000", "9, 4"]
        );
        assert_eq!(site.rows("SELECT id FROM p"), ["1"]);
    }
    site.write("UPDATE t SET v = 'mine', p = NULL WHERE id < 9");
    sync(&mut site, &center).unwrap();
    sync(&mut site, &center).unwrap();
    super::assert_equal(&site, &center);
    assert_eq!(rows(&site), ["2, NULL, 'mine'", "5, NULL, 'mine'", "9, NULL, 'nine'"]);
    assert_eq!(site.rows("SELECT id FROM p"), [""; 0]);
}

// S1: new tables find it pending.
#[test]
fn a_change_of_the_schema_carries_what_stays() {
    let center = center();
    center.limit_frames(FRAME_BYTES);
    let mut site = joined(&center);
    site.write(&format!("INSERT INTO t VALUES (2, {}), (3, 'three')", text(70_000)));
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (4, 'four')");
    center.deploy("ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 7", &published("t"));
    for _ in 0..2 {
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(report.left_behind.rows.len(), 1);
        assert_eq!(center.rows("SELECT id FROM t ORDER BY id"), ["1", "3", "4"]);
    }
    site.write("UPDATE t SET v = 'two' WHERE id = 2");
    sync(&mut site, &center).unwrap();
    super::assert_equal(&site, &center);
}

// The limit became lower, and what is compressed fits with Hello nevertheless.
#[test]
fn a_lowered_limit_is_learned_from_a_server_that_refuses_the_frame() {
    let center = center();
    let mut site = joined(&center);
    site.remote.compress(&[Compression::Zstd]);
    site.write("INSERT INTO t VALUES (2, 'two')");
    sync(&mut site, &center).unwrap();
    center.limit_frames(FRAME_BYTES);
    site.write(&format!("INSERT INTO t VALUES (3, {}), (4, 'four')", text(70_000)));
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(left(&report), [("t", "id = 3", 70_007)]);
    assert_eq!(center.rows("SELECT id FROM t ORDER BY id"), ["1", "2", "4"]);
}
