//! Where a table of functions finds its machine.

#![allow(unsafe_code, reason = "SQLite is written in C and gives pointers back")]

use super::system::System;
use rusqlite::ffi;
use std::sync::{Arc, Mutex, PoisonError};

/// Which machine a table of functions is for at present.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<Arc<System>>>);

impl Slot {
    pub(super) fn put(&self, system: Option<Arc<System>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = system;
    }
}

/// The machine of a table; none if it is gone.
///
/// # Safety
///
/// The table has the address of a slot that is never freed.
pub(super) unsafe fn system(vfs: *mut ffi::sqlite3_vfs) -> Option<Arc<System>> {
    // SAFETY: the caller promises it, and such a table points to its slot.
    let slot = unsafe { &*(*vfs).pAppData.cast::<Slot>() };
    slot.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
