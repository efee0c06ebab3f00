//! Who says what, and what becomes of it.

use protocol::Message;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A remote.
    Client,
    /// The server.
    Server,
}

/// What becomes of a message.
#[derive(Debug)]
pub enum Verdict {
    /// It passes as it is.
    Pass,
    /// These pass instead of it; none: it is lost.
    Replace(Vec<Message>),
    /// It does not pass. Who said it hears these, and the connection ends.
    Answer(Vec<Message>),
    /// The connection ends in front of it.
    CutBefore,
    /// It passes, and the connection ends.
    CutBehind,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}
