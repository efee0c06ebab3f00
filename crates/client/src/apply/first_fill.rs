//! Large tables that are received for the first time are filled under hidden names.
//!
//! In one transaction, millions of rows would need a log as large as themselves, and keep every
//! other program from writing for as long as they take. So they are written into a table that
//! nobody looks at, in transactions of bounded size, and its indexes are made when it is full. The
//! transaction of the download then only exchanges the two tables (`hidden.rs`). It has the
//! watermark, and everything else of the download, as always: all of it becomes visible at once
//! (S4). Whatever happens before, the table is as empty as it was.
//!
//! Rows that an application writes in the meantime are pending changes like any others, and are
//! taken over in the same transaction (`local_rows.rs`).
//!
//! Rows that the hidden table refuses, also for a key that came before, are left to the transaction
//! of the download. Where something does not fit at all, the whole table is left to it: if it has
//! rows that the center may know, if a row that was written in the meantime has the key or a value
//! of one that came, if the table changes in the meantime, if its SQL is not understood, or if
//! triggers fire for its rows (`apply/fired.rs`).
//!
//! A hidden table that was left behind is removed by the next attempt.

mod hidden;
mod local_rows;
mod spelling;
#[cfg(test)]
mod tests;

use super::circumstances::Circumstances;
use super::constraint::is_constraint;
use super::download::Download;
use super::fired::stored::has_triggers;
use super::rows::statements::{BATCH_ROWS, insert_sql};
use super::rows::{Filled, batch};
use crate::connection::{LargeCache, begin_immediate, explain};
use crate::fail_point::fail_point;
use crate::progress::facts;
use crate::progress::state::FILLING;
use crate::schema::history::History;
use crate::schema::{RemoteTable, sequence};
use crate::sql::ident;
use crate::system::disk;
use hidden::{HiddenTable, exchange};
use model::{Code, Failure, Spill, row_len};
use protocol::{DownloadMode, Operation, RowsFrame};
use rusqlite::{CachedStatement, Connection};
use std::path::Path;

/// Fewer rows of a table are cheaper in the transaction of the download.
pub(crate) const ROWS_MIN: u64 = 10_000;

/// So many bytes of rows are never few.
const BYTES_MIN: u64 = 16 << 20;

/// Bytes of rows from which on no further frame goes into a transaction.
const TRANSACTION_BYTES: usize = 16 << 20;

/// Hidden tables that are full.
pub(super) struct FirstFill {
    /// The file has had some, or has them.
    begun: bool,
    tables: Vec<HiddenTable>,
    /// Payloads with the rows that they refused.
    refused: Spill,
}

/// Fills hidden tables for all that are received for the first time and are large.
pub(super) fn fill(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<FirstFill, Failure> {
    let mut fill = FirstFill::none(circumstances);
    let wanted = wanted(connection, download, circumstances)?;
    if wanted.is_empty() {
        return Ok(fill);
    }
    require_room(connection, download, &wanted)?;
    let _large_cache = LargeCache::new(connection)?;
    let filled = fill.run(connection, download, circumstances, (&wanted, progress));
    if filled.is_err() {
        // It gives back the room on the disk. The next attempt does the same if it fails.
        let _ = clear(connection);
    }
    filled.map(|()| fill)
}

/// The tables that are filled under a hidden name.
fn wanted<'a>(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'a>,
) -> Result<Vec<&'a RemoteTable>, Failure> {
    let mut wanted = Vec::new();
    // What is compared or recorded row by row goes its way row by row.
    if download.begin.restored || download.begin.deletes_lost {
        return Ok(wanted);
    }
    let rows_min = circumstances.fill_rows_min;
    let is_large = |table: &&RemoteTable| {
        let came = download.came[usize::from(table.position)];
        let large = came.count >= rows_min || came.bytes >= BYTES_MIN;
        large && download.mode(table) == DownloadMode::Refresh && came.rows
    };
    let mut large = circumstances.tables.iter().filter(is_large).peekable();
    if large.peek().is_none() {
        return Ok(wanted);
    }
    let history = History::read(connection)?;
    for table in large.filter(|table| !history.arriving.contains_key(table.name())) {
        let generation = circumstances.open_generation;
        if local_rows::are_all(connection, table, generation).map_err(explain)?
            && !has_triggers(connection, table).map_err(explain)?
        {
            wanted.push(table);
        }
    }
    Ok(wanted)
}

