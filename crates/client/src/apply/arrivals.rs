//! The first download after a change of the tables, and what it settles besides its rows.
//!
//! Columns that were never received are completed in rows that were changed in the meantime, in the
//! row and in its old image. No user here has chosen their values, so this is not a change (trap
//! 24). If a table was published before and is published again, its rows are compared with the
//! downloaded ones. No trigger captured changes of them in between, so rows that differ are
//! reported with their former values (trap 23). The same is done for a table whose triggers were
//! missing for some time.

use super::circumstances::Circumstances;
use super::download::Download;
use super::{readable, rejects};
use crate::capture::change_log;
use crate::connection::{bind, explain, value};
use crate::schema::history::{Arriving, History};
use crate::schema::stored_table::stored_tables;
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident};
use model::{Code, Failure, RowReader, ValueRef};
use protocol::{DownloadMode, RowsFrame};
use rusqlite::{Connection, OptionalExtension};

/// What a download has to settle.
pub(super) struct Arrivals<'a> {
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    history: History,
}

impl<'a> Arrivals<'a> {
    /// Before anything is written: notes the rows that are to be compared.
    pub(super) fn begin(
        connection: &'a Connection,
        circumstances: &'a Circumstances<'a>,
    ) -> Result<Arrivals<'a>, Failure> {
        let history = History::read(connection)?;
        let arrivals = Arrivals { connection, circumstances, history };
        for table in arrivals.compared() {
            let own = readable::own_columns(connection, table).map_err(explain)?;
            let sql = format!(
                "CREATE TEMP TABLE {} AS SELECT {} FROM {}",
                before_sql(table),
                columns_sql(table, &own, ""),
                table.table_sql(),
            );
            connection.execute_batch(&sql).map_err(explain)?;
        }
        Ok(arrivals)
    }

    /// The tables whose rows are compared.
    fn compared(&self) -> impl Iterator<Item = &'a RemoteTable> {
        let compared = |table: &&RemoteTable| {
            let arriving = self.history.arriving.get(table.name());
            let compares = |arriving: &Arriving| {
                arriving.returned || arriving.uncaptured || !arriving.own.is_empty()
            };
            table.downloads() && arriving.is_some_and(compares)
        };
        self.circumstances.tables.iter().filter(compared)
    }

    /// The tables that came back, as far as they are uploaded.
    pub(super) fn returned(&self) -> Vec<&'a RemoteTable> {
        let returned = |table: &&RemoteTable| {
            let arriving = self.history.arriving.get(table.name());
            let both = table.uploads() && table.downloads();
            both && arriving.is_some_and(|arriving| arriving.returned)
        };
        self.circumstances.tables.iter().filter(returned).collect()
    }

    /// After everything is written.
    pub(super) fn settle(&mut self, download: &Download) -> Result<(), Failure> {
        if self.history.arriving.is_empty() {
            return Ok(());
        }
        for table in self.compared() {
            self.tell_differences(table)?;
            let sql = format!("DROP TABLE {}", before_sql(table));
            self.connection.execute_batch(&sql).map_err(explain)?;
        }
        self.complete(download)?;
        let refreshed = |name: &String| {
            let mut tables = self.circumstances.tables.iter();
            tables.any(|it| it.name() == name && download.mode(it) == DownloadMode::Refresh)
        };
        let settled: Vec<String> =
            self.history.arriving.keys().filter(|name| refreshed(name)).cloned().collect();
        for name in settled {
            self.history.arriving.remove(&name);
        }
        self.history.arriving.values_mut().for_each(|arriving| arriving.unchecked = false);
        self.history.arriving.retain(|_, arriving| *arriving != Arriving::default());
        self.history.write(self.connection)
    }

    fn tell_differences(&self, table: &RemoteTable) -> Result<(), Failure> {
        let arriving = self.history.arriving.get(table.name());
        let is_whole = arriving.is_none_or(|it| it.returned || it.uncaptured);
        // Else only what lay in these columns is nobody else's.
        let ours = arriving.filter(|_| !is_whole).map(|arriving| arriving.own.as_slice());
        let columns = ours.unwrap_or(&table.published.columns);
        let same = columns.iter().map(|name| format!("t.{0} IS b.{0} COLLATE BINARY", ident(name)));
        let same = all(same);
        let chosen = match ours {
            Some(ours) => chosen(self.connection, table, ours).map_err(explain)?,
            None => "1".to_owned(),
        };
        let key = all(table
            .key
            .iter()
            .map(|key| format!("t.{0} = b.{0}{1}", ident(&key.name), key.collate())));
        let own = readable::own_columns(self.connection, table).map_err(explain)?;
        let sql = format!(
            "SELECT {} FROM {} AS b WHERE ({chosen}) AND NOT EXISTS \
             (SELECT 1 FROM {} AS t WHERE {key} AND {same})",
            columns_sql(table, &own, "b."),
            before_sql(table),
            table.table_sql(),
        );
        let code = match arriving.is_some_and(|it| it.uncaptured && !it.returned) {
            true => Code::RowNotCaptured,
            false => Code::RowDiffersOnReturn,
        };
        let mut statement = self.connection.prepare(&sql).map_err(explain)?;
        let mut rows = statement.query([]).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let values: Vec<ValueRef<'_>> = (0..table.width() + own.len())
                .map(|column| value(row, column))
                .collect::<rusqlite::Result<_>>()
                .map_err(explain)?;
            rejects::record_difference(
                self.connection,
                table,
                (&values, &own),
                code,
                self.circumstances.at,
            )
            .map_err(explain)?;
        }
        Ok(())
    }

    /// Completes changed rows from the downloaded ones.
    fn complete(&self, download: &Download) -> Result<(), Failure> {
        let generation = self.circumstances.open_generation;
        let mut changed: Vec<Option<&Arriving>> = Vec::new();
        for table in self.circumstances.tables {
            let arriving = self.history.arriving.get(table.name());
            let arriving = arriving.filter(|it| table.uploads() && !it.unseen.is_empty());
            let has = arriving.is_some()
                && change_log::has_old_images(self.connection, table, generation)
                    .map_err(explain)?;
            changed.push(arriving.filter(|_| has));
        }
        if changed.iter().all(Option::is_none) {
            return Ok(());
        }
        let mut reader = download.upserts.reader();
        while let Some(payload) = reader.next_chunk()? {
            let (position, _, count) = RowsFrame::split(&payload)?;
            let position = usize::from(position);
            let Some(Some(arriving)) = changed.get(position) else { continue };
            let table = &self.circumstances.tables[position];
            let rows = &payload[RowsFrame::PREFIX_BYTES..];
            let mut reader = RowReader::new(rows);
            for _ in 0..count {
                let mut row = Vec::with_capacity(table.width());
                for _ in 0..table.width() {
                    row.push(reader.value()?);
                }
                self.complete_row(table, &arriving.unseen, &row).map_err(explain)?;
            }
        }
        Ok(())
    }

    /// A column that the user has set since stays, and the change is based on the downloaded row.
    fn complete_row(
        &self,
        table: &RemoteTable,
        unseen: &[String],
        row: &[ValueRef<'_>],
    ) -> rusqlite::Result<()> {
        let (live, change, keys) = (table.table_sql(), table.change_sql(), table.key.len());
        let columns = table.published.columns.iter().zip(&table.large).enumerate();
        for (position, (name, large)) in columns.filter(|(_, (name, _))| unseen.contains(name)) {
            let (column, old) = (ident(name), Image::Old.column(name));
            let captured = large.map(|bit| format!("\"captured\" & {}", 1u64 << bit));
            let untouched = match &captured {
                Some(captured) => {
                    format!("(NOT {captured} OR {old} IS {live}.{column} COLLATE BINARY)")
                }
                None => format!("{old} IS {live}.{column} COLLATE BINARY"),
            };
            let entry = format!(
                "{} AND \"generation\" = ?{} AND \"existed\" = 1",
                table.our_key_is_parameter(1),
                keys + 1
            );
            let kept = captured.map(|captured| format!(" AND {captured}")).unwrap_or_default();
            let statements = [
                format!(
                    "UPDATE {live} SET {column} = ?{} WHERE {} AND EXISTS \
                     (SELECT 1 FROM {change} WHERE {entry} AND {untouched})",
                    keys + 2,
                    table.key_is_parameter("", 1),
                ),
                format!("UPDATE {change} SET {old} = ?{} WHERE {entry}{kept}", keys + 2),
            ];
            for sql in statements {
                let mut statement = self.connection.prepare_cached(&sql)?;
                for (n, key) in table.key.iter().enumerate() {
                    bind(&mut statement, n + 1, row[key.position])?;
                }
                statement.raw_bind_parameter(keys + 1, self.circumstances.open_generation)?;
                bind(&mut statement, keys + 2, row[position])?;
                statement.raw_execute()?;
            }
        }
        Ok(())
    }
}

