//! The objects of Syncline in the database, and what was noted about them at the deployment.

use super::errors::failed;
use super::link::{Link, Row};
use super::migration;
use super::plan::{Plan, VersionPlan};
use super::tables::VERSION;
use crate::quote::literal;
use model::{Code, Failure, PublishedTable};
use std::collections::{BTreeMap, BTreeSet};

/// The layout of the system tables that this program makes and understands.
pub(super) const SYSTEM_FORMAT: i64 = 5;

/// Every object of Syncline with its definition, as the database tells it.
pub(super) const OBJECTS: &str = include_str!("objects.sql");

/// An object by kind, the table it sits on and its name. Logs and functions sit on none.
pub(super) type ObjectId = (String, String, String);

/// What is there.
#[derive(Debug, Default)]
pub(super) struct Present {
    pub(super) has_schema: bool,
    /// None without system tables.
    pub(super) format: Option<i64>,
    pub(super) objects: BTreeMap<ObjectId, String>,
    /// Tables and columns of the system tables.
    pub(super) system_columns: BTreeSet<(String, String)>,
    /// What was deployed: text and definition.
    pub(super) recorded: BTreeMap<ObjectId, (String, String)>,
    /// The rows of script versions and the like, as the statements that insert them.
    pub(super) rows: BTreeSet<String>,
    /// Tables in SQL whose rows carry versions of transactions that are still to come: they came
    /// from another server by a restore.
    pub(super) from_the_future: BTreeSet<String>,
}

impl Present {
    pub(super) fn read(link: &mut Link) -> Result<Present, Failure> {
        let mut present = Present { has_schema: has_schema(link)?, ..Present::default() };
        for row in link.query(OBJECTS, &[]).map_err(failed("list the objects"))? {
            let id = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
            present.objects.insert(id, text(&row, 3)?);
        }
        present.format = format(link)?;
        if present.format.is_some() {
            let sql =
                "SELECT kind, table_name, name, sql, definition FROM syncline.syncline_object";
            for row in link.query(sql, &[]).map_err(failed("list the deployed objects"))? {
                let id = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
                present.recorded.insert(id, (text(&row, 3)?, text(&row, 4)?));
            }
            present.system_columns = migration::columns(link)?;
            present.rows = deployed_rows(link)?;
        }
        present.from_the_future = from_the_future(link, &present.objects)?;
        Ok(present)
    }
}

/// Whether there are system tables.
pub(super) fn is_deployed(link: &mut Link) -> Result<bool, Failure> {
    let sql = "SELECT (to_regclass('syncline.syncline_system') IS NOT NULL)::text";
    one(link, sql, "look for the system tables").map(|found| found.as_deref() == Some("true"))
}

/// Refuses system tables that a newer program made (trap 18).
pub(super) fn require_known_format(link: &mut Link) -> Result<(), Failure> {
    format(link)?.map_or(Ok(()), known_format)
}

fn known_format(format: i64) -> Result<(), Failure> {
    let text =
        format!("the system tables have format {format}; this program knows {SYSTEM_FORMAT}");
    match format > SYSTEM_FORMAT {
        true => Err(Failure::new(Code::DeployedByNewer, text)),
        false => Ok(()),
    }
}

/// The same for commands that work with the system tables: those of an older program need a deploy.
pub(super) fn require_present_format(format: i64) -> Result<(), Failure> {
    known_format(format)?;
    let text =
        format!("the system tables have format {format}; this program needs {SYSTEM_FORMAT}");
    match format < SYSTEM_FORMAT {
        true => Err(Failure::new(Code::NotDeployed, text)),
        false => Ok(()),
    }
}

pub(super) fn format(link: &mut Link) -> Result<Option<i64>, Failure> {
    if !is_deployed(link)? {
        return Ok(None);
    }
    let sql = "SELECT value FROM syncline.syncline_system WHERE name = 'format'";
    let format = one(link, sql, "read the format of the system tables")?;
    Ok(format.and_then(|format| format.parse().ok()))
}

fn has_schema(link: &mut Link) -> Result<bool, Failure> {
    let sql = "SELECT (to_regnamespace('syncline') IS NOT NULL)::text";
    one(link, sql, "look for the schema").map(|found| found.as_deref() == Some("true"))
}

