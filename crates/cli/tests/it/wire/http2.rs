//! HTTP/2 at the server: real clients, a real proxy, and peers that break rules.
//!
//! Needs programs that can be held up: `cargo test -p syncline --features fail-points`.
//! `http2/frames.rs` speaks it by hand.

#![cfg(feature = "fail-points")]

mod frames;

use frames::{
    ACKNOWLEDGED, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frame,
    GET_HEALTH, GO_AWAY, HEADERS, PING, POST, REFUSED_STREAM, RESET, SETTINGS, WINDOW, body,
};
use harness::{Balancer, Handing, Nginx, Server, World, hello, until};
use model::Code;
use protocol::{Credential, FrameDecoder, Hello, MAGIC, Message, Mode};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const LISTEN: &str = "http://127.0.0.1:0/base/path";

const SHOP: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
    INSERT INTO note VALUES (1, 'one'), (2, 'two')";

/// Setting: the window of each stream.
const INITIAL_WINDOW: u16 = 4;

fn world(lines: &str) -> World {
    let world = World::new(PROGRAM, SHOP);
    world.configure(lines);
    world.add_user("ann");
    world
}

/// The body of a request with this Hello.
fn request(hello: Hello) -> Vec<u8> {
    let mut body = MAGIC.to_vec();
    Message::Hello(Box::new(hello)).encode(&mut body).unwrap();
    body
}

fn ping(user: &str, password: &str) -> Vec<u8> {
    let credential = Credential::Password(password.to_owned());
    request(Hello { mode: Mode::Ping, credential, ..hello(user, "r") })
}

fn download(user: &str, remote_id: &str) -> Vec<u8> {
    request(Hello { mode: Mode::DownloadOnly, ..hello(user, remote_id) })
}

/// What a body says, beside signs of life.
fn messages(body: &[u8]) -> Vec<Message> {
    let mut decoder = FrameDecoder::new(16 << 20);
    decoder.push(body);
    let mut messages = Vec::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        messages.extend(Message::decode(frame).unwrap().filter(|it| *it != Message::Heartbeat));
    }
    messages
}

/// A request by curl: the version that was spoken, the status, the headers and the body.
fn curl(world: &World, url: &str, arguments: &[&str]) -> (String, u16, String, Vec<u8>) {
    let (head, out) = (world.path("curl.head"), world.path("curl.out"));
    let mut command = Command::new("curl");
    command.args(["-sS", "--noproxy", "*", "-w", "%{http_version} %{http_code}"]);
    command.arg("-D").arg(&head).arg("-o").arg(&out).args(arguments).arg(url);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let written = String::from_utf8(output.stdout).unwrap();
    let (version, status) = written.split_once(' ').unwrap();
    let head = std::fs::read_to_string(head).unwrap();
    // A response without a body leaves no file.
    (version.to_owned(), status.parse().unwrap(), head, std::fs::read(out).unwrap_or_default())
}

/// The same with this body.
fn post(world: &World, url: &str, body: &[u8], more: &[&str]) -> (String, u16, String, Vec<u8>) {
    std::fs::write(world.path("curl.body"), body).unwrap();
    let file = format!("@{}", world.path("curl.body").display());
    let own = ["-H", "content-type: application/vnd.syncline", "--data-binary", &file];
    curl(world, &format!("{url}/sync"), &[&own[..], more].concat())
}

