//! Nobody takes another's place at the server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::{Peer, World, hello};
use model::Code;
use protocol::{Credential, MAGIC, Message};
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
        let server = world.serve_with(&[], Some("server-password=pause"));
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
