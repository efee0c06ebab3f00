//! Keys that rows have got since the last download of a remote.
//!
//! The key changes of a table are recorded beside its log, with both keys. If a remote changed a
//! row that has another key now, or children of it, the change is rebased onto the new key. Without
//! this it would find no row, or another row that has the key now.

use super::arrivals::Arrivals;
use super::key_record::{becomes, keys_name, was};
use super::last_entries::LastEntries;
use crate::quote::{ident, idents, join};
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::watermark::Mark;
use crate::sqlite::errors::failed;
use crate::sqlite::tracking::log_table::kept_column;
use crate::sqlite::tracking::object::Object;
use crate::sqlite::values::{Bind, write_row};
use crate::synchronization::UploadRequest;
use crate::synchronization::change::Change;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{RowId, each_row, key_of};
use model::{Failure, PublishedTable, Spills, ValueRef};
use rusqlite::{Connection, OptionalExtension, Statement};
use std::sync::Arc;

/// Most key changes of one row that are followed.
const STEPS_MAX: usize = 1000;

/// Whether an object only keeps what a log does not: where it is made, nothing has gone unnoticed.
pub(in crate::sqlite) fn is_beside_the_log(object: &Object) -> bool {
    object.name == keys_name(&object.table) || object.name == trigger_name(&object.table)
}

pub(in crate::sqlite) fn trigger_name(table: &str) -> String {
    format!("syncline_key_{table}")
}

/// The table of the key changes. `remote_id` is that of the remote which made one, and knows it.
pub(in crate::sqlite) fn object(table: &UserTable) -> Object {
    let name = keys_name(&table.name);
    let mut columns = vec!["sequence INTEGER PRIMARY KEY".to_owned()];
    columns.extend(table.key.iter().map(|name| kept_column(table, name, &was(name))));
    columns.extend(table.key.iter().map(|name| kept_column(table, name, &becomes(name))));
    columns.push("remote_id TEXT".into());
    // An index, in the form in which it comes and goes with its table.
    columns.push(format!("UNIQUE ({}, sequence)", join(&table.key, ", ", |c| ident(&was(c)))));
    let sql = format!("CREATE TABLE {} ({})", ident(&name), columns.join(", "));
    Object { kind: "TABLE", name, table: table.name.clone(), sql }
}

/// The statement of a trigger that notes a key change under the number of the last entry.
pub(in crate::sqlite) fn note(table: &UserTable) -> String {
    format!(
        "INSERT OR FAIL INTO {} (sequence, {}, {}) VALUES (last_insert_rowid(), {}, {})",
        ident(&keys_name(&table.name)),
        join(&table.key, ", ", |c| ident(&was(c))),
        join(&table.key, ", ", |c| ident(&becomes(c))),
        idents("OLD.", &table.key),
        idents("NEW.", &table.key),
    )
}

/// The key changes that a remote has not heard of.
pub(in crate::sqlite) struct Moves {
    /// By table: what others have changed after the last entry that the remote has, up to the last
    /// key change before the upload. What that does itself it knows.
    arrivals: Vec<Option<Arrivals>>,
    /// By table: key changes that the remote has not seen are forgotten.
    forgotten: Vec<bool>,
    /// Keys of rows that the upload makes or deletes in tables with key changes.
    own: RowMap,
}

