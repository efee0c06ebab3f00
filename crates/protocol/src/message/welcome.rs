//! Welcome: the server's answer to Hello.

use super::Capabilities;
use model::{DatabaseId, Progress, RemoteSchema, ScriptVersion};
use serde::{Deserialize, Serialize};

/// Sent once per synchronization. Where the upload came with Hello and is being applied, it
/// precedes `UploadCommitted`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The server's protocol version.
    pub protocol_version: u16,
    /// The server program, for the log.
    #[serde(default)]
    pub server: String,
    /// How the server reads rows that are compressed. A client remembers it for the next upload
    /// that travels with Hello.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The largest frame that the server takes, where that is less than any client sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes_max: Option<u64>,
    /// The consolidated database behind it.
    pub database_id: DatabaseId,
    /// The last upload of this remote that is committed, when the client did not know it.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// The script version that runs: the one asked for, or the server's default.
    #[serde(default)]
    pub script_version: Option<ScriptVersion>,
    /// What happens with the upload.
    pub upload: UploadState,
    /// Whether `SchemaChange` follows this message. Without it a client that holds a schema could
    /// not tell whether to wait for one before it uploads.
    #[serde(default)]
    pub schema_change_follows: bool,
    /// The schema change follows `UploadCommitted` instead: the upload is taken under the
    /// tables that the remote holds.
    #[serde(default)]
    pub schema_change_after_upload: bool,
    /// Positions, in the schema that the remote holds, of tables whose shape this database does
    /// not know. The server cannot read their pending changes: the client keeps them as rejects.
    #[serde(default)]
    pub unknown_tables: Vec<u16>,
    /// Positions, in the schema that the upload is made under, of tables that wait until the
    /// operator deploys: the client uploads nothing for them, and keeps what it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_tables: Vec<u16>,
    /// The same tables for people. They are not downloaded either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_tables: Vec<WaitingTable>,
    /// A session token, when a password was verified. Valid for any server of this database.
    #[serde(default)]
    pub token: Option<String>,
    /// What there is to say of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// What a server says of a password that it has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// Below 2000: it is good. Up to 2999: it is good and expires soon.
    pub status: u16,
    /// For people, from a service that knows the users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Seconds until it expires, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
    /// The new password that Hello has is the password now.
    #[serde(default)]
    pub password_changed: bool,
}

impl Authentication {
    /// The status of a password of which nothing is to be said.
    pub const GOOD: u16 = 1000;
    /// The status of a password that expires soon, and the first of those that say so.
    pub const EXPIRES_SOON: u16 = 2000;
    /// The first status of a password that has expired.
    pub const EXPIRED: u16 = 3000;
    /// The first status of a wrong password.
    pub const WRONG: u16 = 4000;
    /// The first status of a user who is synchronizing already.
    pub const IN_USE: u16 = 5000;
    /// The first status that says a wrong password again.
    pub const BEYOND: u16 = 6000;
}

/// A table that is left out of the synchronization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTable {
    /// Its name.
    pub table: String,
    /// Why, and what its operator has to do.
    pub message: String,
}

/// What the client has to do about its upload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UploadState {
    /// It arrived with Hello and is being applied.
    Taken,
    /// Send it now. One that came with Hello was skipped.
    Send,
    /// None is wanted.
    #[default]
    None,
}

/// The tables as the server publishes them now; follows Welcome, or UploadCommitted, when the
/// remote's fingerprint differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaChange {
    /// The schema to hold from now on.
    pub schema: RemoteSchema,
    /// The tables of it that the remote holds under other names, or whose columns it holds under
    /// other names. All others are recognized by their names.
    #[serde(default)]
    pub renamed: Vec<RenamedTable>,
}

/// A table of the new schema that goes on a held one under other names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenamedTable {
    /// Position in the new schema.
    pub table: u16,
    /// Position in the schema that the remote holds.
    pub held: u16,
    /// Per column of the new table: its position among the columns of the held one; none where it
    /// is another column, whatever its name.
    pub columns: Vec<Option<u16>>,
}
