//! What this remote is and what both sides have agreed on; survives a kill and a power cut.
//!
//! P1. A progress number names one content for ever: a generation frozen anew gets a new number
//!     (trap 6), and numbers have random gaps, so that two copies of a file do not give the same
//!     one to different contents (trap 13).
//! P2. A generation is frozen, durably, before the first byte of it leaves, and stays frozen
//!     until its outcome is known: *committed* drops it, *not committed* merges it back.
//! P3. The nonce of an attempt is durable before the first byte leaves and is kept until a
//!     download of it was applied, so that a lost answer is no copied file (trap 13).
//! P4. Watermarks, counter and confirmed nonce move with the rows they speak of, in one
//!     transaction (S4).

use crate::apply::incoming;
use crate::capture::change_log;
use crate::connection::{begin_immediate, explain};
use crate::schema::RemoteTable;
use model::{
    Code, Counter, DatabaseId, Failure, Nonce, Progress, PublicationName, Random, RemoteId,
    ScriptVersion, UserName, Watermark,
};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, ToSql};

/// One fact of `syncline_state`; `None` when it is not known yet.
pub(crate) fn get<T: FromSql>(connection: &Connection, name: &str) -> rusqlite::Result<Option<T>> {
    let value = connection
        .prepare_cached("SELECT value FROM syncline_state WHERE name = ?1")?
        .query_row([name], |row| row.get::<_, Option<T>>(0))
        .optional()?;
    Ok(value.flatten())
}

/// Records a fact.
pub(crate) fn set(connection: &Connection, name: &str, value: impl ToSql) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO syncline_state VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute(rusqlite::params![name, value])?;
    Ok(())
}

/// Forgets facts.
pub(crate) fn forget(connection: &Connection, names: &[&str]) -> rusqlite::Result<()> {
    for name in names {
        connection.execute("DELETE FROM syncline_state WHERE name = ?1", [name])?;
    }
    Ok(())
}

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
    /// The last upload known to be committed.
    pub(crate) progress: Progress,
    pub(crate) progress_last_used: Progress,
    /// The generation that was or is being sent, and its number.
    pub(crate) frozen: Option<Frozen>,
    /// The generation that triggers write to.
    pub(crate) open_generation: i64,
    pub(crate) schema_fingerprint: Option<String>,
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
        let text = |name| get::<String>(connection, name).map_err(explain);
        let number = |name| get::<i64>(connection, name).map_err(explain);
        let publications = text("publications")?.unwrap_or_else(|| "[]".into());
        let frozen = match (number("frozen_generation")?, number("progress_frozen")?) {
            (Some(generation), Some(progress)) => {
                Some(Frozen { generation, progress: Progress(progress) })
            }
            _ => None,
        };
        Ok(State {
            remote_id: text("remote_id")?.map(RemoteId::new).transpose()?,
            server: text("server")?,
            user: text("user")?.map(UserName::new).transpose()?,
            script_version: text("script_version")?.map(ScriptVersion::new).transpose()?,
            publications: serde_json::from_str(&publications).map_err(|error| {
                Failure::new(Code::Bug, "the remote's publications do not read").source(error)
            })?,
            database_id: text("database_id")?.map(DatabaseId),
            counter: Counter(number("counter")?.unwrap_or(0)),
            nonce_confirmed: Nonce(number("nonce_confirmed")?.unwrap_or(0)),
            nonce_attempt: number("nonce_attempt")?.map(Nonce),
            attempt: number("attempt")?.unwrap_or(0),
            progress: Progress(number("progress")?.unwrap_or(0)),
            progress_last_used: Progress(number("progress_last_used")?.unwrap_or(0)),
            frozen,
            open_generation: connection
                .prepare_cached("SELECT current FROM syncline_generation")
                .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
                .map_err(explain)?,
            schema_fingerprint: text("schema_fingerprint")?,
        })
    }
}

/// Begins an attempt, in one transaction: gives the remote its identity, the attempt its nonce,
/// and freezes what is to be uploaded. Where an earlier upload has an unknown outcome, that one
/// stays frozen.
pub(crate) fn begin_attempt(
    connection: &Connection,
    tables: &[RemoteTable],
    random: &mut Random,
    uploads: bool,
) -> Result<State, Failure> {
    let state = State::read(connection)?;
    let open = state.open_generation;
    let transaction = begin_immediate(connection)?;
    // So that the server knows a Hello that this one has overtaken.
    set(&transaction, "attempt", state.attempt + 1).map_err(explain)?;
    if state.remote_id.is_none() {
        set(&transaction, "remote_id", random.next_uuid()).map_err(explain)?;
    }
    if state.nonce_attempt.is_none() {
        set(&transaction, "nonce_attempt", new_nonce(random)).map_err(explain)?;
    }
    if state.frozen.is_none() {
        incoming::apply_for_undone_changes(&transaction, tables, open)?;
        if uploads {
            freeze(&transaction, tables, &state, random)?;
        }
    }
    transaction.commit().map_err(explain)?;
    State::read(connection)
}

/// Zero means "none" on the wire, so it is never drawn.
fn new_nonce(random: &mut Random) -> i64 {
    (random.next_u64() | 1) as i64
}

