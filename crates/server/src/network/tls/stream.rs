//! One encrypted connection.
//!
//! It needs no memory before its first byte, shakes hands when it is first polled, and is as
//! silent as its peer until then. A peer that speaks clear text is answered in clear text, so that
//! it can read why it is refused.

use super::fault;
use super::settings::{Protocols, TlsSettings};
use crate::network::outgoing::{CHUNK_BYTES, Outgoing, Write};
use crate::network::stream::Stream;
use model::{Failure, Hold};
use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a session takes of the memory: its keys, and what has come of a record.
const SESSION_BYTES: u64 = 16 << 10;

/// The first byte of all that a client of TLS can begin with.
const HANDSHAKE_RECORD: u8 = 22;

/// A connection whose bytes are encrypted.
pub(super) struct TlsStream {
    inner: Box<dyn Stream>,
    state: State,
    outgoing: Outgoing,
    /// Something has come.
    begun: bool,
    /// The peer has closed.
    ended: bool,
    /// We have said that we close.
    closing: bool,
    /// The session knows that it ends here.
    refused: bool,
}

enum State {
    /// Not a byte has come.
    Silent(Arc<TlsSettings>, Protocols),
    /// A session, its handshake included.
    Session(Box<ServerConnection>),
    /// The peer speaks clear text. All that it hears is why this ends, and nothing that it says is
    /// read before the session knows why.
    Clear,
    /// The session is damaged. The peer can read nothing any more but an alert, which is sent.
    Broken,
}

impl TlsStream {
    /// Around a connection that was just accepted.
    pub(super) fn new(
        inner: Box<dyn Stream>,
        settings: Arc<TlsSettings>,
        protocols: Protocols,
        held: Hold,
    ) -> TlsStream {
        let (state, outgoing) = (State::Silent(settings, protocols), Outgoing::new(held));
        let (begun, ended, closing, refused) = (false, false, false, false);
        TlsStream { inner, state, outgoing, begun, ended, closing, refused }
    }

