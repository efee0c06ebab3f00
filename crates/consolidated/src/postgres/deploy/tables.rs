//! The user's tables as PostgreSQL describes them.

use crate::deploy::{self, ColumnFacts, ForeignKey, KeyAction, TableFacts};
use crate::postgres::encoding::Encoding;
use crate::postgres::errors::failed;
use crate::postgres::link::Link;
use crate::quote::{ident, literal};
use model::{Code, Failure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One JSON object per relation, everything in one statement: three hundred tables cost no more
/// round trips than one.
const DESCRIBE: &str = include_str!("tables.sql");

/// The column of Syncline at the end of a downloaded table.
pub(in crate::postgres) const VERSION: &str = "syncline_version";

/// Bytes that PostgreSQL adds to a length in a type modifier.
const TYPMOD_HEADER: i32 = 4;

/// PostgreSQL cuts longer names.
const NAME_BYTES_MAX: usize = 63;

/// A relation of the user's.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::postgres) struct UserTable {
    pub(in crate::postgres) schema: String,
    pub(in crate::postgres) name: String,
    /// The letter of `pg_class.relkind`; `r` is an ordinary table.
    pub(in crate::postgres) kind: char,
    /// On disk.
    pub(in crate::postgres) bytes: i64,
    /// A crash empties it.
    unlogged: bool,
    /// From 1; none outside the search path.
    path_position: Option<u32>,
    /// Belongs to an extension, which looks after it.
    of_extension: bool,
    /// Has a parent or children by inheritance, or is a partition.
    inherits: bool,
    /// Has rewrite rules.
    rules: bool,
    /// Rows may be hidden from some roles.
    pub(in crate::postgres) row_security: bool,
    /// Triggers that are not Syncline's.
    pub(in crate::postgres) triggers: Vec<String>,
    pub(in crate::postgres) columns: Vec<UserColumn>,
    /// Column names of the primary key, in key order.
    #[serde(default, deserialize_with = "none_is_empty")]
    pub(in crate::postgres) key: Vec<String>,
    key_deferrable: bool,
    /// All but the one of the primary key and ours.
    pub(in crate::postgres) indexes: Vec<UserIndex>,
    #[serde(rename = "foreign_keys")]
    references: Vec<Reference>,
    #[serde(skip)]
    pub(in crate::postgres) foreign_keys: Vec<ForeignKey>,
    /// Of its database.
    #[serde(skip)]
    pub(in crate::postgres) encoding: Encoding,
}

#[derive(Debug, Clone, Deserialize)]
pub(in crate::postgres) struct UserColumn {
    pub(in crate::postgres) name: String,
    /// As `format_type` writes it, with its schema where it needs one; of a domain the type below.
    pub(in crate::postgres) base_type: String,
    /// The base type without length or scale.
    pub(in crate::postgres) cast: String,
    /// The base type.
    pub(in crate::postgres) oid: u32,
    /// Length, precision and scale as PostgreSQL packs them.
    pub(in crate::postgres) typmod: i32,
    pub(in crate::postgres) domain: bool,
    /// The letter of `pg_type.typtype` of the base type: `b`, `e`, `r`, `m`, `c`.
    pub(in crate::postgres) kind: char,
    array: bool,
    pub(in crate::postgres) not_null: bool,
    pub(in crate::postgres) default: Option<String>,
    /// Computed by the database itself.
    pub(in crate::postgres) generated: bool,
    /// `a` always, `d` by default, empty: no identity column.
    pub(in crate::postgres) identity: String,
    /// With its schema; none for the one of the database.
    pub(in crate::postgres) collation: Option<String>,
    /// Its collation calls texts equal that differ.
    loose: bool,
    /// Why two of its values may be equal and spelled differently, of a column that is part of a
    /// unique index or a foreign key.
    #[serde(default)]
    pub(in crate::postgres) ambiguous: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(in crate::postgres) struct UserIndex {
    pub(in crate::postgres) name: String,
    pub(in crate::postgres) unique: bool,
    /// `None`: an expression.
    pub(in crate::postgres) columns: Vec<Option<String>>,
    pub(in crate::postgres) partial: bool,
    pub(in crate::postgres) tree: bool,
}

/// A foreign key as the database says it.
#[derive(Debug, Clone, Deserialize)]
struct Reference {
    parent_schema: String,
    parent_table: String,
    /// Child column and parent column.
    columns: Vec<(String, String)>,
    on_update: char,
    on_delete: char,
    inherited: bool,
}

fn none_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(from)?.unwrap_or_default())
}

