//! Tables whose rows are numbered by the database that they are inserted into.
//!
//! Remotes that are not connected give equal numbers to different rows. The second one loses its
//! key at the center. That is told to its remote (E7007); better is that it does not happen.

use super::table::TableFacts;
use std::collections::BTreeMap;

/// A notice about those of the `uploaded` tables that are numbered so.
pub(crate) fn notice<'n, T: TableFacts>(
    user_tables: &BTreeMap<String, T>,
    uploaded: impl Iterator<Item = &'n str>,
) -> Option<String> {
    let is_numbered = |name: &&str| user_tables.get(*name).is_some_and(is_numbered);
    let mut numbered: Vec<&str> = uploaded.filter(is_numbered).collect();
    numbered.sort_unstable();
    numbered.dedup();
    let tables = (!numbered.is_empty()).then(|| numbered.join(", "))?;
    Some(format!(
        "new rows of {tables} are numbered, and two remotes may take the same number: the second \
         row is rejected (E7007); prefer a UUID, or a key with a column that differs by remote"
    ))
}

fn is_numbered<T: TableFacts>(table: &T) -> bool {
    let [key] = table.key() else { return false };
    // A row that shares the key of its parent gets no number of its own.
    let is_parents = table.foreign_keys().iter().any(|it| match it.columns.as_slice() {
        [(from, _)] => from == key,
        _ => false,
    });
    table.key_is_number() && !is_parents
}
