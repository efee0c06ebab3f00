//! The tables whose deletes take rows of another one along.

use crate::deploy::KeyAction;
use crate::postgres::deploy::tables::UserTable;
use std::collections::{BTreeMap, BTreeSet};

/// The tables, by their published names, whose deletes take rows of `table` along, whatever is
/// between them.
pub(in crate::postgres) fn takers(
    tables: &BTreeMap<String, UserTable>,
    table: &UserTable,
) -> Vec<String> {
    let mut takers = BTreeSet::new();
    let mut open = vec![table];
    while let Some(child) = open.pop() {
        for key in child.foreign_keys.iter().filter(|key| key.on_delete == KeyAction::Cascade) {
            if takers.insert(key.parent.clone()) {
                open.extend(tables.get(&key.parent));
            }
        }
    }
    takers.into_iter().collect()
}
