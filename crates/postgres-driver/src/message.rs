//! Splits the bytes of the server into messages, without copying.
//!
//! Invariant B1: the buffer grows with the bytes that have arrived, and not with an announced
//! length. No bytes cause a panic.

use bytes::BytesMut;
use postgres_protocol::message::backend;
use std::io::{self, ErrorKind};
use std::ops::Range;

/// What is read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// What stays allocated between messages, so that long rows do not allocate each time.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The most that PostgreSQL can put into one row.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Everything else is short; an error may quote a statement.
const OTHER_BYTES_MAX: usize = 16 << 20;

/// Tag and length.
const HEADER_BYTES: usize = 5;

/// One message, in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'b> {
    pub(crate) tag: u8,
    /// What follows the length.
    pub(crate) body: &'b [u8],
}

impl Message<'_> {
    /// The library's view of messages that are rare.
    pub(crate) fn parse(&self) -> io::Result<backend::Message> {
        let len = u32::try_from(self.body.len() + 4).map_err(io::Error::other)?;
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend_from_slice(&[self.tag]);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(self.body);
        backend::Message::parse(&mut bytes)?.ok_or_else(|| garbled("a message is cut short"))
    }
}

/// What has arrived and was not taken yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { buffer: vec![0; BUFFER_BYTES], taken: 0, filled: 0 }
    }

    /// Takes the next message, if all of it is there: its tag, and where its body lies.
    pub(crate) fn take(&mut self) -> io::Result<Option<(u8, Range<usize>)>> {
        let Some((tag, len)) = self.header()? else { return Ok(None) };
        let begin = self.taken + HEADER_BYTES;
        if self.filled - begin < len {
            return Ok(None);
        }
        self.taken = begin + len;
        Ok(Some((tag, begin..self.taken)))
    }

    /// A body that [`Inbox::take`] has taken; good until more arrives.
    pub(crate) fn body(&self, at: Range<usize>) -> &[u8] {
        &self.buffer[at]
    }

    /// Where the next bytes go; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            if self.buffer.len() > KEPT_BYTES_MAX {
                self.buffer = vec![0; BUFFER_BYTES];
            }
        }
        if self.taken > 0 && self.filled == self.buffer.len() {
            self.buffer.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
        }
        if self.filled == self.buffer.len() {
            // A message longer than the buffer, and all of the buffer has arrived.
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Notes that `count` bytes were put into the room.
    pub(crate) fn arrived(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// Tag and length of the next message.
    fn header(&self) -> io::Result<Option<(u8, usize)>> {
        let arrived = &self.buffer[self.taken..self.filled];
        let Some(&[tag, a, b, c, d]) = arrived.first_chunk() else { return Ok(None) };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        let most = if tag == backend::DATA_ROW_TAG { ROW_BYTES_MAX } else { OTHER_BYTES_MAX };
        match len.checked_sub(4) {
            Some(len) if len <= most => Ok(Some((tag, len))),
            _ => Err(garbled("a message has an impossible length")),
        }
    }
}

/// The bytes are not the protocol.
pub(crate) fn garbled(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Rows that a command returned or changed, from its tag: the last word of `INSERT 0 5`.
pub(crate) fn affected(body: &[u8]) -> u64 {
    let text = body.strip_suffix(&[0]).unwrap_or(body);
    let digits = text.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every message of `bytes`, which arrive in pieces of the given lengths.
    fn read(bytes: &[u8], pieces: &[usize]) -> io::Result<Vec<(u8, Vec<u8>)>> {
        read_into(&mut Inbox::new(), bytes, pieces)
    }

    fn read_into(
        inbox: &mut Inbox,
        bytes: &[u8],
        pieces: &[usize],
    ) -> io::Result<Vec<(u8, Vec<u8>)>> {
        let mut messages = Vec::new();
        let mut rest = bytes;
        let mut pieces = pieces.iter().cycle();
        loop {
            while let Some((tag, body)) = inbox.take()? {
                let message = Message { tag, body: inbox.body(body) };
                // Bytes that are no message of PostgreSQL are refused, without other effects.
                drop(message.parse());
                messages.push((tag, message.body.to_vec()));
            }
            if rest.is_empty() {
                return Ok(messages);
            }
            let room = inbox.room();
            let count = pieces.next().copied().unwrap_or(1).clamp(1, rest.len()).min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            inbox.arrived(count);
            rest = &rest[count..];
        }
    }

    fn write(messages: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (tag, body) in messages {
            bytes.push(*tag);
            bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
    }

    /// Rubbish, half of which begins like a message and announces any length.
    fn rubbish() -> impl Strategy<Value = Vec<u8>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..400);
        let tags = proptest::sample::select(b"DTSENRZ1".to_vec());
        let lengths = prop_oneof![any::<u32>(), 0..u32::MAX >> 2, 0..1000_u32];
        (proptest::option::of((tags, lengths)), bytes).prop_map(|(header, bytes)| {
            let header = header.map(|(tag, len)| [&[tag], &len.to_be_bytes()[..]].concat());
            [header.unwrap_or_default(), bytes].concat()
        })
    }

    proptest! {
        // S9
        #[test]
        fn rubbish_never_panics_and_takes_no_memory(
            bytes in rubbish(),
            pieces in proptest::collection::vec(1_usize..40, 1..10),
        ) {
            let mut inbox = Inbox::new();
            match read_into(&mut inbox, &bytes, &pieces) {
                Ok(messages) => {
                    let taken: usize =
                        messages.iter().map(|(_, body)| HEADER_BYTES + body.len()).sum();
                    prop_assert!(taken <= bytes.len());
                }
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidData),
            }
            // Whatever was announced, the buffer is what it was: all of this fits in it.
            prop_assert_eq!(inbox.buffer.capacity(), BUFFER_BYTES);
            prop_assert!(affected(&bytes) == 0 || bytes.iter().any(u8::is_ascii_digit));
        }

        #[test]
        fn messages_come_whole_however_they_are_cut(
            messages in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..20),
            pieces in proptest::collection::vec(1_usize..300, 1..10),
        ) {
            prop_assert_eq!(read(&write(&messages), &pieces).unwrap(), messages);
        }
    }

    #[test]
    fn long_messages_make_room_and_give_it_back() {
        let messages = [(b'D', vec![7; 5 * BUFFER_BYTES + 1]), (b'C', b"SELECT 1\0".to_vec())];
        assert_eq!(read(&write(&messages), &[BUFFER_BYTES]).unwrap(), messages);
        let mut inbox = Inbox::new();
        inbox.buffer.resize(KEPT_BYTES_MAX, 0);
        assert_eq!(inbox.room().len(), KEPT_BYTES_MAX);
        inbox.buffer.resize(KEPT_BYTES_MAX + 1, 0);
        assert_eq!(inbox.room().len(), BUFFER_BYTES);
    }

    // S9
    #[test]
    fn an_announced_gigabyte_allocates_nothing_before_it_comes() {
        let mut inbox = Inbox::new();
        inbox.room()[..5].copy_from_slice(&[b'D', 0x3f, 0, 0, 0]);
        inbox.arrived(5);
        assert!(inbox.take().unwrap().is_none());
        assert_eq!(inbox.room().len(), BUFFER_BYTES - 5);
        for header in [[b'D', 0xff, 0, 0, 0], [b'D', 0, 0, 0, 3], [b'S', 0x3f, 0, 0, 0]] {
            assert_eq!(read(&header, &[5]).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_command_tells_how_many_rows_it_was_about() {
        for (text, count) in [
            (&b"INSERT 0 5\0"[..], 5),
            (b"SELECT 17\0", 17),
            (b"BEGIN\0", 0),
            (b"CREATE TABLE AS\0", 0),
            (b"", 0),
            (b"UPDATE 99999999999999999999\0", 0),
        ] {
            assert_eq!(affected(text), count);
        }
    }
}
