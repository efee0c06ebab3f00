//! The objects of Syncline in the database, and what was noted about them at the deployment.

use crate::deploy::{self, format};
use crate::postgres::deploy::tables::VERSION;
use crate::postgres::errors::failed;
use crate::postgres::link::{Link, Row};
use crate::quote::literal;
use model::{Code, Failure};
use std::collections::{BTreeMap, BTreeSet};

/// Every object of Syncline with its definition, as the database tells it.
pub(in crate::postgres) const OBJECTS: &str = include_str!("objects.sql");

/// An object by kind, the table it sits on and its name. Logs and functions sit on none.
pub(in crate::postgres) type ObjectId = (String, String, String);

/// What is there.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Installed {
    pub(in crate::postgres) has_schema: bool,
    pub(in crate::postgres) has_system_tables: bool,
    /// What brings those of the layout before to that of today.
    pub(in crate::postgres) system_upgrade: Vec<String>,
    pub(in crate::postgres) objects: BTreeMap<ObjectId, String>,
    /// What was deployed: text and definition.
    pub(in crate::postgres) recorded: BTreeMap<ObjectId, (String, String)>,
    /// The rows of script versions and the like, as the statements that insert them.
    pub(in crate::postgres) rows: BTreeSet<String>,
    /// Tables in SQL whose rows carry versions of transactions that are still to come: they came
    /// from another server by a restore.
    pub(in crate::postgres) from_the_future: BTreeSet<String>,
}

impl Installed {
    pub(in crate::postgres) fn read(link: &mut Link) -> Result<Installed, Failure> {
        let mut present = Installed { has_schema: has_schema(link)?, ..Installed::default() };
        for row in link.query(OBJECTS, &[]).map_err(failed("list the objects"))? {
            let id = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
            present.objects.insert(id, text(&row, 3)?);
        }
        present.has_system_tables = format::is_known(link)?;
        if present.has_system_tables {
            let sql =
                "SELECT kind, table_name, name, sql, definition FROM syncline.syncline_object";
            for row in link.query(sql, &[]).map_err(failed("list the deployed objects"))? {
                let id = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
                present.recorded.insert(id, (text(&row, 3)?, text(&row, 4)?));
            }
            present.rows = deploy::stored_rows(link)?;
            present.system_upgrade = format::upgrade(link)?;
        }
        present.from_the_future = from_the_future(link, &present.objects)?;
        Ok(present)
    }
}

fn has_schema(link: &mut Link) -> Result<bool, Failure> {
    let sql = "SELECT (to_regnamespace('syncline') IS NOT NULL)::text";
    one(link, sql, "look for the schema").map(|found| found.as_deref() == Some("true"))
}

/// The text in the first column of the first row.
pub(in crate::postgres) fn one(
    link: &mut Link,
    sql: &str,
    doing: &str,
) -> Result<Option<String>, Failure> {
    let rows = link.query(sql, &[]).map_err(failed(doing))?;
    rows.first().map(|row| text(row, 0)).transpose()
}

pub(in crate::postgres) fn text(row: &Row, column: usize) -> Result<String, Failure> {
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
