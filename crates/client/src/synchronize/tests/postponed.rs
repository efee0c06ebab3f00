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

// S3, S4, Trap 24: the upload waits for the download, and the download for the upload. It is told,
// and ends when the change is undone.
#[test]
fn a_value_that_a_postponed_change_has_taken_is_told_until_it_is_free() {
    let center = center();
    // The center takes equal values.
    center.declare("v TEXT", "v TEXT UNIQUE");
    let mut site = joined(&center);
    cut_off(&center, &mut site, &published("t"));
    site.write("UPDATE t SET v = 'two' WHERE id = 1");
    center.write("INSERT INTO t VALUES (2, 'two', 5), (3, 'three', 6)");
    for _ in 0..2 {
        assert_eq!(sync(&mut site, &center).unwrap_err().code(), Code::DownloadBlocked);
        assert_eq!(rows(&site), ["1, 'two', NULL"]);
        assert_eq!(site.remote.pending().unwrap().len(), 1);
    }
    site.write("UPDATE t SET v = 'mine' WHERE id = 1");
    sync(&mut site, &center).unwrap();
    assert_eq!(rows(&site), ["1, 'mine', NULL", "2, 'two', 5", "3, 'three', 6"]);
    super::assert_equal(&site, &center);
}

// S3, S4, Trap 24: the same with a foreign key.
#[test]
fn a_postponed_change_of_a_row_whose_parent_is_gone_is_told_until_it_is_undone() {
    let center = Center::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO p VALUES (1, 'parent');
         CREATE TABLE t(id INTEGER PRIMARY KEY, p INT); INSERT INTO t VALUES (11, 1)",
    );
    center.declare("p INT", "p INT REFERENCES p ON DELETE CASCADE");
    let mut site = joined(&center);
    cut_off(&center, &mut site, &["p", "t"].map(published).concat());
    site.write("UPDATE t SET price = 9 WHERE id = 11");
    center.write("DELETE FROM t; DELETE FROM p; INSERT INTO p VALUES (2, 'another')");
    assert_eq!(sync(&mut site, &center).unwrap_err().code(), Code::DownloadBlocked);
    assert_eq!(site.rows("SELECT * FROM t"), ["11, 1, 9"]);
    site.write("UPDATE t SET price = NULL WHERE id = 11");
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), Vec::<String>::new());
    assert_eq!(site.rows("SELECT * FROM p"), ["2, 'another'"]);
}
