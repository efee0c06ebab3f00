//! One uploaded row, decoded.

use crate::script::Event;
use crate::synchronization::change::{Change, RowSource, UploadedRows};
use model::{Code, Failure, PublishedTable, RowReader, ValueRef, write_value};

/// Table and key of a row.
pub(crate) type RowId = (usize, Vec<u8>);

/// The event at which rows with this change are applied.
pub(crate) fn event_of(change: Change) -> Event {
    match change {
        Change::Insert => Event::UploadInsert,
        Change::Update => Event::UploadUpdate,
        Change::Delete => Event::UploadDelete,
    }
}

/// The event at which rows with a conflict are resolved.
pub(crate) fn resolution_of(change: Change) -> Event {
    match change {
        Change::Delete => Event::DeleteConflictRule,
        Change::Insert | Change::Update => Event::ConflictRule,
    }
}

/// One uploaded row, decoded; the vectors are reused from row to row.
pub(crate) struct UploadedRow<'a> {
    pub(crate) change: Change,
    pub(crate) bytes: &'a [u8],
    pub(crate) old: Vec<ValueRef<'a>>,
    pub(crate) new: Vec<ValueRef<'a>>,
    new_from: usize,
}

impl Default for UploadedRow<'_> {
    fn default() -> Self {
        let (old, new) = (Vec::new(), Vec::new());
        UploadedRow { change: Change::Insert, bytes: &[], old, new, new_from: 0 }
    }
}

impl<'a> UploadedRow<'a> {
    /// Reads the row at the front of `rows` and returns what follows it.
    ///
    /// An insert has an old image of NULLs, and a delete its old image as the new one too, so
    /// that every parameter of every script has a value.
    pub(crate) fn read(
        &mut self,
        rows: &'a [u8],
        change: Change,
        width: usize,
    ) -> Result<&'a [u8], Failure> {
        let mut reader = RowReader::new(rows);
        let mut images = |values: &mut Vec<ValueRef<'a>>| -> Result<usize, Failure> {
            values.clear();
            values.reserve(width);
            for _ in 0..width {
                values.push(reader.value()?);
            }
            Ok(rows.len() - reader.rest().len())
        };
        self.new_from = 0;
        match change {
            Change::Insert => {
                images(&mut self.new)?;
                self.old.clear();
                self.old.resize(width, ValueRef::Null);
            }
            Change::Update => {
                self.new_from = images(&mut self.old)?;
                images(&mut self.new)?;
            }
            Change::Delete => {
                images(&mut self.old)?;
                self.new.clone_from(&self.old);
            }
        }
        if self.new.contains(&ValueRef::Absent) {
            return Err(Failure::new(Code::MalformedMessage, "a row lacks a value"));
        }
        // The remote does not keep an old value twice: one that it did not change is the new one.
        for (old, new) in self.old.iter_mut().zip(&self.new) {
            if *old == ValueRef::Absent {
                *old = *new;
            }
        }
        let rest = reader.rest();
        self.change = change;
        self.bytes = &rows[..rows.len() - rest.len()];
        Ok(rest)
    }

    /// The new row, encoded.
    pub(crate) fn new_image(&self) -> &'a [u8] {
        &self.bytes[self.new_from..]
    }

    /// Table and key.
    pub(crate) fn key(&self, table: &PublishedTable, position: usize) -> RowId {
        let image = if self.change == Change::Insert { &self.new } else { &self.old };
        (position, key_of(table, image))
    }

    /// Whether it is an update that changes one of the columns at these positions.
    pub(crate) fn adds_to(&self, added: &[u16]) -> bool {
        let changes = |at: &u16| {
            let at = usize::from(*at);
            !self.old[at].identical(self.new[at])
        };
        self.change == Change::Update && added.iter().any(changes)
    }

    /// Whether a row, encoded, is what the remote saw.
    pub(crate) fn is_as_seen(&self, now: &[u8]) -> Result<bool, Failure> {
        let mut reader = RowReader::new(now);
        for old in &self.old {
            if !reader.value()?.identical(*old) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The columns of the key, encoded.
pub(crate) fn key_of(table: &PublishedTable, image: &[ValueRef<'_>]) -> Vec<u8> {
    // As long as most keys are.
    let mut key = Vec::with_capacity(16 * table.key.len());
    table.key.iter().for_each(|column| write_value(&mut key, image[usize::from(*column)]));
    key
}

/// Visits the batches of an upload in the order sent, until one fails.
pub(crate) fn each_batch<E: From<Failure>>(
    batches: RowSource<'_>,
    mut visit: impl FnMut(UploadedRows<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut outcome = Ok(());
    batches(&mut |batch| {
        // What is left is passed over.
        if outcome.is_ok() {
            outcome = visit(batch);
        }
        Ok(())
    })?;
    outcome
}

/// Visits the uploaded rows for which `wanted` holds, in the order of the upload. `wanted` gets the
/// position of the table, and the change.
pub(crate) fn each_row<'t>(
    batches: RowSource<'_>,
    table: &dyn Fn(usize) -> &'t PublishedTable,
    wanted: impl Fn(usize, Change) -> bool,
    mut visit: impl FnMut(usize, &UploadedRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    batches(&mut |batch| {
        if !wanted(batch.table, batch.change) {
            return Ok(());
        }
        let width = table(batch.table).width();
        let (mut row, mut rest) = (UploadedRow::default(), batch.rows);
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, width)?;
            visit(batch.table, &row)?;
        }
        Ok(())
    })
}
