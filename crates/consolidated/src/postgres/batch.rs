//! Uploaded rows as parameters: one array per column, in PostgreSQL's binary format.
//!
//! The arrays are filled value by value directly from the compact rows, so a row costs no
//! allocation.

use super::catalog::Table;
use super::link::Call;
use super::span::session_value;
use super::statement::{Raw, Slot, Statement};
use super::verbatim::Verbatim;
use crate::synchronization::{Change, Session};
use crate::uploaded_row::UploadedRow;
use model::{Code, ValueRef};
use postgres_types::ToSql;

/// Most bytes of one statement's parameters; PostgreSQL's messages end at 1 GB (trap 16). One row
/// may exceed it, and a frame bounds that.
pub(super) const BATCH_BYTES: usize = 4 << 20;

/// Most rows of one statement, so that a conflict among them costs little.
pub(super) const BATCH_ROWS: u32 = 10_000;

/// Bytes of an array before its elements: dimensions, whether it has NULLs, type, length, bound.
const ARRAY_HEADER: usize = 20;

/// Why a row cannot reach the database at all.
pub(super) use crate::owed_rows::Reason;

/// Rows of one table and change, on their way to one statement.
pub(super) struct Batch<'a> {
    table: &'a Table,
    pub(super) statement: &'a Statement,
    parameters: Vec<Vec<u8>>,
    /// Parameters that are NULL as a whole.
    null: Vec<bool>,
    /// Where each parameter ended before the row that is being added.
    marks: Vec<usize>,
    /// True as long as every value is read back as it was sent.
    pub(super) verbatim: Option<&'a Verbatim>,
    pub(super) rows: u32,
}

impl<'a> Batch<'a> {
    pub(super) fn new(table: &'a Table, statement: &'a Statement, session: &Session) -> Batch<'a> {
        let (mut parameters, mut null) = (Vec::new(), Vec::new());
        for slot in &statement.slots {
            let parameter = match slot {
                Slot::Session(parameter) => {
                    session_value(parameter, session).map(|text| text.as_bytes().to_vec())
                }
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
            null.push(parameter.is_none());
            parameters.push(parameter.unwrap_or_default());
        }
        let verbatim = table.verbatim();
        Batch { table, statement, parameters, null, marks: Vec::new(), verbatim, rows: 0 }
    }

    /// Whether the next row belongs into a batch of its own.
    pub(super) fn is_full(&self) -> bool {
        let bytes: usize = self.parameters.iter().map(Vec::len).sum();
        bytes >= BATCH_BYTES || self.rows >= BATCH_ROWS || self.rows > 0 && !self.is_set_based()
    }

    fn is_set_based(&self) -> bool {
        self.statement.set_based
    }

    /// Adds a row, or says why no column can hold it.
    pub(super) fn add(&mut self, row: &UploadedRow<'_>) -> Result<(), Reason> {
        self.marks.clear();
        self.marks.extend(self.parameters.iter().map(Vec::len));
        for (position, slot) in self.statement.slots.iter().enumerate() {
            let (at, value) = match slot {
                Slot::Session(_) => continue,
                Slot::New(at) | Slot::NewColumn(at) => (*at, row.new[*at]),
                Slot::Old(at) | Slot::OldColumn(at) => (*at, row.old[*at]),
            };
            let column = &self.table.deployed.details.columns[at];
            if let Err(misfit) = column.write_element(value, &mut self.parameters[position]) {
                for (parameter, mark) in self.parameters.iter_mut().zip(&self.marks) {
                    parameter.truncate(*mark);
                }
                let name = &self.table.deployed.published.columns[at];
                return Err((
                    Code::RowRefused,
                    format!("column {name}: {} {misfit}", value.display()),
                ));
            }
            if let Some(verbatim) = self.verbatim {
                let element = &self.parameters[position][self.marks[position]..];
                let counts = matches!(slot, Slot::NewColumn(_)) || self.is_key(at);
                if counts && !verbatim.keeps(at, value, element) {
                    self.verbatim = None;
                }
            }
            if matches!(slot, Slot::New(_) | Slot::Old(_)) {
                // A scalar has no length in front.
                self.parameters[position].drain(..4);
                self.null[position] = matches!(value, ValueRef::Null | ValueRef::Absent);
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn is_key(&self, column: usize) -> bool {
        self.table.deployed.published.key.iter().any(|at| usize::from(*at) == column)
    }

    /// Writes the length into every array; before the batch is sent.
    pub(super) fn finish(&mut self) {
        for (parameter, slot) in self.parameters.iter_mut().zip(&self.statement.slots) {
            if matches!(slot, Slot::NewColumn(_) | Slot::OldColumn(_)) {
                parameter[12..16].copy_from_slice(&self.rows.to_be_bytes());
            }
        }
    }

    /// The rows with what `seeker` asks for of them, in the order in which they were added.
    pub(super) fn asked_by(&self, seeker: &Statement, change: Change) -> Option<Vec<Raw<'_>>> {
        let values = seeker.slots.iter().map(|slot| {
            let slot = match (slot, change) {
                // What a delete has of a row is what it was.
                (Slot::NewColumn(at), Change::Delete) => &Slot::OldColumn(*at),
                _ => slot,
            };
            let at = self.statement.slots.iter().position(|known| known == slot)?;
            Some(Raw(Some(self.parameters[at].as_slice())))
        });
        values.collect()
    }

    /// The parameters, in order.
    pub(super) fn values(&self) -> Vec<Raw<'_>> {
        let values = self.parameters.iter().zip(&self.null);
        values.map(|(bytes, null)| Raw((!null).then_some(bytes.as_slice()))).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.parameters.iter().map(Vec::len).sum::<usize>() + ARRAY_HEADER
    }
}

/// As the driver wants them.
pub(super) fn as_parameters<'a>(values: &'a [Raw<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// The call that asks for rows by `batch`.
pub(super) fn query<'a>(
    batch: &'a Batch<'_>,
    parameters: &'a [&'a (dyn ToSql + Sync)],
) -> Call<'a> {
    Call::new(&batch.statement.sql, parameters)
}

/// The call that changes rows by `batch`.
pub(super) fn call<'a>(batch: &'a Batch<'_>, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Call<'a> {
    match batch.statement.keeps_plan {
        true => Call::new(&batch.statement.sql, parameters),
        false => Call::script(&batch.statement.sql, parameters),
    }
}

/// A key that the database would spell otherwise, which makes it another key at the remote.
pub(super) fn misspelled_key(table: &Table, row: &UploadedRow<'_>) -> Option<Reason> {
    table.deployed.published.key.iter().map(|at| usize::from(*at)).find_map(|at| {
        let details = &table.deployed.details;
        let column = &details.columns[at];
        let keeps = |value| {
            let spelling = details.spelling.as_ref();
            column.keeps_spelling(value) && spelling.is_none_or(|s| s.keeps(at, column, value))
        };
        let moved = row.change == Change::KeyChange && !keeps(row.old[at]);
        let respelled = match (keeps(row.new[at]), moved) {
            (false, _) => Some(row.new[at]),
            (true, true) => Some(row.old[at]),
            (true, false) => None,
        };
        respelled.map(|value| {
            let name = &table.deployed.published.columns[at];
            let text = value.display();
            (Code::RowRefused, format!("column {name}: the database spells {text} differently"))
        })
    })
}
