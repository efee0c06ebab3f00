//! Applies the rows of an upload, if necessary again without the rows that made it fail.

use super::super::errors::failed;
use super::attempt::{Around, Attempt, Stop};
use super::refused::{Known, Unanswered};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::upload::constraint::{self, ForeignKeys, Found};
use crate::sqlite::upload::fence;
use crate::sqlite::upload::taken_along;
use crate::synchronization::{Applied, UploadRequest};
use crate::upload::owed_rows::{OwedRows, Reason};
use crate::upload::uploaded_row::each_row;
use model::{Code, Counter, Failure};
use rusqlite::Connection;
use std::sync::Arc;

/// After so many attempts, rows in each other's way are refused together.
const PATIENT_ATTEMPTS: usize = 20;

/// The most times that an upload is applied again without the rows that stand in its way. Then all
/// its rows are refused.
const ATTEMPTS_MAX: usize = 100;

/// The result of one attempt.
enum Ending {
    /// All rows are applied, or reported.
    Done,
    /// A foreign key is broken, or may be where SQLite does not count it.
    Broken {
        counted: bool,
    },
    /// The attempt was a search for the rows that break foreign keys.
    Searched(Found),
    /// What met a fence because its parent had left is tried once more before it is refused.
    Last(OwedRows),
    Without(OwedRows),
}

/// Applies the rows; where foreign keys or unique values make some of them impossible, everything
/// is undone and applied again without these.
pub(super) fn apply(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    counter: Counter,
    around: Around<'_>,
) -> Result<Applied, Failure> {
    let none = || OwedRows::within(around.spills);
    let mut attempts = Attempts {
        connection,
        tables,
        request,
        counter,
        around,
        made: 0,
        refused: none(),
        postponed: none(),
        unanswered: Unanswered::new(none()),
        apart: false,
        searching: false,
        foreign_keys: None,
        counted: false,
        acquitted: false,
    };
    for (row, reason) in around.ended.borrow().iter() {
        attempts.refused.reject(row, reason.clone())?;
    }
    while attempts.made < ATTEMPTS_MAX {
        if let Some(applied) = attempts.next()? {
            return Ok(applied);
        }
    }
    let why = "the rows of the upload stand in each other's way";
    attempts.refuse_all((Code::RowRefused, why.to_owned()))?;
    let left = || Failure::new(Code::Bug, "an upload of which all is refused is not applied");
    attempts.next()?.ok_or_else(left)
}

/// The attempts at an upload, and what the next one knows from those before.
struct Attempts<'a> {
    connection: &'a Connection,
    tables: &'a [Arc<CatalogTable>],
    request: &'a UploadRequest<'a>,
    counter: Counter,
    around: Around<'a>,
    made: usize,
    /// Impossible rows.
    refused: OwedRows,
    /// Applied after the others.
    postponed: OwedRows,
    unanswered: Unanswered,
    apart: bool,
    searching: bool,
    /// The next attempt searches for the rows that break these.
    foreign_keys: Option<Arc<ForeignKeys>>,
    /// SQLite has counted a broken foreign key, so there is one.
    counted: bool,
    acquitted: bool,
}

