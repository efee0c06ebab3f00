//! The tables change at the center while changes are pending here.

use super::{assert_equal, rows, sync, sync_as};
use crate::synchronize::{Counts, Step};
use crate::testing::Site;
use crate::testing::center::{Center, published};
use crate::{Components, Remote, Settings};
use harness::{Fault, Side, Verdict};
use model::Code;
use protocol::{Capabilities, Hello, Message, Mode, UploadState, Welcome};

/// The table as it was first, and one that is always there.
const FIRST: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, qty INT NOT NULL, note TEXT);
    CREATE TABLE other(id INTEGER PRIMARY KEY)";

/// A center with three rows, and a remote that has them.
pub(super) fn joined() -> (Center, Site) {
    let center = Center::new(FIRST);
    center.write("INSERT INTO t VALUES (1, 10, 'old'), (2, 20, 'old'), (3, 30, 'old')");
    let mut site = Site::empty();
    sync(&mut site, &center).unwrap();
    (center, site)
}

/// The table is made again with other columns, which the query fills; the lines say what the old
/// ones are called now.
pub(super) fn rebuild(center: &Center, declared: &str, query: &str, lines: &str) {
    let sql = format!(
        "CREATE TABLE new(id INTEGER PRIMARY KEY, {declared}); INSERT INTO new {query};
         DROP TABLE t; ALTER TABLE new RENAME TO t"
    );
    center.deploy(&sql, &format!("{}{lines}\n{}", published("t"), published("other")));
}

/// `qty` is called `quantity`, and `note` `remark`.
fn rename(center: &Center) {
    rebuild(
        center,
        "remark TEXT, quantity INT NOT NULL CHECK (quantity > 0)",
        "SELECT id, note, qty FROM t",
        "renamed = { remark = \"note\", quantity = \"qty\" }",
    );
}

/// The table is no longer published.
pub(super) fn unpublish(center: &Center) {
    center.deploy("", &format!("unpublished = [\"t\"]\n{}", published("other")));
}

/// And is again.
pub(super) fn publish(center: &Center) {
    center.deploy("", &format!("{}{}", published("t"), published("other")));
}

// Trap 24: the offline edit of a renamed column vanished, and a pending insert arrived with NULL
// in it, because what waited was read by the names of the new table.
#[test]
fn what_waits_goes_up_under_the_tables_that_it_was_captured_in() {
    let (center, mut site) = joined();
    site.write(
        "CREATE INDEX mine ON t(qty);
         CREATE VIEW seen AS SELECT id, qty AS q FROM t;
         UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
         INSERT INTO t VALUES (4, 40, 'new')",
    );
    rename(&center);
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 1, updates: 1, deletes: 1 });
    assert_eq!(report.rejected, 0);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 'old', 11", "3, 'old', 30", "4, 'new', 40"]);
    assert!(center.proxy.hellos()[1].upload_follows, "no round trip more than before");
    // The user's own objects follow the names, and capture goes on.
    assert_eq!(site.rows("SELECT sum(q) FROM seen"), ["81"]);
    assert_eq!(site.rows("SELECT count(*) FROM sqlite_schema WHERE name = 'mine'"), ["1"]);
    site.write("UPDATE t SET quantity = 31 WHERE id = 3");
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
}

// S1, Trap 24: wherever it ends, what waited arrives once, and in the column that it was meant for.
#[test]
fn a_schema_change_may_be_cut_off_anywhere() {
    let faults = [
        Fault::BeforeCommit,
        Fault::AfterCommit,
        Fault::AfterAcknowledgement,
        Fault::AfterSchemaChange,
        Fault::WithinDownload,
    ];
    for first in faults {
        for second in faults {
            let (center, mut site) = joined();
            site.write("UPDATE t SET qty = 11 WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new')");
            rename(&center);
            center.proxy.strike(first);
            sync(&mut site, &center).unwrap_err();
            let note = match site.rows("SELECT 1 FROM pragma_table_info('t') WHERE name = 'qty'") {
                rows if rows.is_empty() => "remark",
                _ => "note",
            };
            site.write(&format!(
                "UPDATE t SET {note} = 'mine' WHERE id IN (1, 3); DELETE FROM t WHERE id = 2"
            ));
            center.proxy.strike(second);
            let cut_off = sync(&mut site, &center);
            if second != Fault::AfterSchemaChange {
                cut_off.unwrap_err();
            }
            center.proxy.pass_all();
            sync(&mut site, &center).unwrap();
            assert_equal(&site, &center);
            let place = format!("{first:?} {second:?}");
            assert_eq!(rows(&site), ["1, 'mine', 11", "3, 'mine', 30", "4, 'new', 40"], "{place}");
        }
    }
}

