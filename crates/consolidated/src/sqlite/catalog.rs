//! What is deployed, read once per connection and again when the deployment number moves.

use super::affinity::Affinity;
use super::check;
use super::deploy::{require_present_format, table_exists};
use super::errors::failed;
use crate::catalog::{self, DeployedRows};
use crate::sync_model::Claim;
use model::{Code, DatabaseId, Failure};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

/// What this backend notes of a table when it is deployed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TableDetails {
    /// What the table's selection is; empty if it has all rows.
    pub(super) selection: String,
    /// The claims that decide about it, as a script spells them.
    pub(super) claims: Vec<Claim>,
    /// The tables whose logs its downloads look at, itself first; empty if it alone.
    pub(super) logs: Vec<String>,
    /// Nobody knows what leaves and enters, so all of it is sent in every synchronization.
    pub(super) sent_afresh: bool,
    /// An upload may move a row out of its own subscription.
    pub(super) may_leave: bool,
    /// How each published column stores what it is given; empty where that is not all that decides
    /// what an uploaded row becomes.
    pub(super) affinities: Vec<Affinity>,
    /// The published column whose value alone decides whether a row is covered, where no trigger
    /// can change it.
    pub(super) decider: Option<u16>,
    /// What the database calls the published columns, where remotes call some otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) local: Vec<String>,
}

impl TableDetails {
    /// True when a fence stands around the rows of a remote (S7).
    pub(super) fn is_fenced(&self) -> bool {
        !self.selection.is_empty()
    }
}

/// One table of a script version, ready to run.
pub(super) type CatalogTable = catalog::CatalogTable<TableDetails>;

/// The deployment as one connection knows it.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) deployed: catalog::Catalog<TableDetails>,
    /// SQLite's own count of schema changes when the objects were last compared.
    schema_version: i64,
}

impl Catalog {
    /// Reads the deployment, and refuses one whose objects are no longer what they were.
    pub(super) fn load(connection: &Connection) -> Result<Catalog, Failure> {
        if !table_exists(connection, "syncline_system")? {
            return Err(Failure::new(Code::NotDeployed, "nothing is deployed in this database"));
        }
        require_present_format(connection)?;
        let database_id = connection
            .query_row("SELECT value FROM syncline_system WHERE name = 'database_id'", [], |row| {
                row.get(0)
            })
            .map_err(failed("read the database's identity"))?;
        let rows = DeployedRows {
            versions: read(
                connection,
                "SELECT script_version FROM syncline_script_version ORDER BY position",
                |row| row.get(0),
            )?,
            publications: read(
                connection,
                "SELECT script_version, publication, table_name FROM syncline_publication
                 ORDER BY publication",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?,
            tables: read(
                connection,
                "SELECT script_version, published, conflict_rule, details FROM syncline_table
                 ORDER BY position",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?,
            scripts: read(
                connection,
                "SELECT script_version, table_name, event, script FROM syncline_script",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?,
            shapes: read(
                connection,
                "SELECT published, CAST(table_id AS text), columns, CAST(superseded AS text)
                 FROM syncline_shape",
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )?,
            held: read(
                connection,
                "SELECT script_version, fingerprint, published, conflict_rule, details,
                     projection, scripts FROM syncline_held",
                |row| {
                    let text = |at| row.get::<_, String>(at);
                    Ok((text(0)?, text(1)?, text(2)?, text(3)?, text(4)?, text(5)?, text(6)?))
                },
            )?,
        };
        let deployed =
            catalog::Catalog::new(deployment(connection)?, DatabaseId(database_id), rows)?;
        let mut catalog = Catalog { deployed, schema_version: 0 };
        catalog.verify(connection)?;
        Ok(catalog)
    }

    /// Compares our objects again if somebody changed the schema since the last time.
    pub(super) fn verify(&mut self, connection: &Connection) -> Result<(), Failure> {
        let now: i64 = connection
            .query_row("PRAGMA schema_version", [], |row| row.get(0))
            .map_err(failed("read the schema version"))?;
        if now == self.schema_version {
            return Ok(());
        }
        if let Some(drift) = check::drift(connection)?.into_iter().next() {
            return Err(Failure::new(Code::Drift, drift.message));
        }
        self.schema_version = now;
        Ok(())
    }
}

/// Counts deployments that changed something.
pub(super) fn deployment(connection: &Connection) -> Result<i64, Failure> {
    connection
        .prepare_cached("SELECT value FROM syncline_system WHERE name = 'deployment'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map_err(|error| {
            Failure::new(Code::NotDeployed, "cannot read the deployment").source(error)
        })?
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))
}

fn read<T>(
    connection: &Connection,
    sql: &str,
    map: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    connection
        .prepare(sql)
        .and_then(|mut statement| statement.query_map([], map)?.collect())
        .map_err(failed("read what is deployed"))
}
