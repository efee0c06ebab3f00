//! A connection that only reads: users, the tables of a remote, and its downloads.

use super::catalog::{self, Catalog};
use super::connect::connect_for;
use super::errors::failed;
use super::{identity, query};
use crate::administration::claims_from;
use crate::catalog::require_any;
use crate::disk::Location;
use crate::script::{Phase, trace};
use crate::serving::Serving;
use crate::sqlite::download;
use crate::sqlite::download::durable::Durable;
use crate::synchronization::expiry::Expiry;
use crate::synchronization::{
    Admittee, Credentials, DownloadBatch, FetchRequest, Fetched, Held, Session,
};
use model::{Failure, PublicationName, RemoteId, ScriptVersion, Spills, UserName};
use rusqlite::{Connection, OptionalExtension, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads from the consolidated database.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Connection,
    catalog: Catalog,
    durable: Arc<Durable>,
    spills: Arc<Spills>,
}

impl Reader {
    /// Opens the database.
    pub(crate) fn open(location: &Location, serving: &Serving) -> Result<Reader, Failure> {
        let connection = connect_for(location, true, serving)?;
        let catalog = Catalog::load(&connection)?;
        let (durable, spills) = (Durable::of(location), serving.spills.clone());
        Ok(Reader { connection, catalog, durable, spills })
    }

    fn refresh(catalog: &mut Catalog, connection: &Connection) -> Result<(), Failure> {
        if catalog::deployment(connection)? != catalog.deployed.deployment {
            *catalog = Catalog::load(connection)?;
        }
        catalog.verify(connection)
    }

    fn credentials_of(&self, user: &UserName) -> Result<Option<Credentials>, Failure> {
        let found: Option<(String, i64, String, i64, Option<i64>)> = self
            .connection
            .prepare_cached(
                "SELECT password_hash, password_version, claims, password_set_at,
                     password_expires_at
                 FROM syncline_user WHERE user_name = ?1",
            )
            .and_then(|mut statement| {
                statement.query_row([user.as_str()], |row| row.try_into()).optional()
            })
            .map_err(failed("read the user"))?;
        let Some((password_hash, password_version, claims, set_at, expires_at)) = found else {
            return Ok(None);
        };
        Ok(Some(Credentials {
            password_hash,
            password_version,
            password_set_at_unix_s: set_at,
            password_expires: Expiry::stored(expires_at),
            claims: claims_from(&claims)?,
        }))
    }
}

impl crate::connection::Reader for Reader {
    fn token_key(&mut self) -> Result<Vec<u8>, Failure> {
        let sql = "SELECT value FROM syncline_system WHERE name = 'token_key'";
        query::value(&self.connection, "read the key of session tokens", sql, [])
    }

    fn admittees(&mut self, who: &[(&UserName, &RemoteId)]) -> Result<Vec<Admittee>, Failure> {
        who.iter()
            .map(|(user, remote_id)| {
                Ok(Admittee {
                    credentials: self.credentials_of(user)?,
                    binding: identity::binding(&self.connection, remote_id)?,
                })
            })
            .collect()
    }

    fn session(
        &mut self,
        user: &UserName,
        claims: BTreeMap<String, String>,
        remote_id: &RemoteId,
        script_version: Option<&ScriptVersion>,
        publications: &[PublicationName],
    ) -> Result<Session, Failure> {
        Reader::refresh(&mut self.catalog, &self.connection)?;
        let who = (user, claims);
        let deployed = &mut self.catalog.deployed;
        let mut session = deployed.session(who, remote_id, script_version, publications)?;
        self.catalog.require_columns(&session)?;
        session.waiting = Arc::new(self.catalog.waiting(&session));
        require_any(&session)?;
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
        let snapshot =
            Transaction::new_unchecked(&self.connection, rusqlite::TransactionBehavior::Deferred)
                .map_err(failed("take a snapshot"))?;
        // Inside the snapshot, so that scripts and rows are of the same moment.
        Reader::refresh(&mut self.catalog, &self.connection)?;
        let session = self.catalog.now(request.session);
        self.catalog.require_columns(&session)?;
        let tables = self.catalog.deployed.tables(&session)?;
        let request = FetchRequest { session: &session, ..*request };
        let fetched =
            download::fetch(&self.connection, &tables, &request, None, &self.spills, sink);
        let deployed = &self.catalog.deployed;
        let (fetched, ends) = fetched.map_err(|failure| deployed.hide(&session, failure))?;
        snapshot.finish().map_err(failed("end the snapshot"))?;
        trace::ended(request.session, Phase::Download, true);
        self.durable.ensure(&ends)?;
        Ok(fetched)
    }
}
