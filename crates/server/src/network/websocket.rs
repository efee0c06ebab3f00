//! WebSocket below a session, after the handshake (`http/upgrade.rs`).
//!
//! The bytes of the protocol cross in binary messages that may end anywhere in them, so no message
//! is ever held: what has come of one is passed on at once, and counts as progress of the peer.
//! This is why the frames are taken apart here. A library that gives whole messages would have 256
//! KiB in memory for each peer, and a peer with a modem would look silent for minutes.
//!
//! Bound: what is written and not sent, one chunk, and one answer to a ping.

mod fault;
mod incoming;
#[cfg(test)]
mod tests;

use super::outgoing::{CHUNK_BYTES, Outgoing, Write};
use super::stream::Stream;
use bytes::{Buf, Bytes};
use fault::Fault;
use incoming::{Control, Heard, Incoming, opcode};
use model::Hold;
use rustls::pki_types::CertificateDer;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// While a peer is waited for, programs between the two see from time to time that there is one.
const PING_EVERY: Duration = Duration::from_secs(15);

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// How long a peer has to close its end.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The code of a connection over which all was said.
const CLOSE_NORMAL: u16 = 1000;

/// A connection over which WebSocket is spoken.
pub(super) struct WebSocket {
    inner: Box<dyn Stream>,
    /// What came behind the request of the handshake.
    ahead: Bytes,
    incoming: Incoming,
    outgoing: Outgoing,
    /// The last ping that is not answered.
    ping: Option<Control>,
    next_ping: Option<Pin<Box<Sleep>>>,
    /// Nothing more is read.
    ended: bool,
    fault: Option<Fault>,
    closing: Closing,
}

enum Closing {
    Not,
    /// The last frame is on its way.
    Said,
    /// What still comes is thrown away: closing a socket with unread bytes would reset the
    /// connection, and destroy what the peer has not read.
    Draining(Pin<Box<Sleep>>),
    Done,
}

impl WebSocket {
    /// Around a stream whose peer has asked for it, with what was read behind the request.
    pub(super) fn new(inner: Box<dyn Stream>, ahead: Bytes, held: Hold) -> WebSocket {
        WebSocket {
            inner,
            ahead,
            incoming: Incoming::default(),
            outgoing: Outgoing::new(held),
            ping: None,
            next_ping: None,
            ended: false,
            fault: None,
            closing: Closing::Not,
        }
    }

    /// Waits until bytes of a message are next. False at the end.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            self.poll_say(context)?;
            if self.ended {
                return Poll::Ready(Ok(false));
            }
            let Some(place) = self.incoming.room() else { return Poll::Ready(Ok(true)) };
            let read = poll_read(self.inner.as_mut(), &mut self.ahead, context, place);
            let Poll::Ready(n) = read else {
                self.poll_ping(context)?;
                return Poll::Pending;
            };
            match n? {
                // A program that was killed closes without a word.
                0 => self.ended = true,
                n => self.hear(n)?,
            }
        }
    }

    /// Understands so many more bytes of a head, or of a control frame.
    fn hear(&mut self, n: usize) -> io::Result<()> {
        match self.incoming.advance(n) {
            Ok(None) => Ok(()),
            Ok(Some(Heard::Ping(control))) => {
                self.ping = Some(control);
                Ok(())
            }
            Ok(Some(Heard::Close)) => {
                self.ended = true;
                Ok(())
            }
            Err(fault) => {
                self.ended = true;
                self.fault = Some(fault);
                Err(io::Error::new(ErrorKind::InvalidData, fault.failure()))
            }
        }
    }

    /// Sends a ping where one is due.
    fn poll_ping(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let timer = self.next_ping.get_or_insert_with(|| Box::pin(sleep(PING_EVERY)));
        while timer.as_mut().poll(context).is_ready() {
            timer.set(sleep(PING_EVERY));
            // Where something waits, the peer takes nothing.
            if self.outgoing.len() == 0 {
                incoming::write_head(self.outgoing.end(), opcode::PING, 0);
            }
        }
        self.poll_say(context)
    }

    /// Sends what waits, as far as it goes, and then the answer to a ping.
    fn poll_say(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            match self.poll_send(context) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(()),
            }
            let open = matches!(self.closing, Closing::Not);
            let Some(ping) = self.ping.take().filter(|_| open) else { return Ok(()) };
            ping.answer(self.outgoing.end());
        }
    }

    /// Sends all that waits.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.poll_send(self.inner.as_mut(), context)
    }

    fn write_at_once(&mut self, bytes: &[u8], way: Write) -> io::Result<usize> {
        let closing = &self.closing;
        let add = |outgoing: &mut Outgoing| wrap(closing, outgoing, &[IoSlice::new(bytes)]);
        self.outgoing.write_at_once(self.inner.as_mut(), way, add)
    }

    /// Throws away what still comes, until the peer has closed or its time is over.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Closing::Draining(limit) = &mut self.closing else { return Poll::Ready(Ok(())) };
        let mut thrown_away = [0; 4 << 10];
        while limit.as_mut().poll(context).is_pending() {
            let mut place = ReadBuf::new(&mut thrown_away);
            // How it ends is nobody's concern any more.
            let read = ready!(Pin::new(&mut self.inner).poll_read(context, &mut place));
            if read.is_err() || place.filled().is_empty() {
                break;
            }
        }
        self.closing = Closing::Done;
        Poll::Ready(Ok(()))
    }
}

