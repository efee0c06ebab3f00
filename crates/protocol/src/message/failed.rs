//! Failed: ends the synchronization, with the reason.

use model::{Code, Failure, MESSAGE_BYTES_MAX, Progress, cut};
use serde::{Deserialize, Serialize};

/// A failure on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Number of the error code.
    pub code: u16,
    /// One line.
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub hint: Option<String>,
    /// When to try again.
    #[serde(default)]
    pub retry_after_s: Option<u32>,
    /// The table to blame.
    #[serde(default)]
    pub table: Option<String>,
    /// The key of the row to blame.
    #[serde(default)]
    pub key: Option<String>,
    /// The last upload of this file that is committed, sent to one that is refused as a copy, or
    /// because another file has taken its place.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// The oldest protocol version that the server speaks, where it refuses that of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<u16>,
    /// The newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_version: Option<u16>,
}

/// The one place where a failure becomes a message: its texts may quote whole values.
impl From<&Failure> for Failed {
    fn from(failure: &Failure) -> Failed {
        let short = |text: &str| cut(text, MESSAGE_BYTES_MAX).into_owned();
        Failed {
            code: failure.code().number(),
            message: short(&failure.full_message()),
            hint: Some(short(match failure.code() {
                // What helps is at the server, which the user of a remote does not have.
                Code::SpillFailed => "synchronize again later; it is the server that lacks room",
                _ => failure.hint_text(),
            })),
            retry_after_s: failure.retry_after(),
            table: failure.table_name().map(short),
            key: failure.row_key().map(short),
            progress: failure.committed_progress(),
            min_version: failure.spoken_versions().map(|(least, _)| least),
            max_version: failure.spoken_versions().map(|(_, most)| most),
        }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Failure {
        // A newer server may know codes that this client does not; its words are kept.
        let code = Code::from_number(failed.code);
        let message = match code {
            Some(_) => failed.message,
            None => format!("server error E{}: {}", failed.code, failed.message),
        };
        let mut failure = Failure::new(code.unwrap_or(Code::Bug), message);
        if let Some(hint) = failed.hint {
            failure = failure.hint(hint);
        }
        if let Some(seconds) = failed.retry_after_s {
            failure = failure.retry_after_s(seconds);
        }
        if let Some(table) = failed.table {
            failure = failure.table(table);
        }
        if let Some(key) = failed.key {
            failure = failure.key(key);
        }
        if let Some(progress) = failed.progress {
            failure = failure.committed(progress);
        }
        if let (Some(least), Some(most)) = (failed.min_version, failed.max_version) {
            failure = failure.versions(least, most);
        }
        failure
    }
}
