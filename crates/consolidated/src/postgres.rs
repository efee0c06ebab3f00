//! The consolidated database on PostgreSQL.
//!
//! Everything lives in the schema `syncline`. Rows carry the transaction that wrote them, and a
//! watermark is the snapshot that a download was read from, so that no clock is trusted.
//!
//! `link.rs` is the connection that everything here shares, `values.rs` the table of types.

mod connect;
mod datetime;
mod details;
mod errors;
mod link;
mod numeric;
mod scratch;
mod statement;
mod tls;
mod values;
