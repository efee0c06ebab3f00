//! A connection that only reads: users, the tables of a remote, and its downloads.

use crate::administration::claims_from;
use crate::catalog::{require_any, require_known};
use crate::identity::Binding;
use crate::postgres::catalog::table::Table;
use crate::postgres::catalog::{self, Catalog};
use crate::postgres::connect::Role;
use crate::postgres::download::claims::Claims;
use crate::postgres::download::orphans::Orphans;
use crate::postgres::download::read_lock::{self, ReadLocks};
use crate::postgres::download::timeline::Timelines;
use crate::postgres::download::unreadable::Unfetched;
use crate::postgres::download::{self, Opening, Unopened};
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link, Row};
use crate::postgres::optimize::xmin_horizon::Oldest;
use crate::postgres::tracking::watch;
use crate::serving::{Departures, Serving};
use crate::synchronization::expiry::Expiry;
use crate::synchronization::{
    Admittee, Credentials, DownloadBatch, FetchRequest, Fetched, Held, Session,
};
use crate::url::PostgresUrl;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, Spills, UserName};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The deployment number, and the users of these names: as many rows, or one without a user.
const USERS: &str = "SELECT s.value::int8, u.user_name, u.password_hash, u.password_version,
    u.claims, u.password_set_at, u.password_expires_at
FROM syncline.syncline_system s LEFT JOIN syncline.syncline_user u ON u.user_name = ANY ($1)
WHERE s.name = 'deployment'";

/// How often a download begins again for another deployment or timeline.
const OPENINGS_MAX: u32 = 10;

/// To whom these remotes belong, where that is settled.
const BINDINGS: &str = "SELECT remote_id, bound_users FROM syncline.syncline_remote
WHERE remote_id = ANY ($1) AND bound_users IS NOT NULL";

/// Reads from the consolidated database.
#[derive(Debug)]
pub(crate) struct Reader {
    link: Link,
    catalog: Catalog,
    /// The deployment when users were last asked for.
    deployment: i64,
    timelines: Timelines,
    oldest: Oldest,
    claims: Claims,
    locks: ReadLocks,
    orphans: Orphans,
    departures: Departures,
    spills: Arc<Spills>,
}

