//! Writing and deleting downloaded rows, one prepared statement per table and kind.

use super::comparison::{Stored, Tells, compare};
use super::parked::{Parked, Placeholders};
use super::rejects::Withheld;
use super::statements::BATCH_ROWS;
use super::{Circumstances, Download, incoming, key_changes, orphans, refresh, rejects};
use crate::capture::change_log;
use crate::connection::{bind, explain};
use crate::schema::RemoteTable;
use model::{Code, Failure, RowReader, Spill, ValueRef};
use protocol::{DownloadMode, RowsFrame};
use rusqlite::{CachedStatement, Connection, Error, ErrorCode, ffi};
use std::cell::Cell;

/// One table during the application of a download.
pub(super) struct Target<'a> {
    pub(super) table: &'a RemoteTable,
    /// Local changes wait, so every key is looked up among them.
    changed: Option<ChangedSql>,
    /// Received keys are noted, because rows whose key is not among them are deleted afterwards.
    pub(super) notes_keys: bool,
    /// Nothing lay in the table, so that rows only arrive.
    was_empty: bool,
    parked: Option<Parked>,
    /// No row has turned out to be there already.
    only_new: bool,
}

/// Statements for tables with local changes.
struct ChangedSql {
    is_changed: String,
    keep_row: String,
    keep_delete: String,
}

impl ChangedSql {
    fn new(table: &RemoteTable) -> ChangedSql {
        ChangedSql {
            is_changed: format!(
                "SELECT 1 FROM {} WHERE {} AND \"generation\" = ?{}",
                table.change_sql(),
                table.our_key_is_parameter(1),
                table.key.len() + 1
            ),
            keep_row: incoming::keep_row_sql(table),
            keep_delete: incoming::keep_delete_sql(table),
        }
    }
}

impl<'a> Target<'a> {
    fn new(
        connection: &Connection,
        table: &'a RemoteTable,
        mode: DownloadMode,
        generation: i64,
        tells_new: bool,
    ) -> rusqlite::Result<Target<'a>> {
        let changed = change_log::has_entries(connection, table, generation)?;
        let notes_keys =
            mode == DownloadMode::Refresh && refresh::prepare(connection, table, tells_new)?;
        Ok(Target {
            table,
            changed: changed.then(|| ChangedSql::new(table)),
            notes_keys,
            was_empty: mode == DownloadMode::Refresh && !notes_keys,
            parked: None,
            only_new: true,
        })
    }

    /// Rows may be written many at once: no local change and no noted key asks for a look at each.
    /// Where foreign keys are, even a statement that takes nothing back keeps copies of pages; that
    /// is worth it only where nothing lies in them.
    fn may_batch(&self) -> bool {
        self.only_new
            && self.changed.is_none()
            && !self.notes_keys
            && (self.was_empty || !self.table.in_foreign_keys)
    }

    /// The statement that reads the row with a key.
    fn select_sql(&self) -> String {
        let table = self.table;
        format!(
            "SELECT {} FROM {} WHERE {}",
            table.columns_sql(""),
            table.table_sql(),
            table.key_is_parameter("", 1)
        )
    }
}

