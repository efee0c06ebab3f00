//! The steps of a synchronization: freeze, send Hello, upload, receive, apply.
//!
//! A [`Conversation`] takes these steps, one for each event, and its host moves the bytes. It makes
//! as many attempts as necessary (`attempt.rs`). A copied file takes a new identity and tries once
//! more (trap 13). A download that new changes block is given up, so that the next attempt uploads
//! them first. Changes that wait for a download are uploaded after it.
//!
//! `system/blocking.rs` is the host of ordinary programs, and the only place that waits.
//!
//! Whatever fails, and wherever the process dies, the next synchronization can continue with the
//! file (S1, S4).

mod arriving;
mod attempt;
mod conversation;
mod host;
mod inbox;
mod side;

use crate::apply::fired::silent::SilentTrigger;
use crate::apply::refresh::SentAgain;
use crate::progress::partial::Kept;
use crate::upload::left_behind::LeftBehind;
pub use conversation::Conversation;
pub use host::Event;
pub use host::Host;
pub use host::Next;
pub(crate) use inbox::Inbox;
use model::{Failure, Progress, RemoteId, ScriptVersion, UserName};
use protocol::{Authentication, Compression, Credential, Mode, WaitingTable};
use std::collections::BTreeMap;

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
    /// The same by table.
    pub conflicts_by_table: BTreeMap<String, u64>,
    /// Changes of this remote of which it was told that they lost something in a conflict. They are
    /// in the file.
    pub conflicts_lost: u64,
    /// Uploaded rows that the consolidated database refused.
    pub rejected: u64,
    /// Uploaded rows that a script of the consolidated database ignores.
    pub ignored: u64,
    /// How rows were compressed on their way.
    pub compression: Compressed,
    /// How long all of it took.
    pub duration_ms: u64,
    /// A session token to use instead of the password.
    pub token: Option<String>,
    /// What the server has to say of the password; none where there is nothing.
    pub authentication: Option<Box<Authentication>>,
    /// The file turned out to be a copy and has become a remote of its own.
    pub took_new_identity: bool,
    /// Tables that were left out: their changes are still pending.
    pub waiting: Vec<WaitingTable>,
    /// Rows that no message takes, and what waits with them: they are still pending.
    pub left_behind: LeftBehind,
    /// What did not have to be downloaded again of a download that was cut before.
    pub resumed: Kept,
    /// Rows of tables that were sent again as a whole, which the downloaded ones include.
    pub sent_again: SentAgain,
    /// Triggers of the application that do not fire for the downloaded rows; told once.
    pub silent_triggers: Vec<SilentTrigger>,
    /// Tables of the file that are no longer published: what is written into them is not uploaded;
    /// told once.
    pub no_longer_published: Vec<String>,
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

/// How rows were compressed; none where none were, because there were none or few, or because
/// nothing was agreed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compressed {
    /// On the way to the server.
    pub uploaded: Option<Compression>,
    /// On the way here.
    pub downloaded: Option<Compression>,
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
        /// Rows to receive, as far as the server has said.
        rows_total: Option<u64>,
    },
    /// The server goes on with a download that was cut.
    Resuming {
        /// Rows that are here already.
        rows: u64,
        /// Their bytes.
        bytes: u64,
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
    /// The new password is the password from now on, whatever becomes of the synchronization.
    PasswordChanged,
}

/// What all attempts together came to.
#[derive(Debug, Default)]
struct Total {
    remote_id: Option<RemoteId>,
    uploaded: Counts,
    downloaded: Downloaded,
    conflicts: u64,
    conflicts_by_table: BTreeMap<String, u64>,
    conflicts_lost: u64,
    /// Rows of the uploads that the server refused.
    rejected: u64,
    ignored: u64,
    compression: Compressed,
    /// Rejects that downloads brought: those of these uploads, unless nothing was downloaded, and
    /// of earlier ones.
    learned: u64,
    script_version: Option<ScriptVersion>,
    token: Option<String>,
    authentication: Option<Authentication>,
    took_new_identity: bool,
    /// As the last Welcome had them.
    waiting: Vec<WaitingTable>,
    /// Of the last upload that was frozen.
    left_behind: LeftBehind,
    /// What was kept and is not downloaded again.
    resumed: Kept,
    sent_again: SentAgain,
    /// Triggers that could not fire for the downloaded rows.
    unfit_triggers: Vec<SilentTrigger>,
    /// The server did not read compressed rows after all.
    uncompressed: bool,
    /// The server took a frame no more that went with Hello; its Welcome says how large one may be.
    frame_refused: bool,
    /// Attempts during which a table went away at the center.
    interrupted: u32,
    /// The connection has one answer to all that is sent.
    half_duplex: bool,
    /// For the next attempt over such a connection.
    lesson: Option<Lesson>,
}

/// What a Welcome taught that asked for an upload where no more could be sent. The next Hello
/// brings it.
#[derive(Debug, Clone)]
struct Lesson {
    /// Positions of the tables whose changes are not uploaded now.
    kept: Vec<u16>,
    /// Positions of the tables that the server does not know.
    unknown: Vec<u16>,
    /// What is frozen and was not sent, or was thrown away unseen.
    unsent: Option<Progress>,
}

#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod tests;
