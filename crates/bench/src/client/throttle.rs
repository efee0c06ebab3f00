//! A slow network in front of a connection.

use client::Transport;
use model::Failure;
use std::time::Duration;

/// How many pieces of a second's bytes are let through one by one.
const PIECES_PER_SECOND: usize = 10;

/// Lets so many bytes a second through, each way. What the client has not taken yet waits in the
/// buffers of the connection, as it would in those of a modem, and then at the server.
pub(super) struct Throttled {
    inner: Box<dyn Transport>,
    bytes_per_second: u32,
}

impl Throttled {
    pub(super) fn new(inner: Box<dyn Transport>, bytes_per_second: u32) -> Throttled {
        Throttled { inner, bytes_per_second }
    }

    fn piece(&self) -> usize {
        (self.bytes_per_second as usize).div_ceil(PIECES_PER_SECOND)
    }

    /// Waits as long as so many bytes are on their way.
    fn pass(&self, bytes: usize) {
        let seconds = bytes as f64 / f64::from(self.bytes_per_second);
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

impl Transport for Throttled {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for piece in bytes.chunks(self.piece()) {
            self.pass(piece.len());
            self.inner.send(piece)?;
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let len = buffer.len().min(self.piece());
        let received = self.inner.receive(&mut buffer[..len])?;
        self.pass(received);
        Ok(received)
    }

    fn is_half_duplex(&self) -> bool {
        self.inner.is_half_duplex()
    }
}