/// Freezes the open generation, if it has an entry, under a number never used before (P1).
fn freeze(
    connection: &Connection,
    tables: &[RemoteTable],
    state: &State,
    random: &mut Random,
) -> Result<(), Failure> {
    let open = state.open_generation;
    let mut pending = false;
    for table in tables {
        pending |= change_log::has_entries(connection, table, open).map_err(explain)?;
    }
    if !pending {
        return Ok(());
    }
    // 32 bits of gap leave room for two thousand million uploads.
    let gap = i64::from(random.next_u64() as u32);
    let number = state.progress_last_used.0.max(state.progress.0) + 1 + gap;
    let record = || -> rusqlite::Result<()> {
        set(connection, "frozen_generation", open)?;
        set(connection, "progress_frozen", number)?;
        set(connection, "progress_last_used", number)?;
        connection.execute("UPDATE syncline_generation SET current = current + 1", [])?;
        Ok(())
    };
    record().map_err(explain)
}

/// Drops the frozen generation, which is known to be committed.
pub(crate) fn drop_frozen(
    connection: &Connection,
    tables: &[RemoteTable],
    frozen: Frozen,
) -> rusqlite::Result<()> {
    for table in tables.iter().filter(|table| table.uploads()) {
        change_log::drop_generation(connection, table, frozen.generation)?;
    }
    set(connection, "progress", frozen.progress.0)?;
    forget(connection, &["frozen_generation", "progress_frozen"])
}

/// Merges the frozen generation back, which is known not to be committed. Its number is used up.
pub(crate) fn merge_back(
    connection: &Connection,
    tables: &[RemoteTable],
    frozen: Frozen,
    open: i64,
) -> rusqlite::Result<()> {
    for table in tables.iter().filter(|table| table.uploads()) {
        change_log::merge_back(connection, table, frozen.generation, open)?;
    }
    forget(connection, &["frozen_generation", "progress_frozen"])
}

/// Drops the frozen generation in a transaction of its own.
pub(crate) fn commit_frozen(
    connection: &Connection,
    tables: &[RemoteTable],
    frozen: Frozen,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    drop_frozen(&transaction, tables, frozen).map_err(explain)?;
    transaction.commit().map_err(explain)
}

/// What the server says about the last upload, as far as it is news.
pub(crate) fn learn_outcome(
    connection: &Connection,
    tables: &[RemoteTable],
    state: &State,
    committed: Progress,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    match state.frozen {
        Some(frozen) if frozen.progress == committed => {
            drop_frozen(&transaction, tables, frozen).map_err(explain)?;
        }
        frozen => {
            if let Some(frozen) = frozen {
                merge_back(&transaction, tables, frozen, state.open_generation).map_err(explain)?;
            }
        }
    }
    transaction.commit().map_err(explain)
}

/// Becomes another remote that keeps what this one has not uploaded (trap 13).
pub(crate) fn take_new_identity(
    connection: &Connection,
    tables: &[RemoteTable],
    random: &mut Random,
) -> Result<RemoteId, Failure> {
    let state = State::read(connection)?;
    let remote_id = RemoteId::new(random.next_uuid())?;
    let transaction = begin_immediate(connection)?;
    if let Some(frozen) = state.frozen {
        merge_back(&transaction, tables, frozen, state.open_generation).map_err(explain)?;
    }
    set(&transaction, "remote_id", remote_id.as_str()).map_err(explain)?;
    forget_agreements(&transaction).map_err(explain)?;
    transaction.commit().map_err(explain)?;
    Ok(remote_id)
}

/// Forgets everything that was agreed on with a server about this identity. Numbers already used
/// stay used.
pub(crate) fn forget_agreements(connection: &Connection) -> rusqlite::Result<()> {
    forget(connection, &["counter", "nonce_confirmed", "nonce_attempt", "progress"])?;
    connection.execute("UPDATE syncline_table SET watermark = NULL", [])?;
    Ok(())
}

/// Up to where each table is complete, in the order of the schema agreed on.
pub(crate) fn watermarks(connection: &Connection) -> Result<Vec<Option<Watermark>>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT watermark FROM syncline_table ORDER BY position")
        .map_err(explain)?;
    let mut rows = statement.query([]).map_err(explain)?;
    let mut watermarks = Vec::new();
    while let Some(row) = rows.next().map_err(explain)? {
        let bytes: Option<Vec<u8>> = row.get(0).map_err(explain)?;
        watermarks.push(bytes.map(Watermark::new).transpose()?);
    }
    Ok(watermarks)
}

/// Records what a download agreed on, within the transaction of its rows (P4).
pub(crate) fn confirm(
    connection: &Connection,
    watermarks: &[Option<Watermark>],
    counter: Counter,
) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("UPDATE syncline_table SET watermark = ?2 WHERE position = ?1")?;
    for (position, watermark) in watermarks.iter().enumerate() {
        let bytes = watermark.as_ref().map(Watermark::as_bytes);
        statement.execute(rusqlite::params![position as i64, bytes])?;
    }
    set(connection, "counter", counter.0)?;
    if let Some(attempt) = get::<i64>(connection, "nonce_attempt")? {
        set(connection, "nonce_confirmed", attempt)?;
    }
    forget(connection, &["nonce_attempt"])
}
