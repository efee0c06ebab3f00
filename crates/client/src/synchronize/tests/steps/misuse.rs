//! What a conversation refuses to the program that drives it.

use super::host::Recorder;
use super::{center, joined, request, rows, sync};
use crate::synchronize::{Conversation, Event, Next};
use crate::testing::Site;
use crate::{Claim, Remote, Settings};
use model::{Code, Failure};
use protocol::Mode;

fn begin(site: &Site) -> Conversation {
    let claim = site.remote.claim().unwrap();
    Conversation::begin(&site.remote, claim, request(Mode::Full)).unwrap()
}

// S8
#[test]
fn a_conversation_keeps_others_out_until_it_is_dropped() {
    let center = center();
    let mut site = joined(&center);
    let conversation = begin(&site);
    assert_eq!(site.remote.claim().unwrap_err().code(), Code::RemoteInUse);
    assert_eq!(sync(&mut site, &center).unwrap_err().code(), Code::RemoteInUse);
    assert_eq!(site.remote.reset(true).unwrap_err().code(), Code::RemoteInUse);
    drop(conversation);
    sync(&mut site, &center).unwrap();
}

/// A program may move both to another thread between two steps.
#[test]
fn a_remote_and_its_conversation_can_change_threads() {
    fn check<T: Send>() {}
    check::<Remote>();
    check::<Conversation>();
}

// S8: what stands for the right of a host is dropped with the conversation.
#[test]
fn a_right_that_the_host_holds_ends_with_the_conversation() {
    let center = center();
    let site = joined(&center);
    let guard = std::sync::Arc::new(());
    let claim = Claim::held(&site.remote, guard.clone());
    let conversation = Conversation::begin(&site.remote, claim, request(Mode::Full)).unwrap();
    assert_eq!(std::sync::Arc::strong_count(&guard), 2);
    drop(conversation);
    assert_eq!(std::sync::Arc::strong_count(&guard), 1);
}

// S1, S11
#[test]
fn another_remote_and_a_step_after_the_end_are_refused() {
    let center = center();
    let (mut site, mut other) = (joined(&center), joined(&center));
    other.write("INSERT INTO t VALUES (2, 'two')");
    let mut conversation = begin(&site);
    let mut step = |remote: &mut Remote, event: Event<'_>| -> Result<Next, Failure> {
        conversation.step(remote, event, &mut Recorder::default())
    };
    step(&mut site.remote, Event::Tick).unwrap();
    let failure = step(&mut other.remote, Event::Connected).unwrap_err();
    assert_eq!(failure.code(), Code::ConversationMisused);
    assert!(!other.remote.status().unwrap().outcome_unknown, "nothing was frozen there");
    let lost = Event::Lost(Failure::new(Code::Unreachable, "no network"));
    assert_eq!(step(&mut site.remote, lost).unwrap_err().code(), Code::Unreachable);
    for event in [Event::Tick, Event::Connected, Event::Sent, Event::Received(b"x")] {
        let failure = step(&mut site.remote, event).unwrap_err();
        assert_eq!(failure.code(), Code::ConversationMisused);
    }
    drop(conversation);
    sync(&mut site, &center).unwrap();
    sync(&mut other, &center).unwrap();
    assert_eq!(rows(&other), ["1, 'one'", "2, 'two'"]);
}

// S11
#[test]
fn a_remote_without_a_user_begins_no_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let components = crate::Components::system(folder.path()).unwrap();
    let mut remote = Remote::in_memory(components).unwrap();
    let begin = |remote: &Remote| {
        Conversation::begin(remote, remote.claim().unwrap(), request(Mode::Full)).map(drop)
    };
    assert_eq!(begin(&remote).unwrap_err().code(), Code::ServerUnknown);
    let user = model::UserName::new("anna").ok();
    remote.propose(&Settings { user, ..Settings::default() }).unwrap();
    begin(&remote).unwrap();
}
