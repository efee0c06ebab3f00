//! Several runs of entries that become one, a few entries at a time.

use crate::failure::Failure;
use crate::spill::Spills;
use crate::spill_map::run::{Cursor, Run, Writing, entry_bytes};
use std::ops::Range;
use std::sync::Arc;

/// Runs that are being put together.
pub(super) struct Merge {
    /// The numbers of the first and of the last one.
    sources: (u64, u64),
    cursors: Vec<Cursor>,
    writing: Writing,
}

impl Merge {
    /// One of all entries of `sources`, neighbors of which the oldest is the first.
    pub(super) fn new(
        spills: &Arc<Spills>,
        number: u64,
        sources: &[Run],
    ) -> Result<Merge, Failure> {
        let number_of = |run: Option<&Run>| run.map_or(0, Run::number);
        let ends = (number_of(sources.first()), number_of(sources.last()));
        let cursors = sources.iter().map(|run| Cursor::new(spills, run));
        let cursors = cursors.collect::<Result<_, Failure>>()?;
        Ok(Merge { sources: ends, cursors, writing: Writing::new(spills, number) })
    }

    /// Whether `run` is one of them.
    pub(super) fn has(&self, run: &Run) -> bool {
        self.cursors.iter().any(|cursor| cursor.is_of(run))
    }

    /// Where they are among all runs.
    pub(super) fn among(&self, runs: &[Run]) -> Range<usize> {
        let at = |number: u64| runs.iter().position(|run| run.number() == number);
        let (first, last) = self.sources;
        at(first).unwrap_or(0)..at(last).map_or(0, |last| last + 1)
    }

    /// Goes on by entries of so many bytes. True when it is at its end.
    pub(super) fn go_on(&mut self, sources: &[Run], bytes: u64) -> Result<bool, Failure> {
        let mut taken = 0;
        while taken < bytes {
            let Some(key) = least(&self.cursors).map(<[u8]>::to_vec) else { return Ok(true) };
            let value = take(sources, &mut self.cursors, &key)?;
            taken += entry_bytes(&key, &value);
            self.writing.add(&key, &value)?;
        }
        Ok(false)
    }

    /// All of their entries.
    pub(super) fn end(self) -> Result<Run, Failure> {
        self.writing.end()
    }
}

/// The least key in front of any cursor.
pub(super) fn least(cursors: &[Cursor]) -> Option<&[u8]> {
    cursors.iter().filter_map(Cursor::key).min()
}

/// Takes `key` from all cursors that are at it; what the newest of them says counts. Each cursor is
/// of the run at its place.
pub(super) fn take(runs: &[Run], cursors: &mut [Cursor], key: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    for (run, cursor) in runs.iter().zip(cursors) {
        if cursor.key() == Some(key) {
            let newer = cursor.take(run)?;
            if !newer.is_empty() {
                value = newer;
            }
        }
    }
    Ok(value)
}