// Trap 24
#[test]
fn upload_only_goes_up_under_the_held_tables_and_the_new_ones_come_later() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1");
    rename(&center);
    let report = sync_as(&mut site.remote, &center, Mode::UploadOnly, &mut |_| {}).unwrap();
    assert_eq!(report.uploaded.updates, 1);
    site.write("UPDATE t SET qty = 12 WHERE id = 1");
    sync_as(&mut site.remote, &center, Mode::UploadOnly, &mut |_| {}).unwrap();
    site.write("UPDATE t SET qty = 32 WHERE id = 3");
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 'old', 12", "2, 'old', 20", "3, 'old', 32"]);
}

// Trap 24: the new tables would leave the captured changes without their columns.
#[test]
fn download_only_refuses_while_changes_wait_in_a_table_that_changes() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; UPDATE t SET qty = 30 WHERE id = 3");
    rename(&center);
    let refused = sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap_err();
    assert_eq!(refused.code(), Code::ShapeChangeBlocked);
    assert_eq!(refused.table_name(), Some("t"));
    assert_eq!(site.remote.pending().unwrap().len(), 1);
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    // A change that was undone is no change.
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; UPDATE t SET qty = 10 WHERE id = 1");
    rename(&center);
    sync_as(&mut site.remote, &center, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_equal(&site, &center);
}

// Trap 24, S1: the application writes under the old names until the moment of the change.
#[test]
fn what_is_written_meanwhile_goes_up_under_the_held_tables_too() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1");
    rename(&center);
    let (path, mut written, mut retried) = (site.path(), 0, Vec::new());
    sync_as(&mut site.remote, &center, Mode::Full, &mut |step| match step {
        Step::Waiting if written < 2 => {
            written += 1;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("UPDATE t SET qty = qty + 1 WHERE id = 1", []).unwrap();
        }
        Step::Retrying { failure } => retried.push(failure.code()),
        _ => {}
    })
    .unwrap();
    assert_eq!(retried, [Code::ApplyBlocked; 2]);
    assert_equal(&site, &center);
    assert_eq!(rows(&site)[0], "1, 'old', 13");
}

// S9
#[test]
fn a_change_of_the_tables_gives_way_to_an_application_that_never_ceases() {
    let (center, mut site) = joined();
    rename(&center);
    let (path, mut attempts) = (site.path(), 0);
    let failure = sync_as(&mut site.remote, &center, Mode::Full, &mut |step| {
        if let Step::Waiting = step {
            attempts += 1;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("UPDATE t SET qty = qty + 1 WHERE id = 1", []).unwrap();
        }
    })
    .unwrap_err();
    assert_eq!((failure.code(), attempts), (Code::ApplyBlocked, 10));
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    assert_eq!(rows(&site)[0], "1, 'old', 20");
}

// Trap 24: names that were swapped or used again say nothing about what is in the columns.
#[test]
fn swapped_and_reused_names_and_several_changes_at_once_come_out_right() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; UPDATE t SET note = 'mine' WHERE id = 3");
    rebuild(
        &center,
        "note INT NOT NULL, qty TEXT",
        "SELECT id, qty, note FROM t",
        "renamed = { note = \"qty\", qty = \"note\" }",
    );
    let mut other = Site::empty();
    sync(&mut other, &center).unwrap();
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded.updates, 2);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 11, 'old'", "2, 20, 'old'", "3, 30, 'mine'"]);
    site.write("UPDATE t SET note = 21 WHERE id = 2");
    // Two changes while the remote is away: `qty` is dropped, and another `note` comes.
    rebuild(
        &center,
        "quantity INT NOT NULL, remark TEXT",
        "SELECT id, note, qty FROM t",
        "renamed = { quantity = \"note\", remark = \"qty\" }",
    );
    rebuild(
        &center,
        "quantity INT NOT NULL, note TEXT NOT NULL DEFAULT 'none'",
        "SELECT id, quantity, 'fresh' FROM t",
        "dropped = [\"remark\"]",
    );
    sync(&mut site, &center).unwrap();
    let shown = site.rows("SELECT id, quantity, note FROM t ORDER BY id");
    assert_eq!(shown, ["1, 11, 'fresh'", "2, 21, 'fresh'", "3, 30, 'fresh'"]);
    assert_eq!(site.remote.pending().unwrap(), []);
}

