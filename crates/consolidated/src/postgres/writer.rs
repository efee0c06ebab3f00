//! A connection that applies uploads, each in a transaction of its own.
//!
//! PostgreSQL makes the commits of many connections durable together by itself, so a group is one
//! synchronization, and its last flight commits.

use super::catalog::{self, Catalog, Table};
use super::connect::Role;
use super::errors::failed;
use super::identity::{self, Stored};
use super::link::{Answer, Call, Link};
use super::timeline::Timelines;
use super::{trim, upload};
use crate::identity::Remembered;
use crate::synchronization::{Applied, Begun, Identity, Session, UploadRequest};
use crate::url::PostgresUrl;
use model::Failure;
use std::sync::Arc;

/// Our own deletes write their departures themselves, all at once; triggers need not.
const APPLYING: &str = "SELECT set_config('syncline.applying', 'on', true)";

/// Positions in the first flight.
const DEPLOYMENT_AT: usize = 2;
const LOCK_AT: usize = 3;

/// Writes to the consolidated database.
#[derive(Debug)]
pub(crate) struct Writer {
    link: Link,
    catalog: Catalog,
    timelines: Timelines,
}

impl Writer {
    /// Connects.
    pub(crate) fn open(url: &PostgresUrl) -> Result<Writer, Failure> {
        let mut link = Link::open(url, Role::Apply)?;
        let catalog = Catalog::load(&mut link)?;
        Ok(Writer { link, catalog, timelines: Timelines::default() })
    }

    /// Runs `work` in a transaction, which it commits itself; undone where it fails.
    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Writer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let outcome = work(self);
        if outcome.is_err() {
            self.link.roll_back();
        }
        outcome
    }

    /// Begins a transaction and locks the remote.
    fn lock(
        &mut self,
        session: &Session,
    ) -> Result<(Vec<Arc<Table>>, Option<Remembered>), Failure> {
        let mut answers = self.begin_transaction(session)?;
        if !self.timelines.is_for(self.link.place()) {
            // What was stored on older timelines is about to be overwritten.
            self.link.roll_back();
            self.timelines = Timelines::meet(&mut self.link)?;
            answers = self.begin_transaction(session)?;
        }
        if catalog::deployment(&answers[DEPLOYMENT_AT].rows)? != self.catalog.deployed.deployment {
            self.catalog = Catalog::load(&mut self.link)?;
        }
        let tables = self.catalog.tables(session)?;
        Ok((tables, identity::remembered(&answers[LOCK_AT])?))
    }

    fn begin_transaction(&mut self, session: &Session) -> Result<Vec<Answer>, Failure> {
        let remote_id = session.remote_id.as_str();
        self.link
            .begin(&[
                Call::Simple("BEGIN"),
                Call::new(APPLYING, &[]),
                Call::new(catalog::DEPLOYMENT, &[]),
                Call::new(identity::LOCK, &[&remote_id]),
            ])
            .map_err(identity::lock_failed(LOCK_AT))
    }
}

impl crate::connection::Writer for Writer {
    fn group_len_max(&self) -> usize {
        1
    }

    // Each synchronization has a transaction of its own.
    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn rollback(&mut self) {}

    fn transaction_lost(&self) -> bool {
        false
    }

    fn begin_synchronization(
        &mut self,
        session: &Session,
        identity: &Identity,
    ) -> Result<Begun, Failure> {
        self.in_transaction(|writer| {
            let (_, found) = writer.lock(session)?;
            let remote = identity::begin(&mut writer.link, session, identity, found)?;
            let stored = Stored::new(&writer.link, session, remote, false, false);
            let parameters = stored.parameters();
            writer
                .link
                .flight(&[Stored::call(&parameters), Call::Simple("COMMIT")])
                .map_err(failed("store what is known of the remote"))?;
            Ok(Begun::from(remote))
        })
    }

    fn upload(&mut self, request: &UploadRequest<'_>) -> Result<Applied, Failure> {
        let session = request.session;
        self.in_transaction(|writer| {
            let (tables, found) = writer.lock(session)?;
            let remote = match request.epoch {
                Some(epoch) => identity::resume(session, found, epoch)?,
                None => identity::begin(&mut writer.link, session, &request.identity, found)?,
            };
            upload::upload(&mut writer.link, &tables, request, remote)
        })
    }

    fn trim_logs(&mut self, log_rows_max: i64) -> Result<(), Failure> {
        self.in_transaction(|writer| trim::trim(&mut writer.link, log_rows_max))
    }

    fn round_trips(&self) -> u64 {
        self.link.round_trips()
    }
}
