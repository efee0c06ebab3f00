//! What goes over the connections of one [`Connector`](super::Connector).
//!
//! It is counted where the system takes it.

use rustls::HandshakeKind;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What has gone over connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metered {
    /// Bytes that were given to the network: what is inside of TCP, with TLS and HTTP.
    pub sent_bytes: u64,
    /// Bytes that the network gave.
    pub received_bytes: u64,
    /// TLS handshakes in which the server showed its certificate.
    pub full_handshakes: u64,
    /// TLS handshakes that went on with an earlier session.
    pub resumed_handshakes: u64,
}

/// Counts.
#[derive(Debug, Default)]
pub(super) struct Meter {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    full_handshakes: AtomicU64,
    resumed_handshakes: AtomicU64,
}

impl Meter {
    /// What was counted until now.
    pub(super) fn read(&self) -> Metered {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metered {
            sent_bytes: read(&self.sent_bytes),
            received_bytes: read(&self.received_bytes),
            full_handshakes: read(&self.full_handshakes),
            resumed_handshakes: read(&self.resumed_handshakes),
        }
    }
}

/// A socket whose bytes are counted.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    meter: Arc<Meter>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, meter: Arc<Meter>) -> Socket {
        Socket { stream, meter }
    }

    /// The socket itself, for everything but bytes.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// A handshake has ended.
    pub(super) fn shook_hands(&self, kind: Option<HandshakeKind>) {
        let counter = match kind {
            Some(HandshakeKind::Resumed) => &self.meter.resumed_handshakes,
            _ => &self.meter.full_handshakes,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(buffer)?;
        self.meter.received_bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.stream.write(bytes)?;
        self.meter.sent_bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    // TLS writes several records at once.
    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let n = self.stream.write_vectored(pieces)?;
        self.meter.sent_bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
