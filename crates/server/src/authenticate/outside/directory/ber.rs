//! BER, the encoding of LDAP: a tag, a length, and bytes or further elements.
//!
//! Only what LDAP allows (RFC 4511, 5.1): tags of one byte, and lengths that are stated. Lengths
//! may have more bytes than they need, as those of Active Directory do, so a decoder of DER would
//! refuse them.

/// The bit of a tag whose element has further elements.
pub(super) const CONSTRUCTED: u8 = 0x20;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x10 | CONSTRUCTED;
pub(super) const SET: u8 = 0x11 | CONSTRUCTED;

/// The largest tag of one byte.
const NUMBER_MASK: u8 = 0x1f;

/// Most bytes of a length.
const LENGTH_BYTES_MAX: usize = 4;

/// Appends an element with this content.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let zeros = length.iter().take_while(|byte| **byte == 0).count();
            let length = &length[zeros..];
            // A length has at most eight bytes here.
            out.push(0x80 | length.len() as u8);
            out.extend_from_slice(length);
        }
    }
    out.extend_from_slice(content);
}

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, tag: u8, number: i32) {
    let bytes = number.to_be_bytes();
    let is_spare = |at: usize| match bytes[at] {
        0 => bytes[at + 1] < 0x80,
        0xff => bytes[at + 1] >= 0x80,
        _ => false,
    };
    let spare = (0..bytes.len() - 1).take_while(|at| is_spare(*at)).count();
    put(out, tag, &bytes[spare..]);
}

/// Appends an element of elements.
pub(super) fn put_all(out: &mut Vec<u8>, tag: u8, content: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    content(&mut inner);
    put(out, tag, &inner);
}

/// How many bytes the content has of the element that begins so, and how many its head; none where
/// the head is not complete. Fails where it is no element of LDAP.
pub(super) fn head(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let [tag, first, rest @ ..] = bytes else { return Ok(None) };
    if tag & NUMBER_MASK == NUMBER_MASK {
        return Err(Malformed);
    }
    let long = usize::from(first & 0x7f);
    if *first < 0x80 {
        return Ok(Some((2, long)));
    }
    if long == 0 || long > LENGTH_BYTES_MAX {
        return Err(Malformed);
    }
    let Some(length) = rest.get(..long) else { return Ok(None) };
    let length = length.iter().fold(0, |sum: usize, byte| sum << 8 | usize::from(*byte));
    Ok(Some((2 + long, length)))
}

/// Bytes that are no elements of LDAP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The elements that bytes hold, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'a>(pub(super) &'a [u8]);

impl<'a> Elements<'a> {
    /// The next element: its tag and its content. None behind the last.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, Malformed> {
        let Some(tag) = self.0.first() else { return Ok(None) };
        let (head, length) = head(self.0)?.ok_or(Malformed)?;
        let end = head.checked_add(length).ok_or(Malformed)?;
        let content = self.0.get(head..end).ok_or(Malformed)?;
        self.0 = &self.0[end..];
        Ok(Some((*tag, content)))
    }

    /// The content of the next element, which must have this tag.
    pub(super) fn take(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.next()? {
            Some((found, content)) if found == tag => Ok(content),
            _ => Err(Malformed),
        }
    }

    /// The next element, which must be a number.
    pub(super) fn take_number(&mut self, tag: u8) -> Result<i64, Malformed> {
        let bytes = self.take(tag)?;
        let Some(first) = bytes.first().filter(|_| bytes.len() <= 8) else {
            return Err(Malformed);
        };
        let sign = if *first < 0x80 { 0 } else { -1 };
        Ok(bytes.iter().fold(sign, |sum: i64, byte| sum << 8 | i64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_whatever_their_length_is() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let mut bytes = Vec::new();
            put(&mut bytes, OCTETS, &content);
            put_number(&mut bytes, INTEGER, -3);
            let mut elements = Elements(&bytes);
            assert_eq!(elements.take(OCTETS).unwrap(), content);
            assert_eq!(elements.take_number(INTEGER), Ok(-3));
            assert_eq!(elements.next(), Ok(None));
        }
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let all = [(0, 1), (1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i32::MAX, 4)];
        for (number, length) in all.into_iter().chain([(i32::MIN, 4), (0x0080_0000, 4)]) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, INTEGER, number);
            assert_eq!(bytes.len(), 2 + length, "{number}");
            assert_eq!(Elements(&bytes).take_number(INTEGER), Ok(i64::from(number)));
        }
    }

    // S9: what a directory sends is no reason to read on, and none to panic.
    #[test]
    fn what_is_cut_or_too_long_is_malformed() {
        // The length of Active Directory, which has more bytes than it needs.
        assert_eq!(Elements(&[4, 0x84, 0, 0, 0, 1, 9]).take(OCTETS), Ok(&[9][..]));
        let malformed: [&[u8]; 7] = [
            &[4],
            &[4, 2, 0],
            &[4, 0x80, 0, 0],
            &[4, 0x85, 0, 0, 0, 0, 1, 9],
            &[4, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x1f, 1, 0],
            &[2, 0],
        ];
        for bytes in malformed {
            let mut elements = Elements(bytes);
            assert!(
                elements.take(OCTETS).is_err() && Elements(bytes).take_number(INTEGER).is_err(),
                "{bytes:?}"
            );
        }
        assert_eq!(head(&[0x30, 0x82, 1]), Ok(None), "the rest may come");
    }
}
