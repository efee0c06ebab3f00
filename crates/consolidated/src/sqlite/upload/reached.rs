//! Rows that an upload changes beyond its own, by the actions of foreign keys.
//!
//! The owner of the database declared these actions, but they are reported: the rows are counted,
//! also those of unpublished tables. One query before the statement finds them, because rows that a
//! foreign key deletes leave no trace. The schema says whether there is anything to query. It is
//! read again when SQLite's counter of schema changes has changed.

pub(in crate::sqlite) mod known;

use super::attempt::Attempt;
use crate::quote::ident;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::upload::own_entries::end_of_log;
use crate::sqlite::upload::reached::known::identity;
use crate::sqlite::values::{Bind, write_row};
use crate::synchronization::change::Change;
use crate::upload::reach::By;
use crate::upload::reached::{Mark, ReachedRows};
use crate::upload::uploaded_row::{UploadedRow, each_row};
use model::{Code, Failure};
use rusqlite::Connection;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::sync::Arc;

fn mark(table: usize, key: &[u8]) -> Mark {
    let mut hasher = SipHasher13::new_with_keys(0, table as u64);
    hasher.write(key);
    hasher.finish128().as_u128()
}

/// Rows that a change is about to reach.
pub(in crate::sqlite) type Reaching = Option<ReachedRows>;

impl Attempt<'_> {
    /// Takes note of the rows that the upload changes or deletes itself, where deletes or, with
    /// `key_changes`, these may reach them.
    pub(in crate::sqlite) fn name_rows(&mut self, key_changes: bool) -> Result<(), Failure> {
        let (connection, batches, tables) = (self.connection, self.request.batches, self.tables);
        let reach = self.known_reach.now(connection)?;
        let reached = &mut self.reached;
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| {
            let goes = change == Change::Delete || key_changes && change != Change::Insert;
            goes && reach.is_reached(&published(position).name)
        };
        each_row(batches, &published, wanted, |position, row| {
            let Some(at) = reach.position(&published(position).name) else { return Ok(()) };
            let (_, key) = row.key(published(position), position);
            reached.name(mark(at, &key), row.change == Change::Delete)
        })?;
        self.reach = Some(reach);
        Ok(())
    }

    /// The rows that `row` reaches when it is applied, beyond those that the upload names.
    pub(in crate::sqlite) fn reaching(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Reaching, Failure> {
        let Some(reach) = &self.reach else { return Ok(None) };
        let name = &table.published.name;
        let (by, query) = match row.change {
            Change::Insert | Change::Update => return Ok(None),
            Change::Delete => (By::Delete, reach.by_delete.get(name).cloned()),
            Change::KeyChange if !reach.key_changes_reach(name) => return Ok(None),
            Change::KeyChange => (By::KeyChange, reach.by_key_change(table, row)),
        };
        let Some(query) = query else { return Ok(None) };
        let asking = failed("look for the rows that foreign keys reach");
        let mut statement = self.connection.prepare_cached(&query).map_err(&asking)?;
        for (index, column) in table.published.key.iter().enumerate() {
            let value = Bind(row.old[usize::from(*column)]);
            statement.raw_bind_parameter(index + 1, value).map_err(&asking)?;
        }
        let mut reaching = ReachedRows::within(self.spills);
        let mut rows = statement.raw_query();
        while let Some(found) = rows.next().map_err(&asking)? {
            let at = found.get::<_, u32>(0).map_err(&asking)? as usize;
            let mut values = Vec::new();
            write_row(&mut values, found, 1 + identity(&reach.tables[at]).len())
                .map_err(&asking)?;
            reaching.push(by, mark(at, model::skip_row(&values, 1)?))?;
        }
        Ok(Some(reaching))
    }

    /// Whether the upload changes or deletes the row itself.
    pub(in crate::sqlite) fn names(&self, table: &str, key: &[u8]) -> Result<bool, Failure> {
        let at = self.reach.as_ref().and_then(|reach| reach.position(table));
        at.map_or(Ok(false), |at| self.reached.names(mark(at, key)))
    }

    /// Takes note of reached rows.
    pub(in crate::sqlite) fn has_reached(&mut self, reaching: Reaching) -> Result<(), Failure> {
        reaching.map_or(Ok(()), |rows| self.reached.extend(&rows))
    }
}

