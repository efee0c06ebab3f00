//! What went wrong with the encryption, in our words.

use model::{Code, Failure};
use std::io;

/// The peer does not speak TLS.
pub(super) fn clear_text() -> io::Error {
    let message = "clear text arrived at a port that speaks TLS";
    let failure = Failure::new(Code::EncryptionMismatch, message);
    io::Error::other(
        failure.hint("write the URL as the server prints it, with tls://, https:// or wss://"),
    )
}

/// The session cannot go on.
pub(super) fn broken(error: rustls::Error, handshaking: bool) -> io::Error {
    let failure = match &error {
        rustls::Error::AlertReceived(alert) if handshaking => Failure::new(
            Code::HandshakeFailed,
            format!("the peer refused to go on with the TLS handshake ({alert:?})"),
        ),
        _ if handshaking => Failure::new(Code::HandshakeFailed, "the TLS handshake failed"),
        _ => Failure::new(Code::ConnectionLost, "the encrypted connection was damaged"),
    };
    io::Error::other(failure.source(error))
}

/// The session cannot even begin.
pub(super) fn unready(error: rustls::Error) -> io::Error {
    io::Error::other(Failure::new(Code::Bug, "cannot begin a session of TLS").source(error))
}
