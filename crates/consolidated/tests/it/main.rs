//! The consolidated database through the public interface of its crate, in one program.
//!
//! Most tests run on both databases; a file whose name ends in `_postgres` is about PostgreSQL
//! alone. All tests share one PostgreSQL cluster, where each has a database of its own, and run
//! side by side. The oldest open transaction of a cluster counts for all of its databases, and so
//! do its settings: a test that depends on them starts a cluster for itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod administration;
mod deploy;
mod download;
mod keys;
mod partitions;
mod support;
mod upload;
mod values;