impl UserTable {
    /// The name in models and at remotes: with its schema unless that is the first of the search
    /// path or `public`.
    pub(in crate::postgres) fn published_name(&self) -> String {
        match self.path_position == Some(1) || self.schema == "public" {
            true => self.name.clone(),
            false => format!("{}.{}", self.schema, self.name),
        }
    }

    /// The name in SQL.
    pub(in crate::postgres) fn sql_name(&self) -> String {
        format!("{}.{}", ident(&self.schema), ident(&self.name))
    }

    /// Whether `init` without names should think of it.
    pub(in crate::postgres) fn is_on_path(&self) -> bool {
        self.path_position.is_some() && !self.of_extension
    }
}

impl TableFacts for UserTable {
    type Column = UserColumn;

    fn sql_name(&self) -> String {
        self.sql_name()
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

    /// A single integer is the rowid at remotes.
    fn key_is_number(&self) -> bool {
        let [key] = self.key.as_slice() else { return false };
        self.column(key).is_some_and(|column| {
            column.is_numbered() || ["smallint", "integer", "bigint"].contains(&&*column.cast)
        })
    }

    fn finds_by(&self, columns: &[&str]) -> bool {
        let leads = |names: &[Option<String>]| {
            columns
                .iter()
                .all(|column| names.iter().take(columns.len()).flatten().any(|n| n == column))
        };
        let key: Vec<Option<String>> = self.key.iter().cloned().map(Some).collect();
        leads(&key) || self.indexes.iter().any(|i| i.tree && !i.partial && leads(&i.columns))
    }

    fn renamed(
        &self,
        own: &dyn Fn(&str) -> String,
        of_parent: &dyn Fn(&str, &str) -> String,
    ) -> UserTable {
        let mut renamed = self.clone();
        renamed.columns.iter_mut().for_each(|column| column.name = own(&column.name));
        renamed.key.iter_mut().for_each(|name| *name = own(name));
        for name in renamed.indexes.iter_mut().flat_map(|i| i.columns.iter_mut().flatten()) {
            *name = own(name);
        }
        renamed.foreign_keys.iter_mut().for_each(|key| key.rename(own, of_parent));
        renamed
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
        let fills_itself = self.default.is_some() || self.generated || !self.identity.is_empty();
        self.not_null && !fills_itself
    }

    fn is_ambiguous(&self) -> bool {
        self.ambiguous.is_some()
    }
}

impl UserColumn {
    /// The next number of a sequence, where an insert names no other.
    pub(in crate::postgres) fn is_numbered(&self) -> bool {
        let default = self.default.as_deref();
        !self.identity.is_empty() || default.is_some_and(|default| default.starts_with("nextval("))
    }

    /// The database computes the value of an identity column unless it is set otherwise.
    pub(in crate::postgres) fn always_identity(&self) -> bool {
        self.identity == "a"
    }

    /// Values that differ may be called equal.
    pub(in crate::postgres) fn is_loose(&self) -> bool {
        self.loose
    }

    pub(in crate::postgres) fn is_array(&self) -> bool {
        self.array
    }

    /// Values that are equal to the database are the same letter by letter.
    pub(in crate::postgres) fn is_spelled_in_one_way(&self) -> bool {
        let several = ["numeric", "real", "double precision", "jsonb"];
        !self.compares_as_text() && !several.contains(&self.cast.as_str())
    }

