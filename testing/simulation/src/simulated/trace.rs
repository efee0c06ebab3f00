//! What has happened in a world, line by line.

use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A list that all parts of a world write to. Two runs of one seed have equal lists.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    /// Adds a line.
    pub fn note(&self, line: String) {
        self.lines().push(line);
    }

    /// All lines.
    pub fn all(&self) -> Vec<String> {
        self.lines().clone()
    }

    /// A number that follows from all lines.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for line in self.lines().iter() {
            hasher.write(line.as_bytes());
            hasher.write_u8(b'\n');
        }
        hasher.finish()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
