//! What is tracked, and why.

use super::schema::{Schema, Version};
use super::table::TableFacts;
use super::wanted::Tracked;
use crate::selection::{Rows, Selection};

impl<S: Schema> Version<'_, S> {
    /// Adds what this version wants to know of tables.
    pub(super) fn track(&self, tracked: &mut Tracked) {
        for (name, selection) in &self.selections {
            if !self.chosen[name].direction.downloads() {
                continue;
            }
            let place = selection.place();
            let found = !place.is_empty() && self.user_tables[name].finds_by(&place);
            let own = tracked.entry(name.clone()).or_default();
            own.downloaded = true;
            own.indexed |= !found && !selection.is_custom();
            own.sought.extend(selection.sought().map(|(column, _)| column.to_owned()));
            for (table, column) in selection.lookups() {
                let wanted = tracked.entry(table.name.clone()).or_default();
                wanted.lookups.insert(column.map(str::to_owned));
            }
            if !selection.departs() {
                continue;
            }
            for (deciding, columns) in selection.places() {
                let wanted = tracked.entry(deciding.name.clone()).or_default();
                wanted.departs = true;
                wanted.places.extend(columns.into_iter().map(str::to_owned));
            }
            self.track_arrivals(selection, tracked);
        }
    }

    /// Where no foreign key keeps a row from coming before its parent, the parent's coming counts.
    fn track_arrivals(&self, selection: &Selection, tracked: &mut Tracked) {
        let mut child = selection;
        while let Rows::Parent { parent, .. } = &child.rows {
            let guarded = self.is_guarded(child);
            let wanted = tracked.entry(parent.table.name.clone()).or_default();
            wanted.arrivals |= !guarded;
            wanted.guarded |= guarded;
            tracked.entry(child.table.name.clone()).or_default().guarded |= guarded;
            child = parent;
        }
    }
}
