//! Writing and deleting downloaded rows, one prepared statement per table and kind.

use super::comparison::Tells;
use super::parked::{Parked, Placeholders};
use super::{
    Circumstances, Download, guarded, incoming, kept_back, key_changes, orphans, refresh, rejects,
};
use crate::capture::change_log;
use crate::connection::{bind, explain};
use crate::schema::{KeyColumn, RemoteTable};
use model::{Code, Failure, RowReader, Spill, ValueRef};
use protocol::{DownloadMode, RowsFrame};
use rusqlite::{CachedStatement, Connection, Error, ffi};
use std::cell::Cell;

mod frame_writer;

use frame_writer::FrameWriter;

/// One table during the application of a download.
pub(super) struct Target<'a> {
    pub(super) table: &'a RemoteTable,
    /// Local changes wait, so every key is looked up among them.
    changed: Option<ChangedSql>,
    /// Received keys are noted, because rows whose key is not among them are deleted afterwards.
    pub(super) notes_keys: bool,
    /// Received keys are noted, because the key of a delete may be another spelling of one.
    notes_spellings: bool,
    /// Nothing lay in the table, so that rows only arrive.
    was_empty: bool,
    parked: Option<Parked>,
    /// No row has turned out to be there already.
    only_new: bool,
    /// Rows of the table are kept back, and downloaded rows replace them.
    keeps_back: bool,
}

/// Statements for tables with local changes.
struct ChangedSql {
    is_changed: String,
    keep_row: String,
    keep_delete: String,
}

impl ChangedSql {
    fn new(table: &RemoteTable, guards: bool) -> ChangedSql {
        ChangedSql {
            is_changed: match guards {
                true => guarded::is_guarded_sql(table),
                false => format!(
                    "SELECT 1 FROM {} WHERE {} AND \"generation\" = ?{}",
                    table.change_sql(),
                    table.our_key_is_parameter(1),
                    table.key.len() + 1
                ),
            },
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
        circumstances: &Circumstances<'_>,
        tells_new: bool,
    ) -> rusqlite::Result<Target<'a>> {
        let (generation, guards) = (circumstances.open_generation, circumstances.guards);
        let changed = guards || change_log::has_entries(connection, table, generation)?;
        let notes_keys =
            mode == DownloadMode::Refresh && refresh::prepare(connection, table, tells_new)?;
        Ok(Target {
            table,
            changed: changed.then(|| ChangedSql::new(table, guards)),
            notes_keys,
            notes_spellings: false,
            was_empty: mode == DownloadMode::Refresh && !notes_keys,
            parked: None,
            only_new: true,
            keeps_back: kept_back::has_any(connection, table)?,
        })
    }

    /// Notes received keys, because one that is deleted may be another spelling of them.
    fn note_spellings(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.notes_spellings = true;
        match self.notes_keys {
            true => Ok(()),
            false => refresh::note_keys(connection, self.table),
        }
    }

    /// Rows may be written many at once: no local change and no noted key asks for a look at each.
    /// Where foreign keys are, even a statement that takes nothing back keeps copies of pages; that
    /// is worth it only where nothing lies in them.
    fn may_batch(&self) -> bool {
        self.only_new
            && self.changed.is_none()
            && !self.notes_keys
            && !self.notes_spellings
            && !self.keeps_back
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
    pub(super) fn target(&mut self, position: usize) -> Result<&mut Target<'a>, Failure> {
        let table = self.circumstances.tables.get(position);
        let (Some(table), Some(slot)) = (table, self.targets.get_mut(position)) else {
            return Err(Failure::new(Code::MalformedMessage, "rows of an unknown table"));
        };
        if slot.is_none() {
            let mode = self.download.mode(table);
            let tells_new = self.download.begin.deletes_lost;
            let target = Target::new(self.connection, table, mode, self.circumstances, tells_new)
                .map_err(explain)?;
            let target = slot.insert(target);
            if !self.download.deletes[position].is_empty()
                && !table.key.iter().all(KeyColumn::is_exact)
            {
                target.note_spellings(self.connection).map_err(explain)?;
            }
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
            let surroundings = self.circumstances.into();
            orphans::set_aside_children(self.connection, surroundings, table, keys)?;
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
        let mut received = match target.notes_spellings {
            true => Some(self.prepare(&refresh::is_received_sql(table))?),
            false => None,
        };
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
            // The centre spells the key differently now: the row is not gone.
            if let Some(received) = &mut received
                && found(received, &key).map_err(explain)?
            {
                continue;
            }
            if let Some((is_changed, keep_delete)) = &mut changed
                && exists(is_changed, &key, generation).map_err(explain)?
            {
                run(keep_delete, &key).map_err(explain)?;
                continue;
            }
            if target.keeps_back {
                kept_back::forget(self.connection, table, &key)?;
            }
            self.actions.watch(|| run(&mut delete, &key)).map_err(explain)?;
        }
        Ok(rest)
    }

