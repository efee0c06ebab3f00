//! The user's tables as SQLite describes them.

use crate::deploy::{ColumnFacts, ForeignKey, KeyAction, TableFacts};
use crate::quote::ident;
use crate::sqlite::errors::failed;
use model::{Code, Failure};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A base table of the user's.
#[derive(Debug, Clone)]
pub(in crate::sqlite) struct UserTable {
    pub(in crate::sqlite) name: String,
    /// The text that created it.
    pub(in crate::sqlite) sql: String,
    pub(in crate::sqlite) columns: Vec<UserColumn>,
    /// Column names of the primary key, in key order. Empty without one.
    pub(in crate::sqlite) key: Vec<String>,
    /// The index of the key, where it is one that a comparison of the key's columns can use.
    pub(in crate::sqlite) key_index: Option<String>,
    pub(in crate::sqlite) without_rowid: bool,
    pub(in crate::sqlite) strict: bool,
    /// Ordinary table; virtual tables and their shadows cannot be synchronized.
    pub(in crate::sqlite) ordinary: bool,
    pub(in crate::sqlite) uniques: Vec<UniqueIndex>,
    /// Indexes made by CREATE INDEX: name, text, and whether only plain columns are in it.
    pub(in crate::sqlite) indexes: Vec<UserIndex>,
    pub(in crate::sqlite) foreign_keys: Vec<ForeignKey>,
    /// Triggers that are not Syncline's.
    pub(in crate::sqlite) has_triggers: bool,
    /// Text is stored byte for byte: the database is not one of UTF-16.
    pub(in crate::sqlite) utf8: bool,
}

#[derive(Debug, Clone)]
pub(in crate::sqlite) struct UserColumn {
    pub(in crate::sqlite) name: String,
    pub(in crate::sqlite) declared_type: String,
    pub(in crate::sqlite) not_null: bool,
    pub(in crate::sqlite) default: Option<String>,
    pub(in crate::sqlite) collation: String,
    /// Computed by the database itself.
    pub(in crate::sqlite) generated: bool,
}

/// A UNIQUE constraint or index that is not the primary key.
#[derive(Debug, Clone)]
pub(in crate::sqlite) struct UniqueIndex {
    /// Columns with the collation that decides about equality. `None`: an expression.
    pub(in crate::sqlite) columns: Vec<Option<(String, String)>>,
    pub(in crate::sqlite) partial: bool,
}

#[derive(Debug, Clone)]
pub(in crate::sqlite) struct UserIndex {
    pub(in crate::sqlite) sql: String,
    pub(in crate::sqlite) unique: bool,
    /// The plain columns; `None` where expressions or a condition are in it.
    pub(in crate::sqlite) columns: Option<Vec<String>>,
}

impl UserTable {
    /// The column of the key if it is the rowid under another name, or may be.
    pub(in crate::sqlite) fn rowid_key(&self) -> Option<&str> {
        let [key] = self.key.as_slice() else { return None };
        let column = self.column(key)?;
        let integer = column.declared_type.eq_ignore_ascii_case("INTEGER");
        (integer && !self.without_rowid).then_some(key)
    }

    /// Key columns that the database lets be NULL; such rows have no identity.
    pub(in crate::sqlite) fn nullable_key(&self) -> Vec<&str> {
        let integer_key = |column: &UserColumn| {
            self.key.len() == 1 && column.declared_type.eq_ignore_ascii_case("INTEGER")
        };
        self.key
            .iter()
            .filter_map(|name| self.column(name))
            .filter(|column| !self.without_rowid && !column.not_null && !integer_key(column))
            .map(|column| column.name.as_str())
            .collect()
    }
}

impl TableFacts for UserTable {
    type Column = UserColumn;

    fn sql_name(&self) -> String {
        ident(&self.name)
    }

    fn columns(&self) -> &[UserColumn] {
        &self.columns
    }

    fn key(&self) -> &[String] {
        &self.key
    }

    fn foreign_keys(&self) -> &[ForeignKey] {
        &self.foreign_keys
    }

    fn key_is_number(&self) -> bool {
        self.rowid_key().is_some()
    }

    fn finds_by(&self, columns: &[&str]) -> bool {
        let begins = |index: &[String]| {
            index.len() >= columns.len()
                && index[..columns.len()].iter().all(|column| columns.contains(&column.as_str()))
        };
        let mut plain = self.indexes.iter().filter_map(|index| index.columns.as_deref());
        let unique = self.uniques.iter().filter(|unique| !unique.partial).filter_map(|unique| {
            let columns = unique.columns.iter();
            columns.map(|c| c.as_ref().map(|(name, _)| name.clone())).collect::<Option<Vec<_>>>()
        });
        begins(&self.key) || plain.any(begins) || { unique }.any(|columns| begins(&columns))
    }

