//! Hello: the user, the remote, and what it wants.

use super::{Capabilities, NewPassword, Parameters, ResumedTable};
use model::{
    Code, Counter, DatabaseId, Failure, FileSecret, Nonce, Progress, PublicationName, Receipt,
    RemoteId, ScriptVersion, UserName, Watermark,
};
use serde::{Deserialize, Serialize};

/// Rows that one Hello may ask for.
pub const WANTED_ROWS_MAX: usize = 1000;

/// Settled rejects that one Hello may tell of.
pub const SETTLED_REJECTS_MAX: usize = 100;

/// Opens the conversation. Everything the server needs to begin, so that a small synchronization
/// is one round trip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The client's protocol version.
    pub protocol_version: u16,
    /// What its connection is like, and what it reads by choice.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The client program, for the log.
    #[serde(default)]
    pub client: String,
    /// Which consolidated database, for servers with several; none is defined yet.
    #[serde(default)]
    pub database: Option<String>,
    /// The remote database.
    pub remote_id: RemoteId,
    /// The user.
    pub user: UserName,
    /// What proves the user.
    pub credential: Credential,
    /// The password from now on, beside the one of today. A server confirms it in Welcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_password: Option<NewPassword>,
    /// What it says beside, for the service that knows the users.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// The wanted script version; the server's default if none.
    #[serde(default)]
    pub script_version: Option<ScriptVersion>,
    /// The wanted publications; all of the script version if empty.
    #[serde(default)]
    pub publications: Vec<PublicationName>,
    /// The consolidated database that this remote belongs to, once it knows.
    #[serde(default)]
    pub database_id: Option<DatabaseId>,
    /// What is wanted.
    pub mode: Mode,
    /// The last upload known to be committed.
    pub progress: Progress,
    /// Whether a later upload may have been committed too.
    pub outcome: LastUpload,
    /// Synchronizations known to be complete.
    pub counter: Counter,
    /// The mark of the last complete synchronization.
    pub nonce_confirmed: Nonce,
    /// The mark of this attempt; kept until an attempt gets its answer.
    pub nonce_attempt: Nonce,
    /// Counts the connections of this remote. A Hello that arrives after a later one is refused:
    /// the remote may have learned already that its upload was not committed.
    #[serde(default)]
    pub attempt: i64,
    /// What the file drew once, so that no other file is taken for it.
    #[serde(default)]
    pub file_secret: Option<FileSecret>,
    /// The last one that the file was given.
    #[serde(default)]
    pub receipt: Option<Receipt>,
    /// The schema that the remote holds, once it holds one.
    #[serde(default)]
    pub schema_fingerprint: Option<String>,
    /// Per table of that schema, in its order: up to where its rows are complete.
    #[serde(default)]
    pub watermarks: Vec<TableWatermark>,
    /// Of rows that have not been compared since their watermark was void.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_watermarks: Vec<FormerWatermark>,
    /// Whether an upload follows without waiting for Welcome.
    pub upload_follows: bool,
    /// What the upload that follows leaves out, as a Welcome before it wanted: its `kept_tables`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_tables: Vec<u16>,
    /// And its `unknown_tables`, of which nothing is pending any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_tables: Vec<u16>,
    /// `Verify` follows without waiting for Welcome; only with [`Mode::Ping`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub verify_follows: bool,
    /// Rows of the schema that the remote holds that are sent whatever its watermarks say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted_rows: Vec<WantedRow>,
    /// What the client keeps of downloads that were cut, by table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<ResumedTable>,
    /// The last download was cut, so this one may be cut too: rows in key order can go on
    /// anywhere.
    #[serde(default, skip_serializing_if = "is_false")]
    pub was_cut: bool,
    /// What became of rejects at the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled_rejects: Vec<SettledReject>,
}

/// What became of a reject at a remote: it is no longer in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledReject {
    /// The name of its table.
    pub table: String,
    /// The key of its row: a JSON object by column name.
    pub key: String,
    /// The counter that came with it.
    pub counter: i64,
    /// What was decided.
    pub outcome: Settlement,
}

/// What was decided about a reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// The change was given up.
    Dismissed,
    /// The change was made again.
    Retried,
}

/// A row that a remote has not as it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedRow {
    /// Position of its table.
    pub table: u16,
    /// The key's columns as a row.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
}

fn is_false(it: &bool) -> bool {
    !it
}

/// What every version of Hello has.
#[derive(Deserialize)]
pub(super) struct Greeting {
    pub(super) protocol_version: u16,
}

impl Hello {
    /// Refuses numbers that no client has: they count from zero, and a mark is never zero.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let counts =
            [("progress", self.progress.0), ("counter", self.counter.0), ("attempt", self.attempt)];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count < 0) {
            return Err(Failure::new(Code::MalformedMessage, format!("{name} is negative")));
        }
        if self.nonce_attempt == Nonce(0) {
            return Err(Failure::new(Code::MalformedMessage, "nonce_attempt is zero"));
        }
        if let Some(password) = &self.new_password {
            password.check()?;
        }
        if self.wanted_rows.len() > WANTED_ROWS_MAX {
            return Err(Failure::new(Code::MalformedMessage, "too many rows are wanted"));
        }
        if self.settled_rejects.len() > SETTLED_REJECTS_MAX {
            return Err(Failure::new(Code::MalformedMessage, "too many rejects are settled"));
        }
        if let Some(fault) = self.parameters.fault() {
            return Err(Failure::new(Code::MalformedMessage, fault));
        }
        Ok(())
    }
}

/// What proves a user.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credential {
    /// A password, verified slowly once.
    Password(String),
    /// A session token issued by any server of the same consolidated database.
    Token(String),
    /// The certificate that the peer showed when the connection was encrypted.
    Certificate,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets never reach a log.
        f.write_str(match self {
            Credential::Password(_) => "Password(…)",
            Credential::Token(_) => "Token(…)",
            Credential::Certificate => "Certificate",
        })
    }
}

/// What a synchronization consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Upload, then download.
    Full,
    /// Upload only; no watermark moves.
    UploadOnly,
    /// Download only; local changes stay pending.
    DownloadOnly,
    /// Authentication and schema only.
    Ping,
}

/// What the client knows about its last upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastUpload {
    /// `progress` is all that was ever sent.
    Known,
    /// A later upload was sent and its answer never arrived; the server must say.
    Unknown,
}

/// Up to where a table is complete at the remote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableWatermark {
    /// Digest of the table as the remote knows it.
    pub fingerprint: String,
    /// What the server handed out last; none if the table was never received.
    pub watermark: Option<Watermark>,
}

/// A watermark that is void, because the table or the identity of the remote has changed since. No
/// download has compared the rows that were received with it, so it shows of which past they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormerWatermark {
    /// The name of the table that has the rows.
    pub table: String,
    /// What a server handed out with them.
    pub watermark: Watermark,
}
