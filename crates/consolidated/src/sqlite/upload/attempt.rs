//! One try at applying an upload.

use super::foresight::Foresight;
use super::own_entries::{OwnEntries, Tally};
use super::records::{Fetching, Records};
use super::refused::{Ended, Known};
use crate::sqlite::details::CatalogTable;
use crate::synchronization::{Applied, UploadRequest};
use crate::upload::echo::Echo;
use crate::upload::owed_rows::OwedRows;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{RowId, UploadedRow};
use crate::upload::waiting::{WaitingRow, WaitingRows};
use model::Code;
use model::Failure;
use model::RowReader;
use model::ValueRef;
use model::write_value;
use model::{Counter, Spills};
use rusqlite::Connection;
use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

/// What an upload meets beside its rows.
#[derive(Clone, Copy)]
pub(in crate::sqlite) struct Around<'a> {
    pub(in crate::sqlite) ended: &'a Ended,
    /// Where what is held for remotes lies.
    pub(in crate::sqlite) spills: &'a Arc<Spills>,
}

/// One try at applying an upload.
pub(in crate::sqlite) struct Attempt<'a> {
    pub(in crate::sqlite) connection: &'a Connection,
    pub(in crate::sqlite) tables: &'a [Arc<CatalogTable>],
    pub(in crate::sqlite) request: &'a UploadRequest<'a>,
    pub(super) counter: Counter,
    pub(in crate::sqlite) known: Known<'a>,
    pub(in crate::sqlite) waits: Waits,
    /// Rows that left the partition, as they may.
    pub(in crate::sqlite) leaving: OwedRows,
    /// Some of them were not known to leave.
    pub(in crate::sqlite) leaves_anew: bool,
    /// A foreign key was broken after one of the rows, perhaps for a moment.
    pub(in crate::sqlite) was_violated: bool,
    /// A row met a fence, and one that left may have been its parent.
    pub(in crate::sqlite) fence_was_met: bool,
    pub(in crate::sqlite) applied: Applied,
    /// What the remote is owed, and what was rejected.
    pub(super) owed: OwedRows,
    pub(in crate::sqlite) spills: &'a Arc<Spills>,
    /// What goes to the logs, by table.
    pub(super) own_entries: Vec<Option<OwnEntries>>,
    /// A table, and a value of its deciding column with which its rows are inside.
    inside: Option<(usize, Vec<u8>)>,
    /// Rows that statements of the upload have changed.
    pub(in crate::sqlite) direct: u64,
    /// What was counted before the deletes, where the upload has any.
    pub(super) before_deletes: Option<Tally>,
    /// Rows that are stored as they were rebased, so that the remote has others.
    pub(in crate::sqlite) stored_rebased: RowMap,
    /// The row that is being applied was rebased, and is not what the remote has.
    pub(super) differs: bool,
    /// The last script that resolved a conflict changed something.
    pub(in crate::sqlite) resolved: bool,
    pub(super) fetching: RefCell<Option<Fetching<'a>>>,
    pub(super) records: Option<Records<'a>>,
    pub(super) foresight: Foresight,
    /// Whether anything is noted of what the center made of rows of this remote.
    pub(in crate::sqlite) has_made: OnceCell<bool>,
}

/// Rows that are not done at their turn.
pub(in crate::sqlite) struct Waits {
    /// They met a unique value of another row: tried again when all others are applied.
    pub(in crate::sqlite) in_the_way: WaitingRows,
    /// They were outside the partition after they were written.
    pub(in crate::sqlite) outside: WaitingRows,
    /// They leave the partition, and are applied after the others.
    pub(super) leaving: WaitingRows,
    /// They were taken back because they broke a foreign key.
    pub(in crate::sqlite) broken: WaitingRows,
    /// They could not wait, because too many do.
    pub(in crate::sqlite) no_room: OwedRows,
}

/// What became of one row.
#[derive(Debug, PartialEq)]
pub(in crate::sqlite) enum RowOutcome {
    Done,
    /// Another row has one of its unique values, in the database's words.
    InTheWay(String),
    /// A foreign key was broken after it, and why. It was taken back. Only where such rows are
    /// searched for.
    Broken(Broken),
}

