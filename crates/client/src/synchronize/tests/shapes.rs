//! The tables change at the centre while changes are pending here.

use super::{connect, rows, sync, sync_as};
use crate::synchronize::{Counts, Step};
use crate::testing::centre::{Centre, Fault, SharedCentre};
use crate::testing::{Site, int, text};
use crate::{Components, Remote, Settings};
use model::{Code, Direction, PublishedTable};
use protocol::Mode;

pub(super) fn table(
    name: &str,
    columns: &[&str],
    declared: &str,
    fingerprint: &str,
) -> PublishedTable {
    PublishedTable {
        name: name.into(),
        columns: columns.iter().map(|name| (*name).into()).collect(),
        key: vec![0],
        direction: Direction::Both,
        create: vec![format!("CREATE TABLE {name}({declared})")],
        fingerprint: fingerprint.into(),
    }
}

pub(super) fn first() -> PublishedTable {
    table("t", &["id", "qty", "note"], "id INTEGER PRIMARY KEY, qty INT NOT NULL, note TEXT", "1")
}

/// `qty` is called `quantity`, and `note` `remark`.
fn renamed() -> PublishedTable {
    table(
        "t",
        &["id", "remark", "quantity"],
        "id INTEGER PRIMARY KEY, remark TEXT, quantity INT NOT NULL CHECK (quantity > 0)",
        "2",
    )
}

/// A centre with three rows that takes uploads under held tables, and a remote that has them.
pub(super) fn joined() -> (SharedCentre, Site) {
    let centre = Centre::new(&[first()]);
    {
        let mut centre = centre.borrow_mut();
        centre.takes_held_shapes = true;
        centre.identify("2", "t", &["id", "note", "qty"]);
        for id in 1..=3 {
            centre.put(0, &[int(id), int(id * 10), text("old")]);
        }
    }
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    (centre, site)
}

pub(super) fn assert_equal(site: &Site, centre: &SharedCentre) {
    let (mut here, mut there) = (rows(site), centre.borrow().lines(0));
    here.sort();
    there.sort();
    assert_eq!(here, there);
    assert_eq!(site.remote.pending().unwrap(), []);
}

// Trap 24: the offline edit of a renamed column vanished, and a pending insert arrived with NULL
// in it, because what waited was read by the names of the new table.
#[test]
fn what_waits_goes_up_under_the_tables_that_it_was_captured_in() {
    let (centre, mut site) = joined();
    site.write(
        "CREATE INDEX mine ON t(qty);
         CREATE VIEW seen AS SELECT id, qty AS q FROM t;
         UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
         INSERT INTO t VALUES (4, 40, 'new')",
    );
    centre.borrow_mut().publish(&[renamed()]);
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 1, updates: 1, deletes: 1 });
    assert_eq!(report.rejected, 0);
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 'old', 11", "3, 'old', 30", "4, 'new', 40"]);
    assert!(centre.borrow().hellos[1].upload_follows, "no round trip more than before");
    // The user's own objects follow the names, and capture goes on.
    assert_eq!(site.rows("SELECT sum(q) FROM seen"), ["81"]);
    assert_eq!(site.rows("SELECT count(*) FROM sqlite_schema WHERE name = 'mine'"), ["1"]);
    site.write("UPDATE t SET quantity = 31 WHERE id = 3");
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
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
            let (centre, mut site) = joined();
            site.write("UPDATE t SET qty = 11 WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new')");
            centre.borrow_mut().publish(&[renamed()]);
            centre.borrow_mut().fault = first;
            sync(&mut site, &centre).unwrap_err();
            let note = match site.rows("SELECT 1 FROM pragma_table_info('t') WHERE name = 'qty'") {
                rows if rows.is_empty() => "remark",
                _ => "note",
            };
            site.write(&format!(
                "UPDATE t SET {note} = 'mine' WHERE id IN (1, 3); DELETE FROM t WHERE id = 2"
            ));
            centre.borrow_mut().fault = second;
            let cut_off = sync(&mut site, &centre);
            if second != Fault::AfterSchemaChange {
                cut_off.unwrap_err();
            }
            centre.borrow_mut().fault = Fault::None;
            sync(&mut site, &centre).unwrap();
            assert_equal(&site, &centre);
            let place = format!("{first:?} {second:?}");
            assert_eq!(rows(&site), ["1, 'mine', 11", "3, 'mine', 30", "4, 'new', 40"], "{place}");
        }
    }
}

