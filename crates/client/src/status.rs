//! The state of a remote, without a network.

use crate::apply::{kept_back, orphans, rejects};
use crate::capture::change_log::{self, Change, Reading};
use crate::connection::{begin_immediate, begin_read, explain};
use crate::progress;
use crate::progress::partial::{self, Kept};
use crate::progress::state::State;
use crate::schema::history::History;
use crate::schema::{self, RemoteTable};
use crate::settings::trust;
use crate::transport::Trust;
use crate::upload::left_behind::{self, Fitting, LeftBehind};
use model::{
    Counter, DatabaseId, Direction, Failure, Progress, PublicationName, RemoteId, ScriptVersion,
    Spills, UserName,
};
use rusqlite::Connection;
use std::sync::Arc;

/// What a remote is and what it has agreed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its identity; none before the first synchronization.
    pub remote_id: Option<RemoteId>,
    /// The server's URL, once known.
    pub server: Option<String>,
    /// Who authenticates, once known.
    pub user: Option<UserName>,
    /// The wanted script version; the server's default if none.
    pub script_version: Option<ScriptVersion>,
    /// The wanted publications; all if empty.
    pub publications: Vec<PublicationName>,
    /// Which servers it believes, and the certificate that it shows them.
    pub trust: Trust,
    /// The consolidated database, once known.
    pub database_id: Option<DatabaseId>,
    /// Complete synchronizations.
    pub counter: Counter,
    /// The last upload known to be committed.
    pub progress: Progress,
    /// An upload was sent whose answer never came. The next synchronization learns it.
    pub outcome_unknown: bool,
    /// Rows in the reject table.
    pub rejects: u64,
    /// Lost conflicts that nobody has dismissed.
    pub conflicts_lost: u64,
    /// Downloaded rows that wait for their parent, which the center lacks.
    pub orphans: u64,
    /// Downloaded rows and deletes that cannot be applied here yet.
    pub kept_back: u64,
    /// What is kept of a download that was cut.
    pub partial: Kept,
    /// The published tables.
    pub tables: Vec<TableStatus>,
    /// Tables of the file that are no longer published: what is written into them is not uploaded.
    pub no_longer_published: Vec<String>,
}

impl Status {
    /// Changes of all tables that wait to be uploaded.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.tables.iter().map(|table| table.pending).sum()
    }
}

/// One published table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStatus {
    /// Its name.
    pub name: String,
    /// Which way its rows travel.
    pub direction: Direction,
    /// It was received at least once.
    pub received: bool,
    /// Pending changes.
    pub pending: u64,
}

/// A pending change.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingChange {
    /// The table.
    pub table: String,
    /// What became of the row.
    pub operation: PendingOperation,
    /// The row's key, readable.
    pub key: String,
    /// The columns that an update changed.
    pub columns: Vec<String>,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingOperation {
    /// It is new.
    Insert,
    /// It changed.
    Update,
    /// It is gone.
    Delete,
}

impl PendingOperation {
    /// Its name, as SQL spells it in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            PendingOperation::Insert => "insert",
            PendingOperation::Update => "update",
            PendingOperation::Delete => "delete",
        }
    }
}

/// Identity, agreements and counts.
pub(crate) fn status(connection: &Connection) -> Result<Status, Failure> {
    let _one_state = begin_read(connection)?;
    let state = State::read(connection)?;
    let mut tables = Vec::new();
    let watermarks = progress::watermarks(connection)?;
    let published = schema::tables(connection)?;
    for (table, watermark) in published.iter().zip(watermarks) {
        let mut pending = 0;
        for_each_change(connection, table, &state, &mut |_| {
            pending += 1;
            Ok(())
        })?;
        tables.push(TableStatus {
            name: table.name().to_owned(),
            direction: table.published.direction,
            received: watermark.is_some(),
            pending,
        });
    }
    Ok(Status {
        remote_id: state.remote_id,
        server: state.server,
        user: state.user,
        script_version: state.script_version,
        publications: state.publications,
        trust: trust::read(connection)?.unwrap_or_default(),
        database_id: state.database_id,
        counter: state.counter,
        progress: state.progress,
        outcome_unknown: state.frozen.is_some(),
        rejects: rejects::count(connection)?,
        conflicts_lost: rejects::lost_conflicts::count(connection)?,
        orphans: orphans::count(connection).map_err(explain)?,
        kept_back: kept_back::count(connection, &published)?,
        partial: partial::kept(connection, None)?,
        tables,
        no_longer_published: History::read(connection)?.left(connection)?,
    })
}

/// Every pending change. A frozen change and a later one of the same row are two, since they
/// are uploaded one after the other.
pub(crate) fn pending(connection: &Connection) -> Result<Vec<PendingChange>, Failure> {
    let _one_state = begin_read(connection)?;
    let state = State::read(connection)?;
    let mut changes = Vec::new();
    for table in schema::tables(connection)? {
        for_each_change(connection, &table, &state, &mut |change| {
            changes.push(change);
            Ok(())
        })?;
    }
    Ok(changes)
}

/// The pending changes that no message takes, as the server of the last Welcome takes them, and how
/// many wait with them.
pub(crate) fn too_large(
    connection: &Connection,
    spills: &Arc<Spills>,
) -> Result<LeftBehind, Failure> {
    let reading_state = begin_read(connection)?;
    let state = State::read(connection)?;
    let row_bytes_max = left_behind::row_bytes_max(state.frame_bytes_max);
    let tables = schema::tables(connection)?;
    let mut found = LeftBehind::default();
    for table in tables.iter().filter(|table| table.uploads()) {
        for reading in readings(&state) {
            left_behind::for_each_large(
                connection,
                table,
                reading,
                row_bytes_max,
                &mut |_, row| {
                    found.add(row);
                    Ok(())
                },
            )?;
        }
    }
    drop(reading_state);
    if !found.is_empty() {
        // It is tried, and undone.
        let transaction = begin_immediate(connection)?;
        let open = State::read(&transaction)?.open_generation;
        let fitting = Fitting { row_bytes_max, spills };
        found.others = left_behind::leave(&transaction, &tables, (open, open + 1), fitting)?.others;
        transaction.rollback().map_err(explain)?;
    }
    Ok(found)
}

/// The generations that are pending: the frozen one, and the open one.
fn readings(state: &State) -> impl Iterator<Item = Reading> {
    let open = state.open_generation;
    let frozen = state.frozen.map(|frozen| frozen.generation);
    let frozen = frozen.map(|generation| Reading { generation, newer: Some(open) });
    frozen.into_iter().chain([Reading { generation: open, newer: None }])
}

fn for_each_change(
    connection: &Connection,
    table: &RemoteTable,
    state: &State,
    visit: &mut dyn FnMut(PendingChange) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !table.uploads() {
        return Ok(());
    }
    for reading in readings(state) {
        change_log::for_each(connection, table, reading, &mut |entry| {
            let operation = match entry.change().map_err(explain)? {
                Change::None => return Ok(()),
                Change::Insert => PendingOperation::Insert,
                Change::Update => PendingOperation::Update,
                Change::Delete => PendingOperation::Delete,
            };
            let mut columns = Vec::new();
            if operation == PendingOperation::Update {
                for (n, name) in table.published.columns.iter().enumerate() {
                    if entry.changed(n).map_err(explain)? {
                        columns.push(name.clone());
                    }
                }
            }
            let key = entry.key_text().map_err(explain)?;
            visit(PendingChange { table: table.name().to_owned(), operation, key, columns })
        })?;
    }
    Ok(())
}
