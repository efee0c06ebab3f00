//! The duration of single synchronizations.

use std::time::Duration;

/// The durations of all timed synchronizations, from a client's first step to its last.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// Adds those of another run.
    pub(crate) fn add_all(&mut self, more: Latencies) {
        self.0.extend(more.0);
    }

    /// The durations, in milliseconds, that these shares of all stayed below, and the longest.
    pub(crate) fn percentiles_ms<const N: usize>(mut self, shares: [f64; N]) -> ([f64; N], f64) {
        self.0.sort_unstable();
        let at = |share: f64| {
            // The smallest duration that at least this share does not exceed.
            let rank = (share * self.0.len() as f64).ceil() as usize;
            self.0.get(rank.max(1) - 1).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
        };
        (shares.map(at), at(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let mut latencies = Latencies::default();
        for ms in (1..=100).rev() {
            latencies.add(Duration::from_millis(ms));
        }
        assert_eq!(latencies.percentiles_ms([0.5, 0.95, 0.99]), ([50.0, 95.0, 99.0], 100.0));
        let mut one = Latencies::default();
        one.add(Duration::from_millis(7));
        assert_eq!(one.percentiles_ms([0.5]), ([7.0], 7.0));
        assert_eq!(Latencies::default().percentiles_ms([0.5]), ([0.0], 0.0));
    }
}
