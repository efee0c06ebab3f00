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
    /// Each connection ends behind so many bytes of the server.
    pub bytes_max: Option<usize>,
}

#[derive(Debug, Default)]
struct Counted {
    /// Connections that the road has ended.
    cut: usize,
    /// Bytes of the server that have passed.
    bytes: usize,
}

/// A road. It ends with the program.
#[derive(Debug)]
pub struct Road {
    address: String,
    counted: Arc<Mutex<Counted>>,
}

impl Road {
    /// The road to the server at this URL.
    pub fn to(server_url: &str, rules: Rules) -> Road {
        let (_, rest) = server_url.split_once("://").unwrap();
        let server = rest.split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counted = Arc::<Mutex<Counted>>::default();
        let counting = counted.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is gone looks like one by any road.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                join(&client, &server, rules, &counting);
            }
        });
        Road { address, counted }
    }

    /// What clients connect to who speak to the server at this URL.
    pub fn url_of(&self, server_url: &str) -> String {
        let (scheme, rest) = server_url.split_once("://").unwrap();
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        format!("{scheme}://{}{path}", self.address)
    }

    /// Connections that were ended for their silence or their bytes.
    pub fn cut(&self) -> usize {
        self.counted.lock().unwrap().cut
    }

    /// Bytes of the server that have passed.
    pub fn bytes(&self) -> usize {
        self.counted.lock().unwrap().bytes
    }
}

fn join(client: &TcpStream, server: &TcpStream, rules: Rules, counted: &Arc<Mutex<Counted>>) {
    let last = Arc::new(Mutex::new(Some(Instant::now())));
    for (from, to, counted) in [(client, server, None), (server, client, Some(counted))] {
        from.set_nodelay(true).unwrap();
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let (sender, receiver) = sync_channel(PACKETS_MAX);
        let (last, counted) = (last.clone(), counted.cloned());
        thread::spawn(move || send(from, &sender, rules, &last, counted.as_deref()));
        thread::spawn(move || arrive(to, &receiver));
    }
    let Some(limit) = rules.silence_max else { return };
    let (client, server, counted) =
        (client.try_clone().unwrap(), server.try_clone().unwrap(), counted.clone());
    thread::spawn(move || {
        loop {
            // The lock is not held while this thread sleeps: those that move bytes wait for it.
            let at = *last.lock().unwrap();
            let Some(at) = at else { return };
            if at.elapsed() > limit {
                counted.lock().unwrap().cut += 1;
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

/// `counted` is there for bytes of the server.
fn send(
    mut from: TcpStream,
    packets: &SyncSender<Packet>,
    rules: Rules,
    last: &Mutex<Option<Instant>>,
    counted: Option<&Mutex<Counted>>,
) {
    let (mut packet, mut number, mut free_at) = ([0; PACKET_BYTES], 0_u32, Instant::now());
    let mut left = counted.and(rules.bytes_max).unwrap_or(usize::MAX);
    loop {
        let wanted = left.min(PACKET_BYTES);
        let len = match from.read(&mut packet[..wanted]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.unwrap_or(0),
        };
        left -= len;
        if let Some(counted) = counted {
            let mut counted = counted.lock().unwrap();
            counted.bytes += len;
            if wanted == 0 {
                counted.cut += 1;
                // One that has closed meanwhile is as good.
                let _ = from.shutdown(Shutdown::Both);
            }
        }
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
