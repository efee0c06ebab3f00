//! The staged server.
//!
//! Read `server.rs`, which connects the stages, then `session.rs`, which is one synchronization
//! from the first byte to the last.
//!
//! ```text
//!  network ──► session ──► worker: readers ──► consolidated database
//!     ▲           │   └──► worker: writer  ──►
//!     └───────────┴── uploads and downloads wait in the spill
//! ```
//!
//! The worker never waits for a remote (S10): an upload is complete before the worker receives it,
//! and a download is complete in the spill before its first byte is sent. A server has no state
//! that a restart would lose.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod authenticate;
mod clock;
mod config;
mod fail_point;
mod files;
mod interruption;
mod jitter;
mod lease;
mod network;
mod pace;
pub mod password;
mod phases;
mod random;
mod server;
mod session;
mod stage;
mod token;
mod transfers;
mod turns;
mod upload;
mod worker;
mod wrong_passwords;

pub use config::Config;
pub use server::{Components, Reloader, Server, start};
pub use worker::READERS_PER_ADMITTER;