    /// Writes the rows that stood in each other's way, with placeholders where they still do.
    pub(super) fn write_parked_rows(&mut self) -> Result<(), Failure> {
        for target in self.targets.iter_mut().flatten() {
            let mut again = rewrite(self.connection, self.circumstances, &self.actions, target)?;
            // Every round but the last keeps a row back.
            while let Some(still) = again {
                again = part(self.connection, self.circumstances, &self.actions, target, still)?;
            }
        }
        Ok(())
    }

    /// Writes all rows again if foreign keys have changed some after they were written. A parent
    /// that is deleted or loses its value changes all rows that refer to it at that moment. This
    /// may be a child of this download whose parent gets the value later.
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
        let notes = |target: &&Target<'_>| target.notes_keys || target.notes_spellings;
        for target in self.targets.iter().flatten().filter(notes) {
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
    /// Runs a statement. SQLite counts its own changes separately from their effects.
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

/// Writes the parked rows of a table again. Returns those that are still blocked.
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

/// Writes rows that stand in each other's way, with placeholders. Where a row that did not come, or
/// a pending change, has the value of one of them, that one is kept back, and the others are
/// yielded as they were.
fn part<'a>(
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    actions: &Actions<'a>,
    target: &mut Target<'a>,
    still: Parked,
) -> Result<Option<Parked>, Failure> {
    connection.execute_batch("SAVEPOINT syncline_part").map_err(explain)?;
    let placeholders = Placeholders::new(connection, target.table)?;
    still.for_each_chunk(&mut |chunk| placeholders.put(chunk))?;
    // Children may have followed to a placeholder; whether they did is not worth asking.
    actions.seen.set(true);
    let mut all = Parked::new(circumstances.spills);
    still.for_each_chunk(&mut |chunk| all.push(chunk))?;
    target.parked = Some(still);
    let last = rewrite(connection, circumstances, actions, target)?;
    drop(placeholders);
    let Some(last) = last else {
        connection.execute_batch("RELEASE syncline_part").map_err(explain)?;
        return Ok(None);
    };
    connection
        .execute_batch("ROLLBACK TO syncline_part; RELEASE syncline_part")
        .map_err(explain)?;
    let message =
        format!("a downloaded row of {} has a value that a local row has too", target.table.name());
    if super::waits_here(connection, circumstances) && !circumstances.guards {
        let failure = Failure::new(Code::ApplyBlocked, message);
        return Err(failure.table(target.table.name()));
    }
    keep_back(connection, circumstances, target, &last, &message)?;
    let mut others = Parked::new(circumstances.spills);
    let kept = guarded::is_kept_sql(target.table);
    for_each_row(&all, target.table, &mut |bytes, key, _| {
        let mut kept = connection.prepare_cached(&kept).map_err(explain)?;
        match found(&mut kept, key).map_err(explain)? {
            true => Ok(()),
            false => others.push(bytes),
        }
    })?;
    Ok(Some(others))
}

/// Keeps back rows that are blocked by others. If a pending change blocks a row, this is not
/// reported: the change is uploaded, and then the row can be applied.
fn keep_back(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    target: &mut Target<'_>,
    rows: &Parked,
    reason: &str,
) -> Result<(), Failure> {
    let table = target.table;
    let tells = !super::waits_here(connection, circumstances);
    target.keeps_back = true;
    for_each_row(rows, table, &mut |_, _, row| match tells {
        true => kept_back::refuse(connection, circumstances, table, row, reason),
        false => kept_back::keep_row(connection, table, row),
    })
}

type VisitRow<'a> = dyn FnMut(&[u8], &[ValueRef<'_>], &[ValueRef<'_>]) -> Result<(), Failure> + 'a;

/// Shows `visit` each row: its bytes, its key and its values.
fn for_each_row(
    rows: &Parked,
    table: &RemoteTable,
    visit: &mut VisitRow<'_>,
) -> Result<(), Failure> {
    rows.for_each_chunk(&mut |chunk| {
        let mut rest = chunk;
        while !rest.is_empty() {
            let mut reader = RowReader::new(rest);
            let mut row = Vec::with_capacity(table.width());
            read_values(&mut reader, table.width(), &mut row)?;
            let behind = reader.rest();
            let key: Vec<ValueRef<'_>> = table.key.iter().map(|key| row[key.position]).collect();
            visit(&rest[..rest.len() - behind.len()], &key, &row)?;
            rest = behind;
        }
        Ok(())
    })
}

pub(super) fn read_values<'a>(
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

pub(super) fn run(
    statement: &mut CachedStatement<'_>,
    values: &[ValueRef<'_>],
) -> rusqlite::Result<usize> {
    for (n, value) in values.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    statement.raw_execute()
}

fn found(statement: &mut CachedStatement<'_>, key: &[ValueRef<'_>]) -> rusqlite::Result<bool> {
    for (n, value) in key.iter().enumerate() {
        bind(statement, n + 1, *value)?;
    }
    Ok(statement.raw_query().next()?.is_some())
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