// Trap 24
#[test]
fn tables_that_swap_their_names_keep_their_rows() {
    let center = Center::new(
        "CREATE TABLE a(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO a VALUES (1, 'of a');
         CREATE TABLE b(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO b VALUES (2, 'of b')",
    );
    let mut site = Site::empty();
    sync(&mut site, &center).unwrap();
    site.write("UPDATE a SET v = 'of a, mine' WHERE id = 1; INSERT INTO b VALUES (3, 'new in b')");
    center.deploy(
        "ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b",
        &format!("{}renamed_from = \"b\"\n{}renamed_from = \"a\"", published("a"), published("b")),
    );
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT * FROM a"), ["2, 'of b'", "3, 'new in b'"]);
    assert_eq!(site.rows("SELECT * FROM b"), ["1, 'of a, mine'"]);
    assert_eq!(center.rows("SELECT * FROM a"), ["2, 'of b'", "3, 'new in b'"]);
    site.write("DELETE FROM a WHERE id = 2");
    sync(&mut site, &center).unwrap();
    assert_eq!(center.rows("SELECT * FROM a"), ["3, 'new in b'"]);
}

// S11, Trap 24: a pending row of a table that the center dropped was gone without a word.
#[test]
fn what_waits_for_a_table_that_nobody_knows_is_told_with_its_rows() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new')");
    rename(&center);
    // As where it was deployed so long ago that nothing is known of it.
    center.write(
        "DELETE FROM syncline_held; DELETE FROM syncline_shape WHERE superseded IS NOT NULL",
    );
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded, report.rejected), (Counts::default(), 2));
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> = rejects.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let code = Code::ShapeUnknown.number();
    assert_eq!(
        told,
        [(code, r#"{"id":1,"qty":11,"note":"old"}"#), (code, r#"{"id":4,"qty":40,"note":"new"}"#)]
    );
    // What the old columns had stays beside the new ones, as the user's own.
    let shown = site.rows("SELECT id, remark, quantity FROM t ORDER BY id");
    assert_eq!(shown, center.rows("SELECT * FROM t ORDER BY id"));
    assert_eq!(site.remote.pending().unwrap(), []);
}

/// The answer of a server that knows no table of the remote.
fn unknown(hello: &Hello) -> Message {
    Message::Welcome(Welcome {
        protocol_version: hello.protocol_version,
        capabilities: Capabilities::NONE,
        database_id: hello.database_id.clone().unwrap(),
        unknown_tables: (0..).take(hello.watermarks.len()).collect(),
        upload: UploadState::Send,
        schema_change_after_upload: true,
        ..Welcome::default()
    })
}

// S1: the connection ends after the Welcome that does not know the table; the next one does.
#[test]
fn rows_of_a_table_that_was_given_up_are_compared_though_its_shape_comes_back() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1");
    center.proxy.obey(|from, message| match (from, message) {
        (Side::Client, Message::Hello(hello)) => Verdict::Answer(vec![unknown(hello)]),
        _ => Verdict::Pass,
    });
    sync(&mut site, &center).unwrap_err();
    center.proxy.pass_all();
    assert_eq!(site.remote.rejects().unwrap().len(), 1);
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    assert_eq!(rows(&site)[0], "1, 10, 'old'");
}

/// A price comes, which is half more than the key.
fn widen(center: &Center, declared: &str) {
    let declared = format!("qty INT NOT NULL, note TEXT, price REAL {declared}");
    rebuild(center, &declared, "SELECT id, qty, note, id + 0.5 FROM t", "");
}

/// And goes.
fn narrow(center: &Center) {
    let declared = "qty INT NOT NULL, note TEXT";
    rebuild(center, declared, "SELECT id, qty, note FROM t", "dropped = [\"price\"]");
}

