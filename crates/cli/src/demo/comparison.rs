//! Compares every remote with the consolidated database, row by row.
//!
//! Both files are read with plain SQLite, without Syncline.

use super::folder::Folder;
use super::schema::{REPRESENTATIVES, TABLES, failed};
use model::{Code, Failure};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashMap;
use std::path::Path;
use terminal::output;

/// How one table of a remote differs from the consolidated database.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    rows: u64,
    equal: u64,
    missing: u64,
    surplus: u64,
    changed: u64,
}

impl Difference {
    fn is_none(&self) -> bool {
        self.missing + self.surplus + self.changed == 0
    }

    fn text(&self) -> String {
        if self.is_none() {
            return format!("{} equal", self.equal);
        }
        format!(
            "{} equal, {} missing, {} surplus, {} changed",
            self.equal, self.missing, self.surplus, self.changed
        )
    }
}

/// Prints the table of all remotes; fails if one row differs anywhere.
pub(super) fn run(folder: &Folder) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let mut different = Vec::new();
    for table in TABLES {
        let center = read(&folder.consolidated(), table)?;
        let mut line = vec![format!("  {table}"), center.len().to_string()];
        for (name, _) in REPRESENTATIVES {
            let difference = compare(&center, &read(&folder.remote(name), table)?);
            line.push(difference.text());
            if !difference.is_none() {
                different.push(format!("{name}.{table}"));
            }
        }
        lines.push(line);
    }
    let mut headings = vec!["  table", "consolidated"];
    headings.extend(REPRESENTATIVES.iter().map(|(name, _)| *name));
    output::table(&headings, &lines)?;
    if different.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::Bug, format!("remotes differ: {}", different.join(", "))))
}

/// The rows of a table by primary key, each value with its storage class.
type Rows = HashMap<String, Vec<String>>;

fn read(path: &Path, table: &str) -> Result<Rows, Failure> {
    let failed = |error| failed(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let key = key_columns(&connection, table).map_err(failed)?;
    read_rows(&connection, table, &key).map_err(failed)
}

fn key_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk";
    connection.prepare(sql)?.query_map([table], |row| row.get(0))?.collect()
}

fn read_rows(connection: &Connection, table: &str, key: &[String]) -> rusqlite::Result<Rows> {
    let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\""))?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = Rows::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        // By name, because a remote may hold its columns in another order.
        let mut values = Vec::new();
        let mut row_key = String::new();
        for (position, column) in columns.iter().enumerate() {
            let value = format!("{column}={:?}", row.get::<_, Value>(position)?);
            if key.contains(column) {
                row_key.push_str(&value);
                row_key.push('\n');
            }
            values.push(value);
        }
        values.sort();
        rows.insert(row_key, values);
    }
    Ok(rows)
}

fn compare(center: &Rows, remote: &Rows) -> Difference {
    let mut difference = Difference { rows: center.len() as u64, ..Difference::default() };
    for (key, row) in center {
        match remote.get(key) {
            None => difference.missing += 1,
            Some(other) if other == row => difference.equal += 1,
            Some(_) => difference.changed += 1,
        }
    }
    difference.surplus = remote.keys().filter(|key| !center.contains_key(*key)).count() as u64;
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sql: &str) -> Rows {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        let key = key_columns(&connection, "t").unwrap();
        read_rows(&connection, "t", &key).unwrap()
    }

    #[test]
    fn missing_surplus_and_changed_rows_are_told_apart() {
        let center = rows(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b);
                           INSERT INTO t VALUES (1, 'x'), (2, 2), (3, NULL);",
        );
        // The same rows with their columns in another order are equal; 2 and '2' are not.
        let same = rows(
            "CREATE TABLE t (b, a INTEGER PRIMARY KEY);
                         INSERT INTO t VALUES ('x', 1), (2, 2), (NULL, 3);",
        );
        assert_eq!(compare(&center, &same).text(), "3 equal");
        let other = rows(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b);
                          INSERT INTO t VALUES (1, 'x'), (2, '2'), (4, NULL);",
        );
        let difference = compare(&center, &other);
        assert_eq!(difference.text(), "1 equal, 1 missing, 1 surplus, 1 changed");
        assert!(!difference.is_none());
    }
}
