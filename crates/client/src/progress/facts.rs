//! The facts of `syncline_state`, each by its name.

use crate::sql::{list, parameters};
use rusqlite::OptionalExtension;
use rusqlite::types::{FromSql, Null};
use rusqlite::{Connection, ToSql};
use std::sync::OnceLock;

/// One fact of `syncline_state`; `None` when it is not known yet.
pub(crate) fn get<T: FromSql>(connection: &Connection, name: &str) -> rusqlite::Result<Option<T>> {
    let value = connection
        .prepare_cached("SELECT value FROM syncline_state WHERE name = ?1")?
        .query_row([name], |row| row.get::<_, Option<T>>(0))
        .optional()?;
    Ok(value.flatten())
}

/// Facts that are recorded at once, at most.
const FACTS_MAX: usize = 8;

/// The statement that records so many facts, spelled when it is needed first.
fn record_sql(facts: usize) -> Option<&'static str> {
    static SPELLED: [OnceLock<String>; FACTS_MAX + 1] = [const { OnceLock::new() }; FACTS_MAX + 1];
    let spell = || {
        let values = (0..facts).map(|n| format!("({})", parameters(2 * n + 1, 2)));
        format!(
            "INSERT INTO syncline_state VALUES {}
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            list(values)
        )
    };
    Some(SPELLED.get(facts)?.get_or_init(spell))
}

/// Records facts, all in one statement. NULL forgets a fact.
pub(crate) fn record(
    connection: &Connection,
    facts: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<()> {
    for facts in facts.chunks(FACTS_MAX) {
        let Some(sql) = record_sql(facts.len()) else { continue };
        let mut statement = connection.prepare_cached(sql)?;
        for (n, (name, value)) in facts.iter().enumerate() {
            statement.raw_bind_parameter(2 * n + 1, name)?;
            statement.raw_bind_parameter(2 * n + 2, value)?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}

/// Records a fact.
pub(crate) fn set(connection: &Connection, name: &str, value: impl ToSql) -> rusqlite::Result<()> {
    record(connection, &[(name, &value)])
}

/// Forgets facts.
pub(crate) fn forget(connection: &Connection, names: &[&str]) -> rusqlite::Result<()> {
    let facts: Vec<(&str, &dyn ToSql)> =
        names.iter().map(|name| (*name, &Null as &dyn ToSql)).collect();
    record(connection, &facts)
}