/// The text in the first column of the first row.
pub(super) fn one(link: &mut Link, sql: &str, doing: &str) -> Result<Option<String>, Failure> {
    let rows = link.query(sql, &[]).map_err(failed(doing))?;
    rows.first().map(|row| text(row, 0)).transpose()
}

pub(super) fn text(row: &Row, column: usize) -> Result<String, Failure> {
    row.try_get(column).map_err(|error| {
        Failure::new(Code::Bug, "the database answered with another type").source(error)
    })
}

/// Tables, by their names in SQL, with versions that no transaction of this server has had yet.
fn from_the_future(
    link: &mut Link,
    objects: &BTreeMap<ObjectId, String>,
) -> Result<BTreeSet<String>, Failure> {
    let tracked = objects.keys().filter(|(kind, ..)| kind == "COLUMN").map(|(_, table, _)| table);
    let probes = tracked.map(|table| {
        format!(
            "SELECT {} WHERE EXISTS (SELECT FROM {table} WHERE {VERSION} >= \
             pg_snapshot_xmax(pg_current_snapshot()))",
            literal(table)
        )
    });
    let sql = probes.collect::<Vec<_>>().join("\nUNION ALL\n");
    if sql.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows = link.query(&sql, &[]).map_err(failed("look for versions of another server"))?;
    rows.iter().map(|row| text(row, 0)).collect()
}

/// The tables that are deployed, each with the columns of its key.
pub(super) fn deployed_keys(link: &mut Link) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let sql = "SELECT published FROM syncline.syncline_table";
    let mut keys = Vec::new();
    for row in link.query(sql, &[]).map_err(failed("read what is deployed"))? {
        let table: PublishedTable = serde_json::from_str(&text(&row, 0)?).map_err(|error| {
            Failure::new(Code::Drift, "the system tables differ from those that deploy created")
                .source(error)
        })?;
        let columns = table.key.iter().filter_map(|at| table.columns.get(usize::from(*at)));
        keys.push((table.name.clone(), columns.cloned().collect()));
    }
    Ok(keys)
}

fn deployed_rows(link: &mut Link) -> Result<BTreeSet<String>, Failure> {
    let mut statements = BTreeSet::new();
    for (table, columns, position) in [
        ("syncline_script_version", "script_version, position::text", true),
        ("syncline_publication", "script_version, publication, table_name", false),
        (
            "syncline_table",
            "script_version, table_name, published, conflict_rule, details, position::text",
            true,
        ),
        ("syncline_script", "script_version, table_name, event, script", false),
    ] {
        let sql = format!("SELECT {columns} FROM syncline.{table}");
        for row in link.query(&sql, &[]).map_err(failed("read what is deployed"))? {
            let mut values =
                (0..row.len()).map(|at| text(&row, at)).collect::<Result<Vec<_>, _>>()?;
            let position = if position { values.pop() } else { None };
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            statements.insert(insert(table, &values, position.as_deref()));
        }
    }
    Ok(statements)
}

/// The rows of a plan as the statements that insert them.
pub(super) fn planned_rows(plan: &Plan) -> BTreeSet<String> {
    let versions = plan.versions.iter().enumerate();
    versions.flat_map(|(position, version)| version_rows(position, version)).collect()
}

fn version_rows(position: usize, version: &VersionPlan) -> Vec<String> {
    let name = version.script_version.as_str();
    let at = position.to_string();
    let mut rows = vec![insert("syncline_script_version", &[name], Some(&at))];
    for (publication, tables) in &version.publications {
        for table in tables {
            rows.push(insert("syncline_publication", &[name, publication.as_str(), table], None));
        }
    }
    for (position, table) in version.tables.iter().enumerate() {
        let published = serde_json::json!(table.outward).to_string();
        let details = serde_json::json!(table.details).to_string();
        let values = [name, &table.published.name, &published, &table.conflict_rule, &details];
        rows.push(insert("syncline_table", &values, Some(&position.to_string())));
        for (event, script) in &table.scripts {
            let values = [name, &table.published.name, event.name(), script];
            rows.push(insert("syncline_script", &values, None));
        }
    }
    rows
}

/// The statement that inserts a row; `position` is the last column, or the third of a table.
fn insert(table: &str, values: &[&str], position: Option<&str>) -> String {
    let mut values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    let at = values.len().min(2);
    values.splice(at..at, position.map(str::to_owned));
    format!("INSERT INTO syncline.{table} VALUES ({})", values.join(", "))
}
