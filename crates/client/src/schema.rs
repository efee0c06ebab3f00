//! The system tables in the remote file, and which of the user's tables are published.
//!
//! | table | holds |
//! |---|---|
//! | `syncline_state` | one row per fact: identity, counter, progress, … (`progress.rs`) |
//! | `syncline_generation` | the generation that triggers write to |
//! | `syncline_table` | the published tables and their watermarks |
//! | `syncline_reject` | rows that the consolidated database refused (`apply/rejects.rs`) |
//! | `syncline_conflict` | changes that lost conflicts (`apply/rejects/lost_conflicts.rs`) |
//! | `syncline_change_T` | per table that uploads: what changed (`capture.rs`) |
//! | `syncline_moved_T` | likewise: rows that got another key (`capture/moves.rs`) |
//! | `syncline_incoming_T` | likewise: what was downloaded for changed rows (`apply/incoming.rs`) |
//! | `syncline_orphan_T` | downloaded rows whose parent is missing (`apply/orphans.rs`) |

pub(crate) mod change;
pub(crate) mod foreign_keys;
pub(crate) mod history;
mod local_table;
pub(crate) mod reference;
mod remote_table;
pub(crate) mod sequence;
pub(crate) mod spelled;
pub(crate) mod stored_table;

pub(crate) use local_table::{Affinity, IndexColumn, LocalTable};
pub(crate) use remote_table::{Image, KeyColumn, RemoteTable, UniqueColumn, large_columns};

use crate::capture::change_log;
use crate::capture::triggers::{self, Installed};
use crate::connection::{begin_immediate, explain};
use crate::progress::{facts, state};
use crate::sql::ident;
use foreign_keys::ForeignKey;
use history::History;
use model::{Code, Failure};
use rusqlite::{Connection, OptionalExtension};
pub(crate) use stored_table::stored_tables;

/// The layout of the tables above.
const FORMAT_VERSION: i64 = 4;

/// True when the file holds our tables. Refuses those of another layout, before anything else of
/// them is read (trap 18).
pub(crate) fn is_remote(connection: &Connection) -> Result<bool, Failure> {
    let has = |table: &str| {
        connection
            .query_row("SELECT 1 FROM sqlite_schema WHERE name = ?1", [table], |_| Ok(()))
            .optional()
            .map_err(explain)
    };
    if has("syncline_system")?.is_some() {
        let file = connection.path().map_or("the file".to_owned(), |path| format!("`{path}`"));
        let message = format!("{file} is a consolidated database");
        return Err(Failure::new(Code::ConsolidatedFile, message));
    }
    if has("syncline_state")?.is_none() {
        return Ok(false);
    }
    let version: i64 = facts::get(connection, "format_version").map_err(explain)?.unwrap_or(0);
    if version != FORMAT_VERSION {
        let message =
            format!("the remote file has format {version}; this program knows {FORMAT_VERSION}");
        return Err(Failure::new(Code::RemoteMadeByAnother, message));
    }
    Ok(true)
}

/// Whether the file has a table that is not ours.
pub(crate) fn has_other_tables(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type IN ('table', 'view')
        AND name NOT LIKE 'syncline\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\')";
    connection.query_row(sql, [], |row| row.get(0)).map_err(explain)
}

/// Makes the file a remote. Idempotent; the caller holds the write lock.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(include_str!("schema/system_tables.sql"))?;
    facts::set(connection, "format_version", FORMAT_VERSION)
}

/// Changes with every change of the file's schema, ours or the user's, and of what is published.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version {
    schema: i64,
    fingerprint: Option<String>,
}

/// The version of now.
pub(crate) fn version(connection: &Connection) -> Result<Version, Failure> {
    let read = || -> rusqlite::Result<Version> {
        let mut statement = connection.prepare_cached("PRAGMA schema_version")?;
        Ok(Version {
            schema: statement.query_row([], |row| row.get(0))?,
            fingerprint: facts::get(connection, "schema_fingerprint")?,
        })
    };
    read().map_err(explain)
}

/// The published tables as they lie in the file, in the order of the schema agreed on.
pub(crate) fn tables(connection: &Connection) -> Result<Vec<RemoteTable>, Failure> {
    let mut tables = Vec::new();
    let foreign_keys = foreign_keys::all(connection).map_err(explain)?;
    for stored in stored_tables(connection)? {
        let name = &stored.published.name;
        let local = LocalTable::read(connection, name).map_err(explain)?.ok_or_else(|| {
            Failure::new(Code::RemoteSchemaDiffers, format!("table {name} is gone"))
                .table(name)
                .hint("`syncline remote reset` creates it again, with its rows")
        })?;
        let mut table = RemoteTable::new(tables.len(), stored, &local)?;
        table.in_foreign_keys = foreign_keys.iter().any(|key| key.concerns(&table));
        table.referred_by_value = foreign_keys.iter().any(|key| key.refers_to_value_of(&table));
        tables.push(table);
    }
    Ok(tables)
}

