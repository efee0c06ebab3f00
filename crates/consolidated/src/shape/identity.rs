//! The numbers of tables and columns after names have changed.

use super::{Identities, TableIdentity};
use crate::sync_model::{SyncModel, TableModel};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Something that a model declares about names, and that a deployment has acted on. Remembered for
/// as long as it is declared: names that were swapped must not be swapped back by the next one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Declared {
    TableRenamed { new: String, old: String },
    TableDropped { name: String },
    Renamed { table: i64, new: String, old: String },
    Dropped { table: i64, name: String },
}

/// The tables of the database with their columns.
pub(crate) type Columns = BTreeMap<String, BTreeSet<String>>;

/// A table or column that had a number and is no longer there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gone {
    pub(crate) table: String,
    /// None: the table.
    pub(crate) column: Option<String>,
    /// The model says so.
    pub(crate) declared: bool,
    /// What is new beside it, and may be the same under another name.
    pub(crate) candidates: Vec<String>,
}

/// What has become of the numbers.
#[derive(Debug, Default)]
pub(crate) struct Evolved {
    pub(crate) identities: Identities,
    pub(crate) declared: BTreeSet<Declared>,
    pub(crate) gone: Vec<Gone>,
}

/// What is looked at; nothing of it changes.
pub(crate) struct Evolution<'a> {
    pub(crate) models: &'a [SyncModel],
    /// What earlier deployments have acted on.
    pub(crate) applied: &'a BTreeSet<Declared>,
    /// All that is in the database.
    pub(crate) database: &'a Columns,
    /// What any model publishes, by the names of the database.
    pub(crate) published: &'a Columns,
    /// The name in the database of what a model calls so.
    pub(crate) find: &'a dyn Fn(&str) -> Option<String>,
}

