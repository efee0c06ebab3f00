//! Version 1 of the protocol, as programs of that version spoke it.
//!
//! `recordings/` has the bytes of both sides, recorded once between a program and a server of
//! version 1, and never again. `old_client.rs` says to a server of today what that program said.
//! `old_server.rs` answers a program of today as that server answered.

mod old_client;
mod old_server;
mod recording;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
