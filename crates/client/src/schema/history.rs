//! What the file remembers about tables that are not published now: one fact, as JSON.
//!
//! If a table was published here before, the user did not create it. Its rows were received, so
//! they are compared with the center when the table is published again, and never uploaded (trap
//! 23). If a column is published since the last download, the user has neither seen nor chosen its
//! values (trap 24).

use super::stored_table::{StoredTable, stored_tables};
use crate::connection::{damaged, explain};
use crate::progress::facts;
use model::{Code, DatabaseId, Failure, PublishedTable, Watermark};
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
    /// A synchronization has said that the table is no longer published.
    #[serde(default, skip_serializing_if = "is_false")]
    told: bool,
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
    /// What its rows were received with, where that says nothing about the next download any more.
    /// It still shows of which past the rows are (trap 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former_watermark: Option<Watermark>,
    /// The table was only uploaded then: rows that come were not here before.
    #[serde(default)]
    pub(crate) only_uploaded: bool,
    /// It is recorded which of its rows the center may lack.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) told: bool,
    /// Columns that the file had before they were published. What lies in them was never uploaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own: Vec<String>,
    /// Nothing of the table comes, and its rows may break foreign keys. Its new definition may have
    /// others, and nothing recorded what was written while it was not published.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) unchecked: bool,
}

/// What has always been so is not written.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl History {
    /// What lies in the fact of this text.
    pub(crate) fn parse(text: Option<&str>) -> Result<History, Failure> {
        let Some(text) = text else { return Ok(History::default()) };
        serde_json::from_str(text)
            .map_err(|error| damaged("the history does not read").source(error))
    }

    /// What the file remembers.
    pub(crate) fn read(connection: &Connection) -> Result<History, Failure> {
        let text: Option<String> = facts::get(connection, FACT).map_err(explain)?;
        History::parse(text.as_deref())
    }

    /// Remembers it.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Failure> {
        if *self == History::default() {
            return facts::forget(connection, &[FACT]).map_err(explain);
        }
        let text = serde_json::to_string(self)
            .map_err(|error| Failure::new(Code::Bug, "the history does not write").source(error))?;
        facts::set(connection, FACT, text).map_err(explain)
    }

    /// The tables whose rows the next download is compared with, because nothing captured them for
    /// a while.
    pub(super) fn uncompared(&self) -> Vec<String> {
        let uncompared = self.arriving.iter().filter(|(_, it)| it.returned || it.uncaptured);
        uncompared.map(|(name, _)| name.clone()).collect()
    }

    /// The triggers of the table were gone for a while, and nothing was compared since.
    pub(crate) fn is_uncaptured(&self, table: &str) -> bool {
        self.arriving.get(table).is_some_and(|it| it.uncaptured)
    }

    /// A table ceases to be published.
    pub(super) fn retire(&mut self, old: &StoredTable, database_id: Option<&DatabaseId>) {
        let (published, created) = (old.published.clone(), old.created);
        self.take_back(&published.name);
        self.arriving.remove(&published.name);
        let database_id = database_id.cloned();
        self.former.push(Former { published, created, database_id, told: false });
    }

    /// All tables cease to be published, because the file becomes an ordinary one.
    pub(crate) fn retire_all(
        mut self,
        connection: &Connection,
        database_id: Option<&DatabaseId>,
    ) -> Result<History, Failure> {
        for old in stored_tables(connection)? {
            self.retire(&old, database_id);
        }
        self.arriving.clear();
        Ok(self)
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

    /// The tables that were published once and are still in the file. What is written into them is
    /// not recorded.
    pub(crate) fn left(&self, connection: &Connection) -> Result<Vec<String>, Failure> {
        let names = self.former.iter().map(|former| former.published.name.clone());
        let mut left = Vec::new();
        for name in names {
            if connection.table_exists(Some("main"), name.as_str()).map_err(explain)? {
                left.push(name);
            }
        }
        Ok(left)
    }

    /// Those of them of which no synchronization has said it yet; this one does.
    pub(crate) fn tell_left(connection: &Connection) -> Result<Vec<String>, Failure> {
        let mut history = History::read(connection)?;
        if history.former.iter().all(|former| former.told) {
            return Ok(Vec::new());
        }
        let mut left = history.left(connection)?;
        left.retain(|name| {
            history.former.iter().any(|former| former.published.name == *name && !former.told)
        });
        history.former.iter_mut().for_each(|former| former.told = true);
        history.write(connection)?;
        Ok(left)
    }

    /// Keeps a watermark that is about to be forgotten, until the rows that it stands for are
    /// compared. An older one that waits for that says more.
    pub(crate) fn keep_watermark(&mut self, stored: &StoredTable) {
        let Some(watermark) = &stored.watermark else { return };
        let arriving = self.arriving.entry(stored.published.name.clone()).or_default();
        if arriving.former_watermark.is_none() {
            arriving.former_watermark = Some(watermark.clone());
            arriving.only_uploaded = !stored.published.direction.downloads();
        }
    }

    /// Keeps those of all tables.
    pub(crate) fn keep_watermarks(&mut self, connection: &Connection) -> Result<(), Failure> {
        for stored in stored_tables(connection)? {
            self.keep_watermark(&stored);
        }
        Ok(())
    }

    /// Nothing that was received counts as received any more.
    pub(crate) fn forget_watermarks(&mut self) {
        for arriving in self.arriving.values_mut() {
            arriving.former_watermark = None;
            (arriving.only_uploaded, arriving.told) = (false, false);
        }
        self.arriving.retain(|_, arriving| *arriving != Arriving::default());
    }

    /// What the rows of a table were received with, where they have not been compared since.
    pub(crate) fn former_watermark(&self, table: &str) -> Option<&Watermark> {
        self.arriving.get(table).and_then(|arriving| arriving.former_watermark.as_ref())
    }

    /// A table is published again.
    pub(super) fn take_back(&mut self, name: &str) {
        self.former.retain(|it| !it.published.name.eq_ignore_ascii_case(name));
    }
}
