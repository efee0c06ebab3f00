//! A plain TCP connection. Only this file of the crate uses sockets (A4).

use super::Transport;
use model::{Code, Failure};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The port of a server whose address names none.
pub const PORT_DEFAULT: u16 = 2439;

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
    stream: TcpStream,
    timeouts: Timeouts,
}

/// Connects to `address`: `HOST:PORT` or `HOST`, with or without `tcp://` in front.
pub fn connect(address: &str, timeouts: Timeouts) -> Result<Tcp, Failure> {
    let (host, port) = split(address)?;
    let unreachable = || Failure::new(Code::Unreachable, format!("cannot reach {host}:{port}"));
    let addresses = (host, port).to_socket_addrs().map_err(|error| unreachable().source(error))?;
    let mut failure = unreachable();
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeouts.connect) {
            Ok(stream) => {
                return prepare(stream, timeouts).map_err(|error| unreachable().source(error));
            }
            Err(error) => failure = unreachable().source(error),
        }
    }
    Err(failure)
}

fn prepare(stream: TcpStream, timeouts: Timeouts) -> std::io::Result<Tcp> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeouts.receive))?;
    stream.set_write_timeout(Some(timeouts.send))?;
    Ok(Tcp { stream, timeouts })
}

fn split(address: &str) -> Result<(&str, u16), Failure> {
    let bad = || Failure::new(Code::BadUrl, format!("`{address}` is no address of a server"));
    let rest = address.strip_prefix("tcp://").unwrap_or(address);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() || rest.contains(['/', '@', ' ']) {
        return Err(bad());
    }
    // An IPv6 address has colons of its own and stands in brackets.
    let (host, port) = match rest.strip_prefix('[') {
        Some(inner) => {
            let (host, after) = inner.split_once(']').ok_or_else(bad)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(bad()),
            }
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| bad())?,
        None => PORT_DEFAULT,
    };
    if host.is_empty() { Err(bad()) } else { Ok((host, port)) }
}

impl Transport for Tcp {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).map_err(|error| lost(error, self.timeouts.send))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result.map_err(|error| lost(error, self.timeouts.receive)),
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
            conformance::echo(&mut prepare(stream, Timeouts::default()).unwrap());
        });
        conformance::check(connect(&address, Timeouts::default()).unwrap());
        peer.join().unwrap();
    }

    #[test]
    fn addresses_are_understood_or_refused() {
        let check = |address, host, port| assert_eq!(split(address).unwrap(), (host, port));
        check("tcp://127.0.0.1:2439", "127.0.0.1", 2439);
        check("example.org", "example.org", PORT_DEFAULT);
        check("tcp://example.org:1/", "example.org", 1);
        check("tcp://[::1]:7", "::1", 7);
        check("[::1]", "::1", PORT_DEFAULT);
        for bad in ["", "tcp://", "tcp://:1", "host:x", "host:99999", "http://h", "[::1", "a b"] {
            assert_eq!(split(bad).unwrap_err().code(), Code::BadUrl, "{bad}");
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
