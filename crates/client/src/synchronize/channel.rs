//! Messages over a transport.

use crate::transport::Transport;
use model::{Code, Failure};
use protocol::{FRAME_BYTES_MAX, FrameDecoder, Message};

/// Bytes taken from the transport at once: enough for the answers to an upload, and …
const BUFFER_BYTES: usize = 4 * 1024;
/// … from when on more came at once. A large buffer that most synchronizations do not fill costs
/// them more than the calls it saves.
const LARGE_BUFFER_BYTES: usize = 64 * 1024;

/// One connection as both sides of a conversation see it.
pub(super) struct Channel {
    transport: Box<dyn Transport>,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
    /// The peer has shown that it is a server of Syncline.
    understood: bool,
}

impl Channel {
    pub(super) fn new(transport: Box<dyn Transport>) -> Channel {
        Channel {
            transport,
            decoder: FrameDecoder::new(FRAME_BYTES_MAX),
            buffer: vec![0; BUFFER_BYTES],
            understood: false,
        }
    }

    /// Sends bytes. A server that refuses an upload says why and closes; sending then fails, and
    /// what it said is worth more than how.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.transport.send(bytes).map_err(|failure| self.last_words().unwrap_or(failure))
    }

    /// The next message; `None` when the peer has closed between two of them.
    pub(super) fn receive(&mut self) -> Result<Option<Message>, Failure> {
        loop {
            match self.next_message() {
                Ok(None) => {}
                Err(failure) if !self.understood => {
                    let message = "the program that answers is not a Syncline server";
                    return Err(Failure::new(Code::NotSyncline, message).source(failure));
                }
                result => {
                    self.understood = true;
                    return result;
                }
            }
            match self.transport.receive(&mut self.buffer)? {
                0 if self.decoder.is_empty() => return Ok(None),
                0 => {
                    return Err(Failure::new(
                        Code::ConnectionLost,
                        "the connection ended within a message",
                    ));
                }
                len => {
                    self.decoder.push(&self.buffer[..len]);
                    if len == self.buffer.len() && len < LARGE_BUFFER_BYTES {
                        self.buffer = vec![0; LARGE_BUFFER_BYTES];
                    }
                }
            }
        }
    }

    fn next_message(&mut self) -> Result<Option<Message>, Failure> {
        while let Some(frame) = self.decoder.next_frame()? {
            if let Some(message) = Message::decode(frame)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    fn last_words(&mut self) -> Option<Failure> {
        while let Ok(Some(message)) = self.receive() {
            if let Message::Failed(failed) = message {
                return Some(failed.into());
            }
        }
        None
    }
}
