//! Whole synchronizations with a small centre in memory.

mod download_only;
mod names;
mod postponed;
mod random_shapes;
mod returned;
mod shapes;

use super::{Counts, Downloaded, Report, Request, Step};
use crate::testing::centre::{Centre, Fault, SharedCentre, connect};
use crate::testing::{Site, int, text};
use crate::{Components, Remote};
use model::{Code, Direction, Failure, PublishedTable};
use protocol::{Credential, Mode, Outcome};
use rusqlite::StatementStatus;

const FAULTS: [Fault; 5] = [
    Fault::BeforeCommit,
    Fault::AfterCommit,
    Fault::AfterAcknowledgement,
    Fault::WithinDownload,
    Fault::Miscount,
];

fn purchase() -> PublishedTable {
    PublishedTable {
        name: "t".into(),
        columns: vec!["id".into(), "v".into()],
        key: vec![0],
        direction: Direction::Both,
        create: vec!["CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)".into()],
        fingerprint: "t 1".into(),
    }
}

pub(super) fn centre() -> SharedCentre {
    let centre = Centre::new(&[purchase()]);
    centre.borrow_mut().put(0, &[int(1), text("one")]);
    centre
}

fn request(mode: Mode) -> Request {
    let credential = Credential::Password("secret".into());
    Request { mode, credential, client: "test".into() }
}

pub(super) fn sync_as(
    remote: &mut Remote,
    centre: &SharedCentre,
    mode: Mode,
    observer: &mut dyn FnMut(Step),
) -> Result<Report, Failure> {
    remote.synchronize(&request(mode), &mut || Ok(connect(centre)), observer)
}

pub(super) fn sync(site: &mut Site, centre: &SharedCentre) -> Result<Report, Failure> {
    sync_as(&mut site.remote, centre, Mode::Full, &mut |_| {})
}

pub(super) fn rows(site: &Site) -> Vec<String> {
    site.rows("SELECT * FROM t ORDER BY id")
}

/// S3: both ends hold the same.
pub(super) fn assert_equal(site: &Site, centre: &SharedCentre) {
    let (mut here, mut there) = (rows(site), centre.borrow().lines(0));
    here.sort();
    there.sort();
    assert!(here == there, "the remote has {} rows, the centre {}", here.len(), there.len());
    assert_eq!(site.remote.pending().unwrap(), []);
}

/// A remote that has synchronized once.
pub(super) fn joined(centre: &SharedCentre) -> Site {
    let mut site = Site::empty();
    sync(&mut site, centre).unwrap();
    site
}

// S3
#[test]
fn an_empty_file_becomes_a_remote_with_tables_and_rows() {
    let centre = centre();
    let mut site = Site::empty();
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(rows(&site), ["1, 'one'"]);
    assert_eq!(report.downloaded, Downloaded { upserts: 1, deletes: 0 });
    assert_eq!(report.token.as_deref(), Some("a token"));
    assert!(!report.took_new_identity);
    let status = site.remote.status().unwrap();
    assert_eq!((status.counter.0, status.outcome_unknown, status.rejects), (1, false, 0));
    assert_eq!(status.tables[0].name, "t");
    assert!(status.tables[0].received);
    assert_eq!(status.remote_id, Some(report.remote_id));
}

// S3
#[test]
fn changes_travel_both_ways() {
    let centre = centre();
    let (mut a, mut b) = (joined(&centre), joined(&centre));
    a.write("INSERT INTO t VALUES (2, 'two'), (3, 'three')");
    let report = sync(&mut a, &centre).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 2, updates: 0, deletes: 0 });
    assert_eq!(report.downloaded, Downloaded::default(), "nothing echoes");
    b.write("UPDATE t SET v = 'ONE' WHERE id = 1");
    let report = sync(&mut b, &centre).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 0, updates: 1, deletes: 0 });
    assert_eq!(report.downloaded, Downloaded { upserts: 2, deletes: 0 });
    a.write("DELETE FROM t WHERE id = 3");
    sync(&mut a, &centre).unwrap();
    let report = sync(&mut b, &centre).unwrap();
    assert_eq!(report.downloaded, Downloaded { upserts: 0, deletes: 1 });
    centre.borrow_mut().remove(0, 2);
    sync(&mut a, &centre).unwrap();
    sync(&mut b, &centre).unwrap();
    for site in [&a, &b] {
        assert_equal(site, &centre);
        assert_eq!(rows(site), ["1, 'ONE'"]);
    }
}

