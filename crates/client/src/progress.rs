//! The identity of the remote and what both sides have agreed on.
//!
//! It survives a kill and a power cut.
//!
//! P1. A progress number always means the same content. A generation that is frozen again gets a
//!     new number (trap 6). Numbers have random gaps, so that two copies of a file do not use the
//!     same number for different contents (trap 13).
//! P2. A generation is frozen, durably, before its first byte leaves. It stays frozen until its
//!     outcome is known: *committed* deletes it, *not committed* merges it.
//! P3. The nonce of an attempt is durable before the first byte leaves, and is kept until a
//!     download of this attempt is applied. So a lost answer is not taken for a copied file (trap
//!     13).
//! P4. Watermarks, counter and confirmed nonce are stored in the transaction of their rows (S4).

pub(crate) mod facts;
pub(crate) mod partial;
pub(crate) mod state;

use crate::capture::{broken, change_log, undone};
use crate::connection::{begin_immediate, explain};
use crate::schema::RemoteTable;
use crate::schema::history::Arriving;
use crate::upload::left_behind::{self, Fitting, LeftBehind};
use facts::{forget, record, set};
use model::{Counter, Failure, FileSecret, Nonce, Progress, Random, Receipt, RemoteId, Watermark};
use rusqlite::types::Null;
use rusqlite::{Connection, ToSql};
use state::{Frozen, State};

/// The facts of a frozen generation.
const FROZEN: &[&str] = &["frozen_generation", "progress_frozen"];

/// An attempt that is durable.
#[derive(Debug)]
pub(crate) struct BegunAttempt {
    pub(crate) state: State,
    /// An earlier attempt froze this generation. It is unknown whether it was committed.
    pub(crate) outcome_unknown: bool,
    /// Pending changes must wait for a download first (trap 24).
    pub(crate) postponed: bool,
    /// What was not frozen because no frame takes it.
    pub(crate) left_behind: LeftBehind,
}

/// What an attempt freezes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Freezing<'a> {
    Nothing,
    All,
    /// What frames take, and what does not refer to the rest (`upload/left_behind.rs`).
    WhatFits(Fitting<'a>),
}

/// Begins an attempt, in one transaction: gives the remote its identity, the attempt its nonce,
/// and freezes what is to be uploaded. Where an earlier upload has an unknown outcome, that one
/// stays frozen.
pub(crate) fn begin_attempt(
    connection: &Connection,
    tables: &[RemoteTable],
    random: &mut Random,
    freezing: Freezing<'_>,
) -> Result<BegunAttempt, Failure> {
    let transaction = begin_immediate(connection)?;
    let mut state = State::read(&transaction)?;
    let outcome_unknown = state.frozen.is_some();
    // So that the server knows a Hello that this one has overtaken.
    state.attempt += 1;
    let is_new = state.remote_id.is_none() || state.file_secret.is_none();
    let remote_id = match state.remote_id.take() {
        Some(remote_id) => remote_id,
        None => RemoteId::new(random.next_uuid())?,
    };
    let nonce = state.nonce_attempt.unwrap_or_else(|| new_nonce(random));
    let secret = state.file_secret.unwrap_or_else(|| FileSecret::new(random.next_bytes()));
    let (id, bytes) = (remote_id.as_str(), secret.as_bytes());
    let identity: [(&str, &dyn ToSql); 4] = [
        ("attempt", &state.attempt),
        ("nonce_attempt", &nonce.0),
        ("remote_id", &id),
        ("file_secret", &bytes),
    ];
    // What a file is it is from its first attempt on.
    let identity = if is_new { &identity[..] } else { &identity[..2] };
    let uploads = !matches!(freezing, Freezing::Nothing);
    let (mut freezes, mut postponed) = (false, false);
    let mut left_behind = LeftBehind::default();
    if !outcome_unknown {
        undone::forget_beside_incoming(&transaction, tables, state.open_generation)?;
        postponed = uploads && !postponed_tables(&transaction, tables, &state)?.is_empty();
        freezes =
            uploads && !postponed && has_entries(&transaction, tables, state.open_generation)?;
    }
    if freezes {
        let frozen = freeze(&transaction, &state, random, identity).map_err(explain)?;
        state.frozen = Some(frozen);
        state.progress_last_used = frozen.progress;
        state.open_generation += 1;
        if let Freezing::WhatFits(fitting) = freezing {
            let generations = (frozen.generation, state.open_generation);
            left_behind = left_behind::leave(&transaction, tables, generations, fitting)?;
            if !has_entries(&transaction, tables, frozen.generation)? {
                forget(&transaction, FROZEN).map_err(explain)?;
                state.frozen = None;
            }
        }
    } else {
        record(&transaction, identity).map_err(explain)?;
    }
    transaction.commit().map_err(explain)?;
    state.remote_id = Some(remote_id);
    state.nonce_attempt = Some(nonce);
    state.file_secret = Some(secret);
    Ok(BegunAttempt { state, outcome_unknown, postponed, left_behind })
}

