//! One connection of a network that delays, cuts and stands still, as its seed wants it.

use super::met::Met;
use crate::vfs::Disk;
use harness::Chance;
use server::Stream;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The direction from the center.
const DOWN: usize = 1;
/// What a direction holds at most, in bytes.
const CAPACITIES: [usize; 4] = [200, 1 << 10, 8 << 10, 64 << 10];
/// Most milliseconds of a delay: the usual, the long and the very long one.
const DELAYS_MS: [u64; 3] = [3, 60, 2000];
/// A delay of which somebody notices something.
pub(super) const LONG_MS: u64 = 500;

/// Where a connection is to break: after so many bytes in each direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cut {
    pub(super) up: Option<usize>,
    pub(super) down: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    /// Both ends hear of an error, and what was on its way is lost.
    Reset,
    /// Nothing moves any more, and nobody hears of it.
    Silent,
}

#[derive(Debug)]
struct Wire {
    state: State,
    /// Of the center, which says nothing more when it is dead.
    center: Arc<Disk>,
    chance: Chance,
    /// From the remote, and to it.
    ways: [Way; 2],
    met: Met,
}

/// One direction.
#[derive(Debug)]
struct Way {
    /// Bytes, and when they arrive.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    len: usize,
    capacity: usize,
    /// Bytes that were sent.
    sent: usize,
    cut_after: Option<usize>,
    /// The sender has ended it.
    ended: bool,
    /// Nobody reads it any more.
    unread: bool,
    latest: Instant,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Way {
    fn new(capacity: usize, cut_after: Option<usize>) -> Way {
        Way {
            pieces: VecDeque::new(),
            len: 0,
            capacity,
            sent: 0,
            cut_after,
            ended: false,
            unread: false,
            latest: Instant::now(),
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

impl Wire {
    /// The connection breaks.
    fn cut(&mut self) {
        self.met.cuts += 1;
        if self.chance.below(2) == 0 {
            self.met.resets += 1;
            self.state = State::Reset;
        } else {
            for way in &mut self.ways {
                (way.ended, way.unread) = (true, true);
            }
        }
        self.wake();
    }

    fn wake(&mut self) {
        for way in &mut self.ways {
            way.wake();
        }
    }

    /// Takes what there is room for; none if there is none.
    fn send(&mut self, way: usize, bytes: &[u8]) -> Result<Option<usize>> {
        if way == DOWN && self.center.is_dead() {
            self.state = State::Reset;
            self.wake();
        }
        if self.state == State::Reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if self.ways[way].unread || self.ways[way].ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let left = self.ways[way].cut_after.map(|cut| cut.saturating_sub(self.ways[way].sent));
        if left == Some(0) && !bytes.is_empty() {
            self.cut();
            return self.send(way, bytes);
        }
        let room = self.ways[way].capacity - self.ways[way].len;
        let len = bytes.len().min(room).min(left.unwrap_or(usize::MAX));
        if len == 0 && !bytes.is_empty() {
            self.met.full += 1;
            return Ok(None);
        }
        let mut rest = &bytes[..len];
        while !rest.is_empty() {
            // Cut anywhere, and the rest of it later.
            let most = match self.chance.below(4) {
                0 => 1 + self.chance.below(rest.len() as u64) as usize,
                _ => rest.len(),
            };
            let (piece, more) = rest.split_at(most);
            rest = more;
            let delay = self.delay();
            let way = &mut self.ways[way];
            way.latest = way.latest.max(Instant::now()) + delay;
            way.pieces.push_back((way.latest, piece.to_vec()));
        }
        let way = &mut self.ways[way];
        way.sent += len;
        way.len += len;
        if let Some(reader) = way.reader.take() {
            reader.wake();
        }
        Ok(Some(len))
    }

    fn delay(&mut self) -> Duration {
        let kind = match self.chance.below(200) {
            0 => 2,
            1..=20 => 1,
            _ => 0,
        };
        let ms = self.chance.below(DELAYS_MS[kind]);
        self.met.long_delays += u64::from(ms >= LONG_MS);
        Duration::from_millis(ms)
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Socket {
    wire: Arc<Mutex<Wire>>,
    /// The direction that it writes to.
    out: usize,
    arrival: Option<Pin<Box<Sleep>>>,
}

/// Both ends of a connection, that of the remote first.
pub(super) fn connect(mut chance: Chance, cut: Cut, center: Arc<Disk>) -> [Socket; 2] {
    let mut way = |cut_after| Way::new(*chance.choose(&CAPACITIES), cut_after);
    let ways = [way(cut.up), way(cut.down)];
    let wire = Wire { state: State::Up, center, chance, ways, met: Met::default() };
    let wire = Arc::new(Mutex::new(wire));
    [0, 1].map(|out| Socket { wire: wire.clone(), out, arrival: None })
}

impl Socket {
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing moves, and nobody hears of it.
    pub(super) fn vanish(&self) {
        self.wire().state = State::Silent;
    }

    pub(super) fn met(&self) -> Met {
        self.wire().met
    }

    /// Bytes that this end has sent.
    pub(super) fn sent(&self) -> usize {
        self.wire().ways[self.out].sent
    }

    /// Sends these bytes however many are on their way.
    pub(super) fn send_now(&mut self, bytes: &[u8]) -> Result<()> {
        let mut wire = self.wire();
        wire.ways[self.out].capacity += bytes.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            match wire.send(self.out, rest)? {
                Some(len) => rest = &rest[len..],
                None => return Err(ErrorKind::WouldBlock.into()),
            }
        }
        Ok(())
    }

    /// Ready when there is something to read, or an end.
    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let ready = {
            let mut wire = self.wire();
            let state = wire.state;
            let way = &mut wire.ways[1 - self.out];
            way.reader = Some(context.waker().clone());
            match (state, way.pieces.front()) {
                (State::Reset, _) => return Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
                (State::Silent, _) => return Poll::Pending,
                (State::Up, Some((ready, _))) => *ready,
                (State::Up, None) if way.ended => return Poll::Ready(Ok(())),
                (State::Up, None) => return Poll::Pending,
            }
        };
        if ready <= Instant::now() {
            return Poll::Ready(Ok(()));
        }
        let mut arrival = Box::pin(tokio::time::sleep_until(ready));
        let poll = arrival.as_mut().poll(context);
        self.arrival = Some(arrival);
        poll.map(Ok)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        std::task::ready!(self.poll_arrival(context))?;
        self.arrival = None;
        let mut wire = self.wire();
        let way = &mut wire.ways[1 - self.out];
        if let Some((_, piece)) = way.pieces.front_mut() {
            let len = piece.len().min(buffer.remaining());
            buffer.put_slice(&piece[..len]);
            piece.drain(..len);
            if piece.is_empty() {
                way.pieces.pop_front();
            }
            way.len -= len;
            if let Some(writer) = way.writer.take() {
                writer.wake();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let mut wire = self.wire();
        match wire.send(self.out, bytes) {
            Ok(Some(len)) => Poll::Ready(Ok(len)),
            Err(error) => Poll::Ready(Err(error)),
            Ok(None) => {
                wire.ways[self.out].writer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        let mut wire = self.wire();
        wire.ways[self.out].ended = true;
        wire.ways[self.out].wake();
        Poll::Ready(Ok(()))
    }
}

impl Stream for Socket {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_arrival(context)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        let sent = self.wire().send(self.out, bytes)?;
        sent.ok_or_else(|| Error::from(ErrorKind::WouldBlock))
    }

    fn unacknowledged(&self) -> Option<u64> {
        let (wire, now) = (self.wire(), Instant::now());
        let on_the_way = wire.ways[self.out].pieces.iter().filter(|(arrives, _)| *arrives > now);
        Some(on_the_way.map(|(_, piece)| piece.len() as u64).sum())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut wire = self.wire();
        if wire.state == State::Up {
            wire.ways[self.out].ended = true;
            wire.ways[1 - self.out].unread = true;
        }
        wire.wake();
    }
}
