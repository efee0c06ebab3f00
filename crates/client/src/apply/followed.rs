//! Children that refer to a UNIQUE value of a row, and not to its key.
//!
//! A download may take such a value from one row and give it to another. Between the two the value
//! is nobody's, or lies in a row that is about to lose it, and the file's own foreign keys act upon
//! the children. The center names every row that it has changed. So a child that is not named
//! refers to the same value as before: these children are noted before anything is written, and
//! get their value back at the end.
//!
//! A child with a pending change follows its parent. It gets the value back only where a row has
//! it.

use super::circumstances::Circumstances;
use super::download::Download;
use super::values::run;
use crate::capture::change_log;
use crate::connection::explain;
use crate::schema::reference::Reference;
use crate::schema::{RemoteTable, reference};
use crate::sql::{all, ident, list, parameters};
use model::{Failure, RowReader};
use protocol::{DownloadMode, RowsFrame};
use rusqlite::Connection;

/// Notes of one download; dropped by [`ByValue::give_back`].
pub(super) struct ByValue<'a> {
    connection: &'a Connection,
    circumstances: &'a Circumstances<'a>,
    references: Vec<Reference>,
}

impl<'a> ByValue<'a> {
    /// Notes the children of all rows that the download writes or deletes. Nothing where no foreign
    /// key of the file refers to anything but a key.
    pub(super) fn note(
        connection: &'a Connection,
        download: &Download,
        circumstances: &'a Circumstances<'a>,
    ) -> Result<Option<ByValue<'a>>, Failure> {
        let tables = circumstances.tables;
        if !tables.iter().any(|table| table.referred_by_value) {
            return Ok(None);
        }
        let mut references = reference::references(connection, tables).map_err(explain)?;
        references.retain(|it| is_by_value(it, tables) && is_named_by_center(it, download, tables));
        if references.is_empty() {
            return Ok(None);
        }
        let noted = ByValue { connection, circumstances, references };
        for parent in noted.parents() {
            noted.note_touched(download, parent)?;
        }
        for at in 0..noted.references.len() {
            noted.create_held(at)?;
        }
        noted.hold()?;
        for (at, reference) in noted.references.iter().enumerate() {
            noted.forget_named(download, at, &tables[reference.child])?;
        }
        Ok(Some(noted))
    }

    /// Gives the children that are still there the values that they had.
    pub(super) fn give_back(self) -> Result<(), Failure> {
        for (at, reference) in self.references.iter().enumerate() {
            let child = &self.circumstances.tables[reference.child];
            let held = held_sql(at);
            let (live, same) = (child.table_sql(), child.same_key("t.", "h."));
            let names = || reference.columns.iter().map(|(from, _)| from);
            let sets = list(names().map(|name| format!("{0} = h.{0}", ident(name))));
            let differs = names().map(|name| format!("t.{0} IS NOT h.{0}", ident(name)));
            let differs = differs.collect::<Vec<_>>().join(" OR ");
            let stays = self.stays(reference, child)?;
            self.run(&format!(
                "UPDATE OR IGNORE {live} AS t SET {sets} FROM {held} AS h \
                 WHERE {same} AND ({differs}){stays}"
            ))?;
            self.run(&format!("DROP TABLE {held}"))?;
        }
        for parent in self.parents() {
            self.run(&format!("DROP TABLE {}", touched_sql(parent)))?;
        }
        Ok(())
    }

    /// The condition for children with a pending change.
    fn stays(&self, reference: &Reference, child: &RemoteTable) -> Result<String, Failure> {
        let generation = self.circumstances.open_generation;
        if !child.uploads()
            || !change_log::has_entries(self.connection, child, generation).map_err(explain)?
        {
            return Ok(String::new());
        }
        let has_value = all(reference
            .columns
            .iter()
            .map(|(from, to)| format!("p.{} = h.{}", ident(to), ident(from))));
        Ok(format!(
            " AND (NOT EXISTS (SELECT 1 FROM {} AS e WHERE e.\"generation\" = {generation} AND {}) \
             OR EXISTS (SELECT 1 FROM {} AS p WHERE {has_value}))",
            child.change_sql(),
            child.same_key("t.", "e."),
            ident(&reference.parent),
        ))
    }

    /// The tables that are referred to.
    fn parents(&self) -> impl Iterator<Item = &'a RemoteTable> {
        let tables = self.circumstances.tables.iter().enumerate();
        let is_parent =
            |at: usize| self.references.iter().any(|reference| reference.parent_at == Some(at));
        tables.filter(move |(at, _)| is_parent(*at)).map(|(_, table)| table)
    }

    /// Notes the keys of the rows of `parent` that the download writes or deletes.
    fn note_touched(&self, download: &Download, parent: &RemoteTable) -> Result<(), Failure> {
        let touched = touched_sql(parent);
        self.run(&format!(
            "CREATE TEMP TABLE {touched} ({}, PRIMARY KEY ({})) WITHOUT ROWID",
            parent.our_keys_declared(),
            parent.our_keys_sql(""),
        ))?;
        if self.is_empty(parent)? {
            return Ok(());
        }
        if download.mode(parent) == DownloadMode::Refresh {
            let (keys, live) = (parent.keys_sql(""), parent.table_sql());
            let not_null =
                all(parent.key.iter().map(|key| format!("{} IS NOT NULL", ident(&key.name))));
            let sql = format!(
                "INSERT OR IGNORE INTO {touched} SELECT {keys} FROM {live} WHERE {not_null}"
            );
            return self.run(&sql);
        }
        let values = parameters(1, parent.key.len());
        let insert = format!("INSERT OR IGNORE INTO {touched} VALUES ({values})");
        self.for_each_named(download, parent, &insert)
    }

    /// Runs a statement for each key that the download names, those that rows leave included.
    fn for_each_named(
        &self,
        download: &Download,
        table: &RemoteTable,
        sql: &str,
    ) -> Result<(), Failure> {
        let mut statement = self.connection.prepare_cached(sql).map_err(explain)?;
        let mut upserts = download.upserts.reader();
        while let Some(payload) = upserts.next_chunk()? {
            let (position, _, count) = RowsFrame::split(&payload)?;
            if position != table.position {
                continue;
            }
            let mut reader = RowReader::new(&payload[RowsFrame::PREFIX_BYTES..]);
            let (mut key, mut row) = (Vec::new(), Vec::new());
            for _ in 0..count {
                protocol::read_values(&mut reader, table.width(), &mut row)?;
                key.clear();
                key.extend(table.key.iter().map(|key| row[key.position]));
                run(&mut statement, &key).map_err(explain)?;
            }
        }
        let mut deletes = download.deletes[usize::from(table.position)].reader();
        while let Some(payload) = deletes.next_chunk()? {
            let mut reader = RowReader::new(&payload[RowsFrame::PREFIX_BYTES..]);
            let mut key = Vec::new();
            while !reader.is_at_end() {
                protocol::read_values(&mut reader, table.key.len(), &mut key)?;
                run(&mut statement, &key).map_err(explain)?;
            }
        }
        Ok(())
    }

    fn create_held(&self, at: usize) -> Result<(), Failure> {
        let reference = &self.references[at];
        let child = &self.circumstances.tables[reference.child];
        let columns = list(reference.columns.iter().map(|(from, _)| ident(from)));
        self.run(&format!(
            "CREATE TEMP TABLE {} ({}, {columns}, PRIMARY KEY ({})) WITHOUT ROWID",
            held_sql(at),
            child.our_keys_declared(),
            child.our_keys_sql(""),
        ))
    }

    /// Notes the children, and theirs where those refer to a value too.
    fn hold(&self) -> Result<(), Failure> {
        // Every round but the last adds a row, so there are no more rounds than rows.
        loop {
            let mut added = 0;
            for (at, reference) in self.references.iter().enumerate() {
                let tables = self.circumstances.tables;
                let Some(parent) = reference.parent_at.map(|at| &tables[at]) else { continue };
                let child = &tables[reference.child];
                let columns =
                    list(reference.columns.iter().map(|(from, _)| format!("c.{}", ident(from))));
                let keys = child.keys_sql("c.");
                let not_null =
                    all(child.key.iter().map(|key| format!("c.{} IS NOT NULL", ident(&key.name))));
                added += self.count(&format!(
                    "INSERT OR IGNORE INTO {} SELECT {keys}, {columns} FROM {} AS a \
                     JOIN {} AS p ON {} JOIN {} AS c ON {} WHERE {not_null}",
                    held_sql(at),
                    touched_sql(parent),
                    parent.table_sql(),
                    parent.same_key("p.", "a."),
                    child.table_sql(),
                    reference.same(),
                ))?;
                if self.parents().any(|table| table.position == child.position) {
                    self.run(&format!(
                        "INSERT OR IGNORE INTO {} SELECT {} FROM {}",
                        touched_sql(child),
                        child.our_keys_sql(""),
                        held_sql(at),
                    ))?;
                }
            }
            if added == 0 {
                return Ok(());
            }
        }
    }

    /// The download says where these children refer to.
    fn forget_named(
        &self,
        download: &Download,
        at: usize,
        child: &RemoteTable,
    ) -> Result<(), Failure> {
        let is_key = child.our_key_is_parameter(1);
        self.for_each_named(
            download,
            child,
            &format!("DELETE FROM {} WHERE {is_key}", held_sql(at)),
        )
    }

    fn is_empty(&self, table: &RemoteTable) -> Result<bool, Failure> {
        let sql = format!("SELECT NOT EXISTS (SELECT 1 FROM {})", table.table_sql());
        self.connection.query_row(&sql, [], |row| row.get(0)).map_err(explain)
    }

    fn count(&self, sql: &str) -> Result<usize, Failure> {
        self.connection.execute(sql, []).map_err(explain)
    }

    fn run(&self, sql: &str) -> Result<(), Failure> {
        self.count(sql).map(drop)
    }
}

/// The foreign key refers to something else than the whole key of a published table.
fn is_by_value(reference: &Reference, tables: &[RemoteTable]) -> bool {
    reference.parent_at.is_some_and(|at| reference.by_key(&tables[at]).is_none())
}

/// The center says where the children refer to, and names only those that have changed.
fn is_named_by_center(reference: &Reference, download: &Download, tables: &[RemoteTable]) -> bool {
    let child = &tables[reference.child];
    let published = |from: &String| {
        child.published.columns.iter().any(|column| column.eq_ignore_ascii_case(from))
    };
    child.published.direction.downloads()
        && download.mode(child) != DownloadMode::Refresh
        && reference.columns.iter().all(|(from, _)| published(from))
}

fn touched_sql(parent: &RemoteTable) -> String {
    ident(&format!("syncline_touched_{}", parent.position))
}

fn held_sql(reference: usize) -> String {
    ident(&format!("syncline_held_{reference}"))
}

#[cfg(test)]
mod tests;
