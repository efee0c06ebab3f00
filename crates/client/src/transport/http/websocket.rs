//! WebSocket: a connection that begins as HTTP, and then carries bytes in both directions at once.
//!
//! The bytes are cut into binary messages anywhere. Pings are answered while something is received.

use super::answer;
use super::head::{Head, HeadReader, malformed};
use super::url;
use super::way::{Line, Way, meant};
use super::{INTERIM_MAX, REDIRECTS_MAX};
use crate::transport::Transport;
use model::{Code, Failure, ServerUrl};
use std::io::Write;
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Bytes, Error, Message};

/// Bytes of a message that is received.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Bytes of a message that is sent.
const SENT_BYTES_MAX: usize = 64 << 10;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// One connection.
pub(in crate::transport) struct WebSocket {
    inner: tungstenite::WebSocket<Line>,
    /// Of the last message, what was not received.
    unread: Bytes,
}

/// Connects to a server whose URL is one of WebSocket.
pub(in crate::transport) fn connect(url: &ServerUrl, way: &Way) -> Result<WebSocket, Failure> {
    let mut path = url::sync_path(url);
    for _ in 0..=REDIRECTS_MAX {
        let mut line = way.connect(url)?;
        let key = generate_key();
        let authority = url::authority(url);
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: syncline/{}\r\n\
             connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: {key}\r\n\r\n",
            env!("CARGO_PKG_VERSION")
        );
        line.write_all(request.as_bytes()).map_err(meant)?;
        let mut reader = HeadReader::default();
        let head = last_head(&mut line, &mut reader)?;
        match head.status {
            101 if head.accept.as_deref() == Some(&*derive_accept_key(key.as_bytes())) => {
                return Ok(WebSocket::new(line, reader.rest()));
            }
            101 => return Err(malformed("it agrees to another WebSocket")),
            // A proxy that loses the lines asks the server for a page.
            200 | 400 | 405 | 426 | 501 => {
                let message = format!("{url} answers with status {}, not WebSocket", head.status);
                return Err(Failure::new(Code::WebSocketNotPassed, message));
            }
            _ => match answer::moved(&head, url)? {
                Some(to) => path = to,
                None => return Err(answer::failure(&head, url)),
            },
        }
    }
    Err(answer::circles())
}

/// The head of the answer, behind those that only say that it will come.
fn last_head(line: &mut Line, reader: &mut HeadReader) -> Result<Head, Failure> {
    for _ in 0..INTERIM_MAX {
        let head = reader.read(line).map_err(meant)??;
        if head.status == 101 || !(100..200).contains(&head.status) {
            return Ok(head);
        }
    }
    Err(malformed("it never comes to its response"))
}

impl WebSocket {
    fn new(line: Line, begun: Vec<u8>) -> WebSocket {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(4 * SENT_BYTES_MAX)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let (role, config) = (Role::Client, Some(config));
        let inner = tungstenite::WebSocket::from_partially_read(line, begun, role, config);
        WebSocket { inner, unread: Bytes::new() }
    }
}

impl Transport for WebSocket {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for piece in bytes.chunks(SENT_BYTES_MAX) {
            let message = Message::Binary(Bytes::copy_from_slice(piece));
            self.inner.write(message).map_err(failure)?;
        }
        self.inner.flush().map_err(failure)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        while self.unread.is_empty() {
            match self.inner.read() {
                Ok(Message::Binary(bytes)) => self.unread = bytes,
                Ok(Message::Text(_)) => {
                    let message = "the server sent text over WebSocket";
                    return Err(Failure::new(Code::WebSocketBroken, message));
                }
                Ok(Message::Close(_)) => return Ok(0),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(error) if is_end(&error) => return Ok(0),
                Err(error) => return Err(failure(error)),
            }
        }
        let n = self.unread.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.unread.split_to(n));
        Ok(n)
    }
}

/// Whether the server has closed: with a word, or without one as a program does that was killed.
fn is_end(error: &Error) -> bool {
    use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    matches!(
        error,
        Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ResetWithoutClosingHandshake)
    )
}

