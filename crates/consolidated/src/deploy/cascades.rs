//! What foreign keys do at the center when an upload deletes rows, or changes them.
//!
//! The owner of the database has declared these actions. So they are told once, when a model is
//! deployed or checked, and not with every upload. Remotes get the result as they get everything
//! that happens at the center.

use super::table::{ForeignKey, KeyAction, TableFacts};
use crate::sync_model::TableModel;
use std::collections::{BTreeMap, BTreeSet};

/// Notices about the actions that uploads set off, however many tables are between a published
/// one and the rows that are deleted. `published` are the tables of all models, by their published
/// names.
pub(super) fn notices<T: TableFacts>(
    user_tables: &BTreeMap<String, T>,
    published: &[(&str, &TableModel)],
) -> Vec<String> {
    let uploaded = published.iter().filter(|(_, model)| model.direction.uploads());
    let uploaded: BTreeSet<&str> = uploaded.map(|(name, _)| *name).collect();
    let downloaded = published.iter().filter(|(_, model)| model.direction.downloads());
    let downloaded: BTreeSet<&str> = downloaded.map(|(name, _)| *name).collect();
    let (mut losing, mut open) = (uploaded.clone(), Vec::from_iter(uploaded.iter().copied()));
    let mut notices = Vec::new();
    while let Some(parent) = open.pop() {
        let key_of_parent = user_tables.get(parent).map_or(&[][..], |table| table.key());
        for (child, table) in user_tables {
            let keys = table.foreign_keys().iter();
            for key in keys.filter(|key| key.parent == parent && !key.inherited) {
                let acting =
                    Acting { child, key, key_of_parent, is_uploaded: uploaded.contains(parent) };
                let deletes =
                    if key.on_delete == KeyAction::Cascade { "deletes" } else { "changes" };
                let told = [(acting.on_delete(), deletes), (acting.on_update(), "changes")];
                for (told, these) in told {
                    let Some(told) = told else { continue };
                    notices.push(match downloaded.contains(child.as_str()) {
                        true => format!(
                            "{told} at the center; remotes that have them get these {these} with \
                             their next download"
                        ),
                        false => format!(
                            "{told} at the center; no remote is told, because {child} is not \
                             downloaded"
                        ),
                    });
                }
                if key.on_delete == KeyAction::Cascade && losing.insert(child) {
                    open.push(child);
                }
            }
        }
    }
    notices.sort_unstable();
    notices
}

/// A foreign key whose parent loses rows to uploads.
struct Acting<'a> {
    child: &'a str,
    key: &'a ForeignKey,
    key_of_parent: &'a [String],
    /// Remotes may change rows of the parent.
    is_uploaded: bool,
}

impl Acting<'_> {
    /// What it does when an upload deletes rows of the parent, if anything.
    fn on_delete(&self) -> Option<String> {
        let parent = &self.key.parent;
        let effect = self.effect("DELETE", self.key.on_delete)?;
        Some(match self.is_uploaded {
            true => effect(format!("an uploaded delete of a row of {parent}")),
            false => effect(format!("an uploaded delete that takes a row of {parent} along")),
        })
    }

    /// The same when what it refers to changes. A remote cannot change the key of a row, but
    /// somebody at the center can.
    fn on_update(&self) -> Option<String> {
        let referred: Vec<&str> = self.key.columns.iter().map(|(_, to)| to.as_str()).collect();
        let is_key = referred.iter().all(|to| self.key_of_parent.iter().any(|key| key == to));
        if !self.is_uploaded {
            return None;
        }
        let effect = self.effect("UPDATE", self.key.on_update)?;
        let (referred, parent) = (referred.join(", "), &self.key.parent);
        Some(effect(match is_key {
            true => format!(
                "remotes cannot change the key of a synchronized row; a change of {referred} of a \
                 row of {parent}"
            ),
            false => format!("an uploaded change of {referred} of a row of {parent}"),
        }))
    }

    /// What comes of a cause, if anything.
    fn effect(&self, event: &str, action: KeyAction) -> Option<impl Fn(String) -> String> {
        let child = self.child;
        let columns: Vec<&str> = self.key.columns.iter().map(|(from, _)| from.as_str()).collect();
        let referring = match columns.as_slice() {
            [column] => format!("{child}.{column}"),
            columns => format!("{child} ({})", columns.join(", ")),
        };
        let columns = columns.join(", ");
        let what = match action {
            KeyAction::NoAction | KeyAction::Restrict => return None,
            KeyAction::Cascade if event == "DELETE" => format!("deletes its rows of {child}"),
            KeyAction::Cascade => format!("changes {columns} of its rows of {child}"),
            KeyAction::SetNull => format!("sets {columns} of its rows of {child} to NULL"),
            KeyAction::SetDefault => {
                format!("sets {columns} of its rows of {child} to the default")
            }
        };
        let head =
            format!("{referring} REFERENCES {} ON {event} {}", self.key.parent, action.as_str());
        Some(move |cause| format!("{head}: {cause} {what}"))
    }
}