impl Moves {
    /// Those of an upload; none if no key has changed.
    pub(in crate::sqlite) fn of(
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
        request: &UploadRequest<'_>,
        spills: &Arc<Spills>,
    ) -> Result<Option<Moves>, Failure> {
        let remote = request.session.remote_id.as_str();
        let mut since = vec![None; tables.len()];
        let mut until = vec![0; tables.len()];
        let mut forgotten = vec![false; tables.len()];
        for (position, table) in tables.iter().enumerate() {
            let published = &table.published;
            let held = request.held_mark(position, published);
            let mark = held.filter(|_| published.direction.downloads()).and_then(Mark::held);
            let Some(mark) = mark else { continue };
            let Some(log) = mark.point.0.first() else { continue };
            since[position] = connection
                .prepare_cached(&format!(
                    "SELECT ?1 WHERE EXISTS (
                         SELECT 1 FROM {} WHERE sequence > ?1 AND remote_id IS NOT ?2)
                       AND (SELECT incarnation FROM syncline_log_state WHERE table_name = ?3) = ?4
                       AND (SELECT value FROM syncline_system WHERE name = 'generation') = ?5",
                    ident(&keys_name(&published.name))
                ))
                .and_then(|mut statement| {
                    let (incarnation, generation) = (log.incarnation, mark.generation);
                    let name = &published.name;
                    let values =
                        rusqlite::params![log.sequence, remote, name, incarnation, generation];
                    statement.query_row(values, |row| row.get(0)).optional()
                })
                .map_err(failed("look for key changes"))?;
            if since[position].is_some() {
                let keys = ident(&keys_name(&published.name));
                let sql = format!(
                    "SELECT max(sequence), EXISTS (
                         SELECT 1 FROM {keys} WHERE sequence > ?1 AND sequence <= (
                             SELECT floor FROM syncline_log_state WHERE table_name = ?2))
                     FROM {keys}"
                );
                let values = rusqlite::params![log.sequence, published.name];
                (until[position], forgotten[position]) = connection
                    .query_row(&sql, values, |row| Ok((row.get(0)?, row.get(1)?)))
                    .map_err(failed("look for key changes"))?;
            }
        }
        if since.iter().all(Option::is_none) {
            return Ok(None);
        }
        let arrivals = arrivals(connection, tables, request, (&since, &until))?;
        let mut own = RowMap::within(spills);
        let published = |position: usize| &tables[position].published;
        let wanted = |position: usize, change| {
            matches!(change, Change::Insert | Change::Delete) && since[position].is_some()
        };
        each_row(request.batches, &published, wanted, |position, row| {
            own.add(&row.key(published(position), position))
        })?;
        Ok(Some(Moves { arrivals, forgotten, own }))
    }

    /// Leaves nothing behind.
    pub(in crate::sqlite) fn forget(&self, connection: &Connection) -> Result<(), Failure> {
        self.arrivals.iter().flatten().try_for_each(|arrivals| arrivals.forget(connection))
    }

    /// Whether the upload itself makes or deletes a row with this key.
    pub(in crate::sqlite) fn is_own(&self, row: &RowId) -> Result<bool, Failure> {
        self.own.contains(row)
    }

    /// Whether rows of the table may have got other keys since the remote was here, so long ago
    /// that it is forgotten. What is not as the remote knew it may be another row.
    pub(in crate::sqlite) fn are_forgotten(&self, position: usize) -> bool {
        self.forgotten[position]
    }

    /// Where the row is that the remote knows by `key`, of the table at `position`.
    pub(in crate::sqlite) fn follow(
        &self,
        connection: &Connection,
        table: &PublishedTable,
        position: usize,
        key: &[ValueRef<'_>],
        remote: &str,
    ) -> Result<Whereabouts, Failure> {
        let Some(arrivals) = &self.arrivals[position] else { return Ok(Whereabouts::Here) };
        let (steps, replaced) = chain(connection, table, key, arrivals, remote)?;
        if replaced {
            return Ok(Whereabouts::Replaced);
        }
        // The remote uses the new key of its own key changes.
        let known = steps.first().is_some_and(|step| step.by.as_deref() == Some(remote));
        let last = steps.into_iter().next_back().filter(|_| !known);
        Ok(last.map_or(Whereabouts::Here, |step| Whereabouts::At(step.key)))
    }
}

impl Moves {
    /// Records which of the keys that other rows have left belong to rows that the remote inserted.
    /// From now on the remote means its own rows by them.
    pub(in crate::sqlite) fn note_own_rows(
        &self,
        connection: &Connection,
        tables: &[Arc<CatalogTable>],
        request: &UploadRequest<'_>,
    ) -> Result<(), Failure> {
        let remote = request.session.remote_id.as_str();
        let published = |position: usize| &tables[position].published;
        let wanted =
            |position: usize, change| change == Change::Insert && self.arrivals[position].is_some();
        let entries = self.last_entries(connection, &published, (request, &wanted))?;
        each_row(request.batches, &published, wanted, |position, row| {
            let Some(entries) = &entries[position] else { return Ok(()) };
            let published = published(position);
            let key = key_of(published, &row.new);
            let key = crate::upload::rebase::values(&key)?;
            match self.follow(connection, published, position, &key, remote)? {
                Whereabouts::Here => Ok(()),
                _ => entries.note_own(connection, &key, remote),
            }
        })?;
        entries.iter().flatten().try_for_each(|entries| entries.forget(connection))
    }

