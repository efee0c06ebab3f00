//! What SQLite asks of a disk, and how each of it fails.

use rusqlite::ffi;
use std::ffi::c_int;

/// The result of an operation, or SQLite's number of what went wrong.
pub(super) type Outcome<T> = Result<T, c_int>;

/// A kind of operation. All are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Open,
    Create,
    Read,
    Write,
    Truncate,
    Sync,
    Size,
    Delete,
    Access,
    Lock,
    CheckLock,
    MapMemory,
    LockMemory,
}

impl Operation {
    /// Whether it changes what a restart finds.
    pub(super) fn is_change(self) -> bool {
        matches!(
            self,
            Operation::Create
                | Operation::Write
                | Operation::Truncate
                | Operation::Sync
                | Operation::Delete
        )
    }

    /// What SQLite hears when it fails.
    pub(super) fn error(self) -> c_int {
        match self {
            Operation::Open | Operation::Create => ffi::SQLITE_CANTOPEN,
            Operation::Read => ffi::SQLITE_IOERR_READ,
            Operation::Write => ffi::SQLITE_IOERR_WRITE,
            Operation::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Operation::Sync => ffi::SQLITE_IOERR_FSYNC,
            Operation::Size => ffi::SQLITE_IOERR_FSTAT,
            Operation::Delete => ffi::SQLITE_IOERR_DELETE,
            Operation::Access => ffi::SQLITE_IOERR_ACCESS,
            Operation::Lock => ffi::SQLITE_IOERR_LOCK,
            Operation::CheckLock => ffi::SQLITE_IOERR_CHECKRESERVEDLOCK,
            Operation::MapMemory => ffi::SQLITE_IOERR_SHMMAP,
            Operation::LockMemory => ffi::SQLITE_IOERR_SHMLOCK,
        }
    }
}

/// A number that follows from everything that was added, in its order.
#[derive(Debug)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ (mixed >> 29);
        }
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}
