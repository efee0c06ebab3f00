//! A road between remotes and their server: long, narrow, with holes, or closed after a silence.
//!
//! What a program can do without the kernel: bytes take their time and their turn. A lost packet
//! of TCP comes later, and all behind it wait.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a packet.
const PACKET_BYTES: usize = 1400;

/// Packets that are on their way at most. A sender waits for the rest.
const PACKETS_MAX: usize = 64;

/// How much later a lost packet comes.
const LOST: Duration = Duration::from_millis(200);

/// How often it is seen whether somebody was silent for too long.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What the road is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// How long a packet takes.
    pub latency: Duration,
    /// Each direction; none: any number.
    pub bytes_per_s: Option<u32>,
    /// Of so many packets one is lost and comes later; 0: none is.
    pub lost_one_of: u32,
    /// Without a byte in either direction for so long, the connection ends.
    pub silence_max: Option<Duration>,
}

/// A road. It ends with the program.
#[derive(Debug)]
pub struct Road {
    address: String,
    cut: Arc<Mutex<usize>>,
}

impl Road {
    /// The road to the server at this URL.
    pub fn to(server_url: &str, rules: Rules) -> Road {
        let (_, rest) = server_url.split_once("://").unwrap();
        let server = rest.split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cut = Arc::new(Mutex::new(0));
        let counted = cut.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is gone looks like one by any road.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                join(&client, &server, rules, &counted);
            }
        });
        Road { address, cut }
    }

    /// What clients connect to who speak to the server at this URL.
    pub fn url_of(&self, server_url: &str) -> String {
        let (scheme, rest) = server_url.split_once("://").unwrap();
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        format!("{scheme}://{}{path}", self.address)
    }

    /// Connections that were ended for their silence.
    pub fn cut(&self) -> usize {
        *self.cut.lock().unwrap()
    }
}

fn join(client: &TcpStream, server: &TcpStream, rules: Rules, cut: &Arc<Mutex<usize>>) {
    let last = Arc::new(Mutex::new(Some(Instant::now())));
    for (from, to) in [(client, server), (server, client)] {
        from.set_nodelay(true).unwrap();
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let (sender, receiver) = sync_channel(PACKETS_MAX);
        let last = last.clone();
        thread::spawn(move || send(from, &sender, rules, &last));
        thread::spawn(move || arrive(to, &receiver));
    }
    let Some(limit) = rules.silence_max else { return };
    let (client, server, cut) =
        (client.try_clone().unwrap(), server.try_clone().unwrap(), cut.clone());
    thread::spawn(move || {
        loop {
            // The lock is not held while this thread sleeps: those that move bytes wait for it.
            let at = *last.lock().unwrap();
            let Some(at) = at else { return };
            if at.elapsed() > limit {
                *cut.lock().unwrap() += 1;
                // One that has closed meanwhile is as good.
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    });
}

/// A packet, and when it arrives. An empty one is the end.
type Packet = (Instant, Vec<u8>);

fn send(
    mut from: TcpStream,
    packets: &SyncSender<Packet>,
    rules: Rules,
    last: &Mutex<Option<Instant>>,
) {
    let (mut packet, mut number, mut free_at) = ([0; PACKET_BYTES], 0_u32, Instant::now());
    loop {
        let len = match from.read(&mut packet) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.unwrap_or(0),
        };
        number += 1;
        let now = Instant::now();
        let takes = rules.bytes_per_s.map_or(0.0, |rate| len as f64 / f64::from(rate));
        free_at = free_at.max(now) + Duration::from_secs_f64(takes);
        if rules.lost_one_of > 0 && number % rules.lost_one_of == 0 {
            free_at += LOST;
        }
        let mut at = last.lock().unwrap();
        *at = if len == 0 { None } else { at.map(|_| now) };
        drop(at);
        let sent = packets.send((free_at + rules.latency, packet[..len].to_vec()));
        if sent.is_err() || len == 0 {
            return;
        }
    }
}

fn arrive(mut to: TcpStream, packets: &Receiver<Packet>) {
    for (at, bytes) in packets {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    // It may be closed already.
    let _ = to.shutdown(Shutdown::Write);
}