#[test]
fn a_small_synchronization_is_one_write() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two')");
    centre.borrow_mut().writes.clear();
    sync(&mut site, &centre).unwrap();
    assert_eq!(centre.borrow().writes.len(), 1);
    assert!(centre.borrow().hellos[1].upload_follows);
    // With nothing to upload as well; then no upload is committed either.
    let commits = centre.borrow().commits.len();
    sync(&mut site, &centre).unwrap();
    assert_eq!(centre.borrow().writes.len(), 2);
    assert_eq!(centre.borrow().commits.len(), commits);
}

// Preparing a statement costs as much as running it for several rows, and a synchronization of one
// row has dozens.
#[test]
fn a_synchronization_prepares_no_statement_anew() {
    let statements = [
        "SELECT name, value FROM syncline_state
             UNION ALL SELECT 'open_generation', current FROM syncline_generation",
        "UPDATE syncline_table SET watermark = ?2 WHERE position = ?1",
    ];
    let prepared_anew = |site: &Site| {
        let of = |sql| site.remote.connection.prepare_cached(sql).unwrap();
        statements.map(|sql| of(sql).get_status(StatementStatus::RePrepare))
    };
    let (centre, runs) = (centre(), 3);
    let mut site = joined(&centre);
    sync(&mut site, &centre).unwrap();
    let before = prepared_anew(&site);
    for n in 0..runs {
        site.write(&format!("INSERT INTO t VALUES ({}, 'here')", 10 + n));
        centre.borrow_mut().put(0, &[int(1), text(&format!("there {n}"))]);
        let report = sync(&mut site, &centre).unwrap();
        assert_eq!((report.uploaded.inserts, report.downloaded.upserts), (1, 1));
    }
    assert_eq!(prepared_anew(&site), before);
}

#[test]
fn a_large_upload_waits_for_welcome() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write(
        "WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO t SELECT i, hex(zeroblob(16)) FROM n",
    );
    let mut totals = Vec::new();
    let report = sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| {
        if let Step::Uploading { rows_done, rows_total } = step {
            totals.push((rows_done, rows_total));
        }
    })
    .unwrap();
    assert_eq!(report.uploaded.inserts, 29_999);
    assert!(!centre.borrow().hellos[1].upload_follows);
    assert_eq!(totals.last(), Some(&(29_999, 29_999)));
    assert!(totals.len() > 3, "progress is told while it is sent");
    assert_equal(&site, &centre);
}

// S1: the server dies at every place, while the application goes on writing; afterwards every
// change has arrived exactly once. Trap 6: the centre asserts that no number comes twice.
#[test]
fn nothing_is_lost_or_doubled_wherever_the_connection_ends() {
    for first in FAULTS {
        for second in FAULTS {
            let centre = centre();
            let mut site = joined(&centre);
            site.write(
                "INSERT INTO t VALUES (2, 'two'), (3, 'three');
                    UPDATE t SET v = 'ONE' WHERE id = 1",
            );
            centre.borrow_mut().fault = first;
            sync(&mut site, &centre).unwrap_err();
            site.write(
                "DELETE FROM t WHERE id = 2; UPDATE t SET v = 'III' WHERE id = 3;
                    INSERT INTO t VALUES (4, 'four')",
            );
            centre.borrow_mut().put(0, &[int(9), text("nine")]);
            centre.borrow_mut().fault = second;
            sync(&mut site, &centre).unwrap_err();
            site.write("DELETE FROM t WHERE id = 3");
            sync(&mut site, &centre).unwrap();
            assert_equal(&site, &centre);
            assert_eq!(rows(&site), ["1, 'ONE'", "4, 'four'", "9, 'nine'"], "{first:?} {second:?}");
        }
    }
}

// S1
#[test]
fn a_lost_acknowledgement_is_asked_for_and_the_upload_not_repeated() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two')");
    centre.borrow_mut().fault = Fault::AfterCommit;
    sync(&mut site, &centre).unwrap_err();
    assert!(site.remote.status().unwrap().outcome_unknown);
    assert_eq!(site.remote.pending().unwrap().len(), 1);
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded, Counts::default());
    assert_eq!(centre.borrow().hellos[2].outcome, Outcome::Unknown);
    assert_eq!(centre.borrow().commits.len(), 1);
    assert!(!site.remote.status().unwrap().outcome_unknown);
}