// Trap 24
#[test]
fn upload_only_goes_up_under_the_held_tables_and_the_new_ones_come_later() {
    let (centre, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1");
    centre.borrow_mut().publish(&[renamed()]);
    let report = sync_as(&mut site.remote, &centre, Mode::UploadOnly, &mut |_| {}).unwrap();
    assert_eq!(report.uploaded.updates, 1);
    site.write("UPDATE t SET qty = 12 WHERE id = 1");
    sync_as(&mut site.remote, &centre, Mode::UploadOnly, &mut |_| {}).unwrap();
    site.write("UPDATE t SET qty = 32 WHERE id = 3");
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 'old', 12", "2, 'old', 20", "3, 'old', 32"]);
}

// Trap 24: the new tables would leave the captured changes without their columns.
#[test]
fn download_only_refuses_while_changes_wait_in_a_table_that_changes() {
    let (centre, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; UPDATE t SET qty = 30 WHERE id = 3");
    centre.borrow_mut().publish(&[renamed()]);
    let refused = sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap_err();
    assert_eq!(refused.code(), Code::ShapeChangeBlocked);
    assert_eq!(refused.table_name(), Some("t"));
    assert_eq!(site.remote.pending().unwrap().len(), 1);
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
    // A change that was undone is no change.
    let (centre, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; UPDATE t SET qty = 10 WHERE id = 1");
    centre.borrow_mut().publish(&[renamed()]);
    sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_equal(&site, &centre);
}

// Trap 24, S1: the application writes under the old names until the moment of the change.
#[test]
fn what_is_written_meanwhile_goes_up_under_the_held_tables_too() {
    let (centre, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1");
    centre.borrow_mut().publish(&[renamed()]);
    let (path, mut written, mut retried) = (site.path(), 0, Vec::new());
    sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| match step {
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
    assert_equal(&site, &centre);
    assert_eq!(rows(&site)[0], "1, 'old', 13");
}

// S9
#[test]
fn a_change_of_the_tables_gives_way_to_an_application_that_never_ceases() {
    let (centre, mut site) = joined();
    centre.borrow_mut().publish(&[renamed()]);
    let (path, mut attempts) = (site.path(), 0);
    let failure = sync_as(&mut site.remote, &centre, Mode::Full, &mut |step| {
        if let Step::Waiting = step {
            attempts += 1;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute("UPDATE t SET qty = qty + 1 WHERE id = 1", []).unwrap();
        }
    })
    .unwrap_err();
    assert_eq!((failure.code(), attempts), (Code::ApplyBlocked, 10));
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
    assert_eq!(rows(&site)[0], "1, 'old', 20");
}

// Trap 24: names that were swapped or used again say nothing about what is in the columns.
#[test]
fn swapped_and_reused_names_and_several_changes_at_once_come_out_right() {
    let (centre, mut site) = joined();
    let swapped = table(
        "t",
        &["id", "note", "qty"],
        "id INTEGER PRIMARY KEY, note INT NOT NULL, qty TEXT",
        "swapped",
    );
    centre.borrow_mut().identify("swapped", "t", &["id", "qty", "note"]);
    // Two changes while the remote was away: `note` is dropped, and another `note` comes.
    let reused = table(
        "t",
        &["id", "quantity", "note"],
        "id INTEGER PRIMARY KEY, quantity INT NOT NULL, note TEXT NOT NULL DEFAULT 'none'",
        "reused",
    );
    centre.borrow_mut().identify("reused", "t", &["id", "qty", "another note"]);
    site.write("UPDATE t SET qty = 11 WHERE id = 1; UPDATE t SET note = 'mine' WHERE id = 3");
    centre.borrow_mut().publish(&[swapped]);
    let mut other = Site::empty();
    sync(&mut other, &centre).unwrap();
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded.updates, 2);
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 11, 'old'", "2, 20, 'old'", "3, 30, 'mine'"]);
    site.write("UPDATE t SET note = 21 WHERE id = 2");
    centre.borrow_mut().publish(&[renamed()]);
    centre.borrow_mut().publish(&[reused]);
    for id in 1..=3 {
        let qty = centre.borrow().lines(0)[id - 1].split(", ").nth(1).unwrap().parse().unwrap();
        centre.borrow_mut().put(0, &[int(id as i64), int(qty), text("fresh")]);
    }
    sync(&mut site, &centre).unwrap();
    let shown = site.rows("SELECT id, quantity, note FROM t ORDER BY id");
    assert_eq!(shown, ["1, 11, 'fresh'", "2, 21, 'fresh'", "3, 30, 'fresh'"]);
    assert_eq!(site.remote.pending().unwrap(), []);
}

// Trap 24
#[test]
fn tables_that_swap_their_names_keep_their_rows() {
    let a = |name: &str, print: &str| {
        table(name, &["id", "v"], "id INTEGER PRIMARY KEY, v TEXT", print)
    };
    let centre = Centre::new(&[a("a", "a1"), a("b", "b1")]);
    centre.borrow_mut().takes_held_shapes = true;
    centre.borrow_mut().identify("a2", "b", &["id", "v"]);
    centre.borrow_mut().identify("b2", "a", &["id", "v"]);
    centre.borrow_mut().put(0, &[int(1), text("of a")]);
    centre.borrow_mut().put(1, &[int(2), text("of b")]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    site.write("UPDATE a SET v = 'of a, mine' WHERE id = 1; INSERT INTO b VALUES (3, 'new in b')");
    centre.borrow_mut().publish(&[a("a", "a2"), a("b", "b2")]);
    sync(&mut site, &centre).unwrap();
    assert_eq!(site.rows("SELECT * FROM a"), ["2, 'of b'", "3, 'new in b'"]);
    assert_eq!(site.rows("SELECT * FROM b"), ["1, 'of a, mine'"]);
    assert_eq!(centre.borrow().lines(0), ["2, 'of b'", "3, 'new in b'"]);
    site.write("DELETE FROM a WHERE id = 2");
    sync(&mut site, &centre).unwrap();
    assert_eq!(centre.borrow().lines(0), ["3, 'new in b'"]);
}

// S11, Trap 24: a pending row of a table that the centre dropped was gone without a word.
#[test]
fn what_waits_for_a_table_that_nobody_knows_is_told_with_its_rows() {
    let (centre, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new')");
    centre.borrow_mut().forget_shape("1");
    centre.borrow_mut().publish(&[renamed()]);
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!((report.uploaded, report.rejected), (Counts::default(), 2));
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> = rejects.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let code = Code::ShapeUnknown.number();
    assert_eq!(
        told,
        [(code, r#"{"id":1,"qty":11,"note":"old"}"#), (code, r#"{"id":4,"qty":40,"note":"new"}"#)]
    );
    assert_equal(&site, &centre);
}

// S1: the connection ends after the Welcome that does not know the table; the next one does.
#[test]
fn rows_of_a_table_that_was_given_up_are_compared_though_its_shape_comes_back() {
    let (centre, mut site) = joined();
    site.write("UPDATE t SET qty = 11 WHERE id = 1");
    centre.borrow_mut().forget_shape("1");
    centre.borrow_mut().fault = Fault::BeforeCommit;
    sync(&mut site, &centre).unwrap_err();
    assert_eq!(site.remote.rejects().unwrap().len(), 1);
    centre.borrow_mut().takes_held_shapes = false;
    sync(&mut site, &centre).unwrap();
    assert_equal(&site, &centre);
    assert_eq!(rows(&site)[0], "1, 10, 'old'");
    drop(connect(&centre));
}

/// `first`, and a column that is published since.
fn wider() -> PublishedTable {
    table(
        "t",
        &["id", "qty", "note", "price"],
        "id INTEGER PRIMARY KEY, qty INT NOT NULL, note TEXT, price REAL NOT NULL",
        "wider",
    )
}

// Trap 24: towards a server that wants the new tables first, the old image of a pending change had
// the default of a column that was never received. The change was a conflict without a cause, or
// set the centre's value to NULL.
#[test]
fn a_column_that_is_published_while_a_change_waits_is_no_change() {
    let (centre, mut site) = joined();
    centre.borrow_mut().takes_held_shapes = false;
    site.write(
        "UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
         INSERT INTO t VALUES (4, 40, 'new')",
    );
    let mut wider = wider();
    wider.create[0] = wider.create[0].replace("NOT NULL)", "DEFAULT 7)");
    centre.borrow_mut().publish(&[wider]);
    for id in 1..=3 {
        let price = model::Value::Real(id as f64 + 0.5);
        centre.borrow_mut().put(0, &[int(id), int(id * 10), text("old"), price]);
    }
    centre.borrow_mut().uploads.clear();
    sync(&mut site, &centre).unwrap();
    assert_eq!(
        centre.borrow().uploads,
        [
            "delete t (2, 20, 'old', 2.5)",
            "insert t (4, 40, 'new', 7)",
            "update t (1, 10, 'old', 1.5) -> (1, 11, 'old', 1.5)",
        ]
    );
    assert_equal(&site, &centre);
}

// Trap 24, S4: the same where the process dies between the change of the tables and the download,
// with a server that takes uploads under held tables.
#[test]
fn a_change_between_the_new_tables_and_their_rows_waits_for_the_rows() {
    let (centre, mut site) = joined();
    centre.borrow_mut().publish(&[wider()]);
    for id in 1..=3 {
        let price = model::Value::Real(id as f64 + 0.5);
        centre.borrow_mut().put(0, &[int(id), int(id * 10), text("old"), price]);
    }
    centre.borrow_mut().fault = Fault::AfterSchemaChange;
    sync(&mut site, &centre).unwrap_err();
    site.write(
        "UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2;
         UPDATE t SET price = 9.5 WHERE id = 3",
    );
    let refused = sync_as(&mut site.remote, &centre, Mode::UploadOnly, &mut |_| {}).unwrap_err();
    assert_eq!(refused.code(), Code::DownloadFirst);
    centre.borrow_mut().uploads.clear();
    sync(&mut site, &centre).unwrap();
    assert_eq!(
        centre.borrow().uploads,
        [
            "delete t (2, 20, 'old', 2.5)",
            "update t (1, 10, 'old', 1.5) -> (1, 11, 'old', 1.5)",
            "update t (3, 30, 'old', 3.5) -> (3, 30, 'old', 9.5)",
        ]
    );
    assert_equal(&site, &centre);
    // And again, where the tables change once more before the rows have come.
    centre.borrow_mut().publish(&[first()]);
    sync(&mut site, &centre).unwrap();
    centre.borrow_mut().publish(&[wider()]);
    centre.borrow_mut().fault = Fault::AfterSchemaChange;
    sync(&mut site, &centre).unwrap_err();
    site.write("UPDATE t SET qty = 12 WHERE id = 1");
    centre.borrow_mut().publish(&[first()]);
    sync(&mut site, &centre).unwrap();
    let shown = site.rows("SELECT id, qty, note FROM t ORDER BY id");
    assert_eq!(shown, ["1, 12, 'old'", "3, 30, 'old'"]);
    assert_eq!(centre.borrow().lines(0), shown);
}

// S11, Trap 24: the value of a new column that must not be NULL was chosen by no user.
#[test]
fn a_pending_row_without_a_value_that_is_wanted_now_is_told() {
    let (centre, mut site) = joined();
    centre.borrow_mut().takes_held_shapes = false;
    site.write("INSERT INTO t VALUES (4, 40, 'new'); UPDATE t SET qty = 11 WHERE id = 1");
    centre.borrow_mut().publish(&[wider()]);
    for id in 1..=3 {
        centre.borrow_mut().put(0, &[int(id), int(id * 10), text("old"), int(1)]);
    }
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!((report.uploaded.inserts, report.uploaded.updates, report.rejected), (0, 1, 1));
    assert_eq!(site.remote.rejects().unwrap()[0].code, Code::RowRefused.number());
    assert_eq!(site.rows("SELECT id, qty FROM t"), ["1, 11", "2, 20", "3, 30"]);
}

// S11, Trap 24: an old server cannot say that `qty` is called `quantity` now.
#[test]
fn a_change_that_loses_its_column_is_told_with_its_row() {
    let (centre, mut site) = joined();
    centre.borrow_mut().takes_held_shapes = false;
    site.write(
        "UPDATE t SET qty = 11 WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new');
         DELETE FROM t WHERE id = 2",
    );
    let mut renamed = renamed();
    renamed.create[0] = renamed.create[0].replace(" CHECK (quantity > 0)", "");
    centre.borrow_mut().publish(&[renamed]);
    let report = sync(&mut site, &centre).unwrap();
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
    let (centre, mut site) = joined();
    centre.borrow_mut().takes_held_shapes = false;
    site.write("UPDATE t SET qty = 11 WHERE id = 1; DELETE FROM t WHERE id = 2");
    centre.borrow_mut().publish(&[renamed()]);
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!((report.uploaded, report.rejected), (Counts::default(), 2));
    let shown = site.rows("SELECT id, remark, quantity FROM t ORDER BY id");
    assert_eq!(shown, ["1, 'old', 10", "2, 'old', 20", "3, 'old', 30"]);
}

// Trap 23: the rows of a table that had left were uploaded as the remote's own: a deleted row
// returned, and a newer one was overwritten.
#[test]
fn a_table_that_comes_back_is_compared_and_not_uploaded() {
    for takes_held_shapes in [false, true] {
        let (centre, mut site) = joined();
        centre.borrow_mut().takes_held_shapes = takes_held_shapes;
        centre.borrow_mut().publish(&[]);
        sync(&mut site, &centre).unwrap();
        site.write(
            "UPDATE t SET note = 'mine' WHERE id = 1; INSERT INTO t VALUES (4, 40, 'mine too')",
        );
        centre.borrow_mut().publish(&[first()]);
        for id in [1, 3] {
            centre.borrow_mut().put(0, &[int(id), int(id * 10), text("old")]);
        }
        centre.borrow_mut().remove(0, 2);
        let report = sync(&mut site, &centre).unwrap();
        assert_eq!((report.uploaded, report.rejected), (Counts::default(), 3));
        assert_equal(&site, &centre);
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
        assert_eq!(sync(&mut site, &centre).unwrap().uploaded.updates, 1);
        assert_equal(&site, &centre);
    }
}

// Trap 23: a table for download only ended in E5005 when it came back.
#[test]
fn a_table_for_download_only_comes_back_too() {
    let down = PublishedTable {
        direction: Direction::DownloadOnly,
        fingerprint: "down".into(),
        ..first()
    };
    let (centre, mut site) = joined();
    for tables in [vec![down.clone()], vec![], vec![down], vec![], vec![first()]] {
        let published = !tables.is_empty();
        centre.borrow_mut().publish(&tables);
        if published {
            centre.borrow_mut().put(0, &[int(7), int(70), text("seven")]);
        }
        let report = sync(&mut site, &centre).unwrap();
        assert_eq!(report.uploaded, Counts::default());
        if published {
            assert_equal(&site, &centre);
        }
    }
}

// Trap 23: it is cut off between the tables and the download.
#[test]
fn rows_of_a_table_that_comes_back_are_compared_whenever_they_come() {
    let (centre, mut site) = joined();
    centre.borrow_mut().publish(&[]);
    sync(&mut site, &centre).unwrap();
    site.write("UPDATE t SET note = 'mine' WHERE id = 1");
    centre.borrow_mut().publish(&[first()]);
    for fault in [Fault::AfterSchemaChange, Fault::WithinDownload, Fault::None] {
        centre.borrow_mut().fault = fault;
        let result = sync(&mut site, &centre);
        assert_eq!(result.is_ok(), fault == Fault::None);
    }
    // The centre has no row any more: all of them are reported, once.
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
    let (centre, mut site) = joined();
    site.write(
        "CREATE TABLE mine(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO mine VALUES (1, 'x')",
    );
    site.remote.detach().unwrap();
    let ours = "SELECT name FROM sqlite_schema WHERE name LIKE 'syncline%'";
    assert_eq!(site.rows(ours), Vec::<String>::new(), "nothing of ours is in the file");
    site.write("VACUUM; UPDATE t SET note = 'mine' WHERE id = 3");
    let own = table("mine", &["id", "v"], "id INTEGER PRIMARY KEY, v TEXT", "mine");
    centre.borrow_mut().publish(&[first(), own]);
    centre.borrow_mut().put(0, &[int(1), int(99), text("newer")]);
    centre.borrow_mut().remove(0, 2);
    site.remote = reopened(&site);
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded.inserts, 1, "a table that was never published goes up as ever");
    assert_eq!(centre.borrow().lines(1), ["1, 'x'"]);
    assert_eq!(report.rejected, 3);
    assert_equal(&site, &centre);
    assert_eq!(rows(&site), ["1, 99, 'newer'", "3, 30, 'old'"]);
    assert_eq!(site.remote.rejects().unwrap().len(), 3);
}

// For another database, and in another file at the same place, nothing was published before.
#[test]
fn rows_of_a_detached_file_are_new_to_another_database() {
    let (_, mut site) = joined();
    site.remote.detach().unwrap();
    let other = Centre::new(&[first()]);
    other.borrow_mut().database = "another database".into();
    site.remote = reopened(&site);
    assert_eq!(sync(&mut site, &other).unwrap().uploaded.inserts, 3);

    let (centre, mut site) = joined();
    site.remote.detach().unwrap();
    let copy = site.path().with_file_name("copy.db");
    site.write(&format!("VACUUM INTO '{}'", copy.display()));
    std::fs::rename(&copy, site.path()).unwrap();
    site.remote = reopened(&site);
    assert_eq!(sync(&mut site, &centre).unwrap().uploaded.inserts, 3);
}