// S11: the same statuses as over HTTP/1.1, by a client that is not ours.
#[test]
fn a_real_client_speaks_it_and_reads_the_same_statuses() {
    let world = world("allowed_origins = [\"https://app.example\"]\npassword_delay_max_s = 3600");
    let server = world.serve_at(LISTEN);
    let known = ["--http2-prior-knowledge"];
    let (version, status, head, body) =
        post(&world, &server.url, &ping("ann", "ann-password"), &known);
    assert_eq!((version.as_str(), status), ("2", 200));
    assert!(head.contains("content-type: application/vnd.syncline"), "{head}");
    assert!(head.contains("x-accel-buffering: no"), "{head}");
    assert!(matches!(messages(&body)[..], [Message::Welcome(_)]));
    let wrong = ping("ann", "wrong");
    let refused = |wanted, code: Code| {
        let (_, status, head, body) = post(&world, &server.url, &wrong, &known);
        assert_eq!(status, wanted, "{head}");
        let [Message::Failed(failed)] = &messages(&body)[..] else { panic!("{head}") };
        assert_eq!(failed.code, code.number());
        head
    };
    for _ in 0..3 {
        refused(401, Code::AuthenticationFailed);
    }
    assert!(refused(429, Code::PasswordsSlowed).contains("retry-after: "));
    let status = |path: &str, more: &[&str]| {
        curl(&world, &format!("{}/{path}", server.url), &[&known[..], more].concat()).1
    };
    assert_eq!((status("health", &[]), status("ready", &[]), status("x", &[])), (200, 200, 404));
    assert_eq!((status("sync", &[]), status("sync", &["-X", "POST"])), (405, 415));
    let preflight = ["-X", "OPTIONS", "-H", "origin: https://app.example"];
    assert_eq!(status("sync", &preflight), 204);
    assert_eq!(status("sync", &["-X", "OPTIONS", "-H", "origin: https://evil.example"]), 403);
    let own = format!("origin: {}", server.url.trim_end_matches("/base/path"));
    assert_eq!(status("sync", &["-X", "OPTIONS", "-H", &own]), 204, "the authority is its own");
    server.stop();
}

// S11: what was agreed on in the handshake of TLS.
#[test]
fn tls_agrees_on_it_with_clients_that_ask_for_it() {
    let world = world("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
    world.syncline.ok(&["cert", "dev"]);
    let server = world.serve_at("https://127.0.0.1:0/base/path");
    let authority = world.path("ca.pem");
    let authority = ["--cacert", authority.to_str().unwrap()];
    for (asks, version) in [("--http2", "2"), ("--http1.1", "1.1"), ("--no-alpn", "1.1")] {
        let more = [&authority[..], &[asks]].concat();
        let answered = post(&world, &server.url, &ping("ann", "ann-password"), &more);
        assert_eq!((answered.0.as_str(), answered.1), (version, 200), "{asks}");
        assert!(matches!(messages(&answered.3)[..], [Message::Welcome(_)]));
    }
    server.stop();
    // And a proxy that speaks it with the outside.
    let server = world.serve_at(LISTEN);
    let nginx = Nginx::start(&world, &server, Nginx::guided());
    let more = [&authority[..], &["--http2"]].concat();
    let answered = post(&world, &nginx.url("https"), &ping("ann", "ann-password"), &more);
    assert_eq!((answered.0.as_str(), answered.1), ("2", 200));
    assert!(matches!(messages(&answered.3)[..], [Message::Welcome(_)]));
}

fn sync_by(world: &World, server: &Server, name: &str, balancer: &Balancer) {
    let mut arguments = world.sync_arguments(name, server);
    let at = arguments.iter().position(|argument| argument == &server.url).unwrap();
    arguments[at].clone_from(&balancer.url);
    world.syncline.ok(&arguments);
}

// S1, S3: a proxy brings the requests of all remotes over HTTP/2, large ones and small ones, and
// the server lets it wait.
#[test]
fn rows_cross_a_proxy_that_speaks_it_with_the_server_on_both_databases() {
    for world in [World::new(PROGRAM, SHOP), World::on_postgres(PROGRAM, SHOP)] {
        world.configure("heartbeat_interval_s = 1\ntrusted_proxies = [\"127.0.0.2\"]");
        world.add_user("ann");
        world.add_user("ben");
        let server = world.serve_at(LISTEN);
        let url = server.url.clone();
        world.sync("ann", &server);
        world.sync("ben", &server);
        server.stop();
        let server = world.serve_at_with(&url, "server-upload-before-commit=1*sleep(2500)");
        let balancer = Balancer::start(&server, Handing::RequestsOverHttp2);
        for (round, rows) in [(1, 1), (2, 70), (3, 5000)] {
            world.add_notes("ann", round * 10_000, rows);
            sync_by(&world, &server, "ann", &balancer);
            sync_by(&world, &server, "ben", &balancer);
            world.assert_converged(&["ann", "ben"]);
        }
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("synchronized"));
        assert!(lines.clone().count() >= 8, "{log}");
        assert!(lines.clone().all(|line| line.contains("peer=\"127.0.0.1")), "{log}");
        server.stop();
    }
}

