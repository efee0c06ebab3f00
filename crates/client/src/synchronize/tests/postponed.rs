//! Changes that wait for the rows of new columns, and that block these rows.

use super::shapes::table;
use super::{family, rows, sync};
use crate::testing::centre::{Centre, Fault, SharedCentre};
use crate::testing::{Site, int, text};
use model::PublishedTable;

/// The same with one more column.
fn wider(narrow: &PublishedTable, declared: &str) -> PublishedTable {
    let mut columns: Vec<&str> = narrow.columns.iter().map(String::as_str).collect();
    columns.push("price");
    table(&narrow.name, &columns, &format!("{declared}, price REAL"), "wider")
}

/// The remote holds the new tables, and dies before it has their rows.
fn cut_off(centre: &SharedCentre, site: &mut Site, tables: &[PublishedTable]) {
    centre.borrow_mut().takes_held_shapes = true;
    centre.borrow_mut().publish(tables);
    centre.borrow_mut().fault = Fault::AfterSchemaChange;
    sync(site, centre).unwrap_err();
}

// S3, Trap 24: the upload waited for the download, and the download for the upload. The remote
// never synchronized again (E5006).
#[test]
fn a_value_that_a_postponed_change_has_taken_ends_no_synchronization() {
    let declared = "id INTEGER PRIMARY KEY, v TEXT UNIQUE";
    let narrow = table("t", &["id", "v"], declared, "narrow");
    let centre = Centre::new(std::slice::from_ref(&narrow));
    centre.borrow_mut().put(0, &[int(1), text("one")]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    cut_off(&centre, &mut site, &[wider(&narrow, declared)]);
    site.write("UPDATE t SET v = 'two' WHERE id = 1");
    centre.borrow_mut().put(0, &[int(2), text("two"), int(5)]);
    centre.borrow_mut().put(0, &[int(3), text("three"), int(6)]);
    sync(&mut site, &centre).unwrap();
    assert_eq!(centre.borrow().lines(0)[0], "1, 'two', NULL", "the change went up");
    assert_eq!(site.remote.pending().unwrap(), []);
    assert_eq!(rows(&site), ["1, 'two', NULL", "3, 'three', 6"]);
    // This centre takes equal values. One of them goes, and the other has room.
    centre.borrow_mut().put(0, &[int(1), text("one again"), int(7)]);
    sync(&mut site, &centre).unwrap();
    assert_eq!(rows(&site), ["1, 'one again', 7", "2, 'two', 5", "3, 'three', 6"]);
}

// S3, S4, Trap 24: the same with a foreign key.
#[test]
fn a_postponed_change_of_a_row_whose_parent_is_gone_ends_no_synchronization() {
    let tables = family();
    let centre = Centre::new(&tables);
    centre.borrow_mut().put(0, &[int(1), text("parent")]);
    centre.borrow_mut().put(1, &[int(11), int(1)]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    let declared = "id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE";
    cut_off(&centre, &mut site, &[tables[0].clone(), wider(&tables[1], declared)]);
    site.write("UPDATE t SET price = 9 WHERE id = 11");
    centre.borrow_mut().remove(1, 11);
    centre.borrow_mut().remove(0, 1);
    centre.borrow_mut().put(0, &[int(2), text("another")]);
    sync(&mut site, &centre).unwrap();
    assert_eq!(centre.borrow().uploads.len(), 1, "the change went up");
    assert_eq!(site.remote.pending().unwrap(), []);
    sync(&mut site, &centre).unwrap();
    assert_eq!(site.rows("SELECT * FROM p"), ["2, 'another'"]);
}
