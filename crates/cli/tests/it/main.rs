//! The programs as users run them: real files, real sockets, real databases, real kills.
//!
//! One program, because its tests mostly wait: side by side they wait together, and share one
//! PostgreSQL cluster. What measures this process itself (`allocations`, `memory`, `upload_memory`)
//! is a program of its own and runs alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod chinook;
mod commands;
mod convergence;
mod demo;
mod kill;
mod postgres;
mod remotes;
mod report;
mod rows;
mod schema;
mod schemas;
mod server;
mod synchronize;
mod twin;
mod users;
mod wire;
