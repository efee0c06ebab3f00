//! A conversation of a remote with its server, which may end or stand still after any byte.

use super::arrived::Arrived;
use crate::history::Fault;
use client::transport::tcp::{self, Timeouts};
use client::{Conversation, Host, Next, Remote, Report, Step, Transport};
use model::{Clock, Code, Failure};
use std::time::Duration;

/// Longest wait for a server that lives, and for the time that it names.
const PATIENCE: Duration = Duration::from_secs(20);
const BUFFER_BYTES: usize = 4096;

/// A synchronization under way.
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    event: Arrived,
    line: Line,
}

/// How far a synchronization has come.
pub(super) enum Reached {
    /// Its end.
    End(Result<Box<Report>, Failure>),
    /// The bytes after which something was to happen.
    Fault(Box<Talk>),
}

/// The connection, and the bytes that may still pass.
struct Line {
    transport: Option<tcp::Tcp>,
    up: Option<usize>,
    down: Option<usize>,
    passed: usize,
}

impl Talk {
    pub(super) fn new(conversation: Conversation, fault: Fault) -> Talk {
        let (mut up, mut down) = (None, None);
        match fault {
            Fault::CutUp(bytes) => up = Some(bytes),
            Fault::CutDown(bytes) => down = Some(bytes),
            Fault::None | Fault::Kill(_) | Fault::Vanish(_) | Fault::Stall(_) => {}
        }
        let line = Line { transport: None, up, down, passed: 0 };
        Talk { conversation, event: Arrived::Tick, line }
    }

    /// The connection that a dead remote leaves.
    pub(super) fn into_connection(self) -> Option<tcp::Tcp> {
        self.line.transport
    }

    /// Goes on until the end, or until so many bytes have passed.
    pub(super) fn go(
        mut self,
        remote: &mut Remote,
        clock: &dyn Clock,
        address: &str,
        stop: Option<usize>,
    ) -> Reached {
        loop {
            if stop.is_some_and(|stop| self.line.passed >= stop) {
                return Reached::Fault(Box::new(self));
            }
            let mut bytes = Vec::new();
            let event = self.event.take(&mut bytes);
            let next = self.conversation.step(remote, event, &mut self.line);
            self.event = match next {
                Err(failure) => return Reached::End(Err(failure)),
                Ok(Next::Done(report)) => return Reached::End(Ok(report)),
                Ok(Next::Connect { at_ms }) => {
                    let wait_ms = at_ms.saturating_sub(clock.monotonic_ms());
                    std::thread::sleep(Duration::from_millis(wait_ms).min(PATIENCE));
                    self.line.connect(address)
                }
                Ok(Next::Send(bytes)) => match self.line.send(&bytes) {
                    Ok(()) => Arrived::Sent,
                    Err(failure) => Arrived::Unsent(failure),
                },
                Ok(Next::Wait { .. }) => self.line.receive(),
            };
        }
    }
}

impl Line {
    fn connect(&mut self, address: &str) -> Arrived {
        self.transport = None;
        let timeouts = Timeouts { connect: PATIENCE, receive: PATIENCE, send: PATIENCE };
        match tcp::connect(address, timeouts) {
            Ok(connection) => {
                self.transport = Some(connection);
                Arrived::Connected
            }
            Err(failure) => Arrived::Lost(failure),
        }
    }

    fn end(&mut self) -> Failure {
        self.transport = None;
        Failure::new(Code::ConnectionLost, "the network has ended the connection")
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else { return Err(self.end()) };
        let most = self.up.map_or(bytes.len(), |left| bytes.len().min(left));
        transport.send(&bytes[..most])?;
        self.passed += most;
        self.up = self.up.map(|left| left - most);
        if most < bytes.len() { Err(self.end()) } else { Ok(()) }
    }

    fn receive(&mut self) -> Arrived {
        let mut buffer = vec![0; self.down.unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES)];
        if buffer.is_empty() {
            return Arrived::Lost(self.end());
        }
        let Some(transport) = &mut self.transport else { return Arrived::Lost(self.end()) };
        match transport.receive(&mut buffer) {
            Ok(0) => Arrived::Closed,
            Ok(len) => {
                buffer.truncate(len);
                self.passed += len;
                self.down = self.down.map(|left| left - len);
                Arrived::Received(buffer)
            }
            Err(failure) => Arrived::Lost(failure),
        }
    }
}

impl Host for Line {
    fn show(&mut self, _: Step) {}

    fn send_now(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        self.send(&bytes)
    }
}
