//! Uploaded rows as parameters: one array per column, in PostgreSQL's binary format.
//!
//! The arrays are filled value by value directly from the compact rows, so a row costs no
//! allocation.

use crate::postgres::catalog::table::Table;
use crate::postgres::link::Call;
use crate::postgres::optimize::round_trip_proof::RoundTripProof;
use crate::postgres::statement::{Slot, Statement};
use crate::postgres::upload::stop::Stop;
use crate::postgres::upload::work::Upload;
use crate::synchronization::Session;
use crate::synchronization::change::Change;
use crate::upload::changed_columns::{ChangedColumns, Chosen};
use crate::upload::uploaded_row::UploadedRow;
use bytes::BytesMut;
use model::{Code, Failure, ValueRef};
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use std::error::Error;
use std::fmt::Display;

/// Most bytes of one statement's parameters; PostgreSQL's messages end at 1 GB (trap 16). One row
/// may exceed it, and a frame bounds that.
pub(in crate::postgres) const BATCH_BYTES: usize = 4 << 20;

/// Most rows of one statement, so that a conflict among them costs little.
pub(in crate::postgres) const BATCH_ROWS: u32 = 10_000;

/// Whether rows that are looked at together are enough. The time until the database is asked about
/// them is that of so many rows, however small they are: a transaction must not seem idle.
pub(in crate::postgres) fn are_enough(rows: usize, bytes: usize) -> bool {
    bytes >= BATCH_BYTES || rows >= BATCH_ROWS as usize
}

/// Bytes of an array before its elements: dimensions, whether it has NULLs, type, length, bound.
pub(in crate::postgres) const ARRAY_HEADER: usize = 20;

/// Bytes that a row takes beside its values where it has a statement to itself, here and as
/// messages.
const SCALAR_BYTES: usize = 1 << 10;

/// Around questions about rows: a plan that was made for other tables is not kept.
const PLAN: &str = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)";
const PLAN_NO_MORE: &str = "SELECT set_config('plan_cache_mode', 'auto', true)";

/// Asks these questions about rows, each with a plan for its own parameters. In front of the
/// answers is what was made of a setting. No calls where there is no question.
pub(in crate::postgres) fn questions<'p>(queries: impl Iterator<Item = Call<'p>>) -> Vec<Call<'p>> {
    let mut calls = vec![Call::new(PLAN, &[])];
    calls.extend(queries);
    match calls.len() {
        1 => calls.clear(),
        _ => calls.push(Call::new(PLAN_NO_MORE, &[])),
    }
    calls
}

/// Why a row cannot reach the database at all.
pub(in crate::postgres) use crate::upload::reason::Reason;

/// Rows of one table and change, on their way to one statement.
pub(in crate::postgres) struct Batch<'a> {
    table: &'a Table,
    pub(in crate::postgres) statement: Chosen<'a, Statement>,
    parameters: Vec<Raw>,
    /// Where each parameter ended before the row that is being added.
    marks: Vec<usize>,
    /// Whoever asks sets it; it stays as long as every value is read back as it was sent.
    pub(in crate::postgres) verbatim: Option<&'a RoundTripProof>,
    pub(in crate::postgres) rows: u32,
}

