//! A table under a hidden name, which takes the place of a published one when it is full.
//!
//! It is made by the same SQL, so its rows and indexes lie in the file as those of the published
//! table would. Then both only exchange their pages: the list of what there is in the file says for
//! each table and index on which page it begins. Nothing else in that list changes. So the file is
//! as if the rows had been written to the published table, and the owner's views, triggers, indexes
//! and foreign keys stay what they are. To rename the hidden table would change texts there.

use super::spelling;
use crate::apply::rows::statements::insert_sql;
use crate::connection::explain;
use crate::schema::RemoteTable;
use crate::sql::ident;
use model::Failure;
use rusqlite::{Connection, Error, ffi};

/// The names of hidden tables and their indexes begin so.
pub(super) const PREFIX: &str = "syncline_fill_";

/// The indexes of constraints, each with its columns.
const CONSTRAINTS: &str =
    "SELECT l.origin, l.\"unique\", l.partial, x.seqno, x.cid, x.\"desc\", x.coll, x.key
     FROM pragma_index_list(?1, 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x
     WHERE l.origin <> 'c' ORDER BY l.seq, x.seqno";

/// A table or an index, as the file lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    kind: String,
    name: String,
    /// None for the index of a constraint.
    sql: Option<String>,
}

/// A table under a hidden name.
#[derive(Debug)]
pub(super) struct HiddenTable {
    pub(super) position: u16,
    pub(super) name: String,
    /// Rows that it took.
    pub(super) rows: u64,
    /// The published table and its indexes, as they were when it was made.
    listed: Vec<Listed>,
}

impl HiddenTable {
    /// Makes it, without the indexes that are made when it is full. None if the file has no such
    /// table, or if its SQL does not make a second one.
    pub(super) fn create(
        connection: &Connection,
        table: &RemoteTable,
    ) -> Result<Option<HiddenTable>, Failure> {
        let name = format!("{PREFIX}{}", table.position);
        let listed = listed(connection, table.name()).map_err(explain)?;
        let create = listed.iter().find(|it| it.kind == "table").and_then(|it| it.sql.as_deref());
        let sql = create.and_then(|create| spelling::hidden_table(create, &name));
        let Some(sql) = sql else { return Ok(None) };
        if !understood(connection.execute_batch(&sql))? {
            return Ok(None);
        }
        let hidden = HiddenTable { position: table.position, name, rows: 0, listed };
        // What a constraint names is looked for only when a row comes.
        let insert = insert_sql(&hidden.sql(), table, 1);
        if hidden.index_statements().is_some()
            && understood(connection.prepare(&insert).map(drop))?
            && hidden.is_same(connection, table).map_err(explain)?
        {
            return Ok(Some(hidden));
        }
        hidden.drop(connection)?;
        Ok(None)
    }

    /// Its name in SQL.
    pub(super) fn sql(&self) -> String {
        ident(&self.name)
    }

    /// The statements that make the indexes which are no constraints. None if one of them is not
    /// understood.
    pub(super) fn index_statements(&self) -> Option<Vec<String>> {
        let made = self.listed.iter().enumerate().filter(|(_, it)| it.kind == "index");
        let made = made.filter_map(|(at, it)| Some((at, it.sql.as_deref()?)));
        made.map(|(at, sql)| spelling::hidden_index(sql, &self.index_name(at), &self.name))
            .collect()
    }

    /// The name of its index that stands for the one at `at` of the list.
    fn index_name(&self, at: usize) -> String {
        format!("{}_{at}", self.name)
    }

    /// Whether the published table and its indexes are what they were.
    pub(super) fn is_current(&self, connection: &Connection, table: &RemoteTable) -> bool {
        listed(connection, table.name()).is_ok_and(|listed| listed == self.listed)
    }

    /// Whether both tables store rows in the same way: columns, keys, constraints with an index.
    fn is_same(&self, connection: &Connection, table: &RemoteTable) -> rusqlite::Result<bool> {
        let texts = |sql: &str, name: &str| texts(connection, sql, name);
        let same =
            |sql: &str| Ok::<bool, Error>(texts(sql, table.name())? == texts(sql, &self.name)?);
        Ok(same(
            "SELECT name, type, \"notnull\", dflt_value, pk, hidden
             FROM pragma_table_xinfo(?1, 'main')",
        )? && same("SELECT wr, strict FROM pragma_table_list(?1) WHERE schema = 'main'")?
            && same(CONSTRAINTS)?
            && texts("SELECT id FROM pragma_foreign_key_list(?1, 'main')", &self.name)?.is_empty())
    }