/// Writes a download into the tables.
pub(super) struct Writer<'a> {
    connection: &'a Connection,
    download: &'a Download,
    circumstances: &'a Circumstances<'a>,
    targets: Vec<Option<Target<'a>>>,
    /// Foreign keys have changed rows beyond those that were written or deleted.
    actions: Actions<'a>,
    rows_done: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        download: &'a Download,
        circumstances: &'a Circumstances<'a>,
    ) -> Result<Writer<'a>, Failure> {
        let mut writer = Writer {
            connection,
            download,
            circumstances,
            targets: circumstances.tables.iter().map(|_| None).collect(),
            actions: Actions {
                connection,
                seen: Cell::new(false),
                tells: Cell::new(Tells::of(&download.begin)),
            },
            rows_done: 0,
        };
        for table in circumstances.tables {
            if download.mode(table) == DownloadMode::Refresh {
                writer.target(usize::from(table.position))?;
            }
        }
        Ok(writer)
    }

    /// The table at `position`; its statements are spelled when it is met first.
    fn target(&mut self, position: usize) -> Result<&mut Target<'a>, Failure> {
        let table = self.circumstances.tables.get(position);
        let (Some(table), Some(slot)) = (table, self.targets.get_mut(position)) else {
            return Err(Failure::new(Code::MalformedMessage, "rows of an unknown table"));
        };
        if slot.is_none() {
            let generation = self.circumstances.open_generation;
            let mode = self.download.mode(table);
            let tells_new = self.download.begin.deletes_lost;
            let target = Target::new(self.connection, table, mode, generation, tells_new)
                .map_err(explain)?;
            *slot = Some(target);
        }
        slot.as_mut().ok_or_else(|| Failure::new(Code::Bug, "a table was not prepared"))
    }

    /// Writes the rows of all frames in their order.
    pub(super) fn write_rows(
        &mut self,
        upserts: &Spill,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut reader = upserts.reader();
        while let Some(payload) = reader.next_chunk()? {
            let (table, operation, count) = RowsFrame::split(&payload)?;
            self.target(usize::from(table))?;
            let Some(target) = &mut self.targets[usize::from(table)] else { continue };
            let rows = &payload[RowsFrame::PREFIX_BYTES..];
            // The keys were changed before.
            let rows = key_changes::only_rows(target.table, operation, rows, count)?;
            let mut frame = FrameWriter::new(
                self.connection,
                self.circumstances,
                &self.actions,
                target,
                count,
            )?;
            expect_end(frame.write(&rows, count)?)?;
            self.rows_done += u64::from(count);
            progress(self.rows_done);
        }
        Ok(())
    }

    /// Deletes the keys of all frames, which are of one table.
    pub(super) fn delete_rows(
        &mut self,
        deletes: &Spill,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut reader = deletes.reader();
        while let Some(payload) = reader.next_chunk()? {
            let (table, _, count) = RowsFrame::split(&payload)?;
            let position = usize::from(table);
            self.target(position)?;
            let keys = &payload[RowsFrame::PREFIX_BYTES..];
            self.delete_keys_alone(position, keys, u64::from(count))?;
            self.rows_done += u64::from(count);
            progress(self.rows_done);
        }
        Ok(())
    }

    /// In a refresh: what is too large to be sent has not gone.
    pub(super) fn keep_withheld(&mut self, withheld: &[Withheld]) -> Result<(), Failure> {
        for row in withheld {
            let target = self.target(row.table)?;
            if !target.notes_keys {
                continue;
            }
            let sql = refresh::note_key_sql(target.table);
            let mut note = self.prepare(&sql)?;
            let key: Vec<ValueRef<'_>> = row.key.iter().map(model::Value::as_ref).collect();
            run(&mut note, &key).map_err(explain)?;
        }
        Ok(())
    }

    /// In a refresh: deletes what lies in the table and was not received.
    pub(super) fn delete_rows_not_received(&mut self, table: &RemoteTable) -> Result<(), Failure> {
        let position = usize::from(table.position);
        if !self.target(position)?.notes_keys {
            return Ok(());
        }
        let mut keys = Parked::new(self.circumstances.spills);
        let generation = self.circumstances.open_generation;
        refresh::keys_not_received(self.connection, table, generation, &mut keys)?;
        if self.download.begin.restored {
            keys.for_each_chunk(&mut |chunk| {
                rejects::record_lost_rows(self.connection, table, chunk, self.circumstances.at)
            })?;
        }
        keys.for_each_chunk(&mut |chunk| {
            let count = count_rows(chunk, table.key.len())?;
            self.delete_keys_alone(position, chunk, count)
        })
    }

    /// Deletes `count` keys and nothing else. The centre names what goes with a row, children
    /// first. A child that is still there refers to a row that is missing at the centre.
    fn delete_keys_alone(
        &mut self,
        position: usize,
        keys: &[u8],
        count: u64,
    ) -> Result<(), Failure> {
        let table = &self.circumstances.tables[position];
        if !table.in_foreign_keys {
            return expect_end(self.delete_keys(position, keys, count)?);
        }
        // One that was set aside for an earlier frame may be named by this one.
        orphans::put_back(self.connection, self.circumstances.tables)?;
        let seen_before = self.actions.seen.replace(false);
        self.connection.execute_batch("SAVEPOINT syncline_delete").map_err(explain)?;
        expect_end(self.delete_keys(position, keys, count)?)?;
        if self.actions.seen.get() {
            let undo = "ROLLBACK TO syncline_delete";
            self.connection.execute_batch(undo).map_err(explain)?;
            self.actions.seen.set(false);
            orphans::set_aside_children(self.connection, self.circumstances, table, keys)?;
            self.delete_keys(position, keys, count)?;
        }
        self.connection.execute_batch("RELEASE syncline_delete").map_err(explain)?;
        self.actions.seen.set(self.actions.seen.get() || seen_before);
        Ok(())
    }

    /// Deletes `count` keys. Yields what follows them.
    fn delete_keys<'b>(
        &mut self,
        position: usize,
        keys: &'b [u8],
        count: u64,
    ) -> Result<&'b [u8], Failure> {
        let generation = self.circumstances.open_generation;
        let Some(target) = self.targets[position].as_ref() else { return Ok(keys) };
        let table = target.table;
        let mut delete = self.prepare(table.writing.delete(table))?;
        let mut changed = match &target.changed {
            Some(sql) => Some((self.prepare(&sql.is_changed)?, self.prepare(&sql.keep_delete)?)),
            None => None,
        };
        let mut key = Vec::new();
        let mut rest = keys;
        for _ in 0..count {
            let mut reader = RowReader::new(rest);
            read_values(&mut reader, table.key.len(), &mut key)?;
            rest = reader.rest();
            if let Some((is_changed, keep_delete)) = &mut changed
                && exists(is_changed, &key, generation).map_err(explain)?
            {
                run(keep_delete, &key).map_err(explain)?;
                continue;
            }
            self.actions.watch(|| run(&mut delete, &key)).map_err(explain)?;
        }
        Ok(rest)
    }

    /// Writes the rows that stood in each other's way, with placeholders where they still do.
    pub(super) fn write_parked_rows(&mut self) -> Result<(), Failure> {
        for target in self.targets.iter_mut().flatten() {
            let again = rewrite(self.connection, self.circumstances, &self.actions, target)?;
            let Some(still) = again else { continue };
            let placeholders = Placeholders::new(self.connection, target.table)?;
            still.for_each_chunk(&mut |chunk| placeholders.put(chunk))?;
            // Children may have followed to a placeholder; whether they did is not worth asking.
            self.actions.seen.set(true);
            target.parked = Some(still);
            let last = rewrite(self.connection, self.circumstances, &self.actions, target)?;
            drop(placeholders);
            if last.is_some() {
                let message = format!(
                    "a downloaded row of {} has a value that a local row has too",
                    target.table.name()
                );
                let failure = super::blocked(self.connection, self.circumstances, &message);
                return Err(failure.table(target.table.name()));
            }
        }
        Ok(())
    }

    /// Writes all rows again if foreign keys have changed some after they were written: a parent
    /// that is deleted or loses its value takes along whatever refers to it at that moment, even
    /// a child that has come with this download for the parent that is to have the value next.
    pub(super) fn repair_after_actions(&mut self, upserts: &Spill) -> Result<(), Failure> {
        if !self.actions.seen.get() {
            return Ok(());
        }
        // What differs now differs by what was done here.
        self.actions.tells.set(Tells::default());
        self.write_rows(upserts, &mut |_| {})?;
        self.write_parked_rows()
    }

    /// Removes what was needed only here.
    pub(super) fn finish(self) -> Result<(), Failure> {
        for target in self.targets.iter().flatten().filter(|target| target.notes_keys) {
            refresh::clean_up(self.connection, target.table).map_err(explain)?;
        }
        Ok(())
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, Failure> {
        self.connection.prepare_cached(sql).map_err(explain)
    }
}

