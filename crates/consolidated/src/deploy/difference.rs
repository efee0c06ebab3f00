//! Differences between models, database and deployment: which table, and which column.

use crate::sync_model::{SyncModel, TableModel};
use model::PublishedTable;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Disagreement {
    /// The database has it, and the model does not publish it.
    NotPublished,
    /// The model names it, and the database does not have it.
    Missing,
    /// The model publishes it, and that is not deployed.
    NotDeployed,
    /// It is deployed, and the model does not publish it any more.
    NoLongerPublished,
    /// It is deployed, and the database does not have it any more.
    Gone,
}

/// One thing about which models, database and deployment disagree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// The script version.
    pub script_version: String,
    /// The table, as the database spells it where it has it.
    pub table: String,
    /// The column; none where it is the whole table.
    pub column: Option<String>,
    /// What is different.
    pub what: Disagreement,
    /// What the model calls the table, where it names it.
    #[serde(skip)]
    pub section: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.column {
            Some(column) => write!(f, "column {column} of table {} ", self.table)?,
            None => write!(f, "table {} ", self.table)?,
        }
        f.write_str(match self.what {
            Disagreement::NotPublished => "is in the database and not in the model",
            Disagreement::Missing => "is in the model and not in the database",
            Disagreement::NotDeployed => "is in the model and not deployed",
            Disagreement::NoLongerPublished => "is deployed and not in the model",
            Disagreement::Gone => "is deployed and not in the database",
        })
    }
}

/// A table of the database.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The columns that can be published.
    pub(crate) columns: Vec<String>,
    pub(crate) key: Vec<String>,
    /// It could be published, and a user might expect that it is.
    pub(crate) offered: bool,
}

/// All differences. `find` finds a table by the name in a model. `deployed` are script versions
/// with their tables.
pub(crate) fn differences(
    models: &[SyncModel],
    database: &BTreeMap<String, Installed>,
    find: &dyn Fn(&str) -> Option<String>,
    deployed: &[(String, PublishedTable)],
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for model in models {
        let version = model.script_version.as_str();
        let deployed: BTreeMap<&str, &PublishedTable> = deployed
            .iter()
            .filter(|(deployed, _)| deployed == version)
            .map(|(_, table)| (table.name.as_str(), table))
            .collect();
        let mut found = Found { version, section: None, differences: &mut differences };
        let mut published: BTreeMap<String, (&String, &TableModel)> = BTreeMap::new();
        for (written, table) in &model.tables {
            match find(written) {
                Some(name) => drop(published.insert(name, (written, table))),
                None => found.note(written, None, Disagreement::Missing),
            }
        }
        for (name, present) in database {
            let Some((written, table)) = published.get(name) else {
                let on_purpose = |written: &String| find(written).as_ref() == Some(name);
                if present.offered && !model.unpublished.iter().any(on_purpose) {
                    found.note(name, None, Disagreement::NotPublished);
                }
                continue;
            };
            found.section = Some((*written).clone());
            found.columns(name, table, present, deployed.get(name.as_str()).copied());
            found.section = None;
        }
        for name in deployed.keys() {
            match (database.contains_key(*name), published.contains_key(*name)) {
                (false, _) => found.note(name, None, Disagreement::Gone),
                (true, false) => found.note(name, None, Disagreement::NoLongerPublished),
                (true, true) => {}
            }
        }
    }
    differences.sort();
    differences
}

struct Found<'a> {
    version: &'a str,
    /// What the model calls the table that is looked at.
    section: Option<String>,
    differences: &'a mut Vec<Difference>,
}

impl Found<'_> {
    fn note(&mut self, table: &str, column: Option<&str>, what: Disagreement) {
        self.differences.push(Difference {
            script_version: self.version.to_owned(),
            table: table.to_owned(),
            column: column.map(str::to_owned),
            what,
            section: self.section.clone(),
        });
    }

    fn columns(
        &mut self,
        name: &str,
        table: &TableModel,
        present: &Installed,
        deployed: Option<&PublishedTable>,
    ) {
        for column in table.columns.iter().flatten() {
            if !present.columns.contains(column) {
                self.note(name, Some(column), Disagreement::Missing);
            }
        }
        let published = |column: &&String| match &table.columns {
            Some(wanted) => wanted.contains(column) || present.key.contains(column),
            None => true,
        };
        let on_purpose = |column: &&String| table.unpublished.contains(column);
        let left_out = present.columns.iter().filter(|column| !published(column));
        for column in left_out.filter(|column| !on_purpose(column)) {
            self.note(name, Some(column), Disagreement::NotPublished);
        }
        let Some(deployed) = deployed else {
            self.note(name, None, Disagreement::NotDeployed);
            return;
        };
        let inward = |name: &String| table.names.get(name).unwrap_or(name).clone();
        let deployed: Vec<String> = deployed.columns.iter().map(inward).collect();
        let known: BTreeSet<&String> = deployed.iter().collect();
        for column in present.columns.iter().filter(published).filter(|c| !known.contains(c)) {
            self.note(name, Some(column), Disagreement::NotDeployed);
        }
        for column in &deployed {
            match present.columns.contains(column) {
                false => self.note(name, Some(column), Disagreement::Gone),
                true if !published(&column) => {
                    self.note(name, Some(column), Disagreement::NoLongerPublished);
                }
                true => {}
            }
        }
    }
}
