//! Writing and deleting downloaded rows, one prepared statement per table and kind.

use super::circumstances::{Circumstances, Uploads};
use super::constraint::is_refusal;
use super::download::Download;
use super::frame::{count_rows, expect_end};
use super::refresh::{Known, SentAgain};
use super::values::{exists, found, run};
use super::{circumstances, fired, guarded, kept_back, orphans, refresh, rejects};
use crate::apply::rejects::Withheld;
use crate::apply::rows::comparison::Tells;
use crate::apply::rows::waiting::{Placeholders, WaitingRows};
use crate::connection::bind;
use crate::connection::explain;
use crate::schema::{KeyColumn, RemoteTable};
use actions::Actions;
use model::{Code, Failure, RowReader, Spill, Value, ValueRef};
use protocol::{DownloadMode, RowsFrame};
use rusqlite::{CachedStatement, Connection};
use std::cell::Cell;
use target::Target;

mod actions;
pub(super) mod batch;
pub(super) mod comparison;
mod frame_writer;
pub(super) mod statements;
mod target;
pub(super) mod waiting;

use frame_writer::FrameWriter;

/// Writes a download into the tables.
pub(super) struct Writer<'a> {
    connection: &'a Connection,
    download: &'a Download,
    circumstances: &'a Circumstances<'a>,
    targets: Vec<Option<Target<'a>>>,
    /// Positions of the tables that have their rows already.
    filled: &'a [u16],
    /// Foreign keys have changed rows beyond those that were written or deleted.
    actions: Actions<'a>,
    rows_done: u64,
    sent_again: SentAgain,
}

