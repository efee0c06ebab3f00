//! What a watermark says: only the backend that wrote it can read it.

use crate::download::time::Time;
use crate::synchronization::TableMark;
use model::{Counter, Failure, Watermark};

/// A watermark, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark<P> {
    /// Changes when the database is found to have been restored (trap 3).
    pub(crate) generation: i64,
    /// The synchronization that handed this out; settles what was owed before it.
    pub(crate) counter: Counter,
    /// Digest of the selection and of the values that it depends on: of another selection, or with
    /// other values, the remote needs all rows (trap 4). 0 for a table that is not downloaded.
    pub(crate) claims: u128,
    /// Since when the remote lacks what was stamped, where cursors ask for that.
    pub(crate) time: Option<Time>,
    pub(crate) point: P,
}

/// A mark's place in time, as a backend counts it.
pub(crate) trait Point: Sized {
    /// None of what this backend did not write, or not in this form.
    fn read(watermark: &Watermark) -> Option<Mark<Self>>;

    fn write(mark: &Mark<Self>) -> Result<Watermark, Failure>;
}

impl<P: Point> Mark<P> {
    pub(crate) fn read(watermark: &Watermark) -> Option<Mark<P>> {
        P::read(watermark)
    }

    pub(crate) fn write(&self) -> Result<Watermark, Failure> {
        P::write(self)
    }

    /// What a remote holds of a table.
    pub(crate) fn held(held: &TableMark) -> Option<Mark<P>> {
        Mark::read(held.watermark.as_ref()?)
    }

    /// The synchronization that handed out `watermark`.
    pub(crate) fn counter_of(watermark: &Watermark) -> Option<Counter> {
        Mark::<P>::read(watermark).map(|mark| mark.counter)
    }
}
