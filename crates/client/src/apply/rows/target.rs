//! One table during the application of a download.

use crate::apply::circumstances::Circumstances;
use crate::apply::refresh::Known;
use crate::apply::rows::waiting::WaitingRows;
use crate::apply::{guarded, incoming, kept_back, refresh};
use crate::capture::change_log;
use crate::schema::RemoteTable;
use protocol::DownloadMode;
use rusqlite::Connection;

/// One table during the application of a download.
pub(super) struct Target<'a> {
    pub(super) table: &'a RemoteTable,
    /// Local changes wait, or rows are guarded, so every key is looked up among them.
    pub(super) changed: Option<ChangedSql>,
    /// Received keys are noted, because rows whose key is not among them are deleted afterwards.
    pub(super) notes_keys: bool,
    /// Received keys are noted, because the key of a delete may be another spelling of one.
    pub(super) notes_spellings: bool,
    /// Nothing lay in the table, so that rows only arrive.
    was_empty: bool,
    /// Rows that come may have been here before.
    pub(super) knows_former: bool,
    pub(super) waiting: Option<WaitingRows>,
    /// No row has turned out to be there already.
    pub(super) only_new: bool,
    /// Rows of the table are kept back, and downloaded rows replace them.
    pub(super) keeps_back: bool,
    /// The application's triggers fire.
    pub(super) fires: bool,
}

/// Statements for tables with rows that stay as they are.
pub(super) struct ChangedSql {
    /// Finds a row that keeps its values; none where every row takes those that come.
    pub(super) keeps_values: Option<String>,
    /// Finds a row that does not go.
    pub(super) stays: String,
    pub(super) keep_row: String,
    pub(super) keep_delete: String,
}

impl ChangedSql {
    fn new(table: &RemoteTable, guards: bool) -> ChangedSql {
        let is_pending = table.uploads().then(|| {
            format!(
                "SELECT 1 FROM {} WHERE {} AND \"generation\" = ?{}",
                table.change_sql(),
                table.our_key_is_parameter(1),
                table.key.len() + 1
            )
        });
        let guarded = guards.then(|| guarded::is_guarded_sql(table));
        let either = [&guarded, &is_pending].into_iter().flatten().cloned().collect::<Vec<_>>();
        let either = either.join(" UNION ALL ");
        // Of a guarded row only what others may refer to has to stay.
        let keeps_values = match table.referred_by_value {
            true => Some(either.clone()),
            false => is_pending,
        };
        ChangedSql {
            keeps_values,
            stays: either,
            keep_row: incoming::keep_row_sql(table),
            keep_delete: incoming::keep_delete_sql(table),
        }
    }
}

impl<'a> Target<'a> {
    pub(super) fn new(
        connection: &Connection,
        table: &'a RemoteTable,
        mode: DownloadMode,
        circumstances: &Circumstances<'_>,
        known: Known,
    ) -> rusqlite::Result<Target<'a>> {
        let (generation, guards) = (circumstances.open_generation, circumstances.guards);
        // Triggers may change rows that come later.
        let fired = circumstances.fired.is_some_and(|fired| fired.reaches(table));
        let changed = guards
            || fired && table.uploads()
            || change_log::has_entries(connection, table, generation)?;
        let notes_keys =
            mode == DownloadMode::Refresh && refresh::prepare(connection, table, known)?;
        Ok(Target {
            table,
            changed: changed.then(|| ChangedSql::new(table, guards)),
            notes_keys,
            notes_spellings: false,
            was_empty: mode == DownloadMode::Refresh && !notes_keys,
            knows_former: known != Known::UploadedRows,
            waiting: None,
            only_new: true,
            keeps_back: kept_back::has_any(connection, table)?,
            fires: circumstances.fires(table),
        })
    }

    /// Notes received keys, because one that is deleted may be another spelling of them.
    pub(super) fn note_spellings(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.notes_spellings = true;
        match self.notes_keys {
            true => Ok(()),
            false => refresh::note_keys(connection, self.table),
        }
    }

    /// Rows may be written many at once: no local change and no noted key asks for a look at each.
    /// Where foreign keys are, even a statement that takes nothing back keeps copies of pages; that
    /// is worth it only where nothing lies in them.
    pub(super) fn may_batch(&self) -> bool {
        self.only_new
            && self.changed.is_none()
            && !self.notes_keys
            && !self.notes_spellings
            && !self.keeps_back
            && !self.fires
            && (self.was_empty || !self.table.in_foreign_keys)
    }

    /// The statement that reads the row with a key.
    pub(super) fn select_sql(&self) -> String {
        let table = self.table;
        format!(
            "SELECT {} FROM {} WHERE {}",
            table.columns_sql(""),
            table.table_sql(),
            table.key_is_parameter("", 1)
        )
    }
}
