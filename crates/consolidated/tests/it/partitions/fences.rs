//! Fences: what a remote may upload, and what happens to the rest.

use crate::support::center::{Backend, Center, Download, Row, Upload, deploy};
use crate::support::shop::{Site, listed, model, row};
use model::{Code, Value};

/// The database of the shop, and the remote of representative 3 with all its rows.
fn shop(backend: Backend, customer: &str) -> (Center, Site) {
    let mut center = super::center(backend, customer);
    let mut site = Site::new("one", 3, "north, south");
    site.synchronize(&mut center, &[]);
    (center, site)
}

/// The rejects of a download as `code table:key`, in order.
fn rejects(download: &Download) -> Vec<String> {
    let reject = |(table, key, code): &(String, Row, u16)| {
        let key = listed(&[(table.clone(), key.clone())]);
        format!("{} {key}", Code::from_number(*code).unwrap().name())
    };
    let mut rejects: Vec<String> = download.rejects.iter().map(reject).collect();
    rejects.sort();
    rejects
}

fn outside(row: &str) -> String {
    format!("RowOutsideSubscription {row}")
}

/// Uploads `changes`, of which `refused` meet a fence; the remote ends with what it may have, and
/// the center with `same`, a query whose answer must not change.
fn check(
    backend: Backend,
    customer: &str,
    changes: &[Upload],
    refused: &[&str],
    same: &str,
) -> Download {
    let (mut center, mut site) = shop(backend, customer);
    let before = center.rows(same);
    let download = site.synchronize(&mut center, changes);
    let refused: Vec<String> = refused.iter().map(|row| outside(row)).collect();
    assert_eq!(rejects(&download), refused);
    assert_eq!(center.rows(same), before);
    let conflicts = backend.pick("syncline_conflict", "syncline.syncline_conflict");
    assert_eq!(center.value(&format!("SELECT count(*) FROM {conflicts}")), Value::Integer(0));
    download
}

const FOREIGN: &str = "SELECT c.id, c.rep, c.name, i.id, i.note, l.id, l.note FROM customer AS c
    LEFT JOIN invoice AS i ON i.customer = c.id LEFT JOIN line AS l ON l.invoice = i.id
    WHERE c.rep <> 3 ORDER BY c.id, i.id, l.id";

// S7
#[test]
fn inserts_outside_are_refused_one_by_one() {
    Backend::each(|backend| {
        let changes = [
            Upload::Insert("customer", row(51, 4, "foreign")),
            Upload::Insert("customer", row(52, 3, "own")),
            Upload::Insert("invoice", row(61, 3, "of a foreign customer")),
            Upload::Insert("invoice", row(62, 52, "of the new customer")),
            Upload::Insert("line", row(71, 31, "of a foreign invoice")),
            Upload::Insert("line", row(72, 62, "of the new invoice")),
            Upload::Insert("task", row(81, "q", "")),
            Upload::Insert("task", row(82, "p", "")),
            Upload::Insert("comment", row(91, 2, "")),
            Upload::Insert("comment", row(92, 82, "")),
            Upload::Insert("shop", row(41, "east", "")),
            Upload::Insert("device", row(42, "two", "")),
            Upload::Insert("offer", row(43, 77, "")),
            Upload::Insert("offer", row(44, 7, "")),
        ];
        let refused = [
            "comment:91",
            "customer:51",
            "device:42",
            "invoice:61",
            "line:71",
            "offer:43",
            "shop:41",
            "task:81",
        ];
        let download = check(backend, "", &changes, &refused, FOREIGN);
        assert_eq!(
            listed(&download.deletes),
            "comment:91 customer:51 device:42 invoice:61 line:71 offer:43 shop:41 task:81"
        );
    });
}

/// A refused parent takes the rows along that were to be its children.
// S7
#[test]
fn children_of_a_refused_row_are_refused() {
    Backend::each(|backend| {
        let changes = [
            Upload::Insert("customer", row(51, 4, "")),
            Upload::Insert("invoice", row(61, 51, "")),
            Upload::Insert("line", row(71, 61, "")),
            Upload::Insert("line", row(72, 11, "own")),
        ];
        check(backend, "", &changes, &["customer:51", "invoice:61", "line:71"], FOREIGN);
    });
}

// S7
#[test]
fn foreign_rows_are_neither_changed_nor_deleted_nor_shown() {
    Backend::each(|backend| {
        let changes = [
            Upload::Update("customer", row(3, 4, "c"), row(3, 3, "stolen")),
            Upload::Update("invoice", row(31, 3, ""), row(31, 1, "stolen")),
            Upload::Delete("line", row(311, 31, "")),
            Upload::Delete("task", row(2, "q", "")),
        ];
        let refused = ["customer:3", "invoice:31", "line:311", "task:2"];
        let download = check(backend, "", &changes, &refused, FOREIGN);
        assert_eq!(listed(&download.upserts), "offer:1");
        assert_eq!(listed(&download.deletes), "customer:3 invoice:31 line:311 task:2");
    });
}

