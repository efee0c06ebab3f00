//! What a test wants of its proxy now.

use super::verdict::{Side, Verdict};
use protocol::Message;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Decides about messages, in the order in which they come.
pub(super) type Rule = Box<dyn FnMut(Side, &Message) -> Verdict + Send>;

/// Changes messages on their way.
pub(super) type Forger = Box<dyn FnMut(Side, &mut Message) + Send>;

#[derive(Debug)]
pub(super) struct Shared(Mutex<Conduct>);

/// How messages pass.
pub(super) struct Conduct {
    /// Where the server is.
    pub(super) server: String,
    pub(super) rule: Rule,
    pub(super) forger: Forger,
    /// A sign of life comes in front of every message of the server.
    pub(super) beats: bool,
    /// Bytes that still pass from each side; none: all.
    pub(super) left: [Option<usize>; 2],
    pub(super) keeps_rows: bool,
    pub(super) heard: Vec<(Side, Message)>,
}

impl std::fmt::Debug for Conduct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conduct").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Shared {
    /// Everything passes to the server at this address.
    pub(super) fn new(server: String) -> Shared {
        Shared(Mutex::new(Conduct {
            server,
            rule: Box::new(|_, _| Verdict::Pass),
            forger: Box::new(|_, _| {}),
            beats: false,
            left: [None; 2],
            keeps_rows: false,
            heard: Vec::new(),
        }))
    }

    /// A test that has failed under the lock has said so; others go on.
    pub(super) fn conduct(&self) -> MutexGuard<'_, Conduct> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
