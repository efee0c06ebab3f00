//! A connection that only reads: who a user is, what a remote shares, what it downloads.

use super::catalog::{self, Catalog};
use super::claims::Claims;
use super::connect::Role;
use super::errors::failed;
use super::fetch;
use super::link::{Call, Link, Row, Unreadable};
use super::oldest::Oldest;
use super::timeline::Timelines;
use crate::synchronization::{Credentials, DownloadBatch, FetchRequest, Fetched, Session};
use crate::url::PostgresUrl;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use std::collections::{BTreeMap, HashMap};

/// The deployment number, and the users of these names: as many rows, or one without a user.
const USERS: &str = "SELECT s.value::int8, u.user_name, u.password_hash, u.password_version,
    u.claims
FROM syncline.syncline_system s LEFT JOIN syncline.syncline_user u ON u.user_name = ANY ($1)
WHERE s.name = 'deployment'";

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
}

impl Reader {
    /// Connects.
    pub(crate) fn open(url: &PostgresUrl) -> Result<Reader, Failure> {
        let mut link = Link::open(url, Role::Read)?;
        let catalog = Catalog::load(&mut link)?;
        let deployment = catalog.deployed.deployment;
        let (timelines, oldest) = (Timelines::default(), Oldest::default());
        Ok(Reader { link, catalog, deployment, timelines, oldest, claims: Claims::default() })
    }

    fn fetch_in_transaction(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let known = request.session.deployment == self.catalog.deployed.deployment;
        let mut tables = if known { self.catalog.tables(request.session)? } else { Vec::new() };
        let mut opening = fetch::open(&mut self.link, request, &tables)?;
        if !self.timelines.is_for(self.link.place()) {
            // Once per connection, and before anything was sent.
            self.link.roll_back();
            self.timelines = Timelines::meet(&mut self.link)?;
            opening = fetch::open(&mut self.link, request, &tables)?;
        }
        if opening.deployment != self.catalog.deployed.deployment {
            // Inside the snapshot, so that scripts and rows are of the same moment.
            self.catalog = Catalog::load(&mut self.link)?;
        }
        tables = self.catalog.tables(request.session)?;
        let fetched =
            fetch::fetch(&mut self.link, &tables, request, &self.timelines, &opening, sink)?;
        self.oldest.look(&mut self.link, opening.snapshot());
        Ok(fetched)
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

    fn credentials(&mut self, users: &[&UserName]) -> Result<Vec<Option<Credentials>>, Failure> {
        let names: Vec<&str> = users.iter().map(|user| user.as_str()).collect();
        let answers =
            self.link.begin(&[Call::new(USERS, &[&names])]).map_err(catalog::not_deployed)?;
        let rows = &answers[0].rows;
        self.deployment = catalog::deployment(rows)?;
        let mut found = HashMap::new();
        for row in rows {
            if let Some((name, credentials)) = stored_user(row)? {
                found.insert(name, credentials);
            }
        }
        Ok(names.iter().map(|name| found.get(*name).cloned()).collect())
    }

    fn session(
        &mut self,
        user: &UserName,
        claims: BTreeMap<String, String>,
        remote_id: &RemoteId,
        script_version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<Session, Failure> {
        if self.deployment != self.catalog.deployed.deployment {
            self.catalog = Catalog::load(&mut self.link)?;
            self.deployment = self.catalog.deployed.deployment;
        }
        let deployed = &mut self.catalog.deployed;
        let (script_version, schema) = deployed.schema(script_version, publications)?;
        let session = Session {
            database_id: deployed.database_id.clone(),
            deployment: deployed.deployment,
            remote_id: remote_id.clone(),
            user: user.clone(),
            claims,
            script_version,
            schema,
        };
        let tables = self.catalog.tables(&session)?;
        self.claims.check(&mut self.link, &tables, &session)?;
        Ok(session)
    }

    fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let fetched = self.fetch_in_transaction(request, sink);
        if fetched.is_err() {
            self.link.roll_back();
        }
        fetched
    }

    fn round_trips(&self) -> u64 {
        self.link.round_trips()
    }
}

/// What a row of [`USERS`] says of a user.
fn stored_user(row: &Row) -> Result<Option<(&str, Credentials)>, Failure> {
    let garbled =
        |error: Unreadable| Failure::new(Code::Drift, "a stored user cannot be read").source(error);
    let Some(name) = row.try_get(1).map_err(garbled)? else { return Ok(None) };
    let read = || -> Result<(String, i64, &str), Unreadable> {
        Ok((row.try_get(2)?, row.try_get(3)?, row.try_get(4)?))
    };
    let (password_hash, password_version, claims) = read().map_err(garbled)?;
    let claims = serde_json::from_str(claims)
        .map_err(|error| Failure::new(Code::Bug, "stored claims do not parse").source(error))?;
    Ok(Some((name, Credentials { password_hash, password_version, claims })))
}
