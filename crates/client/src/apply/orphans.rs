//! Downloaded rows whose parent is missing at the centre are set aside until it comes.
//!
//! The centre may have such rows: foreign keys of SQLite are off unless a program turns them on,
//! and PostgreSQL does not check them for replicas and restores. Foreign keys hold at the remote
//! after every download (S4). So these rows cannot be in their tables, but they must not stop the
//! other rows (trap 26). They wait in `syncline_orphan_T`. Every download that writes rows first
//! puts them back, so that new values find them, and sets those aside again that still have no
//! parent.
//!
//! A row that refers to one that is set aside is set aside too, because deleting its parent would
//! delete or change it.

use super::{Circumstances, Download, guarded};
use crate::connection::{bind, explain};
use crate::progress;
use crate::schema::{Image, LocalTable, RemoteTable};
use crate::sql::{all, ident, parameters};
use model::{Code, Failure, RowReader, Value};
use protocol::DownloadMode;
use rusqlite::{Connection, OptionalExtension};

/// The fact with the number of rows that are set aside. It is missing if there are none.
const COUNT: &str = "orphans";

/// A foreign key of a published table.
pub(crate) struct Reference {
    /// Position of the table that refers.
    pub(super) child: usize,
    pub(super) parent: String,
    /// Position of the parent, where it is published.
    pub(crate) parent_at: Option<usize>,
    /// Referring columns and those that they refer to.
    pub(crate) columns: Vec<(String, String)>,
}

/// Rows that are set aside.
pub(crate) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(progress::get::<i64>(connection, COUNT)?.unwrap_or(0).max(0) as u64)
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

/// Whether a row that is set aside refers to one that lies here: the application may have made its
/// parent meanwhile, and the centre need not send what it was sent.
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

/// Forgets the row with this key, because what has become of it is known.
pub(super) fn forget(
    connection: &Connection,
    tables: &[RemoteTable],
    table: &RemoteTable,
    key: &[Value],
) -> Result<(), Failure> {
    if count(connection).map_err(explain)? == 0 || !has_table(connection, table)? {
        return Ok(());
    }
    let sql =
        format!("DELETE FROM {} WHERE {}", table.orphans_sql(), table.our_key_is_parameter(1));
    let mut statement = connection.prepare_cached(&sql).map_err(explain)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref()).map_err(explain)?;
    }
    statement.raw_execute().map_err(explain)?;
    note_count(connection, tables)
}

/// Whether rows of the table were ever set aside.
fn has_table(connection: &Connection, table: &RemoteTable) -> Result<bool, Failure> {
    let name = format!("syncline_orphan_{}", table.name());
    connection.table_exists(Some("main"), name.as_str()).map_err(explain)
}

/// Sets aside every row that refers to nothing, with all that refer to it. True if there are any.
/// A row with a pending change stays: its upload tells the application what it has broken. Where
/// such a row refers to another that is set aside, the change has to be uploaded first.
pub(super) fn set_aside(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<bool, Failure> {
    let aside = Aside::new(connection, circumstances.into())?;
    for reference in &aside.references {
        let child = aside.child(reference);
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
/// deleted and would take them along. True if there are any.
pub(super) fn set_aside_children(
    connection: &Connection,
    surroundings: Surroundings<'_>,
    parent: &RemoteTable,
    keys: &[u8],
) -> Result<bool, Failure> {
    let mut aside = Aside::new(connection, surroundings)?;
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
    aside.refuse_clung(surroundings.clinging, at, leaving)?;
    if !surroundings.clinging.is_empty() {
        aside.take_descendants()?;
        for position in 0..aside.tables.len() {
            aside.refuse_clung(surroundings.clinging, position, &aside_sql(position))?;
        }
    }
    aside.finish()
}

impl Reference {
    /// Per column that refers, which part of the parent's key it refers to; none where it refers to
    /// anything else than the whole key.
    pub(super) fn by_key(&self, parent: &RemoteTable) -> Option<Vec<(&str, usize)>> {
        let part =
            |name: &str| parent.key.iter().position(|key| key.name.eq_ignore_ascii_case(name));
        let parts = self.columns.iter().map(|(from, to)| Some((from.as_str(), part(to)?)));
        parts.collect::<Option<Vec<_>>>().filter(|parts| parts.len() == parent.key.len())
    }

    /// The parent `p` is the one that the child `c` refers to, as SQLite compares them: under the
    /// parent's collation.
    pub(super) fn same(&self) -> String {
        all(self.columns.iter().map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from))))
    }

    /// The child `c` refers to nothing.
    pub(super) fn is_broken(&self) -> String {
        format!(
            "{} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {})",
            all(self.columns.iter().map(|(from, _)| format!("c.{} IS NOT NULL", ident(from)))),
            ident(&self.parent),
            self.same(),
        )
    }
}

/// What rows are set aside among.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) tables: &'a [RemoteTable],
    pub(super) open_generation: i64,
    /// Guarded rows stay (`apply/guarded.rs`).
    pub(super) guards: bool,
    /// What a row that goes alone must not be clung to by.
    pub(super) clinging: &'a [Clinging],
}