/// What lies in the tables before the [`Writer`] writes.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Positions of tables that have their rows already (`apply/first_fill.rs`).
    pub(super) tables: Vec<u16>,
    /// How many these are.
    pub(super) rows: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        download: &'a Download,
        circumstances: &'a Circumstances<'a>,
        filled: &'a Filled,
    ) -> Result<Writer<'a>, Failure> {
        let mut writer = Writer {
            connection,
            download,
            circumstances,
            filled: &filled.tables,
            targets: circumstances.tables.iter().map(|_| None).collect(),
            actions: Actions {
                connection,
                seen: Cell::new(false),
                tells: Cell::new(Tells::of(&download.begin)),
            },
            rows_done: filled.rows,
            sent_again: SentAgain::default(),
        };
        for table in circumstances.tables {
            if writer.mode(table) == DownloadMode::Refresh {
                writer.target(usize::from(table.position))?;
            }
        }
        Ok(writer)
    }

    /// How the table is downloaded. What comes beside the rows that it has is no refresh.
    pub(super) fn mode(&self, table: &RemoteTable) -> DownloadMode {
        match self.filled.contains(&table.position) {
            true => DownloadMode::Changes,
            false => self.download.mode(table),
        }
    }

    /// The table at `position`; its statements are spelled when it is met first.
    fn target(&mut self, position: usize) -> Result<&mut Target<'a>, Failure> {
        let table = self.circumstances.tables.get(position);
        let mode = table.map_or(DownloadMode::None, |table| self.mode(table));
        let (Some(table), Some(slot)) = (table, self.targets.get_mut(position)) else {
            return Err(Failure::new(Code::MalformedMessage, "rows of an unknown table"));
        };
        if slot.is_none() {
            let known = match self.download.begin.deletes_lost {
                true => Known::of(self.connection, table)?,
                false => Known::Rows,
            };
            let target = Target::new(self.connection, table, mode, self.circumstances, known)
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

    /// What is too large to be sent has not gone.
    pub(super) fn keep_withheld(&mut self, withheld: &[Withheld]) -> Result<(), Failure> {
        for row in withheld {
            let target = self.target(row.table)?;
            if !target.notes_keys {
                continue;
            }
            let sql = refresh::note_key_sql(target.table);
            let mut note = self.prepare(&sql)?;
            for (n, value) in row.key.iter().enumerate() {
                bind(&mut note, n + 1, value.as_ref()).map_err(explain)?;
            }
            note.raw_execute().map_err(explain)?;
        }
        Ok(())
    }

    /// Writes the rows that are not there yet: those of the other tables, and those that the
    /// filled ones `refused`.
    pub(super) fn write_rows(
        &mut self,
        refused: &Spill,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let (download, filled) = (self.download, self.filled);
        let is_left = |table: u16| !filled.contains(&table);
        self.write_frames(&download.upserts, &is_left, progress)?;
        self.write_frames(refused, &|table| filled.contains(&table), progress)
    }

    /// Writes the rows of these frames in their order.
    fn write_frames(
        &mut self,
        frames: &Spill,
        is_meant: &dyn Fn(u16) -> bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut reader = frames.reader();
        while let Some(payload) = reader.next_chunk()? {
            let (table, _, count) = RowsFrame::split(&payload)?;
            if !is_meant(table) {
                continue;
            }
            self.target(usize::from(table))?;
            let Some(target) = &mut self.targets[usize::from(table)] else { continue };
            let rows = &payload[RowsFrame::PREFIX_BYTES..];
            let mut frame = FrameWriter::new(
                self.connection,
                self.circumstances,
                &self.actions,
                target,
                count,
            )?;
            expect_end(frame.write(rows, count)?)?;
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

    /// Tries again what is kept back of the table: deletes now, rows with those that wait.
    pub(super) fn try_kept_back(&mut self, table: &RemoteTable) -> Result<(), Failure> {
        if !kept_back::has_any(self.connection, table).map_err(explain)? {
            return Ok(());
        }
        let (spills, position) = (self.circumstances.spills, usize::from(table.position));
        let connection = self.connection;
        let target = self.target(position)?;
        target.keeps_back = true;
        let waiting = target.waiting.get_or_insert_with(|| WaitingRows::new(spills));
        kept_back::rows(connection, table, &mut |row| waiting.push(row))?;
        let mut keys = WaitingRows::new(spills);
        kept_back::deletes(self.connection, table, &mut |key| keys.push(key))?;
        keys.for_each_chunk(&mut |chunk| {
            let count = count_rows(chunk, table.key.len())?;
            self.delete_keys_alone(position, chunk, count)
        })
    }

    /// In a refresh: deletes what lies in the table and was not received.
    pub(super) fn delete_rows_not_received(&mut self, table: &RemoteTable) -> Result<(), Failure> {
        let position = usize::from(table.position);
        if !self.target(position)?.notes_keys {
            return Ok(());
        }
        let mut keys = WaitingRows::new(self.circumstances.spills);
        let generation = self.circumstances.open_generation;
        refresh::keys_not_received(self.connection, table, generation, &mut keys)?;
        if self.download.begin.restored {
            keys.for_each_chunk(&mut |chunk| {
                rejects::record_lost_rows(self.connection, table, chunk, self.circumstances.at)
            })?;
        }
        let again = refresh::was_received(self.connection, table)?;
        if again {
            self.sent_again.came += self.download.came[position].count;
        }
        keys.for_each_chunk(&mut |chunk| {
            let count = count_rows(chunk, table.key.len())?;
            self.sent_again.left += if again { count } else { 0 };
            self.delete_keys_alone(position, chunk, count)
        })
    }

    /// Deletes `count` keys and nothing else. The center names what goes with a row, children
    /// first. A child that is still there refers to a row that is missing at the center.
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
        orphans::put_back(self.connection, self.circumstances)?;
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
        let mut received = match target.notes_spellings {
            true => Some(self.prepare(&refresh::is_received_sql(table))?),
            false => None,
        };
        let mut delete = self.prepare(statements::delete(table))?;
        let mut changed = match &target.changed {
            Some(sql) => Some((self.prepare(&sql.stays)?, self.prepare(&sql.keep_delete)?)),
            None => None,
        };
        let mut key = Vec::new();
        let mut rest = keys;
        for _ in 0..count {
            let mut reader = RowReader::new(rest);
            protocol::read_values(&mut reader, table.key.len(), &mut key)?;
            rest = reader.rest();
            // The center spells the key differently now: the row is not gone.
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
            if !self.circumstances.fires(table) {
                self.actions.watch(|| run(&mut delete, &key)).map_err(explain)?;
                continue;
            }
            // Where no foreign key is, the rest is what triggers have changed.
            let run = || match table.in_foreign_keys {
                true => self.actions.watch(|| run(&mut delete, &key)),
                false => run(&mut delete, &key),
            };
            match fired::attempt(self.connection, run) {
                Err(error) if is_refusal(&error) => kept_back::refuse_delete(
                    self.connection,
                    self.circumstances,
                    table,
                    (&key, &error.to_string()),
                )?,
                deleted => drop(deleted.map_err(explain)?),
            }
        }
        Ok(rest)
    }

    /// Writes the rows that stood in each other's way, with placeholders where they still do.
    pub(super) fn write_waiting_rows(&mut self) -> Result<(), Failure> {
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
        self.write_frames(upserts, &|_| true, &mut |_| {})?;
        self.write_waiting_rows()
    }

    /// Whether foreign keys have changed rows beyond those that were written or deleted.
    pub(super) fn has_seen_actions(&self) -> bool {
        self.actions.seen.get()
    }

    /// Removes what was needed only here. Yields what a refresh took and brought.
    pub(super) fn finish(self) -> Result<SentAgain, Failure> {
        let notes = |target: &&Target<'_>| target.notes_keys || target.notes_spellings;
        for target in self.targets.iter().flatten().filter(notes) {
            refresh::clean_up(self.connection, target.table).map_err(explain)?;
        }
        Ok(self.sent_again)
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, Failure> {
        self.connection.prepare_cached(sql).map_err(explain)
    }
}

/// Writes the waiting rows of a table again. Returns those that are still blocked.
fn rewrite<'a>(
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    actions: &Actions<'a>,
    target: &mut Target<'a>,
) -> Result<Option<WaitingRows>, Failure> {
    let Some(waiting) = target.waiting.take() else { return Ok(None) };
    waiting.for_each_chunk(&mut |chunk| {
        let mut frame = FrameWriter::new(connection, circumstances, actions, target, 1)?;
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = frame.write(rest, 1)?;
        }
        Ok(())
    })?;
    Ok(target.waiting.take())
}