/// Notices what foreign keys do on their own.
struct Actions<'a> {
    connection: &'a Connection,
    seen: Cell<bool>,
    tells: Cell<Tells>,
}

impl Actions<'_> {
    /// Runs a statement, whose own changes SQLite counts apart from all that came of it.
    fn watch(
        &self,
        statement: impl FnOnce() -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<usize> {
        let before = self.connection.total_changes();
        let own = statement()?;
        if self.connection.total_changes() - before > own as u64 {
            self.seen.set(true);
        }
        Ok(own)
    }
}

/// Writes the parked rows of a table again; yields those that are still in the way.
fn rewrite<'a>(
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    actions: &Actions<'a>,
    target: &mut Target<'a>,
) -> Result<Option<Parked>, Failure> {
    let Some(parked) = target.parked.take() else { return Ok(None) };
    parked.for_each_chunk(&mut |chunk| {
        let mut frame = FrameWriter::new(connection, circumstances, actions, target, 1)?;
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = frame.write(rest, 1)?;
        }
        Ok(())
    })?;
    Ok(target.parked.take())
}

/// Writes rows of one table with the statements prepared once.
struct FrameWriter<'a, 'b> {
    circumstances: &'a Circumstances<'a>,
    actions: &'b Actions<'a>,
    table: &'a RemoteTable,
    parked: &'b mut Option<Parked>,
    only_new: &'b mut bool,
    upsert: CachedStatement<'a>,
    /// Until a row turns out not to be new.
    insert_batch: Option<CachedStatement<'a>>,
    /// In a refresh: reads the row with a key. One that is the same already is not written again,
    /// since reading costs a fraction of writing.
    select: Option<CachedStatement<'a>>,
    /// Where local changes wait: is this key among them, and where to keep its row.
    changed: Option<(CachedStatement<'a>, CachedStatement<'a>)>,
    note_key: Option<CachedStatement<'a>>,
}

