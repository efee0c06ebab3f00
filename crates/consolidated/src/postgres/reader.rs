//! A connection that only reads: who a user is, what a remote shares, what it downloads.

use super::catalog::{self, Catalog};
use super::claims::Claims;
use super::connect::Role;
use super::errors::failed;
use super::fetch;
use super::link::{Call, Link, Unreadable};
use super::oldest::Oldest;
use super::timeline::Timelines;
use crate::synchronization::{Credentials, DownloadBatch, FetchRequest, Fetched, Session};
use crate::url::PostgresUrl;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads from the consolidated database.
#[derive(Debug)]
pub(crate) struct Reader {
    link: Link,
    catalog: Catalog,
    timelines: Timelines,
    oldest: Oldest,
    claims: Claims,
}

impl Reader {
    /// Connects.
    pub(crate) fn open(url: &PostgresUrl) -> Result<Reader, Failure> {
        let mut link = Link::open(url, Role::Read)?;
        let catalog = Catalog::load(&mut link)?;
        let (timelines, oldest) = (Timelines::default(), Oldest::default());
        Ok(Reader { link, catalog, timelines, oldest, claims: Claims::default() })
    }

    fn fetch_in_transaction(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let mut opening = fetch::open(&mut self.link, request)?;
        if !self.timelines.is_for(self.link.place()) {
            // Once per connection, and before anything was sent.
            self.link.roll_back();
            self.timelines = Timelines::meet(&mut self.link)?;
            opening = fetch::open(&mut self.link, request)?;
        }
        if opening.deployment != self.catalog.deployed.deployment {
            // Inside the snapshot, so that scripts and rows are of the same moment.
            self.catalog = Catalog::load(&mut self.link)?;
        }
        let tables = self.catalog.tables(request.session)?;
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

    fn credentials(&mut self, user: &UserName) -> Result<Option<Credentials>, Failure> {
        let sql = "SELECT password_hash, password_version, claims FROM syncline.syncline_user
                   WHERE user_name = $1";
        let answers = self
            .link
            .begin(&[Call::new(sql, &[&user.as_str()])])
            .map_err(failed("read the user"))?;
        let Some(row) = answers[0].rows.first() else { return Ok(None) };
        let read = || -> Result<(String, i64, &str), Unreadable> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
        };
        let (password_hash, password_version, claims) = read().map_err(|error| {
            Failure::new(Code::Drift, "a stored user cannot be read").source(error)
        })?;
        let claims = serde_json::from_str(claims)
            .map_err(|error| Failure::new(Code::Bug, "stored claims do not parse").source(error))?;
        Ok(Some(Credentials { password_hash, password_version, claims }))
    }

    fn session(
        &mut self,
        user: &UserName,
        claims: BTreeMap<String, String>,
        remote_id: &RemoteId,
        script_version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<Session, Failure> {
        let answers = self
            .link
            .begin(&[Call::new(catalog::DEPLOYMENT, &[])])
            .map_err(catalog::not_deployed)?;
        if catalog::deployment(&answers[0].rows)? != self.catalog.deployed.deployment {
            self.catalog = Catalog::load(&mut self.link)?;
        }
        let deployed = &self.catalog.deployed;
        let (script_version, schema) = deployed.schema(script_version, publications)?;
        let session = Session {
            database_id: deployed.database_id.clone(),
            deployment: deployed.deployment,
            remote_id: remote_id.clone(),
            user: user.clone(),
            claims,
            script_version,
            schema: Arc::new(schema),
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
