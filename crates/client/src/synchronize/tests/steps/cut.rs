//! However the incoming bytes are cut, the result is the same.

use super::{Conduct, Driven, ManualClock, center, drive, request, sync};
use crate::testing::Site;
use crate::testing::center::{Center, published};
use harness::Fault;
use model::{Code, Random};
use protocol::{Credential, FRAME_BYTES_MAX, FrameDecoder, MAGIC, Message, Mode};
use std::sync::Arc;

/// A remote and its center, in a state from which a synchronization does much.
struct Story {
    name: &'static str,
    mode: Mode,
    prepare: fn() -> (Site, Center),
}

const STORIES: [Story; 8] = [
    Story { name: "first", mode: Mode::Full, prepare: || (seeded(), center()) },
    Story { name: "small", mode: Mode::Full, prepare: changed },
    Story { name: "upload only", mode: Mode::UploadOnly, prepare: changed },
    Story { name: "download only", mode: Mode::DownloadOnly, prepare: changed },
    Story { name: "ping", mode: Mode::Ping, prepare: changed },
    Story { name: "large", mode: Mode::Full, prepare: || with(changed(), many_rows) },
    Story { name: "other tables", mode: Mode::Full, prepare: || with(changed(), wider) },
    Story { name: "unknown outcome", mode: Mode::Full, prepare: || with(changed(), in_doubt) },
];

/// Two of them do exactly the same.
fn seeded() -> Site {
    let mut site = Site::empty();
    site.remote.random = Random::from_seed([7; 32]);
    site.remote.clock = Arc::new(ManualClock::default());
    site
}

fn changed() -> (Site, Center) {
    let (mut site, center) = (seeded(), center());
    sync(&mut site, &center).unwrap();
    site.write("INSERT INTO t VALUES (2, 'two'), (3, 'three'); UPDATE t SET v = 'ONE'");
    let ten = "ten".repeat(3000);
    center.write(&format!("INSERT INTO t VALUES (9, 'nine'), (10, '{ten}')"));
    (site, center)
}

fn with((mut site, center): (Site, Center), change: fn(&mut Site, &Center)) -> (Site, Center) {
    change(&mut site, &center);
    (site, center)
}

/// More than goes with Hello, and more than one frame.
fn many_rows(site: &mut Site, _: &Center) {
    site.write(
        "WITH RECURSIVE n(i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
         INSERT INTO t SELECT i, hex(zeroblob(64)) FROM n",
    );
}

fn wider(_: &mut Site, center: &Center) {
    center.deploy("ALTER TABLE t ADD COLUMN w INT", &published("t"));
}

fn in_doubt(site: &mut Site, center: &Center) {
    center.proxy.strike(Fault::AfterCommit);
    sync(site, center).unwrap_err();
    site.write("INSERT INTO t VALUES (4, 'four')");
}

/// A token says when it was issued.
fn without_token(sent: &mut Vec<u8>) {
    let Some(frames) = sent.strip_prefix(&MAGIC) else { return };
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    decoder.push(frames);
    let frame = decoder.next_frame().unwrap().unwrap();
    let len = MAGIC.len() + frame.wire_bytes();
    let Some(Message::Hello(mut hello)) = Message::decode(frame).unwrap() else {
        panic!("no Hello")
    };
    hello.credential = Credential::Token("a token".into());
    sent.splice(..len, Message::Hello(hello).to_frame().unwrap());
}

/// Nothing but the conduct of the host differs between two runs of a story.
fn run(story: &Story, fault: Option<Fault>, conduct: Conduct) -> (Driven, Vec<String>) {
    let (mut site, center) = (story.prepare)();
    if let Some(fault) = fault {
        center.proxy.strike(fault);
    }
    let mut driven = drive(&mut site.remote, &center, request(story.mode), conduct);
    let mut state = site.rows("SELECT * FROM t ORDER BY id");
    state.extend(site.rows("SELECT name, value FROM syncline_state ORDER BY name"));
    state.extend(center.rows("SELECT * FROM t ORDER BY id"));
    driven.sent.iter_mut().for_each(without_token);
    if let Some(Ok(report)) = &mut driven.result {
        report.token = None;
    }
    (driven, state)
}

fn assert_same(story: &Story, fault: Option<Fault>, conduct: Conduct) {
    let (whole, whole_state) = run(story, fault, Conduct::default());
    let (cut, cut_state) = run(story, fault, conduct);
    let place = format!("{}, {fault:?}, {conduct:?}", story.name);
    assert_eq!(cut.shown, whole.shown, "{place}");
    assert!(cut.sent == whole.sent, "{place}");
    assert!(cut_state == whole_state, "{place}");
    match (whole.result.unwrap(), cut.result.unwrap()) {
        (Ok(whole), Ok(cut)) => assert_eq!(cut, whole, "{place}"),
        (Err(whole), Err(cut)) => {
            assert_eq!((cut.code(), cut.message()), (whole.code(), whole.message()), "{place}");
        }
        (whole, cut) => panic!("{place}: {whole:?}, then {cut:?}"),
    }
}

// S1, S11: also byte by byte, and with a look at the clock between any two events.
#[test]
fn any_cut_of_what_arrives_gives_the_same_result_as_whole_messages() {
    for story in &STORIES {
        for (bytes_max, ticks) in [(1, false), (1, true), (5, false), (1021, true), (1 << 20, true)]
        {
            let conduct = Conduct { bytes_max, ticks, ..Conduct::default() };
            assert_same(story, None, conduct);
        }
    }
}

// S1, S11
#[test]
fn any_cut_of_a_synchronization_that_fails_gives_the_same_failure() {
    let faults = [
        Fault::BeforeCommit,
        Fault::AfterCommit,
        Fault::AfterAcknowledgement,
        Fault::WithinDownload,
        Fault::Miscount,
        Fault::Refuse(Code::ServerFull),
    ];
    for story in STORIES.iter().filter(|story| ["small", "large"].contains(&story.name)) {
        for fault in faults {
            let conduct = Conduct { bytes_max: 1, ticks: true, ..Conduct::default() };
            assert_same(story, Some(fault), conduct);
        }
    }
}
