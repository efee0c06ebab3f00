//! What an upload has to know about all of its rows lies on disk where memory is short (S9).
//!
//! The server runs in this process, so all that it allocates is measured, from moment to moment.
//! What SQLite allocates is not. The keys are wide: a set of all keys that is held in memory, and
//! does not count, is far more than the memory for streams and what is in hand beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the figures are recorded")]

#[path = "upload_memory/references.rs"]
mod references;
#[path = "upload_memory/site.rs"]
mod site;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