/// Refuses rows for which there is no room before the disk is full for other programs too. In the
/// file they take about as much as here, with their indexes more.
fn require_room(
    connection: &Connection,
    download: &Download,
    wanted: &[&RemoteTable],
) -> Result<(), Failure> {
    let Some(free) = connection.path().and_then(|path| disk::room(Path::new(path))) else {
        return Ok(());
    };
    let unused = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size";
    let unused: i64 = connection.query_row(unused, [], |row| row.get(0)).map_err(explain)?;
    let room = free.saturating_add(unused.unsigned_abs());
    let came = wanted.iter().map(|table| download.came[usize::from(table.position)].bytes);
    let bytes: u64 = came.sum();
    if bytes <= room {
        return Ok(());
    }
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (bytes, room) = (megabytes(bytes), megabytes(room));
    let message =
        format!("{bytes:.1} MB of rows have come, and {room:.1} MB are free where the remote lies");
    Err(Failure::new(Code::RemoteDiskFull, message))
}

/// Removes what an attempt has left behind.
pub(crate) fn clear(connection: &Connection) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    remove(&transaction).map_err(explain)?;
    transaction.commit().map_err(explain)
}

/// Removes all hidden tables, within a transaction.
pub(crate) fn remove(connection: &Connection) -> rusqlite::Result<()> {
    for name in hidden::names(connection)? {
        connection.execute_batch(&format!("DROP TABLE {}", ident(&name)))?;
    }
    facts::forget(connection, &[FILLING])
}

impl FirstFill {
    /// No hidden table.
    pub(super) fn none(circumstances: &Circumstances<'_>) -> FirstFill {
        FirstFill { begun: false, tables: Vec::new(), refused: circumstances.spills.open() }
    }

    /// The rows that the hidden tables refused.
    pub(super) fn refused(&self) -> &Spill {
        &self.refused
    }

    /// Within the transaction of the download: lets the hidden tables take the place of the
    /// published ones, as far as they still fit.
    pub(super) fn show(
        &self,
        connection: &Connection,
        circumstances: &Circumstances<'_>,
    ) -> Result<Filled, Failure> {
        let mut shown = Vec::new();
        for hidden in &self.tables {
            let table = &circumstances.tables[usize::from(hidden.position)];
            let open = circumstances.open_generation;
            if !circumstances.fires(table)
                && hidden.is_current(connection, table)
                && local_rows::are_all(connection, table, open).map_err(explain)?
                && local_rows::take_over(connection, table, &hidden.sql())?
            {
                shown.push(hidden);
            }
        }
        if shown.is_empty() {
            return Ok(Filled::default());
        }
        exchange(connection, &shown)?;
        for hidden in &shown {
            let table = &circumstances.tables[usize::from(hidden.position)];
            if let Some(last) = sequence::read(connection, &hidden.name).map_err(explain)? {
                sequence::go_on_from(connection, table.name(), last).map_err(explain)?;
            }
            hidden.drop(connection)?;
        }
        if shown.len() == self.tables.len() {
            facts::forget(connection, &[FILLING]).map_err(explain)?;
        }
        Ok(Filled {
            rows: shown.iter().map(|hidden| hidden.rows).sum(),
            tables: shown.into_iter().map(|hidden| hidden.position).collect(),
        })
    }

    /// Behind that transaction: removes what has not taken its place.
    pub(super) fn end(self, connection: &Connection) -> Result<(), Failure> {
        match self.begun && facts::get(connection, FILLING).map_err(explain)?.unwrap_or(false) {
            true => clear(connection),
            false => Ok(()),
        }
    }

    fn run(
        &mut self,
        connection: &Connection,
        download: &Download,
        circumstances: &Circumstances<'_>,
        (wanted, progress): (&[&RemoteTable], &mut dyn FnMut(u64)),
    ) -> Result<(), Failure> {
        self.create(connection, wanted)?;
        self.write(connection, download, circumstances, progress)?;
        self.create_indexes(connection)?;
        Ok(())
    }

