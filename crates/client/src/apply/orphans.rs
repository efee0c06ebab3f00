//! Downloaded rows whose parent is missing at the centre: set aside until it comes.
//!
//! The centre may hold such rows: foreign keys of SQLite are off unless a program asks for them,
//! and PostgreSQL does not check them for replicas and restores. Foreign keys hold at the remote
//! after every download (S4), so these rows cannot lie in their tables, and they must not keep the
//! others from arriving (trap 26). They wait in `syncline_orphan_T`. Every download that writes
//! anything first puts them back, so that what came for them finds them, and sets aside again what
//! still has no parent.
//!
//! A row that refers to one that is set aside goes with it, since deleting its parent would
//! otherwise delete or change it.

use super::{Circumstances, Download};
use crate::connection::{bind, explain};
use crate::progress;
use crate::schema::{Image, LocalTable, RemoteTable};
use crate::sql::{all, ident, parameters};
use model::{Code, Failure, RowReader};
use protocol::DownloadMode;
use rusqlite::{Connection, OptionalExtension};

/// The fact that counts the rows that are set aside; unknown while there are none.
const COUNT: &str = "orphans";

/// A foreign key of a published table.
struct Reference {
    /// Position of the table that refers.
    child: usize,
    parent: String,
    /// Position of the parent, where it is published.
    parent_at: Option<usize>,
    /// Referring columns and those that they refer to.
    columns: Vec<(String, String)>,
}

/// Rows that are set aside.
pub(crate) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(progress::get::<i64>(connection, COUNT)?.unwrap_or(0).max(0) as u64)
}

/// Forgets the rows of tables that are sent afresh: they come again, or are gone.
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

/// Puts the rows back that are set aside. Foreign keys are deferred. One that a row of this file
/// stands in the way of goes on waiting.
pub(super) fn put_back(connection: &Connection, tables: &[RemoteTable]) -> Result<(), Failure> {
    if count(connection).map_err(explain)? == 0 {
        return Ok(());
    }
    for table in tables {
        if has_table(connection, table)? {
            let orphans = table.orphans_sql();
            let sql = format!(
                "INSERT OR IGNORE INTO {live}({columns}) SELECT {images} FROM {orphans};
                 DELETE FROM {orphans} WHERE EXISTS (SELECT 1 FROM {live} AS t WHERE {same});",
                live = table.table_sql(),
                columns = table.columns_sql(""),
                images = table.images_sql("", Image::Incoming),
                same = table.same_key("t.", &format!("{orphans}.")),
            );
            connection.execute_batch(&sql).map_err(explain)?;
        }
    }
    note_count(connection, tables)
}

/// Whether rows of the table were ever set aside.
fn has_table(connection: &Connection, table: &RemoteTable) -> Result<bool, Failure> {
    let name = format!("syncline_orphan_{}", table.name());
    connection.table_exists(Some("main"), name.as_str()).map_err(explain)
}

/// Sets aside every row that refers to nothing, with all that refer to it. True if there are any.
/// A local change of one of them has to be uploaded first.
pub(super) fn set_aside(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<bool, Failure> {
    let aside = Aside::new(connection, circumstances)?;
    for reference in &aside.references {
        aside.run(&format!(
            "INSERT OR IGNORE INTO {} SELECT {} FROM {} AS c WHERE {} AND NOT EXISTS \
             (SELECT 1 FROM {} AS p WHERE {})",
            aside_sql(reference.child),
            aside.child(reference).keys_sql("c."),
            aside.child(reference).table_sql(),
            all(reference.columns.iter().map(|(from, _)| format!("c.{} IS NOT NULL", ident(from)))),
            ident(&reference.parent),
            reference.same(),
        ))?;
    }
    aside.finish()
}

/// Sets aside the rows that refer to rows of `parent` with these keys, which are about to be
/// deleted and would take them along. True if there are any.
pub(super) fn set_aside_children(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
    parent: &RemoteTable,
    keys: &[u8],
) -> Result<bool, Failure> {
    let aside = Aside::new(connection, circumstances)?;
    let leaving = "temp.syncline_leaving";
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
    let downloaded = |reference: &&Reference| {
        reference.parent_at == Some(at) && aside.child(reference).published.direction.downloads()
    };
    for reference in aside.references.iter().filter(downloaded) {
        aside.add_children(reference, leaving)?;
        if reference.child == at {
            // A row that is deleted itself does not wait.
            aside.run(&format!(
                "DELETE FROM {0} WHERE EXISTS (SELECT 1 FROM {leaving} AS l WHERE {1})",
                aside_sql(at),
                parent.same_our_key("l.", &format!("{}.", aside_sql(at).replace("temp.", ""))),
            ))?;
        }
    }
    aside.run(&format!("DROP TABLE {leaving}"))?;
    aside.finish()
}

impl Reference {
    /// The parent `p` is the one that the child `c` refers to, as SQLite compares them: under the
    /// parent's collation.
    fn same(&self) -> String {
        all(self.columns.iter().map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from))))
    }
}

