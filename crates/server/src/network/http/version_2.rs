//! One connection of HTTP/2: many requests at once.
//!
//! All of it runs in one task. So what a response says of its end is in order with what the
//! connection has written, and whatever a stream does ends with its connection.
//!
//! Bound: [`STREAMS_MAX`] requests, each with the windows and buffers below. A peer that opens and
//! resets requests faster than they are taken, or that makes errors in them, is ended after
//! [`RESETS_MAX`]. A head has [`HEAD_BYTES_MAX`], its continuations included, whose number follows
//! from that. PING and SETTINGS are answered one by one, and nothing is read before the answer has
//! left. There is no push, and no WebSocket. A response for which the peer opens no window is ended
//! by the patience of its session. Without a session nothing keeps a connection: neither a response
//! that is left nor what the peer says meanwhile.

use super::exchange::Room;
use super::pipe::{PIPE_BYTES, Torn};
use super::request::{Line, Terms, answer, ending};
use super::wire::WireIo;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Sleep, sleep, timeout};

/// Requests at once.
const STREAMS_MAX: u32 = 100;

/// Bytes of a frame.
const FRAME_BYTES_MAX: u32 = 16 << 10;

/// Bytes of a request that may come before anybody reads them.
const WINDOW_BYTES: u32 = 64 << 10;

/// The same of a connection: as many as of all its requests, because those that wait for their turn
/// must not keep bytes from those that have it.
const CONNECTION_WINDOW_BYTES: u32 = STREAMS_MAX * WINDOW_BYTES;

/// Bytes of a response that wait in hyper for a window, beside two pieces of a frame each.
const SEND_BYTES_MAX: usize = 32 << 10;

/// Bytes of a head, as HPACK counts them. Browsers and proxies stay below 8 KiB.
const HEAD_BYTES_MAX: u32 = 16 << 10;

/// What HPACK remembers of heads, in bytes.
const HEAD_TABLE_BYTES: u32 = 4 << 10;

/// Requests that were reset before they were taken, or that had to be reset for an error.
const RESETS_MAX: usize = 50;

/// How often a connection that ends, and on which there is no session any more, may be found to
/// move.
const CLOSING_ROUNDS_MAX: u32 = 12;

/// What a connection takes of the memory: two frames, one as it comes and one as it goes, a head
/// with its continuations, and both tables of HPACK.
const CONNECTION_BYTES: u64 =
    2 * FRAME_BYTES_MAX as u64 + HEAD_BYTES_MAX as u64 + 2 * HEAD_TABLE_BYTES as u64;

/// The window counts from the first byte on, because the peer may use it at once; the pipe and what
/// hyper holds of the response once the peer is known.
const ROOM: Room = Room {
    begun_bytes: WINDOW_BYTES as u64,
    known_bytes: (PIPE_BYTES + SEND_BYTES_MAX + 2 * FRAME_BYTES_MAX as usize) as u64,
    taken_max: FRAME_BYTES_MAX as usize,
};

/// Serves a connection until it ends.
pub(super) async fn serve(
    io: WireIo,
    line: Line,
    mut stopped: watch::Receiver<bool>,
) -> hyper::Result<()> {
    let (idle, wire, front) = (line.idle, line.wire.clone(), line.front.clone());
    let mut memory = front.shared.spills.memory().hold();
    memory.grow(CONNECTION_BYTES);
    let begun = Begun::default();
    let asked = begun.clone();
    let service = service_fn(move |request| {
        let line = line.clone();
        let terms = Terms { room: ROOM, upgrades: None, torn: Some(asked.expect()) };
        async move { answer(request, &line, terms).await }
    });
    let connection = http2::Builder::new(begun.clone())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .header_table_size(HEAD_TABLE_BYTES)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    let mut streams = Streams::new(begun);
    let served = poll_fn(|context| match streams.poll(connection.as_mut(), context) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending => streams.poll_idle(idle, context).map(|()| None),
    });
    let ended = tokio::select! {
        biased;
        ended = served => ended,
        () = ending(&mut stopped) => None,
    };
    if let Some(ended) = ended {
        return ended;
    }
    // The peer learns which of its requests are still answered. A session ends by itself where its
    // peer does not move; when all have ended, a little of each may be left in the windows.
    connection.as_mut().graceful_shutdown();
    let (mut before, mut rounds) = (None, 0);
    while rounds < CLOSING_ROUNDS_MAX {
        let closing = poll_fn(|context| streams.poll(connection.as_mut(), context));
        if let Ok(ended) = timeout(idle, closing).await {
            return ended;
        }
        let now = Some(wire.acknowledged());
        if streams.is_quiet() {
            if now == before {
                break;
            }
            rounds += 1;
        }
        before = now;
    }
    Ok(())
}

/// What the streams of one connection do.
struct Streams {
    begun: Begun,
    /// Bound: [`STREAMS_MAX`].
    running: FuturesUnordered<Stream>,
    /// Since there is no session, how much longer this may last.
    quiet: Option<Pin<Box<Sleep>>>,
}

impl Streams {
    fn new(begun: Begun) -> Streams {
        Streams { begun, running: FuturesUnordered::new(), quiet: None }
    }

    /// Goes on with the connection, and then with its streams, until it has ended.
    fn poll<C: Future>(
        &mut self,
        connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        if let Poll::Ready(ended) = connection.poll(context) {
            return Poll::Ready(ended);
        }
        let begun = self.begun.take();
        let mut moves = !begun.is_empty();
        self.running.extend(begun);
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(context) {
            moves = true;
        }
        if moves {
            self.quiet = None;
        }
        Poll::Pending
    }

    fn is_quiet(&self) -> bool {
        self.begun.sessions.load(Ordering::Relaxed) == 0
    }

    /// Waits until there was no session for so long, and no request.
    fn poll_idle(&mut self, idle: Duration, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_quiet() {
            self.quiet = None;
            return Poll::Pending;
        }
        self.quiet.get_or_insert_with(|| Box::pin(sleep(idle))).as_mut().poll(context)
    }
}

/// A stream from its request to the last byte of its response.
struct Stream {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// As long as there may be one.
    session: Option<(oneshot::Receiver<()>, Counted)>,
}

impl Future for Stream {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some((torn, _)) = &mut self.session
            && let Poll::Ready(torn) = Pin::new(torn).poll(context)
        {
            self.session = None;
            if torn.is_ok() {
                // The peer learns of it when the work is dropped.
                return Poll::Ready(());
            }
        }
        self.work.as_mut().poll(context)
    }
}

/// Streams that the connection has begun since this was asked last.
#[derive(Clone, Default)]
struct Begun {
    streams: Arc<Mutex<Vec<Stream>>>,
    /// Of the request that a stream is begun for next.
    expected: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    /// Sessions that there may be.
    sessions: Arc<AtomicUsize>,
}

impl Begun {
    fn take(&self) -> Vec<Stream> {
        std::mem::take(&mut lock(&self.streams))
    }

    /// Knows the session of the request for which hyper begins a stream as the next thing.
    fn expect(&self) -> Torn {
        let (torn, receiver) = oneshot::channel();
        *lock(&self.expected) = Some(receiver);
        torn
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, work: F) {
        let expected = lock(&self.expected).take();
        let session = expected.map(|torn| (torn, Counted::one(&self.sessions)));
        lock(&self.streams).push(Stream { work: Box::pin(work), session });
    }
}

/// One of those that are counted, as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one(all: &Arc<AtomicUsize>) -> Counted {
        all.fetch_add(1, Ordering::Relaxed);
        Counted(all.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
