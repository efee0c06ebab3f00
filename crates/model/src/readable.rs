//! Values as people read them, in JSON.

use crate::ValueRef;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value as JSON. What JSON cannot express is an object with one member: the hexadecimal digits
/// of bytes, or the name of a number such as infinity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readable<'a>(pub ValueRef<'a>);

impl Serialize for Readable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object = |serializer: S, name: &str, text: &str| {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(name, text)?;
            map.end()
        };
        match self.0 {
            ValueRef::Null | ValueRef::Absent => serializer.serialize_unit(),
            ValueRef::Integer(i) => serializer.serialize_i64(i),
            ValueRef::Real(r) if r.is_finite() => serializer.serialize_f64(r),
            ValueRef::Real(r) => object(serializer, "real", &r.to_string()),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => object(serializer, "text", &hex(text)),
            },
            ValueRef::Blob(bytes) => object(serializer, "blob", &hex(bytes)),
        }
    }
}

/// The bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of hexadecimal digits.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_the_bytes_that_were_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(hex(&[1, 255]), "01ff");
        assert_eq!(unhex("0g"), None);
    }
}
