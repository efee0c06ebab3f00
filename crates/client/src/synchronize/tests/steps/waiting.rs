//! How long a conversation waits, and what it does while bytes do not leave.

use super::host::Recorder;
use super::{ManualClock, assert_equal, center, joined, request, sync};
use crate::synchronize::{Conversation, Event, Host, Next};
use crate::testing::Site;
use crate::testing::center::Center;
use crate::transport::Transport;
use harness::Side;
use model::{Code, Counter, Failure};
use protocol::{Acknowledgement, Failed, Message, Mode, UploadCommitted};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// As many bytes as are handed out together, with the header of a frame.
const SEND_BYTES_MAX: usize = (256 << 10) + 1024;

/// A conversation of a site whose clock the test has.
struct Talk {
    site: Site,
    center: Center,
    clock: Arc<ManualClock>,
    conversation: Conversation,
    transport: Box<dyn Transport>,
}

impl Talk {
    /// After Hello has left.
    fn greeted(sql: &str, look_ms: u64) -> Talk {
        Talk::connected(sql, look_ms, Event::Connected)
    }

    /// The same over such a transport.
    fn connected(sql: &str, look_ms: u64, how: Event<'_>) -> Talk {
        let (mut talk, hello) = Talk::begun(sql, look_ms, how);
        talk.transport.send(&hello).unwrap();
        talk
    }

    /// With a Hello that has not left.
    fn begun(sql: &str, look_ms: u64, how: Event<'_>) -> (Talk, Vec<u8>) {
        let center = center();
        // Every answer is one message.
        center.proxy.beat(false);
        let mut site = joined(&center);
        site.write(sql);
        let clock = Arc::new(ManualClock { look_ms, ..ManualClock::default() });
        site.remote.clock = clock.clone();
        let claim = site.remote.claim().unwrap();
        let conversation = Conversation::begin(&site.remote, claim, request(Mode::Full)).unwrap();
        let transport = center.connect().unwrap();
        let mut talk = Talk { site, center, clock, conversation, transport };
        assert!(matches!(talk.step(Event::Tick), Ok(Next::Connect { .. })));
        let Ok(Next::Send(hello)) = talk.step(how) else { panic!("no Hello") };
        (talk, hello)
    }

    /// A center that wants to know what was applied. It may answer as soon as Hello has left.
    fn awaited(how: Event<'_>) -> Talk {
        let (mut talk, hello) = Talk::begun(SMALL, 0, how);
        talk.center.proxy.forge(wants_to_know);
        talk.transport.send(&hello).unwrap();
        talk
    }

    /// With the first frames of a large upload, which have not left.
    fn uploading() -> (Talk, Vec<u8>) {
        let mut talk = Talk::greeted(LARGE, 0);
        assert!(matches!(talk.step(Event::Sent), Ok(Next::Wait { .. })));
        let Ok(Next::Send(first)) = talk.answer() else { panic!("no upload") };
        (talk, first)
    }

    fn step(&mut self, event: Event<'_>) -> Result<Next, Failure> {
        self.conversation.step(&mut self.site.remote, event, &mut Recorder::default())
    }

    fn say(&mut self, message: &Message) -> Result<Next, Failure> {
        let bytes = message.to_frame().unwrap();
        self.step(Event::Received(&bytes))
    }

    /// What the center says.
    fn answer(&mut self) -> Result<Next, Failure> {
        self.answer_to(&mut Recorder::default())
    }

    fn answer_to(&mut self, host: &mut dyn Host) -> Result<Next, Failure> {
        let mut buffer = vec![0; 64 << 10];
        let len = self.transport.receive(&mut buffer).unwrap();
        let event = Event::Received(&buffer[..len]);
        self.conversation.step(&mut self.site.remote, event, host)
    }

    /// Until there is something to do for the host but to wait.
    fn heard_to_the_end(&mut self) -> Result<Next, Failure> {
        loop {
            match self.answer() {
                Ok(Next::Wait { .. }) => {}
                next => return next,
            }
        }
    }

    fn advance(&self, ms: u64) {
        self.clock.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Everything arrives by the next synchronization.
    fn assert_goes_on(self) {
        let Talk { mut site, center, conversation, transport, .. } = self;
        drop((conversation, transport));
        sync(&mut site, &center).unwrap();
        assert_equal(&site, &center);
    }
}

/// Rows that do not fit with Hello, in several frames.
const LARGE: &str = "WITH RECURSIVE n(i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM n
    WHERE i < 9000) INSERT INTO t SELECT i, hex(zeroblob(64)) FROM n;";

/// Rows that are too many to be collected before Hello.
const VERY_LARGE: &str = "WITH RECURSIVE n(i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM n
    WHERE i < 30000) INSERT INTO t SELECT i, hex(zeroblob(64)) FROM n;";

const SMALL: &str = "INSERT INTO t VALUES (2, 'two')";

fn refusal() -> Message {
    Message::Failed(Failed::from(&Failure::new(Code::ServerFull, "full")))
}

fn broken() -> Failure {
    Failure::new(Code::ConnectionLost, "broken pipe")
}

