//! What a synchronization did, for the log.

use crate::phases::Phases;
use crate::worker::Cost;
use consolidated::LastDownload;
use model::{Clock, SpilledBytes};
use protocol::{Compression, SettledReject};
use std::sync::Arc;

/// What the log says of a synchronization.
pub(crate) struct Summary {
    pub(crate) phases: Phases,
    pub(crate) remote: String,
    pub(crate) user: String,
    pub(crate) script_version: String,
    /// The client program.
    pub(crate) client: String,
    /// It wants rows, and not only to know whether it might.
    pub(crate) synchronizes: bool,
    /// It has done its work at the database. Otherwise another exchange of the same synchronization
    /// follows, or it has failed.
    pub(crate) committed: bool,
    /// What became of rejects at the remote, as it says.
    pub(crate) settled_rejects: Vec<SettledReject>,
    pub(crate) uploaded: u64,
    pub(crate) conflicts: u64,
    pub(crate) rejected: u64,
    pub(crate) ignored: u64,
    pub(crate) downloaded: u64,
    pub(crate) filtered: u64,
    /// Tables of which the remote had kept a part from a download that was cut.
    pub(crate) resumed: u64,
    /// What the remote holds when it has the download that was fetched.
    pub(crate) last_download: Option<LastDownload>,
    /// How rows were compressed that the remote downloads.
    pub(crate) compression_out: Option<Compression>,
    /// Bytes of rows that went to disk, because memory was short.
    pub(crate) spilled: SpilledBytes,
    pub(crate) cost: Cost,
}

impl Summary {
    /// Of one that has just begun.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Summary {
        Summary {
            phases: Phases::new(clock),
            remote: String::new(),
            user: String::new(),
            script_version: String::new(),
            client: String::new(),
            synchronizes: false,
            committed: false,
            settled_rejects: Vec::new(),
            uploaded: 0,
            conflicts: 0,
            rejected: 0,
            ignored: 0,
            downloaded: 0,
            filtered: 0,
            resumed: 0,
            last_download: None,
            compression_out: None,
            spilled: SpilledBytes::default(),
            cost: Cost::default(),
        }
    }
}
