//! Ctrl-C and SIGTERM end a run, but not before it has removed what it made.

use super::clients::Clients;
use model::{Code, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Listens for signals from its making on.
#[derive(Clone)]
pub(super) struct Interruption {
    happened: Arc<AtomicBool>,
    /// The client processes of the run, while there are any. The run waits for them and for
    /// nothing else, so their end is what wakes it.
    clients: Arc<Mutex<Vec<u32>>>,
}

impl Interruption {
    pub(super) fn listen() -> Result<Interruption, Failure> {
        let failed =
            |error| Failure::new(Code::Bug, "cannot receive signals of the system").source(error);
        let interruption = Interruption { happened: Arc::default(), clients: Arc::default() };
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let listener = interruption.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    listener.happened.store(true, Ordering::SeqCst);
                    listener.end_clients();
                }
            })
            .map_err(failed)?;
        Ok(interruption)
    }

    /// These processes are to be ended by a signal.
    pub(super) fn watch(&self, clients: &Clients) {
        *self.clients() = clients.ids().collect();
        if self.happened.load(Ordering::SeqCst) {
            self.end_clients();
        }
    }

    /// The processes are about to be waited for: their numbers may mean others soon.
    pub(super) fn forget(&self) {
        self.clients().clear();
    }

    /// Whatever failed after a signal failed because of it.
    pub(super) fn explain<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self.happened.load(Ordering::SeqCst) {
            true => Err(Failure::new(Code::Interrupted, "the benchmark was interrupted")),
            false => result,
        }
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        // The list is replaced as a whole, so a panic elsewhere does no harm to it.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(unix)]
    fn end_clients(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        for id in self.clients().iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
            // It may have heard the signal itself, and be gone.
            let _ = kill_process(id, Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn end_clients(&self) {}
}
