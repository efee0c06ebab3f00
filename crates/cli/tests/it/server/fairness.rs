//! No user takes the places of another at the server.

use harness::{Peer, World, hello, sql, until};
use model::{Code, Progress};
use protocol::{Credential, Failed, MAGIC, Message, UploadBegin, UploadEnd};
use std::sync::mpsc;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)";

fn both() -> [World; 2] {
    [World::new(PROGRAM, ITEM), World::on_postgres(PROGRAM, ITEM)]
}

/// A peer that has said who it is.
fn greeted(url: &str, user: &str, credential: Credential) -> Peer {
    let mut peer = Peer::connect(url);
    let mut hello = hello(user, user);
    hello.credential = credential;
    peer.send_bytes(&MAGIC);
    peer.send(&Message::Hello(Box::new(hello)));
    peer
}

/// How the server refuses a peer.
fn refusal(peer: &mut Peer) -> Failed {
    match peer.receive() {
        Some(Message::Failed(failed)) => failed,
        other => panic!("{other:?} instead of a refusal"),
    }
}

/// So many synchronizations of a user that have been admitted, and then send nothing more.
fn stand_still(url: &str, user: &str, count: usize) -> Vec<Peer> {
    let admitted = (0..count).map(|number| {
        let (mut peer, _) = Peer::admitted(url, user, &format!("{user}-{number}"));
        let (previous, progress) = (Progress(0), Progress(1));
        peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
        peer
    });
    admitted.collect()
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
    for world in both() {
        world.add_user("ann");
        let limits = "transfers_max = 1\npassword_hashes_max = 1\npassword_queue_len_max = 1";
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
        // A token with a wrong signature causes no query and takes no turn.
        let mut forged = greeted(&server.url, "ann", Credential::Token("a.b".to_owned()));
        assert_eq!(forged.refusal(), Some(Code::TokenRefused.number()));
    }
}

// S9: guessing is delayed, only for the user and the address that guess.
#[test]
fn wrong_passwords_make_the_next_one_wait() {
    for world in both() {
        wrong_passwords_wait(&world);
    }
}

