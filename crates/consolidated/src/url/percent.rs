//! Percent-encoding: characters that a URL cannot hold, as `%20`.

/// The text, unless a `%` is not followed by two hexadecimal digits or it is no UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    // PostgreSQL takes its texts with a NUL at their ends.
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Writes everything but letters, digits and `-._~/` as `%XX`.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["", "a b", "100 %", "Straße/€", "a&b=c?d#e@f:g,h", "\n"] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert_eq!(encode("ä b/c"), "%C3%A4%20b/c");
        for bad in ["%", "%4", "%zz", "%+1", "%ff", "a%00b"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
