//! Rows of an upload that the remote is owed, that were refused, and why, or that lost a conflict.
//!
//! An upload of a million rows may owe each of them. So what there is no memory for lies on disk.

use crate::administration::readable;
use crate::script::secrets::Secrets;
use crate::shape::LeftOut;
use crate::upload::reason::{DatabaseFault, Reason};
use crate::upload::row_map::{place, read_place};
use crate::upload::uploaded_row::RowId;
use model::{Failure, SpillMap, Spills};
use std::sync::Arc;

/// From so many rows on they are worth more than an entry each.
const MANY: u64 = 50;

/// Rows by table and key, each once; one that is owed and was rejected has the reason.
#[derive(Debug)]
pub(crate) struct OwedRows {
    rows: SpillMap,
    rejects: bool,
    /// Some have a reason.
    tells: bool,
    added: u64,
}

impl OwedRows {
    /// None, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> OwedRows {
        OwedRows { rows: SpillMap::new(spills), rejects: false, tells: false, added: 0 }
    }

    /// Adds a row whose reason, if it has one already, stays.
    pub(crate) fn owe(&mut self, row: &RowId) -> Result<(), Failure> {
        self.added += 1;
        self.rows.add(place(row), Vec::new())
    }

    /// Adds a row and why it was refused.
    pub(crate) fn reject(&mut self, row: &RowId, reason: Reason) -> Result<(), Failure> {
        self.add(row, reason)
    }

    /// Adds a row that lost a conflict by `rule`.
    pub(crate) fn lose(&mut self, row: &RowId, rule: &str) -> Result<(), Failure> {
        self.add(row, Reason::lost_by(rule))
    }

    fn add(&mut self, row: &RowId, reason: Reason) -> Result<(), Failure> {
        self.rejects |= reason.is_reject();
        self.tells = true;
        self.added += 1;
        self.rows.add(place(row), reason.to_bytes())
    }

    /// Adds the rows of another one.
    pub(crate) fn extend(&mut self, others: &OwedRows) -> Result<(), Failure> {
        others.visit(|table, key, reason| {
            let row = (table, key.to_vec());
            match reason {
                Some(reason) => self.add(&row, reason),
                None => self.owe(&row),
            }
        })
    }

    pub(crate) fn contains(&self, row: &RowId) -> Result<bool, Failure> {
        Ok(!self.rows.is_empty() && self.rows.get(&place(row))?.is_some())
    }

    /// Why the row was refused; none where it was not.
    pub(crate) fn reason(&self, row: &RowId) -> Result<Option<Reason>, Failure> {
        if !self.rejects {
            return Ok(None);
        }
        match self.rows.get(&place(row))? {
            Some(value) => Ok(Reason::read(&value)?.filter(Reason::is_reject)),
            None => Ok(None),
        }
    }

    /// Keeps out of all reasons what must not be told.
    pub(crate) fn hide(&mut self, secrets: &Secrets, spills: &Arc<Spills>) -> Result<(), Failure> {
        if secrets.is_empty() || !self.rejects {
            return Ok(());
        }
        let mut reworded = OwedRows::within(spills);
        self.visit(|table, key, reason| match reason {
            Some(reason) if secrets.are_in(&reason.message) => {
                let state = reason.fault.as_ref().map(DatabaseFault::state);
                let words = secrets.told(&reason.message, state);
                reworded.reject(&(table, key.to_vec()), reason.in_words(words))
            }
            _ => Ok(()),
        })?;
        self.extend(&reworded)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether any row was refused.
    pub(crate) fn has_rejects(&self) -> bool {
        self.rejects
    }

    /// Whether the remote is told something of any row.
    pub(crate) fn tell_any(&self) -> bool {
        self.tells
    }

    /// How often a row was added, some perhaps more than once.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Reports values for columns that are gone with their rows. Returns how many rows were not
    /// refused before.
    pub(crate) fn tell_left_out(&mut self, left_out: &LeftOut) -> Result<u64, Failure> {
        let mut more = 0;
        left_out.visit(|row, left| {
            let (code, why) = left.reason;
            let reason = match self.reason(&row)? {
                // What else was wrong with the row does not say it.
                Some(reason) => {
                    let told = format!("{}; {why}", reason.message);
                    reason.in_words(readable::message(told))
                }
                None => {
                    more += 1;
                    Reason::from((code, readable::message(why)))
                }
            };
            self.reject(&row, reason)
        })?;
        Ok(more)
    }

    /// Whether a database is given them in common entries.
    pub(crate) fn are_many(&self) -> bool {
        self.added >= MANY
    }

    /// Shows every row to `visit`: table, key, and what the remote is told of it.
    pub(crate) fn visit<E: From<Failure>>(
        &self,
        mut visit: impl FnMut(usize, &[u8], Option<Reason>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows.visit(|place, value| {
            let (table, key) = read_place(place)?;
            visit(table, key, Reason::read(value)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Code;

    #[test]
    fn a_row_is_there_once_and_its_reason_stays() {
        let mut rows = OwedRows::within(&Arc::new(Spills::default()));
        let row = |table: usize, key: u8| (table, vec![key]);
        assert!(rows.is_empty() && !rows.contains(&row(0, 1)).unwrap());
        let reason = Reason::from((Code::RowVetoed, "no".to_owned()));
        rows.owe(&row(1, 7)).unwrap();
        rows.reject(&row(0, 9), reason.clone()).unwrap();
        rows.owe(&row(0, 9)).unwrap();
        let lost = Reason::lost_by("merge by column");
        let mut others = OwedRows::within(&Arc::new(Spills::default()));
        others.lose(&row(1, 9), "merge by column").unwrap();
        assert!(others.tell_any() && !others.has_rejects());
        rows.extend(&others).unwrap();
        assert_eq!((rows.added(), rows.has_rejects()), (4, true));
        assert_eq!(rows.reason(&row(1, 9)).unwrap(), None, "it was not refused");
        assert_eq!(rows.reason(&row(0, 9)).unwrap(), Some(reason.clone()));
        assert_eq!(rows.reason(&row(1, 7)).unwrap(), None);
        assert!(rows.contains(&row(1, 7)).unwrap() && !rows.contains(&row(2, 9)).unwrap());
        let mut seen = Vec::new();
        rows.visit(|table, key, reason| {
            seen.push((table, key.to_vec(), reason));
            Ok::<(), Failure>(())
        })
        .unwrap();
        let told = [(0, vec![9], Some(reason)), (1, vec![7], None), (1, vec![9], Some(lost))];
        assert_eq!(seen, told);
    }
}