// Trap 24, S4: the process dies between the change of the tables and the download. The old image of
// a pending change had the default of a column that was never received.
#[test]
fn a_change_between_the_new_tables_and_their_rows_waits_for_the_rows() {
    let (center, mut site) = joined();
    widen(&center, "NOT NULL");
    center.proxy.strike(Fault::AfterSchemaChange);
    sync(&mut site, &center).unwrap_err();
    site.write(
        "UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
         UPDATE t SET price = 9.5 WHERE id = 3",
    );
    let refused = sync_as(&mut site.remote, &center, Mode::UploadOnly, &mut |_| {}).unwrap_err();
    assert_eq!(refused.code(), Code::DownloadFirst);
    center.proxy.keep_rows();
    sync(&mut site, &center).unwrap();
    assert_eq!(
        center.last_upload(&mut site),
        [
            "delete t (2, 20, 'old', 2.5)",
            "update t (1, 10, 'old', 1.5) -> (1, 11, 'old', 1.5)",
            "update t (3, 30, 'old', 3.5) -> (3, 30, 'old', 9.5)",
        ]
    );
    assert_equal(&site, &center);
    // And again, where the tables change once more before the rows have come.
    narrow(&center);
    sync(&mut site, &center).unwrap();
    widen(&center, "NOT NULL");
    center.proxy.strike(Fault::AfterSchemaChange);
    sync(&mut site, &center).unwrap_err();
    site.write("UPDATE t SET qty = 12 WHERE id = 1");
    narrow(&center);
    sync(&mut site, &center).unwrap();
    let shown = site.rows("SELECT id, qty, note FROM t ORDER BY id");
    assert_eq!(shown, ["1, 12, 'old'", "3, 30, 'old'"]);
    assert_eq!(center.rows("SELECT * FROM t ORDER BY id"), shown);
}

// S11, Trap 24: the value of a new column that must not be NULL was chosen by no user.
#[test]
fn a_pending_row_without_a_value_that_is_wanted_now_is_told() {
    let (center, mut site) = joined();
    site.remote.reset(true).unwrap();
    site.write("INSERT INTO t VALUES (4, 40, 'new'); UPDATE t SET qty = 11 WHERE id = 1");
    widen(&center, "NOT NULL");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded.inserts, report.uploaded.updates, report.rejected), (0, 1, 1));
    assert_eq!(site.remote.rejects().unwrap()[0].code, Code::RowRefused.number());
    assert_eq!(site.rows("SELECT id, qty FROM t"), ["1, 11", "2, 20", "3, 30"]);
}

// S11, Trap 24: after a reset no server can say that `qty` is called `quantity` now.
#[test]
fn a_change_that_loses_its_column_is_told_with_its_row() {
    let (center, mut site) = joined();
    site.remote.reset(true).unwrap();
    site.write(
        "UPDATE t SET qty = 11 WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new');
         DELETE FROM t WHERE id = 2",
    );
    rebuild(
        &center,
        "remark TEXT, quantity INT NOT NULL",
        "SELECT id, note, qty FROM t",
        "renamed = { remark = \"note\", quantity = \"qty\" }",
    );
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded.deletes, report.rejected), (1, 2));
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> = rejects.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let code = Code::ColumnLost.number();
    assert_eq!(
        told,
        [(code, r#"{"id":1,"qty":11,"note":"old"}"#), (code, r#"{"id":4,"qty":40,"note":"new"}"#)]
    );
    let shown = site.rows("SELECT id, remark, quantity FROM t ORDER BY id");
    assert_eq!(shown, ["1, 'old', 10", "3, 'old', 30"]);
}

// S11: the new table refuses the rows as they are here. Without a word they stayed as they were,
// and every synchronization ended in E5005.
#[test]
fn what_waits_in_a_table_that_cannot_be_carried_over_is_told() {
    let (center, mut site) = joined();
    site.remote.reset(true).unwrap();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2");
    rename(&center);
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded, report.rejected), (Counts::default(), 2));
    let shown = site.rows("SELECT id, remark, quantity FROM t ORDER BY id");
    assert_eq!(shown, ["1, 'old', 10", "2, 'old', 20", "3, 'old', 30"]);
}

// Trap 23: the rows of a table that had left were uploaded as the remote's own: a deleted row
// returned, and a newer one was overwritten.
#[test]
fn a_table_that_comes_back_is_compared_and_not_uploaded() {
    let (center, mut site) = joined();
    unpublish(&center);
    sync(&mut site, &center).unwrap();
    site.write("UPDATE t SET note = 'mine' WHERE id = 1; INSERT INTO t VALUES (4, 40, 'mine too')");
    publish(&center);
    center.write("DELETE FROM t WHERE id = 2");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded, report.rejected), (Counts::default(), 3));
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 10, 'old'", "3, 30, 'old'"]);
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> = rejects.iter().map(|it| it.row.as_deref().unwrap()).collect();
    assert_eq!(
        told,
        [
            r#"{"id":1,"qty":10,"note":"mine"}"#,
            r#"{"id":2,"qty":20,"note":"old"}"#,
            r#"{"id":4,"qty":40,"note":"mine too"}"#
        ]
    );
    // From now on it is a table like any other.
    site.write("UPDATE t SET note = 'captured' WHERE id = 3");
    assert_eq!(sync(&mut site, &center).unwrap().uploaded.updates, 1);
    assert_equal(&site, &center);
}

