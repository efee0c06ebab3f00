//! Other programs that use the databases.

use crate::history::{MEMBER, Schema, Write};
use crate::world::Outcome;
use rusqlite::{Connection, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest wait for a lock.
const BUSY: Duration = Duration::from_secs(20);

/// Statements that a program keeps, those of the oracle with them.
const STATEMENTS: usize = 64;

/// A connection as other programs set it up.
pub(crate) fn set_up(connection: Connection) -> Connection {
    connection.busy_timeout(BUSY).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection
}

/// One transaction.
pub(crate) fn write(schema: &Schema, connection: &Connection, writes: &[Write]) -> Outcome {
    let columns = columns_of(connection);
    let has = |table: &str, column: &str| {
        columns.get(table).is_some_and(|columns| columns.contains(column))
    };
    let sql = writes.iter().filter_map(|write| write.sql(schema, &has));
    let sql: Vec<String> = sql.filter(|sql| !sql.contains(" ()")).collect();
    if sql.is_empty() {
        return Outcome::Nothing;
    }
    let before = connection.total_changes();
    let sql = format!("BEGIN IMMEDIATE; {}; COMMIT", sql.join("; "));
    match connection.execute_batch(&sql) {
        Ok(()) if connection.total_changes() == before => Outcome::Nothing,
        Ok(()) => Outcome::Done,
        Err(error) => {
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").unwrap();
            }
            let refused = error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
                || error.to_string().contains("no such")
                || error.to_string().contains("foreign key mismatch");
            assert!(refused, "{error}: {sql}");
            Outcome::Refused(error.to_string())
        }
    }
}

/// The columns of each table that is there.
fn columns_of(connection: &Connection) -> BTreeMap<String, BTreeSet<String>> {
    let mut columns = BTreeMap::<String, BTreeSet<String>>::new();
    let mut statement = connection
        .prepare_cached(
            "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
             WHERE m.type = 'table' AND m.name NOT LIKE 'syncline%'",
        )
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for (table, column) in rows.map(Result::<(String, String), _>::unwrap) {
        columns.entry(table).or_default().insert(column);
    }
    columns.entry(MEMBER.to_owned()).or_default();
    columns
}