#[test]
fn a_received_acknowledgement_is_remembered_though_the_download_was_lost() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two')");
    centre.borrow_mut().fault = Fault::AfterAcknowledgement;
    assert_eq!(sync(&mut site, &centre).unwrap_err().code(), Code::ConnectionLost);
    assert!(!site.remote.status().unwrap().outcome_unknown);
    assert_eq!(site.remote.pending().unwrap(), []);
}

// S1
#[test]
fn an_unreachable_server_changes_nothing() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two')");
    let before = site.rows("SELECT * FROM syncline_state");
    let unreachable = &mut || Err(Failure::new(Code::Unreachable, "no network"));
    let failure = site.remote.synchronize(&request(Mode::Full), unreachable, &mut |_| {});
    assert_eq!(failure.unwrap_err().code(), Code::Unreachable);
    assert_eq!(site.rows("SELECT * FROM syncline_state"), before, "nothing was frozen");
}

#[test]
fn upload_only_leaves_the_download_for_later() {
    let centre = centre();
    let mut site = joined(&centre);
    centre.borrow_mut().put(0, &[int(9), text("nine")]);
    for v in ["two", "three"] {
        site.write(&format!("INSERT INTO t VALUES (length('{v}'), '{v}')"));
        let report = sync_as(&mut site.remote, &centre, Mode::UploadOnly, &mut |_| {}).unwrap();
        assert_eq!(report.uploaded.inserts, 1);
        assert_eq!(site.remote.pending().unwrap(), []);
        assert!(!site.remote.status().unwrap().outcome_unknown);
    }
    assert_eq!(rows(&site), ["1, 'one'", "3, 'two'", "5, 'three'"]);
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
}

#[test]
fn download_only_leaves_the_changes_pending() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two'); UPDATE t SET v = 'mine' WHERE id = 1");
    centre.borrow_mut().put(0, &[int(9), text("nine")]);
    centre.borrow_mut().put(0, &[int(1), text("theirs")]);
    let report = sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(report.downloaded.upserts, 2);
    assert_eq!(rows(&site), ["1, 'mine'", "2, 'two'", "9, 'nine'"]);
    assert_eq!(site.remote.pending().unwrap().len(), 2);
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
}

// Trap 6
#[test]
fn download_only_settles_an_unknown_outcome() {
    for (fault, pending) in [(Fault::BeforeCommit, 2), (Fault::AfterCommit, 1)] {
        let centre = centre();
        let mut site = joined(&centre);
        site.write("INSERT INTO t VALUES (2, 'two')");
        centre.borrow_mut().fault = fault;
        sync(&mut site, &centre).unwrap_err();
        site.write("INSERT INTO t VALUES (3, 'three')");
        sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
        assert!(!site.remote.status().unwrap().outcome_unknown);
        assert_eq!(site.remote.pending().unwrap().len(), pending);
        sync(&mut site, &centre).unwrap();
        assert_equal(&site, &centre);
    }
}

#[test]
fn ping_touches_no_table() {
    let centre = centre();
    let mut site = Site::empty();
    let report = sync_as(&mut site.remote, &centre, Mode::Ping, &mut |_| {}).unwrap();
    assert_eq!(report.token.as_deref(), Some("a token"));
    assert_eq!(site.remote.status().unwrap().tables, []);
}

// Trap 13
#[test]
fn a_copied_file_becomes_a_remote_of_its_own_and_keeps_its_changes() {
    let centre = centre();
    let mut original = joined(&centre);
    original.write("INSERT INTO t VALUES (2, 'two')");
    sync(&mut original, &centre).unwrap();
    original.write("INSERT INTO t VALUES (3, 'three')");
    let copy_path = original.path().with_file_name("copy.db");
    original.write(&format!("VACUUM INTO '{}'", copy_path.display()));
    sync(&mut original, &centre).unwrap();

    let components = Components::system(copy_path.parent().unwrap()).unwrap();
    let mut copy = Remote::open(&copy_path, components).unwrap();
    copy.connection.execute("UPDATE t SET v = 'III' WHERE id = 3", []).unwrap();
    let mut retried = Vec::new();
    let report = sync_as(&mut copy, &centre, Mode::Full, &mut |step| {
        if let Step::Retrying { failure } = step {
            retried.push(failure.code());
        }
    })
    .unwrap();
    assert_eq!(retried, [Code::CopiedRemote]);
    assert!(report.took_new_identity);
    assert_ne!(Some(report.remote_id), original.remote.settings().unwrap().remote_id);
    sync(&mut original, &centre).unwrap();
    assert_equal(&original, &centre);
    assert_eq!(rows(&original)[2], "3, 'III'");
    // From now on both synchronize undisturbed.
    sync_as(&mut copy, &centre, Mode::Full, &mut |_| {}).unwrap();
    assert!(!sync(&mut original, &centre).unwrap().took_new_identity);
}

