//! Acknowledgement: the remote has made a download durable.

use model::Counter;
use serde::{Deserialize, Serialize};

/// Follows a download whose end asked for it, once it is applied. Nobody answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The counter of the download.
    pub counter: Counter,
}