fn wrong_passwords_wait(world: &World) {
    for user in ["ann", "ben"] {
        world.add_user(user);
    }
    let server = world.serve();
    let guess = || {
        let wrong = Credential::Password("wrong".to_owned());
        refusal(&mut greeted(&server.url, "ann", wrong))
    };
    let mut tries = 0;
    // A slow machine may miss the first delays; they grow until it does not.
    until("a delay", || {
        let failed = guess();
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
    assert_eq!(guess().code, Code::AuthenticationFailed.number());
}

// S9: new connections waited in the kernel's backlog until another one ended.
#[test]
fn beyond_the_limit_of_connections_newcomers_hear_so() {
    for world in both() {
        newcomers_hear_of_the_limit(&world);
    }
}

fn newcomers_hear_of_the_limit(world: &World) {
    for user in ["ann", "ben"] {
        world.add_user(user);
    }
    world.configure("connections_max = 1");
    let server = world.serve();
    let (first, _) = Peer::admitted(&server.url, "ann", "ann");
    // More than are answered at once.
    for _ in 0..100 {
        let failed = refusal(&mut Peer::connect(&server.url));
        assert_eq!(failed.code, Code::ServerFull.number());
        assert!(failed.retry_after_s.is_some_and(|seconds| seconds >= 1), "{failed:?}");
    }
    world.sync_fails("ben", &server, "E4001");
    drop(first);
    until("a free place", || world.try_sync("ben", &server, None).code == Some(0));
}

// S9: an admission stood behind first downloads.
#[test]
fn an_admission_waits_for_no_download() {
    for world in both() {
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

// S9: with 1,200 wrong passwords, a user with a token was refused 114 of 137 times. Now none is
// refused.
#[test]
fn a_flood_of_wrong_passwords_is_nothing_to_a_token() {
    both().iter().for_each(flood_with_wrong_passwords);
}

fn flood_with_wrong_passwords(world: &World) {
    const FLOOD: usize = 1200;
    world.add_user("ann");
    let server = world.serve();
    let mut arguments = world.sync_arguments("ann", &server);
    let with_token = ["--token-file", "ann.token"].map(str::to_owned);
    arguments.extend(with_token.clone());
    world.syncline.ok(&arguments);
    let wrong = || Credential::Password("wrong".to_owned());
    let flood = |number| greeted(&server.url, &format!("nobody-{number}"), wrong());
    let mut flood: Vec<Peer> = (0..FLOOD).map(flood).collect();
    let arguments = ["sync", "ann.db", "--server", &server.url, "--user", "ann"].map(str::to_owned);
    for _ in 0..5 {
        world.syncline.ok(&[&arguments[..], &with_token[..]].concat());
    }
    // They are answered meanwhile: there is no room in the line, or it was wrong.
    let codes = [Code::AuthenticationFailed.number(), Code::ServerFull.number()];
    let failed = refusal(&mut flood[0]);
    assert!(codes.contains(&failed.code), "{failed:?}");
}

// S9, S10: a place was held while rows were sent, so that slow remotes excluded all others.
#[test]
fn slow_transfers_take_no_place_at_the_database() {
    for world in both() {
        for user in ["ann", "ben"] {
            world.add_user(user);
        }
        world.configure("sessions_max = 1\nqueue_len_max = 1\nworkers = 1");
        let server = world.serve();
        let modems = stand_still(&server.url, "ann", 20);
        world.sync("ben", &server);
        sql(&world.remote("ben"), "INSERT INTO item VALUES (1, 'ben')");
        assert_eq!(world.sync("ben", &server)["uploaded"]["inserts"], 1);
        world.assert_converged(&["ben"]);
        // Slow remotes are served in the end.
        for mut modem in modems {
            modem.send(&Message::UploadEnd(UploadEnd { rows: 0 }));
            assert!(matches!(modem.receive(), Some(Message::UploadCommitted(_))));
        }
    }
}

// S9, S11: one user held all places for as long as it liked. Where it is the connections that are
// limited, some are left to those who have not said yet who they are.
#[test]
fn the_user_with_most_synchronizations_yields_first() {
    let limits = [("transfers_max = 5", 5), ("connections_max = 8", 7)];
    for ((limit, places), world) in limits.into_iter().flat_map(|it| both().map(|w| (it, w))) {
        for user in ["ann", "ben"] {
            world.add_user(user);
        }
        world.configure(limit);
        let server = world.serve();
        // Alone it may have all, and takes none from itself.
        let mut fleet = stand_still(&server.url, "ann", places);
        let password = Credential::Password("ann-password".to_owned());
        let mut one_more = greeted(&server.url, "ann", password);
        assert_eq!(refusal(&mut one_more).code, Code::ServerFull.number());
        drop(one_more);
        until("the other user", || world.try_sync("ben", &server, None).code == Some(0));
        let mut last = fleet.pop().unwrap();
        let yielded = refusal(&mut last);
        assert_eq!(yielded.code, Code::PlaceYielded.number());
        assert!(yielded.retry_after_s.is_some_and(|seconds| seconds >= 1), "{yielded:?}");
        // The others go on.
        for mut peer in fleet {
            peer.send(&Message::UploadEnd(UploadEnd { rows: 0 }));
            assert!(matches!(peer.receive(), Some(Message::UploadCommitted(_))));
        }
    }
}

// S9, S11: the time was a constant, whatever it was that they waited for.
#[test]
fn the_refused_hear_a_time_that_follows_how_fast_others_leave() {
    let limits = ["transfers_max = 1", "connections_max = 1"];
    for (limit, world) in limits.into_iter().flat_map(|it| both().map(|w| (it, w))) {
        for user in ["ann", "ben"] {
            world.add_user(user);
        }
        world.configure(limit);
        let server = world.serve();
        let held = stand_still(&server.url, "ann", 1);
        let newcomer = || {
            let right = Credential::Password("ben-password".to_owned());
            let failed = refusal(&mut greeted(&server.url, "ben", right));
            assert_eq!(failed.code, Code::ServerFull.number());
            failed.retry_after_s.unwrap()
        };
        assert!(newcomer() < 10, "nothing has stood still for long");
        // None leaves, and each refused remote gets a later time than the one before.
        until("a longer time", || newcomer() >= 10);
        drop(held);
        until("a free place", || world.try_sync("ben", &server, None).code == Some(0));
    }
}

// S9, S11: at a file that another program had locked nobody heard when to come back.
#[test]
fn who_finds_the_database_locked_hears_when_to_come_back() {
    for world in both() {
        world.add_user("ann");
        let server = world.serve();
        world.sync("ann", &server);
        sql(&world.remote("ann"), "INSERT INTO item VALUES (1, 'ann')");
        let failed = match world.consolidated().exists() {
            true => {
                let other = rusqlite::Connection::open(world.consolidated()).unwrap();
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                world.sync_fails("ann", &server, "E3002")
            }
            false => {
                let mut other = world.database().session();
                other.sql("BEGIN; LOCK TABLE item IN ACCESS EXCLUSIVE MODE");
                world.sync_fails("ann", &server, "E3002")
            }
        };
        let seconds = failed["retry_after_s"].as_u64();
        assert!(seconds.is_some_and(|seconds| (2..=7).contains(&seconds)), "{failed}");
        until("the end of the lock", || world.try_sync("ann", &server, None).code == Some(0));
        world.assert_converged(&["ann"]);
    }
}
