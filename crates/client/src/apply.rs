//! A download becomes visible as a whole, in one transaction, or not at all (S4).
//!
//! The order within the transaction:
//!
//! 1. Rejects are recorded, while the losing rows still exist (`apply/rejects.rs`), and so is what
//!    belongs to them (`apply/lost_inserts.rs`).
//! 2. The upload that this download follows is deleted, because it is committed (`progress.rs`).
//! 3. Rows are written, parents and children in any order, because foreign keys, RESTRICT included,
//!    are checked at the end. Rows that block each other wait (`apply/rows/waiting.rs`, trap 10).
//! 4. Rows are deleted, the last table first. In a refresh, rows that did not arrive are also
//!    deleted (`apply/refresh.rs`). What is kept back is tried again (`apply/kept_back.rs`).
//! 5. Waiting rows are written. If foreign keys have acted in the meantime, all rows are written
//!    once more.
//! 6. Rows whose parent is missing at the center too are set aside (`apply/orphans.rs`).
//! 7. Watermarks, counter and nonce are recorded.
//!
//! Large tables that are received for the first time have their rows before all this, under hidden
//! names, and take their places before step 3 (`apply/first_fill.rs`).
//!
//! A row with a pending change is never changed: the downloaded row is stored beside the change
//! (`apply/incoming.rs`, trap 7). Sometimes this is not possible, because a cascade would change
//! such a row or a constraint connects it with a downloaded one. Then nothing is applied and the
//! change is uploaded first ([`Code::ApplyBlocked`]). If it cannot be uploaded first, the download
//! is refused ([`Code::DownloadBlocked`]).
//!
//! A single row that a table refuses is kept back, and the rest is applied (`apply/kept_back.rs`).
//! The same holds for a row that cannot go, because a table of the user's own refers to it or a
//! change that has to wait (`apply/guarded.rs`).
//!
//! All triggers of the file are off for this connection, also the user's. Foreign key actions are
//! not. A temporary trigger notes what goes unseen (`apply/own_values.rs`). Where the model wants
//! the user's triggers to fire, temporary copies of them do (`apply/fired.rs`).

mod arrivals;
pub(crate) mod circumstances;
pub(crate) mod constraint;
pub(crate) mod download;
pub(crate) mod fired;
pub(crate) mod first_fill;
mod followed;
mod frame;
mod guarded;
pub(crate) mod incoming;
pub(crate) mod kept_back;
mod lost_inserts;
pub(crate) mod orphans;
mod own_values;
pub(crate) mod readable;
pub(crate) mod refresh;
pub(crate) mod rejects;
pub(crate) mod rows;
mod stale;
#[cfg(test)]
mod tests;
mod uncounted;
mod values;

use crate::capture::{broken, change_log, undone};
use crate::connection::{LargeCache, begin_immediate, explain, triggers_off};
use crate::fail_point::fail_point;
use crate::progress::{self, Agreed};
use arrivals::Arrivals;
use circumstances::{Circumstances, Uploads, blocked};
use download::Download;
use fired::Fired;
use fired::silent::SilentTrigger;
use first_fill::FirstFill;
use model::{Code, Failure};
use own_values::OwnValues;
use protocol::{DownloadEnd, DownloadMode};
use refresh::SentAgain;
use rows::Writer;
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeSet;

/// Downloads of more rows get a larger cache.
const SMALL_DOWNLOAD_ROWS: u64 = 1_000;

/// What the application of a download has come to.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    /// How many rejects it brought.
    pub(crate) rejects: u64,
    /// How many lost conflicts.
    pub(crate) conflicts_lost: u64,
    /// Some tables have to be received as a whole (`apply/followed.rs`).
    pub(crate) receives_anew: bool,
    /// What the tables lost and got that came again.
    pub(crate) sent_again: SentAgain,
    /// Triggers that could not fire (`apply/fired/silent.rs`).
    pub(crate) silent: Vec<SilentTrigger>,
}