    pub(in crate::postgres) fn is_numeric(&self) -> bool {
        self.cast == "numeric"
    }

    /// The most digits that a numeric column can show, where it has a bound.
    pub(in crate::postgres) fn numeric_digits(&self) -> Option<i32> {
        let (limit, scale) = (self.limit().filter(|_| self.is_numeric())?, self.scale()?);
        let precision = (limit >> 16) & 0xffff;
        Some(precision.max(scale).max(precision - scale))
    }

    /// The length of a text or, packed, precision and scale of a number, where they are limited.
    pub(in crate::postgres) fn limit(&self) -> Option<i32> {
        (self.typmod >= TYPMOD_HEADER).then_some(self.typmod - TYPMOD_HEADER)
    }

    /// The decimals that a numeric column keeps, where it is limited.
    pub(in crate::postgres) fn scale(&self) -> Option<i32> {
        self.limit().map(|packed| ((packed & 0x7ff) ^ 1024) - 1024)
    }

    /// The digits of a second that a time keeps.
    pub(in crate::postgres) fn second_digits(&self) -> Option<u8> {
        (0..6).contains(&self.typmod).then_some(self.typmod as u8)
    }

    /// Two values that are equal to the database may differ letter by letter, or the type knows no
    /// equality at all: such values are compared as text.
    pub(in crate::postgres) fn compares_as_text(&self) -> bool {
        let exact = [
            "smallint",
            "integer",
            "bigint",
            "real",
            "double precision",
            "numeric",
            "boolean",
            "text",
            "character varying",
            "bytea",
            "date",
            "time",
            "timestamp",
            "uuid",
            "oid",
            "jsonb",
        ];
        let name = self.base_type.split('(').next().unwrap_or_default();
        let name = name.split(" with").next().unwrap_or_default();
        self.loose || self.array || !(self.kind == 'e' || exact.contains(&name.trim_end()))
    }
}

fn action(letter: char) -> KeyAction {
    match letter {
        'r' => KeyAction::Restrict,
        'c' => KeyAction::Cascade,
        'n' => KeyAction::SetNull,
        'd' => KeyAction::SetDefault,
        _ => KeyAction::NoAction,
    }
}

/// Every relation of the user's, by published name. `path` is the search path.
pub(in crate::postgres) fn read(
    link: &mut Link,
    path: &[String],
) -> Result<BTreeMap<String, UserTable>, Failure> {
    let schemas: Vec<String> = path.iter().map(|schema| literal(schema)).collect();
    let sql = DESCRIBE.replace("{path}", &format!("ARRAY[{}]", schemas.join(", ")));
    let rows = link.query(&sql, &[]).map_err(failed("describe the tables"))?;
    let mut tables = BTreeMap::new();
    for row in rows {
        let text: String = row.try_get(0).map_err(|error| unreadable().source(error))?;
        let mut table: UserTable =
            serde_json::from_str(&text).map_err(|error| unreadable().source(error))?;
        table.encoding = link.encoding();
        let name = table.published_name();
        // `"a.b"` and the `b` of schema `a` have one name: the table of the nearer schema has it.
        match tables.get(&name) {
            Some(known) if nearness(known) <= nearness(&table) => {}
            _ => drop(tables.insert(name, table)),
        }
    }
    name_parents(&mut tables);
    Ok(tables)
}

fn nearness(table: &UserTable) -> u32 {
    table.path_position.unwrap_or(u32::MAX)
}

fn unreadable() -> Failure {
    Failure::new(Code::Bug, "the description of a table does not parse")
}

/// Makes the foreign keys of what the database says, with the published names of their parents.
fn name_parents(tables: &mut BTreeMap<String, UserTable>) {
    let names: BTreeMap<(String, String), String> = tables
        .iter()
        .map(|(name, table)| ((table.schema.clone(), table.name.clone()), name.clone()))
        .collect();
    let named = |reference: Reference| {
        let parent = (reference.parent_schema, reference.parent_table);
        ForeignKey {
            parent: names.get(&parent).cloned().unwrap_or(parent.1),
            columns: reference.columns,
            on_update: action(reference.on_update),
            on_delete: action(reference.on_delete),
            inherited: reference.inherited,
        }
    };
    for table in tables.values_mut() {
        table.foreign_keys = std::mem::take(&mut table.references).into_iter().map(named).collect();
    }
}

/// The published name and the table that `name` stands for, with or without its schema.
pub(in crate::postgres) fn find<'a>(
    tables: &'a BTreeMap<String, UserTable>,
    name: &str,
) -> Option<(&'a String, &'a UserTable)> {
    let spelled = |table: &UserTable| {
        name.strip_prefix(&table.schema).and_then(|rest| rest.strip_prefix('.'))
            == Some(table.name.as_str())
    };
    tables.get_key_value(name).or_else(|| tables.iter().find(|(_, table)| spelled(table)))
}

