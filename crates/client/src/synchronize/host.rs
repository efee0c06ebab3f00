//! What a conversation asks of its host, and hears from it.

use super::{Report, Step};
use model::Failure;

/// What has happened since the last step.
#[derive(Debug)]
pub enum Event<'a> {
    /// Nothing, or the time has come that the last step named.
    Tick,
    /// There is a connection, as the last step wanted.
    Connected,
    /// The same over a transport that has one answer to all that is sent, as HTTP: bytes are sent
    /// until the first [`Next::Wait`], and none after it.
    ConnectedHalfDuplex,
    /// All bytes that the steps have handed out are on their way, and there is room for more.
    Sent,
    /// These bytes have arrived; they may be cut anywhere.
    Received(&'a [u8]),
    /// Sending has failed. A server that refuses an upload says why, so the host goes on receiving.
    Unsent(Failure),
    /// The server has closed the connection: nothing more will arrive.
    Closed,
    /// Connecting or receiving has failed.
    Lost(Failure),
}

/// What the host does next.
#[derive(Debug)]
pub enum Next {
    /// Ends the connection, if there is one, and makes another one at this time of the clock or
    /// later. Then the event is `Connected`, `ConnectedHalfDuplex`, or `Lost` with the reason.
    Connect {
        /// In milliseconds, as [`model::Clock::monotonic_ms`].
        at_ms: u64,
    },
    /// Sends these bytes, behind those of earlier steps. Then the event is `Sent`, or `Unsent`.
    Send(Vec<u8>),
    /// Waits for an event. If there is none until this time of the clock, the event is `Tick`.
    Wait {
        /// In milliseconds, as [`model::Clock::monotonic_ms`].
        until_ms: u64,
    },
    /// Ends the connection: the synchronization has succeeded.
    Done(Box<Report>),
}

/// What a host does while a step takes its time.
pub trait Host {
    /// Learns where the synchronization is.
    fn show(&mut self, step: Step);

    /// Sends these few bytes at once, so that the server goes on waiting. Only asked for while
    /// everything from earlier steps is on its way.
    fn send_now(&mut self, bytes: Vec<u8>) -> Result<(), Failure>;
}
