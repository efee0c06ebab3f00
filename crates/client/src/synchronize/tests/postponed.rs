//! Changes that wait for the rows of new columns, and that block these rows.

use super::{center, joined, rows, sync};
use crate::testing::Site;
use crate::testing::center::{Center, published};
use harness::Fault;
use model::Code;

/// The remote holds the tables with one more column in `t`, and its connection ends before it has
/// their rows.
fn cut_off(center: &Center, site: &mut Site, tables: &str) {
    center.deploy("ALTER TABLE t ADD COLUMN price REAL", tables);
    center.proxy.strike(Fault::AfterSchemaChange);
    sync(site, center).unwrap_err();
}

fn assert_told(site: &Site, row: &str) {
    let rejects = site.remote.rejects().unwrap();
    assert_eq!(rejects.len(), 1, "{rejects:?}");
    assert_eq!(rejects[0].code, Code::RowDiffersOnReturn.number());
    assert_eq!(rejects[0].row.as_deref(), Some(row));
    assert_eq!(site.remote.pending().unwrap(), []);
}

// S3, S5, Trap 24: the upload waited for the download, and the download for the upload. The remote
// never synchronized again (E5006).
#[test]
fn a_postponed_change_that_has_taken_a_value_is_told_and_ends_no_synchronization() {
    let center = center();
    // The center takes equal values.
    center.declare("v TEXT", "v TEXT UNIQUE");
    let mut site = joined(&center);
    cut_off(&center, &mut site, &published("t"));
    site.write("UPDATE t SET v = 'two' WHERE id = 1");
    center.write("INSERT INTO t VALUES (2, 'two', 5), (3, 'three', 6)");
    assert_eq!(sync(&mut site, &center).unwrap().rejected, 1);
    assert_told(&site, r#"{"id":1,"v":"two","price":null}"#);
    assert_eq!(rows(&site), ["1, 'one', NULL", "2, 'two', 5", "3, 'three', 6"]);
    super::assert_equal(&site, &center);
}

// S3, S5, Trap 24: a row that was written as it is has an entry, and is no change that could be
// told. It postponed the change of another table that was in the way, and the remote never
// synchronized again (E5006).
#[test]
fn a_postponed_row_that_is_as_it_was_holds_up_no_other_table() {
    let center = Center::new(
        "CREATE TABLE u(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO u VALUES (1, 'one');
         CREATE TABLE t(id INTEGER PRIMARY KEY, w INT); INSERT INTO t VALUES (11, 1)",
    );
    center.declare("v TEXT", "v TEXT UNIQUE");
    let mut site = joined(&center);
    cut_off(&center, &mut site, &["t", "u"].map(published).concat());
    site.write("UPDATE t SET w = w WHERE id = 11; UPDATE u SET v = 'two' WHERE id = 1");
    center.write("INSERT INTO u VALUES (2, 'two')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!((report.uploaded.updates, report.rejected), (1, 1), "the change went up");
    assert_eq!(center.rows("SELECT * FROM u"), ["1, 'two'", "2, 'two'"]);
    assert_eq!(site.remote.pending().unwrap(), []);
}

// S3, S4, Trap 24: a foreign key leaves room for the change.
#[test]
fn a_postponed_change_of_a_row_whose_parent_is_gone_ends_no_synchronization() {
    let center = Center::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO p VALUES (1, 'parent');
         CREATE TABLE t(id INTEGER PRIMARY KEY, p INT); INSERT INTO t VALUES (11, 1)",
    );
    center.declare("p INT", "p INT REFERENCES p ON DELETE CASCADE");
    let mut site = joined(&center);
    cut_off(&center, &mut site, &["p", "t"].map(published).concat());
    site.write("UPDATE t SET price = 9 WHERE id = 11");
    center.write("DELETE FROM t; DELETE FROM p; INSERT INTO p VALUES (2, 'another')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded.updates, 1, "the change went up");
    assert_eq!(site.remote.pending().unwrap(), []);
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT * FROM p"), ["2, 'another'"]);
}
