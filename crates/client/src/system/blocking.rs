//! The host of a conversation over connections that block: the only place that waits.

use crate::Remote;
use crate::synchronize::{Conversation, Event, Host, Next, Report, Request, Step};
use crate::transport::Transport;
use crate::verify::{Answers, Inquiry};
use model::{Clock, Code, Failure};
use std::time::Duration;

/// Takes the steps of a conversation over connections that block, which know for how long.
pub(crate) fn synchronize(
    remote: &mut Remote,
    request: &Request,
    connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
    observer: &mut dyn FnMut(Step),
) -> Result<Report, Failure> {
    let claim = remote.claim()?;
    let mut conversation = Conversation::begin(remote, claim, request.clone())?;
    let mut line = Line { transport: Box::new(NoConnection), observer };
    let (mut buffer, mut event) = (Buffer::new(), Event::Tick);
    loop {
        event = match conversation.step(remote, event, &mut line)? {
            Next::Connect { at_ms } => {
                line.transport = Box::new(NoConnection);
                wait_until(&*remote.clock, at_ms);
                match connect() {
                    Ok(transport) => {
                        line.transport = transport;
                        match line.transport.is_half_duplex() {
                            true => Event::ConnectedHalfDuplex,
                            false => Event::Connected,
                        }
                    }
                    Err(failure) => Event::Lost(failure),
                }
            }
            Next::Send(bytes) => match line.transport.send(&bytes) {
                Ok(()) => Event::Sent,
                Err(failure) => Event::Unsent(failure),
            },
            Next::Wait { .. } => buffer.receive(&mut *line.transport),
            Next::Done(report) => return Ok(*report),
        };
    }
}

/// Asks a server over a connection of its own, and waits for the whole answer.
pub(crate) fn ask(
    remote: &Remote,
    inquiry: Inquiry,
    connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
) -> Result<Answers, Failure> {
    let mut transport = connect()?;
    let (bytes, mut hearing) = inquiry.begin(transport.is_half_duplex(), &remote.spills)?;
    // A server that refuses says why before it closes; that is worth more than how sending failed.
    let unsent = transport.send(&bytes).err();
    let mut buffer = Buffer::new();
    loop {
        let is_complete = match buffer.receive(&mut *transport) {
            Event::Received(bytes) => hearing.hear(bytes)?,
            Event::Lost(failure) => return Err(unsent.unwrap_or(failure)),
            _ => return Err(unsent.unwrap_or_else(|| hearing.closed())),
        };
        if is_complete {
            return Ok(hearing.into_answers());
        }
    }
}

/// Bytes taken from the transport at once: enough for the answers to an upload, and …
const BUFFER_BYTES: usize = 4 * 1024;
/// … from when on more came at once. A large buffer that most synchronizations do not fill costs
/// them more than the calls it saves.
const LARGE_BUFFER_BYTES: usize = 64 * 1024;

/// Where bytes arrive.
struct Buffer {
    bytes: Vec<u8>,
    is_too_small: bool,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer { bytes: vec![0; BUFFER_BYTES], is_too_small: false }
    }

    /// Waits for as long as the transport does.
    fn receive(&mut self, transport: &mut dyn Transport) -> Event<'_> {
        if self.is_too_small && self.bytes.len() < LARGE_BUFFER_BYTES {
            self.bytes = vec![0; LARGE_BUFFER_BYTES];
        }
        match transport.receive(&mut self.bytes) {
            Ok(0) => Event::Closed,
            Ok(len) => {
                self.is_too_small = len == self.bytes.len();
                Event::Received(&self.bytes[..len])
            }
            Err(failure) => Event::Lost(failure),
        }
    }
}

/// What an attempt is sent and received over.
struct Line<'a> {
    transport: Box<dyn Transport>,
    observer: &'a mut dyn FnMut(Step),
}

impl Host for Line<'_> {
    fn show(&mut self, step: Step) {
        (self.observer)(step);
    }

    fn send_now(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        self.transport.send(&bytes)
    }
}

/// There is no connection yet, or no longer.
struct NoConnection;

impl Transport for NoConnection {
    fn send(&mut self, _: &[u8]) -> Result<(), Failure> {
        Err(Failure::new(Code::ConnectionLost, "there is no connection"))
    }

    fn receive(&mut self, _: &mut [u8]) -> Result<usize, Failure> {
        Err(Failure::new(Code::ConnectionLost, "there is no connection"))
    }
}

fn wait_until(clock: &dyn Clock, at_ms: u64) {
    let left_ms = at_ms.saturating_sub(clock.monotonic_ms());
    if left_ms > 0 {
        std::thread::sleep(Duration::from_millis(left_ms));
    }
}
