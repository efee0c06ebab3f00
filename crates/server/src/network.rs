//! Bytes in and out: listeners, and connections that carry messages.

mod accept;
mod acknowledged;
mod connection;
mod listener;
mod patience;
mod supervisor;
mod wire;

pub(crate) use accept::{Accept, start};
pub(crate) use connection::{Connection, Received};
pub(crate) use listener::{Listener, raise_descriptor_limit};
pub(crate) use patience::Limits;
pub(crate) use supervisor::notify;
