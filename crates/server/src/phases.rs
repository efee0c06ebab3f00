//! The time of each phase of a synchronization, for its line in the log.
//!
//! A phase ends where the next one begins, so their sum is the whole time. Time in a queue for a
//! worker is not counted in its phase but as `waiting`.

use model::Clock;
use std::sync::Arc;

/// What a synchronization does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In a queue, or for a predecessor of the same remote.
    Waiting,
    /// Finding out who it is, and what the remote may have.
    Admission,
    /// Hello and the upload come from the network.
    Receiving,
    /// The upload at the database, and what is recorded for every synchronization.
    Applying,
    /// The download at the database.
    Fetching,
    /// To the network, at the pace of the remote.
    Sending,
    /// The remote applies the download, and says so.
    Acknowledging,
}

/// How many phases there are.
const PHASES: usize = PHASE_NAMES.len();

/// Their names, in their order.
const PHASE_NAMES: [&str; 7] =
    ["waiting", "admission", "receiving", "applying", "fetching", "sending", "acknowledging"];

/// Time by phase.
pub(crate) struct Phases {
    clock: Arc<dyn Clock>,
    spent_us: [u64; PHASES],
    /// When the last phase ended.
    at_us: u64,
}

impl Phases {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Phases {
        let at_us = clock.monotonic_us();
        Phases { clock, spent_us: [0; PHASES], at_us }
    }

    /// What was done since the last phase ended was `phase`.
    pub(crate) fn end(&mut self, phase: Phase) {
        let elapsed = self.elapsed_us();
        self.spent_us[phase as usize] += elapsed;
    }

    /// The same for what a worker did in `worked_us`; the rest was waiting.
    pub(crate) fn end_work(&mut self, phase: Phase, worked_us: u64) {
        let elapsed = self.elapsed_us();
        let worked = worked_us.min(elapsed);
        self.spent_us[phase as usize] += worked;
        self.spent_us[Phase::Waiting as usize] += elapsed - worked;
    }

    /// Milliseconds of each phase that took any, by name, in their order: a JSON object.
    pub(crate) fn to_json(&self) -> String {
        let spent = PHASE_NAMES.iter().zip(self.spent_us).filter(|(_, us)| *us > 0);
        let named = spent.map(|(name, us)| format!("\"{name}\":{}", us as f64 / 1000.0));
        format!("{{{}}}", named.collect::<Vec<_>>().join(","))
    }

    /// Milliseconds of a phase.
    pub(crate) fn ms(&self, phase: Phase) -> f64 {
        self.spent_us[phase as usize] as f64 / 1000.0
    }

    fn elapsed_us(&mut self) -> u64 {
        let now = self.clock.monotonic_us();
        let elapsed = now.saturating_sub(self.at_us);
        self.at_us = now;
        elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Steps(AtomicU64);

    impl Clock for Steps {
        fn unix_ms(&self) -> i64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn phases_add_up_to_the_whole() {
        let clock = Arc::new(Steps(AtomicU64::new(50)));
        let mut phases = Phases::new(clock.clone());
        let pass = |ms| clock.0.fetch_add(ms, Ordering::Relaxed);
        pass(3);
        phases.end(Phase::Receiving);
        pass(10);
        phases.end_work(Phase::Applying, 4_000);
        pass(1);
        // A group that was begun before it came in.
        phases.end_work(Phase::Fetching, 9_000);
        pass(2);
        phases.end(Phase::Receiving);
        assert_eq!(phases.ms(Phase::Receiving), 5.0);
        assert_eq!(phases.ms(Phase::Applying), 4.0);
        assert_eq!(phases.ms(Phase::Waiting), 6.0);
        assert_eq!(phases.ms(Phase::Fetching), 1.0);
    }
}
