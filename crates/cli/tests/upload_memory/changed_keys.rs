//! Rows whose keys change, and rows that refer to them (trap 21).

use crate::site::{Cell, Part, Site, key, key_sql};
use harness::sql;
use protocol::Operation;

const FOLLOWING: &str = "CREATE TABLE item (id TEXT PRIMARY KEY, n INTEGER);
    CREATE TABLE part (id INTEGER PRIMARY KEY,
        item TEXT REFERENCES item (id) ON UPDATE CASCADE, n INTEGER);
    CREATE INDEX part_item ON part (item)";

fn item(kind: &str, n: u32) -> Vec<Cell> {
    vec![Cell::from(key(kind, n)), Cell::from(1)]
}

fn items(kinds: [&str; 2], n: u32) -> Vec<Cell> {
    kinds.into_iter().flat_map(|kind| item(kind, n)).collect()
}

fn part(kind: &str, n: u32, value: i64) -> Vec<Cell> {
    vec![Cell::from(i64::from(n)), Cell::from(key(kind, n)), Cell::from(value)]
}

fn rows(kinds: &[&str]) -> Vec<String> {
    let mut rows: Vec<String> =
        kinds.iter().map(|kind| format!("item SELECT {}, 1", key_sql(kind))).collect();
    rows.push(format!("part SELECT n, {}, 1", key_sql("a")));
    rows
}

// S9: what became of keys, and the rows as they were sent under the old ones, were held.
#[test]
fn rows_follow_the_changed_keys_of_the_same_upload() {
    Site::each(FOLLOWING, &rows(&["a"]), |site| {
        let parts = |n| [part("a", n, 1), part("x", n, 2)].into_iter().flatten().collect();
        let committed = site.upload(&[
            Part { table: "item", operation: Operation::KeyChange, row: &|n| items(["a", "x"], n) },
            Part { table: "part", operation: Operation::Update, row: &parts },
        ]);
        assert_eq!((committed.rejected, committed.conflicts), (0, 0));
        let there = "SELECT count(*) FROM part WHERE n = 2 AND item LIKE 'x%'";
        assert_eq!(site.count(there), i64::from(site.rows));
    });
}

// S9: the same of keys that rows should have had, and did not get.
#[test]
fn rows_follow_the_keys_that_were_kept() {
    Site::each(FOLLOWING, &rows(&["a", "x"]), |site| {
        let added = |n| vec![Cell::from(i64::from(n) + 1_000_000), key("x", n).into(), 2.into()];
        let committed = site.upload(&[
            Part { table: "item", operation: Operation::KeyChange, row: &|n| items(["a", "x"], n) },
            Part { table: "part", operation: Operation::Insert, row: &added },
        ]);
        assert_eq!(committed.rejected, u64::from(site.rows));
        let there = "SELECT count(*) FROM part WHERE n = 2 AND item LIKE 'a%'";
        assert_eq!(site.count(there), i64::from(site.rows));
    });
}

// S9: the same of keys that others have changed.
#[test]
fn rows_follow_the_keys_that_others_have_changed() {
    Site::each(FOLLOWING, &rows(&["a"]), |site| {
        site.synchronize();
        site.world.center_sql("UPDATE item SET id = 'x' || id");
        sql(&site.world.remote("ann"), "UPDATE part SET n = 2");
        let summary = site.synchronize_measured();
        assert_eq!(summary["uploaded"]["updates"], site.rows, "{summary}");
        assert_eq!((&summary["rejected"], &summary["conflicts"]), (&0.into(), &0.into()));
        let there = "SELECT count(*) FROM part WHERE n = 2 AND item LIKE 'xa%'";
        assert_eq!(site.count(there), i64::from(site.rows));
    });
}

// S9: keys of deleted rows that other rows take were held, and the deletes that go first.
#[test]
fn keys_pass_from_deleted_rows_to_others() {
    Site::each(FOLLOWING, &rows(&["a", "x"]), |site| {
        let committed = site.upload(&[
            Part { table: "item", operation: Operation::KeyChange, row: &|n| items(["x", "a"], n) },
            Part { table: "part", operation: Operation::Delete, row: &|n| part("a", n, 1) },
            Part { table: "item", operation: Operation::Delete, row: &|n| item("a", n) },
        ]);
        assert_eq!((committed.rejected, committed.conflicts), (0, 0));
        assert_eq!(
            site.count("SELECT count(*) FROM item WHERE id LIKE 'a%'"),
            i64::from(site.rows)
        );
    });
}

// S9: rows that exchange their keys, and those that stay with the key and not with the row.
#[test]
fn rows_stay_with_keys_that_are_exchanged() {
    Site::each(FOLLOWING, &rows(&["a"]), |site| {
        let other = |n: u32| if n.is_multiple_of(2) { n - 1 } else { n + 1 };
        let swapped = |n| [item("a", n), item("a", other(n))].into_iter().flatten().collect();
        let staying = |n| [part("a", n, 1), part("a", n, 2)].into_iter().flatten().collect();
        let committed = site.upload(&[
            Part { table: "item", operation: Operation::KeyChange, row: &swapped },
            Part { table: "part", operation: Operation::Update, row: &staying },
        ]);
        assert_eq!((committed.rejected, committed.conflicts), (0, 0));
        let there = "SELECT count(*) FROM part JOIN item ON item.id = part.item WHERE part.n = 2";
        assert_eq!(site.count(there), i64::from(site.rows));
    });
}
