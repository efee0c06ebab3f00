//! Rows that refer to others, and rows to which others refer.

use crate::site::{Cell, Part, Site, key, key_sql};
use protocol::Operation;

const RING: &str = "CREATE TABLE item (id TEXT PRIMARY KEY, above TEXT REFERENCES item (id));
    CREATE INDEX item_above ON item (above)";

// S9, Trap 11: to find whom to blame for broken foreign keys, all rows of the upload were held, and
// all that refer to nothing.
#[test]
fn rows_that_refer_to_nothing_are_blamed() {
    let deferred = RING.replace("(id))", "(id) DEFERRABLE INITIALLY DEFERRED)");
    for tables in [RING, &deferred] {
        Site::each(tables, &[], |site| {
            let row = |n| vec![Cell::from(key("a", n)), Cell::from(key("b", n))];
            let committed =
                site.upload(&[Part { table: "item", operation: Operation::Insert, row: &row }]);
            assert_eq!(committed.rejected, u64::from(site.rows));
            assert_eq!(site.count("SELECT count(*) FROM item"), 0);
        });
    }
}

// S9: the same of rows that cannot go because others refer to them.
#[test]
fn rows_to_which_others_refer_are_blamed() {
    let tables = "CREATE TABLE item (id TEXT PRIMARY KEY, n INTEGER);
        CREATE TABLE part (id INTEGER PRIMARY KEY, item TEXT REFERENCES item (id));
        CREATE INDEX part_item ON part (item)";
    let id = key_sql("a");
    let rows = [format!("item SELECT {id}, 1"), format!("part SELECT n, {id}")];
    Site::each(tables, &rows, |site| {
        let row = |n| vec![Cell::from(key("a", n)), Cell::from(1)];
        let committed =
            site.upload(&[Part { table: "item", operation: Operation::Delete, row: &row }]);
        assert_eq!(committed.rejected, u64::from(site.rows));
        assert_eq!(site.count("SELECT count(*) FROM item"), i64::from(site.rows));
    });
}

// S9, Trap 24: what is reported of rows with values that no column takes any more was held.
#[test]
fn values_without_a_column_are_reported() {
    let tables = "CREATE TABLE item (id TEXT PRIMARY KEY, note TEXT, n INTEGER)";
    Site::each(tables, &[], |site| {
        let world = &site.world;
        site.synchronize();
        world.center_sql("ALTER TABLE item DROP COLUMN note");
        let model = "script_version = \"v1\"\n[table.item]\ndropped = [\"note\"]\n";
        std::fs::write(world.path("model.toml"), model).unwrap();
        world.syncline.ok(&["deploy"]);
        let rows = format!(
            "WITH RECURSIVE number(n) AS (
                 SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {})
             INSERT INTO item SELECT {}, 'lost', n FROM number",
            site.rows,
            key_sql("a"),
        );
        harness::sql(&world.remote("ann"), &rows);
        let summary = site.synchronize_measured();
        assert_eq!(summary["rejected"], site.rows, "{summary}");
        assert_eq!(site.count("SELECT count(*) FROM item"), i64::from(site.rows));
    });
}
