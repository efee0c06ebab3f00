//! Bytes in and out: listeners, and connections that speak in messages.

mod connection;
mod listener;

pub(crate) use connection::Connection;
pub(crate) use listener::{Listener, raise_descriptor_limit};