// Trap 13
#[test]
fn a_lost_answer_is_no_copied_file() {
    let centre = centre();
    let mut site = joined(&centre);
    for fault in FAULTS.into_iter().chain(FAULTS) {
        centre.borrow_mut().fault = fault;
        sync(&mut site, &centre).unwrap_err();
    }
    assert!(!sync(&mut site, &centre).unwrap().took_new_identity);
}

// Trap 3
#[test]
fn a_restored_centre_is_met_with_its_own_numbers() {
    let centre = centre();
    let mut site = joined(&centre);
    let restore = centre.borrow().back_up();
    site.write("INSERT INTO t VALUES (2, 'two')");
    sync(&mut site, &centre).unwrap();
    restore(&mut centre.borrow_mut());
    site.write("INSERT INTO t VALUES (3, 'three')");
    sync(&mut site, &centre).unwrap();
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 'one'", "3, 'three'"]);
    let rejects = site.remote.rejects().unwrap();
    assert_eq!(rejects.len(), 1, "the row that the centre lost is kept here");
    assert_eq!(rejects[0].row.as_deref(), Some(r#"{"id":2,"v":"two"}"#));
}

/// Tables for which a delete of a parent takes children along.
fn family() -> Vec<PublishedTable> {
    let parent = PublishedTable {
        name: "p".into(),
        create: vec!["CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT)".into()],
        fingerprint: "p 1".into(),
        ..purchase()
    };
    let child = PublishedTable {
        columns: vec!["id".into(), "p".into()],
        create: vec![
            "CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE)".into(),
        ],
        ..purchase()
    };
    vec![parent, child]
}

// S1: a row that is added while the synchronization runs would be taken along by the cascade of a
// downloaded delete. It is uploaded by another round instead.
#[test]
fn a_change_made_meanwhile_in_the_way_of_the_download_is_uploaded_first() {
    let centre = Centre::new(&family());
    centre.borrow_mut().put(0, &[int(1), text("parent")]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    centre.borrow_mut().remove(0, 1);
    let (path, mut written, mut retried) = (site.path(), false, Vec::new());
    let report = sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| match step {
        Step::Waiting if !written => {
            written = true;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("INSERT INTO t VALUES (10, 1)", []).unwrap();
        }
        Step::Retrying { failure } => retried.push(failure.code()),
        _ => {}
    })
    .unwrap();
    assert_eq!(retried, [Code::ApplyBlocked]);
    assert_eq!(report.uploaded.inserts, 1);
    assert_eq!(centre.borrow().lines(1), ["10, 1"], "the row has arrived at the centre");
}

// S9
#[test]
fn changes_that_never_cease_end_the_synchronization_with_a_failure() {
    let centre = Centre::new(&family());
    centre.borrow_mut().put(0, &[int(1), text("parent")]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    centre.borrow_mut().remove(0, 1);
    let (path, mut attempts) = (site.path(), 0);
    let failure = sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| {
        if let Step::Waiting = step {
            attempts += 1;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("INSERT INTO t VALUES (?1, 1)", [attempts]).unwrap();
        }
    })
    .unwrap_err();
    assert_eq!(failure.code(), Code::ApplyBlocked);
    assert_eq!(attempts, i64::from(super::APPLY_ATTEMPTS_MAX));
    assert_eq!(site.rows("SELECT count(*) FROM t"), ["10"], "they are all kept");
}

// Trap 6
#[test]
fn what_the_application_writes_meanwhile_is_uploaded_by_the_next_synchronization() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("UPDATE t SET v = 'first' WHERE id = 1");
    let (path, mut written) = (site.path(), false);
    sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| {
        if let Step::Waiting = step
            && !written
        {
            written = true;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("UPDATE t SET v = 'second' WHERE id = 1", []).unwrap();
        }
    })
    .unwrap();
    assert_eq!(centre.borrow().lines(0), ["1, 'first'"]);
    assert_eq!(rows(&site), ["1, 'second'"]);
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
}

// S11
#[test]
fn a_row_above_the_limit_is_named_and_nothing_of_the_upload_is_sent() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (7, zeroblob(70000000)), (8, 'eight')");
    let failure = sync(&mut site, &centre).unwrap_err();
    assert_eq!(failure.code(), Code::RowTooLarge);
    assert_eq!((failure.table_name(), failure.row_key()), (Some("t"), Some("id = 7")));
    assert_eq!(centre.borrow().commits.len(), 0);
    assert!(!site.remote.status().unwrap().outcome_unknown, "nothing left, so it is known");
    site.write("UPDATE t SET v = 'small' WHERE id = 7");
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
}

