//! Nobody takes another's place at the server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::{Peer, World, hello, until};
use model::{Code, Progress};
use protocol::{Credential, MAGIC, Message, UploadBegin, UploadEnd};
use std::sync::mpsc;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)";

/// A peer that has said who it is.
fn greeted(url: &str, user: &str, credential: Credential) -> Peer {
    let mut peer = Peer::connect(url);
    let mut hello = hello(user, user);
    hello.credential = credential;
    peer.send_bytes(&MAGIC);
    peer.send(&Message::Hello(Box::new(hello)));
    peer
}

/// Peers with wrong passwords, whose refusals arrive where this is read.
fn wrong_passwords(url: &str, peers: usize) -> mpsc::Receiver<Option<u16>> {
    let (refused, refusals) = mpsc::sync_channel(peers);
    for number in 0..peers {
        let wrong = Credential::Password("wrong".to_owned());
        let mut peer = greeted(url, &format!("nobody-{number}"), wrong);
        let refused = refused.clone();
        std::thread::spawn(move || refused.send(peer.refusal()));
    }
    refusals
}

// S9: the place of a synchronization was taken before the password was verified, so that wrong
// ones kept out who had a token.
#[test]
fn passwords_that_wait_take_no_place_of_a_token() {
    for world in [World::new(PROGRAM, ITEM), World::on_postgres(PROGRAM, ITEM)] {
        world.add_user("ann");
        let limits = "sessions_max = 1\npassword_hashes_max = 1\npassword_queue_len_max = 1";
        world.configure(limits);
        let server = world.serve();
        let with_token = ["--token-file", "ann.token"].map(str::to_owned);
        let mut arguments = world.sync_arguments("ann", &server);
        arguments.extend(with_token.clone());
        world.syncline.ok(&arguments);
        drop(server);
        // One password is never done with, one waits, and the last one is refused.
        let server = world.serve_with(&[], Some("password-waits=pause"));
        let refusals = wrong_passwords(&server.url, 3);
        assert_eq!(refusals.recv().unwrap(), Some(Code::ServerFull.number()));
        let mut arguments: Vec<String> =
            ["sync", "ann.db", "--server", &server.url, "--user", "ann"].map(str::to_owned).into();
        arguments.extend(with_token);
        world.syncline.ok(&arguments);
        // A token that was not signed here asks nobody anything, not even for a turn.
        let mut forged = greeted(&server.url, "ann", Credential::Token("a.b".to_owned()));
        assert_eq!(forged.refusal(), Some(Code::TokenRefused.number()));
    }
}

// S9: guessing is slowed, for the user and the address that guess and for nobody else.
#[test]
fn wrong_passwords_make_the_next_one_wait() {
    let world = World::new(PROGRAM, ITEM);
    for user in ["ann", "ben"] {
        world.add_user(user);
    }
    let server = world.serve();
    let refusal = || {
        let wrong = Credential::Password("wrong".to_owned());
        let mut peer = greeted(&server.url, "ann", wrong);
        match peer.receive() {
            Some(Message::Failed(failed)) => failed,
            other => panic!("{other:?} instead of a refusal"),
        }
    };
    let mut tries = 0;
    // A slow machine may miss the first delays; they grow until it does not.
    until("a delay", || {
        let failed = refusal();
        tries += 1;
        let slowed = failed.code == Code::PasswordsSlowed.number();
        let code = if slowed { failed.code } else { Code::AuthenticationFailed.number() };
        assert_eq!(failed.code, code);
        assert_eq!(failed.retry_after_s.is_some_and(|seconds| seconds >= 1), slowed);
        slowed
    });
    assert!(tries > 3, "people mistype");
    world.sync("ben", &server);
    // The right one waits as well, and ends the delays.
    until("the end of the delay", || world.try_sync("ann", &server, None).code == Some(0));
    assert_eq!(refusal().code, Code::AuthenticationFailed.number());
}

// S9: newcomers waited in the kernel's backlog, until somebody left.
#[test]
fn beyond_the_limit_of_connections_newcomers_hear_so() {
    let world = World::new(PROGRAM, ITEM);
    for user in ["ann", "ben"] {
        world.add_user(user);
    }
    world.configure("connections_max = 1");
    let server = world.serve();
    let (first, _) = Peer::admitted(&server.url, "ann", "ann");
    // More than are answered at once.
    for _ in 0..100 {
        match Peer::connect(&server.url).receive() {
            Some(Message::Failed(failed)) => {
                assert_eq!(failed.code, Code::ServerFull.number());
                assert!(failed.retry_after_s.is_some_and(|seconds| seconds >= 1), "{failed:?}");
            }
            other => panic!("{other:?} instead of a refusal"),
        }
    }
    world.sync_fails("ben", &server, "E4001");
    drop(first);
    until("a free place", || world.try_sync("ben", &server, None).code == Some(0));
}

// S9: an admission stood behind first downloads.
#[test]
fn an_admission_waits_for_no_download() {
    for world in [World::new(PROGRAM, ITEM), World::on_postgres(PROGRAM, ITEM)] {
        for user in ["ann", "ben"] {
            world.add_user(user);
        }
        world.configure("workers = 1");
        let server = world.serve_with(&[], Some("server-download-fetched=pause"));
        let (mut first, _) = Peer::admitted(&server.url, "ann", "ann");
        let (previous, progress) = (Progress(0), Progress(0));
        first.send(&Message::UploadBegin(UploadBegin { previous, progress }));
        first.send(&Message::UploadEnd(UploadEnd { rows: 0 }));
        assert!(matches!(first.receive(), Some(Message::UploadCommitted(_))));
        // The only reader of downloads is busy with the first one for ever.
        for remote in ["ben-1", "ben-2"] {
            let _admitted = Peer::admitted(&server.url, "ben", remote);
        }
    }
}
