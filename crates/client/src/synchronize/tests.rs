//! Whole synchronizations with the real server, whose connections a proxy can cut and forge.

mod added;
mod download_only;
mod faults;
mod followed;
mod left_behind;
mod lost_inserts;
mod names;
mod only_uploaded;
mod own_values;
mod postponed;
mod random_shapes;
mod returned;
mod shapes;
mod steps;

use super::{Counts, Downloaded, Report, Request, Step};
use crate::testing::Site;
use crate::testing::center::{Center, published};
use crate::{Components, Remote};
use model::{Code, Failure, Progress};
use protocol::{Credential, Message, Mode};
use rusqlite::StatementStatus;

/// A table with one row.
pub(super) const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
    INSERT INTO t VALUES (1, 'one')";

pub(super) fn center() -> Center {
    Center::new(T)
}

/// What notes every row that is inserted, updated or deleted, and is not published.
const NOTED: &str = "CREATE TABLE noted(what TEXT, id INTEGER, v TEXT);
    CREATE TRIGGER noted_i AFTER INSERT ON t BEGIN
      INSERT INTO noted VALUES ('insert', new.id, new.v); END;
    CREATE TRIGGER noted_u AFTER UPDATE ON t BEGIN
      INSERT INTO noted VALUES ('update', new.id, new.v); END;
    CREATE TRIGGER noted_d AFTER DELETE ON t BEGIN
      INSERT INTO noted VALUES ('delete', old.id, old.v); END";

/// A center that notes what happens.
pub(super) fn noting() -> Center {
    Center::publishing(&format!("{T}; {NOTED}"), Some(&published("t")))
}

/// S1: nothing has happened twice at a center that notes.
pub(super) fn assert_nothing_doubled(center: &Center, place: &str) {
    let twice = "SELECT what, id, v FROM noted GROUP BY what, id, v HAVING count(*) > 1";
    assert_eq!(center.rows(twice), Vec::<String>::new(), "{place}");
}

/// Numbers of the uploads that were committed.
fn commits(center: &Center) -> Vec<Progress> {
    let mut commits = Vec::new();
    for (_, message) in center.proxy.heard() {
        if let Message::UploadCommitted(committed) = message
            && committed.progress > commits.last().copied().unwrap_or_default()
        {
            commits.push(committed.progress);
        }
    }
    commits
}

fn request(mode: Mode) -> Request {
    let credential = Credential::Password("secret".into());
    Request { mode, credential, client: "test".into() }
}

pub(super) fn sync_as(
    remote: &mut Remote,
    center: &Center,
    mode: Mode,
    observer: &mut dyn FnMut(Step),
) -> Result<Report, Failure> {
    remote.synchronize(&request(mode), &mut || center.connect(), observer)
}

pub(super) fn sync(site: &mut Site, center: &Center) -> Result<Report, Failure> {
    sync_as(&mut site.remote, center, Mode::Full, &mut |_| {})
}

pub(super) fn rows(site: &Site) -> Vec<String> {
    site.rows("SELECT * FROM t ORDER BY id")
}

/// S3: both ends hold the same.
pub(super) fn assert_equal(site: &Site, center: &Center) {
    let (here, there) = (rows(site), center.rows("SELECT * FROM t ORDER BY id"));
    let differs = here.iter().zip(&there).find(|(here, there)| here != there);
    let counts = (here.len(), there.len());
    assert!(here == there, "the remote and the center have {counts:?} rows; first {differs:?}");
    assert_eq!(site.remote.pending().unwrap(), []);
}

/// A remote that has synchronized once.
pub(super) fn joined(center: &Center) -> Site {
    let mut site = Site::empty();
    sync(&mut site, center).unwrap();
    site
}

