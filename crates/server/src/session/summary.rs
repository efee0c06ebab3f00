//! What a synchronization did, for the log.

use crate::phases::Phases;
use crate::worker::Cost;
use model::{Clock, SpilledBytes};
use std::sync::Arc;

/// What the log says of a synchronization.
pub(crate) struct Summary {
    pub(crate) phases: Phases,
    pub(crate) remote: String,
    pub(crate) user: String,
    pub(crate) script_version: String,
    pub(crate) uploaded: u64,
    pub(crate) conflicts: u64,
    pub(crate) rejected: u64,
    pub(crate) ignored: u64,
    pub(crate) downloaded: u64,
    pub(crate) filtered: u64,
    /// Tables of which the remote had kept a part from a download that was cut.
    pub(crate) resumed: u64,
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
            uploaded: 0,
            conflicts: 0,
            rejected: 0,
            ignored: 0,
            downloaded: 0,
            filtered: 0,
            resumed: 0,
            spilled: SpilledBytes::default(),
            cost: Cost::default(),
        }
    }
}
