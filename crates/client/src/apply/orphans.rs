//! Downloaded rows whose parent is missing at the center are set aside until it comes.
//!
//! The center may have such rows: foreign keys of SQLite are off unless a program turns them on,
//! and PostgreSQL does not check them for replicas and restores. Foreign keys hold at the remote
//! after every download (S4). So these rows cannot be in their tables, but they must not stop the
//! other rows (trap 26). They wait in `syncline_orphan_T`. Every download that writes rows first
//! puts them back, so that new values find them, and sets those aside again that still have no
//! parent.
//!
//! A row that refers to one that is set aside is set aside too, because deleting its parent would
//! delete or change it. And so is a row that an application has left without its parent, when that
//! is uploaded (`capture/broken.rs`).

use super::circumstances::{Circumstances, Uploads};
use super::constraint::is_constraint;
use super::download::Download;
use super::fired::{self, row};
use super::guarded;
use super::values::{bind_key, key_of};
use crate::connection::{bind, explain};
use crate::progress::facts;
use crate::schema::reference::{Reference, references, references_from};
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident, parameters};
use model::{Code, Failure, RowReader, Value};
use protocol::DownloadMode;
use rusqlite::{Connection, OptionalExtension};

/// The fact with the number of rows that are set aside. It is missing if there are none.
const COUNT: &str = "orphans";

/// Rows that are set aside.
pub(crate) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(facts::get::<i64>(connection, COUNT)?.unwrap_or(0).max(0) as u64)
}

/// Discards the rows of tables that are sent as a whole: they arrive again, or were deleted.
pub(super) fn drop_refreshed(
    connection: &Connection,
    tables: &[RemoteTable],
    download: &Download,
) -> Result<(), Failure> {
    if count(connection).map_err(explain)? == 0 {
        return Ok(());
    }
    for table in tables.iter().filter(|table| download.mode(table) == DownloadMode::Refresh) {
        let sql = format!("DROP TABLE IF EXISTS {}", table.orphans_sql());
        connection.execute_batch(&sql).map_err(explain)?;
    }
    note_count(connection, tables)
}

/// Puts the rows back that are set aside. Foreign keys are deferred. A row that is blocked by
/// another row of this file continues to wait.
pub(super) fn put_back(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    if count(connection).map_err(explain)? == 0 {
        return Ok(());
    }
    let tables = circumstances.tables;
    for table in tables {
        if has_table(connection, table)? {
            let orphans = table.orphans_sql();
            let insert = |or: &str, condition: &str| {
                format!(
                    "INSERT{or} INTO {}({}) SELECT {} FROM {orphans}{condition}",
                    table.table_sql(),
                    table.columns_sql(""),
                    table.images_sql("", Image::Incoming),
                )
            };
            match circumstances.fires(table) {
                true => put_back_firing(connection, table, &insert).map_err(explain)?,
                false => connection.execute_batch(&insert(" OR IGNORE", "")).map_err(explain)?,
            }
            let sql = format!(
                "DELETE FROM {orphans} WHERE EXISTS (SELECT 1 FROM {} AS t WHERE {})",
                table.table_sql(),
                table.same_key("t.", &format!("{orphans}.")),
            );
            connection.execute_batch(&sql).map_err(explain)?;
        }
    }
    note_count(connection, tables)
}

