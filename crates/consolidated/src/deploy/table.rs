//! A table of the user's as a plan sees it, whatever else its database says of it.

use crate::quote::{ident, idents};
use std::collections::{BTreeMap, BTreeSet};

/// A table of the user's.
pub(crate) trait TableFacts: Clone {
    type Column: ColumnFacts;

    /// Its name in statements.
    fn sql_name(&self) -> String;

    fn columns(&self) -> &[Self::Column];

    /// Column names of the primary key, in key order. Empty without one.
    fn key(&self) -> &[String];

    fn foreign_keys(&self) -> &[ForeignKey];

    /// Whether an insert at the center or at a remote that does not name the key gets a number.
    fn key_is_number(&self) -> bool;

    /// Whether an index begins with these columns, in any order.
    fn finds_by(&self, columns: &[&str]) -> bool;

    /// The table with other names of columns: its own, and those of parents.
    fn renamed(
        &self,
        own: &dyn Fn(&str) -> String,
        of_parent: &dyn Fn(&str, &str) -> String,
    ) -> Self;

    /// The column that a foreign key of another table calls so.
    fn referred(&self, name: &str) -> Option<&Self::Column> {
        self.column(name)
    }

    fn column(&self, name: &str) -> Option<&Self::Column> {
        self.columns().iter().find(|column| column.name() == name)
    }

    /// Columns that can be published: all but the generated ones.
    fn stored_columns(&self) -> Vec<String> {
        let stored = self.columns().iter().filter(|column| !column.is_generated());
        stored.map(|column| column.name().to_owned()).collect()
    }
}

/// A column of a table.
pub(crate) trait ColumnFacts {
    fn name(&self) -> &str;

    /// Computed by the database itself.
    fn is_generated(&self) -> bool;

    /// It takes no NULL, and an insert that does not name it gives it no value.
    fn must_be_given(&self) -> bool;

    /// Two of its values may be equal and spelled differently.
    fn is_ambiguous(&self) -> bool;
}

/// A foreign key of a table.
#[derive(Debug, Clone)]
pub(crate) struct ForeignKey {
    /// The published name of the table that it refers to.
    pub(crate) parent: String,
    /// Child column and parent column.
    pub(crate) columns: Vec<(String, String)>,
    pub(crate) on_update: KeyAction,
    pub(crate) on_delete: KeyAction,
    /// Part of a foreign key of the whole table that the child or the parent is a part of.
    pub(crate) inherited: bool,
}

impl ForeignKey {
    /// Gives columns other names: the table's own, and those of its parent.
    pub(crate) fn rename(
        &mut self,
        own: &dyn Fn(&str) -> String,
        of_parent: &dyn Fn(&str, &str) -> String,
    ) {
        for (from, to) in &mut self.columns {
            (*from, *to) = (own(from), of_parent(&self.parent, to));
        }
    }

    /// The part of the statement that creates the table at a remote.
    pub(crate) fn definition(&self) -> String {
        let (from, to): (Vec<_>, Vec<_>) = self.columns.iter().cloned().unzip();
        format!(
            "FOREIGN KEY ({}) REFERENCES {} ({}) ON UPDATE {} ON DELETE {}",
            idents("", &from),
            ident(&self.parent),
            idents("", &to),
            self.on_update.as_str(),
            self.on_delete.as_str()
        )
    }

    /// Whether it writes to its own columns when the row that it refers to is deleted or changed.
    pub(crate) fn writes_columns(&self) -> bool {
        self.on_update.writes() || self.on_delete.writes() && self.on_delete != KeyAction::Cascade
    }
}

/// What a foreign key does when the row is written that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl KeyAction {
    /// In SQL.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            KeyAction::NoAction => "NO ACTION",
            KeyAction::Restrict => "RESTRICT",
            KeyAction::Cascade => "CASCADE",
            KeyAction::SetNull => "SET NULL",
            KeyAction::SetDefault => "SET DEFAULT",
        }
    }

    /// Understands [`KeyAction::as_str`].
    pub(crate) fn from_name(name: &str) -> KeyAction {
        match name {
            "RESTRICT" => KeyAction::Restrict,
            "CASCADE" => KeyAction::Cascade,
            "SET NULL" => KeyAction::SetNull,
            "SET DEFAULT" => KeyAction::SetDefault,
            _ => KeyAction::NoAction,
        }
    }

    /// It writes to the referring rows.
    pub(crate) fn writes(self) -> bool {
        matches!(self, KeyAction::Cascade | KeyAction::SetNull | KeyAction::SetDefault)
    }
}

/// A name that SQLite could not tell from one before it.
pub(crate) fn same_but_for_case<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(name.to_ascii_lowercase()))
}

/// `names` with parents before children; where foreign keys form a cycle, by name.
pub(crate) fn parents_first<T: TableFacts>(
    tables: &BTreeMap<String, T>,
    names: &BTreeSet<&str>,
) -> Vec<String> {
    let (mut seen, mut ordered) = (BTreeSet::new(), Vec::new());
    for start in names {
        // What is still to be looked at, and whether its parents have been.
        let mut open = vec![(*start, false)];
        while let Some((name, ready)) = open.pop() {
            if ready {
                ordered.push(name.to_owned());
            } else if names.contains(name) && seen.insert(name.to_owned()) {
                open.push((name, true));
                let parents = tables.get(name).map_or(&[][..], |table| table.foreign_keys());
                open.extend(parents.iter().rev().map(|key| (key.parent.as_str(), false)));
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sqlite_confuses_are_found() {
        assert_eq!(same_but_for_case(["a", "b", "A"].into_iter()), Some("A"));
        assert_eq!(same_but_for_case(["a", "b"].into_iter()), None);
    }
}
