//! One connection: frames from bytes, bytes from messages, and a limit for every wait.

use super::patience::{Limits, Patience};
use super::proxied::BEGINNINGS;
use super::stream::Stream;
use super::wire::{Wire, lost};
use bytes::BufMut;
use model::{Clock, Code, Failure, Hold, Memory, Spill};
use protocol::{
    BegunFrame, Capabilities, Compression, Decompressor, FrameDecoder, MAGIC, Message, PackedRows,
    RawFrame,
};
use rustls::pki_types::CertificateDer;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Room for the first bytes of a client, in which a small synchronization fits.
const FIRST_BYTES: usize = 8 << 10;

/// What a client of TLS says first: a handshake, and the version.
const TLS_BEGINS: [u8; 2] = [22, 3];

/// Bytes of a frame that are in memory at once while it goes to disk, or nowhere.
const PIECE_BYTES: usize = 16 << 10;

/// When a peer should come back for which there was no memory, in seconds.
const SHORT_RETRY_AFTER_S: u32 = 5;

/// How long, and how much, a refused peer is listened to so that it can read why.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 16 << 20;
const LINGER_BYTES_AT_ONCE: usize = 64 << 10;

thread_local! {
    /// Of all connections that this thread serves: unpacking a frame waits for nothing.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::default();
}

/// What is heard while rows come.
pub(crate) enum Received {
    /// A frame, and what it takes of the memory.
    Frame(RawFrame, Option<Hold>),
    /// Rows, which lie on disk as the last chunk of the spill: there was no memory for them.
    RowsOnDisk,
}

/// Bytes from the peer.
enum Next {
    Frame(RawFrame),
    /// A frame for which there is no memory.
    Begun(BegunFrame),
}

/// A peer.
pub(crate) struct Connection {
    wire: Wire,
    decoder: FrameDecoder,
    outgoing: Vec<u8>,
    /// The peer has the beginning of a frame whose rest is lost, or in front in `outgoing`.
    torn: bool,
    /// How it may compress rows.
    readable: Capabilities,
    /// How it has compressed rows.
    compression: Option<Compression>,
    /// What it takes of the memory beside its frames.
    buffers: Hold,
    /// Bytes that may still be read from a peer who is not known; none once it is.
    unauthenticated_bytes_left: Option<usize>,
}

