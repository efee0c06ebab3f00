//! When the password of a user expires, and how the database says it.

/// When the password of a user expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// When it is as old as the server allows.
    ByAge,
    /// At this time, in seconds since 1970.
    At(i64),
    /// Never.
    Never,
}

impl Expiry {
    /// Stands for never: the last second of the year 9999.
    const NEVER_UNIX_S: i64 = 253_402_300_799;

    pub(crate) fn stored(unix_s: Option<i64>) -> Expiry {
        match unix_s {
            None => Expiry::ByAge,
            Some(Expiry::NEVER_UNIX_S) => Expiry::Never,
            Some(unix_s) => Expiry::At(unix_s),
        }
    }

    pub(crate) fn to_stored(self) -> Option<i64> {
        match self {
            Expiry::ByAge => None,
            Expiry::At(unix_s) => Some(unix_s),
            Expiry::Never => Some(Expiry::NEVER_UNIX_S),
        }
    }
}
