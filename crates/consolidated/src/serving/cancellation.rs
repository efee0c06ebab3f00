//! Ends from another thread what the connections of a server are doing.
//!
//! Invariant X1: it is final. A connection whose work was canceled begins nothing more, so a loop
//! that tries again ends too.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The end of all work of the connections that were opened with it. Clones are the same one.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Default)]
struct State {
    canceled: AtomicBool,
    connections: Mutex<Vec<Weak<dyn Cancel>>>,
}

/// A connection whose statement can be ended only by asking the database.
pub(crate) trait Cancel: Send + Sync {
    /// Asks for the end of the statement that runs, if one does. May wait for seconds.
    fn cancel(&self);
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("canceled", &self.is_canceled()).finish()
    }
}

impl Cancellation {
    /// Prevents new work. Running work ends soon, or when the returned functions are called. These
    /// may wait for seconds if the database hangs, so each must be called on its own thread. A
    /// statement that begins at this moment may be missed. So a caller that waits for the end
    /// cancels again.
    pub fn cancel(&self) -> Vec<impl FnOnce() + Send + 'static> {
        self.0.canceled.store(true, Ordering::SeqCst);
        let connections = self.connections();
        let connections = connections.iter().filter_map(Weak::upgrade);
        connections.map(|connection| move || connection.cancel()).collect()
    }

    /// Whether nothing more may begin.
    pub fn is_canceled(&self) -> bool {
        self.0.canceled.load(Ordering::SeqCst)
    }

    /// Takes note of a connection, until it is dropped.
    pub(crate) fn add(&self, connection: &Arc<impl Cancel + 'static>) {
        let weak: Weak<dyn Cancel> = Arc::downgrade(connection) as Weak<_>;
        let mut connections = self.connections();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.push(weak);
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Weak<dyn Cancel>>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
