//! What the center has to make of each uploaded row, by the words of the model alone.
//!
//! Only what is certain is predicted: rows that kept their key at both ends, of remotes that have
//! received everything since they were written to last, in tables where no other row acts on them.

use super::image::{CenterImage, RemoteImage, Row};
use super::share::Share;
use super::verdict::{Verdict, ensure};
use crate::history::{Cell, Deletes, Direction, Model, Role, Rule, Schema, Section, Table, Token};
use std::collections::{BTreeMap, BTreeSet};

/// One upload.
pub(super) struct Upload<'a> {
    pub(super) schema: &'a Schema,
    pub(super) model: &'a Model,
    /// The claim of the user.
    pub(super) rep: i64,
    /// What the remote had when it had received everything.
    pub(super) received: &'a RemoteImage,
    pub(super) sent: &'a RemoteImage,
    pub(super) before: &'a CenterImage,
    pub(super) after: &'a CenterImage,
    /// Tables of which uploaded rows were ignored.
    pub(super) differ: &'a BTreeSet<usize>,
    /// The key that the row with each mark had at the center last.
    pub(super) homes: &'a BTreeMap<Token, Row>,
    /// Tables with a reject: nothing is certain there, or below.
    pub(super) rejects: &'a BTreeSet<String>,
}

/// Rows by their key.
type ByKey = BTreeMap<Row, Row>;

impl Upload<'_> {
    /// S5: every row is what the rule of its table says.
    pub(super) fn check(&self) -> Verdict {
        for (at, table) in self.schema.tables.iter().enumerate() {
            let Some(section) = &self.model.sections[at] else { continue };
            let is_certain = section.direction == Direction::Both
                && !table.is_acted_on()
                && !self.differ.contains(&at)
                && self.model.own(at).delete != Deletes::ByKey
                && !self.rejects.contains(&table.name);
            if is_certain {
                self.check_table(at, table, section)?;
            }
        }
        Ok(())
    }

    fn check_table(&self, at: usize, table: &Table, section: &Section) -> Verdict {
        let columns = section.published(table);
        let remote = |image: &RemoteImage| by_key(table, image.published(at, &columns).iter());
        let (base, new) = (remote(self.received), remote(self.sent));
        if !self.sent.held.contains_key(&at) {
            return Ok(());
        }
        let (before, after) = (&self.before.tables[at], &self.after.tables[at]);
        let (before, after) = (by_key(table, before.iter()), by_key(table, after.iter()));
        let moved = moved(table, &[&base, &new, &before]);
        let vacated = base.keys().any(|key| !new.contains_key(key));
        let share =
            Share { schema: self.schema, model: self.model, center: self.before, rep: self.rep };
        for key in base.keys().chain(new.keys()).collect::<BTreeSet<&Row>>() {
            let (base, new, center) = (base.get(key), new.get(key), before.get(key));
            let is_behind = center.is_some_and(|row| !share.has(at, row));
            // It was moved, and another row has taken its place since.
            let has_gone_on = base.is_some_and(|row| self.has_another_key(table, row));
            if base == new || moved.contains(key) || is_behind || has_gone_on {
                continue;
            }
            let change = Change { table, columns: &columns, base, new, center };
            let Some(mut expected) = change.result(section.rule) else { continue };
            let mut found = after.get(key).cloned();
            // A row that was replaced before it got this key goes on, with what is not published.
            let may_go_on = base.is_none() && vacated;
            if let (Some(at), true) = (section.left_out, may_go_on) {
                expected.iter_mut().chain(&mut found).for_each(|row| row[at] = Cell::Null);
            }
            ensure(found == expected, "S5, the rule decides", || {
                format!(
                    "{}, {:?}: received {}, sent {}, at the center {}; expected {}, found {}",
                    table.name,
                    section.rule,
                    shown(base),
                    shown(new),
                    shown(center),
                    shown(expected.as_ref()),
                    shown(found.as_ref())
                )
            })?;
        }
        Ok(())
    }
}

impl Upload<'_> {
    /// Whether the center had the row under another key last.
    fn has_another_key(&self, table: &Table, row: &Row) -> bool {
        let mark = table.position(&Role::Mark).and_then(|at| row[at].token());
        let home = mark.and_then(|mark| self.homes.get(&mark));
        home.is_some_and(|home| home != table.key(row))
    }
}