/// Writes rows that stand in each other's way, with placeholders. Where a row that did not come has
/// the value of one of them, that one is kept back, and the others are yielded as they were.
fn part<'a>(
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    actions: &Actions<'a>,
    target: &mut Target<'a>,
    still: WaitingRows,
) -> Result<Option<WaitingRows>, Failure> {
    connection.execute_batch("SAVEPOINT syncline_part").map_err(explain)?;
    let placeholders = Placeholders::new(connection, target.table)?;
    let put = || still.for_each_chunk(&mut |chunk| placeholders.put(chunk));
    let changed = match circumstances.fires(target.table) {
        true => {
            fired::muted(connection, target.table, put)?;
            // No placeholder may stay, whatever triggers do to these rows.
            target.changed.take()
        }
        false => put().map(|()| None)?,
    };
    // Children may have followed to a placeholder; whether they did is not worth asking.
    actions.seen.set(true);
    let mut all = WaitingRows::new(circumstances.spills);
    still.for_each_chunk(&mut |chunk| all.push(chunk))?;
    target.waiting = Some(still);
    let last = rewrite(connection, circumstances, actions, target)?;
    target.changed = target.changed.take().or(changed);
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
    // Changes that wait for their table make no room, and the rest of the download need not wait.
    if circumstances.uploads != Uploads::WithTheirTable
        && circumstances::waits_here(connection, circumstances)
        && !all_are_told(connection, target.table, &last)?
    {
        let failure = Failure::new(Code::ApplyBlocked, message);
        return Err(failure.table(target.table.name()));
    }
    target.keeps_back = true;
    for_each_row(&last, target.table, &mut |_, _, row| {
        kept_back::refuse(connection, circumstances, target.table, row, &message)
    })?;
    let mut others = WaitingRows::new(circumstances.spills);
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

/// Whether it was told of all these rows that the table refuses them. No upload makes room then.
fn all_are_told(
    connection: &Connection,
    table: &RemoteTable,
    rows: &WaitingRows,
) -> Result<bool, Failure> {
    let mut all = true;
    for_each_row(rows, table, &mut |_, key, _| {
        let key: Vec<Value> = key.iter().map(|value| (*value).to_owned()).collect();
        all &= rejects::is_unfit(connection, table, &key).map_err(explain)?;
        Ok(())
    })?;
    Ok(all)
}

type VisitRow<'a> = dyn FnMut(&[u8], &[ValueRef<'_>], &[ValueRef<'_>]) -> Result<(), Failure> + 'a;

/// Shows `visit` each row: its bytes, its key and its values.
fn for_each_row(
    rows: &WaitingRows,
    table: &RemoteTable,
    visit: &mut VisitRow<'_>,
) -> Result<(), Failure> {
    rows.for_each_chunk(&mut |chunk| {
        let mut rest = chunk;
        while !rest.is_empty() {
            let mut reader = RowReader::new(rest);
            let mut row = Vec::with_capacity(table.width());
            protocol::read_values(&mut reader, table.width(), &mut row)?;
            let behind = reader.rest();
            let key: Vec<ValueRef<'_>> = table.key.iter().map(|key| row[key.position]).collect();
            visit(&rest[..rest.len() - behind.len()], &key, &row)?;
            rest = behind;
        }
        Ok(())
    })
}