// S9, S11
#[test]
fn a_silent_server_is_given_up_after_a_minute_and_heartbeats_count() {
    let mut talk = Talk::greeted(SMALL, 0);
    let Ok(Next::Wait { until_ms }) = talk.step(Event::Sent) else { panic!("it waits") };
    assert_eq!(until_ms, 60_000);
    talk.advance(59_999);
    assert!(matches!(talk.step(Event::Tick), Ok(Next::Wait { until_ms: 60_000 })));
    assert!(matches!(talk.say(&Message::Heartbeat), Ok(Next::Wait { until_ms: 119_999 })));
    talk.advance(60_000);
    assert_eq!(talk.step(Event::Tick).unwrap_err().code(), Code::PeerSilent);
    talk.assert_goes_on();
}

// S11: sending does not end, and neither does the wait for the reason.
#[test]
fn a_server_that_takes_no_bytes_is_given_up_after_it_could_say_why() {
    let (mut talk, _) = Talk::uploading();
    talk.advance(60_000);
    assert!(matches!(talk.step(Event::Tick), Ok(Next::Wait { until_ms: 120_000 })));
    talk.advance(60_000);
    assert_eq!(talk.step(Event::Tick).unwrap_err().code(), Code::PeerSilent);
    talk.assert_goes_on();
}

// S9, S11: signs of life do not help a server that takes no bytes, and does not say why.
#[test]
fn heartbeats_do_not_hold_up_a_conversation_that_cannot_send() {
    let (mut talk, _) = Talk::uploading();
    for until in [60_000, 120_000] {
        talk.advance(59_999);
        let heard = talk.say(&Message::Heartbeat);
        assert!(matches!(heard, Ok(Next::Wait { until_ms }) if until_ms == until));
        talk.advance(1);
        match (until, talk.step(Event::Tick)) {
            (60_000, next) => assert!(matches!(next, Ok(Next::Wait { until_ms: 120_000 }))),
            (_, next) => assert_eq!(next.unwrap_err().code(), Code::PeerSilent),
        }
    }
    talk.assert_goes_on();
}

// S9: no more is handed out, and what has left is no longer in memory.
#[test]
fn a_large_upload_is_handed_out_as_fast_as_it_leaves() {
    let (mut talk, first) = Talk::uploading();
    assert!(first.len() <= SEND_BYTES_MAX);
    for _ in 0..3 {
        assert!(matches!(talk.step(Event::Tick), Ok(Next::Wait { .. })));
        assert!(matches!(talk.say(&Message::Heartbeat), Ok(Next::Wait { .. })));
    }
    let (mut sent, mut held) = (vec![first], talk.site.remote.spills.memory_bytes());
    while let Ok(Next::Send(bytes)) = talk.step(Event::Sent) {
        assert!(bytes.len() <= SEND_BYTES_MAX, "{}", bytes.len());
        let now = talk.site.remote.spills.memory_bytes();
        assert!(now <= held);
        held = now;
        sent.push(bytes);
    }
    assert!(sent.len() > 3);
    assert!(held < SEND_BYTES_MAX as u64, "{held} bytes are still held");
    for bytes in sent {
        talk.transport.send(&bytes).unwrap();
    }
    let mut next = talk.answer();
    while let Ok(Next::Wait { .. }) = next {
        next = talk.answer();
    }
    let Ok(Next::Done(report)) = next else { panic!("{next:?}") };
    assert_eq!(report.uploaded.inserts, 8901);
    talk.assert_goes_on();
}

// S11: a refusal is worth more than a broken pipe, and is heard as soon as it comes.
#[test]
fn why_a_server_refuses_an_upload_is_heard_before_and_after_sending_fails() {
    let (mut talk, _) = Talk::uploading();
    assert_eq!(talk.say(&refusal()).unwrap_err().code(), Code::ServerFull);
    talk.assert_goes_on();

    let (mut talk, _) = Talk::uploading();
    assert!(matches!(talk.step(Event::Unsent(broken())), Ok(Next::Wait { .. })));
    let bytes = refusal().to_frame().unwrap();
    for byte in &bytes[..bytes.len() - 1] {
        assert!(matches!(talk.step(Event::Received(&[*byte])), Ok(Next::Wait { .. })));
    }
    let last = &bytes[bytes.len() - 1..];
    assert_eq!(talk.step(Event::Received(last)).unwrap_err().code(), Code::ServerFull);
    talk.assert_goes_on();

    let reset = Failure::new(Code::PeerSilent, "reset");
    for end in [Event::Closed, Event::Lost(reset), Event::Received(&[0xff; 8])] {
        let (mut talk, _) = Talk::uploading();
        talk.step(Event::Unsent(broken())).unwrap();
        let failure = talk.step(end).unwrap_err();
        assert_eq!((failure.code(), failure.message()), (Code::ConnectionLost, "broken pipe"));
        talk.assert_goes_on();
    }
    for end in [Event::Closed, Event::Lost(broken())] {
        let (mut talk, _) = Talk::uploading();
        assert_eq!(talk.step(end).unwrap_err().code(), Code::ConnectionLost);
        talk.assert_goes_on();
    }
}