/// Why the table cannot be synchronized, if it cannot.
pub(in crate::postgres) fn unsupported(table: &UserTable) -> Option<Failure> {
    let name = table.published_name();
    let fault = |code, why: &str| {
        Some(Failure::new(code, format!("table {name} {why}")).table(name.as_str()))
    };
    let kind = match table.kind {
        'r' => None,
        'p' => Some("is partitioned"),
        'v' => Some("is a view"),
        'm' => Some("is a materialized view"),
        _ => Some("is a foreign table"),
    };
    if let Some(kind) = kind {
        return fault(Code::UnsupportedTable, kind);
    }
    if table.inherits {
        return fault(Code::UnsupportedTable, "is a partition, or inherits or is inherited from");
    }
    if table.key.is_empty() {
        return fault(Code::NoPrimaryKey, "has no primary key");
    }
    let why = if table.key_deferrable {
        "has a primary key that is DEFERRABLE"
    } else if table.unlogged {
        "is unlogged: a crash empties it without a trace"
    } else if table.rules {
        "has rewrite rules"
    } else if table.columns.iter().any(|c| table.key.contains(&c.name) && c.generated) {
        "has a generated column in its primary key"
    } else if table.columns.iter().any(|column| column.name.contains(['}', '{'])) {
        "has a brace in a column name"
    } else if table.columns.iter().any(|column| column.kind == 'c' || column.kind == 'p') {
        "has a column of a composite type"
    } else if deploy::same_but_for_case(table.columns.iter().map(|column| column.name.as_str()))
        .is_some()
    {
        "has columns whose names differ only in letter case, which are equal in SQLite"
    } else if ["sqlite_", "syncline_"]
        .iter()
        .any(|start| name.to_ascii_lowercase().starts_with(start))
    {
        "has a name that is reserved at remotes"
    } else {
        return None;
    };
    fault(Code::UnsupportedTable, why)
}

/// `start` and `name`, shortened with a digest where PostgreSQL would cut it.
pub(in crate::postgres) fn bounded_name(start: &str, name: &str) -> String {
    let whole = format!("{start}{name}");
    if whole.len() <= NAME_BYTES_MAX {
        return whole;
    }
    let digest = &crate::digest::digest(&[name])[..12];
    let mut end = NAME_BYTES_MAX - digest.len() - 1;
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}_{digest}", &whole[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_distinct() {
        let long = "ä".repeat(31);
        let (one, two) = (format!("{long}1"), format!("{long}2"));
        let (one, two) =
            (bounded_name("syncline_gone_", &one), bounded_name("syncline_gone_", &two));
        assert!(one.len() <= NAME_BYTES_MAX && two.len() <= NAME_BYTES_MAX && one != two);
        assert_eq!(bounded_name("syncline_gone_", "order"), "syncline_gone_order");
    }
}
