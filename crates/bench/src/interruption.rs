//! Ctrl-C and SIGTERM end a run or a suite, after it has removed what it created.

use model::{Code, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How the processes are ended that are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At once: they have nothing to clean up.
    Kill,
    /// They are asked to end, and clean up.
    Terminate,
}

/// Listens for signals from its making on.
#[derive(Clone)]
pub(crate) struct Interruption {
    happened: Arc<AtomicBool>,
    ending: Ending,
    /// The processes that are being waited for, and nothing else is: so their end wakes the
    /// waiting thread.
    processes: Arc<Mutex<Vec<u32>>>,
}

impl Interruption {
    pub(crate) fn listen(ending: Ending) -> Result<Interruption, Failure> {
        let failed =
            |error| Failure::new(Code::Bug, "cannot receive signals of the system").source(error);
        let interruption =
            Interruption { happened: Arc::default(), ending, processes: Arc::default() };
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let listener = interruption.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    listener.happened.store(true, Ordering::SeqCst);
                    listener.end_processes();
                }
            })
            .map_err(failed)?;
        Ok(interruption)
    }

    /// These processes are to be ended by a signal.
    pub(crate) fn watch(&self, processes: impl Iterator<Item = u32>) {
        *self.processes() = processes.collect();
        if self.happened() {
            self.end_processes();
        }
    }

    /// The processes are about to be waited for: their numbers may mean others soon.
    pub(crate) fn forget(&self) {
        self.processes().clear();
    }

    /// Whether there was a signal.
    pub(crate) fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }

    /// Whatever failed after a signal failed because of it.
    pub(crate) fn explain<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self.happened() {
            true => Err(Failure::new(Code::Interrupted, "the benchmark was interrupted")),
            false => result,
        }
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        // The list is replaced as a whole, so a panic elsewhere does no harm to it.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(unix)]
    fn end_processes(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = match self.ending {
            Ending::Kill => Signal::KILL,
            Ending::Terminate => Signal::TERM,
        };
        for id in self.processes().iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
            // It may have heard the signal itself, and be gone.
            let _ = kill_process(id, signal);
        }
    }

    #[cfg(not(unix))]
    fn end_processes(&self) {}
}
