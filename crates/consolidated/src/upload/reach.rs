//! Which rows a delete or a new key changes by the actions of foreign keys, several levels deep.
//!
//! A row may be reached in two ways: it is deleted, or columns of it change. The further actions
//! depend on that. So the paths form a graph of *states*, each a table and an effect. The graph
//! follows from the catalog alone, and each backend writes it as a query.

use std::collections::BTreeSet;

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

impl Action {
    /// The columns that it writes, if it does.
    pub(crate) fn written(&self) -> Option<&Vec<String>> {
        match self {
            Action::Write(columns) => Some(columns),
            Action::Nothing | Action::Delete => None,
        }
    }
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
}
