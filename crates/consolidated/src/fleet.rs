//! The remotes that a consolidated database knows.

use crate::identity::Binding;
use model::{Code, Failure, RemoteId};

/// A remote as the database knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRemote {
    /// Its ID.
    pub remote_id: String,
    /// To whom it belongs.
    pub binding: Binding,
    /// Who synchronized last.
    pub user: String,
    /// The script version that ran then.
    pub script_version: String,
    /// When it uploaded last, in UTC.
    pub last_upload_at: Option<String>,
    /// When a download was made for it last, in UTC.
    pub last_download_at: Option<String>,
    /// Seconds since then: everything younger it has yet to receive.
    pub behind_s: Option<i64>,
    /// Downloads that were made for it.
    pub counter: i64,
    /// Its last committed upload.
    pub progress: i64,
    /// Rows that it must receive.
    pub owed: i64,
    /// Whether its file has a secret, so that no other is taken for it.
    pub has_secret: bool,
    /// Its next download is compared row by row, whatever it remembers.
    pub compared_next: bool,
}

pub(crate) fn no_such_remote(remote_id: &RemoteId) -> Failure {
    Failure::new(Code::NoSuchRemote, format!("there is no remote {remote_id}"))
}
