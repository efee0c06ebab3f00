//! The system tables of shapes: reads them, and builds the rows that a deployment writes.
//!
//! Both databases have the same tables with the same texts and numbers in them.

use super::identity::Declared;
use super::{Identities, Shape, TableIdentity};
use crate::deploy::format;
use crate::quote::literal;
use crate::sql::{Sql, TextRow, json, text, unreadable};
use model::{Failure, PublishedTable};
use std::collections::{BTreeMap, BTreeSet};

/// A row as texts; numbers too, which the columns' types make numbers again.
pub(super) type Row = TextRow;

/// What a system table of shapes holds: its name, its columns, and how many of these are its key.
pub(super) struct Stored {
    pub(super) name: &'static str,
    columns: &'static [&'static str],
    key: usize,
}

pub(super) const COLUMN: Stored = Stored {
    name: "syncline_column",
    columns: &["column_id", "table_id", "table_name", "column_name"],
    key: 1,
};

pub(super) const SHAPE: Stored = Stored {
    name: "syncline_shape",
    columns: &[
        "fingerprint",
        "table_id",
        "published",
        "columns",
        "deployed_at",
        "deployment",
        "superseded_at",
        "superseded",
    ],
    key: 1,
};

pub(super) const HELD: Stored = Stored {
    name: "syncline_held",
    columns: &[
        "script_version",
        "fingerprint",
        "published",
        "conflict_rule",
        "details",
        "projection",
        "scripts",
    ],
    key: 2,
};

/// Rows of the system table itself.
pub(super) const SYSTEM: Stored =
    Stored { name: "syncline_system", columns: &["name", "value"], key: 1 };

/// Stands for the present time, which the database fills in.
pub(super) const NOW: &str = "now";

/// Names of rows of the system table.
pub(super) const NEXT: &str = "identity_next";
pub(super) const DECLARED: &str = "declared_changes";

/// Everything before a deployment that it has to respect.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(super) identities: Identities,
    pub(super) applied: BTreeSet<Declared>,
    pub(super) shapes: Vec<Shape>,
    pub(super) remotes: Vec<KnownRemote>,
    /// Script versions and their tables as they are deployed.
    pub(super) deployed: Vec<(String, PublishedTable)>,
    /// The last deployment.
    pub(super) deployment: i64,
    /// The rows as they are.
    rows: BTreeMap<&'static str, BTreeSet<Row>>,
}

/// A remote that synchronizes with this database.
#[derive(Debug)]
pub(super) struct KnownRemote {
    pub(super) script_version: String,
    /// The deployment of which it was seen to hold the tables.
    pub(super) held: Option<i64>,
}

impl Past {
    /// Script versions and their tables as they are deployed.
    pub(crate) fn deployed(&self) -> &[(String, PublishedTable)] {
        &self.deployed
    }

    /// Reads the stored shapes.
    pub(crate) fn read<Q: Sql>(sql: &mut Q) -> Result<Past, Failure> {
        let mut past = Past::default();
        if !format::is_deployed(sql)? {
            return Ok(past);
        }
        let mut query = |query: &str| sql.bookkeep("read the shapes", query, &[]);
        let deployment =
            query("SELECT CAST(value AS text) FROM {}syncline_system WHERE name = 'deployment'")?;
        past.deployment = deployment.first().and_then(|row| number(row, 0)).unwrap_or_default();
        let held = "SELECT script_version, CAST(held_deployment AS text) FROM {}syncline_remote";
        for row in query(held)? {
            let (script_version, held) = (text(&row, 0), number(&row, 1));
            past.remotes.push(KnownRemote { script_version, held });
        }
        for row in query("SELECT script_version, published FROM {}syncline_table")? {
            past.deployed.push((text(&row, 0), json(&text(&row, 1))?));
        }
        for stored in [COLUMN, SHAPE, HELD] {
            let columns: Vec<String> =
                stored.columns.iter().map(|name| format!("CAST({name} AS text)")).collect();
            let sql = format!("SELECT {} FROM {{}}{}", columns.join(", "), stored.name);
            past.rows.insert(stored.name, query(&sql)?.into_iter().collect());
        }
        let sql = format!(
            "SELECT name, CAST(value AS text) FROM {{}}syncline_system \
             WHERE name IN ('{NEXT}', '{DECLARED}')"
        );
        past.rows.insert(SYSTEM.name, query(&sql)?.into_iter().collect());
        past.understand()?;
        Ok(past)
    }