// S3
#[test]
fn an_empty_file_becomes_a_remote_with_tables_and_rows() {
    let center = center();
    let mut site = Site::empty();
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(rows(&site), ["1, 'one'"]);
    assert_eq!(report.downloaded, Downloaded { upserts: 1, deletes: 0 });
    assert!(report.token.is_some());
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
    let center = center();
    let (mut a, mut b) = (joined(&center), joined(&center));
    a.write("INSERT INTO t VALUES (2, 'two'), (3, 'three')");
    let report = sync(&mut a, &center).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 2, updates: 0, deletes: 0 });
    assert_eq!(report.downloaded, Downloaded::default(), "nothing echoes");
    b.write("UPDATE t SET v = 'ONE' WHERE id = 1");
    let report = sync(&mut b, &center).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 0, updates: 1, deletes: 0 });
    assert_eq!(report.downloaded, Downloaded { upserts: 2, deletes: 0 });
    a.write("DELETE FROM t WHERE id = 3");
    sync(&mut a, &center).unwrap();
    let report = sync(&mut b, &center).unwrap();
    assert_eq!(report.downloaded, Downloaded { upserts: 0, deletes: 1 });
    center.write("DELETE FROM t WHERE id = 2");
    sync(&mut a, &center).unwrap();
    sync(&mut b, &center).unwrap();
    for site in [&a, &b] {
        assert_equal(site, &center);
        assert_eq!(rows(site), ["1, 'ONE'"]);
    }
}

#[test]
fn a_small_synchronization_is_one_write() {
    let center = center();
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (2, 'two')");
    center.writes.borrow_mut().clear();
    sync(&mut site, &center).unwrap();
    assert_eq!(center.writes.borrow().len(), 1);
    assert!(center.proxy.hellos()[1].upload_follows);
    // With nothing to upload as well; then no upload is committed either.
    assert_eq!(commits(&center).len(), 1);
    sync(&mut site, &center).unwrap();
    assert_eq!(center.writes.borrow().len(), 2);
    assert_eq!(commits(&center).len(), 1);
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
    let (center, runs) = (center(), 3);
    let mut site = joined(&center);
    sync(&mut site, &center).unwrap();
    let before = prepared_anew(&site);
    for n in 0..runs {
        site.write(&format!("INSERT INTO t VALUES ({}, 'here')", 10 + n));
        center.write(&format!("UPDATE t SET v = 'there {n}' WHERE id = 1"));
        let report = sync(&mut site, &center).unwrap();
        assert_eq!((report.uploaded.inserts, report.downloaded.upserts), (1, 1));
    }
    assert_eq!(prepared_anew(&site), before);
}

#[test]
fn a_large_upload_waits_for_welcome() {
    let center = center();
    let mut site = joined(&center);
    site.write(
        "WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO t SELECT i, hex(zeroblob(16)) FROM n",
    );
    let mut totals = Vec::new();
    let report = sync_as(&mut site.remote, &center, Mode::Full, &mut |step| {
        if let Step::Uploading { rows_done, rows_total } = step {
            totals.push((rows_done, rows_total));
        }
    })
    .unwrap();
    assert_eq!(report.uploaded.inserts, 29_999);
    assert!(!center.proxy.hellos()[1].upload_follows);
    assert_eq!(totals.last(), Some(&(29_999, 29_999)));
    assert!(totals.len() > 3, "progress is told while it is sent");
    assert_equal(&site, &center);
}

// S1
#[test]
fn an_unreachable_server_changes_nothing() {
    let center = center();
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (2, 'two')");
    let before = site.rows("SELECT * FROM syncline_state");
    let unreachable = &mut || Err(Failure::new(Code::Unreachable, "no network"));
    let failure = site.remote.synchronize(&request(Mode::Full), unreachable, &mut |_| {});
    assert_eq!(failure.unwrap_err().code(), Code::Unreachable);
    assert_eq!(site.rows("SELECT * FROM syncline_state"), before, "nothing was frozen");
}

#[test]
fn upload_only_leaves_the_download_for_later() {
    let center = center();
    let mut site = joined(&center);
    center.write("INSERT INTO t VALUES (9, 'nine')");
    for v in ["two", "three"] {
        site.write(&format!("INSERT INTO t VALUES (length('{v}'), '{v}')"));
        let report = sync_as(&mut site.remote, &center, Mode::UploadOnly, &mut |_| {}).unwrap();
        assert_eq!(report.uploaded.inserts, 1);
        assert_eq!(site.remote.pending().unwrap(), []);
        assert!(!site.remote.status().unwrap().outcome_unknown);
    }
    assert_eq!(rows(&site), ["1, 'one'", "3, 'two'", "5, 'three'"]);
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
}