/// SQLite's count of changes at a moment, with what is not the rows' own taken out.
pub(in crate::sqlite) struct Tally {
    changes: u64,
    direct: u64,
}

impl Tally {
    /// Of this moment.
    pub(in crate::sqlite) fn now(attempt: &Attempt<'_>) -> Result<Tally, Failure> {
        let ours = our_entries(attempt.connection, attempt.tables)?;
        let changes = attempt.connection.total_changes().saturating_sub(ours);
        Ok(Tally { changes, direct: attempt.direct })
    }

    /// Whether rows may have changed since that no statement of the upload named, by foreign keys
    /// or triggers.
    pub(in crate::sqlite) fn differs(&self, now: &Tally) -> bool {
        now.changes.saturating_sub(self.changes) > now.direct - self.direct
    }
}

/// What our triggers and statements have written: entries of logs, and notes about conflicts.
fn our_entries(connection: &Connection, tables: &[Arc<CatalogTable>]) -> Result<u64, Failure> {
    let mut entries = connection
        .prepare_cached("SELECT coalesce(max(conflict_id), 0) FROM syncline_conflict")
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map_err(failed("count what an upload changes"))?;
    for table in tables.iter().filter(|table| table.published.direction.downloads()) {
        entries += end_of_log(connection, &table.published.name)?;
    }
    Ok(entries.unsigned_abs())
}

/// Rejects the rows of the upload that an action of the same upload has deleted, and those of
/// tables that are only uploaded that it has changed: no download tells the remote of these.
pub(in crate::sqlite) fn tell_what_was_taken_along(
    attempt: &mut Attempt<'_>,
) -> Result<(), Failure> {
    let (batches, tables) = (attempt.request.batches, attempt.tables);
    let published = |position: usize| &tables[position].published;
    let wanted = |_, change| change != Change::Delete;
    each_row(batches, &published, wanted, |position, row| {
        let table = &tables[position];
        if attempt.is_as_uploaded(table, row)? {
            return Ok(());
        }
        let id = row.key(&table.published, position);
        // A row that was rebased, lost or rejected is owed already.
        if !attempt.is_owed(&id)? {
            let message = "a delete of the same upload also removed or changed the row".to_owned();
            attempt.reject(table, position, row, (Code::RowTakenAlong, message))?;
        }
        Ok(())
    })
}

impl Attempt<'_> {
    /// Whether deletes or key changes may have changed rows that the upload has written.
    pub(in crate::sqlite) fn may_have_taken_along(&self) -> bool {
        self.was_disturbed || self.reached.has_any()
    }

    /// Whether the row is there and, in a table that is only uploaded, refers to what it did.
    fn is_as_uploaded(&self, table: &CatalogTable, row: &UploadedRow<'_>) -> Result<bool, Failure> {
        let published = &table.published;
        let reach = self.reach.as_ref().filter(|_| !published.direction.downloads());
        let written = reach.map(|reach| reach.written(&published.name)).unwrap_or_default();
        let compared = published.columns.iter().enumerate();
        let compared: Vec<usize> =
            compared.filter(|(_, name)| written.contains(*name)).map(|(at, _)| at).collect();
        let key: Vec<usize> = published.key.iter().map(|at| usize::from(*at)).collect();
        let same = |columns: &[usize], operator: &str, first: usize| {
            let each = columns.iter().zip(first..);
            let each = each.map(|(at, number)| {
                format!("{} {operator} ?{number}", ident(&published.columns[*at]))
            });
            each.collect::<Vec<_>>()
        };
        let mut conditions = same(&key, "=", 1);
        conditions.extend(same(&compared, "IS", 1 + key.len()));
        let sql =
            format!("SELECT 1 FROM {} WHERE {}", ident(&published.name), conditions.join(" AND "));
        let look = || {
            let mut statement = self.connection.prepare_cached(&sql)?;
            for (number, at) in key.iter().chain(&compared).enumerate() {
                statement.raw_bind_parameter(number + 1, Bind(row.new[*at]))?;
            }
            Ok(statement.raw_query().next()?.is_some())
        };
        look().map_err(failed("look what became of rows of the upload"))
    }
}
