//! What a run needs of a database.

use crate::baseline::{Baseline, Load};
use crate::checksum::Checksum;
use crate::machine::processors::Processors;
use crate::purchase::Purchase;
use consolidated::Url;
use model::Failure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What a run needs of a database, beside what a server does.
pub(crate) trait Center {
    /// The database as the server opens it.
    fn url(&self) -> &Url;

    /// The folder of the run, for everything that is no database.
    fn folder(&self) -> &Path;

    /// Whether it has decimal numbers, which remotes hold as text.
    fn has_decimals(&self) -> bool;

    /// Writes rows as any other program does.
    fn insert(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure>;

    /// Gives rows the cost that they have here, as any other program does.
    fn update(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure>;

    /// Does now what a database does after many changes, so that it does not do so later.
    fn settle(&mut self) -> Result<(), Failure>;

    /// The rows of every employee.
    fn checksums(&mut self) -> Result<BTreeMap<i64, Checksum>, Failure>;

    /// Lets the database's work for this run, as far as it has begun, use these processors only.
    fn pin(&mut self, processors: &Processors) -> Result<(), Failure>;

    /// Processor time of the database so far; none where it cannot be separated from the server's.
    fn cpu(&self) -> Option<Duration>;

    /// What the database can do without us.
    fn baseline(
        &mut self,
        load: &Load,
        processors: Option<&Processors>,
    ) -> Result<Baseline, Failure>;

    /// What it is, and what was set up.
    fn settings(&mut self) -> Result<Value, Failure>;

    /// Removes what was made.
    fn remove(self: Box<Self>) -> Result<(), Failure>;
}