/// Positions of the tables in which a row was changed whose old image would have columns that were
/// never received, or that were stored since its table was unpublished.
pub(crate) fn postponed_tables(
    connection: &Connection,
    tables: &[RemoteTable],
    state: &State,
) -> Result<Vec<u16>, Failure> {
    let unseen = |table: &&RemoteTable| {
        let arriving = state.history.arriving.get(table.name());
        let waits = |arriving: &Arriving| !arriving.unseen.is_empty() || arriving.returned;
        table.uploads() && table.downloads() && arriving.is_some_and(waits)
    };
    let mut postponed = Vec::new();
    for table in tables.iter().filter(unseen) {
        if change_log::has_old_images(connection, table, state.open_generation).map_err(explain)? {
            postponed.push(table.position);
        }
    }
    Ok(postponed)
}

/// Zero means "none" on the wire, so it is never drawn.
fn new_nonce(random: &mut Random) -> Nonce {
    Nonce((random.next_u64() | 1) as i64)
}

/// True when a generation has entries, of whichever table.
fn has_entries(
    connection: &Connection,
    tables: &[RemoteTable],
    generation: i64,
) -> Result<bool, Failure> {
    for table in tables {
        if change_log::has_entries(connection, table, generation).map_err(explain)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Freezes the open generation under a number never used before (P1), and records what else there
/// is to record.
fn freeze(
    connection: &Connection,
    state: &State,
    random: &mut Random,
    others: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<Frozen> {
    // 32 bits of gap leave room for two thousand million uploads.
    let gap = i64::from(random.next_u64() as u32);
    let number = state.progress_last_used.0.max(state.progress.0) + 1 + gap;
    let frozen = Frozen { generation: state.open_generation, progress: Progress(number) };
    let mut facts = others.to_vec();
    facts.extend([
        ("frozen_generation", &frozen.generation as &dyn ToSql),
        ("progress_frozen", &number),
        ("progress_last_used", &number),
    ]);
    record(connection, &facts)?;
    connection
        .prepare_cached("UPDATE syncline_generation SET current = current + 1")?
        .execute([])?;
    Ok(frozen)
}

/// Forgets the entries of the frozen generation, which is known to be committed. That it was is
/// recorded in the same transaction: by [`drop_frozen`] or [`confirm`].
pub(crate) fn drop_entries(
    connection: &Connection,
    tables: &[RemoteTable],
    frozen: Frozen,
) -> rusqlite::Result<()> {
    broken::note(connection, tables, frozen.generation)?;
    for table in tables.iter().filter(|table| table.uploads()) {
        change_log::drop_generation(connection, table, frozen.generation)?;
    }
    Ok(())
}

/// Drops the frozen generation, which is known to be committed.
pub(crate) fn drop_frozen(
    connection: &Connection,
    tables: &[RemoteTable],
    frozen: Frozen,
) -> Result<(), Failure> {
    drop_entries(connection, tables, frozen).map_err(explain)?;
    record(
        connection,
        &[
            ("progress", &frozen.progress.0),
            ("frozen_generation", &Null),
            ("progress_frozen", &Null),
        ],
    )
    .map_err(explain)
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
    forget(connection, FROZEN)
}

/// Takes the entries of some tables out of the frozen generation, of which nothing is committed or
/// can be. They are uploaded later, under another number (P1).
pub(crate) fn keep_back<'t>(
    connection: &Connection,
    tables: impl Iterator<Item = &'t RemoteTable>,
    frozen: Frozen,
    open: i64,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    for table in tables.filter(|table| table.uploads()) {
        change_log::merge_back(&transaction, table, frozen.generation, open).map_err(explain)?;
    }
    transaction.commit().map_err(explain)
}

/// Drops the frozen generation in a transaction of its own.
pub(crate) fn commit_frozen(
    connection: &Connection,
    tables: &[RemoteTable],
    frozen: Frozen,
    receipt: Option<&Receipt>,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    drop_frozen(&transaction, tables, frozen)?;
    if let Some(receipt) = receipt {
        set(&transaction, "receipt", receipt.as_bytes()).map_err(explain)?;
    }
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
            drop_frozen(&transaction, tables, frozen)?;
        }
        frozen => {
            if let Some(frozen) = frozen {
                merge_back(&transaction, tables, frozen, state.open_generation).map_err(explain)?;
            }
        }
    }
    transaction.commit().map_err(explain)
}

