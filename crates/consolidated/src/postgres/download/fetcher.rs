//! Fetches downloads over the link of a connection, with what it keeps between them.

use crate::catalog::require_known;
use crate::postgres::catalog::table::Table;
use crate::postgres::catalog::{self, Catalog};
use crate::postgres::download::claims::Claims;
use crate::postgres::download::orphans::Orphans;
use crate::postgres::download::read_lock::{self, ReadLocks};
use crate::postgres::download::scripted::Scripted;
use crate::postgres::download::timeline::Timelines;
use crate::postgres::download::unreadable::Unfetched;
use crate::postgres::download::{self, Access, Opening, Unopened};
use crate::postgres::link::{Call, Link};
use crate::postgres::optimize::xmin_horizon::Oldest;
use crate::postgres::tracking::watch;
use crate::serving::{Departures, Serving};
use crate::synchronization::{DownloadBatch, FetchRequest, Fetched, Session};
use model::{Code, Failure, Spills};
use std::sync::Arc;

/// How often a download begins again for another deployment or timeline.
const OPENINGS_MAX: u32 = 10;

/// What a connection that fetches downloads keeps between them.
#[derive(Debug)]
pub(in crate::postgres) struct Known {
    timelines: Timelines,
    oldest: Oldest,
    pub(in crate::postgres) claims: Claims,
    locks: ReadLocks,
    orphans: Orphans,
    pub(in crate::postgres) departures: Departures,
    spills: Arc<Spills>,
}

impl Known {
    /// Of a connection that has fetched nothing yet.
    pub(in crate::postgres) fn new(serving: &Serving) -> Known {
        Known {
            timelines: Timelines::default(),
            oldest: Oldest::default(),
            claims: Claims::default(),
            locks: ReadLocks::default(),
            orphans: Orphans::default(),
            departures: serving.departures.clone(),
            spills: serving.spills.clone(),
        }
    }

    /// The deployment is read again: its scripts may read other tables.
    pub(in crate::postgres) fn forget_scripts(&mut self) {
        self.locks.forget();
    }
}

/// Fetches a download over a link that it is lent.
pub(in crate::postgres) struct Fetcher<'a> {
    pub(in crate::postgres) link: &'a mut Link,
    pub(in crate::postgres) catalog: &'a mut Catalog,
    pub(in crate::postgres) known: &'a mut Known,
    pub(in crate::postgres) access: Access,
}

