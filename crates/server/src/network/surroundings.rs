//! What acceptors need of their server.

use crate::session::Shared;
use crate::stage::Execution;
use std::sync::Arc;
use tokio::sync::watch;

/// What acceptors need of their server.
pub(crate) struct Surroundings {
    pub(crate) shared: Arc<Shared>,
    pub(crate) execution: Execution,
    pub(crate) stopped: watch::Receiver<bool>,
    /// Connections at once.
    pub(crate) connections_max: usize,
}