    /// By table: the last entries of its log, where rows of the upload are wanted of it.
    fn last_entries<'t>(
        &self,
        connection: &Connection,
        table: &dyn Fn(usize) -> &'t PublishedTable,
        (request, wanted): (&UploadRequest<'_>, &dyn Fn(usize, Change) -> bool),
    ) -> Result<Vec<Option<LastEntries<'t>>>, Failure> {
        let mut rows = vec![0; self.arrivals.len()];
        (request.batches)(&mut |batch| {
            let counts = wanted(batch.table, batch.change);
            rows[batch.table] += if counts { u64::from(batch.count) } else { 0 };
            Ok(())
        })?;
        let of = |(position, arrivals): (usize, &Option<Arrivals>)| {
            let since = arrivals.as_ref().filter(|_| rows[position] > 0)?.range.0;
            Some(LastEntries::of(connection, (table(position), position), since, rows[position]))
        };
        self.arrivals.iter().enumerate().map(of).map(Option::transpose).collect()
    }
}

/// By table: the key changes since the entry that the remote has, where there are any.
fn arrivals(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &UploadRequest<'_>,
    (since, until): (&[Option<i64>], &[i64]),
) -> Result<Vec<Option<Arrivals>>, Failure> {
    // Rows of any table may refer to rows that moved.
    let mut rows = 0;
    (request.batches)(&mut |batch| {
        rows += u64::from(batch.count);
        Ok(())
    })?;
    let of = |(position, table): (usize, &Arc<CatalogTable>)| {
        let begin = |since| {
            let range = (since, until[position]);
            Arrivals::of(connection, &table.published, position, range, rows)
        };
        since[position].map(begin).transpose()
    };
    tables.iter().enumerate().map(of).collect()
}

/// Where a row is that a remote knows by a key.
pub(in crate::sqlite) enum Whereabouts {
    /// Under its key, or nowhere.
    Here,
    /// Under another key.
    At(Vec<u8>),
    /// Gone, and another row has its key.
    Replaced,
}

/// One key change of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    sequence: i64,
    key: Vec<u8>,
    by: Option<String>,
}

/// The key changes of the row that `remote` knows by `key`, in their order, and whether another row
/// has got the key instead.
pub(super) fn chain(
    connection: &Connection,
    table: &PublishedTable,
    key: &[ValueRef<'_>],
    arrivals: &Arrivals,
    remote: &str,
) -> Result<(Vec<Step>, bool), Failure> {
    let since = arrivals.range.0;
    let following = failed("follow key changes");
    let names: Vec<&str> =
        table.key.iter().map(|c| table.columns[usize::from(*c)].as_str()).collect();
    let number = names.len() + 1;
    let [step, own, arrived] = queries(table, &names, arrivals);
    let bind = |statement: &mut Statement<'_>, key: &[u8], last: i64| -> rusqlite::Result<()> {
        let values =
            crate::upload::rebase::values(key).map_err(|_| rusqlite::Error::InvalidQuery)?;
        for (index, value) in values.into_iter().enumerate() {
            statement.raw_bind_parameter(index + 1, Bind(value))?;
        }
        statement.raw_bind_parameter(number, last)
    };
    let mut at = Vec::new();
    key.iter().for_each(|value| model::write_value(&mut at, *value));
    let mut statement = connection.prepare_cached(&own).map_err(&following)?;
    bind(&mut statement, &at, since).map_err(&following)?;
    statement.raw_bind_parameter(number + 1, remote).map_err(&following)?;
    let found = statement.raw_query().next().map_err(&following)?.map(|row| row.get(0));
    let since = found.transpose().map_err(&following)?.flatten().unwrap_or(since);
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < STEPS_MAX {
        let last = steps.last().map_or(since, |step| step.sequence);
        let mut statement = connection.prepare_cached(&step).map_err(&following)?;
        bind(&mut statement, &at, last).map_err(&following)?;
        let mut rows = statement.raw_query();
        let row = rows.next().map_err(&following)?;
        let sequence = match row {
            Some(row) => row.get(0).map_err(&following)?,
            None => i64::MAX,
        };
        if steps.is_empty() {
            let mut statement = connection.prepare_cached(&arrived).map_err(&following)?;
            bind(&mut statement, &at, since).map_err(&following)?;
            statement.raw_bind_parameter(number + 1, sequence).map_err(&following)?;
            statement.raw_bind_parameter(number + 2, remote).map_err(&following)?;
            if statement.raw_query().next().map_err(&following)?.is_some() {
                return Ok((steps, true));
            }
        }
        let Some(row) = row else { break };
        let by = row.get(1).map_err(&following)?;
        let mut image = Vec::new();
        write_row(&mut image, row, 2 + names.len()).map_err(&following)?;
        at = model::skip_row(&image, 2)?.to_vec();
        steps.push(Step { sequence, key: at.clone(), by });
    }
    Ok((steps, false))
}

