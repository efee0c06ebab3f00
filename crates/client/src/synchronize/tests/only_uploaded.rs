//! Tables of which nothing is downloaded.

use super::sync;
use crate::synchronize::Counts;
use crate::testing::Site;
use crate::testing::center::{Center, published};
use model::Code;

/// The text of a model section for a table that is only uploaded.
fn uploaded(table: &str) -> String {
    format!("[table.{table}]\ndirection = \"upload_only\"\n")
}

// S1, S11, Trap 3: a restored center had lost rows that were uploaded. No download compared them,
// so nobody learned of it.
#[test]
fn what_a_restored_center_may_have_lost_is_told_once() {
    let center = Center::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)");
    center.deploy("", &uploaded("t"));
    let mut site = Site::empty();
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (1, 'one')");
    sync(&mut site, &center).unwrap();
    let copy = center.back_up();
    site.write("INSERT INTO t VALUES (2, 'two')");
    sync(&mut site, &center).unwrap();
    assert_eq!(site.remote.rejects().unwrap(), []);
    center.restore(&copy);
    site.write("INSERT INTO t VALUES (3, 'three')");
    for _ in 0..2 {
        sync(&mut site, &center).unwrap();
        assert_eq!(center.rows("SELECT id FROM t ORDER BY id"), ["1", "3"]);
        let rejects = site.remote.rejects().unwrap();
        let rows: Vec<&str> = rejects.iter().filter_map(|it| it.row.as_deref()).collect();
        // What was uploaded since is there for sure.
        assert_eq!(rows, [r#"{"id":2,"v":"two"}"#, r#"{"id":1,"v":"one"}"#]);
        assert!(rejects.iter().all(|it| it.code == Code::RowPerhapsLost.number()));
        assert_eq!(site.rows("SELECT id FROM t ORDER BY id"), ["1", "2", "3"]);
    }
    // As the hint says.
    site.write("DELETE FROM t WHERE id = 2");
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (2, 'two')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.uploaded, Counts { inserts: 1, updates: 0, deletes: 0 });
    assert_eq!(center.rows("SELECT id FROM t ORDER BY id"), ["1", "2", "3"]);
}

// S4: the definition of the table got a foreign key, which a row here broke. No download looked at
// the table, so the row went on breaking it.
#[test]
fn a_new_foreign_key_holds_after_the_download() {
    let center = Center::new(
        "CREATE TABLE parent(id INTEGER PRIMARY KEY);
         CREATE TABLE t(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent);
         INSERT INTO parent VALUES (1);",
    );
    center.deploy("", &format!("unpublished = [\"parent\"]\n{}", uploaded("t")));
    let mut site = Site::empty();
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (10, 1), (20, 2)");
    assert_eq!(sync(&mut site, &center).unwrap().rejected, 1);
    center.deploy("", &format!("{}{}", published("parent"), uploaded("t")));
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT * FROM pragma_foreign_key_check"), [""; 0]);
    assert_eq!(site.rows("SELECT id FROM t"), ["10"]);
    // It is set aside, and comes back with its parent.
    center.write("INSERT INTO parent VALUES (2)");
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT id FROM t ORDER BY id"), ["10", "20"]);
    assert_eq!(site.rows("SELECT * FROM pragma_foreign_key_check"), [""; 0]);
}
