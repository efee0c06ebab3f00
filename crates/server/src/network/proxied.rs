//! Connections that a proxy hands on, with the address of the peer before their first byte.
//!
//! In: connections of another acceptor. Those of a trusted proxy begin with a header of the PROXY
//! protocol, version 1 or 2, where the configuration says so; all others stay as they are. Out: the
//! same connections without that header.

use super::stream::{Acceptor, Stream};
use crate::session::Shared;
use model::{Code, Failure};
use proxy_header::{Error, ParseConfig, ProxyHeader};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a header may take. Without the notes that version 2 allows it has 232 bytes at most.
const HEADER_BYTES_MAX: usize = 4096;

/// What is read at once while the header is not complete.
const PIECE_BYTES: usize = 512;

/// Headers without what else a proxy notes of its connection.
const PARSE: ParseConfig = ParseConfig { include_tlvs: false, allow_v1: true, allow_v2: true };

/// What clients of version 1 and of version 2 begin with.
pub(super) const BEGINNINGS: [&[u8]; 2] = [b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"];

/// An acceptor of connections that may come through a proxy.
pub(super) struct Proxied {
    inner: Box<dyn Acceptor>,
    shared: Arc<Shared>,
}

impl Proxied {
    pub(super) fn new(inner: Box<dyn Acceptor>, shared: Arc<Shared>) -> Proxied {
        Proxied { inner, shared }
    }
}

impl Acceptor for Proxied {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let (stream, peer) = ready!(self.inner.poll_accept(context))?;
        let config = self.shared.config.now();
        if !config.proxies.protocol || !config.proxies.trusts(peer.ip()) {
            return Poll::Ready(Ok((stream, peer)));
        }
        Poll::Ready(Ok((Box::new(ProxiedStream::new(stream)), peer)))
    }
}

/// A connection that begins with a header.
struct ProxiedStream {
    inner: Box<dyn Stream>,
    header: Header,
}

enum Header {
    /// As much of it as has come.
    Awaited(Vec<u8>),
    /// It named this peer, if any. What had come behind it is read first.
    Read { peer: Option<SocketAddr>, behind: Vec<u8>, taken: usize },
}

impl ProxiedStream {
    fn new(inner: Box<dyn Stream>) -> ProxiedStream {
        ProxiedStream { inner, header: Header::Awaited(Vec::new()) }
    }

    /// Waits for the end of the header, or of a connection without a byte: a balancer that only
    /// looks whether the server listens.
    fn poll_header(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Header::Awaited(bytes) = &mut self.header {
            let mut place = [0; PIECE_BYTES];
            let mut piece = ReadBuf::new(&mut place);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut piece))?;
            bytes.extend_from_slice(piece.filled());
            let (peer, len) = match ProxyHeader::parse(bytes, PARSE) {
                Ok((header, len)) => (header.proxied_address().map(|it| it.source), len),
                Err(_) if bytes.is_empty() => (None, 0),
                Err(Error::BufferTooShort)
                    if !piece.filled().is_empty() && bytes.len() < HEADER_BYTES_MAX =>
                {
                    continue;
                }
                Err(_) => return Poll::Ready(Err(no_header())),
            };
            self.header = Header::Read { peer, behind: std::mem::take(bytes), taken: len };
        }
        Poll::Ready(Ok(()))
    }
}

fn no_header() -> io::Error {
    let message = "the connection of a trusted proxy does not begin with a PROXY header";
    io::Error::other(Failure::new(Code::ProxyHeaderMissing, message))
}

impl Stream for ProxiedStream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_header(context))?;
        match &self.header {
            Header::Read { behind, taken, .. } if *taken < behind.len() => Poll::Ready(Ok(())),
            _ => self.inner.poll_readable(context),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.try_write(bytes)
    }

    fn write_unasked(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_unasked(bytes)
    }

    fn unacknowledged(&self) -> Option<u64> {
        self.inner.unacknowledged()
    }

    fn peer(&self) -> Option<SocketAddr> {
        match &self.header {
            Header::Read { peer, .. } => *peer,
            Header::Awaited(_) => None,
        }
    }
}

impl AsyncRead for ProxiedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_header(context))?;
        if let Header::Read { behind, taken, .. } = &mut self.header
            && *taken < behind.len()
        {
            let n = (behind.len() - *taken).min(place.remaining());
            place.put_slice(&behind[*taken..*taken + n]);
            *taken += n;
            if *taken == behind.len() {
                (*behind, *taken) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(context, place)
    }
}

impl AsyncWrite for ProxiedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