impl<'a> Batch<'a> {
    pub(in crate::postgres) fn new(
        table: &'a Table,
        statement: impl Into<Chosen<'a, Statement>>,
        session: &Session,
    ) -> Batch<'a> {
        let statement = statement.into();
        let parameter = |slot: &Slot| {
            let bytes = match slot {
                Slot::Session(parameter) => {
                    session.value_of(parameter).map(|text| text.as_bytes().to_vec())
                }
                // Of downloads alone.
                Slot::Bound(..) => None,
                Slot::New(_) | Slot::Old(_) => Some(Vec::new()),
                Slot::NewColumn(at) | Slot::OldColumn(at) => {
                    let mut array = Vec::with_capacity(1024);
                    let oid = table.deployed.details.columns[*at].wire().oid();
                    for number in [1, 1, oid, 0, 1] {
                        array.extend_from_slice(&number.to_be_bytes());
                    }
                    Some(array)
                }
            };
            Raw { null: bytes.is_none(), bytes: bytes.unwrap_or_default() }
        };
        let parameters = statement.slots.iter().map(parameter).collect();
        Batch { table, statement, parameters, marks: Vec::new(), verbatim: None, rows: 0 }
    }

    /// Whether the next row belongs into a batch of its own.
    pub(in crate::postgres) fn is_full(&self) -> bool {
        self.filled() >= BATCH_BYTES
            || self.rows >= BATCH_ROWS
            || self.rows > 0 && !self.statement.set_based
    }

    fn filled(&self) -> usize {
        self.parameters.iter().map(|parameter| parameter.bytes.len()).sum()
    }

    /// Adds a row, or says why its key or another column cannot hold it as it is.
    pub(in crate::postgres) fn add(&mut self, row: &UploadedRow<'_>) -> Result<(), Reason> {
        if let Some(reason) = misspelled_key(self.table, row) {
            return Err(reason);
        }
        if self.statement.own.is_some() {
            fits(self.table, row)?;
        }
        self.marks.clear();
        self.marks.extend(self.parameters.iter().map(|parameter| parameter.bytes.len()));
        for (position, slot) in self.statement.slots.iter().enumerate() {
            let (at, value) = match slot {
                Slot::Session(_) | Slot::Bound(..) => continue,
                Slot::New(at) | Slot::NewColumn(at) => (*at, row.new[*at]),
                Slot::Old(at) | Slot::OldColumn(at) => (*at, row.old[*at]),
            };
            let column = &self.table.deployed.details.columns[at];
            if let Err(misfit) = column.write_element(value, &mut self.parameters[position].bytes) {
                for (parameter, mark) in self.parameters.iter_mut().zip(&self.marks) {
                    parameter.bytes.truncate(*mark);
                }
                return Err(unfit(self.table, at, value, &misfit));
            }
            if let Some(verbatim) = self.verbatim {
                let element = &self.parameters[position].bytes[self.marks[position]..];
                let counts = matches!(slot, Slot::NewColumn(_)) || self.is_key(at);
                // What is not assigned stays as it is, and that may be an equal number.
                let may_differ = verbatim.has_equals(at)
                    && row.change == Change::Update
                    && row.old[at].identical(value);
                if counts && (may_differ || !verbatim.keeps(at, value, element)) {
                    self.verbatim = None;
                }
            }
            if matches!(slot, Slot::New(_) | Slot::Old(_)) {
                // A scalar has no length in front.
                self.parameters[position].bytes.drain(..4);
                self.parameters[position].null = matches!(value, ValueRef::Null | ValueRef::Absent);
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn is_key(&self, column: usize) -> bool {
        self.table.deployed.published.key.iter().any(|at| usize::from(*at) == column)
    }

    /// Writes the length into every array; before the batch is sent.
    pub(in crate::postgres) fn finish(&mut self) {
        for (parameter, slot) in self.parameters.iter_mut().zip(&self.statement.slots) {
            if matches!(slot, Slot::NewColumn(_) | Slot::OldColumn(_)) {
                parameter.bytes[12..16].copy_from_slice(&self.rows.to_be_bytes());
            }
        }
    }

    /// The rows with what `seeker` asks for of them, in the order in which they were added.
    pub(in crate::postgres) fn asked_by(
        &self,
        seeker: &Statement,
        change: Change,
    ) -> Option<Vec<&(dyn ToSql + Sync)>> {
        let values = seeker.slots.iter().map(|slot| {
            let slot = match (slot, change) {
                // What a delete has of a row is what it was.
                (Slot::NewColumn(at), Change::Delete) => &Slot::OldColumn(*at),
                _ => slot,
            };
            let at = self.statement.slots.iter().position(|known| known == slot)?;
            Some(&self.parameters[at] as &(dyn ToSql + Sync))
        });
        values.collect()
    }

    /// The statements that change the rows, in their order.
    pub(in crate::postgres) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let Statement { sql, keeps_plan, own, .. } = &*self.statement;
        let (slots, then) = match own {
            Some(own) => (own.slots, &own.then[..]),
            None => (self.parameters.len(), &[][..]),
        };
        let value = |at: usize| &self.parameters[at] as &(dyn ToSql + Sync);
        let first =
            Part { sql, parameters: (0..slots).map(value).collect(), keeps_plan: *keeps_plan };
        std::iter::once(first).chain(then.iter().map(move |following| Part {
            sql: &following.sql,
            parameters: following.parameters.iter().map(|at| value(*at)).collect(),
            keeps_plan: *keeps_plan,
        }))
    }

    /// Whether `affected` says that some rows were not applied.
    pub(in crate::postgres) fn is_short_by(&self, affected: u64) -> bool {
        self.statement.own.as_ref().is_none_or(|own| own.counts) && affected < u64::from(self.rows)
    }

    /// The parameters, in order.
    pub(in crate::postgres) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.parameters.iter().map(|parameter| parameter as &(dyn ToSql + Sync)).collect()
    }

    /// The array for this parameter, if it is one.
    pub(in crate::postgres) fn array(&self, position: usize) -> &[u8] {
        &self.parameters[position].bytes
    }

    pub(in crate::postgres) fn bytes(&self) -> usize {
        self.filled() + if self.statement.set_based { ARRAY_HEADER } else { SCALAR_BYTES }
    }
}

