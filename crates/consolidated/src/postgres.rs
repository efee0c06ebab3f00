//! The consolidated database on PostgreSQL.
//!
//! All state is in the schema `syncline`. Rows have the transaction that wrote them, and a
//! watermark is the snapshot from which a download was read. So no clock is needed.
//!
//! `link.rs` is the connection that all files use, `values.rs` the table of types. A server uses
//! `reader.rs` and `writer.rs`.

mod admin;
mod batch;
mod binding;
mod careful;
mod catalog;
mod check;
mod claims;
mod conflict;
mod connect;
mod cursor;
mod datetime;
mod departed;
mod departure_log;
mod deploy;
mod detached;
mod details;
mod dialect;
mod durable;
mod errors;
mod fetch;
mod fleet;
mod followers;
mod held;
mod identity;
mod image;
mod incarnation;
mod kept;
mod key_change;
mod key_log;
mod key_order;
mod knot;
mod ledger;
mod link;
mod links;
mod lookup;
mod made;
mod migration;
mod moved;
mod new_keys;
mod notes;
mod numeric;
mod oldest;
mod orphans;
mod outline;
mod owed;
mod parcel;
mod parked;
mod plan;
mod present;
mod reached;
mod read_lock;
mod reader;
mod remote_ddl;
mod report;
mod row_fault;
mod rows;
mod scratch;
mod scripts;
mod sending;
mod shapes;
mod shortfall;
mod snapshot;
mod span;
mod spelling;
mod start;
mod statement;
mod steps;
mod table_plan;
mod tables;
mod taken_along;
mod timeline;
mod tls;
mod tracking;
mod trim;
mod upload;
mod values;
mod verbatim;
mod watch;
mod watermark;
mod withhold;
mod writer;

pub(crate) use admin::Admin;
pub use binding::Binding;
pub(crate) use reader::Reader;
pub(crate) use start::start;
pub(crate) use writer::Writer;