impl Attempts<'_> {
    /// Makes one. None if there must be another one.
    fn next(&mut self) -> Result<Option<Applied>, Failure> {
        self.connection.execute_batch("SAVEPOINT rows").map_err(failed("set a savepoint"))?;
        let (tables, request, spills) = (self.tables, self.request, self.around.spills);
        let known = Known {
            refused: &self.refused,
            postponed: &self.postponed,
            unanswered: &self.unanswered,
            searching: self.searching,
            ended: self.around.ended,
            apart: self.apart,
            foreign_keys: self.foreign_keys.clone(),
            acquitted: self.acquitted,
            hurried: self.made >= PATIENT_ATTEMPTS,
        };
        let mut attempt =
            Attempt::new(self.connection, tables, request, self.counter, known, spills);
        let ending = match self.foreign_keys {
            Some(_) => constraint::search(&mut attempt).map(Ending::Searched),
            None => judge(&mut attempt),
        };
        let ending = match ending {
            Ok(Ending::Done) => match attempt.finish() {
                Ok(applied) => {
                    let released = self.connection.execute_batch("RELEASE rows");
                    return released.map(|()| Some(applied)).map_err(failed("release a savepoint"));
                }
                Err(failure) => Err(failure.into()),
            },
            ending => {
                drop(attempt);
                ending
            }
        };
        self.made += 1;
        self.learn(ending).map(|()| None)
    }

    /// Undoes an attempt, and keeps what it has found.
    fn learn(&mut self, ending: Result<Ending, Stop>) -> Result<(), Failure> {
        if let Err(Stop::LeftTraces) = ending {
            self.apart = true;
            return undo(self.connection);
        }
        let unanswered = self.unanswered.replace(OwedRows::within(self.around.spills));
        if leave_out(&unanswered, &mut self.refused)? {
            self.searching = true;
            return undo(self.connection);
        }
        let ending = match ending {
            Ok(ending) => ending,
            Err(Stop::Failed(failure)) => return Err(failure),
            Err(Stop::LeftTraces) => return Ok(()),
        };
        undo(self.connection)?;
        match ending {
            Ending::Done => Ok(()),
            Ending::Broken { counted } => {
                self.counted = counted;
                self.foreign_keys = Some(Arc::new(ForeignKeys::of(self.connection, self.tables)?));
                Ok(())
            }
            Ending::Searched(found) => self.conclude(&found),
            Ending::Last(leaving) => self.postponed.extend(&leaving),
            Ending::Without(impossible) => self.refused.extend(&impossible),
        }
    }

    /// Refuses the rows that a search has found.
    fn conclude(&mut self, found: &Found) -> Result<(), Failure> {
        self.foreign_keys = None;
        if !found.refused.is_empty() {
            return self.refused.extend(&found.refused);
        }
        if !self.counted {
            // It looked so because of orphans from long ago.
            self.acquitted = true;
            return Ok(());
        }
        // In the order of the upload the rows break one, and in the order of the search they do
        // not. Without the rows that waited, both orders are the same.
        if !found.waited.is_empty() {
            return self.refused.extend(&found.waited);
        }
        let why = "a foreign key is broken after the upload, and it is not known by which row";
        self.refuse_all((Code::RowReferences, why.to_owned()))
    }

    /// Refuses all rows that were not refused before.
    fn refuse_all(&mut self, reason: Reason) -> Result<(), Failure> {
        let (batches, tables, refused) = (self.request.batches, self.tables, &mut self.refused);
        let published = |position: usize| &tables[position].published;
        each_row(
            batches,
            &published,
            |_, _| true,
            |position, row| {
                let id = row.key(published(position), position);
                match refused.contains(&id)? {
                    true => Ok(()),
                    false => refused.reject(&id, reason.clone()),
                }
            },
        )
    }
}

/// Leaves out rows for which a script has failed; false where none is new.
fn leave_out(rows: &OwedRows, refused: &mut OwedRows) -> Result<bool, Failure> {
    let before = refused.added();
    rows.visit(|table, key, reason| {
        let row = (table, key.to_vec());
        match reason {
            Some(reason) if !refused.contains(&row)? => refused.reject(&row, reason),
            _ => Ok(()),
        }
    })?;
    Ok(refused.added() > before)
}

/// Applies the rows once, and says what is to be done about those that could not be.
fn judge(attempt: &mut Attempt<'_>) -> Result<Ending, Stop> {
    attempt.rows()?;
    attempt.end_search()?;
    let mut impossible = constraint::settle_waiting(attempt)?;
    impossible.extend(&attempt.waits.no_room)?;
    fence::written_outside(attempt, &mut impossible)?;
    attempt.end_search()?;
    attempt.fence_was_met |= !impossible.is_empty();
    if attempt.fence_was_met && attempt.leaves_anew {
        let none = OwedRows::within(attempt.spills);
        return Ok(Ending::Last(std::mem::replace(&mut attempt.leaving, none)));
    }
    if !impossible.is_empty() {
        return Ok(Ending::Without(impossible));
    }
    let counted = constraint::foreign_keys_violated(attempt.connection)?;
    if counted || constraint::hides_violations(attempt)? {
        return Ok(Ending::Broken { counted });
    }
    if taken_along::may_be(attempt)? {
        taken_along::reject(attempt)?;
    }
    Ok(Ending::Done)
}

fn undo(connection: &Connection) -> Result<(), Failure> {
    connection.execute_batch("ROLLBACK TO rows; RELEASE rows").map_err(failed("undo the attempt"))
}
