//! One table of a script version, ready to run.

use crate::script::{Event, Script};
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;
use model::{Code, Direction, Failure, PublishedTable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One table of a script version, ready to run.
#[derive(Debug)]
pub(crate) struct CatalogTable<D> {
    /// The table under the names of the database, which scripts use too.
    pub(crate) published: PublishedTable,
    /// The same as remotes know it.
    pub(super) outward: PublishedTable,
    pub(crate) conflict_rule: String,
    /// What the backend noted when it deployed the table.
    pub(crate) details: D,
    pub(super) scripts: BTreeMap<Event, Script>,
}

impl<D> CatalogTable<D> {
    pub(crate) fn scripts(&self) -> &BTreeMap<Event, Script> {
        &self.scripts
    }

    pub(crate) fn script(&self, event: Event) -> Option<&Script> {
        self.scripts.get(&event)
    }

    /// The script of an event that every table of this direction has.
    pub(crate) fn required(&self, event: Event) -> Result<&Script, Failure> {
        self.script(event).ok_or_else(|| {
            let name = &self.published.name;
            Failure::new(Code::ScriptFailed, format!("table {name} has no script {event}"))
                .table(name.as_str())
        })
    }
}

impl<D> CatalogTable<D> {
    /// Whether rows with this change go through a script that a user wrote.
    pub(crate) fn is_own(&self, change: Change) -> bool {
        self.script(event_of(change)).is_some_and(Script::is_own)
    }

    /// Whether nothing is done for rows with this change.
    pub(crate) fn ignores(&self, change: Change) -> bool {
        self.script(event_of(change)).is_some_and(Script::is_ignored)
    }

    /// Whether a user wrote some of its upload scripts.
    pub(crate) fn has_own_uploads(&self) -> bool {
        self.scripts.iter().any(|(event, script)| event.is_upload() && script.is_own())
    }
}

/// Stands for a table that waits: no row of it is taken, nor is anything of it tracked or sent.
/// What the database has by its name is not it.
pub(super) fn at_rest<D: Default>(table: &PublishedTable) -> Arc<CatalogTable<D>> {
    let direction = Direction::UploadOnly;
    let (columns, key) = (Vec::new(), Vec::new());
    let published = PublishedTable { direction, columns, key, ..table.clone() };
    Arc::new(CatalogTable {
        outward: published.clone(),
        published,
        conflict_rule: String::new(),
        details: D::default(),
        scripts: BTreeMap::new(),
    })
}
