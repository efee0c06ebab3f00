//! The names under which SQLite finds the machines.
//!
//! A connection knows the table of functions for as long as it lives, so a table is never freed.
//! When its machine is gone and no file of it is open, the next machine takes it over.

#![allow(unsafe_code, reason = "SQLite is written in C and keeps pointers")]

use super::shim;
use super::slot::Slot;
use super::system::System;
use rusqlite::ffi;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

/// A table of functions that SQLite knows by a name.
#[derive(Debug)]
pub(super) struct Registration {
    name: String,
    slot: &'static Slot,
}

/// Tables without a machine.
static FREE: Mutex<Vec<Registration>> = Mutex::new(Vec::new());

impl Registration {
    /// Has SQLite know the machine.
    pub(super) fn of(system: Arc<System>) -> Registration {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let registration = free.unwrap_or_else(Registration::new);
        registration.slot.put(Some(system));
        registration
    }

    fn new() -> Registration {
        let slot: &'static Slot = Box::leak(Box::default());
        // An address tells tables apart.
        let name = format!("simulated-{:x}", std::ptr::from_ref(slot).addr());
        let c_name = CString::new(name.clone()).unwrap_or_default();
        let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
            zName: CString::into_raw(c_name),
            pAppData: std::ptr::from_ref(slot).cast_mut().cast(),
            ..shim::methods()
        }));
        // SAFETY: the table and what it points to are never freed, and its functions are those of
        // the interface's version that it names.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes every table");
        Registration { name, slot }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The machine is gone; the table serves another one if nothing of it is in use.
    pub(super) fn give_back(&self, is_in_use: bool) {
        self.slot.put(None);
        if !is_in_use {
            let again = Registration { name: self.name.clone(), slot: self.slot };
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(again);
        }
    }
}
