//! The consolidated database on PostgreSQL.
//!
//! All state is in the schema `syncline`. Rows have the transaction that wrote them, and a
//! watermark is the snapshot from which a download was read. So no clock is needed.
//!
//! `link.rs` is the connection that all files use, `values.rs` the table of types. A server uses
//! `reader.rs` and `writer.rs`.

mod admin;
mod catalog;
mod connect;
mod deploy;
mod dialect;
mod download;
mod encoding;
mod errors;
mod event_script;
mod identity;
mod incarnation;
mod link;
mod optimize;
mod reader;
mod start;
mod statement;
mod tracking;
mod upload;
mod values;
mod words;
mod writer;

#[cfg(any(test, feature = "bind"))]
pub use crate::postgres::upload::binding::Binding;
pub(crate) use admin::administer;
pub(crate) use reader::Reader;
pub(crate) use start::start;
pub(crate) use writer::Writer;
