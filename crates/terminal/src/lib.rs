//! What people type and read at a terminal.
//!
//! `output.rs` prints lines, tables and failures, `secret.rs` gets passwords and tokens, and
//! `confirm.rs` asks before something is taken away. The commands and the benchmark share it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod confirm;
pub mod output;
pub mod secret;