/// Makes a message of as many of these bytes as may wait at once.
fn wrap(closing: &Closing, outgoing: &mut Outgoing, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    if !matches!(closing, Closing::Not) {
        return Err(ErrorKind::BrokenPipe.into());
    }
    let len = slices.iter().map(|slice| slice.len()).sum::<usize>().min(CHUNK_BYTES);
    if len == 0 {
        return Ok(0);
    }
    let place = outgoing.end();
    incoming::write_head(place, opcode::BINARY, len);
    let mut left = len;
    for slice in slices {
        let n = slice.len().min(left);
        place.extend_from_slice(&slice[..n]);
        left -= n;
    }
    outgoing.count();
    Ok(len)
}

/// Reads to `place`: what was read before, then what the stream has.
fn poll_read(
    inner: &mut dyn Stream,
    ahead: &mut Bytes,
    context: &mut Context<'_>,
    place: &mut [u8],
) -> Poll<io::Result<usize>> {
    if !ahead.is_empty() {
        let n = ahead.len().min(place.len());
        ahead.copy_to_slice(&mut place[..n]);
        return Poll::Ready(Ok(n));
    }
    let mut buffer = ReadBuf::new(place);
    ready!(Pin::new(inner).poll_read(context, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}

impl Stream for WebSocket {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !ready!(self.poll_data(context))? || !self.ahead.is_empty() {
            return Poll::Ready(Ok(()));
        }
        match self.inner.poll_readable(context) {
            Poll::Ready(readable) => Poll::Ready(readable),
            Poll::Pending => {
                self.poll_ping(context)?;
                Poll::Pending
            }
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_at_once(bytes, Write::TRIED)
    }

    fn write_unasked(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_at_once(bytes, Write::UNASKED)
    }

    fn unacknowledged(&self) -> Option<u64> {
        self.inner.unacknowledged().map(|bytes| bytes + self.outgoing.len() as u64)
    }

    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.inner.certificate()
    }
}

impl AsyncRead for WebSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &mut *self;
        if !ready!(stream.poll_data(context))? {
            return Poll::Ready(Ok(()));
        }
        let room = place.remaining().min(stream.incoming.data_left()).min(READ_BYTES);
        let bytes = place.initialize_unfilled_to(room);
        match poll_read(stream.inner.as_mut(), &mut stream.ahead, context, bytes) {
            Poll::Ready(read) => {
                let n = read?;
                stream.ended |= n == 0 && room > 0;
                stream.incoming.unmask(&mut bytes[..n]);
                place.advance(n);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                stream.poll_ping(context)?;
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for WebSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What was wrapped before goes first, so that no more than one chunk ever waits.
        let stream = &mut *self;
        ready!(stream.poll_send(context))?;
        let n = wrap(&stream.closing, &mut stream.outgoing, slices)?;
        stream.poll_say(context)?;
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = &mut *self;
        if let Closing::Not = stream.closing {
            let code = stream.fault.map_or(CLOSE_NORMAL, Fault::close_code);
            stream.closing = Closing::Said;
            let place = stream.outgoing.end();
            incoming::write_head(place, opcode::CLOSE, 2);
            place.extend_from_slice(&code.to_be_bytes());
        }
        if let Closing::Said = stream.closing {
            ready!(stream.poll_send(context))?;
            ready!(Pin::new(&mut stream.inner).poll_shutdown(context))?;
            stream.ended = true;
            stream.closing = Closing::Draining(Box::pin(sleep(CLOSE_MAX)));
        }
        stream.poll_drain(context)
    }
}
