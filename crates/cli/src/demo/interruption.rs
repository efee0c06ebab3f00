//! Kills the server at a chosen point of a synchronization, as seen on the connection.
//!
//! The point is a message of the conversation and not a time, so the demo is the same on every
//! machine.

use super::server_process::ServerProcess;
use client::Transport;
use client::transport::tcp::Tcp;
use model::{Code, Failure};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How long an upload may take to be committed before the demo gives up.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the demo looks whether it is.
const COMMIT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Where the server dies.
pub(super) enum KillPoint {
    /// When this many bytes were sent, in the middle of an upload.
    Sent(usize),
    /// When this message says that the upload is committed, before the client receives it.
    Committed(Box<dyn FnMut() -> Result<bool, Failure>>),
}

/// A transport whose server does not survive the conversation.
pub(super) struct FatalTransport {
    inner: Tcp,
    server: Rc<RefCell<ServerProcess>>,
    point: KillPoint,
    sent: usize,
}

impl FatalTransport {
    /// Kills `server` at `point` of what goes through `inner`.
    pub(super) fn new(
        inner: Tcp,
        server: Rc<RefCell<ServerProcess>>,
        point: KillPoint,
    ) -> FatalTransport {
        FatalTransport { inner, server, point, sent: 0 }
    }

    fn kill(&self) -> Result<(), Failure> {
        self.server.borrow_mut().kill()
    }
}

impl Transport for FatalTransport {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let before = self.sent;
        self.sent += bytes.len();
        match self.point {
            KillPoint::Sent(bytes_max) if self.sent > bytes_max && before <= bytes_max => {
                let (first, rest) = bytes.split_at(bytes_max - before);
                self.inner.send(first)?;
                self.kill()?;
                // From here on the operating system tells the truth about the dead peer.
                self.inner.send(rest)
            }
            _ => self.inner.send(bytes),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let KillPoint::Committed(committed) = &mut self.point else {
            return self.inner.receive(buffer);
        };
        let mut waited = Duration::ZERO;
        while !committed()? {
            if waited >= COMMIT_TIMEOUT {
                return Err(Failure::new(Code::PeerSilent, "the upload was not committed in time"));
            }
            std::thread::sleep(COMMIT_CHECK_INTERVAL);
            waited += COMMIT_CHECK_INTERVAL;
        }
        self.kill()?;
        // The answer may be in a buffer of this machine, but it is lost too.
        Ok(0)
    }
}
