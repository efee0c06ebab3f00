//! Inserts, updates and deletes of one row, as the center or a remote spells them.

use super::catalog::Table;
use super::values::Value;
use harness::Dialect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    Center(Dialect),
    Remote,
}

impl Spelling {
    fn literal(self, value: &Value) -> String {
        match self {
            Spelling::Center(dialect) => value.literal(dialect),
            Spelling::Remote => value.literal(Dialect::Sqlite),
        }
    }

    pub(crate) fn table(self, name: &str) -> String {
        match (self, name.split_once('.')) {
            (Spelling::Center(Dialect::Postgres), Some((schema, name))) => {
                format!("{}.{}", quoted(schema), quoted(name))
            }
            (Spelling::Center(Dialect::Postgres), None) => format!("public.{}", quoted(name)),
            _ => quoted(name),
        }
    }

    fn equals(self, column: &str, value: &Value) -> String {
        format!("{} = {}", quoted(column), self.literal(value))
    }

    /// The condition that only this row meets.
    fn key(self, table: &Table, row: &[Value]) -> String {
        let of = |column: &String| self.equals(column, &row[table.column_position(column)]);
        table.key.iter().map(of).collect::<Vec<_>>().join(" AND ")
    }

    pub(crate) fn insert(self, table: &Table, row: &[Value]) -> String {
        let names: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
        let values: Vec<String> = row.iter().map(|value| self.literal(value)).collect();
        let is_identity = table.columns.iter().any(|column| column.is_always_identity);
        let overriding = match self != Spelling::Remote && is_identity {
            true => " OVERRIDING SYSTEM VALUE",
            false => "",
        };
        let (table, names, values) = (self.table(&table.name), names.join(", "), values.join(", "));
        format!("INSERT INTO {table} ({names}){overriding} VALUES ({values})")
    }

    pub(crate) fn update(self, table: &Table, row: &[Value], to: &[(usize, Value)]) -> String {
        let of = |(at, value): &(usize, Value)| self.equals(&table.columns[*at].name, value);
        let changes: Vec<String> = to.iter().map(of).collect();
        let (name, key) = (self.table(&table.name), self.key(table, row));
        format!("UPDATE {name} SET {} WHERE {key}", changes.join(", "))
    }

    pub(crate) fn delete(self, table: &Table, row: &[Value]) -> String {
        format!("DELETE FROM {} WHERE {}", self.table(&table.name), self.key(table, row))
    }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