    /// Begins a session when the first byte is there.
    fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Silent(settings, protocols) = &self.state else { return Poll::Ready(Ok(())) };
        ready!(self.inner.poll_readable(context))?;
        let session = ServerConnection::new(settings.now(*protocols));
        let mut session = session.map_err(fault::unready)?;
        session.set_buffer_limit(Some(CHUNK_BYTES));
        self.outgoing.count_beside(SESSION_BYTES);
        self.state = State::Session(Box::new(session));
        Poll::Ready(Ok(()))
    }

    /// Waits for the end of the handshake.
    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_begin(context))?;
        while matches!(&self.state, State::Session(session) if session.is_handshaking()) {
            if self.ended {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
            ready!(self.poll_record(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for bytes that can be read, or the end.
    fn poll_plaintext(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_begin(context))?;
        while !self.ended && matches!(&self.state, State::Session(session) if session.wants_read())
        {
            ready!(self.poll_record(context))?;
        }
        match self.state {
            State::Clear if !self.refused => Poll::Ready(Err(fault::clear_text())),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Takes what has come, and lets out what there is to say to it.
    fn poll_record(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_say(context)?;
        let State::Session(session) = &mut self.state else { return Poll::Ready(Ok(())) };
        let mut source = Source { stream: self.inner.as_mut(), context, first: None };
        match session.read_tls(&mut source) {
            Ok(0) => self.ended = true,
            Ok(_) => {
                if !std::mem::replace(&mut self.begun, true)
                    && source.first != Some(HANDSHAKE_RECORD)
                {
                    self.state = State::Clear;
                    return Poll::Ready(Err(fault::clear_text()));
                }
                self.process(context)?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
        Poll::Ready(Ok(()))
    }

    /// Decrypts what has come. An answer to it goes out also where it was no good.
    fn process(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let State::Session(session) = &mut self.state else { return Ok(()) };
        let handshaking = session.is_handshaking();
        let processed = session.process_new_packets();
        fill(&mut self.outgoing, session)?;
        let fault = processed.err().map(|error| fault::broken(error, handshaking));
        if fault.is_some() {
            self.state = State::Broken;
        }
        let said = self.poll_say(context);
        fault.map_or(said, Err)
    }

    /// Sends what waits, as far as it goes. Whoever waits for the peer is woken when more goes.
    fn poll_say(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.poll_send(context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Sends all that waits.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.poll_send(self.inner.as_mut(), context)
    }

    fn write_at_once(&mut self, bytes: &[u8], way: Write) -> io::Result<usize> {
        let inner = self.inner.as_mut();
        match &self.state {
            State::Clear => return way.now(inner, bytes),
            State::Silent(..) => return Err(ErrorKind::WouldBlock.into()),
            State::Session(session) if session.is_handshaking() => {
                return Err(ErrorKind::WouldBlock.into());
            }
            State::Session(_) | State::Broken => {}
        }
        let state = &mut self.state;
        let add = |outgoing: &mut Outgoing| encrypt(state, outgoing, &[IoSlice::new(bytes)]);
        self.outgoing.write_at_once(inner, way, add)
    }
}

impl Stream for TlsStream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_plaintext(context)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_at_once(bytes, Write::TRIED)
    }

    fn write_unasked(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_at_once(bytes, Write::UNASKED)
    }

    /// What is encrypted and still here is as little with the peer as what the network has.
    fn unacknowledged(&self) -> Option<u64> {
        self.inner.unacknowledged().map(|bytes| bytes + self.outgoing.len() as u64)
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.inner.peer()
    }

    fn judged(&mut self, judgment: Result<(), &Failure>) {
        self.refused |= judgment.is_err();
    }

    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match &self.state {
            State::Session(session) => session.peer_certificates()?.first(),
            _ => None,
        }
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &mut *self;
        ready!(stream.poll_plaintext(context))?;
        match &mut stream.state {
            State::Session(session) => {
                let mut reader = session.reader();
                let read = match reader.fill_buf() {
                    Ok(bytes) => {
                        let n = bytes.len().min(place.remaining());
                        place.put_slice(&bytes[..n]);
                        n
                    }
                    // It closed without a word, as a program does that was killed.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
                    Err(_) if stream.ended => 0,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                reader.consume(read);
                Poll::Ready(Ok(()))
            }
            // For those who wait until a refused peer has closed, and throw its bytes away.
            _ => Pin::new(&mut stream.inner).poll_read(context, place),
        }
    }
}

impl AsyncWrite for TlsStream {
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
        let stream = &mut *self;
        ready!(stream.poll_handshake(context))?;
        if let State::Clear = stream.state {
            return Pin::new(&mut stream.inner).poll_write_vectored(context, slices);
        }
        // What was encrypted before goes first, so that no more than one chunk ever waits.
        ready!(stream.poll_send(context))?;
        let n = encrypt(&mut stream.state, &mut stream.outgoing, slices)?;
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
        if let (State::Session(session), false) = (&mut stream.state, stream.closing) {
            stream.closing = true;
            session.send_close_notify();
            fill(&mut stream.outgoing, session)?;
        }
        ready!(stream.poll_send(context))?;
        Pin::new(&mut stream.inner).poll_shutdown(context)
    }
}

/// Encrypts as many of these bytes as may wait at once.
fn encrypt(
    state: &mut State,
    outgoing: &mut Outgoing,
    slices: &[IoSlice<'_>],
) -> io::Result<usize> {
    let State::Session(session) = state else {
        // Nobody could read it.
        return Ok(slices.iter().map(|slice| slice.len()).sum());
    };
    let n = session.writer().write_vectored(slices)?;
    fill(outgoing, session)?;
    outgoing.count();
    Ok(n)
}

/// Takes all that the session has to say.
fn fill(outgoing: &mut Outgoing, session: &mut ServerConnection) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(outgoing.end())?;
    }
    Ok(())
}

/// The encrypted bytes of the peer, for a session that reads.
struct Source<'a, 'b, 'c> {
    stream: &'a mut dyn Stream,
    context: &'b mut Context<'c>,
    /// The first of those that were read.
    first: Option<u8>,
}

impl Read for Source<'_, '_, '_> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(place);
        match Pin::new(&mut *self.stream).poll_read(self.context, &mut buffer) {
            Poll::Ready(read) => read?,
            Poll::Pending => return Err(ErrorKind::WouldBlock.into()),
        }
        self.first = buffer.filled().first().copied();
        Ok(buffer.filled().len())
    }
}
