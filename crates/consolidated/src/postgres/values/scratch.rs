//! A short text under construction, on the stack unless it becomes long.

/// Bytes kept on the stack: every date and nearly every number.
const INLINE: usize = 96;

/// Takes bytes and shows them as one slice.
pub(in crate::postgres) struct Scratch {
    inline: [u8; INLINE],
    len: usize,
    spilled: Vec<u8>,
}

impl Scratch {
    pub(in crate::postgres) fn new() -> Scratch {
        Scratch { inline: [0; INLINE], len: 0, spilled: Vec::new() }
    }

    pub(in crate::postgres) fn push(&mut self, byte: u8) {
        if self.len < INLINE {
            self.inline[self.len] = byte;
            self.len += 1;
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(byte);
    }

    pub(in crate::postgres) fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.push(byte));
    }

    /// `value` in decimal, with zeros in front up to `width` digits.
    pub(in crate::postgres) fn padded(&mut self, value: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let (mut rest, mut at) = (value, digits.len());
        while rest > 0 || at + width > digits.len() {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        digits[at..].iter().for_each(|digit| self.push(*digit));
    }

    pub(in crate::postgres) fn as_bytes(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..self.len] } else { &self.spilled }
    }

    /// Only ASCII is ever written here by dates and numbers.
    pub(in crate::postgres) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// What was written last.
    pub(in crate::postgres) fn last(&self) -> Option<u8> {
        self.as_bytes().last().copied()
    }

    /// Removes the last byte.
    pub(in crate::postgres) fn pop(&mut self) {
        if self.spilled.pop().is_none() {
            self.len = self.len.saturating_sub(1);
        }
    }
}
