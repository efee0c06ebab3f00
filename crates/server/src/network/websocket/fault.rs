//! What a peer of WebSocket can do wrong.

use model::{Code, Failure};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Frames that break the rules.
    Broken(&'static str),
    /// A message of text.
    Text,
    /// A message that is too large.
    TooLarge,
}

impl Fault {
    /// What the connection is closed with.
    pub(super) fn close_code(self) -> u16 {
        match self {
            Fault::Broken(_) => 1002,
            Fault::Text => 1003,
            Fault::TooLarge => 1009,
        }
    }

    /// What the session fails with.
    pub(super) fn failure(self) -> Failure {
        match self {
            Fault::Broken(what) => Failure::new(
                Code::WebSocketBroken,
                format!("the peer breaks the rules of WebSocket: {what}"),
            ),
            Fault::Text => Failure::new(
                Code::WebSocketBroken,
                "the peer sent text over WebSocket, and only binary messages are expected",
            ),
            Fault::TooLarge => Failure::new(
                Code::WebSocketMessageTooLarge,
                "the peer sent a message over WebSocket of more than 256 KiB",
            ),
        }
    }
}