impl Evolution<'_> {
    /// Follows what is declared, notes what is gone, and numbers what is new.
    pub(crate) fn evolve(&self, known: &Identities) -> Evolved {
        let mut evolved = Evolved { identities: known.clone(), ..Evolved::default() };
        self.rename_tables(&mut evolved);
        self.drop_tables(&mut evolved);
        let names: Vec<String> = evolved.identities.tables.keys().cloned().collect();
        for name in names {
            if self.database.contains_key(&name) {
                self.columns(&name, &mut evolved);
                continue;
            }
            evolved.identities.tables.remove(&name);
            let candidates = self.published.keys();
            let candidates = candidates.filter(|new| !known.tables.contains_key(*new)).cloned();
            let candidates = candidates.collect();
            evolved.gone.push(Gone { table: name, column: None, declared: false, candidates });
        }
        self.number(&mut evolved.identities);
        evolved
    }

    fn rename_tables(&self, evolved: &mut Evolved) {
        let mut wanted = BTreeSet::new();
        for (name, table) in self.models.iter().flat_map(|model| &model.tables) {
            let Some(old) = &table.renamed_from else { continue };
            let new = (self.find)(name).unwrap_or_else(|| name.clone());
            wanted.insert((new, old.clone()));
        }
        let olds: BTreeSet<String> = wanted.iter().map(|(_, old)| old.clone()).collect();
        let tables = &mut evolved.identities.tables;
        let mut moved = Vec::new();
        for (new, old) in wanted {
            let entry = Declared::TableRenamed { new: new.clone(), old: old.clone() };
            let applied = self.applied.contains(&entry);
            // Both numbers are known and exist, and no renaming says that they were exchanged: it
            // is done already.
            let done = tables.contains_key(&new)
                && self.database.contains_key(&old)
                && !olds.contains(&new);
            let follow = !applied && !done && tables.contains_key(&old);
            if applied || done || follow {
                evolved.declared.insert(entry);
            }
            if follow {
                moved.push((new, old));
            }
        }
        let taken: Vec<_> = moved
            .into_iter()
            .filter_map(|(new, old)| tables.remove(&old).map(|table| (new, table)))
            .collect();
        for (new, table) in taken {
            if tables.insert(new.clone(), table).is_some() {
                let declared = self.is_dropped(&new);
                let gone = Gone { table: new, column: None, declared, candidates: Vec::new() };
                evolved.gone.push(gone);
            }
        }
    }

    fn is_dropped(&self, table: &str) -> bool {
        let dropped = self.models.iter().flat_map(|model| &model.dropped_tables);
        { dropped }.any(|name| name == table)
    }

    fn drop_tables(&self, evolved: &mut Evolved) {
        let dropped = self.models.iter().flat_map(|model| &model.dropped_tables);
        for name in dropped.collect::<BTreeSet<_>>() {
            let entry = Declared::TableDropped { name: name.clone() };
            let applied = self.applied.contains(&entry);
            evolved.declared.insert(entry);
            // A table of the same name that is there now is another one.
            let was_there = !applied || !self.database.contains_key(name);
            if was_there && evolved.identities.tables.remove(name).is_some() {
                let (table, candidates) = (name.clone(), Vec::new());
                evolved.gone.push(Gone { table, column: None, declared: true, candidates });
            }
        }
    }

    /// What the models that publish it say about a table.
    fn models_of<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m TableModel> {
        let tables = self.models.iter().flat_map(|model| &model.tables);
        tables
            .filter(move |(written, _)| (self.find)(written).as_deref() == Some(name))
            .map(|(_, table)| table)
    }

    fn columns(&self, name: &str, evolved: &mut Evolved) {
        let Some(identity) = evolved.identities.tables.get_mut(name) else { return };
        let there = &self.database[name];
        let published = self.published.get(name);
        let known = identity.columns.clone();
        let dropped: BTreeSet<&String> =
            self.models_of(name).flat_map(|table| &table.dropped).collect();
        let (renames, declared) = self.renames(name, identity, there);
        evolved.declared.extend(declared);
        let mut columns = known.clone();
        let taken: Vec<(String, i64)> = renames
            .into_iter()
            .filter_map(|(new, old)| columns.remove(&old).map(|id| (new, id)))
            .collect();
        let mut gone: Vec<(String, bool)> = Vec::new();
        for name in &dropped {
            let entry = Declared::Dropped { table: identity.id, name: (*name).clone() };
            let applied = self.applied.contains(&entry);
            evolved.declared.insert(entry);
            // A column of the same name that is there now is another one.
            if (!applied || !there.contains(*name)) && columns.remove(*name).is_some() {
                gone.push(((*name).clone(), true));
            }
        }
        for (new, id) in taken {
            if columns.insert(new.clone(), id).is_some() {
                gone.push((new.clone(), dropped.contains(&new)));
            }
        }
        let missing = columns.keys().filter(|column| !there.contains(*column)).cloned();
        for column in missing.collect::<Vec<_>>() {
            columns.remove(&column);
            // Rows of a table that is not published are never uploaded.
            gone.push((column, published.is_none()));
        }
        let new = published.into_iter().flatten().filter(|column| !known.contains_key(*column));
        let candidates: Vec<String> =
            new.filter(|column| !columns.contains_key(*column)).cloned().collect();
        identity.columns = columns;
        evolved.gone.extend(gone.into_iter().map(|(column, declared)| {
            let (table, candidates) = (name.to_owned(), candidates.clone());
            Gone { table, column: Some(column), declared, candidates }
        }));
    }

    /// The renames of columns that are still to be followed, as new and old name, and what is
    /// declared of them at all.
    fn renames(
        &self,
        name: &str,
        identity: &TableIdentity,
        there: &BTreeSet<String>,
    ) -> (BTreeMap<String, String>, BTreeSet<Declared>) {
        let known = &identity.columns;
        let written: BTreeMap<&String, &String> =
            self.models_of(name).flat_map(|table| &table.renamed).collect();
        let entry = |new: &String, old: &String| Declared::Renamed {
            table: identity.id,
            new: new.clone(),
            old: old.clone(),
        };
        let (mut renames, mut declared) = (BTreeMap::new(), BTreeSet::new());
        for (new, old) in &written {
            let (mut new, mut old) = (*new, *old);
            let fits = |new: &String, old: &String| there.contains(new) && known.contains_key(old);
            // What is gone must have gone somewhere: a name that comes back is no line of before.
            let goes_back = |new: &String, old: &String| fits(new, old) && !there.contains(old);
            let backwards = |new: &String, old: &String| {
                self.applied.contains(&entry(old, new)) && !goes_back(new, old)
                    || !fits(new, old) && fits(old, new) && !there.contains(new)
            };
            if backwards(new, old) {
                (new, old) = (old, new);
            }
            // Through names that no deployment has seen.
            let mut hops = 0;
            while !known.contains_key(old) && hops < written.len() {
                match written.get(old) {
                    Some(older) => old = older,
                    None => break,
                }
                hops += 1;
            }
            let entry = entry(new, old);
            let applied = self.applied.contains(&entry);
            let is_old = written.values().any(|old| *old == new);
            let done = known.contains_key(new) && there.contains(old) && !is_old;
            let follow = !applied && !done && new != old && fits(new, old);
            // A mismatch is resolved by the deployment after the ALTER TABLE.
            if applied || done || follow {
                declared.insert(entry);
            }
            if follow {
                renames.insert(new.clone(), old.clone());
            }
        }
        (renames, declared)
    }

    /// Gives numbers to what is published for the first time.
    fn number(&self, identities: &mut Identities) {
        for (name, columns) in self.published {
            if !identities.tables.contains_key(name) {
                let table = TableIdentity { id: identities.give(), columns: BTreeMap::new() };
                identities.tables.insert(name.clone(), table);
            }
            for column in columns {
                let table = identities.tables.get(name);
                if table.is_some_and(|table| !table.columns.contains_key(column)) {
                    let id = identities.give();
                    if let Some(table) = identities.tables.get_mut(name) {
                        table.columns.insert(column.clone(), id);
                    }
                }
            }
        }
    }
}
