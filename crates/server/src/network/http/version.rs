//! Which version of HTTP a peer speaks.
//!
//! Its first bytes say so. What was agreed on in a handshake of TLS says the same, and without TLS
//! there is nothing else: a proxy that speaks HTTP/2 to its servers simply begins.

/// What a client of HTTP/2 begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.0 and HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

impl Version {
    /// What begins with these bytes; none while they may still be either.
    pub(super) fn of(first: &[u8]) -> Option<Version> {
        match (first.starts_with(PREFACE), PREFACE.starts_with(first)) {
            (true, _) => Some(Version::Two),
            (false, true) => None,
            (false, false) => Some(Version::One),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_differs_tells_the_versions_apart() {
        for len in 0..PREFACE.len() {
            assert_eq!(Version::of(&PREFACE[..len]), None);
            let other = [&PREFACE[..len], b"!"].concat();
            assert_eq!(Version::of(&other), Some(Version::One));
        }
        assert_eq!(Version::of(PREFACE), Some(Version::Two));
        assert_eq!(Version::of(&[PREFACE, b"more"].concat()), Some(Version::Two));
        assert_eq!(Version::of(b"POST /sync HTTP/1.1"), Some(Version::One));
    }
}
