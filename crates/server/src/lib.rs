//! The staged server.
//!
//! Read `assembly.rs`, which connects the stages, then `session.rs`, which is one synchronization
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

mod assembly;
mod authenticate;
mod chronicle;
mod clock;
mod config;
mod fail_point;
mod files;
mod interruption;
mod jitter;
mod lease;
mod network;
mod pace;
mod phases;
mod random;
mod server;
mod session;
mod stage;
mod transfers;
mod turns;
mod upload;
mod worker;

pub use crate::authenticate::password;
pub use assembly::{Assembly, Components, Reloader};
pub use certificates::NameKind;
pub use config::{
    ClientCertificates, Config, DirectoryOptions, JwtKeys, JwtOptions, Proxies, ServiceOptions,
    TlsFiles,
};
pub use network::{Acceptor, Stream};
pub use protocol::Compression;
pub use server::{Server, start};
pub use stage::{Execution, Task, Tasks};
pub use worker::READERS_PER_ADMITTER;
