//! What lies in columns that are not published goes with its row, and is recorded.

use super::{rows, sync};
use crate::testing::Site;
use crate::testing::center::Center;
use model::Code;

/// A remote with three rows of its partition, and columns of its own.
fn joined() -> (Center, Site) {
    joined_by("partition = { custom = \"t.qty < 100\" }")
}

fn joined_by(partition: &str) -> (Center, Site) {
    let model = format!(
        "[table.t]\ncolumns = [\"id\", \"qty\"]\ndirection = \"both\"\n\
         conflict = \"consolidated_wins\"\n{partition}\n"
    );
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, qty INT NOT NULL)";
    let center = Center::publishing(sql, Some(&model));
    center.write("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)");
    let mut site = Site::empty();
    sync(&mut site, &center).unwrap();
    site.write(
        "ALTER TABLE t ADD COLUMN color TEXT; ALTER TABLE t ADD COLUMN seen INT DEFAULT 0;
         ALTER TABLE t ADD COLUMN twice INT AS (qty * 2)",
    );
    (center, site)
}

fn told(site: &Site) -> Vec<(u16, String)> {
    let rejects = site.remote.rejects().unwrap();
    rejects.into_iter().map(|it| (it.code, it.row.unwrap())).collect()
}

// S5, S6: a row left the partition, another was deleted at the center, and what the user had
// written beside them was gone without a record.
#[test]
fn what_lies_in_columns_of_the_users_own_is_told_when_its_row_goes() {
    let (center, mut site) = joined();
    site.write("UPDATE t SET color = 'red' WHERE id = 1; UPDATE t SET seen = 1 WHERE id = 2");
    center.write("UPDATE t SET qty = 200 WHERE id IN (1, 3); DELETE FROM t WHERE id = 2");
    sync(&mut site, &center).unwrap();
    assert_eq!(rows(&site), Vec::<String>::new());
    let code = Code::OwnValuesGone.number();
    let mut told = told(&site);
    told.sort();
    let red = r#"{"id":1,"qty":10,"color":"red","seen":0}"#.to_owned();
    let seen = r#"{"id":2,"qty":20,"seen":1}"#.to_owned();
    assert_eq!(told, [(code, red), (code, seen)], "the row with defaults says nothing");
    sync(&mut site, &center).unwrap();
    assert_eq!(site.remote.rejects().unwrap().len(), 2);
}

// S5, S7: a row that the center refused was recorded without them.
#[test]
fn a_reject_has_what_lies_in_columns_of_the_users_own_and_brings_it_back() {
    let (center, mut site) = joined();
    site.write("INSERT INTO t(id, qty, color) VALUES (4, 400, 'blue')");
    let report = sync(&mut site, &center).unwrap();
    assert_eq!(report.rejected, 1);
    let blue = r#"{"id":4,"qty":400,"color":"blue","seen":0}"#.to_owned();
    assert_eq!(told(&site), [(Code::RowOutsideSubscription.number(), blue)]);
    assert_eq!(site.rows("SELECT count(*) FROM t WHERE id = 4"), ["0"]);
    let id = site.remote.rejects().unwrap()[0].id;
    site.remote.retry_rejects(&[id], false).unwrap();
    assert_eq!(site.rows("SELECT qty, color FROM t WHERE id = 4"), ["400, 'blue'"]);
}

// S4, S6: the center gives a row another key. It is another row here, and what lay beside the
// published columns of the former one is told.
#[test]
fn a_row_that_gets_another_key_tells_what_was_its_own() {
    let (center, mut site) = joined_by("");
    site.write("UPDATE t SET color = 'red' WHERE id = 1");
    center.write("UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET qty = 21 WHERE id = 2");
    sync(&mut site, &center).unwrap();
    assert_eq!(site.rows("SELECT id, qty FROM t ORDER BY id"), ["2, 21", "3, 30", "9, 10"]);
    assert_eq!(site.rows("SELECT color FROM t WHERE id = 9"), ["NULL"]);
    let red = r#"{"id":1,"qty":10,"color":"red","seen":0}"#.to_owned();
    assert_eq!(told(&site), [(Code::OwnValuesGone.number(), red)]);
}
