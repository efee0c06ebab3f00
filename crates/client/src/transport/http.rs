//! HTTP/1.1: one POST, whose body is all that is sent and whose response is all that is received.
//!
//! What is sent waits until something is to be received: in memory, or in a file without a name
//! where it is long. Only the last frame of the protocol completes a response, whatever its status
//! line said; a response without a body of ours comes from somebody between the two. The next
//! request of the same synchronization goes over the same connection, if both sides keep it.

mod answer;
mod body;
mod head;
mod proxy;
mod url;
mod way;
pub(super) mod websocket;

use super::Transport;
use body::Body;
use head::{Head, HeadReader, MEDIA_TYPE, malformed};
use model::{Code, Failure, ServerUrl};
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::rc::Rc;
use std::time::Duration;
use tempfile::SpooledTempFile;
pub(super) use way::Way;
use way::{Line, meant};

/// Bytes that wait in memory; more wait in a file.
const MEMORY_BYTES_MAX: usize = 256 << 10;

/// From so many bytes on it is asked first whether they are welcome.
const ASK_FROM_BYTES: u64 = 64 << 10;

/// How long an answer to that is waited for. Not everybody gives one.
const ASK_MAX: Duration = Duration::from_secs(1);

/// How long the end of a response is waited for, behind its last frame.
const END_MAX: Duration = Duration::from_secs(1);

/// Bytes of the request that are written at once.
const PIECE_BYTES: usize = 64 << 10;

/// Redirects that are followed.
const REDIRECTS_MAX: u32 = 3;

/// Answers that are not the last.
const INTERIM_MAX: u32 = 10;

/// One exchange with a server.
pub(super) struct Http {
    url: ServerUrl,
    way: Way,
    state: State,
    kept: Kept,
}

/// The last response of one synchronization, whose connection may carry the next request.
#[derive(Clone, Default)]
pub(super) struct Kept(Rc<Cell<Option<Body<Line>>>>);

impl Kept {
    /// The connection, if the response has ended. What is left of it would be taken for the
    /// beginning of the next one.
    fn take(&self) -> Option<Line> {
        let mut body = self.0.take()?;
        body.source().wait_at_most(Some(END_MAX)).ok()?;
        let Ok(0) = body.read(&mut [0]) else { return None };
        let mut line = body.into_source()?;
        line.wait_at_most(None).ok()?;
        Some(line)
    }
}

enum State {
    /// Bytes that are to be sent, and the connection that was made for them.
    Gathering {
        request: SpooledTempFile,
        connection: Option<Line>,
    },
    Receiving(Body<Line>),
    Broken,
}

/// How a request ended whose response has begun.
enum Answered {
    Body(Body<Line>),
    /// It belongs to another path of the same server.
    Moved(String),
    /// The length was to be announced in another way.
    Unasked,
}

/// Connects to a server whose URL is one of HTTP.
pub(super) fn connect(url: &ServerUrl, way: Way, kept: &Kept) -> Result<Http, Failure> {
    let connection = Some(match kept.take() {
        Some(line) => line,
        None => way.connect(url)?,
    });
    let request = SpooledTempFile::new(MEMORY_BYTES_MAX);
    let state = State::Gathering { request, connection };
    Ok(Http { url: url.clone(), way, state, kept: kept.clone() })
}

impl Transport for Http {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let State::Gathering { request, .. } = &mut self.state else {
            let message = "a request over HTTP cannot be continued";
            return Err(Failure::new(Code::ConnectionLost, message));
        };
        request.write_all(bytes).map_err(not_stored)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        if let State::Gathering { request, connection } = &mut self.state {
            let (mut request, connection) =
                (std::mem::replace(request, SpooledTempFile::new(0)), connection.take());
            self.state = State::Broken;
            self.state = State::Receiving(self.post(&mut request, connection)?);
        }
        let State::Receiving(body) = &mut self.state else {
            return Err(Failure::new(Code::ConnectionLost, "the exchange over HTTP has failed"));
        };
        let error = loop {
            match body.read(buffer) {
                Ok(n) => return Ok(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
        };
        self.state = State::Broken;
        Err(match error.kind() {
            ErrorKind::InvalidData => malformed("its body cannot be read"),
            _ => meant(error),
        })
    }

    fn is_half_duplex(&self) -> bool {
        true
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        if let State::Receiving(mut body) = std::mem::replace(&mut self.state, State::Broken)
            && body.source().keeps
        {
            self.kept.0.set(Some(body));
        }
    }
}

impl Http {
    /// Sends the request, and again where the server moves it within itself.
    fn post(
        &self,
        request: &mut SpooledTempFile,
        mut connection: Option<Line>,
    ) -> Result<Body<Line>, Failure> {
        let len = request.stream_position().map_err(not_stored)?;
        let mut path = url::sync_path(&self.url);
        let mut asks = len >= ASK_FROM_BYTES;
        for _ in 0..=REDIRECTS_MAX {
            let open = connection.as_mut().is_some_and(Line::is_open);
            let line = match connection.take().filter(|_| open) {
                Some(line) => line,
                None => self.way.connect(&self.url)?,
            };
            request.rewind().map_err(not_stored)?;
            match self.exchange(request, len, &path, asks, line)? {
                Answered::Body(body) => return Ok(body),
                Answered::Moved(to) => path = to,
                Answered::Unasked => asks = false,
            }
        }
        Err(answer::circles())
    }

