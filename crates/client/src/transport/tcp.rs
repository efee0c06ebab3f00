//! A plain TCP connection.

use super::Transport;
use super::meter::{Meter, Socket};
use model::{Code, Failure, Scheme, ServerUrl};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the other side.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte. A server that works sends a heartbeat every 15 seconds.
    pub receive: Duration,
    /// For a server that does not read.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            receive: Duration::from_secs(60),
            send: Duration::from_secs(60),
        }
    }
}

/// A TCP connection.
#[derive(Debug)]
pub struct Tcp {
    stream: Socket,
    timeouts: Timeouts,
}

/// Connects to `address`: `HOST:PORT` or `HOST`, with or without `tcp://` in front.
pub fn connect(address: &str, timeouts: Timeouts) -> Result<Tcp, Failure> {
    let url = match address.contains("://") {
        true => ServerUrl::parse(address)?,
        false => ServerUrl::parse(&format!("tcp://{address}"))?,
    };
    if url.scheme() != Scheme::Tcp {
        let message = format!("`{url}` is no address of a plain connection");
        return Err(Failure::new(Code::BadUrl, message));
    }
    open(&url, timeouts, Arc::default())
}

/// Connects to the machine and port of a URL, whatever will be spoken there.
pub(super) fn open(url: &ServerUrl, timeouts: Timeouts, meter: Arc<Meter>) -> Result<Tcp, Failure> {
    let unreachable = || Failure::new(Code::Unreachable, format!("cannot reach {}", url.address()));
    let addresses = (url.host(), url.port()).to_socket_addrs();
    let mut failure = unreachable();
    for address in addresses.map_err(|error| unreachable().source(error))? {
        match TcpStream::connect_timeout(&address, timeouts.connect) {
            Ok(stream) => {
                return prepare(stream, timeouts, meter)
                    .map_err(|error| unreachable().source(error));
            }
            Err(error) => failure = unreachable().source(error),
        }
    }
    Err(failure)
}

fn prepare(stream: TcpStream, timeouts: Timeouts, meter: Arc<Meter>) -> std::io::Result<Tcp> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeouts.receive))?;
    stream.set_write_timeout(Some(timeouts.send))?;
    Ok(Tcp { stream: Socket::new(stream, meter), timeouts })
}

impl Tcp {
    /// The connection itself, for what is spoken over it.
    pub(super) fn stream(&mut self) -> &mut Socket {
        &mut self.stream
    }

    /// Why nothing more was received.
    pub(super) fn lost(&self, error: std::io::Error) -> Failure {
        lost(error, self.timeouts.receive)
    }

    /// Why nothing more was sent.
    pub(super) fn not_sent(&self, error: std::io::Error) -> Failure {
        lost(error, self.timeouts.send)
    }
}

impl Transport for Tcp {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).map_err(|error| self.not_sent(error))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result.map_err(|error| self.lost(error)),
            }
        }
    }
}

fn lost(error: std::io::Error, timeout: Duration) -> Failure {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::new(
            Code::PeerSilent,
            format!("the server was silent for {} s", timeout.as_secs_f32()),
        ),
        _ => Failure::new(Code::ConnectionLost, "the connection to the server broke").source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::conformance;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn tcp_keeps_the_contract() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            conformance::echo(&mut prepare(stream, Timeouts::default(), Arc::default()).unwrap());
        });
        conformance::check(connect(&address, Timeouts::default()).unwrap());
        peer.join().unwrap();
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        for bad in ["", "tcp://", "host:x", "http://h", "tls://h", "[::1", "a b", "u@h"] {
            let refused = connect(bad, Timeouts::default()).unwrap_err();
            assert_eq!(refused.code(), Code::BadUrl, "{bad}");
        }
    }

    // S11
    #[test]
    fn a_port_without_a_server_is_unreachable_and_a_silent_peer_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let short = Timeouts { receive: Duration::from_millis(20), ..Timeouts::default() };
        let mut silent = connect(&address, short).unwrap();
        assert_eq!(silent.receive(&mut [0; 8]).unwrap_err().code(), Code::PeerSilent);
        drop(listener);
        assert_eq!(connect(&address, Timeouts::default()).unwrap_err().code(), Code::Unreachable);
    }
}
