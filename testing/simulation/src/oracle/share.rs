//! Which rows belong to a user, by the words of the model alone.

use super::image::{CenterImage, Row};
use crate::history::{Cell, Model, Role, Rows, Schema, places};

/// What a user may see.
pub(super) struct Share<'a> {
    pub(super) schema: &'a Schema,
    pub(super) model: &'a Model,
    pub(super) center: &'a CenterImage,
    /// The claim of the user.
    pub(super) rep: i64,
}

impl Share<'_> {
    /// Whether a row of this table belongs to the user.
    pub(super) fn has(&self, table: usize, row: &Row) -> bool {
        let Some(section) = &self.model.sections[table] else { return false };
        let shape = &self.schema.tables[table];
        let place = || match shape.position(&Role::Place).map(|at| &row[at]) {
            Some(Cell::Integer(place)) => Some(*place),
            _ => None,
        };
        match section.rows {
            Rows::Whole => true,
            Rows::Claim => place() == Some(self.rep),
            Rows::List => place().is_some_and(|place| places(self.rep).contains(&place)),
            Rows::Mapping => {
                place().is_some_and(|place| self.center.members.contains(&(self.rep, place)))
            }
            Rows::Custom(below) => place().is_some_and(|place| place < below),
            Rows::Parent(number) => {
                let reference = &shape.references[number];
                let key: Vec<&Cell> = reference.columns.iter().map(|at| &row[*at]).collect();
                let parent = &self.schema.tables[reference.parent];
                let found = self.center.tables[reference.parent]
                    .iter()
                    .find(|row| parent.key(row).iter().eq(key.iter().copied()));
                found.is_some_and(|row| self.has(reference.parent, row))
            }
        }
    }

    /// Whether an upload may move a row of this table to others, directly or with its parent.
    pub(super) fn may_leave(&self, table: usize) -> bool {
        let Some(section) = &self.model.sections[table] else { return true };
        let parent = match section.rows {
            Rows::Parent(number) => Some(self.schema.tables[table].references[number].parent),
            _ => None,
        };
        section.may_leave || parent.is_some_and(|parent| self.may_leave(parent))
    }
}
