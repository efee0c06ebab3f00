//! What the file remembers about tables that are not published now: one fact, as JSON.
//!
//! If a table was published here before, the user did not create it. Its rows were received, so
//! they are compared with the centre when the table is published again, and never uploaded (trap
//! 23). If a column is published since the last download, the user has neither seen nor chosen its
//! values (trap 24).

use super::StoredTable;
use crate::connection::explain;
use crate::progress::{self, State};
use model::{Code, DatabaseId, Failure, PublishedTable};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the fact.
pub(crate) const FACT: &str = "table_history";

/// Tables that were published once and what is on its way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// Tables that are no longer published, as they were last.
    #[serde(default)]
    former: Vec<Former>,
    /// By the name of a published table: what its next download settles.
    #[serde(default)]
    pub(crate) arriving: BTreeMap<String, Arriving>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Former {
    published: PublishedTable,
    created: bool,
    /// From which its rows came. For another one they are rows like any others.
    #[serde(default)]
    database_id: Option<DatabaseId>,
}

/// What the next download of a table settles.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arriving {
    /// Columns that were never received.
    #[serde(default)]
    pub(crate) unseen: Vec<String>,
    /// The table is here again after it was no longer published.
    #[serde(default)]
    pub(crate) returned: bool,
    /// The triggers of the table were gone for a while.
    #[serde(default)]
    pub(crate) uncaptured: bool,
}

impl History {
    /// What lies in the fact of this text.
    pub(crate) fn parse(text: Option<&str>) -> Result<History, Failure> {
        let Some(text) = text else { return Ok(History::default()) };
        serde_json::from_str(text)
            .map_err(|error| Failure::new(Code::Bug, "the history does not read").source(error))
    }

    /// What the file remembers.
    pub(crate) fn read(connection: &Connection) -> Result<History, Failure> {
        let text: Option<String> = progress::get(connection, FACT).map_err(explain)?;
        History::parse(text.as_deref())
    }

    /// Remembers it.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Failure> {
        if *self == History::default() {
            return progress::forget(connection, &[FACT]).map_err(explain);
        }
        let text = serde_json::to_string(self)
            .map_err(|error| Failure::new(Code::Bug, "the history does not write").source(error))?;
        progress::set(connection, FACT, text).map_err(explain)
    }

    /// The tables whose rows the next download is compared with, because nothing captured them for
    /// a while.
    pub(super) fn uncompared(&self) -> Vec<String> {
        let uncompared = self.arriving.iter().filter(|(_, it)| it.returned || it.uncaptured);
        uncompared.map(|(name, _)| name.clone()).collect()
    }

    /// A table ceases to be published.
    pub(super) fn retire(&mut self, old: &StoredTable, database_id: Option<&DatabaseId>) {
        let (published, created) = (old.published.clone(), old.created);
        self.take_back(&published.name);
        self.arriving.remove(&published.name);
        self.former.push(Former { published, created, database_id: database_id.cloned() });
    }

    /// All tables cease to be published, because the file becomes an ordinary one.
    pub(crate) fn retire_all(connection: &Connection) -> Result<History, Failure> {
        let state = State::read(connection)?;
        let mut history = state.history;
        for old in super::stored_tables(connection)? {
            history.retire(&old, state.database_id.as_ref());
        }
        history.arriving.clear();
        Ok(history)
    }

    /// The tables that were published once by this database, as they were then.
    pub(super) fn former(&self, database_id: Option<&DatabaseId>) -> Vec<StoredTable> {
        let stored = |former: &Former| StoredTable {
            published: former.published.clone(),
            watermark: None,
            created: former.created,
            large: Vec::new(),
        };
        let same = |former: &&Former| former.database_id.as_ref() == database_id;
        self.former.iter().filter(same).map(stored).collect()
    }

    /// A table is published again.
    pub(super) fn take_back(&mut self, name: &str) {
        self.former.retain(|it| !it.published.name.eq_ignore_ascii_case(name));
    }
}
