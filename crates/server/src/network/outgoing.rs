//! Bytes of a stream inside another one that the network has not taken yet.

use super::stream::Stream;
use model::Hold;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Bytes of a peer that are taken at once.
pub(super) const CHUNK_BYTES: usize = 32 << 10;

/// As many are given to a slow network at once (`wire.rs`).
const SLOW_BYTES: usize = 4 << 10;

/// A way to write without waiting, and how many bytes it gets at once.
#[derive(Clone, Copy)]
pub(super) struct Write {
    write: fn(&mut dyn Stream, &[u8]) -> io::Result<usize>,
    bytes_max: usize,
}

impl Write {
    /// By [`Stream::try_write`].
    pub(super) const TRIED: Write =
        Write { write: |stream, bytes| stream.try_write(bytes), bytes_max: CHUNK_BYTES };

    /// By [`Stream::write_unasked`].
    pub(super) const UNASKED: Write =
        Write { write: |stream, bytes| stream.write_unasked(bytes), bytes_max: SLOW_BYTES };

    /// Writes these bytes with nothing in between.
    pub(super) fn now(self, stream: &mut dyn Stream, bytes: &[u8]) -> io::Result<usize> {
        (self.write)(stream, bytes)
    }
}

/// Bytes in order; those before `sent` are with the network. Their memory is counted while there is
/// any, and given back afterwards.
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    held: Hold,
    /// What the stream has beside them.
    beside: u64,
}

impl Outgoing {
    /// None, whose memory counts in `held`.
    pub(super) fn new(held: Hold) -> Outgoing {
        Outgoing { bytes: Vec::new(), sent: 0, held, beside: 0 }
    }

    /// Counts so many bytes that the stream has from now on beside those that wait.
    pub(super) fn count_beside(&mut self, bytes: u64) {
        self.beside += bytes;
        self.held.grow(bytes);
    }

    /// Counts the memory again, after bytes were added.
    pub(super) fn count(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
        let (now, counted) = (self.beside + self.bytes.capacity() as u64, self.held.bytes());
        match now.checked_sub(counted) {
            Some(more) => self.held.grow(more),
            None => self.held.shrink(counted - now),
        }
    }

    /// Where more is added, at the end.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends all that waits.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut dyn Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let sent = self.poll_send_all(stream, context);
        self.count();
        sent
    }

    /// Writes without waiting: first what waits already, then what `add` adds. Yields what
    /// `add` does.
    pub(super) fn write_at_once(
        &mut self,
        stream: &mut dyn Stream,
        way: Write,
        add: impl FnOnce(&mut Outgoing) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if !self.try_send(stream, way)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = add(self)?;
        self.try_send(stream, way)?;
        self.count();
        Ok(n)
    }

    fn poll_send_all(
        &mut self,
        stream: &mut dyn Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.len() > 0 {
            let rest = &self.bytes[self.sent..];
            match ready!(Pin::new(&mut *stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                n => self.advance(n),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what goes at once. True if nothing waits any more.
    fn try_send(&mut self, stream: &mut dyn Stream, way: Write) -> io::Result<bool> {
        while self.len() > 0 {
            let rest = &self.bytes[self.sent..];
            match (way.write)(&mut *stream, &rest[..rest.len().min(way.bytes_max)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, n: usize) {
        self.sent += n;
        if self.sent >= self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }
}
