//! The tables whose deletes take rows of another one along.

use crate::deploy::{ForeignKey, KeyAction};
use crate::postgres::deploy::tables::UserTable;
use model::Direction;
use std::collections::{BTreeMap, BTreeSet};

/// The tables, by their published names, whose deletes take rows of `table` along, whatever is
/// between them. If no download tells a remote what became of a row, also those whose deletes may
/// change rows.
pub(in crate::postgres) fn takers(
    tables: &BTreeMap<String, UserTable>,
    table: &UserTable,
    direction: Direction,
) -> Vec<String> {
    let takes = |key: &&ForeignKey| match direction.downloads() {
        true => key.on_delete == KeyAction::Cascade,
        false => key.on_delete.writes() || key.on_update.writes(),
    };
    let mut takers = BTreeSet::new();
    let mut open = vec![table];
    while let Some(child) = open.pop() {
        for key in child.foreign_keys.iter().filter(takes) {
            if takers.insert(key.parent.clone()) {
                open.extend(tables.get(&key.parent));
            }
        }
    }
    takers.into_iter().collect()
}

/// Whether actions of foreign keys follow when a row of the table `name` is deleted.
pub(in crate::postgres) fn deletes_act(tables: &BTreeMap<String, UserTable>, name: &str) -> bool {
    let mut keys = tables.values().flat_map(|table| &table.foreign_keys);
    keys.any(|key| key.parent == name && key.on_delete.writes())
}
