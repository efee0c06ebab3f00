//! The rows that an upload reaches by the actions of foreign keys, and those that it names itself.
//!
//! A single delete may reach all rows of a database, and an upload may name as many. So what there
//! is no memory for lies on disk.

use crate::upload::reach::By;
use model::{Code, Failure, Spill, SpillMap, Spills};
use std::sync::Arc;

/// Tells rows apart: a digest of a table and a key.
pub(crate) type Mark = u128;

/// Most rows that one batch reaches and that are told apart, where a database hands them over all
/// at once: it is asked only for the number of the others.
pub(crate) const TOLD_APART_MAX: usize = 100_000;

/// What is noted of a row, behind its mark.
const DELETED: u8 = 0;
const NAMED: u8 = 1;
const REACHED_BY_DELETE: u8 = 2;
const REACHED_BY_KEY_CHANGE: u8 = 3;

/// Rows that a change reaches, in the order in which they were found.
#[derive(Debug)]
pub(crate) struct ReachedRows {
    rows: Spill,
    /// Beside those: rows that are not told apart.
    more: u64,
}

impl ReachedRows {
    /// None, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> ReachedRows {
        ReachedRows { rows: spills.open(), more: 0 }
    }

    /// True where no row was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.more == 0 && self.rows.is_empty()
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, by: By, mark: Mark) -> Result<(), Failure> {
        let noted = match by {
            By::Delete => REACHED_BY_DELETE,
            By::KeyChange => REACHED_BY_KEY_CHANGE,
        };
        self.rows.append(entry(mark, noted).to_vec())
    }

    /// Adds rows that are not told apart.
    pub(crate) fn push_more(&mut self, more: u64) {
        self.more = self.more.saturating_add(more);
    }
}

/// The rows that an upload has reached or names, by their marks.
#[derive(Debug)]
pub(crate) struct Reached {
    spills: Arc<Spills>,
    /// Each mark with what is noted of it, and nothing else: what is noted of one row is found
    /// together.
    rows: SpillMap,
    found: bool,
    /// Reached beside those, counted as often as they were reached.
    more: u64,
    /// What was reached by trials that have not ended, the outermost first.
    trials: Vec<ReachedRows>,
}

impl Reached {
    /// None, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> Reached {
        let rows = SpillMap::new(spills);
        Reached { spills: spills.clone(), rows, found: false, more: 0, trials: Vec::new() }
    }

    /// Takes note of a row that the upload changes or deletes itself.
    pub(crate) fn name(&mut self, mark: Mark, is_deleted: bool) -> Result<(), Failure> {
        self.note(mark, NAMED)?;
        match is_deleted {
            true => self.note(mark, DELETED),
            false => Ok(()),
        }
    }

    /// Whether the upload changes or deletes the row itself.
    pub(crate) fn names(&self, mark: Mark) -> Result<bool, Failure> {
        Ok(self.rows.get(&entry(mark, NAMED))?.is_some())
    }

    /// Takes note of reached rows.
    pub(crate) fn extend(&mut self, reached: &ReachedRows) -> Result<(), Failure> {
        let mut rows = reached.rows.reader();
        if let Some(trial) = self.trials.last_mut() {
            trial.push_more(reached.more);
            while let Some(row) = rows.next_chunk()? {
                trial.rows.append(row.into_owned())?;
            }
            return Ok(());
        }
        self.more = self.more.saturating_add(reached.more);
        while let Some(row) = rows.next_chunk()? {
            self.found = true;
            self.rows.add(row.into_owned(), Vec::new())?;
        }
        Ok(())
    }

    /// Whether any row was reached, named by the upload or not.
    pub(crate) fn has_any(&self) -> bool {
        self.found || self.more > 0 || self.trials.iter().any(|trial| !trial.is_empty())
    }

    /// Begins what may be undone. [`Reached::end_trial`] ends it.
    pub(crate) fn begin_trial(&mut self) {
        self.trials.push(ReachedRows::within(&self.spills));
    }

    /// Ends what the last [`Reached::begin_trial`] has begun. What was reached since then counts if
    /// it was `kept`.
    pub(crate) fn end_trial(&mut self, kept: bool) -> Result<(), Failure> {
        match self.trials.pop().filter(|_| kept) {
            Some(trial) => self.extend(&trial),
            None => Ok(()),
        }
    }

    /// Each reached row once, without those that the upload names.
    pub(crate) fn count(&self) -> Result<u64, Failure> {
        let mut count = self.more;
        let mut row = (None, [false; 4]);
        self.rows.visit(|entry, _| {
            let (mark, noted) = read_entry(entry)?;
            if row.0 != Some(mark) {
                count += u64::from(is_beyond(row.1));
                row = (Some(mark), [false; 4]);
            }
            row.1[usize::from(noted)] = true;
            Ok::<(), Failure>(())
        })?;
        Ok(count + u64::from(is_beyond(row.1)))
    }

    fn note(&mut self, mark: Mark, noted: u8) -> Result<(), Failure> {
        self.rows.add(entry(mark, noted).to_vec(), Vec::new())
    }
}

