//! One POST as a stream.
//!
//! The body of the request is what is read, that of the response what is written.

use super::pipe::PipeWriter;
use super::status::SessionStatus;
use crate::network::Stream;
use bytes::{Buf, Bytes};
use http_body::Body;
use hyper::body::Incoming;
use model::{Failure, Hold};
use rustls::pki_types::CertificateDer;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// What a version of HTTP needs for one request beside what the session holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Memory, in bytes, from the first byte on.
    pub(super) begun_bytes: u64,
    /// Memory, in bytes, once the peer is known.
    pub(super) known_bytes: u64,
    /// Bytes of the response that it takes at once.
    pub(super) taken_max: usize,
}

/// A request and its response.
pub(super) struct Exchange {
    request: Incoming,
    /// Of the request, what was received and not read.
    unread: Bytes,
    response: PipeWriter,
    /// Where the status goes, until it is decided.
    verdict: Option<oneshot::Sender<SessionStatus>>,
    /// The certificate that the peer has shown: it says who may send this request.
    certificate: Option<CertificateDer<'static>>,
    room: Room,
    memory: Hold,
    _place: OwnedSemaphorePermit,
}

impl Exchange {
    pub(super) fn new(
        request: Incoming,
        response: PipeWriter,
        verdict: oneshot::Sender<SessionStatus>,
        certificate: Option<CertificateDer<'static>>,
        room: Room,
        mut memory: Hold,
        place: OwnedSemaphorePermit,
    ) -> Exchange {
        memory.grow(room.begun_bytes);
        Exchange {
            request,
            unread: Bytes::new(),
            response,
            verdict: Some(verdict),
            certificate,
            room,
            memory,
            _place: place,
        }
    }

    /// Waits for bytes of the request, or its end.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(Pin::new(&mut self.request).poll_frame(context)) {
                // Trailers say nothing to us.
                Some(Ok(frame)) => self.unread = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A session that writes has nothing against the peer.
    fn settle(&mut self) {
        if self.verdict.is_some() {
            self.judged(Ok(()));
        }
    }
}

impl Stream for Exchange {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_fill(context)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.settle();
        self.response.try_write(&[IoSlice::new(bytes)])
    }

    fn unacknowledged(&self) -> Option<u64> {
        Some(self.response.unacknowledged())
    }

    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.certificate.as_ref()
    }

    fn judged(&mut self, judgment: Result<(), &Failure>) {
        let Some(verdict) = self.verdict.take() else { return };
        if judgment.is_ok() {
            self.memory.grow(self.room.known_bytes);
        }
        // Where nobody waits for it, the peer is gone, and the next read or write says so.
        let _ = verdict.send(SessionStatus::of(judgment));
    }
}

impl AsyncRead for Exchange {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_fill(context))?;
        let n = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..n]);
        self.unread.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Exchange {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.settle();
        self.response.poll_write(slices, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.settle();
        self.response.poll_end(context)
    }
}
