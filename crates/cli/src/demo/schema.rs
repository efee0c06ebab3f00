//! The database of the demo: field sales, with keys, foreign keys and a table named `order`.

use model::{Code, Failure};
use rusqlite::Connection;
use std::path::Path;

/// The tables, parents before children.
pub(super) const TABLES: &[&str] =
    &["employee", "customer", "product", "order", "order_line", "purchase"];

/// Who synchronizes, with the number of the employee.
pub(super) const REPRESENTATIVES: &[(&str, i64)] = &[("ann", 2), ("ben", 3), ("cleo", 4)];

/// Purchases that cleo books in one go, enough for an upload that takes a while.
pub(super) const BULK_PURCHASES: i64 = 30_000;

const CREATE: &str = r#"
CREATE TABLE employee (
    employee_id INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    region      TEXT NOT NULL,
    manager_id  INTEGER REFERENCES employee (employee_id)
);
CREATE TABLE customer (
    customer_id INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    phone       TEXT,
    employee_id INTEGER NOT NULL REFERENCES employee (employee_id)
);
CREATE INDEX customer_employee ON customer (employee_id);
CREATE TABLE product (
    product_id  INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    price       NUMERIC(10, 2) NOT NULL CHECK (price >= 0)
);
-- `order` is a word of SQL and has to be quoted everywhere: a good test for any tool.
CREATE TABLE "order" (
    order_id    TEXT PRIMARY KEY NOT NULL,
    customer_id INTEGER NOT NULL REFERENCES customer (customer_id),
    employee_id INTEGER NOT NULL REFERENCES employee (employee_id),
    order_date  TEXT NOT NULL
);
CREATE TABLE order_line (
    order_id    TEXT NOT NULL REFERENCES "order" (order_id) ON DELETE CASCADE,
    line        INTEGER NOT NULL,
    product_id  INTEGER NOT NULL REFERENCES product (product_id),
    quantity    INTEGER NOT NULL CHECK (quantity > 0),
    PRIMARY KEY (order_id, line)
) WITHOUT ROWID;
CREATE TABLE purchase (
    employee_id INTEGER NOT NULL REFERENCES employee (employee_id),
    purchase_id INTEGER NOT NULL,
    customer_id INTEGER NOT NULL REFERENCES customer (customer_id),
    cost        NUMERIC(30, 6) NOT NULL,
    order_date  TIMESTAMP NOT NULL,
    notes       VARCHAR(64),
    PRIMARY KEY (employee_id, purchase_id)
);
"#;

const FILL: &str = r#"
INSERT INTO employee VALUES
    (1, 'Dora Boss', 'all', NULL), (2, 'Ann North', 'north', 1),
    (3, 'Ben South', 'south', 1), (4, 'Cleo West', 'west', 1);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
INSERT INTO customer
    SELECT i, 'Customer ' || i, printf('+49 30 %06d', i * 7919), 2 + i % 3 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO product SELECT i, 'Product ' || i, i * 3 + 0.95 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
INSERT INTO "order"
    SELECT 'hq-' || i, 1 + i % 50, 2 + i % 3, date('2025-01-01', '+' || i || ' days') FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
INSERT INTO order_line
    SELECT order_id, i, 1 + (customer_id + i * 5) % 30, i FROM "order", n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
INSERT INTO purchase
    SELECT 2 + i % 3, i, 1 + i % 50, i * 1.25, datetime('2025-01-01', '+' || i || ' hours'), 'old'
    FROM n;
"#;

/// Creates the consolidated database with its rows.
pub(super) fn create(path: &Path) -> Result<(), Failure> {
    write(path, &format!("{CREATE}{FILL}"))
}

/// Runs SQL in one transaction, as any program of the user's would.
pub(super) fn write(path: &Path, sql: &str) -> Result<(), Failure> {
    let connection = open(path)?;
    connection
        .execute_batch(&format!("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE; {sql} COMMIT;"))
        .map_err(|error| failed(path, error))
}

/// The one number that a query answers.
pub(super) fn count(path: &Path, query: &str) -> Result<i64, Failure> {
    open(path)?.query_row(query, [], |row| row.get(0)).map_err(|error| failed(path, error))
}

/// The one text that a query answers.
pub(super) fn text(path: &Path, query: &str) -> Result<String, Failure> {
    open(path)?.query_row(query, [], |row| row.get(0)).map_err(|error| failed(path, error))
}

fn open(path: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(path).map_err(|error| failed(path, error))?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(|e| failed(path, e))?;
    Ok(connection)
}

/// A failure of SQLite outside of Syncline.
pub(super) fn failed(path: &Path, error: rusqlite::Error) -> Failure {
    Failure::new(Code::CannotWrite, format!("cannot use {}", path.display())).source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_the_demo_is_created_with_every_table_filled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consolidated.db");
        create(&path).unwrap();
        for table in TABLES {
            assert!(count(&path, &format!("SELECT count(*) FROM \"{table}\"")).unwrap() > 0);
        }
        assert_eq!(count(&path, "SELECT count(*) FROM pragma_foreign_key_check").unwrap(), 0);
    }
}
