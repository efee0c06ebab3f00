//! Everything in `syncline_state`, read at once.

use crate::connection::{damaged, explain};
use crate::schema::history;
use crate::schema::history::History;
use model::{
    Counter, DatabaseId, Failure, FileSecret, Nonce, Progress, PublicationName, Receipt, RemoteId,
    ScriptVersion, UserName,
};
use protocol::{Capabilities, FRAME_BYTES_MAX};
use rusqlite::Connection;
use rusqlite::types::{FromSql, Value};
use std::collections::HashMap;

/// The fact that an attempt may have left hidden tables behind.
pub(crate) const FILLING: &str = "first_fill";

/// Everything in `syncline_state`.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) remote_id: Option<RemoteId>,
    pub(crate) server: Option<String>,
    pub(crate) user: Option<UserName>,
    pub(crate) script_version: Option<ScriptVersion>,
    pub(crate) publications: Vec<PublicationName>,
    pub(crate) database_id: Option<DatabaseId>,
    pub(crate) counter: Counter,
    pub(crate) nonce_confirmed: Nonce,
    pub(crate) nonce_attempt: Option<Nonce>,
    /// Connections begun, this one included.
    pub(crate) attempt: i64,
    /// What this file, and no other, has in common with the server.
    pub(crate) file_secret: Option<FileSecret>,
    /// The last one that the server gave.
    pub(crate) receipt: Option<Receipt>,
    /// The user who synchronized last. Another user cannot upload the pending changes.
    pub(crate) synchronized_user: Option<UserName>,
    /// The last upload known to be committed.
    pub(crate) progress: Progress,
    pub(crate) progress_last_used: Progress,
    /// The generation that was or is being sent, and its number.
    pub(crate) frozen: Option<Frozen>,
    /// The generation that triggers write to.
    pub(crate) open_generation: i64,
    pub(crate) schema_fingerprint: Option<String>,
    /// How the server of the last Welcome reads compressed rows; nothing where there was none.
    pub(crate) server_capabilities: Capabilities,
    /// The largest frame that this server takes.
    pub(crate) frame_bytes_max: u64,
    /// Tables beyond what is published now.
    pub(crate) history: History,
    /// An attempt may have left hidden tables behind.
    pub(crate) filling: bool,
}

/// A generation on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frozen {
    pub(crate) generation: i64,
    pub(crate) progress: Progress,
}

impl State {
    /// Reads all of it.
    pub(crate) fn read(connection: &Connection) -> Result<State, Failure> {
        let mut facts = Facts::read(connection).map_err(explain)?;
        let publications: Option<String> = facts.take("publications")?;
        let history: Option<String> = facts.take(history::FACT)?;
        let frozen = match (facts.take("frozen_generation")?, facts.take("progress_frozen")?) {
            (Some(generation), Some(progress)) => {
                Some(Frozen { generation, progress: Progress(progress) })
            }
            _ => None,
        };
        let bug = || damaged("the remote has no open generation");
        Ok(State {
            remote_id: facts.take::<String>("remote_id")?.map(RemoteId::new).transpose()?,
            server: facts.take("server")?,
            user: facts.take::<String>("user")?.map(UserName::new).transpose()?,
            script_version: facts
                .take::<String>("script_version")?
                .map(ScriptVersion::new)
                .transpose()?,
            publications: serde_json::from_str(publications.as_deref().unwrap_or("[]"))
                .map_err(|error| damaged("the remote's publications do not read").source(error))?,
            database_id: facts.take("database_id")?.map(DatabaseId),
            counter: Counter(facts.take("counter")?.unwrap_or(0)),
            nonce_confirmed: Nonce(facts.take("nonce_confirmed")?.unwrap_or(0)),
            nonce_attempt: facts.take("nonce_attempt")?.map(Nonce),
            attempt: facts.take("attempt")?.unwrap_or(0),
            file_secret: facts
                .take::<Vec<u8>>("file_secret")?
                .map(|bytes| FileSecret::from_slice(&bytes))
                .transpose()?,
            receipt: facts.take("receipt")?.map(Receipt::new).transpose()?,
            synchronized_user: facts
                .take::<String>("synchronized_user")?
                .map(UserName::new)
                .transpose()?,
            progress: Progress(facts.take("progress")?.unwrap_or(0)),
            progress_last_used: Progress(facts.take("progress_last_used")?.unwrap_or(0)),
            frozen,
            open_generation: facts.take("open_generation")?.ok_or_else(bug)?,
            schema_fingerprint: facts.take("schema_fingerprint")?,
            server_capabilities: Capabilities(
                facts.take::<i64>("server_capabilities")?.unwrap_or(0).cast_unsigned(),
            ),
            frame_bytes_max: facts
                .take::<i64>("frame_bytes_max")?
                .map_or(FRAME_BYTES_MAX as u64, i64::unsigned_abs),
            history: History::parse(history.as_deref())?,
            filling: facts.take(FILLING)?.unwrap_or(false),
        })
    }
}

/// What lies in `syncline_state`, read by one statement.
pub(crate) struct Facts(HashMap<String, Value>);

impl Facts {
    fn read(connection: &Connection) -> rusqlite::Result<Facts> {
        let mut statement = connection.prepare_cached(
            "SELECT name, value FROM syncline_state
             UNION ALL SELECT 'open_generation', current FROM syncline_generation",
        )?;
        let facts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Facts(facts.collect::<rusqlite::Result<_>>()?))
    }

    /// One fact; `None` when it is not known yet.
    fn take<T: FromSql>(&mut self, name: &str) -> Result<Option<T>, Failure> {
        let value = self.0.remove(name).unwrap_or(Value::Null);
        Option::column_result((&value).into())
            .map_err(|error| damaged(format!("the remote's {name} does not read")).source(error))
    }
}