    fn create(&mut self, connection: &Connection, wanted: &[&RemoteTable]) -> Result<(), Failure> {
        let transaction = begin_immediate(connection)?;
        remove(&transaction).map_err(explain)?;
        for table in wanted {
            self.tables.extend(HiddenTable::create(&transaction, table)?);
        }
        facts::set(&transaction, FILLING, true).map_err(explain)?;
        self.begun = true;
        transaction.commit().map_err(explain)?;
        fail_point!("client-fill-begun");
        Ok(())
    }

    /// Writes the rows, one transaction after another.
    fn write(
        &mut self,
        connection: &Connection,
        download: &Download,
        circumstances: &Circumstances<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut reader = download.upserts.reader();
        let mut payload = reader.next_chunk()?;
        let mut rows = 0;
        while payload.is_some() {
            let transaction = begin_immediate(connection)?;
            let mut bytes = 0;
            while let Some(frame) = payload.take_if(|_| bytes < TRANSACTION_BYTES) {
                rows += self.write_frame(connection, circumstances, &frame)?;
                progress(rows);
                bytes += frame.len();
                payload = reader.next_chunk()?;
            }
            transaction.commit().map_err(explain)?;
            fail_point!("client-fill-written");
        }
        Ok(())
    }

    /// Writes the rows of a frame, unless its table is not filled here. Yields how
    /// many it took.
    fn write_frame(
        &mut self,
        connection: &Connection,
        circumstances: &Circumstances<'_>,
        payload: &[u8],
    ) -> Result<u64, Failure> {
        let (position, _, count) = RowsFrame::split(payload)?;
        let mut tables = self.tables.iter_mut();
        let Some(hidden) = tables.find(|hidden| hidden.position == position) else {
            return Ok(0);
        };
        let table = &circumstances.tables[usize::from(position)];
        let (name, width) = (hidden.sql(), table.width());
        let prepare = |rows: u32| {
            let sql = insert_sql(&name, table, rows as usize);
            connection.prepare_cached(&sql).map_err(explain)
        };
        let (mut batch, mut single) = (prepare(BATCH_ROWS)?, prepare(1)?);
        let (mut rest, mut left) = (&payload[RowsFrame::PREFIX_BYTES..], count);
        let mut refused = Vec::new();
        let mut refused_count = 0;
        while left > 0 {
            let full = left >= BATCH_ROWS;
            let (statement, rows): (&mut CachedStatement<'_>, _) =
                if full { (&mut batch, BATCH_ROWS) } else { (&mut single, 1) };
            let (behind, written) = batch::insert(connection, statement, (rest, width), rows)?;
            (rest, left) = (behind, left - written);
            if written < rows {
                let (row, behind) = rest.split_at(row_len(rest, width)?);
                refused.extend_from_slice(row);
                refused_count += 1;
                (rest, left) = (behind, left - 1);
            }
        }
        super::frame::expect_end(rest)?;
        let taken = u64::from(count - refused_count);
        hidden.rows += taken;
        if refused_count > 0 {
            let frame = RowsFrame {
                table: position,
                operation: Operation::Upsert,
                count: refused_count,
                bytes: refused,
            };
            self.refused.append(frame.into_payload())?;
        }
        Ok(taken)
    }

    /// Makes the indexes, each in a transaction of its own. A table that one of them does not fit
    /// is left to the transaction of the download.
    fn create_indexes(&mut self, connection: &Connection) -> Result<(), Failure> {
        for hidden in std::mem::take(&mut self.tables) {
            if create_indexes(connection, &hidden)? {
                self.tables.push(hidden);
            }
        }
        Ok(())
    }
}

/// False if the table does not fit one of its indexes. Then it is gone.
fn create_indexes(connection: &Connection, hidden: &HiddenTable) -> Result<bool, Failure> {
    let mut fit = true;
    for sql in hidden.index_statements().unwrap_or_default() {
        let transaction = begin_immediate(connection)?;
        fit = match connection.execute_batch(&sql) {
            Err(error) if is_constraint(&error) => false,
            executed => hidden::understood(executed)?,
        };
        if !fit {
            break;
        }
        transaction.commit().map_err(explain)?;
        fail_point!("client-fill-indexed");
    }
    if fit && hidden.has_same_indexes(connection).map_err(explain)? {
        return Ok(true);
    }
    let transaction = begin_immediate(connection)?;
    hidden.drop(connection)?;
    transaction.commit().map_err(explain)?;
    Ok(false)
}
