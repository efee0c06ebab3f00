//! A table that is sent again as a whole: stored rows that did not arrive are deleted.

use crate::apply::rows::waiting::WaitingRows;
use crate::connection::{explain, value};
use crate::schema::RemoteTable;
use crate::schema::history::History;
use crate::sql::{ident, parameters};
use model::{Failure, write_value};
use rusqlite::Connection;

/// The rows of tables that the remote had and that were sent again as a whole: after changed
/// claims, another partition, or a restore. The server does not say which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentAgain {
    /// Rows that were here and did not come again.
    pub left: u64,
    /// All rows that came, also those that were here.
    pub came: u64,
}

fn received_sql(table: &RemoteTable) -> String {
    ident(&format!("syncline_received_{}", table.position))
}

/// What counts as known of a table that is sent as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The rows that lie in it.
    Rows,
    /// Those that it had once: one that comes now may have been deleted here.
    FormerRows,
    /// Those that were uploaded. Of the rows of others it knows nothing.
    UploadedRows,
}

impl Known {
    /// Whether the table was received before, with a watermark that may be void now.
    pub(super) fn of(connection: &Connection, table: &RemoteTable) -> Result<Known, Failure> {
        if was_received(connection, table)? {
            return Ok(Known::FormerRows);
        }
        let history = History::read(connection)?;
        let former = history.arriving.get(table.name()).filter(|it| it.former_watermark.is_some());
        Ok(match former {
            None => Known::Rows,
            Some(former) if former.only_uploaded => Known::UploadedRows,
            Some(_) => Known::FormerRows,
        })
    }
}

/// Whether the table has a watermark, so that a refresh sends it again.
pub(super) fn was_received(connection: &Connection, table: &RemoteTable) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM syncline_table WHERE position = ?1 AND watermark IS NOT NULL";
    let mut statement = connection.prepare_cached(sql).map_err(explain)?;
    statement.exists([table.position]).map_err(explain)
}

/// Prepares to note the keys that come. False if nothing is known of the table, so that no row can
/// be deleted or come back: the first fill is spared the effort.
pub(super) fn prepare(
    connection: &Connection,
    table: &RemoteTable,
    known: Known,
) -> rusqlite::Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", table.table_sql());
    if known != Known::FormerRows && !connection.query_row(&sql, [], |row| row.get::<_, bool>(0))? {
        return Ok(false);
    }
    note_keys(connection, table)?;
    Ok(true)
}

/// Creates the table that notes the keys that come.
pub(super) fn note_keys(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE {} ({}, PRIMARY KEY ({})) WITHOUT ROWID",
        received_sql(table),
        table.our_keys_declared(),
        table.our_keys_sql(""),
    ))
}

/// The statement that finds a key among the received ones, whatever its spelling.
pub(super) fn is_received_sql(table: &RemoteTable) -> String {
    format!("SELECT 1 FROM {} WHERE {}", received_sql(table), table.our_key_is_parameter(1))
}

/// The statement that notes a received key.
pub(super) fn note_key_sql(table: &RemoteTable) -> String {
    let values = parameters(1, table.key.len());
    format!("INSERT OR IGNORE INTO {} VALUES ({values})", received_sql(table))
}

/// Collects the keys of rows to delete. A row with a local change stays, and the delete is kept
/// beside the change, unless the row is new at this remote and the server never knew it.
pub(super) fn keys_not_received(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    keys: &mut WaitingRows,
) -> Result<(), Failure> {
    let received = received_sql(table);
    let missing = |live: &str| {
        format!("NOT EXISTS (SELECT 1 FROM {received} AS r WHERE {})", table.same_key(live, "r."))
    };
    if table.uploads() {
        keep_deletes(connection, table, generation).map_err(explain)?;
    }
    let unchanged = if table.uploads() {
        format!(
            " AND NOT EXISTS (SELECT 1 FROM {} AS c WHERE c.\"generation\" = {generation} AND {})",
            table.change_sql(),
            table.same_key("t.", "c.")
        )
    } else {
        String::new()
    };
    let not_null: String = table
        .key
        .iter()
        .filter(|key| key.nullable)
        .map(|key| format!(" AND t.{} IS NOT NULL", ident(&key.name)))
        .collect();
    let sql = format!(
        "SELECT {} FROM {} AS t WHERE {}{unchanged}{not_null}",
        table.keys_sql("t."),
        table.table_sql(),
        missing("t."),
    );
    let mut statement = connection.prepare(&sql).map_err(explain)?;
    let mut rows = statement.query([]).map_err(explain)?;
    while let Some(row) = rows.next().map_err(explain)? {
        keys.push_with(|out| {
            for n in 0..table.key.len() {
                write_value(out, value(row, n).map_err(explain)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn keep_deletes(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<()> {
    let (incoming, received) = (table.incoming_sql(), received_sql(table));
    connection.execute(
        &format!(
            "INSERT OR REPLACE INTO {incoming}({}, \"present\") \
             SELECT {}, 0 FROM {} AS c WHERE c.\"generation\" = ?1 \
             AND (c.\"existed\" = 1 OR EXISTS (SELECT 1 FROM {incoming} AS i WHERE {})) \
             AND NOT EXISTS (SELECT 1 FROM {received} AS r WHERE {})",
            table.our_keys_sql(""),
            table.our_keys_sql("c."),
            table.change_sql(),
            table.same_our_key("i.", "c."),
            table.same_our_key("r.", "c."),
        ),
        [generation],
    )?;
    Ok(())
}

/// Removes what [`prepare`] made.
pub(super) fn clean_up(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("DROP TABLE {}", received_sql(table)))
}
