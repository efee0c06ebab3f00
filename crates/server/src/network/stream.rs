//! What the server takes a connection for: bytes in and out, whatever carries them.

use model::Failure;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes from one peer and to it.
///
/// A stream inside another one, as one that is encrypted, shakes hands when it is first polled:
/// accepting it must not wait for its peer.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Waits for bytes, the end or an error, without any room for bytes: a connection needs no
    /// memory before its first byte.
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes what goes at once; `WouldBlock` if nothing does.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// The same where a writer has waited in vain: a stream may have room for a few bytes long
    /// before it wakes a writer.
    fn write_unasked(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    /// How many of the bytes that were written the peer has not acknowledged; none where nobody
    /// says.
    fn unacknowledged(&self) -> Option<u64>;

    /// The certificate that the peer has shown, once something was read; none where it showed none.
    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        None
    }

    /// Whose bytes these are, where a trusted proxy has said so, once something was read.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    /// Learns what the server thinks of the peer, before the first byte to it: that it may
    /// synchronize, or why not. For streams that say so outside of the bytes.
    fn judged(&mut self, _judgment: Result<(), &Failure>) {}
}

/// Where connections come from.
pub trait Acceptor: Send {
    /// As `tcp://HOST:PORT`, with the real port.
    fn url(&self) -> &str;

    /// The next connection, and whose it is. Errors are passing ones (descriptors, aborted
    /// handshakes).
    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>>;
}
