//! SQLite's own chance, of which there is one in a process.

#![allow(unsafe_code, reason = "SQLite is written in C, and this function takes any arguments")]

use rusqlite::ffi;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE: Mutex<()> = Mutex::new(());

/// From here on every number that SQLite draws in this process follows from a seed: `random()` and
/// `randomblob()` in statements, and what is in journals. A run has it as long as it lasts; another
/// one waits.
#[derive(Debug)]
pub struct Chance {
    _one: MutexGuard<'static, ()>,
}

impl Chance {
    /// Seeds it. Only connections opened through a simulated disk are in the order of the run, so
    /// nothing else should use SQLite meanwhile.
    pub fn seed(seed: u64) -> Chance {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Zero would mean the system's chance.
        let seed = ((seed ^ (seed >> 32)) as u32 | 1) as c_int;
        put(seed);
        Chance { _one: one }
    }
}

impl Drop for Chance {
    fn drop(&mut self) {
        put(0);
    }
}

fn put(seed: c_int) {
    let no_connection: *mut ffi::sqlite3 = std::ptr::null_mut();
    // SAFETY: these are the two arguments that this control takes; a connection may be missing.
    unsafe { ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_PRNG_SEED, seed, no_connection) };
}
