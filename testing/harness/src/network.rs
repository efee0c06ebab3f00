//! A network between remotes and their server that can stand still without a word.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Bytes passed on at once.
const BUFFER_BYTES: usize = 16 << 10;

/// Passes bytes between clients and a server until it has to stall. While it stalls nobody
/// learns that anybody has died, as with a phone in a tunnel.
#[derive(Debug)]
pub struct Network {
    /// What clients connect to, for example `tcp://127.0.0.1:40123`.
    pub url: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    flow: Mutex<Flow>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Flow {
    /// Where the server is, once there is one.
    server: Option<String>,
    /// Bytes that still pass, from clients and to clients; none: all.
    up: Option<usize>,
    down: Option<usize>,
    stalled: bool,
    ended: bool,
    streams: Vec<TcpStream>,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Up,
    Down,
}

impl Network {
    /// A network in front of the server at this URL.
    pub fn new(server_url: &str) -> Network {
        let network = Network::without_server();
        network.lead_to(server_url);
        network
    }

    /// A network with nobody behind it, so that an address is known before its server starts.
    pub fn without_server() -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = shared.flow.lock().unwrap().server.clone();
                // A server that is gone, or not there yet, looks like one through any network.
                let Some(Ok(server)) = server.map(TcpStream::connect) else { continue };
                connect(&shared, &client, &server);
            }
        });
        Network { url, state }
    }

    /// From now on new connections go to the server at this URL.
    pub fn lead_to(&self, server_url: &str) {
        let (_, server) = server_url.split_once("://").unwrap();
        let server = server.split('/').next().unwrap();
        self.state.flow.lock().unwrap().server = Some(server.to_owned());
    }

    /// What clients connect to who speak to the server at this URL.
    pub fn url_of(&self, server_url: &str) -> String {
        let (scheme, rest) = server_url.split_once("://").unwrap();
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        format!("{scheme}://{}{path}", self.url.strip_prefix("tcp://").unwrap())
    }

    /// Stalls everything after this many more bytes from clients.
    pub fn stall_upload_after(&self, bytes: usize) {
        self.state.flow.lock().unwrap().up = Some(bytes);
    }

    /// Stalls everything after this many more bytes to clients.
    pub fn stall_download_after(&self, bytes: usize) {
        self.state.flow.lock().unwrap().down = Some(bytes);
    }

    /// Whether it has come to that.
    pub fn is_stalled(&self) -> bool {
        self.state.flow.lock().unwrap().stalled
    }

    /// Passes on what was held back, and all that follows.
    pub fn resume(&self) {
        let mut flow = self.state.flow.lock().unwrap();
        (flow.up, flow.down, flow.stalled) = (None, None, false);
        self.state.changed.notify_all();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let mut flow = self.state.flow.lock().unwrap();
        flow.ended = true;
        for stream in &flow.streams {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.state.changed.notify_all();
    }
}

fn connect(state: &Arc<State>, client: &TcpStream, server: &TcpStream) {
    let copy = |stream: &TcpStream| stream.try_clone().unwrap();
    state.flow.lock().unwrap().streams.extend([copy(client), copy(server)]);
    let ways = [
        (copy(client), copy(server), Direction::Up),
        (copy(server), copy(client), Direction::Down),
    ];
    for (from, to, direction) in ways {
        let state = state.clone();
        thread::spawn(move || pass(&state, from, to, direction));
    }
}

/// Passes bytes on until one side closes; the end is passed on like a byte.
fn pass(state: &State, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = from.read(&mut buffer).unwrap_or(0);
        let mut rest = &buffer[..len];
        loop {
            let allowed = state.allowed(direction, rest.len());
            let (now, later) = rest.split_at(allowed.unwrap_or(0));
            let lost = allowed.is_none() || to.write_all(now).is_err();
            if later.is_empty() && !lost && len > 0 {
                break;
            }
            if lost || (len == 0 && state.flows()) {
                // Nobody may learn of an end while everything stands still.
                let _ = state.allowed(direction, 0);
                let _ = to.shutdown(Shutdown::Write);
                let _ = from.shutdown(Shutdown::Read);
                return;
            }
            rest = later;
        }
    }
}

impl State {
    /// Waits while everything stands still; says how many of `wanted` bytes may pass, and nothing
    /// once the network is gone.
    fn allowed(&self, direction: Direction, wanted: usize) -> Option<usize> {
        let flow = self.flow.lock().unwrap();
        let mut flow = self.changed.wait_while(flow, |it| it.stalled && !it.ended).unwrap();
        if flow.ended {
            return None;
        }
        let left = match direction {
            Direction::Up => &mut flow.up,
            Direction::Down => &mut flow.down,
        };
        let Some(left) = left else { return Some(wanted) };
        let allowed = wanted.min(*left);
        *left -= allowed;
        if *left == 0 {
            flow.stalled = true;
        }
        Some(allowed)
    }

    fn flows(&self) -> bool {
        !self.flow.lock().unwrap().stalled
    }
}
