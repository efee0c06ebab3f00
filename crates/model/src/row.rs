//! The compact row: how rows lie in memory, in the spill and on the wire.
//!
//! A row is its values one after the other; the table's column count says where it ends.
//! A value is one tag byte, whose low three bits are the class and whose high five bits `n` are
//! a length, then its payload:
//!
//! | class | name | payload |
//! |---|---|---|
//! | 0 | null | none |
//! | 1 | integer | zigzag, little-endian, `n` bytes (0 to 8) |
//! | 2 | real | 8 bytes, little-endian |
//! | 3 | text | `n` bytes below 28; 28, 29, 30, 31: a length of 1, 2, 4, 8 bytes, then the bytes |
//! | 4 | blob | as text |
//! | 5 | absent | none |
//!
//! Invariant R1: what [`write_value`] wrote, [`RowReader`] reads back identically.
//! Invariant R2: no input makes the reader panic, allocate or read past its slice.

use crate::code::Code;
use crate::failure::Failure;
use crate::value::ValueRef;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;
const ABSENT: u8 = 5;

/// Lengths below this fit into the tag byte.
const INLINE_LEN: usize = 28;

/// Appends one value to `out`.
#[inline]
pub fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => out.push(NULL),
        ValueRef::Absent => out.push(ABSENT),
        ValueRef::Integer(i) => {
            let zigzag = ((i << 1) ^ (i >> 63)) as u64;
            let len = (64 - zigzag.leading_zeros()).div_ceil(8) as usize;
            let end = out.len() + 1 + len;
            // A copy of fixed length, cut afterwards, is a single store.
            let [a, b, c, d, e, f, g, h] = zigzag.to_le_bytes();
            out.extend_from_slice(&[INTEGER | (len as u8) << 3, a, b, c, d, e, f, g, h]);
            out.truncate(end);
        }
        ValueRef::Real(r) => {
            out.push(REAL);
            out.extend_from_slice(&r.to_le_bytes());
        }
        ValueRef::Text(bytes) => write_bytes(out, TEXT, bytes),
        ValueRef::Blob(bytes) => write_bytes(out, BLOB, bytes),
    }
}

fn write_bytes(out: &mut Vec<u8>, class: u8, bytes: &[u8]) {
    let len = bytes.len();
    let tag = |n: u8| class | n << 3;
    if len < INLINE_LEN {
        out.push(tag(len as u8));
    } else if len <= usize::from(u8::MAX) {
        out.extend_from_slice(&[tag(28), len as u8]);
    } else if len <= usize::from(u16::MAX) {
        out.push(tag(29));
        out.extend_from_slice(&(len as u16).to_le_bytes());
    } else if let Ok(len) = u32::try_from(len) {
        out.push(tag(30));
        out.extend_from_slice(&len.to_le_bytes());
    } else {
        out.push(tag(31));
        out.extend_from_slice(&(len as u64).to_le_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice, borrowing text and bytes from it.
#[derive(Debug, Clone)]
pub struct RowReader<'a> {
    rest: &'a [u8],
}

impl<'a> RowReader<'a> {
    /// A reader at the first value of `bytes`.
    pub fn new(bytes: &'a [u8]) -> RowReader<'a> {
        RowReader { rest: bytes }
    }

    /// True when every byte was read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next value, or [`Code::MalformedMessage`].
    #[inline]
    pub fn value(&mut self) -> Result<ValueRef<'a>, Failure> {
        let (&tag, rest) = self.rest.split_first().ok_or_else(malformed)?;
        self.rest = rest;
        let n = tag >> 3;
        match tag & 7 {
            NULL if n == 0 => Ok(ValueRef::Null),
            ABSENT if n == 0 => Ok(ValueRef::Absent),
            INTEGER if n <= 8 => {
                let zigzag = self.integer(n)?;
                Ok(ValueRef::Integer((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)))
            }
            REAL if n == 0 => Ok(ValueRef::Real(f64::from_le_bytes(self.array()?))),
            TEXT => Ok(ValueRef::Text(self.bytes(n)?)),
            BLOB => Ok(ValueRef::Blob(self.bytes(n)?)),
            _ => Err(malformed()),
        }
    }

    /// The next `n` bytes as a number; `n` is at most 8.
    #[inline]
    fn integer(&mut self, n: u8) -> Result<u64, Failure> {
        let Some(eight) = self.rest.first_chunk() else {
            let mut bytes = [0; 8];
            bytes[..n as usize].copy_from_slice(self.take(n as usize)?);
            return Ok(u64::from_le_bytes(bytes));
        };
        // Nearly always more follows: one load, of which the first `n` bytes count.
        self.rest = &self.rest[n as usize..];
        let others = 64 - 8 * u32::from(n);
        Ok(u64::from_le_bytes(*eight) & u64::MAX.checked_shr(others).unwrap_or(0))
    }

    #[inline]
    fn bytes(&mut self, n: u8) -> Result<&'a [u8], Failure> {
        if usize::from(n) < INLINE_LEN {
            return self.take(usize::from(n));
        }
        let len = match n {
            28 => u64::from(self.take(1)?[0]),
            29 => u64::from(u16::from_le_bytes(self.array()?)),
            30 => u64::from(u32::from_le_bytes(self.array()?)),
            _ => u64::from_le_bytes(self.array()?),
        };
        self.take(usize::try_from(len).map_err(|_| malformed())?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Many rows of one width, back to back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// The rows, encoded.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub count: u32,
}

impl Rows {
    /// Checks that the bytes hold exactly `count` rows of `width` values, so that later readers
    /// may rely on it.
    pub fn validate(&self, width: usize) -> Result<(), Failure> {
        let mut rest = self.bytes.as_slice();
        for _ in 0..self.count {
            rest = skip_row(rest, width)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(malformed()) }
    }
}

/// What follows the first row of `width` values in `bytes`.
pub fn skip_row(bytes: &[u8], width: usize) -> Result<&[u8], Failure> {
    let mut reader = RowReader::new(bytes);
    for _ in 0..width {
        reader.value()?;
    }
    Ok(reader.rest())
}

/// The length in bytes of the first row of `width` values in `bytes`.
pub fn row_len(bytes: &[u8], width: usize) -> Result<usize, Failure> {
    Ok(bytes.len() - skip_row(bytes, width)?.len())
}

#[cold]
fn malformed() -> Failure {
    Failure::new(Code::MalformedMessage, "a row does not decode")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            Just(Value::Absent),
            any::<i64>().prop_map(Value::Integer),
            prop_oneof![Just(i64::MIN), Just(i64::MAX), -300i64..300].prop_map(Value::Integer),
            any::<u64>().prop_map(|bits| Value::Real(f64::from_bits(bits))),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Text),
            prop_oneof![Just(27usize), Just(28), Just(255), Just(256), Just(65536)]
                .prop_map(|len| Value::Blob(vec![0xA5; len])),
        ]
    }

    proptest! {
        // R1
        #[test]
        fn every_value_comes_back_identical(
            values in proptest::collection::vec(any_value(), 0..20)
        ) {
            let mut bytes = Vec::new();
            for value in &values {
                write_value(&mut bytes, value.as_ref());
            }
            let mut reader = RowReader::new(&bytes);
            for value in &values {
                prop_assert!(reader.value().unwrap().identical(value.as_ref()));
            }
            prop_assert!(reader.is_at_end());
        }

        // R2
        #[test]
        fn rubbish_is_an_error_and_never_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), width in 0usize..8
        ) {
            let rows = Rows { bytes, count: 5 };
            let _ = rows.validate(width);
        }
    }
}