// S11: a heartbeat has come while the last bytes had not left.
#[test]
fn why_a_server_refuses_is_heard_also_after_signs_of_life() {
    let mut talk = Talk::greeted(SMALL, 0);
    assert!(matches!(talk.say(&Message::Heartbeat), Ok(Next::Wait { .. })));
    assert!(matches!(talk.step(Event::Unsent(broken())), Ok(Next::Wait { .. })));
    assert_eq!(talk.say(&refusal()).unwrap_err().code(), Code::ServerFull);
    talk.assert_goes_on();
}

// S11
#[test]
fn an_acknowledgement_of_what_has_not_been_sent_is_refused() {
    let (mut talk, _) = Talk::uploading();
    let early = Message::UploadCommitted(UploadCommitted::default());
    assert_eq!(talk.say(&early).unwrap_err().code(), Code::UnexpectedMessage);
    talk.assert_goes_on();
}

// The host may learn later that its bytes have left than that they were answered.
#[test]
fn an_answer_says_that_its_question_has_arrived() {
    let mut talk = Talk::greeted(SMALL, 0);
    let mut next = talk.answer();
    while let Ok(Next::Wait { .. }) = next {
        talk.step(Event::Sent).unwrap();
        next = talk.answer();
    }
    let Ok(Next::Done(report)) = next else { panic!("{next:?}") };
    assert_eq!(report.uploaded.inserts, 1);
    talk.assert_goes_on();
}

// S9: the clock runs by 15 s with every look, and collecting looks at it at every frame.
#[test]
fn a_server_hears_heartbeats_while_an_upload_is_collected() {
    let mut talk = Talk::greeted(VERY_LARGE, 15_000);
    let mut host = Recorder::default();
    let next = talk.answer_to(&mut host);
    assert!(matches!(next, Ok(Next::Send(_))), "{next:?}");
    let heartbeat = Message::Heartbeat.to_frame().unwrap();
    assert!(host.sent.len() > 5, "{} heartbeats", host.sent.len());
    assert!(host.sent.iter().all(|bytes| *bytes == heartbeat));
    talk.assert_goes_on();
}

// S1, S11: the connection breaks while the upload is collected. Nothing of it has left.
#[test]
fn a_heartbeat_that_cannot_be_sent_leaves_the_upload_pending_and_the_reason_is_heard() {
    for says_why in [false, true] {
        let mut talk = Talk::greeted(VERY_LARGE, 15_000);
        let mut host = Recorder { fails: true, ..Recorder::default() };
        let next = talk.answer_to(&mut host);
        assert!(matches!(next, Ok(Next::Wait { .. })), "{next:?}");
        let (failure, code) = match says_why {
            true => (talk.say(&refusal()), Code::ServerFull),
            false => (talk.step(Event::Closed), Code::ConnectionLost),
        };
        assert_eq!(failure.unwrap_err().code(), code);
        assert!(!talk.site.remote.status().unwrap().outcome_unknown);
        talk.assert_goes_on();
    }
}

// S1, S11: what is applied stays applied, whether or not the server hears of it.
#[test]
fn nothing_is_awaited_behind_a_download_that_is_acknowledged() {
    let reset = || Failure::new(Code::PeerSilent, "reset");
    let ends = [Event::Sent, Event::Unsent(broken()), Event::Closed, Event::Lost(reset())];
    for end in ends.into_iter().map(Some).chain([None]) {
        let mut talk = Talk::awaited(Event::Connected);
        let Ok(Next::Send(said)) = talk.heard_to_the_end() else { panic!("it says nothing") };
        let counter = talk.site.rows("SELECT value FROM syncline_state WHERE name = 'counter'");
        let acknowledgement = Acknowledgement { counter: Counter(counter[0].parse().unwrap()) };
        assert_eq!(said, Message::Acknowledgement(acknowledgement).to_frame().unwrap());
        // A host that has not sent it waits no longer than for anything else.
        talk.advance(59_999);
        assert!(matches!(talk.step(Event::Tick), Ok(Next::Wait { .. })));
        let last = match end {
            Some(event) => talk.step(event),
            None => {
                talk.advance(1);
                talk.step(Event::Tick)
            }
        };
        assert!(matches!(last, Ok(Next::Done(_))), "{last:?}");
        talk.center.proxy.forge(|_, _| {});
        talk.assert_goes_on();
    }
}

// What has one answer to all that is sent has no way back, even if a server believes so.
#[test]
fn nothing_is_said_behind_the_answer_of_a_transport_that_has_one() {
    let mut talk = Talk::awaited(Event::ConnectedHalfDuplex);
    let last = talk.heard_to_the_end();
    assert!(matches!(last, Ok(Next::Done(_))), "{last:?}");
    talk.center.proxy.forge(|_, _| {});
    talk.assert_goes_on();
}

fn wants_to_know(_: Side, message: &mut Message) {
    if let Message::DownloadEnd(end) = message {
        end.acknowledge = true;
    }
}
