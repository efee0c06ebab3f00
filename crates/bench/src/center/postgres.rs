//! The schema `syncline_bench` of a PostgreSQL database, and the deployment of its table.
//!
//! A database with another deployment is refused, because that deployment must not change.

use super::database::Center;
use super::tables::{FILLFACTOR, NAME, create_tables, tables};
use crate::baseline::{self, Baseline, Load};
use crate::checksum::Checksum;
use crate::machine::cpu;
use crate::machine::processors::Processors;
use crate::options::Model;
use crate::purchase::{Purchase, Table, digest};
use crate::session::{Numeric, Session, Timestamp};
use consolidated::{Host, PostgresUrl, Url};
use model::{Code, Failure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Rows of one statement that writes.
const ROWS_PER_STATEMENT: usize = 10_000;

/// Rows that are counted at a time.
const ROWS_PER_FETCH: &str = "FETCH 20000 FROM counted";

/// The schema, and the connection of an ordinary program.
pub(super) struct Postgres {
    folder: TempDir,
    url: Url,
    session: Session,
    model: Model,
    /// The process of that connection, where it runs on this machine.
    backend: Option<u32>,
}

impl Postgres {
    /// Makes schema and table.
    pub(super) fn create(
        url: &PostgresUrl,
        model: Model,
        published: u32,
    ) -> Result<Postgres, Failure> {
        let folder =
            tempfile::Builder::new().prefix(&format!("{NAME}-")).tempdir().map_err(|error| {
                Failure::new(Code::CannotWrite, "cannot make a temporary folder").source(error)
            })?;
        // A table in the first schema of the search path has a name without it.
        let mut url = url.clone();
        url.options = Some(format!("-c search_path={NAME}"));
        let mut session = Session::open(&url)?;
        let whole_url = Url::Postgres(Box::new(url.clone()));
        refuse_deployments_of_others(&mut session, &whole_url)?;
        session.batch(&format!(
            "DROP SCHEMA IF EXISTS {NAME} CASCADE;
             CREATE SCHEMA {NAME}; {}",
            create_tables(
                model,
                published,
                &format!("{NAME}."),
                &format!("WITH (fillfactor = {FILLFACTOR})")
            )
        ))?;
        let backend = match url.hosts.iter().all(is_here) {
            true => u32::try_from(session.one::<i32>("SELECT pg_backend_pid()")?).ok(),
            false => None,
        };
        Ok(Postgres { folder, url: whole_url, session, model, backend })
    }
}

impl Postgres {
    /// Writes rows with a statement per table that takes their columns as arrays.
    fn write(
        &mut self,
        rows: &mut dyn Iterator<Item = Purchase>,
        statement: &dyn Fn(Table) -> String,
    ) -> Result<(), Failure> {
        loop {
            let part: Vec<Purchase> = rows.take(ROWS_PER_STATEMENT).collect();
            if part.is_empty() {
                return Ok(());
            }
            // A line comes behind its purchase, so in the same part or a later one.
            for table in tables(self.model) {
                let rows: Vec<&Purchase> =
                    part.iter().filter(|row| row.table() == *table).collect();
                let column = |f: fn(&Purchase) -> i64| -> Vec<i32> {
                    rows.iter().map(|row| f(row) as i32).collect()
                };
                let (employees, ids) = (column(Purchase::employee), column(Purchase::id));
                let thirds = column(Purchase::third);
                let costs: Vec<Numeric> = rows.iter().map(|row| Numeric::cost(row)).collect();
                let dates: Vec<Timestamp> =
                    rows.iter().map(|row| Timestamp::order_date(row)).collect();
                let notes: Vec<String> = rows.iter().map(|row| row.notes()).collect();
                self.session.execute(
                    &statement(*table),
                    &[&employees, &ids, &thirds, &costs, &dates, &notes],
                )?;
            }
        }
    }
}

/// Whether the server runs on this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Socket(..) => true,
        Host::Tcp(name, _) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
    }
}

/// Removes the objects of a killed run. Refuses any other deployment.
fn refuse_deployments_of_others(session: &mut Session, url: &Url) -> Result<(), Failure> {
    if !session.one::<bool>("SELECT to_regclass('syncline.syncline_script_version') IS NOT NULL")? {
        return Ok(());
    }
    let others = session.one::<bool>(&format!(
        "SELECT EXISTS (SELECT FROM syncline.syncline_script_version
                        WHERE script_version <> '{NAME}')"
    ))?;
    if others {
        let message = "the database already serves remotes, and a benchmark must not change it";
        return Err(Failure::new(Code::FileExists, message).hint(
            "create a database for it: `createdb bench`, then --consolidated postgres:///bench",
        ));
    }
    consolidated::administer(url)?.undeploy(false).map(drop)
}

