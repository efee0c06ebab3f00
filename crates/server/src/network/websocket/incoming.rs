//! Frames of WebSocket, taken apart as their bytes come.

use super::fault::Fault;

/// Bytes of a message, in all its frames.
const MESSAGE_BYTES_MAX: u64 = 256 << 10;

/// The longest head: with a length of eight bytes, and a mask.
const HEAD_BYTES_MAX: usize = 14;

/// What a control frame may carry.
const CONTROL_BYTES_MAX: usize = 125;

/// The kinds of frames.
pub(super) mod opcode {
    pub(in super::super) const CONTINUATION: u8 = 0;
    pub(in super::super) const TEXT: u8 = 1;
    pub(in super::super) const BINARY: u8 = 2;
    pub(in super::super) const CLOSE: u8 = 8;
    pub(in super::super) const PING: u8 = 9;
    pub(in super::super) const PONG: u8 = 10;
}

/// Writes the head of a whole message that is not masked.
pub(super) fn write_head(place: &mut Vec<u8>, opcode: u8, len: usize) {
    place.push(0x80 | opcode);
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len @ 0..=125), _) => place.push(len),
        (_, Ok(len)) => {
            place.push(126);
            place.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            place.push(127);
            place.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

/// What a control frame has said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Ping(Control),
    Close,
}

/// What a control frame carries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Control {
    bytes: [u8; CONTROL_BYTES_MAX],
    len: usize,
}

impl Control {
    /// Writes the answer to a ping.
    pub(super) fn answer(&self, place: &mut Vec<u8>) {
        write_head(place, opcode::PONG, self.len);
        place.extend_from_slice(&self.bytes[..self.len]);
    }
}

/// Where the peer's frames stand.
pub(super) struct Incoming {
    state: State,
    mask: [u8; 4],
    /// Bytes of the present frame that were unmasked.
    unmasked: usize,
    /// Bytes of the message that is not complete, in the frames that have begun.
    message: Option<u64>,
}

enum State {
    /// So many bytes of a head have come.
    Head([u8; HEAD_BYTES_MAX], usize),
    /// So many bytes of a control frame have come.
    Control { opcode: u8, control: Control, have: usize },
    /// So many bytes of a message are left in this frame, and whether it is the last one.
    Data { left: u64 },
}

impl Default for Incoming {
    fn default() -> Incoming {
        let state = State::Head([0; HEAD_BYTES_MAX], 0);
        Incoming { state, mask: [0; 4], unmasked: 0, message: None }
    }
}

