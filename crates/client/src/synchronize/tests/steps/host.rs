//! A host of conversations that does what a test wants, and records everything.

use crate::Remote;
use crate::synchronize::{Conversation, Event, Host, Next, Report, Request, Step};
use crate::testing::center::Center;
use crate::transport::Transport;
use model::{Clock, Code, Failure};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a host does differently from others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conduct {
    /// It passes at most so many bytes at once.
    pub(super) bytes_max: usize,
    /// It looks at the clock before every event.
    pub(super) ticks: bool,
    /// It ends after so many steps …
    pub(super) steps_max: usize,
    /// … and what the last step wanted to send has left nevertheless.
    pub(super) last_is_sent: bool,
    /// It does not just end: its connection does, and the conversation learns it.
    pub(super) loses: bool,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct {
            bytes_max: usize::MAX,
            ticks: false,
            steps_max: usize::MAX,
            last_is_sent: false,
            loses: false,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Driven {
    /// None where it was ended.
    pub(super) result: Option<Result<Report, Failure>>,
    /// Everything that was shown.
    pub(super) shown: Vec<String>,
    /// Everything that was sent.
    pub(super) sent: Vec<Vec<u8>>,
    pub(super) steps: usize,
}

impl Host for Driven {
    fn show(&mut self, step: Step) {
        self.shown.push(format!("{step:?}"));
    }

    fn send_now(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        self.sent.push(bytes);
        Ok(())
    }
}

/// Drives a whole synchronization with the center.
pub(super) fn drive(
    remote: &mut Remote,
    center: &Center,
    request: Request,
    conduct: Conduct,
) -> Driven {
    let claim = remote.claim().unwrap();
    let mut driven = Driven { result: None, shown: Vec::new(), sent: Vec::new(), steps: 0 };
    let mut conversation = Conversation::begin(remote, claim, request).unwrap();
    let (mut transport, mut pieces) = (None, Pieces::default());
    let mut event = Event::Tick;
    loop {
        let mut next = conversation.step(remote, event, &mut driven);
        driven.steps += 1;
        let ends = driven.steps >= conduct.steps_max;
        if conduct.ticks && !ends {
            next = next.map(|next| same_after_tick(next, &mut conversation, remote, &mut driven));
        }
        let next = match next {
            Ok(Next::Done(report)) => {
                driven.result = Some(Ok(*report));
                return driven;
            }
            Err(failure) => {
                driven.result = Some(Err(failure));
                return driven;
            }
            Ok(next) => next,
        };
        if ends && !conduct.last_is_sent {
            return end(driven, &mut conversation, remote, conduct);
        }
        event = match next {
            Next::Send(bytes) => {
                driven.sent.push(bytes.clone());
                let transport: &mut Box<dyn Transport> = transport.as_mut().unwrap();
                match transport.send(&bytes) {
                    Ok(()) => Event::Sent,
                    Err(failure) => Event::Unsent(failure),
                }
            }
            Next::Connect { .. } => {
                transport = Some(center.connect().unwrap());
                pieces = Pieces::default();
                Event::Connected
            }
            _ => pieces.next(&mut **transport.as_mut().unwrap(), conduct.bytes_max),
        };
        if ends {
            return end(driven, &mut conversation, remote, conduct);
        }
    }
}

/// A look at the clock changes nothing. What was handed out is not handed out again.
fn same_after_tick(
    next: Next,
    conversation: &mut Conversation,
    remote: &mut Remote,
    driven: &mut Driven,
) -> Next {
    if let Next::Done(_) = next {
        return next;
    }
    let ticked = conversation.step(remote, Event::Tick, driven).unwrap();
    match (&next, ticked) {
        (Next::Connect { at_ms }, Next::Connect { at_ms: again }) => assert_eq!(*at_ms, again),
        (Next::Wait { until_ms }, Next::Wait { until_ms: again }) => assert_eq!(*until_ms, again),
        (Next::Send(_), Next::Wait { .. }) => {}
        (first, ticked) => panic!("{first:?}, then {ticked:?}"),
    }
    next
}

fn end(
    mut driven: Driven,
    conversation: &mut Conversation,
    remote: &mut Remote,
    conduct: Conduct,
) -> Driven {
    if conduct.loses {
        for event in [Event::Unsent, Event::Lost] {
            let failure = Failure::new(Code::ConnectionLost, "cut by the test");
            if let Err(failure) = conversation.step(remote, event(failure), &mut driven) {
                driven.result = Some(Err(failure));
                break;
            }
        }
    }
    driven
}

/// A host that only takes what it is given at once.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) sent: Vec<Vec<u8>>,
    /// Nothing can be sent.
    pub(super) fails: bool,
}

impl Host for Recorder {
    fn show(&mut self, _: Step) {}

    fn send_now(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        if self.fails {
            return Err(Failure::new(Code::ConnectionLost, "broken pipe"));
        }
        self.sent.push(bytes);
        Ok(())
    }
}

/// What was received and not passed on yet.
#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    passed: usize,
}

impl Pieces {
    fn next(&mut self, transport: &mut dyn Transport, bytes_max: usize) -> Event<'_> {
        if self.passed == self.bytes.len() {
            self.bytes.resize(64 << 10, 0);
            match transport.receive(&mut self.bytes) {
                Ok(0) => return Event::Closed,
                Ok(len) => self.bytes.truncate(len),
                Err(failure) => return Event::Lost(failure),
            }
            self.passed = 0;
        }
        let from = self.passed;
        self.passed = from + bytes_max.min(self.bytes.len() - from);
        Event::Received(&self.bytes[from..self.passed])
    }
}

/// A clock that a test sets, and that runs by so much with every look.
#[derive(Debug, Default)]
pub(super) struct ManualClock {
    pub(super) now_ms: AtomicU64,
    pub(super) look_ms: u64,
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        self.now_ms.fetch_add(self.look_ms, Ordering::Relaxed)
    }
}