/// What is wrong with a row after which a foreign key is broken.
#[derive(Debug, PartialEq)]
pub(in crate::sqlite) struct Broken {
    pub(in crate::sqlite) why: String,
    /// The row itself refers to what is there, and nobody refers to it any more: its trigger or a
    /// cascade has broken it.
    pub(in crate::sqlite) elsewhere: bool,
}

/// Why an attempt cannot go on.
#[derive(Debug)]
pub(in crate::sqlite) enum Stop {
    /// A statement that failed may have left what it had done. The rows are applied again, each in
    /// a savepoint of its own.
    LeftTraces,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        tables: &'a [Arc<CatalogTable>],
        request: &'a UploadRequest<'a>,
        counter: Counter,
        known: Known<'a>,
        spills: &'a Arc<Spills>,
    ) -> Attempt<'a> {
        Attempt {
            connection,
            tables,
            request,
            counter,
            known,
            waits: Waits {
                in_the_way: WaitingRows::within(spills),
                outside: WaitingRows::within(spills),
                leaving: WaitingRows::within(spills),
                broken: WaitingRows::within(spills),
                no_room: OwedRows::within(spills),
            },
            leaving: OwedRows::within(spills),
            leaves_anew: false,
            was_violated: false,
            fence_was_met: false,
            applied: Applied { echo: Echo::within(spills.memory()), ..Applied::default() },
            owed: OwedRows::within(spills),
            spills,
            own_entries: tables.iter().map(|_| None).collect(),
            inside: None,
            direct: 0,
            before_deletes: None,
            stored_rebased: RowMap::within(spills),
            differs: false,
            resolved: false,
            fetching: RefCell::new(None),
            records: None,
            foresight: Foresight::default(),
            has_made: OnceCell::new(),
        }
    }

    /// Keeps a row that was not applied at its turn.
    pub(super) fn put_off(&mut self, row: WaitingRow, outcome: RowOutcome) -> Result<(), Failure> {
        let (rows, reason) = match outcome {
            RowOutcome::Done => return Ok(()),
            RowOutcome::InTheWay(why) => (&mut self.waits.in_the_way, (Code::RowNotUnique, why)),
            RowOutcome::Broken(broken) => {
                (&mut self.waits.broken, (Code::RowReferences, broken.why))
            }
        };
        let id = id_of(self.tables, &row)?;
        rows.push(WaitingRow { reason, ..row }).or_else(|why| self.waits.no_room.reject(&id, why))
    }

    pub(super) fn refusal(
        &self,
        position: usize,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Option<(Code, String)>, Failure> {
        if self.known.refused.is_empty() {
            return Ok(None);
        }
        self.known.refused.reason(&row.key(&table.published, position))
    }

    /// What is counted of changes at this moment.
    pub(super) fn tally(&self) -> Result<Tally, Failure> {
        Tally::now(self.connection, self.tables, self.direct)
    }

    /// Notes that a statement has changed so many rows of a table.
    pub(super) fn changed(&mut self, position: usize, changes: usize) {
        self.direct += changes as u64;
        if let Some(own) = &mut self.own_entries[position] {
            own.add(changes);
        }
    }

    /// Whether rows of a table with this value in the deciding column are known to be inside.
    pub(super) fn is_inside(&self, position: usize, value: ValueRef<'_>) -> bool {
        let known = self.inside.as_ref().filter(|(table, _)| *table == position);
        known.is_some_and(|(_, known)| {
            RowReader::new(known).value().is_ok_and(|known| known == value)
        })
    }

    pub(super) fn note_inside(&mut self, position: usize, value: ValueRef<'_>) {
        let mut known = Vec::new();
        write_value(&mut known, value);
        self.inside = Some((position, known));
    }
}

/// Table and key of a row that waits.
pub(in crate::sqlite) fn id_of(
    tables: &[Arc<CatalogTable>],
    waits: &WaitingRow,
) -> Result<RowId, Failure> {
    let published = &tables[waits.table].published;
    Ok(waits.read(published)?.key(published, waits.table))
}
