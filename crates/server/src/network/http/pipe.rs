//! The body of a response, from the session that writes it to hyper, which takes it.
//!
//! Bound: [`PIPE_BYTES`] between the two.

use super::wire::Wire;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes that wait for hyper at most.
pub(super) const PIPE_BYTES: usize = 64 << 10;

/// Both ends.
pub(super) struct Pipe {
    wire: Arc<Wire>,
    state: Mutex<State>,
}

struct State {
    bytes: Vec<u8>,
    /// Bytes that hyper took.
    taken: u64,
    end: End,
    /// Who waits for bytes, and for room or for the end.
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy)]
enum End {
    /// More may come.
    Open,
    /// All was written.
    Wanted,
    /// Hyper has learned of the end, when it had flushed so often.
    Passed { flushes: u64 },
    /// The session has left in the middle.
    Torn,
    /// Hyper takes no more: the peer is gone.
    Gone,
}

impl Pipe {
    /// The two ends of an empty body.
    pub(super) fn ends(wire: Arc<Wire>) -> (PipeWriter, PipeReader) {
        let (bytes, taken, end) = (Vec::new(), 0, End::Open);
        let state = State { bytes, taken, end, reader: None, writer: None };
        let begun_at = wire.written();
        let pipe = Arc::new(Pipe { wire, state: Mutex::new(state) });
        (PipeWriter { pipe: pipe.clone(), begun_at }, PipeReader(pipe))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Where the session writes.
pub(super) struct PipeWriter {
    pipe: Arc<Pipe>,
    /// Bytes that were written to the stream below before the response.
    begun_at: u64,
}

impl PipeWriter {
    /// Writes what there is room for; `WouldBlock` where there is none.
    pub(super) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.pipe.state();
        if !matches!(state.end, End::Open) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut written = 0;
        for slice in slices {
            let n = slice.len().min(PIPE_BYTES - state.bytes.len());
            state.bytes.extend_from_slice(&slice[..n]);
            written += n;
        }
        if written == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(written)
    }

    /// The same, and waits for room.
    pub(super) fn poll_write(
        &self,
        slices: &[IoSlice<'_>],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.pipe.state();
        if state.bytes.len() < PIPE_BYTES || !matches!(state.end, End::Open) {
            drop(state);
            return Poll::Ready(self.try_write(slices));
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ends the body, and waits until all of it has been written to the stream below.
    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.pipe.state();
        if let End::Open = state.end {
            state.end = End::Wanted;
        }
        match state.end {
            End::Passed { flushes } => {
                drop(state);
                self.pipe.wire.poll_flushed(flushes, context)
            }
            End::Gone | End::Torn => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            End::Open | End::Wanted => {
                state.writer = Some(context.waker().clone());
                let reader = state.reader.take();
                drop(state);
                wake(reader);
                Poll::Pending
            }
        }
    }

    /// Bytes that were written here and that the peer has not acknowledged, as far as anybody can
    /// say.
    pub(super) fn unacknowledged(&self) -> u64 {
        let state = self.pipe.state();
        let (waiting, taken) = (state.bytes.len() as u64, state.taken);
        drop(state);
        let passed_on = self.pipe.wire.written().saturating_sub(self.begun_at);
        let below = self.pipe.wire.unacknowledged().unwrap_or(0);
        (waiting + taken.saturating_sub(passed_on)).saturating_add(below)
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut state = self.pipe.state();
        if let End::Open | End::Wanted = state.end {
            state.end = End::Torn;
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }
}

/// Where hyper takes the body from.
pub(super) struct PipeReader(Arc<Pipe>);

impl PipeReader {
    /// All that waits; none after the end. An error where the session has left in the middle, so
    /// that the peer cannot take what it got for a whole response.
    pub(super) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut state = self.0.state();
        if !state.bytes.is_empty() {
            let bytes = Bytes::from(std::mem::take(&mut state.bytes));
            state.taken += bytes.len() as u64;
            let writer = state.writer.take();
            drop(state);
            wake(writer);
            return Poll::Ready(Some(Ok(bytes)));
        }
        match state.end {
            End::Open => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            End::Wanted | End::Passed { .. } => {
                state.end = End::Passed { flushes: self.0.wire.flushes() };
                let writer = state.writer.take();
                drop(state);
                wake(writer);
                Poll::Ready(None)
            }
            End::Torn | End::Gone => {
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
            }
        }
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if !matches!(state.end, End::Passed { .. }) {
            state.end = End::Gone;
        }
        let writer = state.writer.take();
        drop(state);
        wake(writer);
    }
}