    fn exchange(
        &self,
        request: &mut SpooledTempFile,
        len: u64,
        path: &str,
        asks: bool,
        mut line: Line,
    ) -> Result<Answered, Failure> {
        let mut reader = HeadReader::default();
        let head = self.head(path, len, asks);
        let begun = line.write_all(head.as_bytes()).map_err(Unsent::Network);
        let early = match &begun {
            Ok(()) if asks => self.permission(&mut line, &mut reader)?,
            _ => None,
        };
        let (head, whole) = match early {
            Some(head) => (head, false),
            None => {
                let sent = begun.and_then(|()| pass_on(request, &mut line));
                let whole = sent.is_ok();
                (self.answer(&mut line, &mut reader, sent)?, whole)
            }
        };
        // Who has refused the request may be waiting for the rest of it. And a server that is busy
        // needs the place of the connection.
        line.keeps = whole && head.keeps && head.status == 200;
        if head.ours {
            return Ok(Answered::Body(Body::new(head.length, reader.rest(), line)));
        }
        if head.status == 417 && asks {
            return Ok(Answered::Unasked);
        }
        match answer::moved(&head, &self.url)? {
            Some(path) => Ok(Answered::Moved(path)),
            None => Err(answer::failure(&head, &self.url)),
        }
    }

    fn head(&self, path: &str, len: u64, asks: bool) -> String {
        let authority = url::authority(&self.url);
        // A proxy wants to know the whole URL.
        let (before, authorization) = match self.way.asks_a_proxy() {
            Some(proxy) => {
                (format!("{}://{authority}", self.url.scheme().name()), proxy.authorization_line())
            }
            None => (String::new(), String::new()),
        };
        let mut head = format!(
            "POST {before}{path} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: syncline/{}\r\n\
             accept: {MEDIA_TYPE}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len}\r\n",
            env!("CARGO_PKG_VERSION")
        );
        if asks {
            head.push_str("expect: 100-continue\r\n");
        }
        head + &authorization + "\r\n"
    }

    /// Waits a moment for whether the body is welcome. Returns the response where it is not.
    fn permission(
        &self,
        line: &mut Line,
        reader: &mut HeadReader,
    ) -> Result<Option<Head>, Failure> {
        match line.within(ASK_MAX, |line| reader.read(line)) {
            Ok(Ok(head)) if head.status == 100 => Ok(None),
            Ok(head) => head.map(Some),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(meant(error)),
        }
    }

    /// The response to a request that was sent, or not. Whoever refuses one says why, and takes no
    /// more of it.
    fn answer(
        &self,
        line: &mut Line,
        reader: &mut HeadReader,
        sent: Result<(), Unsent>,
    ) -> Result<Head, Failure> {
        let unsent = match sent {
            Err(Unsent::Disk(failure)) => return Err(failure),
            Err(Unsent::Network(error)) => Some(meant(error)),
            Ok(()) => None,
        };
        let heard = match self.response(line, reader) {
            Ok(head) => return head,
            Err(error) => meant(error),
        };
        match unsent {
            // How it broke says less than why.
            Some(unsent) if matches!(heard.code(), Code::ConnectionLost | Code::PeerSilent) => {
                Err(unsent)
            }
            _ => Err(heard),
        }
    }

    /// The head of the response, behind those that only say that it will come.
    fn response(
        &self,
        line: &mut Line,
        reader: &mut HeadReader,
    ) -> io::Result<Result<Head, Failure>> {
        for _ in 0..INTERIM_MAX {
            match reader.read(line)? {
                Ok(head) if (100..200).contains(&head.status) => {}
                other => return Ok(other),
            }
        }
        Ok(Err(malformed("it never comes to its response")))
    }
}

/// Why a request was not sent.
enum Unsent {
    Disk(Failure),
    Network(io::Error),
}

fn pass_on(request: &mut SpooledTempFile, line: &mut Line) -> Result<(), Unsent> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match request.read(&mut piece).map_err(|error| Unsent::Disk(not_stored(error)))? {
            0 => return Ok(()),
            n => line.write_all(&piece[..n]).map_err(Unsent::Network)?,
        }
    }
}