/// Becomes another remote that keeps what this one has not uploaded (trap 13). `committed` is its
/// last upload, where the server knows it.
pub(crate) fn take_new_identity(
    connection: &Connection,
    tables: &[RemoteTable],
    random: &mut Random,
    committed: Option<Progress>,
) -> Result<RemoteId, Failure> {
    let state = State::read(connection)?;
    let remote_id = RemoteId::new(random.next_uuid())?;
    let transaction = begin_immediate(connection)?;
    match state.frozen {
        // Numbers have random gaps, so a number that is ours is our content.
        Some(frozen) if committed == Some(frozen.progress) => {
            drop_frozen(&transaction, tables, frozen)?;
        }
        Some(frozen) => {
            merge_back(&transaction, tables, frozen, state.open_generation).map_err(explain)?;
        }
        None => {}
    }
    set(&transaction, "remote_id", remote_id.as_str()).map_err(explain)?;
    // The center may have lost what this file was sent under its former identity.
    let mut history = state.history;
    history.keep_watermarks(&transaction)?;
    history.write(&transaction)?;
    forget_agreements(&transaction).map_err(explain)?;
    transaction.commit().map_err(explain)?;
    Ok(remote_id)
}

/// Forgets a remote ID that no server has accepted, so that another can be tried.
pub(crate) fn forget_refused_identity(connection: &Connection) -> Result<(), Failure> {
    let state = State::read(connection)?;
    if state.database_id.is_some() || state.counter != Counter(0) {
        return Ok(());
    }
    let transaction = begin_immediate(connection)?;
    forget(&transaction, &["remote_id", "nonce_attempt"]).map_err(explain)?;
    transaction.commit().map_err(explain)
}

/// Forgets everything that was agreed on with a server about this identity. Numbers already used
/// stay used. The next identity has a secret of its own: it is another remote.
pub(crate) fn forget_agreements(connection: &Connection) -> rusqlite::Result<()> {
    forget(
        connection,
        &["counter", "nonce_confirmed", "nonce_attempt", "progress", "file_secret", "receipt"],
    )?;
    connection.execute("UPDATE syncline_table SET watermark = NULL", [])?;
    partial::clear(connection)?;
    // The next identity counts from the beginning, and its rejects and conflicts are others.
    let sql = "UPDATE syncline_reject SET counter = -id WHERE counter >= 0 AND id IS NOT NULL";
    connection.execute(sql, [])?;
    if connection.table_exists(Some("main"), "syncline_conflict")? {
        connection.execute("UPDATE syncline_conflict SET counter = -id", [])?;
    }
    connection.execute_batch("DROP TABLE IF EXISTS syncline_settled")?;
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

/// What a download agrees on.
#[derive(Debug)]
pub(crate) struct Agreed<'a> {
    pub(crate) watermarks: &'a [Option<Watermark>],
    pub(crate) counter: Counter,
    /// The nonce of the attempt.
    pub(crate) nonce: Option<Nonce>,
    pub(crate) receipt: Option<&'a Receipt>,
    /// The upload that was committed in the same synchronization.
    pub(crate) committed: Option<Frozen>,
}

/// Records what a download agreed on, within the transaction of its rows (P4).
pub(crate) fn confirm(connection: &Connection, agreed: &Agreed<'_>) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("UPDATE syncline_table SET watermark = ?2 WHERE position = ?1")?;
    for (position, watermark) in agreed.watermarks.iter().enumerate() {
        let bytes = watermark.as_ref().map(Watermark::as_bytes);
        statement.execute(rusqlite::params![position as i64, bytes])?;
    }
    let mut facts: Vec<(&str, &dyn ToSql)> = vec![("counter", &agreed.counter.0)];
    if let Some(nonce) = &agreed.nonce {
        facts.extend([("nonce_confirmed", &nonce.0 as &dyn ToSql), ("nonce_attempt", &Null)]);
    }
    let receipt = agreed.receipt.map(Receipt::as_bytes);
    if let Some(receipt) = &receipt {
        facts.push(("receipt", receipt));
    }
    if let Some(frozen) = &agreed.committed {
        facts.extend([
            ("progress", &frozen.progress.0 as &dyn ToSql),
            ("frozen_generation", &Null),
            ("progress_frozen", &Null),
        ]);
    }
    record(connection, &facts)
}
