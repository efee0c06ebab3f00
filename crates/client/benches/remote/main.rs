//! The cost of a remote: capture, upload and download of `purchase`, through the public API.
//!
//! The server is a script without a database (`center.rs`), so that every figure is that of the
//! engine and SQLite. Files are in `/dev/shm` if a bench says memory, and in the folder for
//! temporary files otherwise. Both are ordinary remotes in WAL mode.

#![allow(clippy::unwrap_used)]

mod capture;
mod center;
mod download;
mod site;
mod upload;

use divan::AllocProfiler;

/// Counts allocations beside the time; those of SQLite itself are not among them.
#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}
