//! Many transfers that stand nearly still are in nobody's way.

use harness::{Peer, Server, World, full, hello, time_of, until};
use model::{Progress, ValueRef, write_value};
use protocol::{Credential, Message, Operation, RowsFrame, UploadBegin, UploadEnd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");
const NOTE: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)";

/// Of the slow ones, those that download. What each has to take is larger than all buffers.
const DOWNLOADS: usize = 40;

fn both() -> [World; 2] {
    let worlds = [World::new(PROGRAM, NOTE), World::on_postgres(PROGRAM, NOTE)];
    for world in &worlds {
        for user in ["ann", "ben"] {
            world.add_user(user);
        }
    }
    worlds
}

/// A slow peer.
struct Modem {
    peer: Peer,
    /// What it has still to say, a few bytes at a time; one with nothing to say listens.
    left: Vec<u8>,
}

impl Modem {
    /// Goes on for a moment.
    fn go_on(&mut self) {
        if self.left.is_empty() {
            self.peer.receive_bytes(16);
        } else {
            let rest = self.left.split_off(self.left.len().min(16));
            // Who was ended finds out some other time.
            let _ = self.peer.try_send_bytes(&self.left);
            self.left = rest;
        }
    }
}

/// So many peers of a user, of which the first password is verified and the others have a token.
fn admitted(server: &Server, user: &str, count: usize) -> Vec<Peer> {
    let mut token = None;
    let peers = (0..count).map(|number| {
        let mut hello = hello(user, &format!("{user}-{number}"));
        if let Some(token) = &token {
            hello.credential = Credential::Token(String::clone(token));
        }
        let (mut peer, welcome) = Peer::greeting(&server.url, hello);
        token = token.take().or(welcome.token);
        assert!(matches!(peer.receive(), Some(Message::SchemaChange(_))));
        let (previous, progress) = (Progress(0), Progress(1));
        peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
        peer
    });
    peers.collect()
}

/// An upload of one large row.
fn large_row() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_value(&mut bytes, ValueRef::Integer(1_000_000));
    write_value(&mut bytes, ValueRef::Text(&vec![b'x'; 1 << 20]));
    let rows = RowsFrame { table: 0, operation: Operation::Insert, count: 1, bytes };
    Message::Rows(rows).to_frame().unwrap()
}

/// Lets the slow ones go on, again and again, while `work` is done.
fn meanwhile<T>(modems: Vec<Modem>, every: Duration, work: impl FnOnce() -> T) -> T {
    let (done, modems) = (AtomicBool::new(false), Mutex::new(modems));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                modems.lock().unwrap().iter_mut().for_each(Modem::go_on);
                std::thread::sleep(every);
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

// S9, S10: a thousand modems, forty of which take a download of megabytes and the others send one,
// each a few bytes a second.
#[test]
#[allow(clippy::print_stdout, reason = "a figure for who looks for one")]
fn a_client_is_served_beside_a_thousand_slow_ones() {
    let (modems, downloads) = if full() { (1000, DOWNLOADS) } else { (60, 4) };
    for world in both() {
        let text = match world.consolidated().exists() {
            true => "printf('%01000d', n)",
            false => "repeat('0', 1000)",
        };
        world.center_sql(&format!(
            "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number
                WHERE n < 8000) INSERT INTO note SELECT n, {text} FROM number"
        ));
        let server = world.serve();
        world.sync("ben", &server);
        let mut peers = admitted(&server, "ann", modems).into_iter();
        let mut standing: Vec<Modem> = peers
            .by_ref()
            .take(downloads)
            .map(|mut peer| {
                peer.send(&Message::UploadEnd(UploadEnd { rows: 0 }));
                Modem { peer, left: Vec::new() }
            })
            .collect();
        let row = large_row();
        standing.extend(peers.map(|peer| Modem { peer, left: row.clone() }));
        let slowest = meanwhile(standing, Duration::from_millis(500), || {
            let rounds = (0..5).map(|round| {
                let change = format!("UPDATE note SET text = 'round {round}' WHERE id = {round}");
                harness::sql(&world.remote("ben"), &change);
                time_of(|| drop(world.sync("ben", &server)))
            });
            rounds.max().unwrap()
        });
        println!("{modems} stand, and the slowest of five synchronizations took {slowest:?}");
        assert!(slowest < harness::WAIT_MAX, "{slowest:?}");
        assert_eq!(world.center_count("SELECT count(*) FROM note WHERE text LIKE 'round %'"), 4);
    }
}

// S9: one user that has all places, and says as little as it can to keep them.
#[test]
fn a_user_that_only_beats_or_drips_keeps_nobody_out() {
    let places = if full() { 1000 } else { 30 };
    let heartbeat = Message::Heartbeat.to_frame().unwrap();
    for drips in [false, true] {
        for world in both() {
            world.configure(&format!("transfers_max = {places}"));
            let server = world.serve();
            let said = if drips { large_row() } else { heartbeat.repeat(1000) };
            let fleet = admitted(&server, "ann", places).into_iter();
            let fleet = fleet.map(|peer| Modem { peer, left: said.clone() }).collect();
            meanwhile(fleet, Duration::from_millis(200), || {
                until("the other user", || world.try_sync("ben", &server, None).code == Some(0));
                harness::sql(&world.remote("ben"), "INSERT INTO note VALUES (1, 'ben')");
                until("once more", || world.try_sync("ben", &server, None).code == Some(0));
            });
            assert_eq!(world.center_count("SELECT count(*) FROM note"), 1);
        }
    }
}
