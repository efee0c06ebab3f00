//! Triggers of the application that do not fire for downloaded rows: it is told of them once.
//!
//! An index that the application keeps by triggers would become wrong without a word.

use crate::progress::facts;
use crate::schema::RemoteTable;
use rusqlite::Connection;

/// The fact that the file was told of triggers that the model does not let fire.
const TOLD_OFF: &str = "silent_triggers_told";

/// The fact that it was told of triggers that cannot fire.
const TOLD_UNFIT: &str = "unfit_triggers_told";

/// A trigger of the application that does not fire for downloaded rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentTrigger {
    /// Its table.
    pub table: String,
    /// Its name.
    pub trigger: String,
    /// Why it does not although the model lets it; none where the model does not.
    pub why: Option<String>,
}

/// What a file is to be told: the triggers that are `off`, and those that were `unfit` to fire.
/// Each of both is told once.
pub(crate) fn tell(
    connection: &Connection,
    off: Vec<SilentTrigger>,
    unfit: Vec<SilentTrigger>,
) -> rusqlite::Result<Vec<SilentTrigger>> {
    let mut told = Vec::new();
    for (fact, silent) in [(TOLD_OFF, off), (TOLD_UNFIT, unfit)] {
        if !silent.is_empty() && !facts::get::<bool>(connection, fact)?.unwrap_or(false) {
            facts::set(connection, fact, true)?;
            told.extend(silent);
        }
    }
    Ok(told)
}

/// The triggers that the model does not let fire.
pub(crate) fn off(
    connection: &Connection,
    tables: &[RemoteTable],
) -> rusqlite::Result<Vec<SilentTrigger>> {
    let sql = "SELECT tbl_name, name FROM main.sqlite_schema WHERE type = 'trigger'
               AND name NOT LIKE 'syncline\\_%' ESCAPE '\\' ORDER BY rowid";
    let mut statement = connection.prepare_cached(sql)?;
    let silent = statement.query_map([], |row| {
        Ok(SilentTrigger { table: row.get(0)?, trigger: row.get(1)?, why: None })
    })?;
    let mut silent: Vec<SilentTrigger> = silent.collect::<rusqlite::Result<_>>()?;
    silent.retain(|SilentTrigger { table: name, .. }| {
        let mut tables = tables.iter().filter(|it| it.name().eq_ignore_ascii_case(name));
        tables.any(|table| table.downloads() && !table.published.fires)
    });
    Ok(silent)
}