/// One row that a remote has changed.
struct Change<'a> {
    table: &'a Table,
    /// The published ones.
    columns: &'a [usize],
    base: Option<&'a Row>,
    new: Option<&'a Row>,
    center: Option<&'a Row>,
}

impl Change<'_> {
    /// The row at the center afterwards; none where that is not certain.
    fn result(&self, rule: Rule) -> Option<Option<Row>> {
        // `latest` moves a time of the future to now, which is not predicted here. Numbers that are
        // told apart are times of long ago.
        if let (Some(new), Rule::Latest(column)) = (self.new, rule) {
            let at = self.columns.iter().position(|it| *it == column)?;
            let is_number = matches!(new[at], Cell::Integer(_) | Cell::Real(_));
            if is_number && new[at].token().is_none() {
                return None;
            }
        }
        let center = self.center.map(|row| self.published(row));
        let is_known = center.as_ref() == self.base || center.as_ref() == self.new;
        let ours = || self.new.map(|row| self.over(row));
        let theirs = || self.center.cloned();
        if is_known {
            return Some(ours());
        }
        Some(match (self.new, rule) {
            (_, Rule::RemoteWins) => ours(),
            (_, Rule::ConsolidatedWins) | (None, Rule::Merge | Rule::Latest(_)) => theirs(),
            // An update wins over a delete.
            (Some(_), Rule::Merge | Rule::Latest(_)) if center.is_none() => ours(),
            (Some(new), Rule::Merge) => Some(self.over(&self.merged(new, &center?))),
            (Some(new), Rule::Latest(column)) => {
                let at = self.columns.iter().position(|it| *it == column)?;
                let is_later = later(&new[at], &center?[at])?;
                if is_later { ours() } else { theirs() }
            }
        })
    }

    fn published(&self, row: &Row) -> Row {
        self.columns.iter().map(|at| row[*at].clone()).collect()
    }

    /// A published row, with what the center has in the other columns.
    fn over(&self, row: &Row) -> Row {
        let default = |at: usize| self.table.columns[at].required.clone().unwrap_or(Cell::Null);
        let mut whole = match self.center {
            Some(center) => center.clone(),
            None => (0..self.table.columns.len()).map(default).collect(),
        };
        for (at, cell) in self.columns.iter().zip(row) {
            whole[*at] = cell.clone();
        }
        whole
    }

    fn merged(&self, new: &Row, center: &Row) -> Row {
        let cells = center.iter().zip(new).enumerate();
        let merged = cells.map(|(at, (center, new))| {
            let is_ours = match self.base {
                Some(base) => *center == base[at],
                None => *center == Cell::Null,
            };
            if is_ours { new.clone() } else { center.clone() }
        });
        merged.collect()
    }
}

/// Whether a value is later, where that is certain.
fn later(new: &Cell, center: &Cell) -> Option<bool> {
    match (new, center) {
        (_, Cell::Null) => Some(true),
        (Cell::Null, _) => Some(false),
        // Numbers that are no time of any kind.
        _ => {
            let (new, center) = (new.token()?, center.token()?);
            Some(new > center)
        }
    }
}

fn by_key<'a>(table: &Table, rows: impl Iterator<Item = &'a Row>) -> ByKey {
    rows.map(|row| (table.key(row).to_vec(), row.clone())).collect()
}

/// Keys that a row has in one place and not in another.
fn moved(table: &Table, places: &[&ByKey]) -> BTreeSet<Row> {
    let mut keys = BTreeMap::<&Cell, BTreeSet<&Row>>::new();
    // The mark is the first column behind the key, unless a reference comes between.
    let Some(mark) = table.position(&Role::Mark) else { return BTreeSet::new() };
    for (key, row) in places.iter().flat_map(|rows| rows.iter()) {
        keys.entry(&row[mark]).or_default().insert(key);
    }
    let moved = keys.into_values().filter(|keys| keys.len() > 1);
    moved.flatten().cloned().collect()
}

fn shown(row: Option<&Row>) -> String {
    let Some(row) = row else { return "nothing".to_owned() };
    let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
    format!("({})", cells.join(", "))
}
