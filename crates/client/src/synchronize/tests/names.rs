//! Pending changes of a remote that was reset: no server can say which columns were renamed.

use super::shapes::{joined, rebuild};
use super::{assert_equal, rows, sync};
use crate::synchronize::Counts;
use model::Code;

/// How the columns but the key change: what they are, where they come from, and the model.
struct Change<'a> {
    declared: &'a str,
    query: &'a str,
    lines: &'a str,
}

/// A pending change of a column that may be another one now is reported with its whole row, and
/// nothing is uploaded instead.
fn check(what: &str, changes: &[Change<'_>]) {
    let (center, mut site) = joined();
    site.remote.reset(true).unwrap();
    site.write(
        "UPDATE t SET qty = 11, note = 'mine' WHERE id = 1; INSERT INTO t VALUES (4, 40, 'new');
         DELETE FROM t WHERE id = 2",
    );
    for Change { declared, query, lines } in changes {
        rebuild(&center, declared, query, lines);
    }
    let now = center.rows("SELECT * FROM t WHERE id = 2");
    center.proxy.keep_rows();
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, Counts { deletes: 1, ..Counts::default() }, "{what}");
    let rejects = site.remote.rejects().unwrap();
    let told: Vec<_> = rejects.iter().map(|it| (it.code, it.row.as_deref().unwrap())).collect();
    let code = Code::ColumnLost.number();
    let expected =
        [(code, r#"{"id":1,"qty":11,"note":"mine"}"#), (code, r#"{"id":4,"qty":40,"note":"new"}"#)];
    assert_eq!(told, expected, "{what}");
    assert_equal(&site, &center);
    // The old image of the delete is the downloaded row, not the values under the same names.
    assert_eq!(center.last_upload(&mut site), [format!("delete t ({})", now[0])], "{what}");
}

// Trap 24, S11: the server does not know what a remote holds that was reset, so it does not say
// that `qty` and `note` have changed places, or that a name stands for another column now. What
// waited went up under the names, into columns that it was not meant for.
#[test]
fn what_waits_does_not_go_by_names_that_may_be_used_again() {
    check(
        "swapped",
        &[Change {
            declared: "note INT NOT NULL, qty TEXT",
            query: "SELECT id, qty, note FROM t",
            lines: "renamed = { note = \"qty\", qty = \"note\" }",
        }],
    );
    let renamed = Change {
        declared: "quantity INT NOT NULL, remark TEXT",
        query: "SELECT id, qty, note FROM t",
        lines: "renamed = { quantity = \"qty\", remark = \"note\" }",
    };
    let used_again = Change {
        declared: "quantity INT NOT NULL, remark TEXT, qty INT NOT NULL DEFAULT 0, note TEXT",
        query: "SELECT id, quantity, remark, 1, 'other' FROM t",
        lines: "",
    };
    check("renamed, and the name used again", &[renamed, used_again]);
    let dropped = Change {
        declared: "unused TEXT",
        query: "SELECT id, NULL FROM t",
        lines: "dropped = [\"qty\", \"note\"]",
    };
    let another = Change {
        declared: "qty TEXT, note BLOB",
        query: "SELECT id, '7', 'theirs' FROM t",
        lines: "dropped = [\"unused\"]",
    };
    check("dropped, and another one of the name with another type", &[dropped, another]);
}

// Trap 24: a column that is added after all others does not contradict their names.
#[test]
fn names_that_nothing_speaks_against_are_followed() {
    let (center, mut site) = joined();
    site.remote.reset(true).unwrap();
    site.write("UPDATE t SET qty = 11, note = 'mine' WHERE id = 1");
    let declared = "qty INT NOT NULL, note TEXT, price INT";
    rebuild(&center, declared, "SELECT id, qty, note, 5 FROM t", "");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded.updates, report.rejected), (1, 0));
    assert_equal(&site, &center);
    assert_eq!(rows(&site)[0], "1, 11, 'mine', 5");
}
