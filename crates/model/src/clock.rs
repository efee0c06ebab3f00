//! The time, as the programs provide it.

/// The only source of time in `server` and `client`, so that a simulation can own it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 00:00:00 UTC. May step backwards; never used for ordering.
    fn unix_ms(&self) -> i64;

    /// Milliseconds since an arbitrary start. Never steps backwards.
    fn monotonic_ms(&self) -> u64;

    /// The same in microseconds, for what is shorter than a millisecond.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1000)
    }
}
