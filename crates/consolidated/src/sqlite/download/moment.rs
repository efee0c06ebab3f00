//! The state of the database by which a download is judged.

use super::key_order;
use crate::download::range::{self, DownloadTable};
use crate::download::time::Time;
use crate::identity::Void;
use crate::script::{Event, Script};
use crate::sqlite::details::{CatalogTable, logs_of};
use crate::sqlite::download::watermark::{self, LogMark, Logs, Mark};
use crate::sqlite::errors::failed;
use crate::sqlite::upload::own_entries;
use crate::synchronization::Session;
use model::{Code, Failure, PublishedTable};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// Which rows of a table are sent; changes are sent since an entry of each log that the scripts
/// look at.
pub(super) type DownloadRange = range::DownloadRange<Logs, Vec<i64>>;

/// The database as the snapshot of a download shows it.
pub(super) struct Moment<'c> {
    pub(super) connection: &'c Connection,
    pub(super) generation: i64,
    pub(super) void: Void,
    pub(super) time: Option<Time>,
}

impl range::Moment for Moment<'_> {
    type Table = CatalogTable;
    type Point = Logs;
    type Since = Vec<i64>;
    /// Of each log, the last entry that may have been trimmed.
    type Floor = Vec<i64>;

    fn generation(&self) -> i64 {
        self.generation
    }

    fn void(&self) -> Void {
        self.void
    }

    /// The logs say the rest.
    fn proves(&self, _: &Mark) -> bool {
        true
    }

    fn time(&self) -> Option<Time> {
        self.time
    }

    fn nowhere(&self) -> Logs {
        Logs(Vec::new())
    }

    fn now(&self, table: &CatalogTable) -> Result<(Logs, Vec<i64>), Failure> {
        let (mut logs, mut floors) = (Vec::new(), Vec::new());
        for name in logs_of(table) {
            let (log, floor) = end_of_log(self.connection, name)?;
            logs.push(log);
            floors.push(floor);
        }
        Ok((Logs(logs), floors))
    }

    fn since(&self, Logs(held): Logs, Logs(now): &Logs, floors: &Vec<i64>) -> Option<Vec<i64>> {
        let follows = |(then, (now, floor)): (&LogMark, (&LogMark, &i64))| {
            then.incarnation == now.incarnation && (*floor..=now.sequence).contains(&then.sequence)
        };
        let is_known =
            held.len() == now.len() && held.iter().zip(now.iter().zip(floors)).all(follows);
        is_known.then(|| held.iter().map(|log| log.sequence).collect())
    }
}

impl DownloadTable for CatalogTable {
    fn published(&self) -> &PublishedTable {
        &self.published
    }

    fn scripts(&self) -> &BTreeMap<Event, Script> {
        CatalogTable::scripts(self)
    }

    fn has_custom_selection(&self) -> bool {
        self.details.sent_afresh
    }

    fn selection_claims(&self, session: &Session) -> Result<u128, Failure> {
        watermark::claims(&self.details, session)
    }

    fn generated_cursors(&self) -> Option<&String> {
        self.details.cursors.as_ref()
    }

    fn is_kept_by_refresh(&self) -> bool {
        self.details.kept_by_refresh
    }

    /// Every stored value has a place among all others.
    fn has_key_order(&self) -> bool {
        true
    }

    fn can_compare(&self, key: &[u8]) -> bool {
        key_order::values(key, &self.published).is_some()
    }
}

/// Where the log of a table ends, and what of it was trimmed.
pub(in crate::sqlite) fn end_of_log(
    connection: &Connection,
    table: &str,
) -> Result<(LogMark, i64), Failure> {
    let (incarnation, floor): (i64, i64) = connection
        .prepare_cached("SELECT incarnation, floor FROM syncline_logs WHERE table_name = ?1")
        .and_then(|mut statement| {
            statement.query_row([table], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(failed("read the state of a log"))?
        .ok_or_else(|| Failure::new(Code::Drift, format!("table {table} has no log")))?;
    Ok((LogMark { incarnation, sequence: own_entries::end_of_log(connection, table)? }, floor))
}
