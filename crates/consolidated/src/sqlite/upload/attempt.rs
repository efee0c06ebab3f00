//! One attempt at applying an upload.

mod execute;
mod own;
mod rows;

use super::constraint::ForeignKeys;
use super::foresight::Compared;
use super::input::{Input, Turn};
use super::own_entries::Tally;
use super::record::Record;
use crate::catalog::VersionScripts;
use crate::script::Event;
use crate::script::around::RowCues;
use crate::sqlite::errors::{breaks_reference, not_unique, row_fault};
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::RowId;
use crate::upload::waiting::{WaitingRow, WaitingRows};
use model::Failure;
use rusqlite::CachedStatement;

/// One attempt at applying an upload.
pub(super) struct Attempt<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) known: &'a Known,
    pub(super) progress: Progress<'a>,
    pub(super) record: Record<'a>,
    pub(super) waits: Waits,
    pub(super) cues: RowCues<'a>,
}

/// What an attempt knows from those before.
pub(super) struct Known {
    /// Rows that are impossible, and why.
    pub(super) refused: OwedRows,
    /// Rows to be applied after the others, because they leave.
    pub(super) postponed: OwedRows,
    /// Each row is applied in a savepoint of its own.
    pub(super) careful: bool,
    /// The foreign keys that are looked at after each row, where the attempt only searches for the
    /// rows that break some.
    pub(super) foreign_keys: Option<ForeignKeys>,
    /// A search has found that the uploaded rows themselves break none.
    pub(super) acquitted: bool,
    /// Rows in each other's way are refused together, because there were many attempts.
    pub(super) hurried: bool,
}

/// Where an attempt stands.
pub(super) struct Progress<'a> {
    /// Rows that left the partition, as they may.
    pub(super) leaving: OwedRows,
    /// Some of them were not known to leave.
    pub(super) leaves_anew: bool,
    /// Rows that a script cannot read.
    pub(super) unreadable: OwedRows,
    /// A foreign key was broken after one of the rows, perhaps for a moment.
    pub(super) was_violated: bool,
    /// Rows are applied that may break foreign keys of each other.
    pub(super) together: bool,
    /// A row met a fence, and one that left may have been its parent.
    pub(super) fence_was_met: bool,
    /// A table, and a value of its deciding column with which its rows are inside.
    pub(super) inside: Option<(usize, Vec<u8>)>,
    /// What was counted before the deletes, where the upload has any.
    pub(super) before_deletes: Option<Tally>,
    /// Conflicts since the last row that had none.
    pub(super) conflicts: u32,
    pub(super) compared: Option<Compared>,
    /// Reads rows of a table, or of the whole of it, with so many columns as they are. All rows may
    /// have a conflict, so it stays prepared.
    fetching: Option<((usize, usize), CachedStatement<'a>)>,
    /// Whether anything is noted of what the center made of rows of this remote.
    pub(super) has_made: Option<bool>,
}

/// Rows that are not done at their turn.
pub(super) struct Waits {
    /// They met a unique value of another row: tried again when all others are applied.
    pub(super) in_the_way: WaitingRows,
    /// They were outside the partition after they were written.
    pub(super) outside: WaitingRows,
    /// They leave the partition, and are applied after the others.
    pub(super) leaving: WaitingRows,
    /// They were taken back because they broke a foreign key.
    pub(super) broken: WaitingRows,
    /// They could not wait, because too many do.
    pub(super) no_room: OwedRows,
}

/// What became of one row.
#[derive(Debug, PartialEq)]
pub(super) enum RowOutcome {
    Done,
    /// Another row has one of its unique values, in the database's words.
    InTheWay(String),
    /// A foreign key was broken after it, and why. It was taken back. Only where such rows are
    /// searched for.
    Broken(Broken),
}

/// What is wrong with a row after which a foreign key is broken.
#[derive(Debug, PartialEq)]
pub(super) struct Broken {
    pub(super) why: String,
    /// The row itself refers to what is there, and nobody refers to it any more: its trigger or a
    /// cascade has broken it.
    pub(super) elsewhere: bool,
}

/// Why an attempt cannot go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// A statement that failed may have left what it had done.
    LeftTraces,
    /// A script that only reads failed for this row.
    Unreadable(RowId, Reason),
    /// The owner's database has ended the whole transaction at this row.
    Ended(RowId, Reason),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl Stop {
    /// Of a script that only reads: what is wrong is the row, or the script.
    pub(super) fn at_reading(
        input: &Input<'_>,
        error: rusqlite::Error,
        sql: &str,
        turn: Turn<'_>,
        event: Event,
    ) -> Stop {
        let table = &turn.table.published.name;
        match row_fault(input.connection, error, sql, table, event.name()) {
            Ok((_, reason)) => Stop::Unreadable(turn.id(), reason),
            Err(failure) => Stop::Failed(failure),
        }
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        input: &'a Input<'a>,
        known: &'a Known,
        scripts: &'a VersionScripts,
    ) -> Attempt<'a> {
        let none = || OwedRows::within(input.spills);
        let none_wait = || WaitingRows::within(input.spills);
        Attempt {
            input,
            known,
            progress: Progress {
                leaving: none(),
                leaves_anew: false,
                unreadable: none(),
                was_violated: false,
                together: false,
                fence_was_met: false,
                inside: None,
                before_deletes: None,
                conflicts: 0,
                compared: None,
                fetching: None,
                has_made: None,
            },
            record: Record::new(input),
            waits: Waits {
                in_the_way: none_wait(),
                outside: none_wait(),
                leaving: none_wait(),
                broken: none_wait(),
                no_room: none(),
            },
            cues: RowCues::new(scripts, input.request.session),
        }
    }

    /// Keeps a row that was not applied at its turn.
    pub(super) fn put_off(&mut self, row: WaitingRow, outcome: RowOutcome) -> Result<(), Failure> {
        let (rows, reason) = match outcome {
            RowOutcome::Done => return Ok(()),
            RowOutcome::InTheWay(why) => (&mut self.waits.in_the_way, not_unique(why)),
            RowOutcome::Broken(broken) => (&mut self.waits.broken, breaks_reference(broken.why)),
        };
        let id = self.input.id_of(&row)?;
        rows.push(WaitingRow { reason, ..row }).or_else(|why| self.waits.no_room.reject(&id, why))
    }
}
