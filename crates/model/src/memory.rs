//! The memory that a process may use for its peers, and its users.
//!
//! There is one budget for everything. If a request exceeds the rest of the budget, the caller uses
//! the disk, does with less, or is refused. No caller waits for memory. So a holder of memory
//! cannot block others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget, in bytes.
#[derive(Debug)]
pub struct Memory {
    bytes_max: u64,
    used: AtomicU64,
}

impl Memory {
    /// A budget of so many bytes, none of them in use.
    pub fn new(bytes_max: u64) -> Arc<Memory> {
        Arc::new(Memory { bytes_max, used: AtomicU64::new(0) })
    }

    /// A part of the budget that is empty so far.
    pub fn hold(self: &Arc<Memory>) -> Hold {
        Hold { memory: self.clone(), bytes: 0 }
    }

    /// Bytes that are in use.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Without a bound, for programs without remote peers.
impl Default for Memory {
    fn default() -> Memory {
        Memory { bytes_max: u64::MAX, used: AtomicU64::new(0) }
    }
}

/// A part of a budget. Dropping it gives it back.
#[derive(Debug)]
pub struct Hold {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Hold {
    /// Takes more, if so much is left.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let taken = take(&self.memory.used, bytes, self.memory.bytes_max);
        self.bytes += if taken { bytes } else { 0 };
        taken
    }

    /// Takes more whatever is left, for what has to be in memory: others get less.
    pub fn grow(&mut self, bytes: u64) {
        self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Gives a part of it back.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.memory.used.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }

    /// Gives all of it back.
    pub fn release(&mut self) {
        self.shrink(self.bytes);
    }

    /// All of it as another one, and nothing left in this.
    pub fn take(&mut self) -> Hold {
        Hold { memory: self.memory.clone(), bytes: std::mem::take(&mut self.bytes) }
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// Adds to what is used, unless that would be more than `max`.
pub(crate) fn take(used: &AtomicU64, bytes: u64, max: u64) -> bool {
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
        now.checked_add(bytes).filter(|sum| *sum <= max)
    })
    .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // S9
    #[test]
    fn what_one_holds_the_others_lack_until_it_is_given_back() {
        let memory = Memory::new(100);
        let (mut one, mut other) = (memory.hold(), memory.hold());
        assert!(one.try_grow(60));
        assert!(!other.try_grow(41), "there is less");
        assert!(other.try_grow(40));
        other.grow(20);
        assert_eq!((one.bytes(), other.bytes(), memory.used_bytes()), (60, 60, 120));
        drop(one);
        assert!(!other.try_grow(41) && other.try_grow(40));
        other.shrink(20);
        assert_eq!((other.bytes(), memory.used_bytes()), (80, 80));
        other.release();
        assert_eq!((other.bytes(), memory.used_bytes()), (0, 0));
    }
}