// Trap 23: a table for download only ended in E5005 when it came back.
#[test]
fn a_table_for_download_only_comes_back_too() {
    let (center, mut site) = joined();
    let down = "[table.t]\ndirection = \"download_only\"\n";
    for direction in [Some(down), None, Some(down), None, Some(&published("t"))] {
        match direction {
            Some(section) => center.deploy("", &format!("{section}{}", published("other"))),
            None => unpublish(&center),
        }
        center.write("INSERT OR REPLACE INTO t VALUES (7, 70, 'seven')");
        let report = sync(&mut site, &center).unwrap();
        assert_eq!(report.uploaded, Counts::default());
        if direction.is_some() {
            assert_equal(&site, &center);
        }
    }
}

// Trap 23: it is cut off between the tables and the download.
#[test]
fn rows_of_a_table_that_comes_back_are_compared_whenever_they_come() {
    let (center, mut site) = joined();
    unpublish(&center);
    sync(&mut site, &center).unwrap();
    site.write("UPDATE t SET note = 'mine' WHERE id = 1");
    publish(&center);
    center.write("DELETE FROM t");
    for fault in [Fault::AfterSchemaChange, Fault::WithinDownload] {
        center.proxy.strike(fault);
        sync(&mut site, &center).unwrap_err();
    }
    sync(&mut site, &center).unwrap();
    // The center has no row any more: all of them are reported, once.
    assert_eq!(site.remote.rejects().unwrap().len(), 3);
    assert_eq!(rows(&site), Vec::<String>::new());
}

fn reopened(site: &Site) -> Remote {
    let components = Components::system(site.path().parent().unwrap()).unwrap();
    let mut remote = Remote::open_or_create(&site.path(), components).unwrap();
    let user = Some(model::UserName::new("anna").unwrap());
    remote.remember(&Settings { user, ..Settings::default() }).unwrap();
    remote
}

// Trap 23: a file that was detached came back as a new remote, whose rows went up as its own.
#[test]
fn a_file_that_is_attached_again_is_compared_and_not_uploaded() {
    let (center, mut site) = joined();
    site.write(
        "CREATE TABLE mine(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO mine VALUES (1, 'x')",
    );
    site.remote.detach().unwrap();
    let ours = "SELECT name FROM sqlite_schema WHERE name LIKE 'syncline%'";
    assert_eq!(site.rows(ours), Vec::<String>::new(), "nothing of ours is in the file");
    site.write("VACUUM; UPDATE t SET note = 'mine' WHERE id = 3");
    let tables = ["t", "other", "mine"].map(published).concat();
    center.deploy("CREATE TABLE mine(id INTEGER PRIMARY KEY, v TEXT)", &tables);
    center.write("UPDATE t SET qty = 99, note = 'newer' WHERE id = 1; DELETE FROM t WHERE id = 2");
    site.remote = reopened(&site);
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded.inserts, 1, "a table that was never published goes up as ever");
    assert_eq!(center.rows("SELECT * FROM mine"), ["1, 'x'"]);
    assert_eq!(report.rejected, 3);
    assert_equal(&site, &center);
    assert_eq!(rows(&site), ["1, 99, 'newer'", "3, 30, 'old'"]);
    assert_eq!(site.remote.rejects().unwrap().len(), 3);
}

// For another database, and in another file at the same place, nothing was published before.
#[test]
fn rows_of_a_detached_file_are_new_to_another_database() {
    let (_, mut site) = joined();
    site.remote.detach().unwrap();
    let other = Center::of_its_own(FIRST);
    site.remote = reopened(&site);
    assert_eq!(sync(&mut site, &other).unwrap().uploaded.inserts, 3);

    let (center, mut site) = joined();
    site.remote.detach().unwrap();
    let copy = site.path().with_file_name("copy.db");
    site.write(&format!("VACUUM INTO '{}'", copy.display()));
    std::fs::rename(&copy, site.path()).unwrap();
    site.remote = reopened(&site);
    assert_eq!(sync(&mut site, &center).unwrap().uploaded.inserts, 3);
}
