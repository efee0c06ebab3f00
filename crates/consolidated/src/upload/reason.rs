//! What a remote is told of a row of its upload: why it was refused, or that it lost a conflict.

use model::{Code, Failure};

/// Why a row was refused, or by which rule it lost a conflict.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reason {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// What the database calls the error, where it was one. What we refuse ourselves has none.
    pub(crate) fault: Option<DatabaseFault>,
}

/// What a database calls an error. Scripts decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseFault {
    /// SQLSTATE. SQLite has none: it gets that which PostgreSQL has for the same.
    state: [u8; 5],
    /// The extended result code of SQLite.
    pub(crate) number: Option<i32>,
}

impl DatabaseFault {
    pub(crate) fn new(state: &str, number: Option<i32>) -> DatabaseFault {
        let mut bytes = *b"HY000";
        if let Ok(known) = <[u8; 5]>::try_from(state.as_bytes()) {
            bytes = known;
        }
        DatabaseFault { state: bytes, number }
    }

    /// SQLSTATE: five characters.
    pub(crate) fn state(&self) -> &str {
        std::str::from_utf8(&self.state).unwrap_or("HY000")
    }
}

impl From<(Code, String)> for Reason {
    fn from((code, message): (Code, String)) -> Reason {
        Reason { code, message, fault: None }
    }
}

/// Bytes in front of the message: code, SQLSTATE, number.
const HEAD: usize = 2 + 5 + 4;

impl Reason {
    /// The row was applied as far as the rule of the table lets it, and has lost something.
    pub(crate) fn lost_by(rule: &str) -> Reason {
        (Code::ConflictLost, rule.to_owned()).into()
    }

    /// Whether the row was refused.
    pub(crate) fn is_reject(&self) -> bool {
        self.code != Code::ConflictLost
    }

    /// What a database has said.
    pub(crate) fn said(code: Code, message: String, fault: DatabaseFault) -> Reason {
        Reason { code, message, fault: Some(fault) }
    }

    /// The same reason in other words.
    pub(crate) fn in_words(self, message: String) -> Reason {
        Reason { message, ..self }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.message.len());
        bytes.extend_from_slice(&self.code.number().to_le_bytes());
        bytes.extend_from_slice(&self.fault.map_or([0; 5], |fault| fault.state));
        let number = self.fault.and_then(|fault| fault.number);
        bytes.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(self.message.as_bytes());
        bytes
    }

    /// Reads what [`Reason::to_bytes`] wrote. No bytes are no reason.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Reason>, Failure> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let torn = || Failure::new(Code::Bug, "what was noted of a row does not read");
        let (code, rest) = bytes.split_first_chunk().ok_or_else(torn)?;
        let (state, rest) = rest.split_first_chunk::<5>().ok_or_else(torn)?;
        let (number, message) = rest.split_first_chunk().ok_or_else(torn)?;
        let number = Some(i32::from_le_bytes(*number)).filter(|number| *number != 0);
        Ok(Some(Reason {
            code: Code::from_number(u16::from_le_bytes(*code)).ok_or_else(torn)?,
            message: String::from_utf8(message.to_vec()).map_err(|_| torn())?,
            fault: (*state != [0; 5]).then_some(DatabaseFault { state: *state, number }),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_as_it_was_written() {
        let fault = DatabaseFault::new("23505", Some(2067));
        let reason = Reason::said(Code::RowNotUnique, "taken".to_owned(), fault);
        let ours = Reason::from((Code::RowVetoed, String::new()));
        for reason in [reason, ours] {
            assert_eq!(Reason::read(&reason.to_bytes()).unwrap(), Some(reason));
        }
        assert_eq!(Reason::read(&[]).unwrap(), None);
        assert!(Reason::read(&[1, 2, 3]).is_err());
        assert_eq!(DatabaseFault::new("no state", None).state(), "HY000");
    }
}
