//! The memory that the connections to one file in WAL mode share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A part of it, which stays where it is. SQLite alone reads and writes it, so nothing here does.
#[derive(Debug, Clone)]
pub(super) struct Region(Arc<[AtomicU64]>);

impl Region {
    fn new(bytes: usize) -> Region {
        Region((0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Where it begins. It lasts as long as this value or a clone of it.
    pub(super) fn address(&self) -> *mut u64 {
        self.0.as_ptr().cast_mut().cast()
    }
}

/// All parts, in their order.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<Region>);

impl Memory {
    /// A region by its number; none if it is missing and not to be made.
    pub(super) fn region(&mut self, number: usize, bytes: usize, make: bool) -> Option<Region> {
        while make && self.0.len() <= number {
            self.0.push(Region::new(bytes));
        }
        self.0.get(number).cloned()
    }
}
