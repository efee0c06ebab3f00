//! The consolidated database of a run: made for it, filled, counted and removed.

mod postgres;
mod sqlite;

pub(super) use postgres::FILLFACTOR;

use super::ceiling::{Ceiling, Load};
use super::client::{CLAIM, PASSWORD_HASH, user_of};
use super::purchase::{Purchase, employee};
use super::tally::Tally;
use consolidated::{SyncModel, Url};
use model::Failure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The name of everything that a run makes.
pub(super) const NAME: &str = "syncline_bench";

/// What a run needs of a database, beside what a server does.
pub(super) trait Centre {
    /// The database as the server opens it.
    fn url(&self) -> &Url;

    /// The folder of the run, for everything that is no database.
    fn folder(&self) -> &Path;

    /// The table, as the model and the remotes name it.
    fn table(&self) -> &str;

    /// Whether it has decimal numbers, which remotes hold as text.
    fn has_decimals(&self) -> bool;

    /// Writes rows as any other program does.
    fn insert(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure>;

    /// Does now what a database does after many changes, so that it does not do so later.
    fn settle(&mut self) -> Result<(), Failure>;

    /// The rows of every employee.
    fn tallies(&mut self) -> Result<BTreeMap<i64, Tally>, Failure>;

    /// Processor time of the database so far; none where it cannot be told from the server's.
    fn cpu(&self) -> Option<Duration>;

    /// What the database can do without us.
    fn ceiling(&mut self, load: &Load) -> Result<Ceiling, Failure>;

    /// What it is, and what was set up.
    fn settings(&mut self) -> Result<Value, Failure>;

    /// Removes what was made.
    fn remove(self: Box<Self>) -> Result<(), Failure>;
}

/// Makes the table in a place of its own.
pub(super) fn create(url: &Url) -> Result<Box<dyn Centre>, Failure> {
    match url {
        Url::Sqlite(path) => Ok(Box::new(sqlite::Sqlite::create(path)?)),
        Url::Postgres(url) => Ok(Box::new(postgres::Postgres::create(url)?)),
    }
}

/// Deploys the model, and adds the user of every client.
pub(super) fn deploy(centre: &dyn Centre, clients: u32) -> Result<(), Failure> {
    let text = format!(
        "script_version = \"{NAME}\"\n[table.{}]\npartition = \"emp_id = {{u.{CLAIM}}}\"\n",
        toml::Value::from(centre.table())
    );
    let model = SyncModel::parse(&text, "the model of the benchmark")?;
    let mut admin = consolidated::administer(centre.url())?;
    admin.deploy(&[model], false)?;
    for client in 0..clients {
        let claims = BTreeMap::from([(CLAIM.to_owned(), employee(client).to_string())]);
        admin.add_user(&user_of(client)?, PASSWORD_HASH, &claims)?;
    }
    Ok(())
}
