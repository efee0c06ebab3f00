//! The oracle: what two databases hold, read with plain SQLite behind Syncline's back.

use crate::postgres::{RemoteColumn, TestDatabase};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs SQL in one transaction with foreign keys on, as an application would. Creates the file
/// if it does not exist.
pub fn sql(path: &Path, text: &str) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    let text = format!("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE; {text}; COMMIT;");
    connection.execute_batch(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
}

/// The same past all triggers: nothing notices, as where a disk or another program errs.
pub fn sql_past_triggers(path: &Path, text: &str) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    connection.execute_batch(text).unwrap_or_else(|error| panic!("{error} in {text}"));
}

/// The rows that a query answers, each value as SQL would write it.
pub fn query(path: &Path, text: &str) -> Vec<Vec<String>> {
    let connection = open(path);
    let mut statement = connection.prepare(text).unwrap();
    let width = statement.column_count();
    let rows =
        statement.query_map([], |row| (0..width).map(|i| Ok(shown(row.get_ref(i)?))).collect());
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

/// The one number that a query answers.
pub fn count(path: &Path, text: &str) -> i64 {
    open(path).query_row(text, [], |row| row.get(0)).unwrap()
}

/// The user's own tables of a database: neither SQLite's nor Syncline's.
pub fn tables(path: &Path) -> Vec<String> {
    let text = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'
                ESCAPE '\\' AND name NOT LIKE 'syncline\\_%' ESCAPE '\\' ORDER BY name";
    let connection = open(path);
    let mut statement = connection.prepare(text).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.collect::<rusqlite::Result<_>>().unwrap()
}

/// What is different in these tables, one line per row; empty when both hold the same rows.
///
/// Values are compared with their storage class, so 1, 1.0 and '1' are three different values.
/// Of columns that only one side has, those of the remote count and those of the consolidated
/// database do not: a publication may leave columns out.
pub fn differences(consolidated: &Path, remote: &Path, tables: &[String]) -> Vec<String> {
    let whole: Vec<Share> = tables.iter().map(|table| Share::whole(table)).collect();
    differences_in(&Center::Sqlite(consolidated.to_owned()), remote, &whole)
}

/// Where the consolidated database is.
#[derive(Debug, Clone)]
pub enum Center {
    /// In a file.
    Sqlite(PathBuf),
    /// In a database of PostgreSQL.
    Postgres(TestDatabase),
}

/// The rows of a table that a remote should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The table, as the remote calls it.
    pub table: String,
    /// Which rows, as SQL over the table `t` of the consolidated database.
    pub condition: String,
}

impl Share {
    /// All rows of the table.
    pub fn whole(table: &str) -> Share {
        Share::of(table, "1 = 1")
    }

    /// The rows of the table that meet the condition.
    pub fn of(table: &str, condition: &str) -> Share {
        Share { table: table.to_owned(), condition: condition.to_owned() }
    }
}

/// What is different between these rows and what the remote has, one line per row.
pub fn differences_in(center: &Center, remote: &Path, shares: &[Share]) -> Vec<String> {
    let mut lines = Vec::new();
    for Share { table, condition } in shares {
        let columns = columns(remote, table);
        if columns.is_empty() {
            lines.push(format!("{table}: missing at the remote"));
            continue;
        }
        let here = dump(remote, table, &columns, "1 = 1");
        let center = match center {
            Center::Sqlite(path) => dump(path, table, &columns, condition),
            Center::Postgres(database) => database.dump_table(table, &columns, condition),
        };
        for (row, copies) in &center {
            let found = here.get(row).copied().unwrap_or(0);
            if found != *copies {
                lines.push(format!("{table}: {row} at the center {copies}, at the remote {found}"));
            }
        }
        for (row, copies) in here.iter().filter(|(row, _)| !center.contains_key(*row)) {
            lines.push(format!("{table}: {row} at the center 0, at the remote {copies}"));
        }
    }
    lines
}

fn columns(path: &Path, table: &str) -> Vec<RemoteColumn> {
    let connection = open(path);
    // Computed columns too: they must come out the same.
    let text = "SELECT name, type FROM pragma_table_xinfo(?1) WHERE hidden <> 1";
    let mut statement = connection.prepare(text).unwrap();
    let names = statement
        .query_map([table], |row| Ok(RemoteColumn { name: row.get(0)?, declared: row.get(1)? }))
        .unwrap();
    names.collect::<rusqlite::Result<_>>().unwrap()
}

/// Every row as text, with how often it occurs.
fn dump(
    path: &Path,
    table: &str,
    columns: &[RemoteColumn],
    condition: &str,
) -> BTreeMap<String, usize> {
    let quoted: Vec<String> = columns
        .iter()
        .map(|column| format!("t.\"{}\"", column.name.replace('"', "\"\"")))
        .collect();
    let table = table.replace('"', "\"\"");
    let mut rows = BTreeMap::new();
    for row in query(
        path,
        &format!("SELECT {} FROM \"{table}\" AS t WHERE {condition}", quoted.join(", ")),
    ) {
        *rows.entry(format!("({})", row.join(", "))).or_insert(0) += 1;
    }
    rows
}

fn open(path: &Path) -> Connection {
    // Read and write, because the log of a killed writer may have to be recovered first.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(path, flags)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => format!("'{text}'"),
            Err(_) => format!("CAST(x'{}' AS TEXT)", hex(text)),
        },
        ValueRef::Blob(bytes) => format!("x'{}'", hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_sees_every_difference() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let create = "CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1)";
        sql(&a, create);
        sql(&b, create);
        assert_eq!(tables(&a), ["t"]);
        let check = |text: &str| {
            sql(&b, text);
            differences(&a, &b, &tables(&a)).len()
        };
        assert_eq!(check(""), 0);
        assert_eq!(check("UPDATE t SET v = '1'"), 2, "a storage class is a difference");
        assert_eq!(check("DELETE FROM t"), 1);
        assert_eq!(check("INSERT INTO t VALUES (1, 1), (2, 2)"), 1);
        sql(&a, "UPDATE t SET v = CAST(x'ff' AS TEXT)");
        assert_eq!(check("DELETE FROM t WHERE id = 2; UPDATE t SET v = CAST(x'fe' AS TEXT)"), 2);
        assert_eq!(check("UPDATE t SET v = CAST(x'ff' AS TEXT)"), 0, "even where it is no text");
        assert_eq!(check("DROP TABLE t"), 1);
    }
}
