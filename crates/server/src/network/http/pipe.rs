//! The body of a response, from the session that writes it to hyper, which takes it.
//!
//! Bound: [`PIPE_BYTES`] between the two.

use super::passage::Passage;
use super::wire::Wire;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;

/// Bytes that wait for hyper at most.
pub(super) const PIPE_BYTES: usize = 64 << 10;

/// Both ends.
pub(super) struct Pipe {
    wire: Arc<Wire>,
    state: Mutex<State>,
}

struct State {
    bytes: Vec<u8>,
    /// Bytes before them, which hyper takes next.
    next: Bytes,
    /// Bytes that hyper took.
    taken: Passage,
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
    /// The two ends of an empty body, of which hyper takes at most so many bytes at once. `torn`
    /// learns where the session has left in the middle: hyper may wait for a peer meanwhile, and
    /// not ask for more.
    pub(super) fn ends(
        wire: Arc<Wire>,
        taken_max: usize,
        torn: Option<Torn>,
    ) -> (PipeWriter, PipeReader) {
        let (bytes, next, taken, end) = (Vec::new(), Bytes::new(), Passage::default(), End::Open);
        let state = State { bytes, next, taken, end, reader: None, writer: None };
        let pipe = Arc::new(Pipe { wire, state: Mutex::new(state) });
        (PipeWriter { pipe: pipe.clone(), torn }, PipeReader { pipe, taken_max })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Bytes that wait for hyper.
    fn waiting(&self) -> usize {
        self.bytes.len() + self.next.len()
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
    torn: Option<Torn>,
}

/// Hears that a session has left in the middle, or by its end that no session is there any more.
pub(super) type Torn = oneshot::Sender<()>;

impl PipeWriter {
    /// Writes what there is room for; `WouldBlock` where there is none.
    pub(super) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.pipe.state();
        if !matches!(state.end, End::Open) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut written = 0;
        for slice in slices {
            let n = slice.len().min(PIPE_BYTES - state.waiting());
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
        if state.waiting() < PIPE_BYTES || !matches!(state.end, End::Open) {
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
        let acknowledged = self.pipe.wire.acknowledged();
        let mut state = self.pipe.state();
        state.waiting() as u64 + state.taken.on_the_way(acknowledged)
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut state = self.pipe.state();
        if let End::Open | End::Wanted = state.end {
            state.end = End::Torn;
            if let Some(torn) = self.torn.take() {
                // Where nobody hears it, there is no stream any more.
                let _ = torn.send(());
            }
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }
}

/// Where hyper takes the body from.
pub(super) struct PipeReader {
    pipe: Arc<Pipe>,
    /// Bytes that it takes at once.
    taken_max: usize,
}

impl PipeReader {
    /// What waits; none after the end. An error where the session has left in the middle, so
    /// that the peer cannot take what it got for a whole response.
    pub(super) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut state = self.pipe.state();
        if state.next.is_empty() {
            state.next = Bytes::from(std::mem::take(&mut state.bytes));
        }
        if !state.next.is_empty() {
            let n = state.next.len().min(self.taken_max);
            let bytes = state.next.split_to(n);
            let written = self.pipe.wire.written();
            state.taken.take(n as u64, written);
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
                state.end = End::Passed { flushes: self.pipe.wire.flushes() };
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
        let mut state = self.pipe.state();
        if !matches!(state.end, End::Passed { .. }) {
            state.end = End::Gone;
        }
        let writer = state.writer.take();
        drop(state);
        wake(writer);
    }
}