    /// Its text and those of its indexes are of the old names, so there are none.
    fn renamed(
        &self,
        own: &dyn Fn(&str) -> String,
        of_parent: &dyn Fn(&str, &str) -> String,
    ) -> UserTable {
        let mut renamed = self.clone();
        renamed.sql.clear();
        renamed.indexes.clear();
        renamed.columns.iter_mut().for_each(|column| column.name = own(&column.name));
        renamed.key.iter_mut().for_each(|name| *name = own(name));
        for (name, _) in renamed.uniques.iter_mut().flat_map(|u| u.columns.iter_mut().flatten()) {
            *name = own(name);
        }
        renamed.foreign_keys.iter_mut().for_each(|key| key.rename(own, of_parent));
        renamed
    }

    /// In any letter case.
    fn referred(&self, name: &str) -> Option<&UserColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }
}

impl ColumnFacts for UserColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_generated(&self) -> bool {
        self.generated
    }

    fn must_be_given(&self) -> bool {
        self.not_null && self.default.is_none() && !self.generated
    }

    fn is_ambiguous(&self) -> bool {
        false
    }
}

/// Every table of the database but SQLite's and our own, by name.
pub(in crate::sqlite) fn read(
    connection: &Connection,
) -> Result<BTreeMap<String, UserTable>, Failure> {
    let encoding: String = connection
        .query_row("PRAGMA encoding", [], |row| row.get(0))
        .map_err(failed("read the encoding"))?;
    let mut statement = connection
        .prepare(
            "SELECT name, type, wr, strict FROM pragma_table_list
             WHERE schema = 'main' AND type IN ('table', 'virtual', 'shadow')
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
               AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'",
        )
        .map_err(failed("list the tables"))?;
    let listed = statement
        .query_map([], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, bool>(2)?,
                row.get::<_, bool>(3)?,
            ))
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(failed("list the tables"))?;
    let schema = Schema::read(connection).map_err(failed("list the tables"))?;
    let mut tables = BTreeMap::new();
    for (name, kind, without_rowid, strict) in listed {
        let Some(sql) = schema.sql.get(&name).cloned() else { continue };
        let ordinary = kind == "table";
        let mut table = UserTable {
            name: name.clone(),
            sql: sql.unwrap_or_default(),
            columns: Vec::new(),
            key: Vec::new(),
            key_index: None,
            without_rowid,
            strict,
            ordinary,
            uniques: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            has_triggers: schema.triggered.contains(&name.to_ascii_lowercase()),
            utf8: encoding == "UTF-8",
        };
        if ordinary {
            describe(connection, &schema, &mut table)
                .map_err(|error| failed("describe a table")(error).table(name.as_str()))?;
        }
        tables.insert(name, table);
    }
    resolve_implicit_parents(&mut tables);
    Ok(tables)
}

/// What is in `sqlite_schema`, which SQLite has no index for: with a thousand tables to look there
/// for each of them took seconds.
struct Schema {
    /// The SQL of tables and indexes, by name.
    sql: HashMap<String, Option<String>>,
    /// Tables with triggers that are not ours, in lower case.
    triggered: HashSet<String>,
}

impl Schema {
    fn read(connection: &Connection) -> rusqlite::Result<Schema> {
        let mut schema = Schema { sql: HashMap::new(), triggered: HashSet::new() };
        let mut statement =
            connection.prepare_cached("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
            if kind != "trigger" {
                schema.sql.insert(name, row.get(3)?);
            } else if !name.to_ascii_lowercase().starts_with("syncline_") {
                schema.triggered.insert(row.get::<_, String>(2)?.to_ascii_lowercase());
            }
        }
        Ok(schema)
    }
}

fn describe(
    connection: &Connection,
    schema: &Schema,
    table: &mut UserTable,
) -> rusqlite::Result<()> {
    let mut keyed: Vec<(i64, String)> = Vec::new();
    let mut statement = connection.prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1)",
    )?;
    let mut rows = statement.query([&table.name])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let position: i64 = row.get(4)?;
        if position > 0 {
            keyed.push((position, name.clone()));
        }
        let (_, collation, ..) =
            connection.column_metadata(None, table.name.as_str(), name.as_str())?;
        let collation = collation.map_or("BINARY".into(), |c| c.to_string_lossy().into_owned());
        table.columns.push(UserColumn {
            declared_type: row.get(1)?,
            not_null: row.get(2)?,
            default: row.get(3)?,
            generated: row.get::<_, i64>(5)? != 0,
            collation,
            name,
        });
    }
    keyed.sort();
    table.key = keyed.into_iter().map(|(_, name)| name).collect();
    describe_indexes(connection, schema, table)?;
    describe_foreign_keys(connection, table)
}

/// The tables with triggers that are not Syncline's, in lower case.
pub(in crate::sqlite) fn with_user_triggers(
    connection: &Connection,
) -> rusqlite::Result<HashSet<String>> {
    Ok(Schema::read(connection)?.triggered)
}

/// Whether the table has triggers that are not Syncline's.
pub(in crate::sqlite) fn has_user_triggers(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT count(*) > 0 FROM sqlite_schema
             WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
               AND name NOT LIKE 'syncline\\_%' ESCAPE '\\'",
        )?
        .query_row([table], |row| row.get(0))
}

