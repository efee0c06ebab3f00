//! A table in the remote file, as SQLite describes it.

use rusqlite::{Connection, OptionalExtension};

/// How SQLite converts what is stored in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

impl Affinity {
    /// The rules of the SQLite manual, in their order.
    pub(super) fn of(declared: &str, strict: bool) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if declared.is_empty() || has("BLOB") || (strict && declared == "ANY") {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// A type name with this affinity; none for a column that keeps what it is given.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Affinity::Integer => "INTEGER",
            Affinity::Text => "TEXT",
            Affinity::Blob => "",
            Affinity::Real => "REAL",
            Affinity::Numeric => "NUMERIC",
        }
    }
}

/// One column.
#[derive(Debug, Clone)]
pub(crate) struct LocalColumn {
    pub(crate) name: String,
    pub(crate) affinity: Affinity,
    pub(crate) nullable: bool,
    pub(crate) generated: bool,
    /// Values may be large: declared as BLOB or CLOB, or not declared at all.
    pub(crate) large: bool,
}

/// A column of an index, with the collation under which the index compares it.
#[derive(Debug, Clone)]
pub(crate) struct IndexColumn {
    pub(crate) name: String,
    pub(crate) collation: String,
}

/// One table.
#[derive(Debug, Clone)]
pub(crate) struct LocalTable {
    pub(crate) columns: Vec<LocalColumn>,
    /// The primary key, in its order. Empty without one.
    pub(crate) key: Vec<IndexColumn>,
    /// UNIQUE constraints and indexes beside the primary key. Those over expressions are left
    /// out: which rows they compare cannot be known from outside.
    pub(crate) unique: Vec<Vec<IndexColumn>>,
    /// The key is another name of the rowid, so SQLite may choose it.
    pub(crate) key_is_rowid: bool,
    /// Chosen keys are never used twice.
    pub(crate) autoincrement: bool,
}

impl LocalTable {
    /// The table of this name; `None` if there is none, or it is a view or virtual.
    pub(crate) fn read(
        connection: &Connection,
        name: &str,
    ) -> rusqlite::Result<Option<LocalTable>> {
        let kind = connection
            .prepare_cached(
                "SELECT wr, strict FROM pragma_table_list(?1)
                 WHERE schema = 'main' AND type = 'table'",
            )?
            .query_row([name], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?)))
            .optional()?;
        let Some((without_rowid, strict)) = kind else {
            return Ok(None);
        };
        let (columns, mut key) = read_columns(connection, name, without_rowid, strict)?;
        let (primary, unique) = read_unique_indexes(connection, name)?;
        let key_is_rowid = !without_rowid && key.len() == 1 && primary.is_none();
        if let Some(primary) = primary {
            key = primary;
        }
        let autoincrement =
            key_is_rowid && connection.column_metadata(Some("main"), name, key[0].name.as_str())?.4;
        Ok(Some(LocalTable { columns, key, unique, key_is_rowid, autoincrement }))
    }

    /// The column of this name, in any case of letters.
    pub(crate) fn column(&self, name: &str) -> Option<&LocalColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }
}

fn read_columns(
    connection: &Connection,
    table: &str,
    without_rowid: bool,
    strict: bool,
) -> rusqlite::Result<(Vec<LocalColumn>, Vec<IndexColumn>)> {
    let mut columns = Vec::new();
    let mut key = Vec::new();
    let mut statement = connection.prepare_cached(
        "SELECT name, type, \"notnull\", pk, hidden FROM pragma_table_xinfo(?1, 'main')",
    )?;
    let mut rows = statement.query([table])?;
    while let Some(row) = rows.next()? {
        let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
        let (not_null, key_position): (bool, i64) = (row.get(2)?, row.get(3)?);
        let upper = declared.to_ascii_uppercase();
        if key_position > 0 {
            key.push((key_position, name.clone()));
        }
        columns.push(LocalColumn {
            affinity: Affinity::of(&declared, strict),
            nullable: !(not_null || without_rowid && key_position > 0),
            generated: row.get::<_, i64>(4)? != 0,
            large: upper.is_empty() || upper.contains("BLOB") || upper.contains("CLOB"),
            name,
        });
    }
    key.sort();
    let binary = |name| IndexColumn { name, collation: "BINARY".into() };
    Ok((columns, key.into_iter().map(|(_, name)| binary(name)).collect()))
}

type Indexes = (Option<Vec<IndexColumn>>, Vec<Vec<IndexColumn>>);

/// The index of the primary key, if it has one of its own, and the others.
fn read_unique_indexes(connection: &Connection, table: &str) -> rusqlite::Result<Indexes> {
    let (mut primary, mut unique) = (None, Vec::new());
    let mut indexes = connection.prepare_cached(
        "SELECT name, origin FROM pragma_index_list(?1, 'main') WHERE \"unique\" ORDER BY name",
    )?;
    let mut rows = indexes.query([table])?;
    while let Some(row) = rows.next()? {
        let (name, origin): (String, String) = (row.get(0)?, row.get(1)?);
        let Some(columns) = read_index(connection, &name)? else { continue };
        if origin == "pk" {
            primary = Some(columns);
        } else {
            unique.push(columns);
        }
    }
    Ok((primary, unique))
}

fn read_index(connection: &Connection, name: &str) -> rusqlite::Result<Option<Vec<IndexColumn>>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, coll FROM pragma_index_xinfo(?1, 'main') WHERE key ORDER BY seqno",
    )?;
    let columns = statement.query_map([name], |row| {
        let column: Option<String> = row.get(0)?;
        let collation = row.get(1)?;
        Ok(column.map(|name| IndexColumn { name, collation }))
    })?;
    columns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> LocalTable {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        LocalTable::read(&connection, "t").unwrap().unwrap()
    }

    #[test]
    fn keys_are_recognized_whatever_their_form() {
        let check = |sql, key: &[&str], is_rowid| {
            let table = read(sql);
            let names: Vec<_> = table.key.iter().map(|column| column.name.as_str()).collect();
            assert_eq!((names.as_slice(), table.key_is_rowid), (key, is_rowid), "{sql}");
        };
        check("CREATE TABLE t(id INTEGER PRIMARY KEY)", &["id"], true);
        check("CREATE TABLE t(id INT PRIMARY KEY)", &["id"], false);
        check("CREATE TABLE t(id INTEGER PRIMARY KEY DESC)", &["id"], false);
        check("CREATE TABLE t(id INTEGER PRIMARY KEY) WITHOUT ROWID", &["id"], false);
        check("CREATE TABLE t(a, b, c, PRIMARY KEY(c, a))", &["c", "a"], false);
        check("CREATE TABLE t(a)", &[], false);
        assert!(read("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT)").autoincrement);
        assert!(!read("CREATE TABLE t(id INTEGER PRIMARY KEY)").autoincrement);
    }

    #[test]
    fn unique_indexes_have_their_collation_and_expressions_are_left_out() {
        let table = read(
            "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, u UNIQUE, v);
             CREATE UNIQUE INDEX i ON t(v COLLATE RTRIM, u) WHERE v > 1;
             CREATE UNIQUE INDEX j ON t(lower(v));",
        );
        assert_eq!(table.key[0].collation, "NOCASE");
        assert_eq!(table.unique.len(), 2);
        assert_eq!(table.unique[0][0].collation, "RTRIM");
    }
}
