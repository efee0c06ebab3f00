//! Reads the center's versions of uploaded rows, inside the transaction that applies them.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::unreadable;
use crate::postgres::link::{Call, RowRef};
use crate::postgres::statement::Statement;
use crate::postgres::upload::batch::{self, Batch, batches};
use crate::postgres::upload::isolation::group::Images;
use crate::postgres::upload::isolation::state::{Isolation, UNDO};
use crate::postgres::upload::row_fault::{RowFault, row_fault};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::values::row_decoder::Decoder;
use crate::quote::ident;
use crate::script::{Event, Script};
use crate::synchronization::change::Change;
use crate::upload::halving;
use model::{Failure, RowReader, write_value};
use std::collections::{HashMap, HashSet};

impl Isolation<'_, '_> {
    /// The rows as they are at the center now, as far as the partition covers them, by key.
    pub(in crate::postgres) fn fetch(
        &mut self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<Images, Stop> {
        let this = self.table(table);
        let statement = this.required(Event::UploadLook)?;
        self.images(table, change, (statement, this), rows)
    }

    /// The same as `statement` finds them, which returns rows of `of`.
    pub(in crate::postgres) fn images(
        &mut self,
        table: usize,
        change: Change,
        (statement, of): (&Statement, &Table),
        rows: &[Vec<u8>],
    ) -> Result<Images, Stop> {
        let columns = &of.deployed.details.columns;
        let mut images = HashMap::new();
        let key = &of.deployed.published.key;
        let mut decoder: Option<Decoder> = None;
        // The next row will be about as large.
        let mut bytes = 0;
        self.ask(table, change, statement, rows, &mut |row| {
            let decoder = match &mut decoder {
                Some(decoder) => decoder,
                none => none.insert(Decoder::new(row, columns.iter())?),
            };
            let mut image = Vec::with_capacity(bytes);
            decoder.write(row, &mut image)?;
            bytes = image.len();
            images.insert(key_of(&image, columns.len(), key)?, image);
            Ok(())
        })?;
        Ok(images)
    }

    /// The keys of those rows that exist at the center, covered or not.
    pub(in crate::postgres) fn present(
        &mut self,
        table: usize,
        change: Change,
        rows: &[Vec<u8>],
    ) -> Result<HashSet<Vec<u8>>, Stop> {
        let statement = existing(self.table(table), "keys", &[])?;
        self.keys(table, change, &statement, rows)
    }

    /// The keys of those new rows that exist at the center and, in a table that is only uploaded,
    /// refer to what they did.
    pub(in crate::postgres) fn as_uploaded(
        &mut self,
        table: usize,
        rows: &[Vec<u8>],
    ) -> Result<HashSet<Vec<u8>>, Stop> {
        let this = self.table(table);
        let statement = existing(this, "inserts", &this.deployed.details.written)?;
        self.keys(table, Change::Insert, &statement, rows)
    }

    /// The keys of those new rows that the partition will cover. `None`: there is no fence.
    pub(in crate::postgres) fn inside(
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
        self.ask(table, change, statement, rows, &mut |row| {
            let mut bytes = Vec::new();
            Decoder::new(row, key.iter().copied())?.write(row, &mut bytes)?;
            keys.insert(bytes);
            Ok(())
        })?;
        Ok(keys)
    }

    /// Hands on what `statement` finds for the keys of `rows`.
    fn ask(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
        each: &mut dyn FnMut(RowRef<'_>) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        let batches = batches(self.table(table), statement, self.upload, change, rows)?;
        let Some((_, failure)) = self.select_unless(&batches, &mut |_, row| each(row))? else {
            return Ok(());
        };
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
        let faults = halving::failing(rows, |some| {
            let batches = batches(self.table(table), statement, self.upload, change, some)?;
            let fault = self.select_unless(&batches, &mut |_, _| Ok(()))?;
            Ok::<_, Stop>(fault.map(|(fault, _)| fault.into_reason()))
        })?;
        let refused = faults.into_iter().map(|(row, why)| {
            let id = self.sent_id(table, change, row)?;
            Ok((id, why))
        });
        Ok(Stop::Refused(refused.collect::<Result<_, Stop>>()?, failure))
    }

    /// Sends queries and hands on their rows, each with the position of its batch. Where they fail
    /// for the data of a row they leave nothing behind, and it is said how.
    pub(super) fn select_unless(
        &mut self,
        batches: &[Batch<'_>],
        each: &mut dyn FnMut(usize, RowRef<'_>) -> Result<(), Failure>,
    ) -> Result<Option<(RowFault, Failure)>, Stop> {
        if self.before == UNDO {
            self.flush()?;
        }
        let parameters: Vec<_> = batches.iter().map(Batch::parameters).collect();
        let reading = stopped("read rows as they are now");
        let before = std::mem::take(&mut self.before);
        let begin =
            format!("{before} SET LOCAL plan_cache_mode = 'force_custom_plan'; SAVEPOINT asked");
        let mut calls = vec![Call::Simple(&begin)];
        calls.extend(batches.iter().zip(&parameters).map(|(batch, p)| batch::query(batch, p)));
        calls.push(Call::Simple("RELEASE SAVEPOINT asked; SET LOCAL plan_cache_mode = 'auto'"));
        let asked = self.link.stream(&calls, &mut |call, row| each(call - 1, row));
        let Err(fault) = asked else { return Ok(None) };
        let Some(row_fault) = row_fault(&fault) else { return Err(reading(fault)) };
        let undo = "ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked;
            SET LOCAL plan_cache_mode = 'auto'";
        self.link.batch(undo).map_err(stopped("undo what failed"))?;
        Ok(Some((row_fault, reading(fault).into_failure())))
    }

    /// The rows that `statement` finds: it returns their positions, from 1.
    pub(in crate::postgres) fn positions(
        &mut self,
        table: usize,
        change: Change,
        statement: &Statement,
        rows: &[Vec<u8>],
    ) -> Result<Result<HashSet<usize>, RowFault>, Stop> {
        let batches = batches(self.table(table), statement, self.upload, change, rows)?;
        let mut found = HashSet::new();
        let fault = self.select_unless(&batches, &mut |batch, row| {
            let before: usize = batches[..batch].iter().map(|batch| batch.rows as usize).sum();
            let position: i32 = row.try_get(0).map_err(unreadable)?;
            found.insert(before + position as usize - 1);
            Ok(())
        })?;
        Ok(fault.map_or(Ok(found), |(fault, _)| Err(fault)))
    }
}

pub(super) fn key_of(image: &[u8], width: usize, key: &[u16]) -> Result<Vec<u8>, Failure> {
    let mut reader = RowReader::new(image);
    let mut values = Vec::with_capacity(width);
    for _ in 0..width {
        values.push(reader.value()?);
    }
    let mut bytes = Vec::new();
    key.iter().for_each(|at| write_value(&mut bytes, values[usize::from(*at)]));
    Ok(bytes)
}

/// Asks which rows of a relation exist, with the same values in `compared`.
fn existing(table: &Table, relation: &str, compared: &[String]) -> Result<Statement, Failure> {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let key: Vec<(&str, bool)> = published
        .key
        .iter()
        .map(|at| usize::from(*at))
        .map(|at| (published.columns[at].as_str(), details.columns[at].read_as_text()))
        .collect();
    let selected: Vec<String> = key
        .iter()
        .map(|(name, as_text)| format!("k.{}{}", ident(name), if *as_text { "::text" } else { "" }))
        .collect();
    let same = key.iter().map(|(name, _)| format!("t.{0} = k.{0}", ident(name)));
    let compared =
        compared.iter().map(|name| format!("t.{0} IS NOT DISTINCT FROM k.{0}", ident(name)));
    let text = format!(
        "SELECT {} FROM {{{relation}}} AS k WHERE EXISTS (SELECT FROM {} AS t WHERE {})",
        selected.join(", "),
        details.sql_name(),
        same.chain(compared).collect::<Vec<_>>().join(" AND "),
    );
    let script = Script::parse(&text, published)?;
    Ok(Statement::of(&script, published, &details.columns))
}