#[test]
fn download_only_leaves_the_changes_pending() {
    let center = center();
    let mut site = joined(&center);
    site.write("INSERT INTO t VALUES (2, 'two'); UPDATE t SET v = 'mine' WHERE id = 1");
    center.write("INSERT INTO t VALUES (9, 'nine')");
    center.write("UPDATE t SET v = 'theirs' WHERE id = 1");
    let report = sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(report.downloaded.upserts, 2);
    assert_eq!(rows(&site), ["1, 'mine'", "2, 'two'", "9, 'nine'"]);
    assert_eq!(site.remote.pending().unwrap().len(), 2);
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
}

#[test]
fn ping_touches_no_table() {
    let center = center();
    let mut site = Site::empty();
    let report = sync_as(&mut site.remote, &center, Mode::Ping, &mut |_| {}).unwrap();
    assert!(report.token.is_some());
    assert_eq!(site.remote.status().unwrap().tables, []);
}

// Trap 13
#[test]
fn a_copied_file_becomes_a_remote_of_its_own_and_keeps_its_changes() {
    let center = center();
    let mut original = joined(&center);
    original.write("INSERT INTO t VALUES (2, 'two')");
    sync(&mut original, &center).unwrap();
    original.write("INSERT INTO t VALUES (3, 'three')");
    let copy_path = original.path().with_file_name("copy.db");
    original.write(&format!("VACUUM INTO '{}'", copy_path.display()));
    sync(&mut original, &center).unwrap();

    let components = Components::system(copy_path.parent().unwrap()).unwrap();
    let mut copy = Remote::open(&copy_path, components).unwrap();
    copy.connection.execute("UPDATE t SET v = 'III' WHERE id = 3", []).unwrap();
    let mut retried = Vec::new();
    let report = sync_as(&mut copy, &center, Mode::Full, &mut |step| {
        if let Step::Retrying { failure } = step {
            retried.push(failure.code());
        }
    })
    .unwrap();
    assert_eq!(retried, [Code::CopiedRemote]);
    assert!(report.took_new_identity);
    assert_ne!(Some(report.remote_id), original.remote.settings().unwrap().remote_id);
    sync(&mut original, &center).unwrap();
    assert_equal(&original, &center);
    assert_eq!(rows(&original)[2], "3, 'III'");
    // From now on both synchronize undisturbed.
    sync_as(&mut copy, &center, Mode::Full, &mut |_| {}).unwrap();
    assert!(!sync(&mut original, &center).unwrap().took_new_identity);
}

// Trap 3
#[test]
fn a_restored_center_is_met_with_its_own_numbers() {
    let center = center();
    let mut site = joined(&center);
    let copy = center.back_up();
    site.write("INSERT INTO t VALUES (2, 'two')");
    sync(&mut site, &center).unwrap();
    center.restore(&copy);
    site.write("INSERT INTO t VALUES (3, 'three')");
    sync(&mut site, &center).unwrap();
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 'one'", "3, 'three'"]);
    let rejects = site.remote.rejects().unwrap();
    assert_eq!(rejects.len(), 1, "the row that the center lost is kept here");
    assert_eq!(rejects[0].row.as_deref(), Some(r#"{"id":2,"v":"two"}"#));
}

/// Tables for which a delete of a parent takes children along, and their rows. The center has no
/// foreign keys: a program that writes there sees to them by itself.
pub(super) fn family() -> (Center, Site) {
    let center = Center::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO p VALUES (1, 'parent');
         CREATE TABLE t(id INTEGER PRIMARY KEY, p INT)",
    );
    let mut site = Site::empty();
    site.write(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT);
         CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE)",
    );
    sync(&mut site, &center).unwrap();
    (center, site)
}