/// One by one: OR IGNORE would count for the statements of triggers, too.
fn put_back_firing(
    connection: &Connection,
    table: &RemoteTable,
    insert: &dyn Fn(&str, &str) -> String,
) -> rusqlite::Result<()> {
    let sql = format!("SELECT {} FROM {}", table.our_keys_sql(""), table.orphans_sql());
    let mut statement = connection.prepare(&sql)?;
    let keys = statement.query_map([], |row| key_of(table, row))?;
    let keys: Vec<Vec<Value>> = keys.collect::<rusqlite::Result<_>>()?;
    let or = row::or_abort(connection, table)?;
    let condition = format!(" WHERE {}", table.our_key_is_parameter(1));
    let mut insert = connection.prepare_cached(&insert(or, &condition))?;
    for key in keys {
        bind_key(&mut insert, &key)?;
        match fired::attempt(connection, || insert.raw_execute()) {
            Err(error) if !is_constraint(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a row that is set aside refers to one that lies here: the application may have made its
/// parent meanwhile, and the center need not send what it was sent.
pub(super) fn may_return(connection: &Connection, tables: &[RemoteTable]) -> Result<bool, Failure> {
    if count(connection).map_err(explain)? == 0 {
        return Ok(false);
    }
    for (child, table) in tables.iter().enumerate() {
        if !has_table(connection, table)? {
            continue;
        }
        for reference in references_from(connection, tables, child).map_err(explain)? {
            let refers = all(reference
                .columns
                .iter()
                .map(|(from, to)| format!("p.{} = o.{}", ident(to), Image::Incoming.column(from))));
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM {} AS o JOIN {} AS p ON {refers})",
                table.orphans_sql(),
                ident(&reference.parent),
            );
            if connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether rows of the table were ever set aside.
pub(crate) fn has_table(connection: &Connection, table: &RemoteTable) -> Result<bool, Failure> {
    let name = format!("syncline_orphan_{}", table.name());
    connection.table_exists(Some("main"), name.as_str()).map_err(explain)
}

/// Sets aside every row that refers to nothing, with all that refer to it. True if there are any.
/// A row with a pending change stays: its upload tells the application what it has broken. Where
/// such a row refers to another that is set aside, the change has to be uploaded first. So it is
/// where the parent was deleted here, if this synchronization only downloads.
pub(super) fn set_aside(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<bool, Failure> {
    let aside = Aside::new(connection, circumstances)?;
    for reference in &aside.references {
        let child = aside.child(reference);
        if circumstances.uploads == Uploads::Not {
            aside.refuse_deleted_here(reference)?;
        }
        let waits = match child.uploads() {
            true => format!(
                " AND NOT EXISTS (SELECT 1 FROM {} AS g WHERE {} AND g.\"generation\" = {})",
                child.change_sql(),
                child.same_key("c.", "g."),
                aside.open_generation,
            ),
            false => String::new(),
        };
        aside.run(&format!(
            "INSERT OR IGNORE INTO {} SELECT {} FROM {} AS c WHERE {}{waits}",
            aside_sql(reference.child),
            child.keys_sql("c."),
            child.table_sql(),
            reference.is_broken(),
        ))?;
    }
    aside.finish()
}

/// Sets aside the rows that refer to rows of `parent` with these keys, which are about to be
/// deleted and would take them along.
pub(super) fn set_aside_children(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    parent: &RemoteTable,
    keys: &[u8],
) -> Result<(), Failure> {
    let mut aside = Aside::new(connection, circumstances)?;
    let leaving = LEAVING;
    aside.run(&format!(
        "CREATE TEMP TABLE syncline_leaving ({}, PRIMARY KEY ({})) WITHOUT ROWID",
        parent.our_keys_declared(),
        parent.our_keys_sql("")
    ))?;
    let mut note = connection
        .prepare_cached(&format!(
            "INSERT OR IGNORE INTO {leaving} VALUES ({})",
            parameters(1, parent.key.len())
        ))
        .map_err(explain)?;
    let mut reader = RowReader::new(keys);
    while !reader.is_at_end() {
        for n in 0..parent.key.len() {
            bind(&mut note, n + 1, reader.value()?).map_err(explain)?;
        }
        note.raw_execute().map_err(explain)?;
    }
    drop(note);
    let at = usize::from(parent.position);
    aside.leaving = Some(at);
    let downloaded = |reference: &&Reference| {
        reference.parent_at == Some(at) && aside.child(reference).published.direction.downloads()
    };
    for reference in aside.references.iter().filter(downloaded) {
        aside.add_children(reference, leaving)?;
    }
    aside.finish().map(drop)
}

/// Keys of rows that are about to be deleted.
const LEAVING: &str = "temp.syncline_leaving";

fn aside_sql(position: usize) -> String {
    format!("temp.syncline_aside_{position}")
}

/// Keys of rows on their way out, by table.
struct Aside<'a> {
    connection: &'a Connection,
    tables: &'a [RemoteTable],
    open_generation: i64,
    guards: bool,
    references: Vec<Reference>,
    /// The table whose rows are about to be deleted. They do not wait, whatever they refer to.
    leaving: Option<usize>,
}

impl<'a> Aside<'a> {
    fn new(
        connection: &'a Connection,
        circumstances: &Circumstances<'a>,
    ) -> Result<Aside<'a>, Failure> {
        let Circumstances { tables, open_generation, guards, .. } = *circumstances;
        let references = references(connection, tables).map_err(explain)?;
        let leaving = None;
        let aside = Aside { connection, tables, open_generation, guards, references, leaving };
        for (position, table) in tables.iter().enumerate() {
            aside.run(&format!(
                "CREATE TEMP TABLE {} ({}, PRIMARY KEY ({})) WITHOUT ROWID",
                aside_sql(position).replace("temp.", ""),
                table.our_keys_declared(),
                table.our_keys_sql(""),
            ))?;
        }
        Ok(aside)
    }

    fn child(&self, reference: &Reference) -> &'a RemoteTable {
        &self.tables[reference.child]
    }

    fn run(&self, sql: &str) -> Result<usize, Failure> {
        self.connection.execute(sql, []).map_err(explain)
    }

    /// Adds the rows that refer to rows whose keys are in `keys`.
    fn add_children(&self, reference: &Reference, keys: &str) -> Result<usize, Failure> {
        let Some(parent) = reference.parent_at.map(|at| &self.tables[at]) else { return Ok(0) };
        let child = self.child(reference);
        let stays = match self.leaving {
            Some(at) if at == reference.child => format!(
                " WHERE NOT EXISTS (SELECT 1 FROM {LEAVING} AS l WHERE {})",
                child.same_key("c.", "l.")
            ),
            _ => String::new(),
        };
        self.run(&format!(
            "INSERT OR IGNORE INTO {} SELECT {} FROM {keys} AS a JOIN {} AS p ON {} \
             JOIN {} AS c ON {}{stays}",
            aside_sql(reference.child),
            child.keys_sql("c."),
            parent.table_sql(),
            parent.same_key("p.", "a."),
            child.table_sql(),
            reference.same(),
        ))
    }

    /// Takes along all that refer to these rows.
    fn take_descendants(&self) -> Result<(), Failure> {
        // Every round but the last adds a row, so there are no more rounds than rows.
        loop {
            let mut added = 0;
            for reference in &self.references {
                if let Some(at) = reference.parent_at {
                    added += self.add_children(reference, &aside_sql(at))?;
                }
            }
            if added == 0 {
                return Ok(());
            }
        }
    }

    /// Takes along all that refer to these rows, and moves them out of their tables.
    fn finish(self) -> Result<bool, Failure> {
        self.take_descendants()?;
        let mut moved = 0;
        for (position, table) in self.tables.iter().enumerate() {
            self.leave_guarded(position, table)?;
            self.refuse_changed(position, table)?;
            moved += self.copy(position, table)?;
        }
        // Children first: foreign keys may be checked at once.
        for (position, table) in self.tables.iter().enumerate().rev() {
            let live = table.table_sql();
            let same = table.same_key(&format!("{live}."), "a.");
            let keys = aside_sql(position);
            let sql =
                format!("DELETE FROM {live} WHERE EXISTS (SELECT 1 FROM {keys} AS a WHERE {same})");
            self.connection.execute(&sql, []).map_err(|error| refused(table, error))?;
            self.run(&format!("DROP TABLE {keys}"))?;
        }
        if self.leaving.is_some() {
            self.run(&format!("DROP TABLE {LEAVING}"))?;
        }
        note_count(self.connection, self.tables)?;
        Ok(moved > 0)
    }

    /// What a pending change refers to stays, as the change does.
    fn leave_guarded(&self, position: usize, table: &RemoteTable) -> Result<(), Failure> {
        if self.guards {
            let aside = aside_sql(position);
            self.run(&format!(
                "DELETE FROM {aside} WHERE EXISTS (SELECT 1 FROM temp.{} AS g WHERE {})",
                guarded::guarded_sql(table),
                table.same_our_key("g.", &format!("{}.", aside.replace("temp.", ""))),
            ))?;
        }
        Ok(())
    }

    /// A pending change must not be hidden from its user, nor from the upload.
    fn refuse_changed(&self, position: usize, table: &RemoteTable) -> Result<(), Failure> {
        if !table.uploads() {
            return Ok(());
        }
        let changed = self
            .connection
            .query_row(
                &format!(
                    "SELECT 1 FROM {} AS a JOIN {} AS c ON {} WHERE c.\"generation\" = ?1",
                    aside_sql(position),
                    table.change_sql(),
                    table.same_our_key("c.", "a."),
                ),
                [self.open_generation],
                |_| Ok(()),
            )
            .optional()
            .map_err(explain)?;
        let message = format!("a changed row of {} refers to one that is gone", table.name());
        match changed {
            Some(()) => Err(Failure::new(Code::ApplyBlocked, message).table(table.name())),
            None => Ok(()),
        }
    }

    /// The parent may be missing because it was deleted here. The center hears of that first.
    fn refuse_deleted_here(&self, reference: &Reference) -> Result<(), Failure> {
        let parent = reference.parent_at.map(|at| &self.tables[at]);
        let Some(parent) = parent.filter(|parent| parent.uploads()) else { return Ok(()) };
        let child = self.child(reference);
        let was = reference
            .columns
            .iter()
            .map(|(from, to)| format!("d.{} = c.{}", Image::Old.column(to), ident(from)));
        let published = |(_, to): &(String, String)| {
            parent.published.columns.iter().any(|column| column.eq_ignore_ascii_case(to))
        };
        if !reference.columns.iter().all(published) {
            return Ok(());
        }
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {} AS d JOIN {} AS c ON {} \
             WHERE d.\"generation\" = {} AND {})",
            parent.change_sql(),
            child.table_sql(),
            all(was),
            self.open_generation,
            reference.is_broken(),
        );
        if !self.connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)? {
            return Ok(());
        }
        let message = format!(
            "a row of {} refers to one of {} that was deleted here",
            child.name(),
            parent.name()
        );
        Err(Failure::new(Code::ApplyBlocked, message).table(child.name()))
    }

    fn copy(&self, position: usize, table: &RemoteTable) -> Result<usize, Failure> {
        let keys = aside_sql(position);
        let any = format!("SELECT EXISTS (SELECT 1 FROM {keys})");
        if !self.connection.query_row(&any, [], |row| row.get(0)).map_err(explain)? {
            return Ok(0);
        }
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS {} ({}, {}, PRIMARY KEY ({})) WITHOUT ROWID",
            table.orphans_sql(),
            table.our_keys_declared(),
            table.images_sql("", Image::Incoming),
            table.our_keys_sql(""),
        ))?;
        self.run(&format!(
            "INSERT OR REPLACE INTO {} SELECT {}, {} FROM {keys} AS a JOIN {} AS t ON {}",
            table.orphans_sql(),
            table.keys_sql("t."),
            table.columns_sql("t."),
            table.table_sql(),
            table.same_key("t.", "a."),
        ))
    }
}

/// Only a trigger of the application that fires may refuse to let rows go.
fn refused(table: &RemoteTable, error: rusqlite::Error) -> Failure {
    if !is_constraint(&error) {
        return explain(error);
    }
    let name = table.name();
    let message = format!("a trigger of table {name} cannot follow a row that has no parent");
    Failure::new(Code::RemoteSchemaDiffers, message)
        .table(name)
        .hint("correct what the trigger does at a delete, or drop it")
        .source(error)
}

fn note_count(connection: &Connection, tables: &[RemoteTable]) -> Result<(), Failure> {
    let mut waiting = 0;
    for table in tables {
        if has_table(connection, table)? {
            let sql = format!("SELECT count(*) FROM {}", table.orphans_sql());
            waiting +=
                connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map_err(explain)?;
        }
    }
    let waiting = (waiting > 0).then_some(waiting);
    facts::set(connection, COUNT, waiting).map_err(explain)
}

#[cfg(test)]
mod tests;
