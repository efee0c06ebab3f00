//! A program with an event loop of its own drives a synchronization with a real server.
//!
//! Its socket never blocks. It receives while it sends, a few bytes at a time, and it may end after
//! any step, as an app that the system kills.

use client::{Components, Conversation, Credential, Event, Host, Mode, Next, Remote, Report};
use client::{Request, Settings, Step};
use harness::{Server, World, sql};
use model::{Failure, UserName};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NOTES: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, n INTEGER)";

/// Bytes that the loop takes from its socket at once.
const BYTES_MAX: usize = 61;

/// A server may answer Hello before a small upload behind it has left.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// A program around one remote.
struct App {
    remote: Remote,
    address: String,
    credential: Credential,
}

impl App {
    /// Starts again, with what is in the file.
    fn start(world: &World, server: &Server, credential: Credential) -> App {
        let folder = world.path("");
        let path = world.remote("ann");
        let mut remote =
            Remote::open_or_create(&path, Components::system(&folder).unwrap()).unwrap();
        let user = Some(UserName::new("ann").unwrap());
        remote.remember(&Settings { user, ..Settings::default() }).unwrap();
        let address = server.url.strip_prefix("tcp://").unwrap().to_owned();
        App { remote, address, credential }
    }

    /// Synchronizes, or ends after so many steps.
    fn synchronize(&mut self, bytes_max: usize, steps_max: usize) -> Option<Report> {
        let request = Request {
            mode: Mode::Full,
            credential: self.credential.clone(),
            client: "a test".into(),
        };
        let claim = self.remote.claim().unwrap();
        let mut conversation = Conversation::begin(&self.remote, claim, request).unwrap();
        let mut socket = Socket::new(&self.address, bytes_max);
        let mut event = Event::Tick;
        for _ in 0..steps_max {
            event = match conversation.step(&mut self.remote, event, &mut Quiet).unwrap() {
                Next::Connect { .. } => socket.connect(),
                Next::Send(bytes) => socket.send(&bytes),
                Next::Wait { .. } => socket.wait(),
                Next::Done(report) => return Some(*report),
            };
        }
        None
    }
}

/// Shows nothing. None of these uploads takes long enough for a heartbeat.
struct Quiet;

impl Host for Quiet {
    fn show(&mut self, _: Step) {}

    fn send_now(&mut self, _: Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

/// A socket that never blocks.
struct Socket {
    address: String,
    stream: Option<TcpStream>,
    unsent: Vec<u8>,
    received: Vec<u8>,
    bytes_max: usize,
}

impl Socket {
    fn new(address: &str, bytes_max: usize) -> Socket {
        let (stream, unsent, received) = (None, Vec::new(), Vec::new());
        Socket { address: address.to_owned(), stream, unsent, received, bytes_max }
    }

    fn connect(&mut self) -> Event<'_> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        self.stream = Some(stream);
        self.unsent.clear();
        Event::Connected
    }

    fn send(&mut self, bytes: &[u8]) -> Event<'_> {
        assert!(self.unsent.len() < UNSENT_BYTES_MAX, "what has not left is not piled up");
        self.unsent.extend_from_slice(bytes);
        self.wait()
    }

    /// What happens next: something was received, or everything has left.
    fn wait(&mut self) -> Event<'_> {
        let stream = self.stream.as_mut().unwrap();
        self.received.resize(self.bytes_max, 0);
        loop {
            match stream.read(&mut self.received) {
                Ok(0) => return Event::Closed,
                Ok(len) => return Event::Received(&self.received[..len]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if self.unsent.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            match stream.write(&self.unsent) {
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if self.unsent.is_empty() {
                return Event::Sent;
            }
        }
    }
}

fn world_and_token(world: &World, server: &Server) -> Credential {
    let password = Credential::Password("ann-password".into());
    let report = App::start(world, server, password).synchronize(BYTES_MAX, usize::MAX).unwrap();
    Credential::Token(report.token.unwrap())
}

/// Both sides write, so that every part of a synchronization has something to do.
fn write(world: &World, round: usize) {
    let id = 10 * round;
    sql(
        &world.remote("ann"),
        &format!(
            "INSERT INTO note VALUES ({id}, 'first', 0), ({id} + 1, 'second', 0);
             UPDATE note SET n = n + 1 WHERE id IN ({id} - 10, {id} - 9);
             DELETE FROM note WHERE id = {id} - 19"
        ),
    );
    world.center_sql(&format!("INSERT INTO note VALUES (-{id}, 'center', 0)"));
}

/// A row that arrives twice is a conflict, and so is a change that does.
fn ends_anywhere(world: &World) {
    world.add_user("ann");
    let server = world.serve();
    let token = world_and_token(world, &server);
    let mut steps_max = 0;
    loop {
        steps_max += 1;
        write(world, steps_max);
        let mut app = App::start(world, &server, token.clone());
        let ended = app.synchronize(BYTES_MAX, steps_max);
        drop(app);
        sql(&world.remote("ann"), &format!("UPDATE note SET n = 7 WHERE id = 10 * {steps_max}"));
        let mut app = App::start(world, &server, token.clone());
        let report = app.synchronize(BYTES_MAX, usize::MAX).unwrap();
        assert_eq!((report.conflicts, report.rejected), (0, 0), "after {steps_max} steps");
        world.assert_converged(&["ann"]);
        if ended.is_some() {
            break;
        }
    }
    assert!(steps_max > 8, "it was cut into {steps_max} steps");
    server.stop();
}

// S1, S3, S4
#[test]
fn a_program_that_ends_after_any_step_loses_and_doubles_nothing() {
    ends_anywhere(&World::new(PROGRAM, NOTES));
}

// S1, S3, S4
#[test]
fn a_program_that_ends_after_any_step_loses_and_doubles_nothing_on_postgres() {
    ends_anywhere(&World::on_postgres(PROGRAM, NOTES));
}

// S3, S9: more than any buffer of the network holds, so the loop is told to wait.
#[test]
fn an_event_loop_uploads_and_downloads_more_than_the_network_holds() {
    let world = World::new(PROGRAM, NOTES);
    world.add_user("ann");
    let server = world.serve();
    let token = world_and_token(&world, &server);
    let many = |first: i64| {
        format!(
            "WITH RECURSIVE number(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number
             WHERE n < {first} + 39999) INSERT INTO note SELECT n, printf('%0200d', n), 0
             FROM number"
        )
    };
    sql(&world.remote("ann"), &many(1));
    world.center_sql(&many(1_000_000));
    let mut app = App::start(&world, &server, token);
    let report = app.synchronize(64 << 10, usize::MAX).unwrap();
    assert_eq!((report.uploaded.inserts, report.downloaded.upserts), (40_000, 40_000));
    world.assert_converged(&["ann"]);
    server.stop();
}