impl<'a> From<&Circumstances<'a>> for Surroundings<'a> {
    fn from(circumstances: &Circumstances<'a>) -> Surroundings<'a> {
        let Circumstances { tables, open_generation, guards, .. } = *circumstances;
        Surroundings { tables, open_generation, guards, clinging: &[] }
    }
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
        surroundings: Surroundings<'a>,
    ) -> Result<Aside<'a>, Failure> {
        let Surroundings { tables, open_generation, guards, .. } = surroundings;
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

    /// Fails if a row that no download takes away refers to one of `keys`. A foreign key that is
    /// deferred would be checked only when nothing else could be done any more.
    fn refuse_clung(
        &self,
        clinging: &[Clinging],
        position: usize,
        keys: &str,
    ) -> Result<(), Failure> {
        let parent = &self.tables[position];
        for Clinging { child, reference } in clinging {
            if reference.parent_at != Some(position) {
                continue;
            }
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM {keys} AS a JOIN {} AS p ON {} JOIN {} AS c ON {})",
                parent.table_sql(),
                parent.same_key("p.", "a."),
                ident(child),
                reference.same(),
            );
            if self.connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)? {
                let message = format!("a row of {child} refers to one of {}", parent.name());
                return Err(Failure::new(Code::ApplyBlocked, message).table(parent.name()));
            }
        }
        Ok(())
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
            self.run(&format!(
                "DELETE FROM {live} WHERE EXISTS (SELECT 1 FROM {keys} AS a WHERE {same})"
            ))?;
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
pub(super) fn references(
    connection: &Connection,
    tables: &[RemoteTable],
) -> rusqlite::Result<Vec<Reference>> {
    let mut references = Vec::new();
    for child in 0..tables.len() {
        references.extend(references_from(connection, tables, child)?);
    }
    Ok(references)
}

/// Those of the published table at this position.
pub(crate) fn references_from(
    connection: &Connection,
    tables: &[RemoteTable],
    child: usize,
) -> rusqlite::Result<Vec<Reference>> {
    let found = references_of(connection, tables, tables[child].name(), child)?;
    Ok(found.into_iter().map(|(reference, _)| reference).collect())
}

/// A foreign key that refuses deletes, of a table from which no download deletes rows.
pub(super) struct Clinging {
    /// The table that refers.
    pub(super) child: String,
    /// To what. It has no position of its own.
    pub(super) reference: Reference,
}

/// The foreign keys of tables that are not published, and that let no published row go.
pub(super) fn unpublished_references(
    connection: &Connection,
    tables: &[RemoteTable],
) -> Result<Vec<Clinging>, Failure> {
    clinging(connection, tables, &|_| false)
}

/// The same, and those of tables that are only uploaded.
pub(super) fn clinging_references(
    connection: &Connection,
    tables: &[RemoteTable],
) -> Result<Vec<Clinging>, Failure> {
    clinging(connection, tables, &|table| !table.published.direction.downloads())
}

fn clinging(
    connection: &Connection,
    tables: &[RemoteTable],
    also: &dyn Fn(&RemoteTable) -> bool,
) -> Result<Vec<Clinging>, Failure> {
    let find = || -> rusqlite::Result<Vec<Clinging>> {
        let mut statement = connection.prepare_cached(
            "SELECT name FROM sqlite_schema
             WHERE type = 'table' AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'",
        )?;
        let names: Vec<String> =
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut found = Vec::new();
        for child in names {
            let mut published = tables.iter().filter(|table| !also(table));
            if published.any(|table| table.name().eq_ignore_ascii_case(&child)) {
                continue;
            }
            for (reference, on_delete) in references_of(connection, tables, &child, tables.len())? {
                let lets_go = ["CASCADE", "SET NULL"].contains(&on_delete.as_str());
                if reference.parent_at.is_some() && !lets_go {
                    found.push(Clinging { child: child.clone(), reference });
                }
            }
        }
        Ok(found)
    };
    find().map_err(explain)
}

/// The foreign keys of one table, and what they do when a row goes that they refer to.
fn references_of(
    connection: &Connection,
    tables: &[RemoteTable],
    name: &str,
    child: usize,
) -> rusqlite::Result<Vec<(Reference, String)>> {
    let position = |name: &str| tables.iter().position(|t| t.name().eq_ignore_ascii_case(name));
    let mut statement = connection.prepare_cached(
        "SELECT id, \"table\", \"from\", \"to\", on_delete
         FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let mut rows = statement.query([name])?;
    let mut references: Vec<(Reference, String)> = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        let (id, parent): (i64, String) = (row.get(0)?, row.get(1)?);
        let (from, to): (String, Option<String>) = (row.get(2)?, row.get(3)?);
        let Some(local) = LocalTable::read(connection, &parent)? else { continue };
        if last.replace(id) != Some(id) {
            let parent_at = position(&parent);
            let reference = Reference { child, parent, parent_at, columns: Vec::new() };
            references.push((reference, row.get(4)?));
        }
        let Some((reference, _)) = references.last_mut() else { continue };
        // Without columns it refers to the primary key.
        let key = || local.key.get(reference.columns.len()).map(|key| key.name.clone());
        if let Some(to) = to.or_else(key) {
            reference.columns.push((from, to));
        }
    }
    references.retain(|(reference, _)| !reference.columns.is_empty());
    Ok(references)
}

#[cfg(test)]
mod tests;
