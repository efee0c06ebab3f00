//! Spare keys: those that rows had for a while, so that others could have theirs.
//!
//! The departure logs have entries of them, and of the keys that foreign keys gave to other rows
//! meanwhile. No remote ever had a row under such a key, so none is to delete one.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::unreadable;
use crate::postgres::tracking::departure_log;
use crate::postgres::tracking::key_log::key_text;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::quote::ident;

/// The number of the last key change.
const LAST: &str = "SELECT coalesce(max(sequence), 0) FROM syncline.syncline_key_change";

/// Tables of which rows came to keys between two such numbers.
const TABLES: &str = "SELECT DISTINCT table_name FROM syncline.syncline_key_change
WHERE sequence > $1 AND sequence <= $2 AND version = pg_current_xact_id()";

/// Columns of a log that have an element for each row.
const ARRAYS: &str = "SELECT a.attname::text FROM pg_attribute AS a
JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND t.typcategory = 'A'";

/// What is known of the spare keys of one constraint cycle: the key changes before and behind those
/// that gave rows such keys.
pub(super) struct Spares {
    before: i64,
    last: i64,
}

impl Spares {
    /// Begins where rows get spare keys.
    pub(super) fn begin(isolation: &mut Isolation<'_, '_>) -> Result<Spares, Stop> {
        let before = last(isolation)?;
        Ok(Spares { before, last: before })
    }

    /// All rows have them that need one.
    pub(super) fn end(&mut self, isolation: &mut Isolation<'_, '_>) -> Result<(), Stop> {
        self.last = last(isolation)?;
        Ok(())
    }

    /// Removes their entries from the departure logs. All rows have other keys now.
    pub(super) fn forget(&self, isolation: &mut Isolation<'_, '_>) -> Result<(), Stop> {
        if self.last == self.before {
            return Ok(());
        }
        let forgetting = stopped("forget spare keys");
        isolation.flush()?;
        let found = isolation.link.query(TABLES, &[&self.before, &self.last]);
        let mut names = Vec::new();
        for row in found.map_err(&forgetting)? {
            names.push(row.try_get::<String>(0).map_err(unreadable)?);
        }
        let tables = isolation.upload.tables;
        for table in tables.iter().filter(|it| names.contains(&it.deployed.published.name)) {
            if table.deployed.published.direction.downloads() {
                self.forget_of(isolation, table)?;
            }
        }
        Ok(())
    }

    fn forget_of(&self, isolation: &mut Isolation<'_, '_>, table: &Table) -> Result<(), Stop> {
        let forgetting = stopped("forget spare keys");
        let name = &table.deployed.published.name;
        let log = departure_log::log(name);
        let mut arrays = Vec::new();
        for row in isolation.link.query(ARRAYS, &[&log]).map_err(&forgetting)? {
            arrays.push(row.try_get::<String>(0).map_err(unreadable)?);
        }
        let sql = forget(table, &log, &arrays);
        isolation.link.query(&sql, &[name, &self.before, &self.last]).map_err(&forgetting)?;
        Ok(())
    }
}

fn last(isolation: &mut Isolation<'_, '_>) -> Result<i64, Stop> {
    isolation.flush()?;
    let rows = isolation.link.query(LAST, &[]).map_err(stopped("forget spare keys"))?;
    let last = rows.first().map(|row| row.try_get(0)).transpose().map_err(unreadable)?;
    Ok(last.unwrap_or_default())
}

/// Removes the departures from spare keys of table `$1`, to which rows came after key change `$2`
/// and up to `$3`.
///
/// A row that had such a key before this transaction was known to remotes under it. Then the row
/// left the key before another came to it, or was deleted. The first shows in the order of the key
/// changes, the second in a departure without a key change.
fn forget(table: &Table, log: &str, arrays: &[String]) -> String {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let named = |at: &u16| {
        let at = usize::from(*at);
        (published.columns[at].as_str(), details.columns[at].cast.as_str())
    };
    let key: Vec<(&str, &str)> = published.key.iter().map(named).collect();
    let value = |(name, cast): &(&str, &str)| {
        let column = ident(name);
        // A column whose values are arrays is not one of arrays of them.
        match arrays.iter().any(|array| array == name) && !cast.ends_with("[]") {
            true => format!("unnest({column}) AS {column}"),
            false => column,
        }
    };
    let values = key.iter().map(value).collect::<Vec<_>>().join(", ");
    format!(
        "WITH came AS (
    SELECT m.new_key AS key, min(m.sequence) AS first FROM syncline.syncline_key_change AS m
    WHERE m.table_name = $1::text AND m.version = pg_current_xact_id()
        AND m.new_key <> m.old_key
    GROUP BY m.new_key
    HAVING bool_or(m.sequence > $2::bigint AND m.sequence <= $3::bigint)
), went AS (
    SELECT c.key, count(*) FILTER (WHERE m.sequence > $2::bigint) AS times
    FROM came AS c JOIN syncline.syncline_key_change AS m
        ON m.table_name = $1::text AND m.old_key = c.key AND m.version = pg_current_xact_id()
    WHERE m.new_key <> m.old_key
    GROUP BY c.key HAVING min(m.sequence) > min(c.first)
), entry AS (
    SELECT l.entry, {key} AS key FROM (
        SELECT ctid AS entry, {values} FROM {log}
        WHERE syncline_version = pg_current_xact_id()
    ) AS l
), spare AS (
    SELECT w.key FROM went AS w JOIN entry AS e ON e.key = w.key
    GROUP BY w.key, w.times HAVING count(*) = w.times
)
DELETE FROM {log} WHERE syncline_version = pg_current_xact_id()
    AND ctid IN (SELECT e.entry FROM entry AS e JOIN spare AS s ON s.key = e.key)",
        key = key_text("l", key.iter().copied()),
    )
}
