//! The new keys of rows whose key change was uploaded, until a download has reported the outcome.
//!
//! Usually the entries of the upload have them when a reject arrives (`apply/rejects.rs`). But the
//! entries are deleted earlier if the tables change after the upload, if only an upload was asked
//! for, or if the answer was lost. Then a refused key change would be reported without its row, as
//! if the row had been deleted here.

use crate::apply::values::key_of;
use crate::capture::change_log::{self, Change, Reading};
use crate::capture::moves;
use crate::connection::{bind, damaged, explain};
use crate::schema::RemoteTable;
use crate::sql::all;
use model::{Failure, RowReader, Value, write_value};
use rusqlite::{Connection, OptionalExtension, params};

/// A row that was given another key.
pub(in crate::apply) struct MovedRow {
    /// Where it lies.
    pub(in crate::apply) key: Vec<Value>,
    /// The columns that changed with its key.
    pub(in crate::apply) changed: Vec<String>,
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
pub(in crate::apply) fn find(
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
    let changed = serde_json::from_str(&changed)
        .map_err(|error| damaged("a noted key change does not read").source(error))?;
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
pub(in crate::apply) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    if exists(connection)? {
        connection.execute_batch("DROP TABLE syncline_key_changed")?;
    }
    Ok(())
}

/// SQLite finds the table in the schema that it has read: it has no index for `sqlite_schema`, and
/// every download asks this. What runs before it in the transaction has noticed if another program
/// changed the schema.
fn exists(connection: &Connection) -> rusqlite::Result<bool> {
    connection.table_exists(Some(c"main"), c"syncline_key_changed")
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

/// The key that the row with this one was given in a generation; none where it was given none.
pub(in crate::apply) fn moved(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    key: &[Value],
) -> rusqlite::Result<Option<Vec<Value>>> {
    let at = key.len() + 1;
    let sql = format!(
        "SELECT {} FROM {} AS m JOIN {} AS c ON {} AND c.\"generation\" = m.\"generation\" \
         WHERE m.\"generation\" = ?{at} AND {}",
        table.our_keys_sql("m."),
        table.moved_sql(),
        table.change_sql(),
        table.came_from("m.", "c."),
        all(table.key.iter().enumerate().map(|(n, key)| format!("c.{} = ?{}", key.ours(), n + 1))),
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref())?;
    }
    statement.raw_bind_parameter(at, generation)?;
    let mut rows = statement.raw_query();
    rows.next()?.map(|row| key_of(table, row)).transpose()
}
