//! Messages out of the bytes that a server sends, however these are cut.

use model::{Code, Failure};
use protocol::{Capabilities, Compression, Decompressor, FRAME_BYTES_MAX, FrameDecoder, Message};

/// Bytes of one connection that were received and not read yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    decoder: FrameDecoder,
    decompressor: Decompressor,
    /// How the server may compress rows.
    readable: Capabilities,
    /// The peer has shown that it is a server of Syncline.
    understood: bool,
    /// It began as a server of HTTP does.
    http: bool,
    /// It began with an alert of TLS, as a program does that expects TLS.
    tls: bool,
}

impl Inbox {
    pub(crate) fn new(readable: Capabilities) -> Inbox {
        let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        let decompressor = Decompressor::default();
        Inbox { decoder, decompressor, readable, understood: false, http: false, tls: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.understood && self.is_empty() {
            self.http |= bytes.starts_with(b"HTTP/");
            self.tls |= matches!(bytes, [21, 3, 0..=4, 0, 2, 1 | 2, _]);
        }
        self.decoder.push(bytes);
    }

    /// The next message; `None` when more bytes are needed.
    pub(crate) fn next_message(&mut self) -> Result<Option<Message>, Failure> {
        if self.tls {
            let message = "the program that answers speaks TLS, which the URL does not say";
            return Err(Failure::new(Code::EncryptionMismatch, message));
        }
        let message = self.decode();
        match message {
            Err(failure) if !self.understood => {
                let stranger = |message| Failure::new(Code::NotSyncline, message).source(failure);
                return Err(match self.http {
                    true => stranger("the server there speaks HTTP, which the URL does not say")
                        .hint(
                            "write http:// or ws:// in place of tcp://, https:// or wss:// in \
                             place of tls://",
                        ),
                    false => stranger("the program that answers is not a Syncline server"),
                });
            }
            Ok(None) => {}
            _ => self.understood = true,
        }
        message
    }

    /// How the rows were compressed that have arrived; none where they were not.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.decompressor.method()
    }

    /// The connection may end here: no message is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.decoder.is_empty()
    }

    fn decode(&mut self) -> Result<Option<Message>, Failure> {
        while let Some(frame) = self.decoder.next_frame()? {
            let message = self.decompressor.decode(frame, FRAME_BYTES_MAX, self.readable)?;
            if let Some(message) = message {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}
