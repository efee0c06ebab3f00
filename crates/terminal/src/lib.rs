//! What people type and read at a terminal.
//!
//! `output.rs` prints lines, tables and failures, and `secret.rs` gets passwords and tokens. The
//! commands and the benchmark share it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod output;
pub mod secret;