impl Fetcher<'_> {
    /// Fetches a download in a transaction of its own, of which nothing is left where it fails.
    pub(in crate::postgres) fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let version = &request.session.script_version;
        let scripts = self.catalog.deployed.version_scripts(version);
        self.link.hide(scripts.secrets(request.session));
        let fetched = self.fetch_in_transaction(request, sink);
        if fetched.is_err() {
            self.link.roll_back();
        }
        fetched
    }

    /// What a fetch of `session` has failed for, outside its transaction.
    pub(in crate::postgres) fn explain(&mut self, failure: Failure, session: &Session) -> Failure {
        match catalog::may_be_missing(&failure) {
            true => self.went_away(session).unwrap_or(failure),
            false => failure,
        }
    }

    fn fetch_in_transaction(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let mut isolating = false;
        loop {
            let (opening, tables, session) = self.open_snapshot(request)?;
            let request = FetchRequest { session: &session, ..*request };
            let scripted = self.scripted(&session)?;
            let (link, timelines) = (&mut *self.link, &self.known.timelines);
            let from = (&opening, isolating, scripted);
            let spills = &self.known.spills;
            match download::fetch(link, &tables, &request, timelines, from, spills, &mut *sink) {
                Ok(fetched) => {
                    self.known.oldest.look(self.link, opening.snapshot());
                    return Ok(fetched);
                }
                Err(Unfetched::Unreadable(_)) if !isolating => isolating = true,
                Err(Unfetched::Unreadable(failure) | Unfetched::Failed(failure)) => {
                    return Err(failure);
                }
            }
        }
    }

    /// The scripts around the cursors. Who compares only, reads without them.
    fn scripted(&self, session: &Session) -> Result<Option<Scripted>, Failure> {
        let scripted = Scripted::of(self.catalog, session);
        match self.access {
            Access::ReadWrite => Ok(scripted),
            Access::ReadOnly if scripted.is_none() || session.fetched_by_writer => Ok(None),
            Access::ReadOnly => {
                let message = "a new model was deployed in the meantime";
                Err(Failure::new(Code::Superseded, message))
            }
        }
    }

    /// Locks all that is to be read and takes the snapshot: scripts, locks and rows are of the same
    /// deployment. Begun again where something else turns out to be deployed. Yields the session
    /// with all tables that wait by then.
    fn open_snapshot(
        &mut self,
        request: &FetchRequest<'_>,
    ) -> Result<(Opening, Vec<Arc<Table>>, Session), Failure> {
        // A table that was gone may be back.
        let waits_too = self.catalog.now(request.session).waiting != request.session.waiting;
        if self.catalog.deployed.deployment != request.session.deployment || waits_too {
            self.load()?;
        }
        let (mut waits, mut others) = (0, 0);
        loop {
            let session = self.catalog.now(request.session);
            self.catalog.require_columns(&session)?;
            let tables = self.catalog.tables_now(&session)?;
            let request = FetchRequest { session: &session, ..*request };
            let version = session.script_version.as_str();
            let lock = self.known.locks.of(self.link, version, &tables).map_err(Unopened::of);
            let opened = lock.and_then(|lock| {
                let how = (self.access, &lock, waits > 0);
                download::open(self.link, &request, &tables, how)
            });
            let before = self.catalog.deployed.deployment;
            match opened {
                Ok(opening) if !self.known.timelines.is_for(self.link.number_space()) => {
                    // Once per connection, and before anything was sent.
                    drop(opening);
                    self.link.roll_back();
                    self.known.timelines = Timelines::meet(self.link)?;
                }
                Ok(mut opening) if !opening.changed.is_empty() => {
                    // Left out where they are not as they were deployed.
                    self.load()?;
                    self.known.departures.note();
                    opening.changed.retain(|(published, _)| self.catalog.serves(published));
                    watch::renew(self.link, &opening.changed)?;
                }
                Ok(mut opening) if opening.deployment == before => {
                    let (link, logs) = (&mut *self.link, opening.logs());
                    let orphans = self.known.orphans.look(link, &tables, logs)?;
                    opening.note_orphans(orphans);
                    if before != session.deployment {
                        self.known.claims.check(self.link, &tables, &session)?;
                    }
                    return Ok((opening, tables, session));
                }
                Ok(_) => self.load()?,
                Err(Unopened::Locked) => {
                    self.link.roll_back();
                    waits += 1;
                    if waits >= read_lock::attempts_max(self.link) {
                        return Err(read_lock::locked());
                    }
                }
                Err(Unopened::Missing(failure)) => {
                    self.load()?;
                    self.known.departures.note();
                    let waits_too = self.catalog.now(&session).waiting != session.waiting;
                    if self.catalog.deployed.deployment == before && !waits_too {
                        return Err(failure);
                    }
                }
                Err(Unopened::Failed(failure)) => return Err(failure),
            }
            others += 1;
            if others - waits >= OPENINGS_MAX {
                let message = "models were deployed repeatedly during this request";
                return Err(Failure::new(Code::DatabaseBusy, message));
            }
        }
    }

    /// Behind a failure: whether a table is to blame that is not any more what it was when the
    /// session began.
    fn went_away(&mut self, session: &Session) -> Option<Failure> {
        self.load().ok()?;
        let columns = self.catalog.require_columns(session);
        let known = columns.and_then(|()| require_known(session, &self.catalog.waiting(session)));
        let failure = known.err()?;
        self.known.departures.note();
        Some(failure)
    }

    /// Reads the deployment again, outside a transaction. This may be the first that the connection
    /// is used for after the database was away.
    pub(in crate::postgres) fn load(&mut self) -> Result<(), Failure> {
        let asked = self.link.begin(&[Call::new(catalog::DEPLOYMENT, &[])]);
        asked.map_err(catalog::not_deployed)?;
        self.known.departures.look();
        *self.catalog = Catalog::load(self.link)?;
        self.known.forget_scripts();
        Ok(())
    }
}
