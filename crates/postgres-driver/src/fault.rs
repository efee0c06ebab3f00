//! Why a flight, or the way to a session, ended early.

use crate::objection::Objection;
use crate::refusal::Refusal;
use std::fmt;
use std::io;

/// Why a flight of statements ended early.
#[derive(Debug)]
pub struct Fault {
    /// Position of the call that failed.
    pub call: usize,
    /// What happened.
    pub error: Error,
}

/// Who ended it, and why.
#[derive(Debug)]
pub enum Error {
    /// The server refused, and said why.
    Refused(Box<Refusal>),
    /// The connection was lost, or its bytes are not the protocol.
    Broken(io::Error),
    /// This side will not go on, and did not ask the server.
    Objected(Box<Objection>),
    /// The receiver of the rows wanted no more.
    Stopped,
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Broken(error)
    }
}

impl From<Objection> for Error {
    fn from(objection: Objection) -> Error {
        Error::Objected(Box::new(objection))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Broken(_) => f.write_str("the connection is lost"),
            Error::Objected(objection) => objection.fmt(f),
            Error::Stopped => f.write_str("no more rows were wanted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Broken(error) => Some(error),
            Error::Objected(objection) => objection.source(),
            Error::Refused(_) | Error::Stopped => None,
        }
    }
}

impl Fault {
    /// Whether the connection is gone, and the transaction with it.
    pub fn is_lost(&self) -> bool {
        match &self.error {
            Error::Refused(refusal) => refusal.is_fatal(),
            Error::Broken(_) => true,
            Error::Objected(_) | Error::Stopped => false,
        }
    }
}