    /// Whether the indexes that were made sort rows as those of the published table do.
    pub(super) fn has_same_indexes(&self, connection: &Connection) -> rusqlite::Result<bool> {
        for (at, index) in self.listed.iter().enumerate() {
            if index.kind == "index" && index.sql.is_some() {
                let sql = "SELECT cid, \"desc\", coll, key FROM pragma_index_xinfo(?1, 'main')";
                let hidden = self.index_name(at);
                if texts(connection, sql, &index.name)? != texts(connection, sql, &hidden)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Drops it, with what is in it.
    pub(super) fn drop(&self, connection: &Connection) -> Result<(), Failure> {
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {}", self.sql())).map_err(explain)
    }

    /// The names of each pair that exchange their pages: kind, published, hidden.
    fn pairs(&self) -> Vec<(&str, &str, String)> {
        let hidden = |at: usize, listed: &Listed| match (listed.kind.as_str(), &listed.sql) {
            ("table", _) => self.name.clone(),
            (_, Some(_)) => self.index_name(at),
            // The number of the constraint is behind the name of the table.
            (_, None) => {
                let number = listed.name.rsplit('_').next().unwrap_or_default();
                format!("sqlite_autoindex_{}_{number}", self.name)
            }
        };
        let mut pairs = Vec::new();
        for (at, listed) in self.listed.iter().enumerate() {
            pairs.push((listed.kind.as_str(), listed.name.as_str(), hidden(at, listed)));
        }
        pairs
    }
}

/// Lets the hidden tables take the place of the published ones. These have the hidden names then.
/// Call in a transaction, and change the schema behind it, so that other connections notice.
pub(super) fn exchange(connection: &Connection, tables: &[&HiddenTable]) -> Result<(), Failure> {
    connection.execute_batch("PRAGMA writable_schema = ON").map_err(explain)?;
    let exchanged = exchange_pages(connection, tables);
    // Whatever has become of it, nobody else may write there. It also makes this connection read
    // the list again.
    connection.execute_batch("PRAGMA writable_schema = RESET").map_err(explain)?;
    exchanged.map_err(explain)
}

fn exchange_pages(connection: &Connection, tables: &[&HiddenTable]) -> rusqlite::Result<()> {
    let mut read = connection
        .prepare("SELECT rootpage FROM main.sqlite_schema WHERE type = ?1 AND name = ?2")?;
    let mut write = connection
        .prepare("UPDATE main.sqlite_schema SET rootpage = ?3 WHERE type = ?1 AND name = ?2")?;
    for (kind, published, hidden) in tables.iter().flat_map(|table| table.pairs()) {
        let hidden = hidden.as_str();
        let first: i64 = read.query_row([kind, published], |row| row.get(0))?;
        let second: i64 = read.query_row([kind, hidden], |row| row.get(0))?;
        write.execute(rusqlite::params![kind, published, second])?;
        write.execute(rusqlite::params![kind, hidden, first])?;
    }
    Ok(())
}

/// Every hidden table of the file.
pub(super) fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema
               WHERE type = 'table' AND name LIKE 'syncline\\_fill\\_%' ESCAPE '\\'";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// False if SQLite does not understand a statement.
pub(super) fn understood(executed: rusqlite::Result<()>) -> Result<bool, Failure> {
    match executed {
        Ok(()) => Ok(true),
        Err(Error::SqlInputError { error, .. } | Error::SqliteFailure(error, _))
            if error.extended_code == ffi::SQLITE_ERROR =>
        {
            Ok(false)
        }
        Err(error) => Err(explain(error)),
    }
}

fn listed(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Listed>> {
    let sql = "SELECT type, name, sql FROM main.sqlite_schema
               WHERE type IN ('table', 'index') AND tbl_name = ?1 COLLATE NOCASE ORDER BY rowid";
    let mut statement = connection.prepare(sql)?;
    let listed = |row: &rusqlite::Row<'_>| {
        Ok(Listed { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? })
    };
    statement.query_map([table], listed)?.collect()
}

/// The rows of a query about what has this name.
fn texts(connection: &Connection, sql: &str, name: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query([name])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let mut line = String::new();
        for column in 0..width {
            line.push_str(&format!("{:?} ", row.get_ref(column)?));
        }
        lines.push(line);
    }
    Ok(lines)
}
