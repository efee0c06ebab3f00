//! Entries by encoded values, of which several may be under the same.
//!
//! All rows of an upload may have an entry. So what there is no memory for lies on disk.

use model::{Failure, SpillMap, Spills};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Entries by values. All of one map are of the same number of columns, so that none begins with
/// another one.
#[derive(Debug)]
pub(crate) struct ByValues {
    entries: SpillMap,
}

impl ByValues {
    /// None, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> ByValues {
        ByValues { entries: SpillMap::new(spills) }
    }

    /// Adds an entry under `values`.
    pub(crate) fn add(&mut self, values: &[u8], entry: &[u8]) -> Result<(), Failure> {
        self.entries.add([values, entry].concat(), Vec::new())
    }

    /// Shows the entries under `values`, in the order of their bytes, until `visit` breaks off.
    pub(crate) fn visit<E: From<Failure>>(
        &self,
        values: &[u8],
        mut visit: impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.entries.visit_behind(Some(values), |key, _| match key.strip_prefix(values) {
            Some(entry) => visit(entry),
            None => Ok(ControlFlow::Break(())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ValueRef, write_value};

    #[test]
    fn the_entries_under_the_same_values_are_shown_and_no_others() {
        let mut entries = ByValues::within(&Arc::new(Spills::default()));
        let values = |text: &str, number: i64| {
            let mut values = Vec::new();
            write_value(&mut values, ValueRef::Text(text.as_bytes()));
            write_value(&mut values, ValueRef::Integer(number));
            values
        };
        for (at, (text, number)) in
            [("a", 1), ("b", 1), ("a", 1), ("ab", 1), ("a", 2)].iter().enumerate()
        {
            entries.add(&values(text, *number), &[at as u8]).unwrap();
        }
        let under = |values: &[u8]| {
            let mut found = Vec::new();
            entries
                .visit(values, |entry| {
                    found.push(entry.to_vec());
                    Ok::<_, Failure>(ControlFlow::Continue(()))
                })
                .unwrap();
            found
        };
        assert_eq!(under(&values("a", 1)), [[0], [2]]);
        assert_eq!(under(&values("ab", 1)), [[3]]);
        assert!(under(&values("c", 1)).is_empty());
        assert!(!under(&values("a", 2)).is_empty() && under(&values("b", 2)).is_empty());
    }
}