/// Whether the last change of the tables has left rows that nothing has checked since.
pub(super) fn any_unchecked(connection: &Connection) -> Result<bool, Failure> {
    let history = History::read(connection)?;
    Ok(history.arriving.values().any(|arriving| arriving.unchecked))
}

/// The condition for rows `b` in which one of these columns has a value that somebody has chosen.
fn chosen(
    connection: &Connection,
    table: &RemoteTable,
    columns: &[String],
) -> rusqlite::Result<String> {
    let default = "SELECT dflt_value FROM pragma_table_xinfo(?1, 'main') WHERE name = ?2";
    let mut statement = connection.prepare_cached(default)?;
    let mut conditions = Vec::new();
    for name in columns {
        let default: Option<Option<String>> =
            statement.query_row([table.name(), name], |row| row.get(0)).optional()?;
        let default = default.flatten().filter(|it| readable::is_literal(it));
        let default = default.as_deref().unwrap_or("NULL");
        conditions.push(format!("b.{} IS NOT {default}", ident(name)));
    }
    Ok(conditions.join(" OR "))
}

/// Keeps what the rows of tables were received with that are not downloaded now, where the center
/// is in another state than the one that they are of. They are compared when they are downloaded.
pub(super) fn keep_uncompared(
    connection: &Connection,
    download: &Download,
    tables: &[RemoteTable],
) -> Result<(), Failure> {
    if !download.begin.restored || tables.iter().all(RemoteTable::downloads) {
        return Ok(());
    }
    let mut history = History::read(connection)?;
    for stored in stored_tables(connection)? {
        if !stored.published.direction.downloads() {
            history.keep_watermark(&stored);
        }
    }
    history.write(connection)
}

/// The published columns, then the user's own.
fn columns_sql(table: &RemoteTable, own: &[String], alias: &str) -> String {
    let own: String = own.iter().map(|name| format!(", {alias}{}", ident(name))).collect();
    table.columns_sql(alias) + &own
}

fn before_sql(table: &RemoteTable) -> String {
    ident(&format!("syncline_before_{}", table.position))
}
