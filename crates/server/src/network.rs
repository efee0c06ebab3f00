//! Bytes in and out: acceptors, and connections that carry messages.

mod accept;
mod acknowledged;
mod connection;
mod http;
mod listen;
mod listener;
mod outgoing;
mod patience;
mod proxied;
mod stream;
mod supervisor;
mod surroundings;
mod tls;
mod websocket;
mod wire;

pub(crate) use accept::{Accept, accept};
pub(crate) use connection::{Connection, Received};
pub(crate) use listen::listen;
pub(crate) use listener::raise_descriptor_limit;
pub(crate) use patience::Limits;
pub use stream::{Acceptor, Stream};
pub(crate) use supervisor::notify;
pub(crate) use surroundings::Surroundings;
pub(crate) use tls::TlsSettings;
