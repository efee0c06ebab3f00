//! Reads the centre's versions of uploaded rows, inside the transaction that applies them.

use super::batch::{self, Batch};
use super::careful::{Careful, batches};
use super::conflict;
use super::fetch::unreadable;
use super::image::Decoder;
use super::link::{Call, RowRef};
use super::row_fault::{RowFault, row_fault};
use super::statement::Statement;
use super::upload::{Stop, stopped};
use crate::script::Event;
use crate::synchronization::Change;
use model::{Failure, RowReader, write_value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl Careful<'_, '_> {
    /// The rows as they are at the centre now, as far as the partition covers them, by key.
    pub(super) fn fetch(
        &mut self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<HashMap<Vec<u8>, Vec<u8>>, Stop> {
        if let Some(seen) = self.looked_up(table, change, rows)? {
            return self.fetch(table, Change::Delete, &seen);
        }
        let this = self.table(table);
        let columns = &this.deployed.details.columns;
        let statement = this.required(Event::UploadFetch)?;
        let mut images = HashMap::new();
        let key = &this.deployed.published.key;
        let mut decoder: Option<Decoder> = None;
        self.ask_as_it_is(table, change, statement, rows, &mut |row| {
            let decoder = match &mut decoder {
                Some(decoder) => decoder,
                none => none.insert(Decoder::new(row, columns.iter())?),
            };
            let mut image = Vec::new();
            decoder.write(row, &mut image)?;
            images.insert(key_of(&image, columns.len(), key)?, image);
            Ok(())
        })?;
        Ok(images)
    }

    /// The keys of those rows that exist at the centre, covered or not.
    pub(super) fn present(
        &mut self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<HashSet<Vec<u8>>, Stop> {
        if let Some(seen) = self.looked_up(table, change, rows)? {
            return self.present(table, Change::Delete, &seen);
        }
        let statement = match self.present.get(&table) {
            Some(statement) => statement.clone(),
            None => {
                let statement = Arc::new(conflict::presence(self.table(table))?);
                self.present.insert(table, statement.clone());
                statement
            }
        };
        self.keys(table, change, &statement, rows)
    }

    /// The keys of those new rows that the partition will cover. `None`: there is no fence.
    pub(super) fn inside(
        &mut self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<Option<HashSet<Vec<u8>>>, Stop> {
        match self.table(table).statement(Event::UploadFence) {
            Some(fence) => self.keys(table, change, fence, rows).map(Some),
            None => Ok(None),
        }
    }

    fn keys(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
    ) -> Result<HashSet<Vec<u8>>, Stop> {
        let this = self.table(table);
        let (published, columns) = (&this.deployed.published, &this.deployed.details.columns);
        let key: Vec<_> = published.key.iter().map(|at| &columns[usize::from(*at)]).collect();
        let mut keys = HashSet::new();
        self.ask_as_it_is(table, change, statement, rows, &mut |row| {
            let mut bytes = Vec::new();
            Decoder::new(row, key.iter().copied())?.write(row, &mut bytes)?;
            keys.insert(bytes);
            Ok(())
        })?;
        Ok(keys)
    }

    /// Hands on what `statement` finds for the keys of `rows`, for a key change the old one.
    pub(super) fn ask(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
        each: &mut dyn FnMut(RowRef<'_>) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        match self.looked_up(table, change, rows)? {
            Some(seen) => self.ask_as_it_is(table, Change::Delete, statement, &seen, each),
            None => self.ask_as_it_is(table, change, statement, rows, each),
        }
    }

    fn ask_as_it_is(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
        each: &mut dyn FnMut(RowRef<'_>) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        let batches = batches(self.table(table), statement, self.upload, change, rows)?;
        let Some((_, failure)) = self.select_unless(&batches, each)? else { return Ok(()) };
        Err(self.unanswered(table, change, statement, rows, failure)?)
    }

    /// The rows for which `statement` fails by themselves: the upload goes on without these.
    fn unanswered(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
        failure: Failure,
    ) -> Result<Stop, Stop> {
        let mut refused = Vec::new();
        let mut stack = vec![rows];
        while let Some(some) = stack.pop() {
            let batches = batches(self.table(table), statement, self.upload, change, some)?;
            let Some((fault, _)) = self.select_unless(&batches, &mut |_| Ok(()))? else {
                continue;
            };
            let (first, second) = some.split_at(some.len().div_ceil(2));
            match second.is_empty() {
                false => stack.extend([second, first]),
                true => refused.push((self.sent_id(table, change, &some[0])?, fault.into_reason())),
            }
        }
        Ok(Stop::Refused(refused, failure))
    }

    /// Sends queries and hands on their rows.
    pub(super) fn select(
        &mut self,
        batches: &[Batch<'_>],
        each: &mut dyn FnMut(RowRef<'_>) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        match self.select_unless(batches, each)? {
            None => Ok(()),
            Some((_, failure)) => Err(failure.into()),
        }
    }

    /// The same; where they fail for the data of a row they leave nothing behind, and it is said
    /// how.
    fn select_unless(
        &mut self,
        batches: &[Batch<'_>],
        each: &mut dyn FnMut(RowRef<'_>) -> Result<(), Failure>,
    ) -> Result<Option<(RowFault, Failure)>, Stop> {
        self.flush()?;
        let values: Vec<_> = batches.iter().map(Batch::values).collect();
        let parameters: Vec<_> = values.iter().map(|values| batch::as_parameters(values)).collect();
        let reading = stopped("read rows as they are now");
        let mut calls =
            vec![Call::Simple("SET LOCAL plan_cache_mode = 'force_custom_plan'; SAVEPOINT asked")];
        calls.extend(batches.iter().zip(&parameters).map(|(batch, p)| batch::query(batch, p)));
        calls.push(Call::Simple("RELEASE SAVEPOINT asked; SET LOCAL plan_cache_mode = 'auto'"));
        let Err(fault) = self.link.stream(&calls, &mut |_, row| each(row)) else { return Ok(None) };
        let Some(row_fault) = row_fault(&fault) else { return Err(reading(fault)) };
        let undo = "ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked;
            SET LOCAL plan_cache_mode = 'auto'";
        self.link.batch(undo).map_err(stopped("undo what failed"))?;
        Ok(Some((row_fault, reading(fault).into_failure())))
    }

    /// The rows that `statement` finds: it returns their positions, from 1.
    pub(super) fn positions(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
    ) -> Result<Result<HashSet<usize>, RowFault>, Stop> {
        let batches = batches(self.table(table), statement, self.upload, change, rows)?;
        let mut offsets = vec![0];
        for batch in &batches {
            offsets.push(offsets.last().unwrap_or(&0) + batch.rows as usize);
        }
        self.flush()?;
        let values: Vec<_> = batches.iter().map(Batch::values).collect();
        let parameters: Vec<_> = values.iter().map(|values| batch::as_parameters(values)).collect();
        let mut calls = vec![Call::Simple("SAVEPOINT asked")];
        calls.extend(batches.iter().zip(&parameters).map(|(batch, p)| batch::query(batch, p)));
        calls.push(Call::Simple("RELEASE SAVEPOINT asked"));
        let fault = match self.link.flight(&calls) {
            Ok(answers) => {
                let mut found = HashSet::new();
                for (answer, offset) in answers.iter().skip(1).zip(offsets) {
                    for row in &answer.rows {
                        let position: i32 = row.try_get(0).map_err(unreadable)?;
                        found.insert(offset + position as usize - 1);
                    }
                }
                return Ok(Ok(found));
            }
            Err(fault) => fault,
        };
        let Some(row_fault) = row_fault(&fault) else {
            return Err(stopped("ask about rows")(fault));
        };
        let undo = "ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked";
        self.link.batch(undo).map_err(stopped("undo what failed"))?;
        Ok(Err(row_fault))
    }
}

fn key_of(image: &[u8], width: usize, key: &[u16]) -> Result<Vec<u8>, Failure> {
    let mut reader = RowReader::new(image);
    let values = (0..width).map(|_| reader.value()).collect::<Result<Vec<_>, _>>()?;
    let mut bytes = Vec::new();
    key.iter().for_each(|at| write_value(&mut bytes, values[usize::from(*at)]));
    Ok(bytes)
}
