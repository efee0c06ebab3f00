//! Two ends of a connection within one process, for tests.

use super::Transport;
use model::{Code, Failure};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Sends that may wait in one direction.
const SENDS_MAX: usize = 4096;

/// One end.
pub(crate) struct Memory {
    out: SyncSender<Vec<u8>>,
    incoming: Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

/// Both ends of a new connection.
pub(crate) fn pair() -> (Memory, Memory) {
    let ((out_a, in_b), (out_b, in_a)) = (sync_channel(SENDS_MAX), sync_channel(SENDS_MAX));
    (
        Memory { out: out_a, incoming: in_a, rest: Vec::new() },
        Memory { out: out_b, incoming: in_b, rest: Vec::new() },
    )
}

impl Transport for Memory {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out
            .send(bytes.to_vec())
            .map_err(|_| Failure::new(Code::ConnectionLost, "the other end is gone"))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        while self.rest.is_empty() {
            match self.incoming.recv() {
                Ok(bytes) => self.rest = bytes,
                Err(_) => return Ok(0),
            }
        }
        let len = self.rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.rest[..len]);
        self.rest.drain(..len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::conformance;
    use std::thread;

    #[test]
    fn memory_keeps_the_contract() {
        let (near, mut far) = pair();
        let peer = thread::spawn(move || conformance::echo(&mut far));
        conformance::check(near);
        peer.join().unwrap();
    }
}
