//! A machine and the world's time, as SQLite reaches them.

use super::machine::Machine;
use model::Clock;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lets virtual time pass.
pub type Sleep = Arc<dyn Fn(Duration) + Send + Sync>;

/// A machine with its time.
pub(super) struct System {
    machine: Mutex<Machine>,
    clock: Arc<dyn Clock>,
    sleep: Sleep,
}

impl System {
    pub(super) fn new(machine: Machine, clock: Arc<dyn Clock>, sleep: Sleep) -> System {
        System { machine: Mutex::new(machine), clock, sleep }
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unix_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    pub(super) fn sleep(&self, microseconds: u64) {
        (self.sleep)(Duration::from_micros(microseconds));
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").finish_non_exhaustive()
    }
}
