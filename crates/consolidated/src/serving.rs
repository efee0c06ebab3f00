//! What all connections of one server share.

pub(crate) mod cancellation;
pub(crate) mod clock;
pub(crate) mod start_mark;

use crate::disk::Disk;
use crate::disk::system::SystemDisk;
use crate::serving::cancellation::Cancellation;
use model::Spills;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Opens the connections of a server.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Ends their work.
    pub cancellation: Cancellation,
    /// How long they wait.
    pub timeouts: Timeouts,
    /// What they may hold for remotes, in memory and on disk, together with others that draw on
    /// it.
    pub spills: Arc<Spills>,
    /// Tables that went while it runs.
    pub departures: Departures,
    /// Where a database of SQLite lies.
    pub disk: Arc<dyn Disk>,
    /// Whether a script may end this server.
    pub may_drain: bool,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving {
            cancellation: Cancellation::default(),
            timeouts: Timeouts::default(),
            spills: Arc::default(),
            departures: Departures::default(),
            disk: Arc::new(SystemDisk),
            may_drain: false,
        }
    }
}

/// Lets all connections of a server know when one of them has found a table that is not as it was
/// deployed. Looking for such tables before every synchronization would cost more than they do.
#[derive(Debug, Clone, Default)]
pub struct Departures {
    noted: Arc<AtomicU64>,
    seen: u64,
}

impl Departures {
    /// One was found.
    pub(crate) fn note(&self) {
        self.noted.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether one was found since this connection has looked.
    pub(crate) fn are_new(&self) -> bool {
        self.noted.load(Ordering::Relaxed) != self.seen
    }

    /// This connection looks now.
    pub(crate) fn look(&mut self) {
        self.seen = self.noted.load(Ordering::Relaxed);
    }
}

/// How long the connections of a server wait for PostgreSQL. No wait is without an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// One statement, and the silence of a database that was asked something.
    pub statement: Duration,
    /// Another session's lock.
    pub lock: Duration,
    /// A transaction of an upload whose server says nothing more; one of a download, which holds no
    /// row, six times as long.
    pub idle_in_transaction: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            statement: Duration::from_secs(300),
            lock: Duration::from_secs(5),
            idle_in_transaction: Duration::from_secs(5),
        }
    }
}
