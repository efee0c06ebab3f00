//! A connection to a directory, for one question. It ends with it, and at its deadline.

use super::ber;
use super::message::{Conclusion, Entry, Request, Response, Search, decode};
use super::server::{DirectoryServer, Encryption, Tls};
use crate::authenticate::outside::answer::{no_answer, unavailable};
use model::{Clock, Failure, cut};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The largest message of a directory. One entry is read, with the attributes that are claims.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Most messages that answer one search.
const MESSAGES_MAX: usize = 64;

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// What is logged of the words of a directory.
const WORDS_BYTES_MAX: usize = 300;

/// The number of the first message.
const FIRST_ID: i32 = 1;

pub(super) const SUCCESS: i64 = 0;

/// A connection that has a deadline.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    last_id: i32,
}

/// Bytes in both directions, in clear text or encrypted.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Bytes to and from the directory, until the deadline.
struct Wire {
    tcp: TcpStream,
    clock: Arc<dyn Clock>,
    until_ms: u64,
}

impl Connection {
    /// Connects, and encrypts where that is wanted.
    pub(super) fn open(
        server: &DirectoryServer,
        clock: &Arc<dyn Clock>,
        timeout: Duration,
    ) -> Result<Connection, Failure> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let until_ms = clock.monotonic_ms().saturating_add(timeout_ms);
        let failed = |error| unavailable(&format!("{server}: {error}"));
        let mut wire = Wire::connect(server, clock.clone(), until_ms).map_err(failed)?;
        let (tls, last_id) = match &server.encryption {
            Encryption::None => return Ok(Connection { stream: Box::new(wire), last_id: 0 }),
            Encryption::Tls(tls) => (tls, 0),
            Encryption::StartTls(tls) => {
                start_tls(&mut wire, FIRST_ID)?;
                (tls, FIRST_ID)
            }
        };
        // No byte was read behind the answer, so nothing that came in clear text counts afterwards.
        let stream = encrypt(tls, wire).map_err(failed)?;
        Ok(Connection { stream: Box::new(stream), last_id })
    }

    /// Says who asks, and how that ended.
    pub(super) fn bind(&mut self, name: &str, password: &str) -> Result<Conclusion, Failure> {
        let id = self.send(&Request::Bind { name, password })?;
        match receive(&mut self.stream, id)? {
            Response::Bound(conclusion) => Ok(conclusion),
            _ => Err(unexpected()),
        }
    }

    /// The entries that are found, and how the search ended.
    pub(super) fn search(
        &mut self,
        search: &Search<'_>,
    ) -> Result<(Vec<Entry>, Conclusion), Failure> {
        let id = self.send(&Request::Search(search))?;
        let mut entries = Vec::new();
        for _ in 0..MESSAGES_MAX {
            match receive(&mut self.stream, id)? {
                Response::Entry(entry) => entries.push(entry),
                Response::Reference => {}
                Response::SearchDone(conclusion) => return Ok((entries, conclusion)),
                Response::Bound(_) | Response::Extended(_) => return Err(unexpected()),
            }
        }
        Err(no_answer(&format!("it has more than {MESSAGES_MAX} messages for one search")))
    }

    fn send(&mut self, request: &Request<'_>) -> Result<i32, Failure> {
        self.last_id += 1;
        send(&mut self.stream, request, self.last_id).map(|()| self.last_id)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A directory need not hear it; it frees its side sooner where it does.
        let bytes = Request::Unbind.encode(self.last_id.saturating_add(1));
        let _ = self.stream.write_all(&bytes).and_then(|()| self.stream.flush());
    }
}

fn start_tls(wire: &mut Wire, id: i32) -> Result<(), Failure> {
    send(wire, &Request::StartTls, id)?;
    match receive(wire, id)? {
        Response::Extended(conclusion) if conclusion.code == SUCCESS => Ok(()),
        Response::Extended(conclusion) => Err(refused("StartTLS", &conclusion)),
        _ => Err(unexpected()),
    }
}

