//! A proxy between remotes and their server that reads what both say.
//!
//! It passes every frame as it is until a test wants otherwise: a [`Fault`] that strikes once, a
//! rule that decides about every message, or an end after
//! so many bytes. So a test has the real server, and still every accident and every lie.
//! [`Network`](crate::Network) knows only bytes, and stalls.
//!
//! ```no_run
//! use harness::{Fault, Proxy, Side, Verdict};
//! use protocol::Message;
//!
//! let proxy = Proxy::new("tcp://127.0.0.1:2439");
//! // The acknowledgement of the next upload is lost.
//! proxy.strike(Fault::AfterCommit);
//! // The server announces more rows than it sends.
//! proxy.obey(|from, message| match (from, message) {
//!     (Side::Server, Message::DownloadEnd(end)) => {
//!         let mut end = end.clone();
//!         end.rows += 1;
//!         Verdict::Replace(vec![Message::DownloadEnd(end)])
//!     }
//!     _ => Verdict::Pass,
//! });
//! // And now it is honest again.
//! proxy.pass_all();
//! ```
//!
//! An end is seen in the same order every time: first the server has closed, then the client
//! learns of it. So the next synchronization never meets the one before at the server.

mod conduct;
mod connection;
mod fault;
mod verdict;

pub use fault::Fault;
pub use verdict::{Side, Verdict};

use conduct::Shared;
use connection::Connection;
use protocol::{Hello, Message, RowsFrame};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// A running proxy. It ends with this value, and its connections with it.
#[derive(Debug)]
pub struct Proxy {
    /// What clients connect to, for example `tcp://127.0.0.1:40123`.
    pub url: String,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
}

/// Those that were made, as long as there is a proxy.
#[derive(Debug)]
struct Connections(Mutex<Option<Vec<Weak<Connection>>>>);

impl Default for Connections {
    fn default() -> Connections {
        Connections(Mutex::new(Some(Vec::new())))
    }
}

impl Proxy {
    /// A proxy in front of the server at this URL.
    pub fn new(server_url: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::new(address(server_url)));
        let connections = Arc::new(Connections::default());
        let accepting = (shared.clone(), connections.clone());
        thread::spawn(move || accept(&listener, &accepting.0, &accepting.1));
        Proxy { url, shared, connections }
    }

    /// From now on new connections go to the server at this URL.
    pub fn lead_to(&self, server_url: &str) {
        self.shared.conduct().server = address(server_url);
    }

    /// From now on this decides about every message, also about those of open connections.
    pub fn obey(&self, rule: impl FnMut(Side, &Message) -> Verdict + Send + 'static) {
        self.shared.conduct().rule = Box::new(rule);
    }

    /// This fault happens once, at the next opportunity.
    pub fn strike(&self, fault: Fault) {
        self.obey(fault.rule());
    }

    /// Whatever was to happen and has not happens no more.
    pub fn pass_all(&self) {
        self.obey(|_, _| Verdict::Pass);
        self.shared.conduct().left = [None; 2];
    }

    /// From now on this changes messages, before a rule decides about them.
    pub fn forge(&self, forger: impl FnMut(Side, &mut Message) + Send + 'static) {
        self.shared.conduct().forger = Box::new(forger);
    }

    /// Whether a sign of life comes in front of every message of the server.
    pub fn beat(&self, beats: bool) {
        self.shared.conduct().beats = beats;
    }

    /// The connection ends after this many more bytes from this side, also within a frame.
    pub fn cut_after(&self, from: Side, bytes: usize) {
        self.shared.conduct().left[from as usize] = Some(bytes);
    }

    /// Keeps rows among what was heard, which is otherwise everything but them.
    pub fn keep_rows(&self) {
        self.shared.conduct().keeps_rows = true;
    }

    /// What was said since the last [`Proxy::forget`], as its sender said it, passed or not.
    pub fn heard(&self) -> Vec<(Side, Message)> {
        self.shared.conduct().heard.clone()
    }

    /// Every Hello among it.
    pub fn hellos(&self) -> Vec<Hello> {
        let hello = |(_, message)| match message {
            Message::Hello(hello) => Some(*hello),
            _ => None,
        };
        self.heard().into_iter().filter_map(hello).collect()
    }

    /// The rows of the last upload among it, if they are kept.
    pub fn last_upload(&self) -> Vec<RowsFrame> {
        let mut rows = Vec::new();
        for (from, message) in self.heard() {
            match (from, message) {
                (Side::Client, Message::UploadBegin(_)) => rows.clear(),
                (Side::Client, Message::Rows(frame)) => rows.push(frame),
                _ => {}
            }
        }
        rows
    }

    /// Forgets what was heard.
    pub fn forget(&self) {
        self.shared.conduct().heard.clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.connections.end();
        // Whoever accepts wakes up and sees that it is over.
        let _ = TcpStream::connect(address(&self.url));
    }
}

impl Connections {
    fn end(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in all.take().iter().flatten().filter_map(Weak::upgrade) {
            connection.close();
        }
    }
}

fn address(url: &str) -> String {
    url.strip_prefix("tcp://").unwrap_or(url).to_owned()
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, connections: &Connections) {
    for client in listener.incoming().map_while(Result::ok) {
        let mut all = connections.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = &mut *all else { return };
        let server = shared.conduct().server.clone();
        // A server that is gone looks like one through any network.
        let Ok(server) = TcpStream::connect(server) else { continue };
        all.push(connection::start(shared, client, server));
    }
}