fn failure(error: Error) -> Failure {
    use tungstenite::error::ProtocolError::SendAfterClosing;
    match error {
        Error::Io(error) => meant(error),
        Error::Capacity(_) => {
            let message = "the server sent a message over WebSocket of more than 256 KiB";
            Failure::new(Code::WebSocketMessageTooLarge, message)
        }
        Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(SendAfterClosing) => {
            Failure::new(Code::ConnectionLost, "the server has closed the connection")
        }
        error => {
            let message = format!("the server breaks the rules of WebSocket: {error}");
            Failure::new(Code::WebSocketBroken, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::conformance;
    use crate::transport::http::proxy::Proxy;
    use crate::transport::tcp::Timeouts;
    use std::io::{self, Read};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;

    /// A peer that speaks WebSocket, and does this once with each connection.
    fn served(
        mut serve: impl FnMut(tungstenite::WebSocket<TcpStream>) + Send + 'static,
    ) -> ServerUrl {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/x", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(tungstenite::accept(stream.unwrap()).unwrap());
            }
        });
        ServerUrl::parse(&url).unwrap()
    }

    fn way(proxy: Option<Proxy>) -> Way {
        Way { proxy, timeouts: Timeouts::default(), tls: None, meter: Arc::default() }
    }

    /// What the server says after these bytes.
    fn heard(bytes: &'static [u8]) -> Result<Vec<u8>, Code> {
        let url = served(move |mut peer| {
            peer.get_mut().write_all(bytes).unwrap();
            peer.get_mut().shutdown(Shutdown::Write).unwrap();
            io::copy(peer.get_mut(), &mut io::sink()).unwrap();
        });
        let mut socket = connect(&url, &way(None)).unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; 7]);
        loop {
            match socket.receive(&mut buffer).map_err(|failure| failure.code())? {
                0 => return Ok(all),
                n => all.extend_from_slice(&buffer[..n]),
            }
        }
    }

    #[test]
    fn websocket_keeps_the_contract() {
        struct Peer(tungstenite::WebSocket<TcpStream>, Vec<u8>);
        impl Transport for Peer {
            fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
                self.0.send(Message::Binary(Bytes::copy_from_slice(bytes))).unwrap();
                Ok(())
            }
            fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
                while self.1.is_empty() {
                    self.0.send(Message::Ping(Bytes::new())).unwrap();
                    self.1.extend_from_slice(&self.0.read().unwrap().into_data());
                }
                let n = self.1.len().min(buffer.len());
                buffer[..n].copy_from_slice(&self.1[..n]);
                self.1.drain(..n);
                Ok(n)
            }
        }
        let url = served(|socket| {
            let mut peer = Peer(socket, Vec::new());
            conformance::echo(&mut peer);
            peer.0.close(None).unwrap();
            while peer.0.read().is_ok() {}
        });
        conformance::check(connect(&url, &way(None)).unwrap());
    }

    // S9, S11
    #[test]
    fn what_a_server_must_not_send_has_a_number() {
        assert_eq!(heard(b"\x82\x03abc\x89\x00\x82\x01d\x88\x02\x03\xe8"), Ok(b"abcd".to_vec()));
        assert_eq!(heard(b"\x02\x01a\x80\x01b"), Ok(b"ab".to_vec()));
        assert_eq!(heard(b"\x82\x03ab"), Ok(Vec::new()), "killed within a message");
        assert_eq!(heard(b"\x81\x01a"), Err(Code::WebSocketBroken));
        assert_eq!(heard(b"\xc2\x01a"), Err(Code::WebSocketBroken));
        assert_eq!(heard(b"\x82\x81\0\0\0\0a"), Err(Code::WebSocketBroken));
        assert_eq!(heard(b"\xff\0"), Err(Code::WebSocketBroken));
        let large = b"\x82\x7f\0\0\0\0\0\x04\0\x01";
        assert_eq!(heard(large), Err(Code::WebSocketMessageTooLarge));
    }

    // S11
    #[test]
    fn who_does_not_go_over_to_websocket_is_named() {
        for (head, code) in [
            ("405 Method Not Allowed\r\nallow: POST", Code::WebSocketNotPassed),
            ("400 Bad Request", Code::WebSocketNotPassed),
            ("404 Not Found", Code::HttpNotSyncline),
            ("403 Forbidden", Code::RefusedOnTheWay),
            ("502 Bad Gateway", Code::GatewayFailed),
            ("301 Moved\r\nlocation: https://elsewhere/x", Code::HttpRedirected),
            ("101 Switching\r\nsec-websocket-accept: wrong", Code::HttpMalformed),
            ("101 Switching", Code::HttpMalformed),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("ws://{}", listener.local_addr().unwrap());
            let peer = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes()).unwrap();
                io::copy(&mut stream, &mut io::sink()).unwrap();
            });
            let refused = connect(&ServerUrl::parse(&url).unwrap(), &way(None)).err().unwrap();
            assert_eq!(refused.code(), code, "{head}: {refused}");
            peer.join().unwrap();
        }
    }

    // A proxy that took the request for one of its own would answer it.
    #[test]
    fn clear_text_crosses_a_forward_proxy_in_a_tunnel() {
        let url = served(|mut peer| {
            peer.send(Message::Binary(Bytes::from_static(b"hello"))).unwrap();
            while peer.read().is_ok() {}
        });
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = proxy.local_addr().unwrap().to_string();
        let server = url.address();
        let tunneled = thread::spawn(move || {
            let (mut client, _) = proxy.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let mut to = TcpStream::connect(server).unwrap();
            let (mut from, mut back) = (to.try_clone().unwrap(), client.try_clone().unwrap());
            let down = thread::spawn(move || io::copy(&mut from, &mut back));
            let _ = io::copy(&mut client, &mut to);
            let _ = to.shutdown(Shutdown::Write);
            let _ = down.join();
            String::from_utf8(head).unwrap()
        });
        let proxy_url = ServerUrl::parse(&format!("http://{address}")).unwrap();
        let proxy = Proxy { url: proxy_url, authorization: None };
        let mut socket = connect(&url, &way(Some(proxy))).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(socket.receive(&mut buffer).unwrap(), 5);
        drop(socket);
        let head = tunneled.join().unwrap();
        assert!(head.starts_with(&format!("CONNECT {} HTTP/1.1\r\n", url.address())), "{head}");
    }
}
