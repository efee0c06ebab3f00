//! Which rows a delete or a new key changes by the actions of foreign keys, several levels deep.
//!
//! A row may be reached in two ways: it is deleted, or columns of it change. The further actions
//! depend on that. So the paths form a graph of *states*, each a table and an effect. The graph
//! follows from the catalog alone, and each backend writes it as a query.

use std::collections::{BTreeSet, HashSet};

/// Most reached rows of an upload that are distinguished; more are counted as often as they are
/// reached.
const TOLD_APART_MAX: usize = 1_000_000;

/// A foreign key with an action. Tables are numbers that the backend gives them.
#[derive(Debug, Clone)]
pub(crate) struct ForeignKey {
    pub(crate) child: usize,
    pub(crate) parent: usize,
    pub(crate) referred: Vec<String>,
    pub(crate) on_delete: Action,
    pub(crate) on_update: Action,
}

/// What a foreign key does to the rows that refer to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Delete,
    /// It writes these columns.
    Write(Vec<String>),
}

/// What happens to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Gone,
    /// These columns change.
    Changed(BTreeSet<String>),
}

/// From rows in the state `from` the foreign key at the position `key` leads to rows in the state
/// `to`. The rows of the upload itself are in state 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: usize,
    pub(crate) key: usize,
    pub(crate) to: usize,
}

/// The steps from rows of `table` to which `effect` happens; none where no action follows.
pub(crate) fn steps(keys: &[ForeignKey], table: usize, effect: Effect) -> Vec<Step> {
    let mut states = vec![(table, effect)];
    let mut steps = Vec::new();
    let mut from = 0;
    while let Some((table, effect)) = states.get(from).cloned() {
        for (at, key) in keys.iter().enumerate().filter(|(_, key)| key.parent == table) {
            let Some(effect) = key.follows(&effect) else { continue };
            let state = (key.child, effect);
            let known = states.iter().position(|known| *known == state);
            let to = known.unwrap_or(states.len());
            if known.is_none() {
                states.push(state);
            }
            steps.push(Step { from, key: at, to });
        }
        from += 1;
    }
    steps
}

impl ForeignKey {
    /// What happens to a child when this happens to its parent.
    fn follows(&self, effect: &Effect) -> Option<Effect> {
        let action = match effect {
            Effect::Gone => &self.on_delete,
            Effect::Changed(columns) => {
                let referred = self.referred.iter().any(|column| columns.contains(column));
                if referred { &self.on_update } else { &Action::Nothing }
            }
        };
        match action {
            Action::Nothing => None,
            Action::Delete => Some(Effect::Gone),
            Action::Write(columns) => Some(Effect::Changed(columns.iter().cloned().collect())),
        }
    }
}

/// How rows came to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Delete,
    KeyChange,
}

/// The rows that an upload has reached, by marks that tell them apart.
#[derive(Debug)]
pub(crate) struct Reached<M> {
    found: Vec<(By, M)>,
    /// Beyond those.
    more: u64,
    /// Rows that the upload deletes itself, and all that it changes or deletes.
    deleted: HashSet<M>,
    named: HashSet<M>,
}

impl<M> Default for Reached<M> {
    fn default() -> Reached<M> {
        let (deleted, named) = (HashSet::new(), HashSet::new());
        Reached { found: Vec::new(), more: 0, deleted, named }
    }
}

impl<M: Copy + Eq + std::hash::Hash> Reached<M> {
    /// Takes note of a row that the upload changes or deletes itself.
    pub(crate) fn name(&mut self, mark: M, is_deleted: bool) {
        self.named.insert(mark);
        if is_deleted {
            self.deleted.insert(mark);
        }
    }

    /// Whether the upload changes or deletes the row itself.
    pub(crate) fn names(&self, mark: &M) -> bool {
        self.named.contains(mark)
    }

    /// Takes note of reached rows.
    pub(crate) fn extend(&mut self, by: By, marks: impl IntoIterator<Item = M>) {
        for mark in marks {
            match self.found.len() < TOLD_APART_MAX {
                true => self.found.push((by, mark)),
                false => self.more += 1,
            }
        }
    }

    /// A moment to which [`Reached::back_to`] leads.
    pub(crate) fn moment(&self) -> (usize, u64) {
        (self.found.len(), self.more)
    }

    /// What was reached since was undone.
    pub(crate) fn back_to(&mut self, (found, more): (usize, u64)) {
        self.found.truncate(found);
        self.more = more;
    }

    /// Each row once, without those that the upload names.
    pub(crate) fn count(&self) -> u64 {
        let beyond = |by: &By, mark: &M| match by {
            By::Delete => !self.deleted.contains(mark),
            By::KeyChange => !self.named.contains(mark),
        };
        let found = self.found.iter().filter(|(by, mark)| beyond(by, mark));
        let rows: HashSet<&M> = found.map(|(_, mark)| mark).collect();
        rows.len() as u64 + self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(child: usize, parent: usize, on_delete: Action, on_update: Action) -> ForeignKey {
        ForeignKey { child, parent, referred: vec!["id".into()], on_delete, on_update }
    }

    fn write(column: &str) -> Action {
        Action::Write(vec![column.into()])
    }

    // S5
    #[test]
    fn actions_are_followed_as_far_as_they_go_and_no_farther() {
        let keys = [
            key(1, 0, Action::Delete, write("parent")),
            key(2, 1, write("child"), Action::Nothing),
            // Part of the child's own key, and a reference of the child to itself.
            key(3, 2, Action::Delete, write("id")),
            key(1, 1, Action::Delete, Action::Nothing),
        ];
        let step = |from, key, to| Step { from, key, to };
        let gone = steps(&keys, 0, Effect::Gone);
        assert_eq!(gone, [step(0, 0, 1), step(1, 1, 2), step(1, 3, 1)]);
        let changed = |column: &str| Effect::Changed([column.to_owned()].into());
        assert_eq!(steps(&keys, 0, changed("id")), [step(0, 0, 1)]);
        assert_eq!(steps(&keys, 0, changed("name")), []);
        assert_eq!(steps(&keys, 2, changed("id")), [step(0, 2, 1)]);
    }

    // S5
    #[test]
    fn a_row_counts_once_and_what_was_undone_or_is_named_does_not() {
        let mut reached = Reached::default();
        reached.name(1, true);
        reached.name(2, false);
        reached.extend(By::Delete, [1, 2, 3, 3]);
        let moment = reached.moment();
        reached.extend(By::KeyChange, [1, 2, 3, 4]);
        assert_eq!(reached.count(), 3);
        reached.back_to(moment);
        assert_eq!(reached.count(), 2);
    }
}
