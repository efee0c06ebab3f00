//! The schema `syncline_bench` of a PostgreSQL database, and the deployment of its one table.
//!
//! A database that serves somebody already is refused: its deployment must not be touched.

use super::{Centre, NAME};
use crate::bench::ceiling::{self, Ceiling, Load};
use crate::bench::cpu;
use crate::bench::purchase::{COLUMNS, DEFINITION, Purchase, digest};
use crate::bench::session::{Numeric, Session, Timestamp};
use crate::bench::tally::Tally;
use consolidated::{Host, PostgresUrl, Url};
use model::{Code, Failure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How full pages are made, also those of the bare table that ours is compared with.
pub(in crate::bench) const FILLFACTOR: u32 = 100;

/// Rows of one statement that writes.
const ROWS_PER_STATEMENT: usize = 10_000;

/// Rows that are counted at a time.
const ROWS_PER_FETCH: &str = "FETCH 20000 FROM counted";

/// The schema, and the connection of an ordinary program.
pub(super) struct Postgres {
    folder: TempDir,
    url: Url,
    session: Session,
    /// The process of that connection, where it runs on this machine.
    backend: Option<u32>,
}

impl Postgres {
    /// Makes schema and table.
    pub(super) fn create(url: &PostgresUrl) -> Result<Postgres, Failure> {
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
             CREATE SCHEMA {NAME};
             CREATE TABLE {NAME}.purchase ({DEFINITION}) WITH (fillfactor = {FILLFACTOR})"
        ))?;
        let backend = match url.hosts.iter().all(is_here) {
            true => u32::try_from(session.one::<i32>("SELECT pg_backend_pid()")?).ok(),
            false => None,
        };
        Ok(Postgres { folder, url: whole_url, session, backend })
    }
}

/// Whether the server runs on this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Socket(..) => true,
        Host::Tcp(name, _) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
    }
}

/// Removes what a killed run has left; refuses a deployment of anybody else.
fn refuse_deployments_of_others(session: &mut Session, url: &Url) -> Result<(), Failure> {
    if !session.one::<bool>("SELECT to_regclass('syncline.syncline_script_version') IS NOT NULL")? {
        return Ok(());
    }
    let others = session.one::<bool>(&format!(
        "SELECT EXISTS (SELECT FROM syncline.syncline_script_version
                        WHERE script_version <> '{NAME}')"
    ))?;
    if others {
        let message = "the database serves remotes already, and a benchmark must not touch that";
        return Err(Failure::new(Code::FileExists, message).hint(
            "make a database for it: `createdb bench`, then --consolidated postgres:///bench",
        ));
    }
    consolidated::administer(url)?.undeploy().map(drop)
}

impl Centre for Postgres {
    fn url(&self) -> &Url {
        &self.url
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn table(&self) -> &'static str {
        "purchase"
    }

    fn has_decimals(&self) -> bool {
        true
    }

    fn insert(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure> {
        let sql = format!(
            "INSERT INTO {NAME}.purchase ({})
             SELECT * FROM unnest($1::int4[], $2::int4[], $3::int4[], $4::numeric[],
                                  $5::timestamp[], $6::text[])",
            COLUMNS.join(", ")
        );
        loop {
            let part: Vec<Purchase> = rows.take(ROWS_PER_STATEMENT).collect();
            if part.is_empty() {
                return Ok(());
            }
            let column = |f: fn(&Purchase) -> i64| -> Vec<i32> {
                part.iter().map(|row| f(row) as i32).collect()
            };
            let (employees, ids) = (column(Purchase::employee), column(Purchase::id));
            let customers = column(Purchase::customer);
            let costs: Vec<Numeric> = part.iter().map(Numeric::cost).collect();
            let dates: Vec<Timestamp> = part.iter().map(Timestamp::order_date).collect();
            let notes: Vec<String> = part.iter().map(Purchase::notes).collect();
            self.session.execute(&sql, &[&employees, &ids, &customers, &costs, &dates, &notes])?;
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.session.batch(&format!("VACUUM (ANALYZE) {NAME}.purchase"))
    }

    fn tallies(&mut self) -> Result<BTreeMap<i64, Tally>, Failure> {
        let mut tallies: BTreeMap<i64, Tally> = BTreeMap::new();
        self.session.batch(&format!(
            "BEGIN; DECLARE counted CURSOR FOR
             SELECT emp_id, purch_id, cust_id, cost::text, order_date::text, notes
             FROM {NAME}.purchase"
        ))?;
        loop {
            let rows = self.session.query(ROWS_PER_FETCH)?;
            if rows.is_empty() {
                self.session.batch("COMMIT")?;
                return Ok(tallies);
            }
            for row in rows {
                let ids = [row.get::<_, i32>(0), row.get(1), row.get(2)].map(i64::from);
                let (cost, date, notes): (&str, &str, Option<&str>) =
                    (row.get(3), row.get(4), row.get(5));
                let digest = digest(ids, cost, date, notes.unwrap_or_default());
                tallies.entry(ids[0]).or_default().add(digest);
            }
        }
    }

    fn cpu(&self) -> Option<Duration> {
        cpu::used_by_postgres(self.backend?)
    }

    fn ceiling(&mut self, load: &Load) -> Result<Ceiling, Failure> {
        let Url::Postgres(url) = &self.url else {
            return Err(Failure::new(Code::Bug, "a schema without a server"));
        };
        ceiling::postgres::measure(url, self.backend, load)
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
            Ok(true) => consolidated::administer(&url)?.undeploy().map(drop),
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
