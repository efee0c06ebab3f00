//! A synchronization of a remote, driven from a task that may end or stand still anywhere.

use super::met::Met;
use super::network::Network;
use super::time::Virtual;
use super::trace::Trace;
use super::wire::{Cut, Socket};
use crate::vfs::Disk;
use crate::world::arrived::Arrived;
use client::{Conversation, Host, Next, Remote, Report, Step};
use harness::Chance;
use model::{Clock, Code, Failure};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest time in which nothing of what is to be sent leaves.
const SENDING_MAX: Duration = Duration::from_secs(60);
/// Most bytes that are read at once.
const BUFFER_BYTES: u64 = 5000;

/// A synchronization under way.
pub(super) struct Talk {
    conversation: Conversation,
    event: Arrived,
    line: Line,
}

/// How far a synchronization has come.
pub(super) enum Reached {
    /// Its end.
    End(Met, Box<Result<Report, Failure>>),
    /// The bytes after which something was to happen, or the death of its machine.
    Fault(Box<Talk>),
}

/// The connection, and what happens to it.
pub(super) struct Line {
    pub(super) remote: usize,
    pub(super) network: Arc<Network>,
    pub(super) clock: Arc<Virtual>,
    pub(super) disk: Arc<Disk>,
    pub(super) trace: Trace,
    pub(super) chance: Chance,
    pub(super) cut: Cut,
    socket: Option<Socket>,
    unsent: Vec<u8>,
    received: usize,
    /// Of the connections before.
    passed: usize,
    met: Met,
}

impl Line {
    pub(super) fn new(
        remote: usize,
        network: Arc<Network>,
        clock: Arc<Virtual>,
        disk: Arc<Disk>,
        trace: Trace,
        chance: Chance,
        cut: Cut,
    ) -> Line {
        Line {
            remote,
            network,
            clock,
            disk,
            trace,
            chance,
            cut,
            socket: None,
            unsent: Vec::new(),
            received: 0,
            passed: 0,
            met: Met::default(),
        }
    }

    /// Bytes that have passed in both directions.
    fn passed(&self) -> usize {
        self.passed + self.received + self.socket.as_ref().map_or(0, Socket::sent)
    }

    fn end(&mut self) {
        self.passed = self.passed();
        self.received = 0;
        if let Some(socket) = self.socket.take() {
            self.met.add(socket.met());
        }
        self.unsent.clear();
    }

    fn last(mut self, result: Result<Report, Failure>) -> Reached {
        let at_us = self.clock.monotonic_us();
        let (up, down) = (self.socket.as_ref().map_or(0, Socket::sent), self.received);
        self.trace
            .note(format!("{at_us} remote {}: {up} up, {down} down, {result:?}", self.remote));
        self.end();
        Reached::End(self.met, Box::new(result))
    }

    async fn connect(&mut self, at_ms: u64) -> Arrived {
        self.end();
        let wait_ms = at_ms.saturating_sub(self.clock.monotonic_ms()) + self.chance.below(5);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        let chance = self.chance.split();
        match self.network.connect(self.remote, chance, std::mem::take(&mut self.cut)) {
            Some(socket) => {
                self.socket = Some(socket);
                Arrived::Connected
            }
            None => Arrived::Lost(lost(ErrorKind::ConnectionRefused.into())),
        }
    }

    /// What happens next: something was received, or everything has left.
    async fn wait(&mut self, longest: Duration) -> Option<Arrived> {
        let waiting = poll_fn(|context| self.poll(context));
        tokio::time::timeout(longest, waiting).await.ok()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Arrived> {
        let reads_first = self.chance.below(2) == 0;
        if reads_first && let Poll::Ready(arrived) = self.poll_read(context) {
            return Poll::Ready(arrived);
        }
        if let Poll::Ready(arrived) = self.poll_write(context) {
            return Poll::Ready(arrived);
        }
        if reads_first { Poll::Pending } else { self.poll_read(context) }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Arrived> {
        let Some(socket) = &mut self.socket else {
            return Poll::Ready(Arrived::Lost(lost(ErrorKind::NotConnected.into())));
        };
        let mut bytes = vec![0; 1 + self.chance.below(BUFFER_BYTES) as usize];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = std::task::ready!(Pin::new(socket).poll_read(context, &mut buffer));
        let len = buffer.filled().len();
        Poll::Ready(match read {
            Err(error) => Arrived::Lost(lost(error)),
            Ok(()) if len == 0 => Arrived::Closed,
            Ok(()) => {
                bytes.truncate(len);
                self.received += len;
                Arrived::Received(bytes)
            }
        })
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Arrived> {
        let Some(socket) = &mut self.socket else { return Poll::Pending };
        if self.unsent.is_empty() {
            return Poll::Pending;
        }
        while !self.unsent.is_empty() {
            match std::task::ready!(Pin::new(&mut *socket).poll_write(context, &self.unsent)) {
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(error) => {
                    self.unsent.clear();
                    return Poll::Ready(Arrived::Unsent(lost(error)));
                }
            }
        }
        Poll::Ready(Arrived::Sent)
    }
}

impl Host for Line {
    fn show(&mut self, step: Step) {
        let at_us = self.clock.monotonic_us();
        self.trace.note(format!("{at_us} remote {}: {step:?}", self.remote));
    }

    fn send_now(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        match &mut self.socket {
            Some(socket) => socket.send_now(&bytes).map_err(lost),
            None => Err(lost(ErrorKind::NotConnected.into())),
        }
    }
}

impl Talk {
    pub(super) fn new(conversation: Conversation, line: Line) -> Talk {
        Talk { conversation, event: Arrived::Tick, line }
    }

    /// The machine is gone, and the server does not hear of it.
    pub(super) fn vanish(self) -> Option<Socket> {
        let socket = self.line.socket;
        if let Some(socket) = &socket {
            socket.vanish();
        }
        socket
    }

    /// Goes on until the end, or until so many bytes have passed.
    pub(super) async fn go(mut self, remote: &mut Remote, stop: Option<usize>) -> Reached {
        loop {
            if stop.is_some_and(|stop| self.line.passed() >= stop) || self.line.disk.is_dead() {
                return Reached::Fault(Box::new(self));
            }
            let mut bytes = Vec::new();
            let event = self.event.take(&mut bytes);
            let next = self.conversation.step(remote, event, &mut self.line);
            self.event = match next {
                Err(failure) => return self.line.last(Err(failure)),
                Ok(Next::Done(report)) => return self.line.last(Ok(*report)),
                Ok(Next::Connect { at_ms }) => self.line.connect(at_ms).await,
                Ok(Next::Send(bytes)) => {
                    self.line.unsent.extend_from_slice(&bytes);
                    let late = || Arrived::Unsent(lost(ErrorKind::TimedOut.into()));
                    self.line.wait(SENDING_MAX).await.unwrap_or_else(late)
                }
                Ok(Next::Wait { until_ms }) => {
                    let wait_ms = until_ms.saturating_sub(self.line.clock.monotonic_ms());
                    let waited = self.line.wait(Duration::from_millis(wait_ms)).await;
                    waited.unwrap_or(Arrived::Tick)
                }
            };
        }
    }
}

fn lost(error: std::io::Error) -> Failure {
    Failure::new(Code::ConnectionLost, "the connection was lost").source(error)
}
