//! The server: its limits, its places, its log.

mod bounded;
mod crash;
mod fairness;
mod log;
mod panics;
mod standing;