// S9: requests, windows and heads have the limits that the server announces.
#[test]
fn a_connection_has_a_hundred_requests_at_a_time() {
    let world = world("");
    let server = world.serve_at(LISTEN);
    let mut client = Client::connect(&server.url, &[]);
    let settings = client.until(|frame| frame.kind == SETTINGS && frame.flags == 0).pop().unwrap();
    let value = |name: u16| {
        let pairs = settings.payload.chunks(6).map(|it| it.split_at(2));
        let mut values = pairs.filter(|(it, _)| *it == name.to_be_bytes());
        values.next().map(|(_, value)| u32::from_be_bytes(value.try_into().unwrap()))
    };
    assert_eq!(
        (value(3), value(INITIAL_WINDOW), value(6)),
        (Some(100), Some(65_536), Some(16_384))
    );
    client.send(SETTINGS, ACKNOWLEDGED, 0, &[]);
    for number in 0..101 {
        client.post(2 * number + 1, b"SYNC", 0);
    }
    let refused = client.until(|frame| frame.kind == RESET).pop().unwrap();
    assert_eq!((refused.stream, refused.reason()), (201, REFUSED_STREAM));
    // The others are as they were.
    let whole = ping("ann", "ann-password");
    client.send(DATA, END_STREAM, 1, &whole[4..]);
    let frames = client.until(|frame| frame.stream == 1 && frame.flags & END_STREAM != 0);
    assert!(matches!(messages(&body(&frames, 1))[..], [Message::Welcome(_)]));
    server.stop();
}

// S9: each of these floods has brought down servers.
#[test]
fn floods_end_the_connection_and_nothing_else() {
    let world = world("");
    let server = world.serve_at(LISTEN);
    // Requests that are reset at once.
    let mut client = Client::connect(&server.url, &[]);
    for number in 0..100_000 {
        let stream = 2 * number + 1;
        let sent = client.send(HEADERS, END_HEADERS, stream, POST)
            && client.send(RESET, 0, stream, &8_u32.to_be_bytes());
        if !sent {
            break;
        }
    }
    assert!(matches!(client.end(), Some(ENHANCE_YOUR_CALM) | None));
    // A head that never ends.
    let mut client = Client::connect(&server.url, &[]);
    client.send(HEADERS, 0, 1, POST);
    let sent = (0..100_000).take_while(|_| client.send(CONTINUATION, 0, 1, &[])).count();
    assert!(sent < 100_000, "the server reads it all");
    // A head that is long.
    let mut client = Client::connect(&server.url, &[]);
    let mut long = POST.to_vec();
    long.extend([0x00, 0x01, b'x', 0x7f, 0xad, 0x7e]);
    long.extend([b'y'; 16_300]);
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &long);
    let frames = client.until(|frame| frame.stream == 1 || frame.kind == GO_AWAY);
    let last = frames.last().unwrap();
    assert!(matches!(last.kind, RESET | GO_AWAY | HEADERS), "{last:?}");
    assert!(body(&frames, 1).is_empty());
    // Everybody else is served.
    let answered =
        post(&world, &server.url, &ping("ann", "ann-password"), &["--http2-prior-knowledge"]);
    assert_eq!(answered.1, 200);
    assert!(!server.log().contains("panicked"));
    server.stop();
}

// S9: neither a connection without a request nor one without a preface is held for long.
#[test]
fn silence_is_ended() {
    let world = world("hello_timeout_s = 1\nidle_timeout_s = 1");
    let server = world.serve_at(LISTEN);
    let mut silent = Client::silent(&server.url);
    assert_eq!(silent.receive(), None);
    let mut half = Client::silent(&server.url);
    half.write(b"PRI * HTTP/2.0\r\n");
    assert_eq!(half.receive(), None);
    let mut idle = Client::connect(&server.url, &[]);
    assert_eq!(idle.end(), Some(0), "it goes away without an error");
    // What is left of a response does not hold it either, though the peer goes on talking.
    let mut stalled = Client::connect(&server.url, &[(INITIAL_WINDOW, 0)]);
    stalled.send(HEADERS, END_HEADERS | END_STREAM, 1, GET_HEALTH);
    until("the end", || !stalled.send(PING, 0, 0, &[7; 8]));
    // A request that does not come to its end is told so.
    let mut begun = Client::connect(&server.url, &[]);
    begun.post(1, &ping("ann", "ann-password")[..20], 0);
    let frames = begun.until(|frame| frame.stream == 1 && frame.flags & END_STREAM != 0);
    let [Message::Failed(failed)] = &messages(&body(&frames, 1))[..] else { panic!("{frames:?}") };
    assert_eq!(failed.code, Code::PeerSilent.number());
    server.stop();
}

