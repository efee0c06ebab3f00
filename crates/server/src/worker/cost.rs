//! Answers of workers, and what they cost at the database.

use model::Failure;
use tokio::sync::oneshot;

/// Where an answer goes. Its receiver may be gone: the session ended meanwhile.
pub(crate) type Answer<T> = oneshot::Sender<Result<Costed<T>, Failure>>;

/// An answer and what it cost at the database.
pub(crate) struct Costed<T> {
    pub(crate) value: T,
    pub(crate) cost: Cost,
}

/// What a synchronization cost at the database, for the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Exchanges with the database.
    pub(crate) round_trips: u64,
    /// Durable commits; where several synchronizations had one together, the share of each.
    pub(crate) commits: f64,
    /// Microseconds in which a worker had it in hand; before that it waited.
    pub(crate) worked_us: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, more: Cost) {
        self.round_trips += more.round_trips;
        self.commits += more.commits;
        self.worked_us += more.worked_us;
    }
}
