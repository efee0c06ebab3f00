//! An event of the network that waits to be shown to a conversation.

use client::Event;
use model::Failure;

#[derive(Debug)]
pub(crate) enum Arrived {
    Tick,
    Connected,
    Sent,
    Received(Vec<u8>),
    Unsent(Failure),
    Closed,
    Lost(Failure),
}

impl Arrived {
    /// The event, and nothing in its place. What was received lies in `bytes`.
    pub(crate) fn take<'b>(&mut self, bytes: &'b mut Vec<u8>) -> Event<'b> {
        match std::mem::replace(self, Arrived::Tick) {
            Arrived::Tick => Event::Tick,
            Arrived::Connected => Event::Connected,
            Arrived::Sent => Event::Sent,
            Arrived::Received(received) => {
                *bytes = received;
                Event::Received(bytes)
            }
            Arrived::Unsent(failure) => Event::Unsent(failure),
            Arrived::Closed => Event::Closed,
            Arrived::Lost(failure) => Event::Lost(failure),
        }
    }
}
