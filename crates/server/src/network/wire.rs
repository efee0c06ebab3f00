//! The socket of a peer. Every wait for it is counted, and ends when the limit is reached.

use super::patience::{Limits, Patience, Wait};
use bytes::BufMut;
use model::{Clock, Code, Failure};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How often it is seen whether a slow network takes more, and how many bytes it then gets.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SLOW_BYTES: usize = 4 << 10;

/// Bytes in and out.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) patience: Patience,
    clock: Arc<dyn Clock>,
    /// The network took nothing for a while.
    slow: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, clock: Arc<dyn Clock>, limits: Limits) -> Wire {
        let patience = Patience::new(limits);
        Wire { stream, patience, clock, slow: false, bytes_in: 0, bytes_out: 0 }
    }

    /// Reads some of the bytes for which there is room, of which so many were announced.
    pub(crate) async fn read(
        &mut self,
        place: &mut (impl BufMut + Send),
        announced: usize,
    ) -> Result<usize, Failure> {
        let wait = Wait::Receiving(announced as u64);
        loop {
            let begun_us = self.clock.monotonic_us();
            let reading = timeout(self.patience.next(wait), self.stream.read_buf(place));
            let read = reading.await.ok().transpose().map_err(lost)?;
            self.note(wait, begun_us, read)?;
            if read == Some(0) {
                return Err(Failure::new(Code::ConnectionLost, "the peer closed the connection"));
            }
            if let Some(n) = read {
                self.bytes_in += n as u64;
                return Ok(n);
            }
        }
    }

    /// Writes some of these bytes, as many as the network takes.
    pub(crate) async fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Failure> {
        let wait = Wait::Sending(slices.iter().map(|slice| slice.len() as u64).sum());
        loop {
            let begun_us = self.clock.monotonic_us();
            let limit = self.patience.next(wait).min(LOOK_EVERY);
            let written = match self.slow {
                false => timeout(limit, self.stream.write_vectored(slices)).await,
                true => timeout(limit, self.stream.write(little(slices))).await,
            };
            let mut written = written.ok().transpose().map_err(lost)?;
            if written.is_none() {
                self.slow = true;
                written = self.write_unasked(little(slices))?;
            }
            self.note(wait, begun_us, written)?;
            if let Some(n) = written {
                self.bytes_out += n as u64;
                return Ok(n);
            }
        }
    }

    /// Writes without being woken. The system wakes a writer when a third of its buffer is free,
    /// and with a modem this takes minutes.
    fn write_unasked(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        match rustix::io::write(&self.stream, bytes) {
            Ok(n) => Ok(Some(n)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(lost(error.into())),
        }
    }

    fn note(&mut self, wait: Wait, begun_us: u64, moved: Option<usize>) -> Result<(), Failure> {
        let time = self.clock.monotonic_us().saturating_sub(begun_us);
        self.patience.note(wait, Duration::from_micros(time), moved.unwrap_or(0) as u64)
    }
}

/// Little enough that a full buffer, which may be exceeded by one write, has room again soon.
fn little<'a>(slices: &'a [IoSlice<'_>]) -> &'a [u8] {
    let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
    &first[..first.len().min(SLOW_BYTES)]
}

pub(crate) fn lost(error: std::io::Error) -> Failure {
    Failure::new(Code::ConnectionLost, "the connection was lost").source(error)
}