/// Whether the upload has reached a row that it does not name, by all that is noted of the row.
fn is_beyond(noted: [bool; 4]) -> bool {
    let is = |what: u8| noted[usize::from(what)];
    is(REACHED_BY_DELETE) && !is(DELETED) || is(REACHED_BY_KEY_CHANGE) && !is(NAMED)
}

/// Bytes of a mark and of what is noted.
const ENTRY_BYTES: usize = size_of::<Mark>() + 1;

fn entry(mark: Mark, noted: u8) -> [u8; ENTRY_BYTES] {
    let mut entry = [noted; ENTRY_BYTES];
    entry[..size_of::<Mark>()].copy_from_slice(&mark.to_be_bytes());
    entry
}

fn read_entry(entry: &[u8]) -> Result<(Mark, u8), Failure> {
    let torn = || Failure::new(Code::Bug, "what is noted of a reached row does not read");
    let (mark, noted) = entry.split_first_chunk().ok_or_else(torn)?;
    match noted {
        [noted @ DELETED..=REACHED_BY_KEY_CHANGE] => Ok((Mark::from_be_bytes(*mark), *noted)),
        _ => Err(torn()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(spills: &Arc<Spills>, by: By, marks: &[Mark]) -> ReachedRows {
        let mut rows = ReachedRows::within(spills);
        marks.iter().for_each(|mark| rows.push(by, *mark).unwrap());
        rows
    }

    // S5
    #[test]
    fn a_row_counts_once_and_what_was_undone_or_is_named_does_not() {
        let spills = Arc::new(Spills::default());
        let mut reached = Reached::within(&spills);
        reached.name(1, true).unwrap();
        reached.name(2, false).unwrap();
        assert!(!reached.has_any() && reached.names(2).unwrap() && !reached.names(3).unwrap());
        reached.extend(&rows(&spills, By::Delete, &[1, 2, 3, 3])).unwrap();
        assert_eq!(reached.count().unwrap(), 2);
        let key_changes = rows(&spills, By::KeyChange, &[1, 2, 3, 4]);
        reached.begin_trial();
        reached.extend(&key_changes).unwrap();
        reached.end_trial(false).unwrap();
        assert_eq!(reached.count().unwrap(), 2);
        reached.begin_trial();
        reached.begin_trial();
        reached.extend(&key_changes).unwrap();
        reached.end_trial(true).unwrap();
        reached.end_trial(true).unwrap();
        assert_eq!(reached.count().unwrap(), 3);
        let mut more = ReachedRows::within(&spills);
        more.push_more(10);
        assert!(!more.is_empty());
        reached.extend(&more).unwrap();
        assert_eq!(reached.count().unwrap(), 13);
    }

    // S9: the marks of all rows that an upload deleted were held beside the budget.
    #[test]
    fn what_is_noted_of_rows_counts_and_is_given_back() {
        let spills = Arc::new(Spills::default());
        let count = 1_000;
        let mut reached = Reached::within(&spills);
        (0..count).for_each(|mark| reached.name(mark, true).unwrap());
        let marks: Vec<Mark> = (0..2 * count).collect();
        let found = rows(&spills, By::Delete, &marks);
        assert!(spills.memory_bytes() > 3 * count as u64 * ENTRY_BYTES as u64);
        reached.extend(&found).unwrap();
        assert_eq!(reached.count().unwrap(), count as u64);
        drop((reached, found));
        assert_eq!(spills.memory_bytes(), 0);
    }
}