impl Connection {
    pub(crate) fn new(
        stream: Box<dyn Stream>,
        unauthenticated_bytes_max: usize,
        memory: &Arc<Memory>,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Connection {
        Connection {
            wire: Wire::new(stream, clock, limits),
            decoder: FrameDecoder::counted(unauthenticated_bytes_max, memory.hold()),
            outgoing: Vec::new(),
            torn: false,
            readable: Capabilities::NONE,
            compression: None,
            buffers: memory.hold(),
            unauthenticated_bytes_left: Some(unauthenticated_bytes_max),
        }
    }

    /// Reads the first bytes of a client. `None` if it closes the connection without any, as load
    /// balancers do to test a server.
    pub(crate) async fn receive_magic(&mut self, limit: Duration) -> Result<Option<()>, Failure> {
        let mut first = Vec::new();
        let reading = async {
            // Rubbish is known by its first byte and must not keep us waiting for the rest.
            while first.len() < MAGIC.len() && MAGIC.starts_with(&first) {
                if first.is_empty() {
                    // A connection needs no memory before its first byte.
                    poll_fn(|context| self.wire.stream.poll_readable(context)).await?;
                    first.reserve(FIRST_BYTES);
                }
                let mut room = (&mut first).limit(FIRST_BYTES);
                if self.wire.stream.read_buf(&mut room).await? == 0 {
                    break;
                }
            }
            std::io::Result::Ok(())
        };
        timeout(limit, reading).await.map_err(|_| silent())?.map_err(lost)?;
        self.wire.bytes_in += first.len() as u64;
        if first.is_empty() {
            return Ok(None);
        }
        let Some(rest) = first.strip_prefix(&MAGIC) else {
            return Err(stranger(&first));
        };
        if let Some(left) = &mut self.unauthenticated_bytes_left {
            *left = left.saturating_sub(rest.len());
        }
        self.decoder.push(rest);
        Ok(Some(()))
    }

    /// The peer is known now and may send frames of this size.
    pub(crate) fn admit(&mut self, frame_bytes_max: usize, limits: Limits) {
        self.wire.stream.judged(Ok(()));
        self.wire.patience = Patience::new(limits);
        self.decoder.set_frame_bytes_max(frame_bytes_max);
        self.buffers.grow(FIRST_BYTES as u64);
        self.unauthenticated_bytes_left = None;
    }

    /// How the peer has compressed rows; none where it has not.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// The peer may send rows that are compressed so.
    pub(crate) fn read_compressed(&mut self, readable: Capabilities) {
        self.readable = readable;
    }

    /// Names the limit that holds for a peer that is not known yet.
    fn explain(&self, failure: Failure) -> Failure {
        match (self.unauthenticated_bytes_left, failure.code()) {
            (Some(_), Code::FrameTooLarge) => failure.hint(
                "raise `unauthenticated_bytes_max` on the server: the first message of a remote \
                 needs about 110 bytes for each table",
            ),
            _ => failure,
        }
    }

    /// The next frame, or one as far as it has come if there is no memory for it; waits for it as
    /// long as patience lasts.
    async fn next(&mut self) -> Result<Next, Failure> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|it| self.explain(it))? {
                if frame.frame_type >= Message::OPTIONAL_TYPES {
                    self.wire.patience.heartbeat(frame.wire_bytes() as u64);
                }
                return Ok(Next::Frame(frame));
            }
            if !self.decoder.make_room()
                && let Some(begun) = self.decoder.take_begun()
            {
                return Ok(Next::Begun(begun));
            }
            let announced = self.decoder.missing();
            let (place, room) = self.decoder.room();
            let room = self.unauthenticated_bytes_left.unwrap_or(room).min(room);
            if room == 0 {
                let message = "the peer sent too much before it was authenticated";
                return Err(self.explain(Failure::new(Code::FrameTooLarge, message)));
            }
            let n = self.wire.read(&mut place.limit(room), announced).await?;
            if let Some(left) = &mut self.unauthenticated_bytes_left {
                *left -= n;
            }
        }
    }

    /// The next frame, whatever it is; rows for which there is no memory go to the end of `spill`.
    pub(crate) async fn receive_into(&mut self, spill: &mut Spill) -> Result<Received, Failure> {
        let begun = match self.next().await? {
            Next::Frame(frame) if frame.frame_type == Message::PACKED_ROWS_TYPE => {
                // It counts until it is unpacked.
                let _memory = self.decoder.take_memory();
                return self.unpack(&frame.payload, spill);
            }
            Next::Begun(begun) if begun.frame_type == Message::PACKED_ROWS_TYPE => {
                let mut aside = spill.spills().open();
                self.put_on_disk(begun, &mut aside).await?;
                let (payload, _memory) = aside.last_on_disk()?;
                return self.unpack(&payload, spill);
            }
            Next::Frame(frame) => return Ok(Received::Frame(frame, self.decoder.take_memory())),
            Next::Begun(begun) if begun.frame_type == Message::ROWS_TYPE => begun,
            Next::Begun(_) => return Err(no_memory()),
        };
        self.put_on_disk(begun, spill).await?;
        Ok(Received::RowsOnDisk)
    }

    /// Receives the rest of a frame to the end of `spill`.
    async fn put_on_disk(&mut self, begun: BegunFrame, spill: &mut Spill) -> Result<(), Failure> {
        spill.begin_on_disk(u32::try_from(begun.len).unwrap_or(u32::MAX))?;
        spill.extend_on_disk(&begun.payload)?;
        self.rest_of(begun, &mut |piece| spill.extend_on_disk(piece)).await
    }

    /// Compressed rows as they were before. They take their memory before they are unpacked; where
    /// there is none, they go to the end of `spill`, and are in memory until they are there.
    fn unpack(&mut self, payload: &[u8], spill: &mut Spill) -> Result<Received, Failure> {
        let rows = PackedRows::parse(payload, self.decoder.frame_bytes_max(), self.readable)?;
        self.compression = Some(rows.method());
        let bytes = rows.unpacked_bytes() as u64;
        let mut memory = spill.spills().memory().hold();
        let fits = memory.try_grow(bytes);
        if !fits {
            memory.grow(bytes);
        }
        let frame = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.unpack(rows))?;
        if fits {
            return Ok(Received::Frame(frame, Some(memory)));
        }
        spill.begin_on_disk(u32::try_from(frame.payload.len()).unwrap_or(u32::MAX))?;
        spill.extend_on_disk(&frame.payload)?;
        Ok(Received::RowsOnDisk)
    }

    /// Reads what is missing of a frame, piece by piece.
    async fn rest_of(
        &mut self,
        begun: BegunFrame,
        take: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure> {
        let mut missing = begun.len - begun.payload.len();
        drop(begun);
        let mut piece = Vec::with_capacity(PIECE_BYTES.min(missing));
        while missing > 0 {
            piece.clear();
            let mut place = (&mut piece).limit(PIECE_BYTES.min(missing));
            let n = self.wire.read(&mut place, missing).await?;
            missing -= n;
            take(&piece)?;
        }
        Ok(())
    }

    /// The next message while rows are thrown away, for which there need not be memory; none for
    /// such rows.
    pub(crate) async fn receive_skipping(&mut self) -> Result<Option<Message>, Failure> {
        match self.next().await? {
            Next::Frame(frame) if has_rows(frame.frame_type) => {}
            Next::Begun(begun) if has_rows(begun.frame_type) => {
                self.rest_of(begun, &mut |_| Ok(())).await?;
            }
            Next::Frame(frame) => return Message::decode(frame),
            Next::Begun(_) => return Err(no_memory()),
        }
        drop(self.decoder.take_memory());
        Ok(None)
    }

    /// The next message that this version knows and that is not just a sign of life.
    pub(crate) async fn receive(&mut self) -> Result<Message, Failure> {
        loop {
            let decoded = match self.next().await? {
                Next::Frame(frame) => Message::decode(frame)?,
                Next::Begun(_) => return Err(no_memory()),
            };
            drop(self.decoder.take_memory());
            match decoded {
                None | Some(Message::Heartbeat) => {}
                Some(message) => return Ok(message),
            }
        }
    }

    /// The certificate that the peer has shown.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.wire.stream.certificate()
    }

    /// Whose connection this is, where a trusted proxy has said so.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.wire.stream.peer()
    }

    /// Bytes received from the peer, and sent to it.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.wire.bytes_in, self.wire.bytes_out)
    }

    /// Adds a message to those that the next [`Connection::flush`] sends.
    pub(crate) fn queue(&mut self, message: &Message) -> Result<(), Failure> {
        message.encode(&mut self.outgoing)
    }

    /// Sends the peer a sign of life, as far as the network accepts it at once.
    pub(crate) fn sign_of_life(&mut self) -> Result<(), Failure> {
        if self.outgoing.is_empty() {
            self.queue(&Message::Heartbeat)?;
        }
        while !self.outgoing.is_empty() {
            match self.wire.stream.try_write(&self.outgoing) {
                Ok(n) => {
                    self.wire.bytes_out += n as u64;
                    self.outgoing.drain(..n);
                    self.torn = !self.outgoing.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
    }

    /// Sends what is queued.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        self.send(&[]).await
    }

    /// Sends whole frames, after what is queued, with as few writes as the socket takes.
    pub(crate) async fn send(&mut self, frames: &[&[u8]]) -> Result<(), Failure> {
        self.send_pieces(frames, true).await
    }

    /// The same of pieces of frames; `whole` where the last frame ends with the last of them.
    pub(crate) async fn send_pieces(
        &mut self,
        frames: &[&[u8]],
        whole: bool,
    ) -> Result<(), Failure> {
        let queued = std::mem::take(&mut self.outgoing);
        let mut slices = Vec::with_capacity(1 + frames.len());
        slices.push(IoSlice::new(&queued));
        slices.extend(frames.iter().map(|frame| IoSlice::new(frame)));
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        // Also if the caller stops waiting in the middle.
        self.torn = true;
        while !rest.is_empty() {
            let n = self.wire.write(rest).await?;
            IoSlice::advance_slices(&mut rest, n);
        }
        self.wire.flush().await?;
        self.torn = !whole;
        Ok(())
    }

    /// Ends a connection over which everything was said, once all of it is on its way.
    pub(crate) async fn finish(&mut self) {
        // The peer may be gone already: it has all that it waited for, or asks at its next Hello.
        let _ = self.wire.shutdown().await;
    }

    /// Tells the peer why it ends here, in a way that it can read it: closing a socket with unread
    /// bytes would reset the connection and destroy the message.
    pub(crate) async fn refuse(&mut self, failure: &Failure) {
        if self.torn && self.outgoing.is_empty() {
            // The peer would take this for the rest of the frame.
            return;
        }
        self.wire.stream.judged(Err(failure));
        self.wire.patience.renew();
        let farewell = async {
            if !self.torn {
                self.outgoing.clear();
            }
            self.queue(&Message::Failed(failure.into()))?;
            self.flush().await?;
            self.wire.stream.shutdown().await.map_err(lost)?;
            let mut listened = 0;
            let mut thrown_away = vec![0; LINGER_BYTES_AT_ONCE];
            while listened < LINGER_BYTES_MAX {
                match self.wire.stream.read(&mut thrown_away).await.map_err(lost)? {
                    0 => break,
                    n => listened += n,
                }
            }
            Ok::<(), Failure>(())
        };
        // The peer may be gone already. Then there is no one to report to.
        let _ = timeout(LINGER, farewell).await;
    }
}

fn has_rows(frame_type: u8) -> bool {
    [Message::ROWS_TYPE, Message::PACKED_ROWS_TYPE].contains(&frame_type)
}

fn no_memory() -> Failure {
    let message = "the memory for what remotes send is used up";
    Failure::new(Code::MemoryShort, message).retry_after_s(SHORT_RETRY_AFTER_S)
}

/// Why a peer that begins like this is not served.
fn stranger(first: &[u8]) -> Failure {
    if first.starts_with(&TLS_BEGINS) {
        let message = "the peer speaks TLS, and this port does not";
        return Failure::new(Code::EncryptionMismatch, message);
    }
    if BEGINNINGS.iter().any(|beginning| first.starts_with(beginning)) {
        let message = "the peer is a proxy that speaks the PROXY protocol";
        return Failure::new(Code::NotSyncline, message).hint(
            "name it in `trusted_proxies` of the server, and set `proxy_protocol = true` there",
        );
    }
    Failure::new(Code::NotSyncline, "the peer does not speak Syncline's protocol")
}

fn silent() -> Failure {
    Failure::new(Code::PeerSilent, "the peer was silent for too long")
}
