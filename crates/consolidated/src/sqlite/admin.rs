//! What SQLite does for the command line.

use super::connect::connect;
use super::errors::failed;
use super::words::SqliteWords;
use super::{ServeLock, deploy, incarnation};
use crate::administration::steward::Steward;
use crate::administration::{Finding, Undeployment};
use crate::connection::Administration;
use crate::deploy::{ForeignKey, Intent};
use crate::disk::Location;
use crate::sql::{Bound, Sql, TextRow};
use crate::sqlite::deploy::plan::{Plan, SqliteSchema};
use crate::sqlite::deploy::tables::{self, UserColumn, UserTable};
use crate::sqlite::deploy::{check, installed};
use crate::sqlite::upload::affinity::Affinity;
use crate::sqlite::upload::orphans;
use crate::sync_model::ClaimTest;
use model::Failure;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::BTreeMap;

/// One connection for administration.
#[derive(Debug)]
pub(super) struct Admin {
    connection: Connection,
    location: Location,
}

/// Connects to an existing database.
pub(crate) fn administer(location: Location) -> Result<Box<dyn Administration>, Failure> {
    Ok(Box::new(Admin::open(location)?))
}

impl Admin {
    pub(super) fn open(location: Location) -> Result<Admin, Failure> {
        let connection = connect(&location, false)?;
        installed::require_known_format(&connection)?;
        Ok(Admin { connection, location })
    }
}

impl Sql for Admin {
    type Words = SqliteWords;

    fn run(&mut self, doing: &str, sql: &str, values: &[&str]) -> Result<Vec<TextRow>, Failure> {
        (&self.connection).run(doing, sql, values)
    }

    fn run_all(&mut self, doing: &str, statements: &[Bound<'_>]) -> Result<Vec<u64>, Failure> {
        (&self.connection).run_all(doing, statements)
    }
}

impl Steward for Admin {
    type Schema = SqliteSchema;

    fn user_tables(&mut self) -> Result<BTreeMap<String, UserTable>, Failure> {
        tables::read(&self.connection)
    }

    fn realize(
        &mut self,
        intent: &Intent<'_, SqliteSchema>,
        plan: &mut Plan,
        dry_run: bool,
    ) -> Result<Vec<String>, Failure> {
        deploy::deploy(&mut self.connection, plan, dry_run, intent)
    }

    fn remove_everything(&mut self, dry_run: bool) -> Result<Undeployment, Failure> {
        if dry_run {
            return deploy::undeploy(&mut self.connection, true);
        }
        let lock = ServeLock::take(&self.location)?;
        let undeployment = deploy::undeploy(&mut self.connection, false)?;
        lock.remove(&self.location)?;
        Ok(undeployment)
    }

    fn drift(&mut self) -> Result<Vec<Finding>, Failure> {
        check::drift(&self.connection)
    }

    fn count_orphans(
        &mut self,
        child: &UserTable,
        _: &UserTable,
        key: &ForeignKey,
    ) -> Result<i64, Failure> {
        orphans::count(&self.connection, child, key)
    }

    fn misfit(
        &mut self,
        column: &UserColumn,
        test: &ClaimTest,
        value: &str,
    ) -> Result<Option<String>, Failure> {
        let number = matches!(Affinity::of(column), Affinity::Integer | Affinity::Real);
        let mut values = match test {
            ClaimTest::Is(_) => vec![value],
            ClaimTest::IsIn(_) => value.split(',').collect(),
        };
        values.retain(|value| number && value.trim().parse::<f64>().is_err());
        Ok((!values.is_empty()).then(|| column.declared_type.clone()))
    }

    fn new_generation(&mut self) -> Result<(), Failure> {
        let beginning = failed("begin a new generation");
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(&beginning)?;
        incarnation::renew(&transaction, "an operator declared the restore")?;
        transaction.commit().map_err(&beginning)
    }
}
