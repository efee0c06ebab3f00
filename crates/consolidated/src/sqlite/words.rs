//! How SQLite is spoken to where bookkeeping is the same on every database.

use crate::deploy::SystemTables;
use crate::sql::{Bound, Sql, TextRow, Words};
use crate::sqlite::deploy::system_tables;
use crate::sqlite::errors::failed;
use model::Failure;
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};
use serde_json::Value as Json;

/// SQLite's words.
#[derive(Debug)]
pub(crate) struct SqliteWords;

impl Words for SqliteWords {
    const SYSTEM: SystemTables = system_tables::SYSTEM;
    const DEPLOYED: &'static str =
        "SELECT '1' FROM sqlite_schema WHERE type = 'table' AND name = 'syncline_system'";
    const PREFIX: &'static str = "";
    const RANDOM: &'static str = "random()";
    const RANDOM_KEY: &'static str = "randomblob(32)";
    const RANDOM_DIGITS: &'static str = "lower(hex(randomblob(8)))";
    const NOW: &'static str = "datetime('now')";
    const NOW_UNIX_S: &'static str = "CAST(strftime('%s', 'now') AS INTEGER)";
    const UNBIND: &'static str = "UPDATE {}syncline_remote SET epoch = epoch + 1, bound_users = (
             SELECT json_group_array(value) FROM json_each(bound_users) WHERE value <> ?1)
         WHERE json_valid(bound_users) AND EXISTS (
             SELECT 1 FROM json_each(bound_users) WHERE value = ?1)";

    const SAME: &'static str = "IS";

    fn literal(value: &Json) -> Result<String, &'static str> {
        let part = |name: &str| value.get(name).and_then(Json::as_str);
        Ok(match value {
            Json::Null => "NULL".to_owned(),
            Json::Number(number) => number.to_string(),
            Json::String(text) => format!("'{}'", text.replace('\'', "''")),
            _ => match (part("blob"), part("text"), part("real")) {
                (Some(digits), ..) => format!("x'{digits}'"),
                (_, Some(digits), _) => format!("CAST(x'{digits}' AS TEXT)"),
                (.., Some(number)) if number.starts_with('-') => "-9e999".to_owned(),
                (.., Some(_)) => "9e999".to_owned(),
                _ => return Err("a value in its note does not read"),
            },
        })
    }

    fn utc(time: &str) -> String {
        format!("strftime('%Y-%m-%dT%H:%M:%SZ', {time})")
    }

    fn ago(seconds: &str) -> String {
        format!("datetime('now', '-' || ({seconds}) || ' seconds')")
    }

    fn age_s(time: &str) -> String {
        format!("CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', {time}) AS INTEGER)")
    }

    fn hex(bytes: &str) -> String {
        format!("hex({bytes})")
    }

    fn unhex(digits: &str) -> String {
        format!("unhex({digits})")
    }
}

impl Sql for &Connection {
    type Words = SqliteWords;

    fn run_all(&mut self, doing: &str, statements: &[Bound<'_>]) -> Result<Vec<u64>, Failure> {
        let run = || {
            let transaction = Transaction::new_unchecked(self, TransactionBehavior::Immediate)?;
            let run = |(sql, values): &Bound<'_>| {
                Ok(transaction.execute(sql, params_from_iter(*values))? as u64)
            };
            let changed = statements.iter().map(run).collect::<rusqlite::Result<_>>()?;
            transaction.commit().map(|()| changed)
        };
        run().map_err(failed(doing))
    }

    fn run(&mut self, doing: &str, sql: &str, values: &[&str]) -> Result<Vec<TextRow>, Failure> {
        let mut statement = self.prepare(sql).map_err(failed(doing))?;
        let width = statement.column_count();
        statement
            .query_map(params_from_iter(values), |row| (0..width).map(|at| row.get(at)).collect())
            .and_then(Iterator::collect)
            .map_err(failed(doing))
    }
}