impl Reader {
    /// Connects.
    pub(crate) fn open(url: &PostgresUrl, serving: &Serving) -> Result<Reader, Failure> {
        let mut link = Link::open_for(url, Role::Read, serving)?;
        let catalog = Catalog::load(&mut link)?;
        Ok(Reader {
            link,
            deployment: catalog.deployed.deployment,
            catalog,
            timelines: Timelines::default(),
            oldest: Oldest::default(),
            claims: Claims::default(),
            locks: ReadLocks::default(),
            orphans: Orphans::default(),
            departures: serving.departures.clone(),
            spills: serving.spills.clone(),
        })
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
            let (link, timelines) = (&mut self.link, &self.timelines);
            let (from, spills) = ((&opening, isolating), &self.spills);
            match download::fetch(link, &tables, &request, timelines, from, spills, &mut *sink) {
                Ok(fetched) => {
                    self.oldest.look(&mut self.link, opening.snapshot());
                    return Ok(fetched);
                }
                Err(Unfetched::Unreadable(_)) if !isolating => isolating = true,
                Err(Unfetched::Unreadable(failure) | Unfetched::Failed(failure)) => {
                    return Err(failure);
                }
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
            let opened = match self.locks.of(&mut self.link, version, &tables) {
                Ok(lock) => download::open(&mut self.link, &request, &tables, (&lock, waits > 0)),
                Err(fault) => Err(Unopened::of(fault)),
            };
            let before = self.catalog.deployed.deployment;
            match opened {
                Ok(opening) if !self.timelines.is_for(self.link.number_space()) => {
                    // Once per connection, and before anything was sent.
                    drop(opening);
                    self.link.roll_back();
                    self.timelines = Timelines::meet(&mut self.link)?;
                }
                Ok(mut opening) if !opening.changed.is_empty() => {
                    // Left out where they are not as they were deployed.
                    self.load()?;
                    self.departures.note();
                    opening.changed.retain(|(published, _)| self.catalog.serves(published));
                    watch::renew(&mut self.link, &opening.changed)?;
                }
                Ok(mut opening) if opening.deployment == before => {
                    let (link, logs) = (&mut self.link, opening.logs());
                    let orphans = self.orphans.look(link, &tables, logs)?;
                    opening.note_orphans(orphans);
                    if before != session.deployment {
                        self.claims.check(&mut self.link, &tables, &session)?;
                    }
                    return Ok((opening, tables, session));
                }
                Ok(_) => self.load()?,
                Err(Unopened::Locked) => {
                    self.link.roll_back();
                    waits += 1;
                    if waits >= read_lock::attempts_max(&self.link) {
                        return Err(read_lock::locked());
                    }
                }
                Err(Unopened::Missing(failure)) => {
                    self.load()?;
                    self.departures.note();
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
        self.departures.note();
        Some(failure)
    }

    /// Reads the deployment again, outside a transaction. This may be the first that the connection
    /// is used for after the database was away.
    fn load(&mut self) -> Result<(), Failure> {
        let asked = self.link.begin(&[Call::new(catalog::DEPLOYMENT, &[])]);
        asked.map_err(catalog::not_deployed)?;
        self.departures.look();
        self.catalog = Catalog::load(&mut self.link)?;
        self.locks.forget();
        Ok(())
    }
}

impl crate::connection::Reader for Reader {
    fn token_key(&mut self) -> Result<Vec<u8>, Failure> {
        let sql = "SELECT decode(value, 'hex') FROM syncline.syncline_system
                   WHERE name = 'token_key'";
        let rows = self
            .link
            .begin(&[Call::new(sql, &[])])
            .map_err(failed("read the key of session tokens"))?
            .remove(0)
            .rows;
        rows.first()
            .and_then(|row| row.try_get(0).ok())
            .ok_or_else(|| Failure::new(Code::NotDeployed, "there is no key of session tokens"))
    }

    fn admittees(&mut self, who: &[(&UserName, &RemoteId)]) -> Result<Vec<Admittee>, Failure> {
        let names: Vec<&str> = who.iter().map(|(user, _)| user.as_str()).collect();
        let remotes: Vec<&str> = who.iter().map(|(_, remote)| remote.as_str()).collect();
        let answers = self
            .link
            .begin(&[Call::new(USERS, &[&names]), Call::new(BINDINGS, &[&remotes])])
            .map_err(catalog::not_deployed)?;
        let bindings = bindings(&answers[1].rows)?;
        let rows = &answers[0].rows;
        self.deployment = catalog::deployment(rows)?;
        let mut found = HashMap::new();
        for row in rows {
            if let Some((name, credentials)) = stored_user(row)? {
                found.insert(name, credentials);
            }
        }
        let admittee = |(user, remote): &(&UserName, &RemoteId)| Admittee {
            credentials: found.get(user.as_str()).cloned(),
            binding: bindings.get(remote.as_str()).cloned().unwrap_or_default(),
        };
        Ok(who.iter().map(admittee).collect())
    }

    fn session(
        &mut self,
        user: &UserName,
        claims: BTreeMap<String, String>,
        remote_id: &RemoteId,
        script_version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<Session, Failure> {
        if self.deployment != self.catalog.deployed.deployment
            || self.departures.are_new()
            || self.catalog.looks_otherwise(&mut self.link)?
        {
            self.load()?;
            self.deployment = self.catalog.deployed.deployment;
        }
        let who = (user, claims);
        let deployed = &mut self.catalog.deployed;
        let mut session = deployed.session(who, remote_id, script_version, publications)?;
        self.catalog.require_columns(&session)?;
        session.waiting = Arc::new(self.catalog.waiting(&session));
        require_any(&session)?;
        let tables = self.catalog.tables(&session)?;
        self.claims.check(&mut self.link, &tables, &session)?;
        Ok(session)
    }

    fn held(
        &mut self,
        session: &Session,
        schema: Option<&str>,
        tables: &[String],
    ) -> Result<Held, Failure> {
        self.catalog.deployed.held(session, schema, tables)
    }

    fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let failure = match self.fetch_in_transaction(request, sink) {
            Ok(fetched) => return Ok(fetched),
            Err(failure) => failure,
        };
        self.link.roll_back();
        match catalog::may_be_missing(&failure) {
            true => Err(self.went_away(request.session).unwrap_or(failure)),
            false => Err(failure),
        }
    }

    fn round_trips(&self) -> u64 {
        self.link.round_trips()
    }
}

/// What [`BINDINGS`] says.
fn bindings(rows: &[Row]) -> Result<HashMap<&str, Binding>, Failure> {
    let mut bindings = HashMap::with_capacity(rows.len());
    for row in rows {
        let bound = row.try_get(1).map_err(unreadable)?;
        bindings.insert(row.try_get(0).map_err(unreadable)?, Binding::read(Some(bound))?);
    }
    Ok(bindings)
}

/// What a row of [`USERS`] says of a user.
fn stored_user(row: &Row) -> Result<Option<(&str, Credentials)>, Failure> {
    let Some(name) = row.try_get(1).map_err(unreadable)? else { return Ok(None) };
    let credentials = Credentials {
        password_hash: row.try_get(2).map_err(unreadable)?,
        password_version: row.try_get(3).map_err(unreadable)?,
        password_set_at_unix_s: row.try_get(5).map_err(unreadable)?,
        password_expires: Expiry::stored(row.try_get(6).map_err(unreadable)?),
        claims: claims_from(row.try_get(4).map_err(unreadable)?)?,
    };
    Ok(Some((name, credentials)))
}
