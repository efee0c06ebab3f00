//! The stream of a peer. Every wait for it is counted, and ends when the limit is reached.

use super::patience::{Limits, Patience, Wait};
use super::stream::Stream;
use bytes::BufMut;
use model::{Clock, Code, Failure};
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How often it is seen whether a slow network takes more, and how many bytes it then gets.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SLOW_BYTES: usize = 4 << 10;

/// Bytes in and out.
pub(crate) struct Wire {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) patience: Patience,
    clock: Arc<dyn Clock>,
    /// The network took nothing for a while.
    slow: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Of those that went out, as far as patience has heard of it.
    acknowledged: u64,
}

impl Wire {
    pub(crate) fn new(stream: Box<dyn Stream>, clock: Arc<dyn Clock>, limits: Limits) -> Wire {
        let patience = Patience::new(limits);
        let (bytes_in, bytes_out, acknowledged) = (0, 0, 0);
        Wire { stream, patience, clock, slow: false, bytes_in, bytes_out, acknowledged }
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
            self.note(wait, begun_us, read.unwrap_or(0) as u64)?;
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
        let to_come: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let on_the_way = self.bytes_out.saturating_sub(self.acknowledged);
        let wait = Wait::Sending(on_the_way.saturating_add(to_come));
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
            self.bytes_out += written.unwrap_or(0) as u64;
            let arrived = self.arrived();
            self.note(wait, begun_us, arrived)?;
            if let Some(n) = written {
                return Ok(n);
            }
        }
    }

    /// Waits until the network has all that was written: a stream may have bytes of its own.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        loop {
            let begun_us = self.clock.monotonic_us();
            let wait = Wait::Sending(self.bytes_out.saturating_sub(self.acknowledged));
            let limit = self.patience.next(wait).min(LOOK_EVERY);
            let flushed = timeout(limit, self.stream.flush()).await.ok().transpose();
            if flushed.map_err(lost)?.is_some() {
                return Ok(());
            }
            self.slow = true;
            self.write_unasked(&[])?;
            let arrived = self.arrived();
            self.note(wait, begun_us, arrived)?;
        }
    }

    /// Ends what is written, and waits until all of it is on its way.
    pub(crate) async fn shutdown(&mut self) -> Result<(), Failure> {
        loop {
            let begun_us = self.clock.monotonic_us();
            let wait = Wait::Sending(self.bytes_out.saturating_sub(self.acknowledged));
            let limit = self.patience.next(wait).min(LOOK_EVERY);
            let ended = timeout(limit, self.stream.shutdown()).await.ok();
            let arrived = self.arrived();
            self.note(wait, begun_us, arrived)?;
            if let Some(ended) = ended {
                return ended.map_err(lost);
            }
        }
    }

    /// The bytes that the peer has acknowledged since this was asked last.
    fn arrived(&mut self) -> u64 {
        let on_the_way = self.stream.unacknowledged().unwrap_or(0);
        let acknowledged = self.bytes_out.saturating_sub(on_the_way).max(self.acknowledged);
        acknowledged - std::mem::replace(&mut self.acknowledged, acknowledged)
    }

    /// Writes without being woken.
    fn write_unasked(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        match self.stream.write_unasked(bytes) {
            Ok(n) => Ok(Some(n)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                _ => Err(lost(error)),
            },
        }
    }

    fn note(&mut self, wait: Wait, begun_us: u64, moved: u64) -> Result<(), Failure> {
        let time = self.clock.monotonic_us().saturating_sub(begun_us);
        self.patience.note(wait, Duration::from_micros(time), moved)
    }
}

/// Little enough that a full buffer, which may be exceeded by one write, has room again soon.
fn little<'a>(slices: &'a [IoSlice<'_>]) -> &'a [u8] {
    let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
    &first[..first.len().min(SLOW_BYTES)]
}

/// A stream may know more of what happened, and say it with a failure of its own.
pub(crate) fn lost(error: std::io::Error) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => Failure::new(Code::ConnectionLost, "the connection was lost").source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Config;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    /// A connection to a peer whose buffer is small, while ours are not.
    async fn connected() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let peer = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let config = Config { idle_timeout_s: 1, progress_window_s: 1, ..Config::default() };
        let clock = Arc::new(SystemClock::new());
        (Wire::new(Box::new(stream), clock, Limits::of_known(&config)), peer)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    // S9: what the network had taken stood for what the peer had, megabytes of it.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn what_lies_in_our_buffers_is_no_progress_of_the_peer() {
        run(async {
            let (mut wire, mut peer) = connected().await;
            let piece = vec![0; 64 << 10];
            let failure = loop {
                if let Err(failure) = wire.write(&[IoSlice::new(&piece)]).await {
                    break failure;
                }
            };
            assert_eq!(failure.code(), Code::PeerSilent, "it reads nothing");
            let (sent, acknowledged) = (wire.bytes_out, wire.acknowledged);
            assert!(sent > 4 * acknowledged, "{acknowledged} of {sent}");
            // It takes all there is, and so it all counts.
            let mut taken = vec![0; 64 << 10];
            let mut read = 0;
            while read < sent {
                read += peer.read(&mut taken).await.unwrap() as u64;
            }
            while wire.acknowledged < sent {
                tokio::task::yield_now().await;
                wire.arrived();
            }
            assert_eq!(wire.acknowledged, sent);
        });
    }

    // S9
    #[test]
    fn a_peer_that_drips_is_ended_and_one_that_reads_is_not() {
        for (pause, code) in [(Duration::ZERO, None), (LOOK_EVERY, Some(Code::PeerSilent))] {
            run(async {
                let (mut wire, mut peer) = connected().await;
                let piece = vec![0; 64 << 10];
                let reading = async move {
                    let mut taken = [0; 1 << 10];
                    while peer.read(&mut taken).await.is_ok_and(|n| n > 0) {
                        tokio::time::sleep(pause).await;
                    }
                };
                let writing = async {
                    for _ in 0..100 {
                        if let Err(failure) = wire.write(&[IoSlice::new(&piece)]).await {
                            return Some(failure.code());
                        }
                    }
                    None
                };
                let ended =
                    tokio::select! { biased; ended = writing => ended, () = reading => None };
                assert_eq!(ended, code);
            });
        }
    }
}