impl<'a, 'b> FrameWriter<'a, 'b> {
    fn new(
        connection: &'a Connection,
        circumstances: &'a Circumstances<'a>,
        actions: &'b Actions<'a>,
        target: &'b mut Target<'a>,
        rows: u32,
    ) -> Result<FrameWriter<'a, 'b>, Failure> {
        let table = target.table;
        let prepare = |sql: &str| connection.prepare_cached(sql).map_err(explain);
        let changed = match &target.changed {
            Some(sql) => Some((prepare(&sql.is_changed)?, prepare(&sql.keep_row)?)),
            None => None,
        };
        let prepare_if =
            |needed: bool, sql: &dyn Fn() -> String| needed.then(|| prepare(&sql())).transpose();
        Ok(FrameWriter {
            circumstances,
            actions,
            table,
            upsert: prepare(table.writing.upsert(table))?,
            insert_batch: (rows >= BATCH_ROWS && target.may_batch())
                .then(|| prepare(table.writing.insert_batch(table)))
                .transpose()?,
            select: prepare_if(target.notes_keys, &|| target.select_sql())?,
            note_key: prepare_if(target.notes_keys, &|| refresh::note_key_sql(target.table))?,
            changed,
            parked: &mut target.parked,
            only_new: &mut target.only_new,
        })
    }