/// A parameter in its binary form already.
#[derive(Debug)]
struct Raw {
    bytes: Vec<u8>,
    /// As a whole.
    null: bool,
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if self.null {
            return Ok(IsNull::Yes);
        }
        out.extend_from_slice(&self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A batch, and which rows of the upload it has.
pub(in crate::postgres) struct Parcel<'a> {
    pub(in crate::postgres) table: usize,
    pub(in crate::postgres) change: Change,
    /// The columns that its statement assigns, of an update that leaves out others.
    pub(in crate::postgres) changed: ChangedColumns,
    pub(in crate::postgres) batch: Batch<'a>,
    pub(in crate::postgres) numbers: Numbers,
}

/// The numbers of rows in an upload, by their positions in a batch: mostly one after the other.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Numbers {
    /// The first position of each run of them, and its number.
    runs: Vec<(u64, u64)>,
    count: u64,
}

impl Numbers {
    pub(in crate::postgres) fn push(&mut self, number: u64) {
        let next = self.runs.last().map(|(at, first)| first + self.count - at);
        if next != Some(number) {
            self.runs.push((self.count, number));
        }
        self.count += 1;
    }

    pub(in crate::postgres) fn len(&self) -> u64 {
        self.count
    }

    /// The number of the row at a position, from 1.
    pub(in crate::postgres) fn at(&self, position: i32) -> Option<u64> {
        let position = u64::try_from(position).ok()?.checked_sub(1)?;
        let behind = self.runs.partition_point(|(at, _)| *at <= position);
        let (at, first) = self.runs.get(behind.checked_sub(1)?)?;
        (position < self.count).then_some(first + position - at)
    }

    /// The numbers of all rows but those at `positions`.
    pub(in crate::postgres) fn without(&self, positions: &[i32]) -> Vec<u64> {
        let mut changed = vec![false; self.count as usize + 1];
        for position in positions {
            let place = usize::try_from(*position).ok().and_then(|at| changed.get_mut(at));
            place.into_iter().for_each(|it| *it = true);
        }
        let places = changed.iter().enumerate().skip(1).filter(|(_, changed)| !**changed);
        places.filter_map(|(at, _)| self.at(at as i32)).collect()
    }
}

/// The call that asks for rows by `batch`.
pub(in crate::postgres) fn query<'a>(
    batch: &'a Batch<'_>,
    parameters: &'a [&'a (dyn ToSql + Sync)],
) -> Call<'a> {
    Call::new(&batch.statement.sql, parameters)
}

/// One of the statements that change the rows of a batch, with its parameters.
pub(in crate::postgres) struct Part<'b> {
    sql: &'b str,
    parameters: Vec<&'b (dyn ToSql + Sync)>,
    keeps_plan: bool,
}

impl Part<'_> {
    pub(in crate::postgres) fn call(&self) -> Call<'_> {
        match self.keeps_plan {
            true => Call::counted(self.sql, &self.parameters),
            false => Call::planned_anew(self.sql, &self.parameters),
        }
    }

    /// The call of a question, whose rows are handed on. It is planned for these parameters,
    /// whatever the plan for others was.
    pub(in crate::postgres) fn asked(&self) -> Call<'_> {
        let (sql, types, parameters) = (self.sql, &[][..], &self.parameters[..]);
        Call::Prepared { sql, types, parameters, keeps_plan: false, counted: false }
    }
}

/// Whether all columns can hold their values. A user's script may name none of them, but what looks
/// at the row later does.
fn fits(table: &Table, row: &UploadedRow<'_>) -> Result<(), Reason> {
    let mut element = Vec::new();
    for (at, column) in table.deployed.details.columns.iter().enumerate() {
        for value in [row.new[at], row.old[at]] {
            element.clear();
            column
                .write_element(value, &mut element)
                .map_err(|misfit| unfit(table, at, value, &misfit))?;
        }
    }
    Ok(())
}