impl ForeignKey {
    /// It begins or ends at the table.
    fn concerns(&self, table: &RemoteTable) -> bool {
        [&self.child, &self.parent].iter().any(|name| name.eq_ignore_ascii_case(table.name()))
    }

    /// It ends at the table, and not at its whole key.
    fn refers_to_value_of(&self, table: &RemoteTable) -> bool {
        let in_key =
            |name: &String| table.key.iter().any(|key| key.name.eq_ignore_ascii_case(name));
        let mut named = self.columns.iter().filter_map(|(_, to)| to.as_ref()).peekable();
        self.parent.eq_ignore_ascii_case(table.name())
            && named.peek().is_some()
            && (self.columns.len() != table.key.len() || !named.all(in_key))
    }
}

/// Removes everything of Syncline that belongs to one table. Its rows stay.
pub(crate) fn drop_table_objects(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    triggers::drop_all(connection, name)?;
    for kind in ["change", "incoming", "moved", "orphan"] {
        let table = ident(&format!("syncline_{kind}_{name}"));
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    Ok(())
}

/// Removes every object of Syncline. The user's tables and rows stay.
pub(crate) fn drop_everything(connection: &Connection) -> rusqlite::Result<()> {
    let ours: Vec<(String, String)> = connection
        .prepare(
            "SELECT type, name FROM sqlite_schema
             WHERE name LIKE 'syncline\\_%' ESCAPE '\\' AND type IN ('trigger', 'table')
             ORDER BY type = 'table'",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (kind, name) in ours {
        connection.execute_batch(&format!("DROP {kind} IF EXISTS {}", ident(&name)))?;
    }
    Ok(())
}

/// The tables of changes, key changes, incoming rows and orphans, by name.
pub(crate) fn our_row_tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table'
             AND (name LIKE 'syncline\\_change\\_%' ESCAPE '\\'
               OR name LIKE 'syncline\\_moved\\_%' ESCAPE '\\'
               OR name LIKE 'syncline\\_incoming\\_%' ESCAPE '\\'
               OR name LIKE 'syncline\\_orphan\\_%' ESCAPE '\\')",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The published tables. Triggers that were dropped or changed are created again, also if a UNIQUE
/// index was added that they must know (trap 9).
pub(crate) fn verified_tables(connection: &Connection) -> Result<Vec<RemoteTable>, Failure> {
    let tables = tables(connection)?;
    let installed = Installed::read(connection).map_err(explain)?;
    if !tables.iter().all(|table| installed.are_right(table)) {
        let transaction = begin_immediate(connection)?;
        let installed = Installed::read(&transaction).map_err(explain)?;
        for table in &tables {
            mend(&transaction, table, &installed)?;
        }
        transaction.commit().map_err(explain)?;
    }
    Ok(tables)
}

/// The published tables of which not all changes may be known: their triggers are missing, or were
/// since the last download.
pub(crate) fn uncaptured(connection: &Connection) -> Result<Vec<String>, Failure> {
    let installed = Installed::read(connection).map_err(explain)?;
    let history = History::read(connection)?;
    let tables = tables(connection)?;
    let uncaptured =
        tables.iter().filter(|it| history.is_uncaptured(it.name()) || installed.were_lost(it));
    Ok(uncaptured.map(|table| table.name().to_owned()).collect())
}

/// Creates missing triggers of a table. If some were missing, changes may not have been captured.
/// Then the whole table is downloaded and compared, because the former rows are unknown. A table
/// that only uploads has nothing to compare with, so all its rows are uploaded. Rows that the
/// center already has change nothing there.
fn mend(
    connection: &Connection,
    table: &RemoteTable,
    installed: &Installed,
) -> Result<(), Failure> {
    if table.uploads() {
        change_log::create(connection, table).map_err(explain)?;
    }
    if installed.were_lost(table) {
        if table.published.direction.downloads() {
            let mut history = History::read(connection)?;
            let stored = stored_tables(connection)?;
            if let Some(own) = stored.iter().find(|it| it.published.name == table.name()) {
                history.keep_watermark(own);
            }
            history.arriving.entry(table.name().to_owned()).or_default().uncaptured = true;
            history.write(connection)?;
            connection
                .execute(
                    "UPDATE syncline_table SET watermark = NULL WHERE name = ?1",
                    [table.name()],
                )
                .map_err(explain)?;
        } else {
            let open = state::State::read(connection)?.open_generation;
            change_log::record_all_rows(connection, table, open).map_err(explain)?;
        }
    }
    installed.ensure(connection, [table]).map_err(explain)
}