    /// Writes `count` rows from the front of `rows`. Yields what follows them.
    fn write<'c>(&mut self, rows: &'c [u8], count: u32) -> Result<&'c [u8], Failure> {
        let (mut rest, mut count) = (rows, count);
        while count >= BATCH_ROWS && *self.only_new {
            let Some((behind, written)) = self.write_batch(rest)? else { break };
            rest = behind;
            count -= written;
        }
        self.write_each(rest, count)
    }

    /// Writes [`BATCH_ROWS`] rows at once, up to the first that breaks a constraint, such as that
    /// its key is there already. Yields what follows the written ones, and their number. No row is
    /// removed by it, so no foreign key acts.
    fn write_batch<'c>(&mut self, rows: &'c [u8]) -> Result<Option<(&'c [u8], u32)>, Failure> {
        let Some(statement) = &mut self.insert_batch else { return Ok(None) };
        let width = self.table.width();
        let mut reader = RowReader::new(rows);
        for parameter in 1..=BATCH_ROWS as usize * width {
            bind(statement, parameter, reader.value()?).map_err(explain)?;
        }
        let before = self.actions.connection.total_changes();
        match statement.raw_execute() {
            Ok(_) => Ok(Some((reader.rest(), BATCH_ROWS))),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                *self.only_new = false;
                let written = self.actions.connection.total_changes() - before;
                let mut reader = RowReader::new(rows);
                for _ in 0..written as usize * width {
                    reader.value()?;
                }
                Ok(Some((reader.rest(), written as u32)))
            }
            Err(error) => Err(explain(error)),
        }
    }

    /// Keeps what the row is about to take, or tells that it is here again.
    fn tell(
        &self,
        stored: Stored,
        key: &[ValueRef<'_>],
        row: &[ValueRef<'_>],
    ) -> Result<(), Failure> {
        let tells = self.actions.tells.get();
        let (connection, at) = (self.actions.connection, self.circumstances.at);
        match stored {
            Stored::Different if tells.overwritten => {
                rejects::record_set_back(connection, self.table, key, at)
            }
            Stored::Missing if tells.brought_back => {
                rejects::record_brought_back(connection, self.table, key, row, at)
            }
            _ => Ok(()),
        }
    }

    fn write_each<'c>(&mut self, rows: &'c [u8], count: u32) -> Result<&'c [u8], Failure> {
        let generation = self.circumstances.open_generation;
        let mut row: Vec<ValueRef<'c>> = Vec::with_capacity(self.table.width());
        let mut key: Vec<ValueRef<'c>> = Vec::with_capacity(self.table.key.len());
        let mut rest = rows;
        for _ in 0..count {
            let start = rest;
            let mut reader = RowReader::new(rest);
            read_values(&mut reader, self.table.width(), &mut row)?;
            rest = reader.rest();
            if self.note_key.is_some() || self.changed.is_some() {
                key.clear();
                key.extend(self.table.key.iter().map(|key| row[key.position]));
            }
            if let Some(note_key) = &mut self.note_key {
                run(note_key, &key).map_err(explain)?;
            }
            if let Some((is_changed, keep_row)) = &mut self.changed
                && exists(is_changed, &key, generation).map_err(explain)?
            {
                key.extend_from_slice(&row);
                run(keep_row, &key).map_err(explain)?;
                continue;
            }
            if let Some(select) = &mut self.select {
                let stored = compare(select, &key, &row).map_err(explain)?;
                if stored == Stored::Same {
                    continue;
                }
                self.tell(stored, &key, &row)?;
            }
            match self.actions.watch(|| run(&mut self.upsert, &row)) {
                Ok(_) => {}
                Err(error) if is_duplicate(&error) => {
                    let spills = self.circumstances.spills;
                    let parked = self.parked.get_or_insert_with(|| Parked::new(spills));
                    parked.push(&start[..start.len() - rest.len()])?;
                }
                Err(error) => return Err(refused(self.table, &row, error)),
            }
        }
        Ok(rest)
    }
}

fn read_values<'a>(
    reader: &mut RowReader<'a>,
    count: usize,
    values: &mut Vec<ValueRef<'a>>,
) -> Result<(), Failure> {
    values.clear();
    for _ in 0..count {
        values.push(reader.value()?);
    }
    Ok(())
}

fn count_rows(mut rows: &[u8], width: usize) -> Result<u64, Failure> {
    let mut count = 0;
    while !rows.is_empty() {
        rows = model::skip_row(rows, width)?;
        count += 1;
    }
    Ok(count)
}

pub(super) fn expect_end(rest: &[u8]) -> Result<(), Failure> {
    if rest.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::MalformedMessage, "a rows frame has more bytes than rows"))
}

fn run(statement: &mut CachedStatement<'_>, values: &[ValueRef<'_>]) -> rusqlite::Result<usize> {
    for (n, value) in values.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    statement.raw_execute()
}

fn exists(
    statement: &mut CachedStatement<'_>,
    key: &[ValueRef<'_>],
    generation: i64,
) -> rusqlite::Result<bool> {
    for (n, value) in key.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    statement.raw_bind_parameter(key.len() + 1, generation)?;
    Ok(statement.raw_query().next()?.is_some())
}

/// A row that fits neither a declared constraint nor the columns' types: the tables at both ends
/// are not the same.
fn refused(table: &RemoteTable, row: &[ValueRef<'_>], error: Error) -> Failure {
    let failure = explain(error);
    if failure.code() != Code::Bug {
        return failure;
    }
    let key = table.key_text(table.key.iter().map(|key| row[key.position]));
    let message = format!("table {} refuses a downloaded row", table.name());
    Failure::new(Code::RemoteSchemaDiffers, message)
        .table(table.name())
        .key(key)
        .hint("drop the constraint that the consolidated database does not have")
        .source(failure)
}

/// Another row has the same value in a UNIQUE index.
fn is_duplicate(error: &Error) -> bool {
    matches!(
        extended_code(error),
        Some(
            ffi::SQLITE_CONSTRAINT_UNIQUE
                | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                | ffi::SQLITE_CONSTRAINT_ROWID
        )
    )
}

fn extended_code(error: &Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