    fn understand(&mut self) -> Result<(), Failure> {
        let rows = |table: &Stored| self.rows.get(table.name).into_iter().flatten();
        for row in rows(&SYSTEM) {
            match text(row, 0).as_str() {
                NEXT => self.identities.next = number(row, 1).unwrap_or_default(),
                _ => self.applied = json(&text(row, 1))?,
            }
        }
        for row in rows(&COLUMN) {
            let (Some(id), Some(table)) = (number(row, 0), number(row, 1)) else {
                return Err(unreadable());
            };
            let known = self.identities.tables.entry(text(row, 2));
            let known =
                known.or_insert_with(|| TableIdentity { id: table, columns: BTreeMap::new() });
            if let Some(name) = &row[3] {
                known.columns.insert(name.clone(), id);
            }
        }
        for row in rows(&SHAPE) {
            let (Some(table), Some(deployment)) = (number(row, 1), number(row, 5)) else {
                return Err(unreadable());
            };
            self.shapes.push(Shape {
                published: json(&text(row, 2))?,
                table,
                columns: json(&text(row, 3))?,
                deployed_at: text(row, 4),
                deployment,
                superseded_at: row[6].clone(),
                superseded: number(row, 7),
            });
        }
        Ok(())
    }

    /// The statements that make the rows of a table what is wanted.
    pub(super) fn replace(
        &self,
        prefix: &str,
        table: &Stored,
        wanted: &BTreeSet<Row>,
    ) -> Vec<String> {
        let none = BTreeSet::new();
        let actual = self.rows.get(table.name).unwrap_or(&none);
        let value = |value: &Option<String>| match value {
            Some(text) if text == NOW => "CAST(CURRENT_TIMESTAMP AS text)".to_owned(),
            Some(text) => literal(text),
            None => "NULL".to_owned(),
        };
        let mut statements = Vec::new();
        for row in actual.difference(wanted) {
            let key = table.columns.iter().zip(row).take(table.key);
            let key: Vec<String> =
                key.map(|(name, text)| format!("{name} = {}", value(text))).collect();
            let condition = key.join(" AND ");
            statements.push(format!("DELETE FROM {prefix}{} WHERE {condition}", table.name));
        }
        for row in wanted.difference(actual) {
            let values: Vec<String> = row.iter().map(value).collect();
            let (columns, values) = (table.columns.join(", "), values.join(", "));
            let into = format!("INSERT INTO {prefix}{}", table.name);
            statements.push(format!("{into} ({columns}) VALUES ({values})"));
        }
        statements
    }
}

/// The rows of [`COLUMN`]: a table is the one without a name of a column.
pub(super) fn column_rows(identities: &Identities) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for (name, table) in &identities.tables {
        let row = |id: i64, column: Option<&String>| {
            vec![
                Some(id.to_string()),
                Some(table.id.to_string()),
                Some(name.clone()),
                column.cloned(),
            ]
        };
        rows.insert(row(table.id, None));
        rows.extend(table.columns.iter().map(|(column, id)| row(*id, Some(column))));
    }
    rows
}

/// The row of a shape.
pub(super) fn shape_row(shape: &Shape) -> Row {
    vec![
        Some(shape.published.fingerprint.clone()),
        Some(shape.table.to_string()),
        Some(serde_json::json!(shape.published).to_string()),
        Some(serde_json::json!(shape.columns).to_string()),
        Some(shape.deployed_at.clone()),
        Some(shape.deployment.to_string()),
        shape.superseded_at.clone(),
        shape.superseded.map(|number| number.to_string()),
    ]
}

fn number(row: &Row, column: usize) -> Option<i64> {
    text(row, column).parse().ok()
}
