//! Hello: the user, the remote, and what it wants.

use super::Capabilities;
use model::{
    Code, Counter, DatabaseId, Failure, FileSecret, Nonce, Progress, PublicationName, Receipt,
    RemoteId, ScriptVersion, UserName, Watermark,
};
use serde::{Deserialize, Serialize};

/// Opens the conversation. Everything the server needs to begin, so that a small synchronization
/// is one round trip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The client's protocol version.
    pub protocol_version: u16,
    /// What the client can do beyond what the version implies.
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
    pub outcome: Outcome,
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
    /// What the file drew once, so that no other file is taken for it. None from programs that
    /// drew none.
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
    /// Whether an upload follows without waiting for Welcome.
    pub upload_follows: bool,
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
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets never reach a log.
        f.write_str(match self {
            Credential::Password(_) => "Password(…)",
            Credential::Token(_) => "Token(…)",
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
pub enum Outcome {
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