/// The queries for the next key change of a row, for the last one by which the remote itself gave
/// the key to a row, and for one by which another user did.
fn queries(table: &PublishedTable, names: &[&str], arrivals: &Arrivals) -> [String; 3] {
    let keys = ident(&keys_name(&table.name));
    let Arrivals { source, range: (_, until), .. } = arrivals;
    let same = |form: fn(&str) -> String| {
        let each = names.iter().enumerate();
        let each = each.map(|(at, name)| format!("{} = ?{}", ident(&form(name)), at + 1));
        each.collect::<Vec<_>>().join(" AND ")
    };
    let number = names.len() + 1;
    let step = format!(
        "SELECT sequence, remote_id, {} FROM {keys} WHERE {}
           AND sequence > ?{number} AND sequence <= {until} AND NOT ({})
         ORDER BY sequence LIMIT 1",
        join(names, ", ", |name| ident(&becomes(name))),
        same(was),
        // A row of the remote's own, and no change.
        join(names, " AND ", |name| {
            format!("quote({}) = quote({})", ident(&was(name)), ident(&becomes(name)))
        }),
    );
    // If the remote itself gave a row this key, it means this row now. If another user gave a row
    // this key before yet another row left it, it does not.
    let own = format!(
        "SELECT max(sequence) FROM {source} WHERE {} AND sequence > ?{number}
           AND sequence <= {until} AND remote_id = ?{}",
        same(becomes),
        number + 1,
    );
    let arrived = format!(
        "SELECT 1 FROM {source} WHERE {} AND NOT ({}) AND sequence > ?{number} AND sequence < ?{}
           AND sequence <= {until} AND remote_id IS NOT ?{}",
        same(becomes),
        same(was),
        number + 1,
        number + 2,
    );
    [step, own, arrived]
}

/// Records that `remote` itself has made the key changes of the row that had `key`.
pub(in crate::sqlite) fn made_by(
    connection: &Connection,
    table: &PublishedTable,
    key: &[ValueRef<'_>],
    arrivals: &Arrivals,
    remote: &str,
) -> Result<(), Failure> {
    let sql =
        format!("UPDATE {} SET remote_id = ?1 WHERE sequence = ?2", ident(&keys_name(&table.name)));
    // It does not matter who made them: this is about to be recorded.
    for step in chain(connection, table, key, arrivals, "")?.0 {
        connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params![remote, step.sequence]))
            .map_err(failed("note who has changed a key"))?;
    }
    Ok(())
}

/// Forgets key changes up to `floor`, which the log no longer has. The last one stays, as nobody's:
/// it tells a remote that has not seen it that others are missing.
pub(in crate::sqlite) fn trim(
    connection: &Connection,
    table: &str,
    floor: i64,
) -> rusqlite::Result<()> {
    let keys = ident(&keys_name(table));
    let last = format!("(SELECT max(sequence) FROM {keys} WHERE sequence <= ?1)");
    let sql = format!("DELETE FROM {keys} WHERE sequence < {last}");
    connection.execute(&sql, [floor])?;
    let nobodys = "remote_id = NULL WHERE remote_id IS NOT NULL AND";
    let sql = format!("UPDATE {keys} SET {nobodys} sequence = {last}");
    connection.execute(&sql, [floor]).map(|_| ())
}
