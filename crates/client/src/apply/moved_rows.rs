//! The new keys of rows whose key change was uploaded, until a download has reported the outcome.
//!
//! Usually the entries of the upload have them when a reject arrives (`apply/rejects.rs`). But the
//! entries are deleted earlier if the tables change after the upload, if only an upload was asked
//! for, or if the answer was lost. Then a refused key change would be reported without its row, as
//! if the row had been deleted here.

use crate::capture::change_log::{self, Change, Reading};
use crate::capture::moves;
use crate::connection::explain;
use crate::schema::RemoteTable;
use model::{Code, Failure, RowReader, Value, write_value};
use rusqlite::{Connection, OptionalExtension, params};

/// A row that was given another key.
pub(super) struct MovedRow {
    /// Where it lies.
    pub(super) key: Vec<Value>,
    /// The columns that changed with its key.
    pub(super) changed: Vec<String>,
}

/// Notes the key changes of a generation whose entries go.
pub(crate) fn keep(
    connection: &Connection,
    tables: &[RemoteTable],
    generation: i64,
) -> Result<(), Failure> {
    for table in tables.iter().filter(|table| table.uploads()) {
        if !moves::has_any(connection, table, generation).map_err(explain)? {
            continue;
        }
        create(connection).map_err(explain)?;
        let mut insert = connection
            .prepare_cached("INSERT OR REPLACE INTO syncline_key_changed VALUES (?1, ?2, ?3, ?4)")
            .map_err(explain)?;
        let reading = Reading { generation, newer: None, key_changes: true };
        change_log::for_each(connection, table, reading, &mut |entry| {
            let mut note = || -> rusqlite::Result<()> {
                if entry.change()? != Change::Moved {
                    return Ok(());
                }
                let (mut old, mut new) = (Vec::new(), Vec::new());
                for key in &table.key {
                    write_value(&mut old, entry.before(key.position)?);
                    write_value(&mut new, entry.after(key.position)?);
                }
                let mut changed = Vec::new();
                for (at, name) in table.published.columns.iter().enumerate() {
                    if entry.changed(at)? {
                        changed.push(name.as_str());
                    }
                }
                let changed = serde_json::Value::from(changed).to_string();
                insert.execute(params![table.name(), old, new, changed]).map(drop)
            };
            note().map_err(explain)
        })?;
    }
    Ok(())
}

/// Where the row lies that had this key when it was uploaded; none if it is not recorded.
pub(super) fn find(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> Result<Option<MovedRow>, Failure> {
    if !exists(connection).map_err(explain)? {
        return Ok(None);
    }
    let mut old = Vec::new();
    key.iter().for_each(|value| write_value(&mut old, value.as_ref()));
    let found = connection
        .prepare_cached(
            "SELECT new_key, changed FROM syncline_key_changed WHERE table_name = ?1 AND key = ?2",
        )
        .and_then(|mut statement| {
            statement
                .query_row(params![table.name(), old], |row| {
                    Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?))
                })
                .optional()
        })
        .map_err(explain)?;
    let Some((bytes, changed)) = found else { return Ok(None) };
    let mut reader = RowReader::new(&bytes);
    let mut key = Vec::new();
    while !reader.is_at_end() {
        key.push(reader.value()?.to_owned());
    }
    // The table may have got another key since.
    if key.len() != table.key.len() {
        return Ok(None);
    }
    let changed = serde_json::from_str(&changed).map_err(|error| {
        Failure::new(Code::Bug, "a noted key change does not read").source(error)
    })?;
    Ok(Some(MovedRow { key, changed }))
}

/// Tables have got other names: the old ones and the new ones.
pub(crate) fn rename(connection: &Connection, names: &[(&str, &str)]) -> rusqlite::Result<()> {
    if names.is_empty() || !exists(connection)? {
        return Ok(());
    }
    // Names may be swapped, so all get theirs at once.
    let cases = "WHEN ? THEN ? ".repeat(names.len());
    let sql = format!(
        "UPDATE OR REPLACE syncline_key_changed SET table_name = CASE table_name {cases} \
         ELSE table_name END"
    );
    let names = names.iter().flat_map(|(old, new)| [*old, *new]);
    connection.execute(&sql, rusqlite::params_from_iter(names)).map(drop)
}

/// What became of every upload is known.
pub(super) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    if exists(connection)? {
        connection.execute_batch("DROP TABLE syncline_key_changed")?;
    }
    Ok(())
}

fn exists(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'syncline_key_changed'")?
        .exists([])
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS syncline_key_changed (
           table_name TEXT NOT NULL,
           key        BLOB NOT NULL,
           new_key    BLOB NOT NULL,
           changed    TEXT NOT NULL,
           PRIMARY KEY (table_name, key)
         ) WITHOUT ROWID",
    )
}