// S7
#[test]
fn a_row_that_nobody_has_is_no_fence() {
    Backend::each(|backend| {
        let (mut center, mut site) = shop(backend, "");
        let old = row(77, 3, "deleted long ago");
        let changes = [Upload::Delete("customer", old.clone())];
        assert!(site.synchronize(&mut center, &changes).rejects.is_empty());
        let changes = [Upload::Update("customer", old, row(77, 3, "x"))];
        let download = site.synchronize(&mut center, &changes);
        assert!(download.rejects.is_empty());
        assert_eq!(listed(&download.deletes), "customer:77");
    });
}

/// A row must not leave by an upload, unless the model says that it may; then it takes its
/// children along.
// S6, S7
#[test]
fn a_row_leaves_by_an_upload_only_where_the_model_says_so() {
    Backend::each(|backend| {
        let away = || [Upload::Update("customer", row(1, 3, "a"), row(1, 4, "handed over"))];
        let download = check(
            backend,
            "",
            &away(),
            &["customer:1"],
            "SELECT id, rep, name FROM customer ORDER BY id",
        );
        assert_eq!(listed(&download.upserts), "customer:1 offer:1");

        let (mut center, mut site) = shop(backend, "may_leave = true");
        let download = site.synchronize(&mut center, &away());
        assert!(download.rejects.is_empty());
        assert_eq!(
            listed(&download.deletes),
            "customer:1 invoice:11 invoice:12 line:111 line:112 line:121"
        );
        assert_eq!(center.value("SELECT rep FROM customer WHERE id = 1"), Value::Integer(4));
        // It must not insert a row into another partition either.
        let changes = [Upload::Insert("customer", row(51, 4, ""))];
        assert_eq!(rejects(&site.synchronize(&mut center, &changes)), [outside("customer:51")]);
        // And not even what may leave may be taken.
        let changes = [Upload::Update("customer", row(3, 4, "c"), row(3, 3, "stolen"))];
        assert_eq!(rejects(&site.synchronize(&mut center, &changes)), [outside("customer:3")]);
        let other = [Upload::Update("invoice", row(21, 2, ""), row(21, 3, "given"))];
        assert_eq!(rejects(&site.synchronize(&mut center, &other)), [outside("invoice:21")]);
    });
}

/// A user who hands a customer over has changed its rows before.
// S7
#[test]
fn what_was_done_before_a_row_left_counts() {
    Backend::each(|backend| {
        let (mut center, mut site) = shop(backend, "may_leave = true");
        let changes = [
            Upload::Update("customer", row(1, 3, "a"), row(1, 4, "handed over")),
            Upload::Insert("invoice", row(61, 1, "new")),
            Upload::Insert("line", row(71, 61, "new")),
            Upload::Update("invoice", row(11, 1, ""), row(11, 1, "paid")),
            Upload::Delete("line", row(121, 12, "")),
            Upload::Insert("customer", row(51, 4, "foreign")),
        ];
        let download = site.synchronize(&mut center, &changes);
        assert_eq!(rejects(&download), [outside("customer:51")]);
        let after = "SELECT count(*) FROM customer AS c, invoice AS i, line AS l
            WHERE c.id = 1 AND c.rep = 4 AND i.id = 11 AND i.note = 'paid' AND l.id = 71
              AND NOT EXISTS (SELECT 1 FROM line WHERE id IN (121, 51))";
        assert_eq!(center.value(after), Value::Integer(1));
    });
}

/// The rule that resolves a conflict must not write over a row behind the fence, not even where it
/// makes an insert an update.
// S7
#[test]
fn no_conflict_rule_crosses_the_fence() {
    Backend::each(|backend| {
        let rules = [
            "\"consolidated_wins\"",
            "\"remote_wins\"",
            "\"merge\"",
            "{ latest = \"name\" }",
            "{ maximum = \"name\" }",
            "{ priority = \"name\", order = [\"zzz\"] }",
            "{ add = \"rep\" }",
        ];
        let (mut center, _) = shop(backend, "");
        for rule in rules {
            deploy(&center.url, &model(&format!("conflict = {rule}"))).unwrap();
            for change in [
                Upload::Insert("customer", row(3, 3, "zzz")),
                Upload::Update("customer", row(3, 3, "was mine"), row(3, 3, "zzz")),
                Upload::Delete("customer", row(3, 3, "was mine")),
            ] {
                let mut site = Site::new("one", 3, "north, south");
                site.synchronize(&mut center, &[]);
                let before = center.rows(FOREIGN);
                let download = site.synchronize(&mut center, &[change]);
                assert_eq!(rejects(&download), [outside("customer:3")], "{rule} {backend:?}");
                assert_eq!(listed(&download.deletes), "customer:3", "{rule} {backend:?}");
                assert_eq!(center.rows(FOREIGN), before, "{rule} {backend:?}");
            }
        }
    });
}