// S1: a row that is added while the synchronization runs would be taken along by the cascade of a
// downloaded delete. It is uploaded by another round instead.
#[test]
fn a_change_made_meanwhile_in_the_way_of_the_download_is_uploaded_first() {
    let (center, mut site) = family();
    center.write("DELETE FROM p");
    let (path, mut written, mut retried) = (site.path(), false, Vec::new());
    let report = sync_as(&mut site.remote, &center, Mode::Full, &mut |step| match step {
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
    assert_eq!(center.rows("SELECT * FROM t"), ["10, 1"], "the row has arrived at the center");
}

// S9
#[test]
fn changes_that_never_cease_end_the_synchronization_with_a_failure() {
    let (center, mut site) = family();
    center.write("DELETE FROM p");
    let (path, mut attempts) = (site.path(), 0);
    let failure = sync_as(&mut site.remote, &center, Mode::Full, &mut |step| {
        if let Step::Waiting = step {
            attempts += 1;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("INSERT INTO t VALUES (?1, 1)", [attempts]).unwrap();
        }
    })
    .unwrap_err();
    assert_eq!(failure.code(), Code::ApplyBlocked);
    assert_eq!(attempts, i64::from(super::conversation::APPLY_ATTEMPTS_MAX));
    assert_eq!(site.rows("SELECT count(*) FROM t"), ["10"], "they are all kept");
}

// Trap 6
#[test]
fn what_the_application_writes_meanwhile_is_uploaded_by_the_next_synchronization() {
    let center = center();
    let mut site = joined(&center);
    site.write("UPDATE t SET v = 'first' WHERE id = 1");
    let (path, mut written) = (site.path(), false);
    sync_as(&mut site.remote, &center, Mode::Full, &mut |step| {
        if let Step::Waiting = step
            && !written
        {
            written = true;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("UPDATE t SET v = 'second' WHERE id = 1", []).unwrap();
        }
    })
    .unwrap();
    assert_eq!(center.rows("SELECT * FROM t"), ["1, 'first'"]);
    assert_eq!(rows(&site), ["1, 'second'"]);
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
}

// S9
#[test]
fn rows_near_the_limit_get_frames_of_their_own() {
    let center = center();
    let mut site = joined(&center);
    site.write(
        "INSERT INTO t VALUES (7, CAST(zeroblob(40000000) AS TEXT)),
            (8, CAST(zeroblob(40000000) AS TEXT))",
    );
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded.inserts, 2);
    let mut other = joined(&center);
    sync(&mut other, &center).unwrap();
    assert_eq!(other.rows("SELECT sum(length(CAST(v AS BLOB))) FROM t WHERE id > 1"), ["80000000"]);
}

// S8
#[test]
fn two_processes_never_synchronize_one_file() {
    let center = center();
    let mut site = joined(&center);
    let components = Components::system(site.path().parent().unwrap()).unwrap();
    let mut other = Remote::open(&site.path(), components).unwrap();
    let mut refused = None;
    sync_as(&mut site.remote, &center, Mode::Full, &mut |step| {
        if let Step::Waiting = step {
            refused = sync_as(&mut other, &center, Mode::Full, &mut |_| {}).err();
        }
    })
    .unwrap();
    assert_eq!(refused.unwrap().code(), Code::RemoteInUse);
    sync_as(&mut other, &center, Mode::Full, &mut |_| {}).unwrap();
}

#[test]
fn rows_that_lie_in_a_table_when_it_is_published_are_uploaded() {
    let center = center();
    let mut site = Site::empty();
    site.write("CREATE TABLE T(ID INTEGER PRIMARY KEY, V TEXT); INSERT INTO T VALUES (7, 'mine')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded.inserts, 1);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 'one'", "7, 'mine'"]);
}

#[test]
fn reset_starts_over_and_refuses_to_lose_changes() {
    let center = center();
    let mut site = joined(&center);
    let identity = site.remote.settings().unwrap().remote_id;
    site.write("INSERT INTO t VALUES (2, 'two')");
    assert_eq!(site.remote.reset(false).unwrap_err().code(), Code::PendingChanges);
    site.remote.reset(true).unwrap();
    assert_eq!(site.remote.pending().unwrap(), []);
    sync(&mut site, &center).unwrap();
    assert_ne!(site.remote.settings().unwrap().remote_id, identity);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 'one'"], "what was not uploaded is gone, as was allowed");
}

#[test]
fn detach_leaves_the_rows_and_nothing_of_ours() {
    let center = center();
    let mut site = joined(&center);
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
