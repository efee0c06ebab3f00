//! Statements of bookkeeping, which need not be fast and are the same on every database.

use crate::deploy::SystemTables;
use model::{Code, Failure};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// A row whose columns are texts.
pub(crate) type TextRow = Vec<Option<String>>;

/// A statement with its parameters.
pub(crate) type Bound<'a> = (String, &'a [&'a str]);

/// How a database spells what all of them can say.
pub(crate) trait Words {
    const SYSTEM: SystemTables;

    /// Answers with a row where there are system tables.
    const DEPLOYED: &'static str;

    /// In front of the names of system tables.
    const PREFIX: &'static str;

    /// A whole number at random, which statements call `{random}`.
    const RANDOM: &'static str;

    /// Random bytes that sign something, which statements call `{key}`.
    const RANDOM_KEY: &'static str;

    /// Random hexadecimal digits, which statements call `{digits}`.
    const RANDOM_DIGITS: &'static str;

    /// The present time as system tables hold it, which statements call `{now}`.
    const NOW: &'static str;

    /// The same in whole seconds since 1970, which statements call `{unix_s}`.
    const NOW_UNIX_S: &'static str;

    /// Takes every remote from the user `?1`.
    const UNBIND: &'static str;

    /// The text of a time by RFC 3339, to the second and in UTC.
    fn utc(time: &str) -> String;

    /// So many seconds ago, as system tables hold a time.
    fn ago(seconds: &str) -> String;

    /// The whole seconds since a time.
    fn age_s(time: &str) -> String;

    /// Bytes as hexadecimal digits.
    fn hex(bytes: &str) -> String;

    /// Bytes from hexadecimal digits.
    fn unhex(digits: &str) -> String;

    /// What says that two values are the same, also where they are NULL.
    const SAME: &'static str;

    /// A value of a note as a statement spells it, for a column that has its type.
    fn literal(value: &Json) -> Result<String, &'static str>;

    /// A statement in the words of the database.
    fn spelled(sql: &str) -> String {
        let sql = sql.replace("{}", Self::PREFIX).replace("{random}", Self::RANDOM);
        let sql = sql.replace("{key}", Self::RANDOM_KEY).replace("{now}", Self::NOW);
        sql.replace("{digits}", Self::RANDOM_DIGITS).replace("{unix_s}", Self::NOW_UNIX_S)
    }
}

/// A connection as bookkeeping needs it.
///
/// Statements have `{}` in front of system tables, and `?1` and so on for their parameters, which
/// are texts, as all columns that they return.
pub(crate) trait Sql {
    type Words: Words;

    /// Runs a statement of the database's own.
    fn run(&mut self, doing: &str, sql: &str, values: &[&str]) -> Result<Vec<TextRow>, Failure>;

    /// Runs statements of the database's own in one transaction. Returns how many rows each
    /// changed.
    fn run_all(&mut self, doing: &str, statements: &[Bound<'_>]) -> Result<Vec<u64>, Failure>;

    /// Runs a statement of bookkeeping.
    fn bookkeep(
        &mut self,
        doing: &str,
        sql: &str,
        values: &[&str],
    ) -> Result<Vec<TextRow>, Failure> {
        self.run(doing, &Self::Words::spelled(sql), values)
    }

    /// Runs statements of bookkeeping in one transaction. Returns how many rows each changed.
    fn change_all(
        &mut self,
        doing: &str,
        statements: &[(&str, &[&str])],
    ) -> Result<Vec<u64>, Failure> {
        let spelled = statements.iter().map(|(sql, values)| (Self::Words::spelled(sql), *values));
        self.run_all(doing, &spelled.collect::<Vec<_>>())
    }

    /// Runs a statement of bookkeeping. Returns how many rows it changed.
    fn change(&mut self, doing: &str, sql: &str, values: &[&str]) -> Result<u64, Failure> {
        Ok(self.change_all(doing, &[(sql, values)])?.first().copied().unwrap_or_default())
    }
}

/// The text in a column; empty where it is NULL.
pub(crate) fn text(row: &TextRow, column: usize) -> String {
    row.get(column).cloned().flatten().unwrap_or_default()
}

/// What is stored as JSON.
pub(crate) fn json<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| unreadable().source(error))
}

/// The failure of reading what a deployment has stored.
pub(crate) fn unreadable() -> Failure {
    Failure::new(Code::Drift, "the stored table definitions cannot be read")
}

/// The number in a column.
pub(crate) fn number<T: std::str::FromStr>(row: &TextRow, column: usize) -> Result<T, Failure> {
    let garbled = |_| Failure::new(Code::Drift, "a number in a system table does not read");
    text(row, column).parse().map_err(garbled)
}
