//! Tables that are left out of synchronizations, because they are not as they were deployed.
//!
//! Somebody drops a table, renames it, or takes its triggers away, and does not deploy. What such a
//! table has cannot be told, and what is uploaded for it cannot be applied; all others can. So it
//! waits, and with it every table whose rows cannot be decided without it.
//!
//! Invariants:
//! T1. Nothing of a table that waits is sent or applied, and its watermark stays where it was.
//! T2. A table waits together with those that decide which of its rows a remote has, and with those
//!     that its foreign keys refer to: otherwise a row would cross that is behind a fence, or one
//!     whose parent the remote lacks.

use super::{Catalog, CatalogTable};
use crate::synchronization::{Session, WaitingTable};
use model::{Code, Direction, Failure, PublishedTable};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Why tables are not served, by their names.
pub(crate) type Unserved = BTreeMap<String, String>;

impl<D> Catalog<D> {
    /// The tables of `session` that wait. `refers` yields the names of the tables without which
    /// nothing can be said of the rows of a table.
    pub(crate) fn waiting(
        &self,
        session: &Session,
        unserved: &Unserved,
        refers: &dyn Fn(&CatalogTable<D>) -> Vec<String>,
    ) -> Vec<WaitingTable> {
        if unserved.is_empty() {
            return Vec::new();
        }
        let version = self.versions.iter().find(|it| it.name == session.script_version);
        let tables = version.map(|it| it.tables.as_slice()).unwrap_or_default();
        let mut reasons = unserved.clone();
        // Every round but the last adds a table.
        loop {
            let before = reasons.len();
            for table in tables {
                let name = &table.published.name;
                let other = refers(table).into_iter().find(|it| reasons.contains_key(it));
                if let Some(other) = other.filter(|_| !reasons.contains_key(name)) {
                    let reason = format!("table {name} waits for table {other}, it refers to it");
                    reasons.insert(name.clone(), reason);
                }
            }
            if reasons.len() == before {
                break;
            }
        }
        let waiting = session.schema.tables.iter().enumerate().filter_map(|(position, table)| {
            let message = reasons.get(&table.name)?.clone();
            Some(WaitingTable { position: position as u16, table: table.name.clone(), message })
        });
        waiting.collect()
    }
}

/// Refuses a session of which every table waits: there is nothing left to synchronize.
pub(crate) fn require_any(session: &Session) -> Result<(), Failure> {
    match session.waiting.first() {
        Some(first) if session.waiting.len() == session.schema.tables.len() => {
            Err(Failure::new(Code::Drift, first.message.as_str()).table(first.table.as_str()))
        }
        _ => Ok(()),
    }
}

/// Refuses to go on with tables that turned out not to be what they were when the session began.
/// The next synchronization leaves them out.
pub(crate) fn require_known(session: &Session, now: &[WaitingTable]) -> Result<(), Failure> {
    match now.iter().find(|table| !session.waits(usize::from(table.position))) {
        Some(new) => {
            let message = new.message.as_str();
            Err(Failure::new(Code::TableWentAway, message).table(new.table.as_str()))
        }
        None => Ok(()),
    }
}

/// `session` without these tables too, of which some went after it had begun.
pub(crate) fn wait_too(session: &Session, waiting: Vec<WaitingTable>) -> Session {
    let mut now = session.clone();
    let new = waiting.into_iter().filter(|it| !session.waits(usize::from(it.position)));
    let new: Vec<WaitingTable> = new.collect();
    for WaitingTable { table, message, .. } in &new {
        let remote = session.remote_id.as_str();
        tracing::warn!(remote, table, reason = message, "a download leaves a table out");
    }
    if !new.is_empty() {
        Arc::make_mut(&mut now.waiting).extend(new);
    }
    now
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
        scripts: HashMap::new(),
    })
}