impl Incoming {
    /// Where the next bytes belong, of which [`Incoming::advance`] learns; none where those of a
    /// message are next. Never empty.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Head(head, have) => {
                let wanted = head_len(head, *have);
                Some(&mut head[*have..wanted])
            }
            State::Control { control, have, .. } => Some(&mut control.bytes[*have..control.len]),
            State::Data { .. } => None,
        }
    }

    /// So many bytes were put there.
    pub(super) fn advance(&mut self, n: usize) -> Result<Option<Heard>, Fault> {
        match &mut self.state {
            State::Head(head, have) => {
                *have += n;
                let (head, have) = (*head, *have);
                if have >= 2 {
                    self.judge(head[0], head[1])?;
                }
                if have >= 2 && have == head_len(&head, have) {
                    return self.begin(&head[..have]);
                }
                Ok(None)
            }
            State::Control { opcode, control, have } => {
                *have += n;
                if *have < control.len {
                    return Ok(None);
                }
                let (opcode, len) = (*opcode, control.len);
                let mut bytes = control.bytes;
                self.state = State::Head([0; HEAD_BYTES_MAX], 0);
                self.unmask(&mut bytes[..len]);
                Ok(heard(opcode, Control { bytes, len }))
            }
            State::Data { .. } => Ok(None),
        }
    }

    /// Bytes of a message that come next.
    pub(super) fn data_left(&self) -> usize {
        match self.state {
            State::Data { left } => usize::try_from(left).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// Makes the next bytes of a frame readable.
    pub(super) fn unmask(&mut self, bytes: &mut [u8]) {
        let mut mask = self.mask;
        mask.rotate_left(self.unmasked);
        for piece in bytes.chunks_mut(mask.len()) {
            piece.iter_mut().zip(mask).for_each(|(byte, key)| *byte ^= key);
        }
        self.unmasked = (self.unmasked + bytes.len()) % mask.len();
        if let State::Data { left } = &mut self.state {
            *left = left.saturating_sub(bytes.len() as u64);
            if *left == 0 {
                self.state = State::Head([0; HEAD_BYTES_MAX], 0);
            }
        }
    }

    /// Whether the first two bytes of a head are allowed here.
    fn judge(&self, first: u8, second: u8) -> Result<(), Fault> {
        if first & 0x70 != 0 {
            return Err(Fault::Broken("a reserved bit is set, and no extension was agreed on"));
        }
        if second & 0x80 == 0 {
            return Err(Fault::Broken("a frame is not masked"));
        }
        let (opcode, last) = (first & 0x0f, first & 0x80 != 0);
        match (opcode, self.message) {
            (opcode::TEXT, _) => Err(Fault::Text),
            (opcode::BINARY, None) | (opcode::CONTINUATION, Some(_)) => Ok(()),
            (opcode::BINARY, Some(_)) => Err(Fault::Broken("a message begins within another one")),
            (opcode::CONTINUATION, None) => Err(Fault::Broken("there is nothing to continue")),
            (opcode::CLOSE | opcode::PING | opcode::PONG, _) => {
                match last && usize::from(second & 0x7f) <= CONTROL_BYTES_MAX {
                    true => Ok(()),
                    false => Err(Fault::Broken("a control frame is too long, or in parts")),
                }
            }
            _ => Err(Fault::Broken("a frame is of an unknown kind")),
        }
    }

    /// Begins the frame of a complete head.
    fn begin(&mut self, head: &[u8]) -> Result<Option<Heard>, Fault> {
        let (lengths, mask) = head[2..].split_at(head.len() - 6);
        let len = match lengths {
            [] => u64::from(head[1] & 0x7f),
            bytes => bytes.iter().fold(0, |len, byte| len << 8 | u64::from(*byte)),
        };
        self.mask.copy_from_slice(mask);
        self.unmasked = 0;
        self.state = State::Head([0; HEAD_BYTES_MAX], 0);
        let (opcode, last) = (head[0] & 0x0f, head[0] & 0x80 != 0);
        if opcode >= opcode::CLOSE {
            let len = usize::try_from(len).unwrap_or(CONTROL_BYTES_MAX).min(CONTROL_BYTES_MAX);
            let control = Control { bytes: [0; CONTROL_BYTES_MAX], len };
            if len == 0 {
                return Ok(heard(opcode, control));
            }
            self.state = State::Control { opcode, control, have: 0 };
            return Ok(None);
        }
        let message = self.message.unwrap_or(0).saturating_add(len);
        if message > MESSAGE_BYTES_MAX {
            return Err(Fault::TooLarge);
        }
        self.message = (!last).then_some(message);
        if len > 0 {
            self.state = State::Data { left: len };
        }
        Ok(None)
    }
}

/// Bytes of a head that begins like this; the least that it can have while nothing is known.
fn head_len(head: &[u8; HEAD_BYTES_MAX], have: usize) -> usize {
    match (have, head[1] & 0x7f) {
        (0 | 1, _) | (_, 0..=125) => 6,
        (_, 126) => 8,
        _ => HEAD_BYTES_MAX,
    }
}

fn heard(opcode: u8, control: Control) -> Option<Heard> {
    match opcode {
        opcode::PING => Some(Heard::Ping(control)),
        opcode::CLOSE => Some(Heard::Close),
        _ => None,
    }
}
