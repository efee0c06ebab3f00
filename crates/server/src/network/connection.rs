//! One connection: frames from bytes, bytes from messages, every wait with a limit.

use model::{Code, Failure};
use protocol::{FrameDecoder, MAGIC, Message, RawFrame};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes read from the socket at once.
const READ_BYTES: usize = 64 << 10;

/// How long, and how much, a refused peer is listened to so that it can read why.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 16 << 20;

/// A peer.
pub(crate) struct Connection {
    stream: TcpStream,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
    outgoing: Vec<u8>,
    idle_timeout: Duration,
    /// Bytes that may still be read from a peer who is not known; none once it is.
    unauthenticated_bytes_left: Option<usize>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Connection {
    pub(crate) fn new(
        stream: TcpStream,
        unauthenticated_bytes_max: usize,
        idle_timeout: Duration,
    ) -> Connection {
        Connection {
            stream,
            decoder: FrameDecoder::new(unauthenticated_bytes_max),
            buffer: vec![0; READ_BYTES],
            outgoing: Vec::new(),
            idle_timeout,
            unauthenticated_bytes_left: Some(unauthenticated_bytes_max),
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Reads the first bytes of a client; `None` when it leaves without having sent any, as load
    /// balancers do to see whether anybody is there.
    pub(crate) async fn receive_magic(&mut self, limit: Duration) -> Result<Option<()>, Failure> {
        let mut magic = [0; MAGIC.len()];
        let mut got = 0;
        let reading = async {
            while got < magic.len() {
                let n = self.stream.read(&mut magic[got..]).await?;
                if n == 0 {
                    break;
                }
                got += n;
                // Rubbish is known by its first byte and must not keep us waiting for the rest.
                if magic[..got] != MAGIC[..got] {
                    break;
                }
            }
            std::io::Result::Ok(())
        };
        timeout(limit, reading).await.map_err(|_| silent())?.map_err(lost)?;
        self.bytes_in += got as u64;
        match got {
            0 => Ok(None),
            _ if magic == MAGIC => Ok(Some(())),
            _ => {
                Err(Failure::new(Code::NotSyncline, "the peer does not speak Syncline's protocol"))
            }
        }
    }

    /// The peer is known now and may send frames of this size.
    pub(crate) fn admit(&mut self, frame_bytes_max: usize) {
        self.decoder.set_frame_bytes_max(frame_bytes_max);
        self.unauthenticated_bytes_left = None;
    }

    /// The next frame; waits at most the idle time-out for each piece of it.
    pub(crate) async fn receive_frame(&mut self) -> Result<RawFrame, Failure> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(frame);
            }
            let len = self.unauthenticated_bytes_left.unwrap_or(READ_BYTES).min(READ_BYTES);
            if len == 0 {
                let message = "the peer sent too much before it was known";
                return Err(Failure::new(Code::FrameTooLarge, message));
            }
            let reading = self.stream.read(&mut self.buffer[..len]);
            let n =
                timeout(self.idle_timeout, reading).await.map_err(|_| silent())?.map_err(lost)?;
            if n == 0 {
                return Err(Failure::new(Code::ConnectionLost, "the peer closed the connection"));
            }
            self.bytes_in += n as u64;
            if let Some(left) = &mut self.unauthenticated_bytes_left {
                *left -= n;
            }
            self.decoder.push(&self.buffer[..n]);
        }
    }

    /// The next message that this version knows and that is not just a sign of life.
    pub(crate) async fn receive(&mut self) -> Result<Message, Failure> {
        loop {
            match Message::decode(self.receive_frame().await?)? {
                None | Some(Message::Heartbeat) => {}
                Some(message) => return Ok(message),
            }
        }
    }

    /// Puts a message behind what is to be sent with the next [`Connection::flush`].
    pub(crate) fn queue(&mut self, message: &Message) {
        message.encode(&mut self.outgoing);
    }

    /// Sends what is queued.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        let outgoing = std::mem::take(&mut self.outgoing);
        self.write(&outgoing).await
    }

    /// Sends whole frames, after what is queued.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.flush().await?;
        self.write(bytes).await
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let writing = self.stream.write(bytes);
            let n =
                timeout(self.idle_timeout, writing).await.map_err(|_| silent())?.map_err(lost)?;
            self.bytes_out += n as u64;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Tells the peer why it ends here, in a way that it can read it: closing a socket with unread
    /// bytes would reset the connection and destroy the message.
    pub(crate) async fn refuse(&mut self, failure: &Failure) {
        let farewell = async {
            self.outgoing.clear();
            self.queue(&Message::Failed(failure.into()));
            self.flush().await?;
            self.stream.shutdown().await.map_err(lost)?;
            let mut listened = 0;
            while listened < LINGER_BYTES_MAX {
                match self.stream.read(&mut self.buffer).await.map_err(lost)? {
                    0 => break,
                    n => listened += n,
                }
            }
            Ok::<(), Failure>(())
        };
        // The peer may be gone already; there is nobody left to tell.
        let _ = timeout(LINGER, farewell).await;
    }
}

fn silent() -> Failure {
    Failure::new(Code::PeerSilent, "the peer was silent for too long")
}

fn lost(error: std::io::Error) -> Failure {
    Failure::new(Code::ConnectionLost, "the connection was lost").source(error)
}
