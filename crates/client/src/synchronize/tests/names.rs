//! Pending changes, and a server that does not say which columns were renamed.

use super::shapes::{assert_equal, joined, table};
use super::{rows, sync};
use crate::synchronize::Counts;
use crate::testing::{int, text};
use model::{Code, PublishedTable};

fn with(columns: &[&str], declared: &str, fingerprint: &str) -> PublishedTable {
    table("t", columns, &format!("id INTEGER PRIMARY KEY, {declared}"), fingerprint)
}

/// A pending change of a column that may be another one now is reported with its whole row, and
/// nothing is uploaded instead.
fn check(what: &str, changed: &PublishedTable, now: &[model::Value]) {
    let (centre, mut site) = joined();
    centre.borrow_mut().takes_held_shapes = false;
    site.write(
        "UPDATE t SET qty = 11, note = 'mine' WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new');
         DELETE FROM t WHERE id = 2",
    );
    centre.borrow_mut().publish(std::slice::from_ref(changed));
    for id in 1..=3 {
        let row: Vec<_> = [int(id)].into_iter().chain(now.iter().cloned()).collect();
        centre.borrow_mut().put(0, &row);
    }
    centre.borrow_mut().uploads.clear();
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!(report.uploaded, Counts { deletes: 1, ..Counts::default() }, "{what}");
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> = rejects.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let code = Code::ColumnLost.number();
    let expected =
        [(code, r#"{"id":1,"qty":11,"note":"mine"}"#), (code, r#"{"id":4,"qty":40,"note":"new"}"#)];
    assert_eq!(told, expected, "{what}");
    assert_equal(&site, &centre);
    let uploads = centre.borrow().uploads.clone();
    assert!(!uploads.iter().any(|it| it.contains("mine") || it.contains("new")), "{uploads:?}");
    // The old image of the delete is the downloaded row, not the values under the same names.
    let shown: Vec<String> = now.iter().map(|value| value.as_ref().display()).collect();
    assert_eq!(uploads, [format!("delete t (2, {})", shown.join(", "))], "{what}");
}

// Trap 24, S11: a server of before wants the new tables first and does not say that `qty` and
// `note` have changed places, or that a name stands for another column now. What waited went up
// under the names, into columns that it was not meant for.
#[test]
fn what_waits_does_not_go_by_names_that_may_be_used_again() {
    let (number, word) = (int(70), text("theirs"));
    check(
        "swapped",
        &with(&["id", "note", "qty"], "note INT NOT NULL, qty TEXT", "swapped"),
        &[number.clone(), word.clone()],
    );
    check(
        "renamed, and the name used again",
        &with(
            &["id", "quantity", "remark", "qty", "note"],
            "quantity INT NOT NULL, remark TEXT, qty INT NOT NULL DEFAULT 0, note TEXT",
            "reused",
        ),
        &[number.clone(), word.clone(), int(1), text("other")],
    );
    check(
        "dropped, and another one of the name with another type",
        &with(&["id", "qty", "note"], "qty TEXT, note BLOB", "retyped"),
        &[text("7"), word],
    );
}

// Trap 24: a column that is added after all others does not contradict their names.
#[test]
fn names_that_nothing_speaks_against_are_followed() {
    let (centre, mut site) = joined();
    centre.borrow_mut().takes_held_shapes = false;
    site.write("UPDATE t SET qty = 11, note = 'mine' WHERE id = 1");
    let added =
        with(&["id", "qty", "note", "price"], "qty INT NOT NULL, note TEXT, price INT", "added");
    centre.borrow_mut().publish(&[added]);
    for id in 1..=3 {
        centre.borrow_mut().put(0, &[int(id), int(id * 10), text("old"), int(5)]);
    }
    let report = sync(&mut site, &centre).unwrap();
    assert_eq!((report.uploaded.updates, report.rejected), (1, 0));
    assert_equal(&site, &centre);
    assert_eq!(rows(&site)[0], "1, 11, 'mine', 5");
}