/// A download of 4 MB.
fn large(world: &World) {
    world.center_sql(
        "WITH RECURSIVE n(id) AS (VALUES(10) UNION ALL SELECT id + 1 FROM n WHERE id < 2000) \
         INSERT INTO note SELECT id, hex(randomblob(1000)) FROM n",
    );
}

// S9: progress is what the peer takes of this response, not of others on the same connection.
#[test]
fn a_response_that_is_not_read_is_ended_and_its_neighbor_is_not() {
    let world = world(
        "idle_timeout_s = 1\nprogress_window_s = 1\nheartbeat_interval_s = 1\nhello_timeout_s = 2",
    );
    world.add_user("ben");
    large(&world);
    let server = world.serve_at(LISTEN);
    let mut client = Client::connect(&server.url, &[(INITIAL_WINDOW, 20_000)]);
    client.send(WINDOW, 0, 0, &(1_u32 << 30).to_be_bytes());
    client.send(SETTINGS, ACKNOWLEDGED, 0, &[]);
    client.post(1, &download("ann", "stalled"), END_STREAM);
    client.post(3, &download("ben", "reading"), END_STREAM);
    // The first is never granted more than it has, and the second whatever it takes.
    let granted = |frame: &Frame, client: &mut Client| {
        if frame.kind == DATA && frame.stream == 3 && !frame.payload.is_empty() {
            let n = u32::try_from(frame.payload.len()).unwrap();
            client.send(WINDOW, 0, 3, &n.to_be_bytes());
        }
    };
    let mut frames = Vec::new();
    let ended = |frames: &[Frame], stream| {
        frames.iter().any(|it| {
            it.stream == stream && (it.kind == RESET || it.flags & END_STREAM != 0 && it.kind < 2)
        })
    };
    while !(ended(&frames, 1) && ended(&frames, 3)) {
        let frame = client.receive().expect("the connection goes on");
        granted(&frame, &mut client);
        frames.push(frame);
    }
    assert!(body(&frames, 1).len() <= 20_000);
    assert!(body(&frames, 3).len() > 2_000_000, "{}", body(&frames, 3).len());
    until("the log", || server.log().contains("stalled"));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("remote=\"stalled\"")).unwrap_or(&log);
    assert!(line.contains("E1007") || line.contains("E4271"), "{line}");
}

// S10: a server that stops finishes what it has begun, and says so to the connection.
#[test]
fn a_server_that_stops_goes_away_and_finishes_its_responses() {
    let world = world("");
    large(&world);
    let mut server = world.serve_at(LISTEN);
    let mut client = Client::connect(&server.url, &[(INITIAL_WINDOW, 20_000)]);
    client.send(WINDOW, 0, 0, &(1_u32 << 30).to_be_bytes());
    client.send(SETTINGS, ACKNOWLEDGED, 0, &[]);
    client.post(1, &download("ann", "r"), END_STREAM);
    let mut frames = client.until(|frame| frame.kind == DATA);
    server.terminate();
    frames.extend(client.until(|frame| frame.kind == GO_AWAY));
    assert_eq!(frames.last().map(Frame::reason), Some(0));
    client.send(WINDOW, 0, 1, &(1_u32 << 30).to_be_bytes());
    frames.extend(client.until(|frame| frame.stream == 1 && frame.flags & END_STREAM != 0));
    let messages = messages(&body(&frames, 1));
    assert!(matches!(messages.last(), Some(Message::DownloadEnd(_))), "{}", messages.len());
    assert!(server.wait().success());
}
