//! The steps of a synchronization: freeze, send Hello, upload, receive, apply.
//!
//! This is the host of `session.rs`: it moves bytes and performs instructions. One call makes as
//! many attempts as necessary. A copied file takes a new identity and tries once more (trap 13). A
//! download that new changes block is given up, so that the next attempt uploads them first.
//! Changes that wait for a download are uploaded after it.
//!
//! Whatever fails, and wherever the process dies, the next synchronization can continue with the
//! file (S1, S4).

mod channel;
mod host;

use crate::Remote;
use crate::apply::rejects;
use crate::connection::explain;
use crate::progress;
use crate::transport::Transport;
use host::Host;
use model::{Code, Failure, RemoteId, ScriptVersion, UserName};
use protocol::{Credential, Mode, WaitingTable};

/// Attempts to apply a download past changes that are made meanwhile.
const APPLY_ATTEMPTS_MAX: u32 = 10;

/// How often tables may go away at the centre during one synchronization.
const INTERRUPTIONS_MAX: u32 = 3;

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which parts of a synchronization.
    pub mode: Mode,
    /// What proves the user.
    pub credential: Credential,
    /// The program that asks, for the server's log.
    pub client: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The remote.
    pub remote_id: RemoteId,
    /// The user.
    pub user: UserName,
    /// The script version that ran.
    pub script_version: Option<ScriptVersion>,
    /// Rows uploaded, as the server counted them.
    pub uploaded: Counts,
    /// Rows downloaded.
    pub downloaded: Downloaded,
    /// Uploaded rows with a conflict.
    pub conflicts: u64,
    /// Uploaded rows that the consolidated database refused.
    pub rejected: u64,
    /// How long all of it took.
    pub duration_ms: u64,
    /// A session token to use instead of the password.
    pub token: Option<String>,
    /// The file turned out to be a copy and has become a remote of its own.
    pub took_new_identity: bool,
    /// Tables that were left out: their changes are still pending.
    pub waiting: Vec<WaitingTable>,
}

/// Uploaded rows by operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// New rows.
    pub inserts: u64,
    /// Changed rows.
    pub updates: u64,
    /// Deleted rows.
    pub deletes: u64,
}

/// Downloaded rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Downloaded {
    /// Rows as they are now.
    pub upserts: u64,
    /// Keys of rows that are gone.
    pub deletes: u64,
}

/// Where a synchronization is.
#[derive(Debug)]
pub enum Step {
    /// Reaching the server.
    Connecting,
    /// Sending the upload.
    Uploading {
        /// Rows sent.
        rows_done: u64,
        /// Rows to send.
        rows_total: u64,
    },
    /// The server works.
    Waiting,
    /// Receiving the download.
    Downloading {
        /// Rows received.
        rows: u64,
    },
    /// Applying the download.
    Applying {
        /// Rows applied.
        rows_done: u64,
        /// Rows to apply.
        rows_total: u64,
    },
    /// The attempt failed in a way that another attempt gets over.
    Retrying {
        /// Why.
        failure: Failure,
    },
}

pub(crate) fn synchronize(
    remote: &mut Remote,
    request: &Request,
    connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
    observer: &mut dyn FnMut(Step),
) -> Result<Report, Failure> {
    let _lock = remote.lock()?;
    let started_ms = remote.clock.monotonic_ms();
    let known = progress::get::<String>(&remote.connection, "user").map_err(explain)?;
    let known = known.map(UserName::new).transpose()?;
    let user = remote.proposed.user.clone().or(known).ok_or_else(|| {
        Failure::new(Code::ServerUnknown, "the remote does not know its user yet")
    })?;
    let mut total = Total::default();
    let mut apply_attempts = 1;
    loop {
        let failure = match attempt(remote, request, &user, connect, observer, &mut total) {
            Ok(Then::UploadWhatWaits) if apply_attempts < APPLY_ATTEMPTS_MAX => {
                apply_attempts += 1;
                continue;
            }
            Ok(_) => break,
            Err(failure) => failure,
        };
        match failure.code() {
            Code::CopiedRemote if !total.took_new_identity => {
                let tables = remote.tables()?;
                let (connection, random) = (&remote.connection, &mut remote.random);
                let committed = failure.committed_progress();
                progress::take_new_identity(connection, &tables, random, committed)?;
                total.took_new_identity = true;
            }
            Code::RemoteOfAnother => {
                progress::forget_refused_identity(&remote.connection)?;
                return Err(failure);
            }
            Code::ApplyBlocked
                if request.mode == Mode::Full && apply_attempts < APPLY_ATTEMPTS_MAX =>
            {
                apply_attempts += 1;
            }
            // The next attempt leaves the table out.
            Code::TableWentAway if total.interrupted < INTERRUPTIONS_MAX => total.interrupted += 1,
            // Another attempt would find the same changes.
            Code::ApplyBlocked if request.mode == Mode::DownloadOnly => {
                let message = "pending changes prevent the download";
                return Err(Failure::new(Code::DownloadBlocked, message).source(failure));
            }
            _ => return Err(failure),
        }
        observer(Step::Retrying { failure });
    }
    let rejected = rejected(remote, request, &total)?;
    Ok(Report {
        remote_id: total.remote_id.ok_or_else(|| {
            Failure::new(Code::Bug, "a remote was synchronized without an identity")
        })?,
        user,
        script_version: total.script_version,
        uploaded: total.uploaded,
        downloaded: total.downloaded,
        conflicts: total.conflicts,
        rejected,
        duration_ms: remote.clock.monotonic_ms().saturating_sub(started_ms),
        token: total.token,
        took_new_identity: total.took_new_identity,
        waiting: total.waiting,
    })
}

/// Every reject that no summary has reported: what the server refused, whether or not it has been
/// downloaded, and what the remote recorded by itself.
fn rejected(remote: &Remote, request: &Request, total: &Total) -> Result<u64, Failure> {
    if request.mode == Mode::Ping {
        return Ok(0);
    }
    let untold = rejects::untold(&remote.connection)?;
    if untold > 0 {
        rejects::note_told(&remote.connection)?;
    }
    Ok(untold.saturating_sub(total.learned) + total.learned.max(total.rejected))
}

/// What all attempts together came to.
#[derive(Debug, Default)]
struct Total {
    remote_id: Option<RemoteId>,
    uploaded: Counts,
    downloaded: Downloaded,
    conflicts: u64,
    /// Rows of the uploads that the server refused.
    rejected: u64,
    /// Rejects that downloads brought: those of these uploads, unless nothing was downloaded, and
    /// of earlier ones.
    learned: u64,
    script_version: Option<ScriptVersion>,
    token: Option<String>,
    took_new_identity: bool,
    /// As the last Welcome had them.
    waiting: Vec<WaitingTable>,
    /// Attempts during which a table went away at the centre.
    interrupted: u32,
}

/// What follows a conversation that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// Changes had to wait for the download.
    UploadWhatWaits,
}

/// One conversation with a server, from Hello to the end.
fn attempt(
    remote: &mut Remote,
    request: &Request,
    user: &UserName,
    connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
    observer: &mut dyn FnMut(Step),
    total: &mut Total,
) -> Result<Then, Failure> {
    let mut host = Host::begin(remote, request, user, connect, observer, total)?;
    if let Err(failure) = host.converse() {
        host.save_what_is_known(&failure);
        return Err(failure);
    }
    Ok(if host.postponed { Then::UploadWhatWaits } else { Then::Nothing })
}

#[cfg(test)]
mod key_change_tests;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod tests;