/// A rule may let the remote win, but not with a row that leaves.
// S7
#[test]
fn no_conflict_rule_moves_a_row_out() {
    Backend::each(|backend| {
        let away = || [Upload::Update("customer", row(1, 3, "was"), row(1, 4, "handed over"))];
        for (rule, leaves) in [("consolidated_wins", false), ("remote_wins", true), ("merge", true)]
        {
            let conflict = format!("conflict = \"{rule}\"");
            let (mut center, mut site) = shop(backend, &conflict);
            let refused = if leaves { vec![outside("customer:1")] } else { vec![] };
            assert_eq!(rejects(&site.synchronize(&mut center, &away())), refused, "{rule}");
            assert_eq!(center.value("SELECT rep FROM customer WHERE id = 1"), Value::Integer(3));

            deploy(&center.url, &model(&format!("{conflict}\nmay_leave = true"))).unwrap();
            let download = site.synchronize(&mut center, &away());
            assert!(download.rejects.is_empty());
            let gone = "customer:1 invoice:11 invoice:12 line:111 line:112 line:121";
            assert_eq!(listed(&download.deletes), if leaves { gone } else { "" }, "{rule}");
        }
    });
}

/// A row that was deleted at the center comes back only inside the partition.
// S7
#[test]
fn a_deleted_row_does_not_come_back_outside() {
    Backend::each(|backend| {
        for customer in
            ["conflict = \"remote_wins\"", "conflict = \"remote_wins\"\nmay_leave = true"]
        {
            let changes =
                [Upload::Update("customer", row(77, 3, "was"), row(77, 4, "handed over"))];
            check(backend, customer, &changes, &["customer:77"], FOREIGN);
        }
    });
}

/// A child may come before its parent is there, because a third row is in the parent's way.
// S7, Trap 10
#[test]
fn a_child_waits_with_its_parent() {
    Backend::each(|backend| {
        let mut center = super::center(backend, "");
        center.foreign("CREATE UNIQUE INDEX customer_name ON customer (name)");
        deploy(&center.url, &model("")).unwrap();
        let mut site = Site::new("one", 3, "north, south");
        site.synchronize(&mut center, &[]);
        let changes = [
            Upload::Insert("customer", row(51, 3, "a")),
            Upload::Insert("invoice", row(61, 51, "")),
            Upload::Insert("line", row(71, 61, "")),
            Upload::Update("customer", row(1, 3, "a"), row(1, 3, "z")),
        ];
        let download = site.synchronize(&mut center, &changes);
        assert_eq!(rejects(&download), [""; 0], "{backend:?}");
    });
}

/// Values that swap put rows aside until others have moved; the fence waits for them.
// S7, Trap 10
#[test]
fn rows_that_wait_for_each_other_meet_the_fence_too() {
    Backend::each(|backend| {
        let mut center = super::center(backend, "");
        center.foreign("CREATE UNIQUE INDEX customer_name ON customer (name)");
        deploy(&center.url, &model("")).unwrap();
        let mut site = Site::new("one", 3, "north, south");
        site.synchronize(&mut center, &[]);
        let changes = [
            Upload::Insert("customer", row(51, 3, "a")),
            Upload::Insert("invoice", row(61, 51, "of a customer that waits")),
            Upload::Update("customer", row(1, 3, "a"), row(1, 3, "b")),
            Upload::Update("customer", row(2, 3, "b"), row(2, 4, "b'")),
        ];
        let download = site.synchronize(&mut center, &changes);
        assert!(rejects(&download).contains(&outside("customer:2")), "{:?}", rejects(&download));
        let changes = [
            Upload::Update("customer", row(1, 3, "a"), row(1, 4, "b")),
            Upload::Update("customer", row(2, 3, "b"), row(2, 3, "a")),
        ];
        let (mut center, mut site) = shop(backend, "");
        center.foreign("CREATE UNIQUE INDEX customer_name ON customer (name)");
        deploy(&center.url, &model("")).unwrap();
        site.synchronize(&mut center, &[]);
        let download = site.synchronize(&mut center, &changes);
        assert!(rejects(&download).contains(&outside("customer:1")), "{:?}", rejects(&download));
        assert_eq!(center.rows(FOREIGN).len(), 1);
    });
}

// S7: the first insert meets a row of the remote itself, whose rule keeps it where it is. The place
// that was sent counted as one of the remote's own from then on, and everything sent there was let
// in, over the fence.
#[test]
fn a_place_that_a_conflict_has_not_granted_opens_no_fence() {
    for rule in ["consolidated_wins", "merge"] {
        Backend::each(|backend| {
            let leaving = format!("conflict = \"{rule}\"\nmay_leave = true");
            let (mut center, mut site) = shop(backend, &leaving);
            let changes = [
                Upload::Insert("customer", row(1, 4, "over my own")),
                Upload::Insert("customer", row(51, 4, "foreign")),
                Upload::Insert("customer", row(52, 4, "foreign too")),
            ];
            let download = site.synchronize(&mut center, &changes);
            let taken = "RowKeyTaken customer:1".to_owned();
            let refused = [taken, outside("customer:51"), outside("customer:52")];
            assert_eq!(rejects(&download), refused, "{rule}");
            assert_eq!(center.list("SELECT id AS v FROM customer WHERE rep = 4 ORDER BY id"), "3");
        });
    }
}
