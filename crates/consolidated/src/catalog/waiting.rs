//! Tables that are left out of synchronizations, because they are not as they were deployed.
//!
//! Somebody drops a table, or takes triggers away, and does not deploy. What such a table has
//! cannot be told, and what is uploaded for it cannot be applied; all others can. So it waits, and
//! with it every table whose rows cannot be decided without it.
//!
//! A column that was renamed or dropped stops all tables instead. Its table is in use, and its rows
//! were committed at remotes together with those of others: who reads the center would see half of
//! a transaction.
//!
//! Invariants:
//! T1. Nothing of a table that waits is sent or applied, and its watermark stays where it was.
//! T2. A table waits together with those that decide which of its rows a remote has, and with those
//!     that its foreign keys refer to: otherwise a row would cross that is behind a fence, or one
//!     whose parent the remote lacks.

use super::Catalog;
use super::deciding::Decided;
use super::table::CatalogTable;
use crate::administration::{Finding, column_gone, deciding_column_gone};
use crate::synchronization::{Session, WaitingTable};
use model::{Code, Failure, PublishedTable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why tables are not served, by their names.
pub(crate) type Unserved = BTreeMap<String, String>;

/// Deployed columns that are not there, by their tables.
pub(crate) type LostColumns = BTreeMap<String, BTreeSet<String>>;

/// Why tables are not served, from what `check` found. Refuses what is wrong with no table in
/// particular.
pub(crate) fn unserved(drift: Vec<Finding>) -> Result<Unserved, Failure> {
    let mut unserved = Unserved::new();
    for Finding { table, message, .. } in drift {
        match table {
            Some(table) => drop(unserved.entry(table).or_insert(message)),
            None => return Err(Failure::new(Code::Drift, message)),
        }
    }
    Ok(unserved)
}

impl<D: Decided> Catalog<D> {
    /// All tables of the script version of `session`.
    fn tables_of(&self, session: &Session) -> &[Arc<CatalogTable<D>>] {
        let version = self.versions.iter().find(|it| it.name == session.script_version);
        version.map(|it| it.tables.as_slice()).unwrap_or_default()
    }

    /// The tables of `session` that wait. `refers` yields the names of the tables without which
    /// nothing can be said of the rows of a table.
    pub(crate) fn waiting(
        &self,
        session: &Session,
        (unserved, lost): (&Unserved, &LostColumns),
        refers: &dyn Fn(&CatalogTable<D>) -> Vec<String>,
    ) -> Vec<WaitingTable> {
        if unserved.is_empty() && lost.is_empty() {
            return Vec::new();
        }
        let tables = self.tables_of(session);
        let mut reasons = unserved.clone();
        reasons.extend(lacking(tables, lost).map(|lack| (lack.of.to_owned(), lack.reason)));
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

/// Refuses a session with a table that lacks a published column, or one that decides about its
/// rows.
pub(crate) fn require_columns<D: Decided>(
    catalog: &Catalog<D>,
    session: &Session,
    lost: &LostColumns,
) -> Result<(), Failure> {
    if lost.is_empty() {
        return Ok(());
    }
    let is_used = |name: &str| session.schema.tables.iter().any(|table| table.name == name);
    match lacking(catalog.tables_of(session), lost).find(|lack| is_used(lack.of)) {
        Some(Lack { table, reason, .. }) => Err(Failure::new(Code::Drift, reason).table(table)),
        None => Ok(()),
    }
}

/// A published table that cannot be served without a column.
struct Lack<'a> {
    of: &'a str,
    /// The table of the column.
    table: &'a str,
    reason: String,
}

/// The tables that lack a column, and why.
fn lacking<'a, D: Decided>(
    tables: &'a [Arc<CatalogTable<D>>],
    lost: &'a LostColumns,
) -> impl Iterator<Item = Lack<'a>> {
    tables.iter().filter_map(|table| {
        let PublishedTable { name: of, columns, .. } = &table.published;
        let own = lost.get(of).and_then(|lost| columns.iter().find(|it| lost.contains(*it)));
        if let Some(column) = own {
            return Some(Lack { of, table: of, reason: column_gone(of, column) });
        }
        table.details.deciding().iter().find_map(|deciding| {
            let (lost, table) = (lost.get(&deciding.table)?, deciding.table.as_str());
            let column = deciding.columns.iter().find(|column| lost.contains(*column))?;
            Some(Lack { of, table, reason: deciding_column_gone(of, table, column) })
        })
    })
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
