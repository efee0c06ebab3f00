//! A connection that only reads: users, the tables of a remote, and its downloads.

use crate::administration::claims_from;
use crate::catalog::require_any;
use crate::identity::Binding;
use crate::postgres::catalog::{self, Catalog};
use crate::postgres::connect::Role;
use crate::postgres::download::Access;
use crate::postgres::download::fetcher::{Fetcher, Known};
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link, Row};
use crate::script::{Phase, trace};
use crate::serving::Serving;
use crate::synchronization::expiry::Expiry;
use crate::synchronization::{
    Admittee, Credentials, DownloadBatch, FetchRequest, Fetched, Held, Session,
};
use crate::url::PostgresUrl;
use model::{Code, Failure, PublicationName, RemoteId, ScriptVersion, UserName};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The deployment number, and the users of these names: as many rows, or one without a user.
const USERS: &str = "SELECT s.value::int8, u.user_name, u.password_hash, u.password_version,
    u.claims, u.password_set_at, u.password_expires_at
FROM syncline.syncline_system s LEFT JOIN syncline.syncline_user u ON u.user_name = ANY ($1)
WHERE s.name = 'deployment'";

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
    known: Known,
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
            known: Known::new(serving),
        })
    }

    fn fetcher(&mut self) -> Fetcher<'_> {
        let Reader { link, catalog, known, .. } = self;
        Fetcher { link, catalog, known, access: Access::ReadOnly }
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
            || self.known.departures.are_new()
            || self.catalog.looks_otherwise(&mut self.link)?
        {
            self.fetcher().load()?;
            self.deployment = self.catalog.deployed.deployment;
        }
        let who = (user, claims);
        let deployed = &mut self.catalog.deployed;
        let mut session = deployed.session(who, remote_id, script_version, publications)?;
        self.catalog.require_columns(&session)?;
        session.waiting = Arc::new(self.catalog.waiting(&session));
        require_any(&session)?;
        let tables = self.catalog.tables(&session)?;
        self.known.claims.check(&mut self.link, &tables, &session)?;
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
        let fetched = self.fetcher().fetch(request, sink);
        if fetched.is_ok() {
            trace::ended(request.session, Phase::Download, true);
        }
        fetched.map_err(|failure| self.fetcher().explain(failure, request.session))
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
