//! A blocking driver of PostgreSQL.
//!
//! `session.rs` is one connection and the flights that run on it, over `wire.rs`, which exchanges
//! messages with a server through `socket.rs`. `startup.rs` connects: it encrypts (`tls.rs`) and
//! proves who we are (`authentication.rs`). `prepared.rs` keeps the statements that the server
//! knows, `row.rs` reads what they return.
//!
//! It knows nothing of what it is used for. It never connects again by itself, repeats nothing and
//! has no thread and no timer of its own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod authentication;
mod call;
mod cancel;
mod fault;
mod host;
mod key;
mod message;
mod notice;
mod objection;
mod options;
mod prepare;
mod prepared;
mod proof;
mod refusal;
mod row;
mod session;
mod socket;
mod startup;
mod tls;
mod wire;

pub use call::{Call, CallResult, Rows};
pub use cancel::cancel;
pub use fault::{Error, Fault};
pub use host::Host;
pub use key::Key;
pub use objection::{Ground, Objection};
pub use options::{Check, Encryption, Options};
pub use prepared::STATEMENTS_MAX;
pub use proof::{ChannelBinding, ClientCertificate, Method, Methods, Proof};
pub use refusal::Refusal;
pub use row::{Column, Row, RowRef, Unreadable, Values};
pub use session::Session;