// S9
#[test]
fn rows_near_the_limit_get_frames_of_their_own() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write(
        "INSERT INTO t VALUES (7, CAST(zeroblob(40000000) AS TEXT)),
            (8, CAST(zeroblob(40000000) AS TEXT))",
    );
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded.inserts, 2);
    let mut other = joined(&centre);
    sync(&mut other, &centre).unwrap();
    assert_eq!(other.rows("SELECT sum(length(CAST(v AS BLOB))) FROM t WHERE id > 1"), ["80000000"]);
}

// S11
#[test]
fn a_refusal_is_passed_on() {
    let centre = centre();
    let mut site = joined(&centre);
    for code in [Code::AuthenticationFailed, Code::ServerFull, Code::WrongDatabase] {
        centre.borrow_mut().fault = Fault::Refuse(code);
        assert_eq!(sync(&mut site, &centre).unwrap_err().code(), code);
    }
    sync(&mut site, &centre).unwrap();
}

// S8
#[test]
fn two_processes_never_synchronize_one_file() {
    let centre = centre();
    let mut site = joined(&centre);
    let components = Components::system(site.path().parent().unwrap()).unwrap();
    let mut other = Remote::open(&site.path(), components).unwrap();
    let mut refused = None;
    sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| {
        if let Step::Waiting = step {
            refused = sync_as(&mut other, &centre, Mode::Full, &mut |_| {}).err();
        }
    })
    .unwrap();
    assert_eq!(refused.unwrap().code(), Code::RemoteInUse);
    sync_as(&mut other, &centre, Mode::Full, &mut |_| {}).unwrap();
}

// Trap 6: an upload that went with Hello under an outdated schema is sent again.
#[test]
fn a_schema_change_meets_changes_that_wait() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two'); UPDATE t SET v = 'ONE' WHERE id = 1");
    let wider = PublishedTable {
        columns: vec!["id".into(), "v".into(), "w".into()],
        create: vec!["CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, w INT DEFAULT 5)".into()],
        fingerprint: "t 2".into(),
        ..purchase()
    };
    centre.borrow_mut().publish(&[wider]);
    centre.borrow_mut().put(0, &[int(1), text("one"), int(5)]);
    site.write("CREATE INDEX mine ON t(v)");
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 1, updates: 1, deletes: 0 });
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 'ONE', 5", "2, 'two', 5"]);
    assert_eq!(site.rows("SELECT count(*) FROM sqlite_schema WHERE name = 'mine'"), ["1"]);
}

#[test]
fn rows_that_lie_in_a_table_when_it_is_published_are_uploaded() {
    let centre = centre();
    let mut site = Site::empty();
    site.write("CREATE TABLE T(ID INTEGER PRIMARY KEY, V TEXT); INSERT INTO T VALUES (7, 'mine')");
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded.inserts, 1);
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 'one'", "7, 'mine'"]);
}

#[test]
fn reset_starts_over_and_refuses_to_lose_changes() {
    let centre = centre();
    let mut site = joined(&centre);
    let identity = site.remote.settings().unwrap().remote_id;
    site.write("INSERT INTO t VALUES (2, 'two')");
    assert_eq!(site.remote.reset(false).unwrap_err().code(), Code::PendingChanges);
    site.remote.reset(true).unwrap();
    assert_eq!(site.remote.pending().unwrap(), []);
    sync(&mut site, &centre).unwrap();
    assert_ne!(site.remote.settings().unwrap().remote_id, identity);
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 'one'"], "what was not uploaded is gone, as was allowed");
}

#[test]
fn detach_leaves_the_rows_and_nothing_of_ours() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("INSERT INTO t VALUES (2, 'two')");
    site.remote.detach().unwrap();
    assert_eq!(rows(&site), ["1, 'one'", "2, 'two'"]);
    assert_eq!(site.rows("SELECT name FROM sqlite_schema"), ["'t'"]);
    let folder = site.path().parent().unwrap().to_owned();
    assert!(!folder.join("r.db-syncline").exists());
    let components = Components::system(&folder).unwrap();
    let failure = Remote::open(&site.path(), components).unwrap_err();
    assert_eq!(failure.code(), Code::NotARemote);
}
