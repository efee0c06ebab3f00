//! PostgreSQL at the center, as users see it: real servers, real programs, real failures.

mod bounded;
mod chinook;
mod crash;
mod deployment;
mod encodings;
mod failover;
mod notices;
mod pooler;
mod representatives;
mod row_faults;
mod servers;
mod settings;
mod stopping;
mod transactions;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
