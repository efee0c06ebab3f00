//! Servers behind balancers and reverse proxies, which say whose connections they hand on.

use harness::{Balancer, Handing, Peer, Server, World, hello, sql, until};
use model::Code;
use protocol::{Credential, Failed, MAGIC, Message};
use std::collections::BTreeSet;
use std::net::TcpStream;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'one'), (2, 'two')";

/// Behind a balancer whose connections begin with a header.
const HEADER: &str = "proxy_protocol = true\ntrusted_proxies = [\"127.0.0.2\"]";

fn shop(lines: &str) -> World {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    world.configure(lines);
    world
}

/// Ann synchronizes by way of the balancer, in both directions.
fn synchronize(world: &World, server: &Server, url: &str, more: &[&str]) {
    let mut arguments = world.sync_arguments("ann", server);
    let at = arguments.iter().position(|argument| argument == &server.url).unwrap();
    arguments[at] = url.to_owned();
    arguments.extend(more.iter().map(ToString::to_string));
    world.syncline.ok(&arguments);
    sql(&world.remote("ann"), "INSERT INTO note SELECT max(id) + 1, 'ann' FROM note");
    world.syncline.ok(&arguments);
    world.assert_converged(&["ann"]);
}

/// The addresses of the peers that have synchronized, as the server has logged them, each once.
fn peers(server: &Server) -> BTreeSet<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("synchronized"));
    let peer = |line: &str| {
        let (_, rest) = line.split_once("peer=").unwrap();
        rest.trim_matches('"').split([':', '"', ' ']).next().unwrap().to_owned()
    };
    lines.map(peer).collect()
}

fn only(peer: &str) -> BTreeSet<String> {
    BTreeSet::from([peer.to_owned()])
}

#[test]
fn a_balancer_names_the_remotes_whose_bytes_it_hands_on() {
    for handing in [Handing::Version1, Handing::Version2] {
        let world = shop(HEADER);
        let server = world.serve();
        let balancer = Balancer::start(&server, handing);
        synchronize(&world, &server, &balancer.url, &[]);
        // Those who come without it have nothing to add.
        synchronize(&world, &server, &server.url, &[]);
        assert_eq!(peers(&server), only("127.0.0.1"), "{handing:?}");
    }
}

#[test]
fn encrypted_bytes_are_handed_on_behind_a_header_in_clear_text() {
    let tls = "tls_certificate = \"server.pem\"\ntls_key = \"server.key\"";
    for listen in ["tls://127.0.0.1:0", "https://127.0.0.1:0/base", "wss://127.0.0.1:0/base"] {
        let world = shop(&format!("{tls}\n{HEADER}"));
        world.syncline.ok(&["cert", "dev"]);
        let server = world.serve_at(listen);
        let balancer = Balancer::start(&server, Handing::Version2);
        synchronize(&world, &server, &balancer.url, &["--ca-file", "ca.pem"]);
        assert_eq!(peers(&server), only("127.0.0.1"), "{listen}");
    }
}

#[test]
fn a_reverse_proxy_names_the_remotes_whose_requests_it_hands_on() {
    for listen in ["http://127.0.0.1:0/base", "ws://127.0.0.1:0/base"] {
        let world = shop("");
        let server = world.serve_at(listen);
        let balancer = Balancer::start(&server, Handing::Requests);
        synchronize(&world, &server, &balancer.url, &[]);
        assert_eq!(peers(&server), only(Balancer::ADDRESS), "{listen}");
        // It is believed as soon as the configuration says so.
        world.configure("trusted_proxies = [\"127.0.0.2/32\"]");
        server.reload();
        synchronize(&world, &server, &balancer.url, &[]);
        let both = [Balancer::ADDRESS, "127.0.0.1"].map(str::to_owned);
        assert_eq!(peers(&server), BTreeSet::from(both), "{listen}");
    }
}

/// A peer behind a balancer which is the test itself: it sends these bytes, then Hello.
fn handed_on(server: &Server, header: &[&[u8]], password: &str) -> Message {
    let mut peer = Peer::connect(&server.url);
    for piece in header {
        peer.send_bytes(piece);
    }
    let mut hello = hello("ann", "ann");
    hello.credential = Credential::Password(password.to_owned());
    peer.send_bytes(&MAGIC);
    // A peer that is refused for its first bytes need not take the next.
    let _ = peer.try_send(&Message::Hello(Box::new(hello)));
    peer.receive().expect("an answer")
}

fn refused(message: Message) -> Failed {
    match message {
        Message::Failed(failed) => failed,
        other => panic!("{other:?} instead of a refusal"),
    }
}

const TRUSTED: &str = "proxy_protocol = true\ntrusted_proxies = [\"127.0.0.1\"]";

// S9: wrong passwords are counted for users and addresses, and behind a balancer all had the same.
#[test]
fn who_guesses_behind_a_balancer_delays_nobody_else() {
    let world = shop(TRUSTED);
    let server = world.serve();
    let guesser = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 2439\r\n".as_slice();
    until("a delay", || {
        let failed = refused(handed_on(&server, &[guesser], "wrong"));
        failed.code == Code::PasswordsSlowed.number()
    });
    let owner = b"PROXY TCP6 2001:db8::8 2001:db8::1 4711 2439\r\n".as_slice();
    let answer = handed_on(&server, &[owner], "ann-password");
    assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
    assert!(server.log().contains("192.0.2.7:4711"), "{}", server.log());
}

#[test]
fn a_header_may_come_in_pieces_and_need_not_name_anybody() {
    let world = shop(TRUSTED);
    let server = world.serve();
    // With notes behind the addresses, which are passed over.
    let mut version_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x12".to_vec();
    version_2.extend([192, 0, 2, 9, 192, 0, 2, 1, 0x12, 0x67, 9, 0x87, 4, 0, 3, 1, 2, 3]);
    let pieces: Vec<&[u8]> = version_2.chunks(5).collect();
    assert!(matches!(handed_on(&server, &pieces, "ann-password"), Message::Welcome(_)));
    let unknown: [&[u8]; 2] = [b"PROXY UNK", b"NOWN\r\n"];
    assert!(matches!(handed_on(&server, &unknown, "ann-password"), Message::Welcome(_)));
    // A balancer that asks whether the server listens is no error.
    drop(TcpStream::connect(server.url.strip_prefix("tcp://").unwrap()).unwrap());
    // It hears of the next one when it has served this one.
    assert!(matches!(handed_on(&server, &unknown, "ann-password"), Message::Welcome(_)));
    assert!(!server.log().contains("E5022"), "{}", server.log());
}

#[test]
fn a_trusted_proxy_without_a_header_is_refused() {
    let world = shop(TRUSTED);
    let server = world.serve();
    world.sync_fails("ann", &server, "E5022");
    let endless = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".as_slice(), &[7; 8000]];
    for header in [&[b"PROXY TCP4 192.0.2.7 \r\n".as_slice()] as &[&[u8]], &endless] {
        let failed = refused(handed_on(&server, header, "ann-password"));
        assert_eq!(failed.code, Code::ProxyHeaderMissing.number());
    }
}

#[test]
fn a_server_that_expects_no_header_names_the_options() {
    let world = shop("");
    let server = world.serve();
    let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 2439\r\n".as_slice();
    let failed = refused(handed_on(&server, &[header], "ann-password"));
    assert_eq!(failed.code, Code::NotSyncline.number());
    assert!(failed.hint.is_some_and(|hint| hint.contains("trusted_proxies")));
}
