//! URLs with another scheme than the port has: the hint names the one that fits.

use harness::World;
use std::io::{Read, Write};
use std::net::TcpListener;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const SHOP: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)";

/// What the port speaks, what the URL says, and what is told of it.
const WRONG: [(&str, &str, &str, &str); 14] = [
    ("tcp", "http", "E1026", "write tcp:// in place of http:// or ws://"),
    ("tcp", "ws", "E1026", "write tcp:// in place of http:// or ws://"),
    ("tcp", "tls", "E1020", "write tcp:// or http:// or ws:// in place of tls://"),
    ("tcp", "https", "E1020", "write tcp:// or http:// or ws:// in place of https://"),
    ("tls", "tcp", "E1020", "write the URL as the server prints it, with tls://"),
    ("tls", "http", "E1020", "write the URL as the server prints it, with tls://"),
    ("tls", "https", "E1021", "write tls:// in place of https://"),
    ("tls", "wss", "E1021", "write tls:// in place of wss://"),
    ("https", "tls", "E1021", "write https:// or wss:// in place of tls://"),
    ("https", "tcp", "E1020", "write the URL as the server prints it, with tls://"),
    ("https", "http", "E1020", "write the URL as the server prints it, with tls://"),
    ("https", "ws", "E1020", "write the URL as the server prints it, with tls://"),
    ("http", "tcp", "E1001", "write http:// or ws:// in place of tcp://"),
    ("http", "tls", "E1020", "write tcp:// or http:// or ws:// in place of tls://"),
];

/// It was a proxy that was to blame, or the certificates.
#[test]
fn the_hint_names_the_scheme_that_the_port_has() {
    let world = World::new(PROGRAM, SHOP);
    world.syncline.ok(&["cert", "dev"]);
    world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    world.add_user("ann");
    for (spoken, written, code, hint) in WRONG {
        let server = world.serve_at(&format!("{spoken}://127.0.0.1:0"));
        let url = server.url.replacen(spoken, written, 1);
        let arguments = world.sync_arguments("ann", &server);
        let arguments =
            arguments.into_iter().map(|it| if it == server.url { url.clone() } else { it });
        let mut arguments: Vec<String> = arguments.collect();
        arguments.extend(["--ca-file", "ca.pem"].map(str::to_owned));
        let told = world.syncline.run(&arguments).stderr;
        let case = format!("{written} at {spoken}: {told}");
        assert!(told.contains(&format!("error {code}: ")) && told.contains(hint), "{case}");
        server.stop();
    }
}

/// Other programs that speak TLS answer clear text with an alert, or with nothing.
#[test]
fn an_alert_of_tls_says_that_the_url_has_the_wrong_scheme() {
    let world = World::new(PROGRAM, SHOP);
    world.add_user("ann");
    let server = world.serve();
    let mut arguments = world.sync_arguments("ann", &server);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    arguments.iter_mut().filter(|it| **it == server.url).for_each(|it| it.clone_from(&url));
    server.stop();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        stream.write_all(&[21, 3, 1, 0, 2, 2, 70]).unwrap();
    });
    let told = world.syncline.run(&arguments).stderr;
    stranger.join().unwrap();
    assert!(told.contains("error E1020: the program that answers speaks TLS"), "{told}");
}
