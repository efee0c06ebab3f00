//! Keys and certificates of TLS: what is in their files, and whose they are.
//!
//! This crate knows no socket and speaks with nobody. The server and the client agree here on what
//! a readable key is, and the commands on what they say about one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod file;
mod name;
mod pin;

pub use file::{pem, read_chain, read_key, read_own, read_roots};
pub use name::{NameKind, ending, ends_unix_s, names};
pub use pin::Pin;

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The algorithms that all of Syncline uses.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
