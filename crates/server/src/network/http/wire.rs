//! The stream below a connection of HTTP, which hyper reads and writes and the exchanges look at.

use super::version::{PREFACE, Version};
use crate::network::Stream;
use rustls::pki_types::CertificateDer;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is known of a stream while hyper has it.
pub(super) struct Wire(Mutex<State>);

struct State {
    /// None after its end.
    stream: Option<Box<dyn Stream>>,
    /// Bytes that it took.
    written: u64,
    /// How often all that hyper had to write was written.
    flushes: u64,
    /// Exchanges that wait for that. Bound: those of one connection.
    waiting: Vec<Waker>,
}

impl Wire {
    /// The stream for hyper, and a look at it for the exchanges.
    pub(super) fn around(stream: Box<dyn Stream>) -> (WireIo, Arc<Wire>) {
        let state = State { stream: Some(stream), written: 0, flushes: 0, waiting: Vec::new() };
        let wire = Arc::new(Wire(Mutex::new(state)));
        let ahead = Vec::new();
        (WireIo { wire: wire.clone(), ahead }, wire)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the stream took so far.
    pub(super) fn written(&self) -> u64 {
        self.state().written
    }

    /// How often everything was written.
    pub(super) fn flushes(&self) -> u64 {
        self.state().flushes
    }

    /// Of the bytes that the stream took, those that the peer has acknowledged, as far as anybody
    /// can say.
    pub(super) fn acknowledged(&self) -> u64 {
        let state = self.state();
        let below = state.stream.as_ref().and_then(|stream| stream.unacknowledged());
        state.written.saturating_sub(below.unwrap_or(0))
    }

    /// The certificate that the peer has shown.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.state().stream.as_ref()?.certificate().cloned()
    }

    /// Whose bytes these are, where a trusted proxy has said so.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.state().stream.as_ref()?.peer()
    }

    /// Waits until everything was written once more than so often.
    pub(super) fn poll_flushed(
        &self,
        after: u64,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if state.flushes > after {
            return Poll::Ready(Ok(()));
        }
        if state.stream.is_none() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The stream, as hyper has it.
pub(super) struct WireIo {
    wire: Arc<Wire>,
    /// Bytes that were read before hyper has it, and that it reads first: those that tell the
    /// version, at most.
    ahead: Vec<u8>,
}

impl WireIo {
    /// The stream, which hyper does not need any more.
    pub(super) fn into_stream(self) -> Option<Box<dyn Stream>> {
        self.wire.state().stream.take()
    }

    /// Waits until it is certain which version of HTTP the peer speaks. A peer that closes before
    /// speaks the first one.
    pub(super) async fn version(&mut self) -> io::Result<Version> {
        poll_fn(|context| self.with(|mut stream| stream.poll_readable(context))).await?;
        loop {
            let mut place = [0; PREFACE.len()];
            let mut room = ReadBuf::new(&mut place[self.ahead.len()..]);
            poll_fn(|context| self.with(|stream| stream.poll_read(context, &mut room))).await?;
            let closed = room.filled().is_empty();
            self.ahead.extend_from_slice(room.filled());
            match Version::of(&self.ahead) {
                Some(version) => return Ok(version),
                None if closed => return Ok(Version::One),
                None => {}
            }
        }
    }

    fn with<T>(
        &self,
        use_stream: impl FnOnce(Pin<&mut dyn Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut self.wire.state().stream {
            Some(stream) => use_stream(Pin::new(&mut **stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(n)) = written {
            self.wire.state().written += *n as u64;
        }
    }

    fn wake_all(waiting: Vec<Waker>) {
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for WireIo {
    fn drop(&mut self) {
        let mut state = self.wire.state();
        let stream = state.stream.take();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(stream);
        WireIo::wake_all(waiting);
    }
}

impl AsyncRead for WireIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        if io.ahead.is_empty() {
            return io.with(|stream| stream.poll_read(context, buffer));
        }
        let n = io.ahead.len().min(buffer.remaining());
        buffer.put_slice(&io.ahead[..n]);
        io.ahead.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WireIo {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.with(|stream| stream.poll_write(context, bytes));
        self.note_written(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.with(|stream| stream.poll_write_vectored(context, slices));
        self.note_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.state().stream.as_ref().is_some_and(|stream| stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.with(|stream| stream.poll_flush(context)))?;
        let mut state = self.wire.state();
        state.flushes += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        WireIo::wake_all(waiting);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }
}
