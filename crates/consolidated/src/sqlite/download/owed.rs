//! Reads what a remote is owed, and looks rows up by their keys.

use crate::download::owed::{OwedEntries, OwedEntry};
use crate::download::own::Origin;
use crate::download::range::DownloadTable;
use crate::script::{Event, Parameter, Script};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::key_order;
use crate::sqlite::errors::{failed, row_fault, script_failed};
use crate::sqlite::values::{Bind, bind_sessions, write_row};
use crate::synchronization::{FetchRequest, Session};
use model::{Counter, Failure, RowReader};
use rusqlite::{CachedStatement, Connection, Row};
use std::borrow::Cow;
use std::sync::Arc;

/// Reads all entries of the remote that are of tables of this session.
pub(super) fn read(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &FetchRequest<'_>,
    entries: &mut OwedEntries<'_, '_>,
) -> Result<(), Failure> {
    let reading = failed("read what the remote is owed");
    let mut statement = connection
        .prepare_cached(
            "SELECT table_name, row_key, counter, code, message, withheld, bundled
             FROM syncline_owed WHERE remote_id = ?1 ORDER BY table_name, row_key",
        )
        .map_err(&reading)?;
    let mut rows = statement.query([request.session.remote_id.as_str()]).map_err(&reading)?;
    while let Some(row) = rows.next().map_err(&reading)? {
        if let Some((entry, is_bundle)) = read_row(row, tables, entries).map_err(&reading)? {
            entries.add(entry, is_bundle)?;
        }
    }
    Ok(())
}

/// An entry, if its table is one of `tables`, and whether it is a bundle.
fn read_row(
    row: &Row<'_>,
    tables: &[Arc<CatalogTable>],
    entries: &mut OwedEntries<'_, '_>,
) -> rusqlite::Result<Option<(OwedEntry, bool)>> {
    let name = row.get_ref(0)?.as_str()?;
    let found = entries.table(|at| tables[at].published.name == name);
    let Some(table) = found else { return Ok(None) };
    let code: Option<u16> = row.get(3)?;
    let message: Option<String> = row.get(4)?;
    let reject = code.map(|code| (code, message.unwrap_or_default()));
    let (key, counter) = (row.get(1)?, Counter(row.get(2)?));
    let withheld = row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs);
    let is_bundle = row.get::<_, Option<i64>>(6)?.is_some();
    Ok(Some((OwedEntry { table, key, counter, reject, withheld }, is_bundle)))
}

/// Those of `keys` of `table` whose rows no script can read, and why.
pub(super) fn unreadable(
    connection: &Connection,
    table: &CatalogTable,
    session: &Session,
    keys: &[Vec<u8>],
) -> Result<Vec<(Vec<u8>, String)>, Failure> {
    let mut lookup = Lookup::new(connection, table, session)?;
    let (mut found, mut image) = (Vec::new(), Vec::new());
    for key in keys {
        image.clear();
        if let Covered::Unreadable(message) = lookup.find(key, &mut image)? {
            found.push((key.clone(), message));
        }
    }
    Ok(found)
}

/// What a remote is sent of one key.
#[derive(PartialEq)]
pub(super) enum Covered {
    Row,
    /// There is no row with this key, or it is not covered.
    Nothing,
    /// The script fails for what the row contains, in the database's words.
    Unreadable(String),
}

/// Looks up rows of one table by their keys.
pub(super) struct Lookup<'c> {
    connection: &'c Connection,
    table: &'c CatalogTable,
    script: Cow<'c, Script>,
    statement: CachedStatement<'c>,
    /// Of each parameter that is of the key: its number, and its place in the key.
    keys: Vec<(usize, usize)>,
}

impl<'c> Lookup<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        table: &'c CatalogTable,
        session: &Session,
    ) -> Result<Lookup<'c>, Failure> {
        let script = match table.origin(Event::DownloadCursor) {
            Origin::Own => Cow::Owned(by_key(table)?),
            _ => Cow::Borrowed(table.required(Event::UploadLook)?),
        };
        let mut statement = connection.prepare_cached(&script.sql).map_err(running(table))?;
        let mut keys = Vec::new();
        let key = &table.published.key;
        for (index, parameter) in script.parameters.iter().enumerate() {
            if let Parameter::New(column) = parameter {
                let place = key.iter().position(|at| usize::from(*at) == *column);
                keys.extend(place.map(|place| (index + 1, place)));
            }
        }
        bind_sessions(&mut statement, &script, session).map_err(running(table))?;
        Ok(Lookup { connection, table, script, statement, keys })
    }

    /// Appends the row with this key to `out`, if it is there and covered.
    pub(super) fn find(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<Covered, Failure> {
        let Lookup { connection, table, script, statement, keys } = self;
        let mut values = RowReader::new(key);
        for place in 0..table.published.key.len() {
            let value = values.value()?;
            for (index, _) in keys.iter().filter(|(_, of)| *of == place) {
                statement.raw_bind_parameter(*index, Bind(value)).map_err(running(table))?;
            }
        }
        let mut rows = statement.raw_query();
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Covered::Nothing),
            Err(error) => {
                let (name, event) = (&table.published.name, Event::UploadLook);
                let (_, reason) = row_fault(connection, error, &script.sql, name, event.name())?;
                return Ok(Covered::Unreadable(reason.message));
            }
        };
        write_row(out, row, table.published.width()).map_err(running(table))?;
        Ok(Covered::Row)
    }
}

/// Looks a row up as the own cursor of the table returns it (OC1).
fn by_key(table: &CatalogTable) -> Result<Script, Failure> {
    let (cursor, published) = (table.required(Event::DownloadCursor)?, &table.published);
    let (columns, mut parameters) = (key_order::columns(published), cursor.parameters.clone());
    let equal = published.key.iter().map(|at| {
        let column = usize::from(*at);
        parameters.push(Parameter::New(column));
        format!("{} = ?{}", columns[column], parameters.len())
    });
    let equal = equal.collect::<Vec<_>>().join(" AND ");
    let sql = format!("{} WHERE {equal}", key_order::rows(cursor, &columns));
    Ok(Script { sql, parameters, ..Script::default() })
}

fn running(table: &CatalogTable) -> impl Fn(rusqlite::Error) -> Failure {
    |error| script_failed(error, &table.published.name, Event::UploadLook.name())
}