fn describe_indexes(
    connection: &Connection,
    schema: &Schema,
    table: &mut UserTable,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT name, \"unique\", origin, partial FROM pragma_index_list(?1) ORDER BY name",
    )?;
    let mut rows = statement.query([&table.name])?;
    while let Some(row) = rows.next()? {
        let (name, unique): (String, bool) = (row.get(0)?, row.get(1)?);
        let (origin, partial): (String, bool) = (row.get(2)?, row.get(3)?);
        let mut columns = Vec::new();
        let mut parts = connection
            .prepare_cached("SELECT cid, name, coll FROM pragma_index_xinfo(?1) WHERE key = 1")?;
        let mut part = parts.query([&name])?;
        while let Some(part) = part.next()? {
            let plain = part.get::<_, i64>(0)? >= 0;
            columns.push(match plain {
                true => Some((part.get::<_, String>(1)?, part.get::<_, String>(2)?)),
                false => None,
            });
        }
        if let Some(sql) = schema.sql.get(&name).cloned().flatten() {
            let plain: Option<Vec<String>> =
                columns.iter().map(|c| c.as_ref().map(|(name, _)| name.clone())).collect();
            let columns = plain.filter(|_| !partial);
            table.indexes.push(UserIndex { sql, unique, columns });
        }
        let as_declared = |(name, collation): &(String, String)| {
            table.column(name).is_some_and(|column| column.collation == *collation)
        };
        if origin == "pk" && !table.without_rowid && columns.iter().flatten().all(as_declared) {
            table.key_index = Some(name);
        }
        if unique && origin != "pk" {
            table.uniques.push(UniqueIndex { columns, partial });
        }
    }
    Ok(())
}

fn describe_foreign_keys(connection: &Connection, table: &mut UserTable) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete
         FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let mut rows = statement.query([&table.name])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        // An empty parent column means the parent's primary key; it is filled in later.
        let columns = (row.get(2)?, row.get::<_, Option<String>>(3)?.unwrap_or_default());
        if last == Some(id) {
            if let Some(key) = table.foreign_keys.last_mut() {
                key.columns.push(columns);
            }
        } else {
            table.foreign_keys.push(ForeignKey {
                parent: row.get(1)?,
                columns: vec![columns],
                on_update: KeyAction::from_name(&row.get::<_, String>(4)?),
                on_delete: KeyAction::from_name(&row.get::<_, String>(5)?),
                inherited: false,
            });
        }
        last = Some(id);
    }
    Ok(())
}

/// Gives parents their name as declared and implicit parent columns the parent's key.
fn resolve_implicit_parents(tables: &mut BTreeMap<String, UserTable>) {
    let keys: BTreeMap<String, (String, Vec<String>)> = tables
        .values()
        .map(|t| (t.name.to_ascii_lowercase(), (t.name.clone(), t.key.clone())))
        .collect();
    for table in tables.values_mut() {
        for foreign_key in &mut table.foreign_keys {
            let Some((name, key)) = keys.get(&foreign_key.parent.to_ascii_lowercase()) else {
                continue;
            };
            foreign_key.parent = name.clone();
            for (position, (_, to)) in foreign_key.columns.iter_mut().enumerate() {
                if to.is_empty() {
                    *to = key.get(position).cloned().unwrap_or_default();
                }
            }
        }
    }
}

/// The table named `name`, exactly or else by SQLite's case-blind rule.
pub(in crate::sqlite) fn find<'a>(
    tables: &'a BTreeMap<String, UserTable>,
    name: &str,
) -> Option<&'a UserTable> {
    tables.get(name).or_else(|| tables.values().find(|table| table.name.eq_ignore_ascii_case(name)))
}

/// The tables behind a virtual table are its own business.
pub(in crate::sqlite) fn is_shadow(
    table: &UserTable,
    user_tables: &BTreeMap<String, UserTable>,
) -> bool {
    let owner = table.name.rsplit_once('_').and_then(|(owner, _)| user_tables.get(owner));
    !table.ordinary && owner.is_some_and(|owner| !owner.ordinary)
}

/// Why the table cannot be synchronized, if it cannot.
pub(in crate::sqlite) fn unsupported(table: &UserTable) -> Option<Failure> {
    let fault = |code, why: &str| {
        Some(Failure::new(code, format!("table {} {why}", table.name)).table(table.name.as_str()))
    };
    if !table.ordinary {
        return fault(Code::UnsupportedTable, "is a virtual table");
    }
    if table.key.is_empty() {
        return fault(Code::NoPrimaryKey, "has no primary key");
    }
    let key_generated =
        table.key.iter().any(|name| table.column(name).is_some_and(|column| column.generated));
    if key_generated {
        return fault(Code::UnsupportedTable, "has a generated column in its primary key");
    }
    if table.columns.iter().any(|column| column.name.contains(['}', '{'])) {
        return fault(Code::UnsupportedTable, "has a brace in a column name");
    }
    None
}