/// Why a row is rejected with a value that its column cannot hold.
fn unfit(table: &Table, at: usize, value: ValueRef<'_>, misfit: &impl Display) -> Reason {
    let name = &table.deployed.published.columns[at];
    (Code::RowRefused, format!("column {name}: {} {misfit}", value.display())).into()
}

/// A key that the database would spell otherwise, which makes it another key at the remote.
fn misspelled_key(table: &Table, row: &UploadedRow<'_>) -> Option<Reason> {
    let (published, details) = (&table.deployed.published, &table.deployed.details);
    let respelled = published.key.iter().map(|at| usize::from(*at)).find(|at| {
        let (column, value) = (&details.columns[*at], row.new[*at]);
        let spelling = details.spelling.as_ref();
        !column.keeps_spelling(value) || spelling.is_some_and(|it| !it.keeps(*at, column, value))
    });
    respelled.map(|at| {
        let (name, text) = (&published.columns[at], row.new[at].display());
        (Code::RowRefused, format!("column {name}: the database spells {text} differently")).into()
    })
}

pub(in crate::postgres) fn batches<'a>(
    table: &'a Table,
    statement: &'a Statement,
    upload: Upload<'_>,
    change: Change,
    rows: &[Vec<u8>],
) -> Result<Vec<Batch<'a>>, Stop> {
    let new = || Batch::new(table, statement, upload.request.session);
    let mut batches: Vec<Batch<'a>> = Vec::new();
    for bytes in rows {
        let mut row = UploadedRow::default();
        row.read(bytes, change, table.deployed.published.width())?;
        if batches.last().is_none_or(Batch::is_full) {
            batches.push(new());
        }
        let Some(batch) = batches.last_mut() else { continue };
        // Rows that do not fit were rejected before.
        batch.add(&row).map_err(|reason| Failure::new(Code::Bug, reason.message))?;
    }
    batches.iter_mut().for_each(Batch::finish);
    Ok(batches)
}

/// Rows on their way to the statements that apply them. Updates are parted by the columns that they
/// change.
pub(in crate::postgres) fn applying<'a>(
    table: &'a Table,
    upload: Upload<'_>,
    change: Change,
    rows: &[Vec<u8>],
) -> Result<Vec<Batch<'a>>, Stop> {
    let mut parted: Vec<(ChangedColumns, Batch<'a>)> = Vec::new();
    let mut changed = ChangedColumns::default();
    for bytes in rows {
        let mut row = UploadedRow::default();
        row.read(bytes, change, table.deployed.published.width())?;
        table.look_at(&row, &mut changed);
        let takes =
            |(of, batch): &&mut (ChangedColumns, Batch<'a>)| *of == changed && !batch.is_full();
        let known = parted.iter_mut().rev().find(takes).map(|(_, batch)| batch);
        let added = match known {
            Some(batch) => batch.add(&row),
            None => {
                let statement = table.applying(change, &changed)?;
                let mut batch = Batch::new(table, statement, upload.request.session);
                let added = batch.add(&row);
                parted.push((changed.clone(), batch));
                added
            }
        };
        // Rows that do not fit were rejected before.
        added.map_err(|reason| Failure::new(Code::Bug, reason.message))?;
    }
    let mut batches: Vec<Batch<'a>> = parted.into_iter().map(|(_, batch)| batch).collect();
    batches.iter_mut().for_each(Batch::finish);
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_left_out_leave_the_numbers_of_the_others() {
        let mut numbers = Numbers::default();
        [3, 4, 5, 8, 10, 11].into_iter().for_each(|number| numbers.push(number));
        let found: Vec<_> = (0..8).map(|at| numbers.at(at)).collect();
        let some = [3, 4, 5, 8, 10, 11].map(Some);
        assert_eq!(found[1..7], some);
        assert_eq!((found[0], found[7], numbers.at(-1)), (None, None, None));
        assert_eq!(numbers.without(&[1, 5, 4]), [4, 5, 11]);
        assert_eq!(numbers.without(&[]), [3, 4, 5, 8, 10, 11]);
        assert_eq!(numbers.without(&[7, -2, 0, 2]), [3, 5, 8, 10, 11]);
    }
}