/// Applies a download. Idempotent: a kill at any moment leaves all of it or nothing.
pub(crate) fn apply(
    connection: &Connection,
    download: &Download,
    end: &DownloadEnd,
    circumstances: &Circumstances<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Applied, Failure> {
    let fill = first_fill::fill(connection, download, circumstances, progress)?;
    let applied = apply_around(connection, download, end, circumstances, &fill, progress);
    let ended = fill.end(connection);
    let applied = applied.map_err(|failure| match failure.code() {
        Code::ApplyBlocked if circumstances.uploads != Uploads::Next => {
            let message = format!("pending changes prevent the download: {}", failure.message());
            Failure::new(Code::DownloadBlocked, message).source(failure)
        }
        _ => failure,
    })?;
    ended?;
    Ok(applied)
}

/// Applies it, around rows that cannot go if there are any (`apply/guarded.rs`).
fn apply_around(
    connection: &Connection,
    download: &Download,
    end: &DownloadEnd,
    circumstances: &Circumstances<'_>,
    fill: &FirstFill,
    progress: &mut dyn FnMut(u64),
) -> Result<Applied, Failure> {
    let guarding = Circumstances { guards: true, ..*circumstances };
    let applied = match kept_back::has_deletes(connection, circumstances.tables)? {
        true => apply_once(connection, download, end, &guarding, fill, progress)?,
        false => match apply_once(connection, download, end, circumstances, fill, progress) {
            // What is in the way is a row of the user's own, or a change that has to wait.
            Err(failure)
                if failure.code() == Code::RemoteSchemaDiffers
                    || failure.code() == Code::ApplyBlocked
                        && circumstances.uploads.have_to_wait() =>
            {
                let none = FirstFill::none(circumstances);
                apply_once(connection, download, end, &guarding, &none, progress)?
            }
            other => return other,
        },
    };
    guarded::end(connection, circumstances.tables)?;
    Ok(applied)
}

fn apply_once(
    connection: &Connection,
    download: &Download,
    end: &DownloadEnd,
    circumstances: &Circumstances<'_>,
    fill: &FirstFill,
    progress: &mut dyn FnMut(u64),
) -> Result<Applied, Failure> {
    let large = download.rows() > SMALL_DOWNLOAD_ROWS;
    let _large_cache = large.then(|| LargeCache::new(connection)).transpose()?;
    let transaction = begin_immediate(connection)?;
    let fired = fire(connection, download, circumstances)?;
    let circumstances = &Circumstances { fired: fired.as_ref(), ..*circumstances };
    let mut learned = rejects::record(connection, download, circumstances)?;
    learned.rejects += lost_inserts::reject_what_belongs(connection, circumstances, &learned.lost)?;
    rejects::perhaps_lost::tell(connection, download, circumstances)?;
    if let Some(frozen) = circumstances.committed {
        progress::drop_entries(connection, circumstances.tables, frozen).map_err(explain)?;
    }
    // Rows that were set aside are looked at again; and the application may have broken foreign
    // keys without noticing, which a reject puts right.
    let may_hide = orphans::count(connection).map_err(explain)? > 0 || learned.rejects > 0;
    let unchecked = arrivals::any_unchecked(connection)?;
    let may_return = orphans::may_return(connection, circumstances.tables)?;
    let (mut followed, mut sent_again) = (BTreeSet::new(), SentAgain::default());
    let kept = kept_back::any(connection, circumstances.tables)?;
    let broken = broken::is_noted(connection).map_err(explain)?;
    if !download.is_empty() || may_return || unchecked || kept || broken {
        (followed, sent_again) =
            write(connection, download, circumstances, &learned.withheld, (fill, progress))?;
        let anew = may_hide || unchecked || kept || broken;
        if anew || uncounted::any(connection, download, circumstances)? {
            orphans::set_aside(connection, circumstances)?;
        }
    }
    // Rows that are guarded stay though they are broken.
    if broken && !circumstances.guards {
        broken::forget(connection).map_err(explain)?;
    }
    rejects::lost_conflicts::settle(connection, circumstances, &learned.conflicts)?;
    arrivals::keep_uncompared(connection, download, circumstances.tables)?;
    let agreed = Agreed {
        watermarks: &end.watermarks,
        counter: end.counter,
        nonce: circumstances.nonce,
        receipt: end.receipt.as_ref(),
        committed: circumstances.committed,
    };
    progress::confirm(connection, &agreed).map_err(explain)?;
    followed::receive_anew(connection, &followed)?;
    progress::partial::clear(connection).map_err(explain)?;
    fail_point!("client-apply-before-commit");
    commit(connection, transaction, circumstances)?;
    fail_point!("client-apply-committed");
    Ok(Applied {
        rejects: learned.rejects,
        conflicts_lost: learned.conflicts.len() as u64,
        receives_anew: !followed.is_empty(),
        sent_again,
        silent: fired.map_or(Ok(Vec::new()), |fired| fired.end(connection))?,
    })
}

/// The triggers that fire, if there are any and rows may be written.
fn fire(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
) -> Result<Option<Fired>, Failure> {
    let tables = circumstances.tables;
    if !tables.iter().any(|table| table.published.fires) {
        return Ok(None);
    }
    let mut writes = !download.is_empty()
        || orphans::count(connection).map_err(explain)? > 0
        || arrivals::any_unchecked(connection)?
        || broken::is_noted(connection).map_err(explain)?;
    for table in tables {
        writes = writes || incoming::waits(connection, table).map_err(explain)?;
    }
    match writes {
        true => Fired::begin(connection, tables, circumstances.open_generation),
        false => Ok(None),
    }
}

/// Writes and deletes the rows. Yields the tables that have to be received as a whole, and what
/// was received so now.
fn write(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
    withheld: &[rejects::Withheld],
    (fill, progress): (&FirstFill, &mut dyn FnMut(u64)),
) -> Result<(BTreeSet<usize>, SentAgain), Failure> {
    triggers_off(connection)?;
    let tables = circumstances.tables;
    // Not without need: the pragma makes SQLite prepare every statement again.
    if tables.iter().any(|table| table.in_foreign_keys) {
        connection.pragma_update(None, "defer_foreign_keys", true).map_err(explain)?;
    }
    // Before rows come back under their keys, which would look like changes.
    for table in tables.iter().filter(|table| table.uploads()) {
        undone::forget(connection, table, circumstances.open_generation)?;
    }
    let own_values = OwnValues::watch(connection, circumstances)?;
    orphans::drop_refreshed(connection, tables, download)?;
    orphans::put_back(connection, circumstances)?;
    let changed_before = changed_rows(connection, circumstances)?;
    kept_back::drop_refreshed(connection, tables, download)?;
    if circumstances.guards {
        guarded::begin(connection, circumstances)?;
    }

    let mut arrivals = Arrivals::begin(connection, circumstances)?;
    let filled = fill.show(connection, circumstances)?;
    let mut writer = Writer::new(connection, download, circumstances, &filled)?;
    writer.keep_withheld(withheld)?;
    writer.write_rows(fill.refused(), progress)?;
    for table in tables.iter().rev() {
        if writer.mode(table) == DownloadMode::Refresh {
            writer.delete_rows_not_received(table)?;
        }
        writer.delete_rows(&download.deletes[usize::from(table.position)], progress)?;
        writer.try_kept_back(table)?;
    }
    writer.write_waiting_rows()?;
    // A child of a deleted row may refer to another row now.
    orphans::put_back(connection, circumstances)?;
    writer.repair_after_actions(&download.upserts)?;
    let followed = match writer.has_seen_actions() {
        true => followed::tables(connection, download, tables)?,
        false => BTreeSet::new(),
    };
    let sent_again = writer.finish()?;
    if circumstances.guards {
        guarded::tell(connection, circumstances)?;
    }
    let returned = arrivals.returned();
    arrivals.settle(download)?;

    // Entries that triggers have added meanwhile do not count, so a table without any stays so.
    let changed = changed_before.iter().any(Option::is_some);
    if changed && changed_rows(connection, circumstances)? != changed_before {
        return Err(Failure::new(
            Code::ApplyBlocked,
            "a delete of the download would take changed rows along with it",
        ));
    }
    for table in returned.into_iter().filter(|_| changed) {
        stale::take_back(connection, table, circumstances)?;
    }
    own_values.tell()?;
    Ok((followed, sent_again))
}

/// Per table with local changes: how many rows exist that had one before. A download must remove
/// none, so an equal count means the same rows.
fn changed_rows(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<Vec<Option<i64>>, Failure> {
    let generation = circumstances.open_generation;
    let uploading = circumstances.tables.iter().filter(|table| table.uploads());
    uploading
        .map(|table| {
            let Some(older) = circumstances.is_older(connection, table)? else { return Ok(None) };
            change_log::live_entries(connection, table, generation, &older).map(Some)
        })
        .collect::<rusqlite::Result<_>>()
        .map_err(explain)
}

fn commit(
    connection: &Connection,
    transaction: rusqlite::Transaction<'_>,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    // Not `Transaction::commit`: the names of the broken foreign keys are read before the
    // rollback that dropping the transaction brings.
    let Err(error) = connection.execute_batch("COMMIT") else {
        return Ok(());
    };
    if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
        && orphans::set_aside(connection, circumstances)?
        && connection.execute_batch("COMMIT").is_ok()
    {
        return Ok(());
    }
    if error.sqlite_error_code() != Some(ErrorCode::ConstraintViolation) {
        return Err(explain(error));
    }
    if nothing_is_broken(connection, circumstances)? {
        // The end of the deferral clears the count.
        connection.pragma_update(None, "defer_foreign_keys", false).map_err(explain)?;
        return connection.execute_batch("COMMIT").map_err(explain);
    }
    let failure = blocked(connection, circumstances, &broken_foreign_key(connection));
    drop(transaction);
    Err(failure.source(error))
}

/// Whether every foreign key from or to a published table holds. SQLite's count of broken ones may
/// say otherwise: a row that was broken before the transaction is not in it, and is taken from it
/// when its parent comes. A count below nothing keeps the transaction from its commit as one above
/// does.
fn nothing_is_broken(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<bool, Failure> {
    let published = |name: &str| {
        circumstances.tables.iter().any(|table| table.name().eq_ignore_ascii_case(name))
    };
    let find = || -> rusqlite::Result<bool> {
        let sql = "SELECT DISTINCT \"table\", parent FROM pragma_foreign_key_check";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (child, parent): (String, String) = (row.get(0)?, row.get(1)?);
            if published(&child) || published(&parent) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    find().map_err(explain)
}

fn broken_foreign_key(connection: &Connection) -> String {
    let first = connection.query_row(
        "SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 1",
        [],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    );
    match first {
        Ok((table, parent)) => {
            format!("after the download a row of {table} refers to a row that {parent} lacks")
        }
        Err(_) => "the download breaks a foreign key".into(),
    }
}
