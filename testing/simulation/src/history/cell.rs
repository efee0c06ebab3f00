//! Values as they lie in a row, compared byte by byte.

use rusqlite::types::ValueRef;
use std::fmt;

/// Digits of a token.
const TOKEN_DIGITS: usize = 8;
/// Tokens of one author.
const TOKENS_OF_AUTHOR: u64 = 1_000_000;
/// The first author: every token has the same number of digits.
const AUTHOR_FIRST: u64 = 10;
/// In text and bytes a token stands behind this letter.
const TOKEN_SIGN: u8 = b'w';

/// One value. Two are equal where no program can tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// The bits of a real number.
    Real(u64),
    /// Text, which may hold any bytes.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A number that somebody has written once, into one value. Nobody writes it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(u64);

impl Token {
    /// The token with this number of an author; authors are counted from 0.
    pub fn new(author: usize, number: u64) -> Token {
        Token((AUTHOR_FIRST + author as u64) * TOKENS_OF_AUTHOR + number % TOKENS_OF_AUTHOR)
    }

    /// Who has written it.
    pub fn author(self) -> usize {
        (self.0 / TOKENS_OF_AUTHOR - AUTHOR_FIRST) as usize
    }

    /// The number itself.
    pub fn number(self) -> u64 {
        self.0
    }

    fn of_number(number: u64) -> Option<Token> {
        let authors = AUTHOR_FIRST * TOKENS_OF_AUTHOR..10 * AUTHOR_FIRST * TOKENS_OF_AUTHOR;
        authors.contains(&number).then_some(Token(number))
    }

    fn of_bytes(bytes: &[u8]) -> Option<Token> {
        let at = bytes.iter().position(|byte| *byte == TOKEN_SIGN)? + 1;
        let digits = bytes.get(at..at + TOKEN_DIGITS)?;
        Token::of_number(std::str::from_utf8(digits).ok()?.parse().ok()?)
    }

    /// How it stands in text and bytes.
    pub fn sign(self) -> String {
        format!("{}{}", TOKEN_SIGN as char, self.0)
    }

    /// How a record says it, where values are JSON: as a number or text, or in the digits of bytes.
    pub fn spellings(self) -> [String; 2] {
        [self.0.to_string(), model::hex(self.sign().as_bytes())]
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Cell {
    /// A real number.
    pub fn real(value: f64) -> Cell {
        Cell::Real(value.to_bits())
    }

    /// Text.
    pub fn text(text: &str) -> Cell {
        Cell::Text(text.as_bytes().to_vec())
    }

    /// What a database has.
    pub fn read(value: ValueRef<'_>) -> Cell {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(i) => Cell::Integer(i),
            ValueRef::Real(r) => Cell::real(r),
            ValueRef::Text(text) => Cell::Text(text.to_vec()),
            ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
        }
    }

    /// The token in it.
    pub fn token(&self) -> Option<Token> {
        match self {
            Cell::Null => None,
            Cell::Integer(i) => Token::of_number(u64::try_from(*i).ok()?),
            Cell::Real(bits) => {
                let value = f64::from_bits(*bits);
                // Others are no token, or not exact.
                (value > 0.0 && value < 1e9).then(|| Token::of_number(value as u64))?
            }
            Cell::Text(bytes) | Cell::Blob(bytes) => Token::of_bytes(bytes),
        }
    }
}

/// As SQL.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => f.write_str("NULL"),
            // The least one would be read as a real number.
            Cell::Integer(i64::MIN) => f.write_str("(-9223372036854775807 - 1)"),
            Cell::Integer(i) => write!(f, "{i}"),
            Cell::Real(bits) => match f64::from_bits(*bits) {
                value if value == f64::INFINITY => f.write_str("9e999"),
                value if value == f64::NEG_INFINITY => f.write_str("-9e999"),
                value => write!(f, "{value:?}"),
            },
            Cell::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => write!(f, "'{}'", text.replace('\'', "''")),
                _ => write!(f, "CAST(x'{}' AS TEXT)", model::hex(bytes)),
            },
            Cell::Blob(bytes) => write!(f, "x'{}'", model::hex(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let token = Token::new(3, 17);
        let cells = [
            Cell::Null,
            Cell::Integer(i64::MIN),
            Cell::Integer(token.number() as i64),
            Cell::real(token.number() as f64 + 0.5),
            Cell::real(f64::INFINITY),
            Cell::text("it's"),
            Cell::text(&format!("a\0b{}", token.sign())),
            Cell::Text(vec![0xff, b'a']),
            Cell::Blob(token.sign().into_bytes()),
            Cell::Blob(Vec::new()),
        ];
        let connection = Connection::open_in_memory().unwrap();
        for cell in &cells {
            let read = |row: &rusqlite::Row<'_>| row.get_ref(0).map(Cell::read);
            let found = connection.query_row(&format!("SELECT {cell}"), [], read).unwrap();
            assert_eq!(found, *cell);
        }
        let tokens: Vec<Token> = cells.iter().filter_map(Cell::token).collect();
        assert_eq!(tokens, [token; 4]);
        assert_eq!(token.author(), 3);
        assert_eq!(Cell::Integer(6).token(), None);
        assert_eq!(Cell::text("w1").token(), None);
    }
}