impl Center for Postgres {
    fn url(&self) -> &Url {
        &self.url
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn has_decimals(&self) -> bool {
        true
    }

    fn insert(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure> {
        self.write(rows, &|table| {
            format!(
                "INSERT INTO {NAME}.{} ({})
                 SELECT * FROM unnest($1::int4[], $2::int4[], $3::int4[], $4::numeric[],
                                      $5::timestamp[], $6::text[])",
                table.name(),
                table.columns().join(", ")
            )
        })
    }

    fn update(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure> {
        self.write(rows, &|table| {
            format!(
                "UPDATE {NAME}.{} AS t SET cost = u.cost
                 FROM unnest($1::int4[], $2::int4[], $3::int4[], $4::numeric[],
                             $5::timestamp[], $6::text[])
                     AS u(emp_id, id, third, cost, order_date, notes)
                 WHERE t.emp_id = u.emp_id AND t.{} = u.id",
                table.name(),
                table.id_column()
            )
        })
    }

    fn settle(&mut self) -> Result<(), Failure> {
        for table in tables(self.model) {
            self.session.batch(&format!("VACUUM (ANALYZE) {NAME}.{}", table.name()))?;
        }
        Ok(())
    }

    fn checksums(&mut self) -> Result<BTreeMap<i64, Checksum>, Failure> {
        let mut checksums: BTreeMap<i64, Checksum> = BTreeMap::new();
        let rows_of = |table: &Table| {
            let [employee, id, third, cost, date, notes] = table.columns();
            format!(
                "SELECT {employee}, {id}, {third}, {cost}::text, {date}::text, {notes}
                 FROM {NAME}.{}",
                table.name()
            )
        };
        let selects: Vec<String> = tables(self.model).iter().map(rows_of).collect();
        let query = selects.join(" UNION ALL ");
        self.session.batch(&format!("BEGIN; DECLARE counted CURSOR FOR {query}"))?;
        loop {
            let rows = self.session.query(ROWS_PER_FETCH)?;
            if rows.is_empty() {
                self.session.batch("COMMIT")?;
                return Ok(checksums);
            }
            for row in rows {
                let ids = [row.get::<_, i32>(0), row.get(1), row.get(2)].map(i64::from);
                let (cost, date, notes): (&str, &str, Option<&str>) =
                    (row.get(3), row.get(4), row.get(5));
                let digest = digest(ids, cost, date, notes.unwrap_or_default());
                checksums.entry(ids[0]).or_default().add(digest);
            }
        }
    }

    fn pin(&mut self, processors: &Processors) -> Result<(), Failure> {
        processors.pin_backends(&mut self.session)
    }

    fn cpu(&self) -> Option<Duration> {
        cpu::used_by_postgres(self.backend?)
    }

    fn baseline(
        &mut self,
        load: &Load,
        processors: Option<&Processors>,
    ) -> Result<Baseline, Failure> {
        let Url::Postgres(url) = &self.url else {
            return Err(Failure::new(Code::Bug, "a schema without a server"));
        };
        baseline::postgres::measure(url, self.backend, load, processors)
    }

    fn settings(&mut self) -> Result<Value, Failure> {
        let mut show = |name: &str| self.session.one::<String>(&format!("SHOW {name}"));
        Ok(json!({
            "database": "PostgreSQL",
            "version": show("server_version")?,
            "fsync": show("fsync")?,
            "synchronous_commit": show("synchronous_commit")?,
            "shared_buffers": show("shared_buffers")?,
            "max_connections": show("max_connections")?,
            "fillfactor": FILLFACTOR,
        }))
    }

    fn remove(self: Box<Self>) -> Result<(), Failure> {
        let Postgres { folder, url, mut session, .. } = *self;
        let undeployed = match session
            .one::<bool>("SELECT to_regclass('syncline.syncline_script_version') IS NOT NULL")
        {
            Ok(true) => consolidated::administer(&url)?.undeploy(false).map(drop),
            other => other.map(drop),
        };
        // The rows go even where the deployment stays.
        session.batch(&format!("DROP SCHEMA IF EXISTS {NAME} CASCADE"))?;
        undeployed?;
        folder.close().map_err(|error| {
            Failure::new(Code::CannotWrite, "cannot remove the folder of the run").source(error)
        })
    }
}
