//! Writing the rows of one frame.

use super::actions::Actions;
use super::target::Target;
use crate::apply::circumstances::Circumstances;
use crate::apply::constraint::is_duplicate;
use crate::apply::fired::row::{self, Written};
use crate::apply::rows::batch;
use crate::apply::rows::comparison::{Stored, compare};
use crate::apply::rows::statements::{self, BATCH_ROWS};
use crate::apply::rows::waiting::WaitingRows;
use crate::apply::values::{exists, run};
use crate::apply::{constraint, kept_back, refresh, rejects};
use crate::connection::explain;
use crate::schema::{KeyColumn, RemoteTable};
use model::{Failure, RowReader, Value, ValueRef};
use rusqlite::{CachedStatement, Connection, Error};

/// Writes rows of one table with the statements prepared once.
pub(super) struct FrameWriter<'a, 'b> {
    circumstances: &'a Circumstances<'a>,
    actions: &'b Actions<'a>,
    table: &'a RemoteTable,
    waiting: &'b mut Option<WaitingRows>,
    only_new: &'b mut bool,
    /// Something is kept back of the table.
    keeps_back: &'b mut bool,
    upsert: CachedStatement<'a>,
    /// The application's triggers fire.
    fires: bool,
    knows_former: bool,
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
    pub(super) fn new(
        connection: &'a Connection,
        circumstances: &'a Circumstances<'a>,
        actions: &'b Actions<'a>,
        target: &'b mut Target<'a>,
        rows: u32,
    ) -> Result<FrameWriter<'a, 'b>, Failure> {
        let table = target.table;
        let prepare = |sql: &str| connection.prepare_cached(sql).map_err(explain);
        let changed = target.changed.as_ref().and_then(|sql| {
            let keeps_values = sql.keeps_values.as_ref()?;
            Some(prepare(keeps_values).and_then(|found| Ok((found, prepare(&sql.keep_row)?))))
        });
        let changed = changed.transpose()?;
        let prepare_if =
            |needed: bool, sql: &dyn Fn() -> String| needed.then(|| prepare(&sql())).transpose();
        Ok(FrameWriter {
            circumstances,
            actions,
            table,
            upsert: prepare(statements::upsert(table))?,
            insert_batch: (rows >= BATCH_ROWS && target.may_batch())
                .then(|| prepare(statements::insert_batch(table)))
                .transpose()?,
            select: prepare_if(target.notes_keys, &|| target.select_sql())?,
            note_key: prepare_if(target.notes_keys || target.notes_spellings, &|| {
                refresh::note_key_sql(target.table)
            })?,
            fires: target.fires,
            knows_former: target.knows_former,
            changed,
            waiting: &mut target.waiting,
            only_new: &mut target.only_new,
            keeps_back: &mut target.keeps_back,
        })
    }

    /// Writes `count` rows from the front of `rows`. Yields what follows them.
    pub(super) fn write<'c>(&mut self, rows: &'c [u8], count: u32) -> Result<&'c [u8], Failure> {
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
        let (connection, width) = (self.actions.connection, self.table.width());
        let inserted = batch::insert(connection, statement, (rows, width), BATCH_ROWS)?;
        if inserted.1 < BATCH_ROWS {
            *self.only_new = false;
        }
        Ok(Some(inserted))
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
            Stored::Missing if tells.brought_back && self.knows_former => {
                rejects::record_brought_back(connection, self.table, key, row, at)
            }
            _ => Ok(()),
        }
    }

    /// A row that stays for another one's sake is overwritten later, when nobody compares it.
    fn tell_of_guarded(
        &mut self,
        key: &[ValueRef<'_>],
        row: &[ValueRef<'_>],
    ) -> Result<(), Failure> {
        if !self.circumstances.guards || !self.actions.tells.get().overwritten {
            return Ok(());
        }
        let Some(select) = &mut self.select else { return Ok(()) };
        match compare(select, key, row).map_err(explain)? {
            Stored::Different => self.tell(Stored::Different, key, row),
            Stored::Missing | Stored::Same => Ok(()),
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
            protocol::read_values(&mut reader, self.table.width(), &mut row)?;
            rest = reader.rest();
            if self.note_key.is_some() || self.changed.is_some() || *self.keeps_back {
                key.clear();
                key.extend(self.table.key.iter().map(|key| row[key.position]));
            }
            if let Some(note_key) = &mut self.note_key {
                run(note_key, &key).map_err(explain)?;
            }
            if let Some((is_changed, _)) = &mut self.changed
                && exists(is_changed, &key, generation).map_err(explain)?
            {
                self.tell_of_guarded(&key, &row)?;
                let Some((_, keep_row)) = &mut self.changed else { continue };
                key.extend_from_slice(&row);
                run(keep_row, &key).map_err(explain)?;
                continue;
            }
            if *self.keeps_back {
                kept_back::forget_row(self.actions.connection, self.table, &key)?;
            }
            if let Some(select) = &mut self.select {
                let stored = compare(select, &key, &row).map_err(explain)?;
                if stored == Stored::Same {
                    continue;
                }
                self.tell(stored, &key, &row)?;
            }
            match self.write_row(&row) {
                Ok(()) if *self.keeps_back => self.forget_refusal(&row)?,
                Ok(()) => {}
                Err(error) if is_duplicate(&error) && !self.is_elsewhere(&error) => {
                    let spills = self.circumstances.spills;
                    let waiting = self.waiting.get_or_insert_with(|| WaitingRows::new(spills));
                    waiting.push(&start[..start.len() - rest.len()])?;
                }
                Err(error) if constraint::is_refusal(&error) => self.refuse(&row, &error)?,
                Err(error) => return Err(explain(error)),
            }
        }
        Ok(rest)
    }

    fn write_row(&mut self, row: &[ValueRef<'_>]) -> rusqlite::Result<()> {
        if !self.fires {
            return self.actions.watch(|| run(&mut self.upsert, row)).map(drop);
        }
        let written = row::write(self.actions.connection, self.table, row)?;
        // What triggers change cannot be told from what foreign keys do.
        let followed =
            self.table.referred_by_value || !self.table.key.iter().all(KeyColumn::is_exact);
        if written == Written::Updated && self.table.in_foreign_keys && followed {
            self.actions.seen.set(true);
        }
        Ok(())
    }

    /// A trigger could not write to another table.
    fn is_elsewhere(&self, error: &Error) -> bool {
        self.fires && constraint::is_of_another_table(error, self.table.name())
    }

    /// The table refuses the row, whatever else lies in it. The others arrive.
    fn refuse(&mut self, row: &[ValueRef<'_>], error: &Error) -> Result<(), Failure> {
        let reason = error.to_string();
        *self.keeps_back = true;
        let connection = self.actions.connection;
        kept_back::refuse(connection, self.circumstances, self.table, row, &reason)
    }

    /// What is reported of an earlier state of the row is no longer true.
    fn forget_refusal(&self, row: &[ValueRef<'_>]) -> Result<(), Failure> {
        let key = self.table.key.iter().map(|key| row[key.position].to_owned());
        let key: Vec<Value> = key.collect();
        rejects::forget_unfit(self.actions.connection, self.table, &key).map_err(explain)
    }
}