fn aside_sql(position: usize) -> String {
    format!("temp.syncline_aside_{position}")
}

/// Keys of rows on their way out, by table.
struct Aside<'a> {
    connection: &'a Connection,
    tables: &'a [RemoteTable],
    open_generation: i64,
    references: Vec<Reference>,
}

impl<'a> Aside<'a> {
    fn new(
        connection: &'a Connection,
        circumstances: &Circumstances<'a>,
    ) -> Result<Aside<'a>, Failure> {
        let (tables, open_generation) = (circumstances.tables, circumstances.open_generation);
        let references = references(connection, tables).map_err(explain)?;
        let aside = Aside { connection, tables, open_generation, references };
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
        self.run(&format!(
            "INSERT OR IGNORE INTO {} SELECT {} FROM {keys} AS a JOIN {} AS p ON {} \
             JOIN {} AS c ON {}",
            aside_sql(reference.child),
            child.keys_sql("c."),
            parent.table_sql(),
            parent.same_key("p.", "a."),
            child.table_sql(),
            reference.same(),
        ))
    }

    /// Takes along all that refer to these rows, and moves them out of their tables.
    fn finish(self) -> Result<bool, Failure> {
        // Every round but the last adds a row, so there are no more rounds than rows.
        loop {
            let mut added = 0;
            for reference in &self.references {
                if let Some(at) = reference.parent_at {
                    added += self.add_children(reference, &aside_sql(at))?;
                }
            }
            if added == 0 {
                break;
            }
        }
        let mut moved = 0;
        for (position, table) in self.tables.iter().enumerate() {
            self.refuse_changed(position, table)?;
            moved += self.copy(position, table)?;
        }
        for (position, table) in self.tables.iter().enumerate() {
            let live = table.table_sql();
            let same = table.same_key(&format!("{live}."), "a.");
            let keys = aside_sql(position);
            self.run(&format!(
                "DELETE FROM {live} WHERE EXISTS (SELECT 1 FROM {keys} AS a WHERE {same})"
            ))?;
            self.run(&format!("DROP TABLE {keys}"))?;
        }
        note_count(self.connection, self.tables)?;
        Ok(moved > 0)
    }

    /// A change that waits must not be hidden from its user, nor from the upload.
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
    progress::set(connection, COUNT, waiting).map_err(explain)
}

/// Every foreign key of the published tables, as this file declares them.
fn references(connection: &Connection, tables: &[RemoteTable]) -> rusqlite::Result<Vec<Reference>> {
    let position = |name: &str| tables.iter().position(|t| t.name().eq_ignore_ascii_case(name));
    let mut statement = connection.prepare_cached(
        "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let mut references: Vec<Reference> = Vec::new();
    for (child, table) in tables.iter().enumerate() {
        let mut rows = statement.query([table.name()])?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let (id, parent): (i64, String) = (row.get(0)?, row.get(1)?);
            let (from, to): (String, Option<String>) = (row.get(2)?, row.get(3)?);
            let Some(local) = LocalTable::read(connection, &parent)? else { continue };
            if last.replace(id) != Some(id) {
                let parent_at = position(&parent);
                references.push(Reference { child, parent, parent_at, columns: Vec::new() });
            }
            let Some(reference) = references.last_mut() else { continue };
            // Without columns it refers to the primary key.
            let key = || local.key.get(reference.columns.len()).map(|key| key.name.clone());
            if let Some(to) = to.or_else(key) {
                reference.columns.push((from, to));
            }
        }
    }
    references.retain(|reference| !reference.columns.is_empty());
    Ok(references)
}

#[cfg(test)]
mod tests;
