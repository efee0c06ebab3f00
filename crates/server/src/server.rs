//! Runs an assembly on threads, and stops them.

use crate::assembly::{Assembly, Components, Reloader, Remains};
use crate::config::Config;
use crate::network;
use crate::stage;
use consolidated::{Cancellation, Url};
use model::{Clock, Code, Failure};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long threads have to end whose work was canceled. A database that hangs takes longer.
const CANCEL_MAX: Duration = Duration::from_secs(2);

/// How often their work is canceled meanwhile: a statement may just have begun.
const CANCEL_EVERY: Duration = Duration::from_millis(500);

/// How often it is seen whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A running server.
pub struct Server {
    runtime: Runtime,
    assembly: Assembly,
}

/// Starts a server for the database at `url`.
pub fn start(config: Config, url: &Url, components: Components) -> Result<Server, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("network")
        .build()
        .map_err(|error| Failure::new(Code::Bug, "cannot start the runtime").source(error))?;
    let assembly = {
        let _inside = runtime.enter();
        let listen = config.listen.clone();
        let mut assembly = Assembly::new(config, url, components)?;
        for address in &listen {
            assembly.listen(assembly.acceptor(address)?);
        }
        assembly
    };
    let (connections_max, addresses) = (assembly.connections_max(), assembly.addresses());
    tracing::info!(database = %url, connections_max, ?addresses, "server started");
    network::notify("READY=1");
    Ok(Server { runtime, assembly })
}

impl Server {
    /// Where it listens, as `tls://HOST:PORT` with real ports.
    pub fn addresses(&self) -> &[String] {
        self.assembly.addresses()
    }

    /// How long synchronizations under way have when it stops.
    pub fn drain_timeout_s(&self) -> u64 {
        self.assembly.drain_timeout().as_secs()
    }

    /// Changes its settings while it runs, from any thread.
    pub fn reloader(&self) -> Reloader {
        self.assembly.reloader()
    }

    /// Signals that the server cannot work any more. The program should then end, as in a crash,
    /// with a status that says so.
    pub fn failures(&mut self) -> Receiver<Failure> {
        self.assembly.failures()
    }

    /// Stops: accepts nothing more, lets synchronizations under way finish for at most
    /// `drain_timeout_s`, then ends the rest, which learn of it by their next Hello. What runs at
    /// the database then is canceled; what does not end even so is left to the end of the process.
    pub fn drain(self) {
        let Server { runtime, assembly } = self;
        let drain_timeout = assembly.drain_timeout();
        let clock = assembly.clock();
        let begun_us = clock.monotonic_us();
        network::notify("STOPPING=1");
        let drained = runtime.block_on(assembly.drain());
        runtime.shutdown_timeout(Duration::from_millis(100));
        let taken = Duration::from_micros(clock.monotonic_us().saturating_sub(begun_us));
        let rest = drain_timeout.saturating_sub(taken);
        let Remains { threads, cancellation, lock } = assembly.end();
        let left = stop_threads(threads, rest, &cancellation, clock.as_ref());
        if left > 0 {
            tracing::warn!(
                threads = left,
                "the database does not answer; its statements are abandoned"
            );
            // A thread that still writes keeps the right to do so, until the process ends.
            std::mem::forget(lock);
        }
        tracing::info!(drained, "server stopped");
    }
}

/// Waits for the end of the threads: for `patience` as they are, then canceling what they do.
/// Returns how many have not ended even so.
fn stop_threads(
    mut threads: Vec<JoinHandle<()>>,
    patience: Duration,
    cancellation: &Cancellation,
    clock: &dyn Clock,
) -> usize {
    let begun_us = clock.monotonic_us();
    let mut cancel_at = patience;
    loop {
        for thread in threads.extract_if(.., |thread| thread.is_finished()) {
            if thread.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
        // A busy machine sleeps longer than it is told to.
        let waited = Duration::from_micros(clock.monotonic_us().saturating_sub(begun_us));
        if threads.is_empty() || waited >= patience + CANCEL_MAX {
            return threads.len();
        }
        if waited >= cancel_at {
            for cancel in cancellation.cancel() {
                stage::aside("cancel", cancel);
            }
            cancel_at = waited + CANCEL_EVERY;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    /// A clock on which a second passes whenever somebody looks, as on a machine that is too busy.
    struct Hurried(AtomicU64);

    impl Clock for Hurried {
        fn unix_ms(&self) -> i64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.fetch_add(1000, Ordering::Relaxed)
        }
    }

    // S9: it counted how often it had slept, so on a busy machine it took half as long again.
    #[test]
    fn a_thread_that_does_not_end_is_waited_for_by_the_clock() {
        let (stay, stays) = mpsc::sync_channel::<()>(1);
        let thread = std::thread::spawn(move || {
            let _ended = stays.recv();
        });
        let (clock, cancellation) = (Hurried(AtomicU64::new(0)), Cancellation::default());
        let left = stop_threads(vec![thread], Duration::from_secs(3), &cancellation, &clock);
        assert_eq!((left, cancellation.is_canceled()), (1, true));
        let looked = clock.0.into_inner() / 1000;
        assert!((6..=7).contains(&looked), "{looked} s");
        drop(stay);
    }
}
