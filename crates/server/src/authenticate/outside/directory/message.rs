//! The messages of LDAP that the server needs (RFC 4511): bind, search, StartTLS.

use super::ber::{self, Elements, Malformed};
use super::filter::Filter;

const BIND: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const REFERENCE: u8 = 0x73;
const EXTENDED: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;

/// A password within a bind.
const SIMPLE: u8 = 0x80;
/// The name of an extended request.
const REQUEST_NAME: u8 = 0x80;

const VERSION: i32 = 3;
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
/// Aliases are not followed: each entry has one name.
const NEVER_DEREFERENCE: i32 = 0;

/// What is asked. It has the password, so it has no other use than to be sent.
pub(super) enum Request<'a> {
    Bind { name: &'a str, password: &'a str },
    Search(&'a Search<'a>),
    StartTls,
    Unbind,
}

/// Which entries are wanted, and what of them.
pub(super) struct Search<'a> {
    pub(super) base: &'a str,
    pub(super) scope: Scope,
    pub(super) filter: &'a Filter,
    /// Stands in the places of the filter for the name.
    pub(super) user: &'a str,
    pub(super) attributes: &'a [String],
    pub(super) entries_max: i32,
    pub(super) timeout_s: i32,
}

/// Where entries are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    /// At the base alone.
    Base = 0,
    /// At the base and below.
    Subtree = 2,
}

/// What a directory says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Response {
    Bound(Conclusion),
    Entry(Entry),
    /// More is elsewhere. Nobody goes there.
    Reference,
    SearchDone(Conclusion),
    Extended(Conclusion),
}

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    pub(super) code: i64,
    /// For people; it may quote what was asked.
    pub(super) words: String,
}

/// An entry that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl Request<'_> {
    /// The message with this number.
    pub(super) fn encode(&self, id: i32) -> Vec<u8> {
        let mut out = Vec::new();
        ber::put_all(&mut out, ber::SEQUENCE, |out| {
            ber::put_number(out, ber::INTEGER, id);
            self.encode_operation(out);
        });
        out
    }

    fn encode_operation(&self, out: &mut Vec<u8>) {
        match self {
            Request::Bind { name, password } => ber::put_all(out, BIND, |out| {
                ber::put_number(out, ber::INTEGER, VERSION);
                ber::put(out, ber::OCTETS, name.as_bytes());
                ber::put(out, SIMPLE, password.as_bytes());
            }),
            Request::Search(search) => ber::put_all(out, SEARCH, |out| {
                ber::put(out, ber::OCTETS, search.base.as_bytes());
                ber::put_number(out, ber::ENUMERATED, search.scope as i32);
                ber::put_number(out, ber::ENUMERATED, NEVER_DEREFERENCE);
                ber::put_number(out, ber::INTEGER, search.entries_max);
                ber::put_number(out, ber::INTEGER, search.timeout_s);
                ber::put(out, ber::BOOLEAN, &[0]);
                search.filter.encode(out, search.user);
                ber::put_all(out, ber::SEQUENCE, |out| {
                    for attribute in search.attributes {
                        ber::put(out, ber::OCTETS, attribute.as_bytes());
                    }
                });
            }),
            Request::StartTls => {
                ber::put_all(out, EXTENDED, |out| ber::put(out, REQUEST_NAME, START_TLS));
            }
            Request::Unbind => ber::put(out, UNBIND, &[]),
        }
    }
}

/// Understands a message: its number, and what it says.
pub(super) fn decode(message: &[u8]) -> Result<(i64, Response), Malformed> {
    let mut message = Elements(Elements(message).take(ber::SEQUENCE)?);
    let id = message.take_number(ber::INTEGER)?;
    let (tag, content) = message.next()?.ok_or(Malformed)?;
    let response = match tag {
        BIND_RESPONSE => Response::Bound(conclusion(content)?),
        ENTRY => Response::Entry(entry(content)?),
        REFERENCE => Response::Reference,
        SEARCH_DONE => Response::SearchDone(conclusion(content)?),
        EXTENDED_RESPONSE => Response::Extended(conclusion(content)?),
        _ => return Err(Malformed),
    };
    Ok((id, response))
}

fn conclusion(content: &[u8]) -> Result<Conclusion, Malformed> {
    let mut content = Elements(content);
    let code = content.take_number(ber::ENUMERATED)?;
    content.take(ber::OCTETS)?;
    let words = String::from_utf8_lossy(content.take(ber::OCTETS)?).into_owned();
    Ok(Conclusion { code, words })
}

fn entry(content: &[u8]) -> Result<Entry, Malformed> {
    let mut content = Elements(content);
    let name = text(content.take(ber::OCTETS)?)?;
    let mut listed = Elements(content.take(ber::SEQUENCE)?);
    let mut attributes = Vec::new();
    while let Some((tag, content)) = listed.next()? {
        if tag != ber::SEQUENCE {
            return Err(Malformed);
        }
        let mut content = Elements(content);
        let attribute = text(content.take(ber::OCTETS)?)?;
        let mut set = Elements(content.take(ber::SET)?);
        let mut values = Vec::new();
        while let Some((tag, value)) = set.next()? {
            if tag != ber::OCTETS {
                return Err(Malformed);
            }
            values.push(value.to_vec());
        }
        attributes.push((attribute, values));
    }
    Ok(Entry { name, attributes })
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Random;

    /// An entry with one attribute of two values, as slapd sends it.
    const FOUND: &[u8] = b"\x30\x23\x02\x01\x02\x64\x1e\x04\x06uid=an\
        \x30\x14\x30\x12\x04\x01l\x31\x0d\x04\x05north\x04\x04west";

    #[test]
    fn a_bind_is_sent_as_the_standard_says() {
        let bind = Request::Bind { name: "cn=a", password: "pw" };
        assert_eq!(
            bind.encode(1),
            b"\x30\x12\x02\x01\x01\x60\x0d\x02\x01\x03\x04\x04cn=a\x80\x02pw"
        );
        assert_eq!(Request::Unbind.encode(3), b"\x30\x05\x02\x01\x03\x42\x00");
    }

    #[test]
    fn an_entry_and_its_end_are_understood() {
        let values = vec![b"north".to_vec(), b"west".to_vec()];
        let entry = Entry { name: "uid=an".into(), attributes: vec![("l".into(), values)] };
        assert_eq!(decode(FOUND), Ok((2, Response::Entry(entry))));
        let done = b"\x30\x0d\x02\x01\x02\x65\x08\x0a\x01\x20\x04\x00\x04\x01x";
        let conclusion = Conclusion { code: 32, words: "x".into() };
        assert_eq!(decode(done), Ok((2, Response::SearchDone(conclusion))));
    }

    // S9: a directory, or what answers in its place, makes no server panic.
    #[test]
    fn no_bytes_of_a_directory_make_the_server_panic() {
        for cut in 0..FOUND.len() {
            assert_eq!(decode(&FOUND[..cut]), Err(Malformed), "{cut}");
        }
        let mut random = Random::from_seed([9; 32]);
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = FOUND.to_vec();
            for _ in 0..=random.next_u64() % 3 {
                let at = random.next_u64() as usize % bytes.len();
                bytes[at] = random.next_u64() as u8;
            }
            refused += u32::from(decode(&bytes).is_err());
        }
        assert!((1000..20_000).contains(&refused), "{refused}");
    }
}