fn not_stored(error: io::Error) -> Failure {
    Failure::new(Code::RequestNotStored, "the request could not be stored").source(error)
}

#[cfg(test)]
mod tests {
    use super::proxy::Proxy;
    use super::*;
    use crate::transport::conformance;
    use crate::transport::tcp::Timeouts;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread;

    const OURS: &str = "content-type: application/vnd.syncline\r\n";

    /// Requests, as a peer received them.
    type Requests = Arc<Mutex<Vec<String>>>;

    /// A peer that gives these answers, one for each connection.
    struct Peer {
        address: String,
        requests: Requests,
    }

    impl Peer {
        fn new(answers: Vec<String>) -> Peer {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let requests = Requests::default();
            let seen = requests.clone();
            thread::spawn(move || {
                for answer in answers {
                    let (mut stream, _) = listener.accept().unwrap();
                    seen.lock().unwrap().push(request(&mut stream));
                    stream.write_all(answer.as_bytes()).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    io::copy(&mut stream, &mut io::sink()).unwrap();
                }
            });
            Peer { address, requests }
        }

        fn url(&self) -> String {
            format!("http://{}/x", self.address)
        }
    }

    /// A whole request, or its head alone if it asks first.
    fn request(stream: &mut TcpStream) -> String {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
            text.push(byte[0]);
        }
        let head = String::from_utf8(text).unwrap();
        let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        if value("expect: ").is_some() {
            return head;
        }
        let mut body = vec![0; value("content-length: ").map_or(0, |len| len.parse().unwrap())];
        stream.read_exact(&mut body).unwrap();
        head + &String::from_utf8_lossy(&body)
    }

    fn connected(url: &str, timeouts: Timeouts) -> Result<Http, Failure> {
        connect(
            &ServerUrl::parse(url)?,
            Way { proxy: None, timeouts, tls: None, meter: Arc::default() },
            &Kept::default(),
        )
    }

    /// What is received after these bytes were sent.
    fn talk(url: &str, sent: &[u8]) -> Result<Vec<u8>, Failure> {
        let timeouts = Timeouts { receive: Duration::from_millis(30), ..Timeouts::default() };
        let mut transport = connected(url, timeouts)?;
        transport.send(sent)?;
        let (mut received, mut buffer) = (Vec::new(), [0; 100]);
        loop {
            match transport.receive(&mut buffer)? {
                0 => return Ok(received),
                n => received.extend_from_slice(&buffer[..n]),
            }
        }
    }

    fn answered(answer: &str) -> Result<Vec<u8>, Failure> {
        talk(&Peer::new(vec![answer.to_owned()]).url(), b"ping")
    }

    #[test]
    fn http_keeps_the_contract() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = request(&mut stream);
            let asked = head.contains("expect: 100-continue");
            assert!(asked, "so much is not sent without a question: {head}");
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            let head = format!("HTTP/1.1 200 OK\r\n{OURS}content-length: 200000\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            conformance::echo(&mut Echo(stream));
        });
        conformance::check(connected(&url, Timeouts::default()).unwrap());
        peer.join().unwrap();
    }

    struct Echo(TcpStream);

    impl Transport for Echo {
        fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
            self.0.write_all(bytes).map_err(meant)
        }

        fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
            self.0.read(buffer).map_err(meant)
        }
    }

    #[test]
    fn one_post_has_all_that_was_sent() {
        let peer = Peer::new(vec![format!("HTTP/1.1 200 OK\r\n{OURS}\r\npong")]);
        assert_eq!(talk(&peer.url(), b"ping").unwrap(), b"pong");
        let request = peer.requests.lock().unwrap().join("");
        assert!(request.starts_with("POST /x/sync HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("host: {}\r\n", peer.address)), "{request}");
        assert!(request.ends_with("\r\n\r\nping"), "{request}");
    }

    /// How many connections two requests of one synchronization need. The peer gives the first
    /// answer, and closes behind these last words, if there are any.
    fn connections_of_two(first: &str, last_words: Option<&'static str>) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = ServerUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let (first, between) = (first.to_owned(), Arc::new(Barrier::new(2)));
        let heard = between.clone();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            request(&mut stream);
            stream.write_all(first.as_bytes()).unwrap();
            between.wait();
            if let Some(words) = last_words {
                stream.write_all(words.as_bytes()).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            }
            between.wait();
            let is_kept = request(&mut stream).ends_with("ping");
            if !is_kept {
                (stream, _) = listener.accept().unwrap();
                request(&mut stream);
            }
            let pong = format!("HTTP/1.1 200 OK\r\n{OURS}content-length: 4\r\n\r\npong");
            stream.write_all(pong.as_bytes()).unwrap();
            if is_kept { 1 } else { 2 }
        });
        let (kept, mut buffer) = (Kept::default(), [0; 4]);
        let way =
            Way { proxy: None, timeouts: Timeouts::default(), tls: None, meter: Arc::default() };
        for answer in [b"ping", b"pong"] {
            let mut transport = connect(&url, way.clone(), &kept).unwrap();
            transport.send(b"ping").unwrap();
            assert_eq!(transport.receive(&mut buffer).unwrap(), 4);
            assert_eq!(&buffer, answer);
            if answer == b"ping" {
                heard.wait();
                heard.wait();
            }
        }
        peer.join().unwrap()
    }

    // S1: what is left of one response is never taken for the beginning of the next.
    #[test]
    fn a_connection_carries_the_next_request_once_its_response_has_ended() {
        let check = |version: &str, head: &str, last_words, connections| {
            let first = format!("HTTP/1.{version} 200 OK\r\n{OURS}{head}");
            assert_eq!(connections_of_two(&first, last_words), connections, "{first}");
        };
        let whole = "content-length: 4\r\n\r\nping";
        let chunk = "transfer-encoding: chunked\r\n\r\n4\r\nping\r\n";
        check("1", whole, None, 1);
        check("1", &format!("{chunk}0\r\n\r\n"), None, 1);
        // More of the response, something behind it, and an end that does not come.
        check("1", "content-length: 5\r\n\r\npingx", None, 2);
        check("1", &format!("{whole}x"), None, 2);
        check("1", chunk, None, 2);
        // The server has closed it, with a reason and without one.
        check("1", whole, Some("HTTP/1.1 408 Request Timeout\r\n\r\n"), 2);
        check("1", whole, Some(""), 2);
        // It says that it closes, knows nothing else, or ends the response by it.
        check("1", &format!("connection: foo, Close\r\n{whole}"), None, 2);
        check("0", whole, None, 2);
        check("1", "\r\nping", Some(""), 2);
    }

    #[test]
    fn nothing_is_sent_behind_the_first_answer() {
        let peer = Peer::new(vec![format!("HTTP/1.1 200 OK\r\n{OURS}\r\npong")]);
        let mut transport = connected(&peer.url(), Timeouts::default()).unwrap();
        transport.receive(&mut [0; 2]).unwrap();
        assert_eq!(transport.send(b"x").unwrap_err().code(), Code::ConnectionLost);
    }

    // S11: only the last frame completes a response, whatever the status line said.
    #[test]
    fn a_status_decides_nothing_where_the_body_is_ours() {
        for status in ["200 OK", "401 Unauthorized", "413 Large", "503 Full", "500 Broken"] {
            let answer = format!("HTTP/1.1 {status}\r\n{OURS}content-length: 4\r\n\r\npong");
            assert_eq!(answered(&answer).unwrap(), b"pong", "{status}");
        }
    }

    // S11
    #[test]
    fn an_answer_of_somebody_between_is_a_numbered_error() {
        let check = |status: &str, code, retry_after_s| {
            let answer = format!(
                "HTTP/1.1 {status}\r\nserver: nginx\r\nretry-after: 7\r\n\
                 content-type: text/html\r\n\
                 content-length: 5\r\n\r\nwords"
            );
            let failure = answered(&answer).unwrap_err();
            assert_eq!((failure.code(), failure.retry_after()), (code, retry_after_s), "{status}");
            assert!(failure.full_message().contains("nginx"), "{failure}");
            assert_eq!(failure.code().retry(), code.retry());
        };
        check("413 Request Entity Too Large", Code::ProxyTakesLess, Some(7));
        check("401 Unauthorized", Code::RefusedOnTheWay, Some(7));
        check("403 Forbidden", Code::RefusedOnTheWay, Some(7));
        check("407 Proxy Authentication Required", Code::RefusedOnTheWay, Some(7));
        check("429 Too Many Requests", Code::SlowedOnTheWay, Some(7));
        check("502 Bad Gateway", Code::GatewayFailed, Some(7));
        check("503 Service Unavailable", Code::GatewayFailed, Some(7));
        check("504 Gateway Time-out", Code::GatewayFailed, Some(7));
        check("200 OK", Code::HttpNotSyncline, Some(7));
        check("404 Not Found", Code::HttpNotSyncline, Some(7));
        assert!(Code::ProxyTakesLess.hint().contains("client_max_body_size"));
    }

    // S1: the outcome is unknown then.
    #[test]
    fn a_response_that_ends_early_has_lost_its_connection() {
        for body in [
            "content-length: 9\r\n\r\npong",
            "transfer-encoding: chunked\r\n\r\n4\r\npong\r\n",
            "transfer-encoding: chunked\r\n\r\n9\r\npong",
        ] {
            let failure = answered(&format!("HTTP/1.1 200 OK\r\n{OURS}{body}")).unwrap_err();
            assert_eq!(failure.code(), Code::ConnectionLost, "{body}");
        }
        assert_eq!(answered("").unwrap_err().code(), Code::ConnectionLost);
        assert_eq!(answered("HTTP/1.1 200").unwrap_err().code(), Code::ConnectionLost);
    }

    // S9
    #[test]
    fn what_is_not_http_is_refused() {
        for answer in [
            "SYNCLINE",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: br\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\n{OURS}transfer-encoding: chunked\r\n\r\nzz\r\n"),
            &"HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM_MAX as usize),
        ] {
            assert_eq!(answered(answer).unwrap_err().code(), Code::HttpMalformed, "{answer}");
        }
    }

    // S7: a redirect to another server would take the password there.
    #[test]
    fn redirects_are_followed_within_the_server_only() {
        let moved = |to: &str| format!("HTTP/1.1 308 Moved\r\nlocation: {to}\r\n\r\n");
        let pong = format!("HTTP/1.1 200 OK\r\n{OURS}\r\npong");
        let peer = Peer::new(vec![moved("/y/sync"), pong]);
        assert_eq!(talk(&peer.url(), b"ping").unwrap(), b"pong");
        let requests = peer.requests.lock().unwrap().clone();
        assert!(requests[1].starts_with("POST /y/sync ") && requests[1].ends_with("\r\n\r\nping"));

        let other = Peer::new(vec![]);
        let peer = Peer::new(vec![moved(&format!("http://{}/sync", other.address))]);
        assert_eq!(talk(&peer.url(), b"ping").unwrap_err().code(), Code::HttpRedirected);

        let circle = (0..=REDIRECTS_MAX).map(|_| moved("/x/sync")).collect();
        let peer = Peer::new(circle);
        assert_eq!(talk(&peer.url(), b"ping").unwrap_err().code(), Code::HttpRedirected);
    }

    #[test]
    fn a_long_request_is_asked_for_first_and_sent_where_nobody_answers() {
        let long = vec![b'x'; 300 << 10];
        // Refused before it was sent.
        let refused = "HTTP/1.1 413 Large\r\ncontent-length: 0\r\n\r\n".to_owned();
        let peer = Peer::new(vec![refused]);
        assert_eq!(talk(&peer.url(), &long).unwrap_err().code(), Code::ProxyTakesLess);
        assert!(peer.requests.lock().unwrap()[0].ends_with("\r\n\r\n"));
        // The question is not understood.
        let unasked = "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\n\r\n".to_owned();
        let peer = Peer::new(vec![unasked, format!("HTTP/1.1 200 OK\r\n{OURS}\r\npong")]);
        assert_eq!(talk(&peer.url(), &long).unwrap(), b"pong");
        assert!(peer.requests.lock().unwrap()[1].ends_with("xxx"));
    }

    #[test]
    fn a_proxy_is_given_the_whole_url_and_its_password() {
        let answer = format!("HTTP/1.1 200 OK\r\n{OURS}\r\npong");
        let peer = Peer::new(vec![answer]);
        let variable = |name: &str| {
            (name == "http_proxy").then(|| format!("http://ann:secret@{}", peer.address))
        };
        let url = ServerUrl::parse("http://sync.example/x").unwrap();
        let proxy = Proxy::to(&url, variable).unwrap();
        let request = SpooledTempFile::new(MEMORY_BYTES_MAX);
        let state = State::Gathering { request, connection: None };
        let way = Way { proxy, timeouts: Timeouts::default(), tls: None, meter: Arc::default() };
        let mut transport = Http { url, way, state, kept: Kept::default() };
        let mut buffer = [0; 4];
        assert_eq!(transport.receive(&mut buffer).unwrap(), 4);
        let requests = peer.requests.lock().unwrap().join("");
        assert!(
            requests.starts_with("POST http://sync.example/x/sync HTTP/1.1\r\nhost: sync.example")
        );
        assert!(requests.contains("proxy-authorization: Basic YW5uOnNlY3JldA==\r\n"), "{requests}");
    }
}
