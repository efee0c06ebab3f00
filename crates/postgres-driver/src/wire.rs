//! Messages to and from one server.
//!
//! Outgoing bytes are collected in one buffer and sent while answers are awaited. The buffer is
//! reused for the next flight.

use crate::fault::Error;
use crate::message::{Inbox, Message, garbled};
use crate::notice::Notices;
use crate::refusal::Refusal;
use crate::socket::Socket;
use bytes::BytesMut;
use postgres_protocol::message::{backend, frontend};
use std::io::{self, ErrorKind};

/// What stays allocated between flights.
const OUTBOX_KEPT_BYTES: usize = 1 << 20;

/// A connection that speaks PostgreSQL's protocol.
pub(crate) struct Wire {
    socket: Socket,
    inbox: Inbox,
    outbox: BytesMut,
    /// Bytes of the outbox that the socket has taken.
    sent: usize,
    /// Why nothing can be sent any more. The server may have said why before it left.
    broken: Option<io::Error>,
    notices: Notices,
}

impl Wire {
    pub(crate) fn new(socket: Socket) -> Wire {
        let (inbox, outbox) = (Inbox::new(), BytesMut::new());
        Wire { socket, inbox, outbox, sent: 0, broken: None, notices: Notices::default() }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Where the next messages are written; [`Wire::message`] sends them.
    pub(crate) fn outbox(&mut self) -> &mut BytesMut {
        &mut self.outbox
    }

    /// From here on, messages are answers to the next flight.
    pub(crate) fn begin_flight(&mut self) {
        self.notices.begin();
    }

    /// Whether notices are kept out of the log from now on.
    pub(crate) fn silence(&mut self, silent: bool) {
        self.notices.silent = silent;
    }

    /// Forgets what was written and not sent.
    pub(crate) fn discard(&mut self) {
        self.outbox.truncate(self.sent);
    }

    /// Begins to send what was written, as far as it goes without waiting.
    pub(crate) fn send(&mut self) {
        if let Err(error) = self.send_now() {
            self.broken = Some(error);
        }
        if self.broken.is_none() && self.sent < self.outbox.len() {
            return;
        }
        self.sent = 0;
        match self.outbox.capacity() > OUTBOX_KEPT_BYTES {
            true => self.outbox = BytesMut::new(),
            false => self.outbox.clear(),
        }
    }

    fn send_now(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match self.socket.write(&self.outbox[self.sent..])? {
                0 => return Ok(()),
                count => self.sent += count,
            }
        }
        self.socket.flush()
    }

    /// Whether something written is still here.
    fn is_sending(&self) -> bool {
        self.broken.is_none() && (!self.outbox.is_empty() || !self.socket.is_flushed())
    }

    /// The next message that is an answer. What the server tells of its own accord is passed over,
    /// and logged where it is a notice.
    #[inline]
    pub(crate) fn message(&mut self) -> io::Result<Message<'_>> {
        let (tag, body) = loop {
            match self.inbox.take()? {
                Some((tag @ backend::NOTICE_RESPONSE_TAG, body)) => {
                    self.notices.log(&Message { tag, body: self.inbox.body(body) })?;
                }
                Some((backend::PARAMETER_STATUS_TAG | backend::NOTIFICATION_RESPONSE_TAG, _)) => {}
                Some(message) => break message,
                None => self.fill()?,
            }
        };
        Ok(Message { tag, body: self.inbox.body(body) })
    }

    /// The next message while a session begins; what the server refuses then is an error.
    pub(crate) fn answer(&mut self) -> Result<backend::Message, Error> {
        match self.message()?.parse()? {
            backend::Message::ErrorResponse(body) => {
                Err(Error::Refused(Box::new(Refusal::read(&body)?)))
            }
            message => Ok(message),
        }
    }

    /// Waits for bytes, and sends meanwhile: the server may not listen before it was heard.
    fn fill(&mut self) -> io::Result<()> {
        while self.is_sending() {
            self.send();
            if self.is_sending() && self.socket.wait()? {
                break;
            }
        }
        match self.socket.read(self.inbox.room()) {
            Ok(0) => Err(self.broken.take().unwrap_or(ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.inbox.arrived(count);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            // The bound of the beginning, or of a silence.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
            Err(error) => Err(self.broken.take().unwrap_or(error)),
        }
    }

    /// Says good-bye, so that the server need not note a lost client.
    pub(crate) fn terminate(&mut self) {
        frontend::terminate(&mut self.outbox);
        self.send();
    }
}

pub(crate) fn unexpected() -> Error {
    garbled("the server does not follow the protocol").into()
}