fn send(stream: &mut impl Write, request: &Request<'_>, id: i32) -> Result<(), Failure> {
    let sent = stream.write_all(&request.encode(id)).and_then(|()| stream.flush());
    sent.map_err(|error| lost(&error))
}

fn receive(stream: &mut impl Read, id: i32) -> Result<Response, Failure> {
    let bytes = read_message(stream)?;
    let (of, response) = decode(&bytes).map_err(|_| malformed())?;
    match of == i64::from(id) {
        true => Ok(response),
        // Such a message of its own is the notice that it ends the connection.
        false if of == 0 => Err(unavailable("it has ended the connection")),
        false => Err(unexpected()),
    }
}

/// Exactly the bytes of one message.
fn read_message(stream: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; 2];
    stream.read_exact(&mut bytes).map_err(|error| lost(&error))?;
    if bytes[0] != ber::SEQUENCE {
        return Err(malformed());
    }
    loop {
        match ber::head(&bytes).map_err(|_| malformed())? {
            Some((_, length)) if length > MESSAGE_BYTES_MAX => {
                let message = format!("it sends more than {MESSAGE_BYTES_MAX} bytes at once");
                return Err(no_answer(&message));
            }
            Some((head, length)) => {
                bytes.resize(head + length, 0);
                stream.read_exact(&mut bytes[head..]).map_err(|error| lost(&error))?;
                return Ok(bytes);
            }
            None => {
                bytes.push(0);
                let last = bytes.len() - 1;
                stream.read_exact(&mut bytes[last..]).map_err(|error| lost(&error))?;
            }
        }
    }
}

impl Wire {
    fn connect(server: &DirectoryServer, clock: Arc<dyn Clock>, until_ms: u64) -> io::Result<Wire> {
        let addresses = (server.host.as_str(), server.port).to_socket_addrs()?;
        let mut fault = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in addresses.take(ADDRESSES_MAX) {
            let timeout = left(clock.as_ref(), until_ms)?;
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    return Ok(Wire { tcp, clock, until_ms });
                }
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    fn left(&self) -> io::Result<Duration> {
        left(self.clock.as_ref(), self.until_ms)
    }
}

/// The time that is left; none is a fault.
fn left(clock: &dyn Clock, until_ms: u64) -> io::Result<Duration> {
    match until_ms.saturating_sub(clock.monotonic_ms()) {
        0 => Err(ErrorKind::TimedOut.into()),
        left_ms => Ok(Duration::from_millis(left_ms)),
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(Some(self.left()?))?;
        self.tcp.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(Some(self.left()?))?;
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

/// Encrypts, once it is certain who answers.
fn encrypt(tls: &Tls, mut wire: Wire) -> io::Result<StreamOwned<ClientConnection, Wire>> {
    let mut session = ClientConnection::new(tls.config.clone(), tls.server_name.clone())
        .map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut wire)?;
    }
    Ok(StreamOwned::new(session, wire))
}

fn malformed() -> Failure {
    no_answer("it sends what is no message of LDAP")
}

fn lost(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => unavailable("the time is over"),
        _ => unavailable(&error.to_string()),
    }
}

fn unexpected() -> Failure {
    no_answer("it answers what was not asked")
}

/// The failure of a request that the directory does not do. What it says is for the log.
pub(super) fn refused(what: &str, conclusion: &Conclusion) -> Failure {
    const TIME_LIMIT: i64 = 3;
    const REFERRAL: i64 = 10;
    const BUSY: i64 = 51;
    const UNAVAILABLE: i64 = 52;
    let words = cut(&conclusion.words, WORDS_BYTES_MAX);
    let why = format!("{what}: result {} of LDAP, {words:?}", conclusion.code);
    match conclusion.code {
        TIME_LIMIT | BUSY | UNAVAILABLE => unavailable(&why),
        REFERRAL => no_answer(&format!("{why}; referrals are not followed")),
        _ => no_answer(&why),
    }
}
