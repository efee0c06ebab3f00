//! The consolidated database on PostgreSQL.
//!
//! Everything lives in the schema `syncline`. Rows carry the transaction that wrote them, and a
//! watermark is the snapshot that a download was read from, so that no clock is trusted.
//!
//! `link.rs` is the connection that everything here shares, `values.rs` the table of types,
//! `reader.rs` and `writer.rs` what a server uses.

mod catalog;
mod connect;
mod datetime;
mod details;
mod errors;
mod fetch;
mod identity;
mod link;
mod numeric;
mod owed;
mod reader;
mod rows;
mod scratch;
mod snapshot;
mod span;
mod statement;
mod timeline;
mod tls;
mod values;
mod watermark;

pub(crate) use reader::Reader;
