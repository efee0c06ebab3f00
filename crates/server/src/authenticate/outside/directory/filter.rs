//! Search filters: as the configuration spells them (RFC 4515), and as they are sent.
//!
//! The name of the user is put into the parsed filter as a value. So no name can change what the
//! filter means, whatever is in it.

use super::ber;

/// What stands for the name of the user, in a value.
const NAME: &str = "{s.username}";

/// How deep a filter may be nested.
const DEPTH_MAX: usize = 16;

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUAL: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const AT_LEAST: u8 = 0xa5;
const AT_MOST: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const LIKE: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;

/// A filter with places for the name of a user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filter {
    All(u8, Vec<Filter>),
    Not(Box<Filter>),
    Present(String),
    /// A comparison by its tag.
    Compare(u8, String, Value),
    /// The beginning, the parts between, and the end.
    Substrings(String, Vec<Value>),
    Extensible {
        attribute: String,
        of_name: bool,
        rule: String,
        value: Value,
    },
}

/// A value: bytes, with the name of the user between each two.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Value(Vec<Vec<u8>>);

impl Filter {
    /// Every entry has it.
    pub(super) fn any() -> Filter {
        Filter::Present("objectClass".to_owned())
    }

    /// Understands the text of a filter.
    pub(super) fn parse(text: &str) -> Result<Filter, String> {
        let (filter, rest) = one(text.trim(), 0)?;
        match rest {
            "" => Ok(filter),
            _ => Err(format!("has `{rest}` behind its end")),
        }
    }

    /// The attributes that must be the name of the user and nothing else.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Filter::All(_, filters) => filters.iter().flat_map(Filter::names).collect(),
            Filter::Compare(EQUAL, attribute, value) if value.is_name() => vec![attribute],
            _ => Vec::new(),
        }
    }

    /// Appends it as it is sent, for this user.
    pub(super) fn encode(&self, out: &mut Vec<u8>, user: &str) {
        match self {
            Filter::All(tag, filters) => ber::put_all(out, *tag, |out| {
                filters.iter().for_each(|filter| filter.encode(out, user));
            }),
            Filter::Not(filter) => ber::put_all(out, NOT, |out| filter.encode(out, user)),
            Filter::Present(attribute) => ber::put(out, PRESENT, attribute.as_bytes()),
            Filter::Compare(tag, attribute, value) => ber::put_all(out, *tag, |out| {
                ber::put(out, ber::OCTETS, attribute.as_bytes());
                ber::put(out, ber::OCTETS, &value.of(user));
            }),
            Filter::Substrings(attribute, parts) => ber::put_all(out, SUBSTRINGS, |out| {
                ber::put(out, ber::OCTETS, attribute.as_bytes());
                ber::put_all(out, ber::SEQUENCE, |out| {
                    for (at, part) in parts.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
                        let tag = match at {
                            0 => 0x80,
                            _ if at + 1 == parts.len() => 0x82,
                            _ => 0x81,
                        };
                        ber::put(out, tag, &part.of(user));
                    }
                });
            }),
            Filter::Extensible { attribute, of_name, rule, value } => {
                ber::put_all(out, EXTENSIBLE, |out| {
                    if !rule.is_empty() {
                        ber::put(out, 0x81, rule.as_bytes());
                    }
                    if !attribute.is_empty() {
                        ber::put(out, 0x82, attribute.as_bytes());
                    }
                    ber::put(out, 0x83, &value.of(user));
                    if *of_name {
                        ber::put(out, 0x84, &[0xff]);
                    }
                });
            }
        }
    }
}

impl Value {
    /// Understands the text of a value, where `\XX` is a byte.
    fn parse(text: &str) -> Result<Value, String> {
        Ok(Value(text.split(NAME).map(unescaped).collect::<Result<_, String>>()?))
    }

    fn is_name(&self) -> bool {
        self.0.len() == 2 && self.0.iter().all(Vec::is_empty)
    }

    fn is_empty(&self) -> bool {
        self.0.len() == 1 && self.0[0].is_empty()
    }

    fn of(&self, user: &str) -> Vec<u8> {
        self.0.join(user.as_bytes())
    }
}

/// The filter that a text begins with, and the text behind it.
fn one(text: &str, depth: usize) -> Result<(Filter, &str), String> {
    if depth > DEPTH_MAX {
        return Err(format!("is nested deeper than {DEPTH_MAX}"));
    }
    let inner = text.strip_prefix('(').ok_or_else(|| missing(text, '('))?;
    let (filter, rest) = match inner.as_bytes().first() {
        Some(b'&') => several(AND, &inner[1..], depth)?,
        Some(b'|') => several(OR, &inner[1..], depth)?,
        Some(b'!') => {
            let (filter, rest) = one(&inner[1..], depth + 1)?;
            (Filter::Not(Box::new(filter)), rest)
        }
        _ => {
            let end = inner.find(')').ok_or_else(|| missing(inner, ')'))?;
            (item(&inner[..end])?, &inner[end..])
        }
    };
    Ok((filter, rest.strip_prefix(')').ok_or_else(|| missing(rest, ')'))?))
}

fn several(tag: u8, mut text: &str, depth: usize) -> Result<(Filter, &str), String> {
    let mut filters = Vec::new();
    while text.starts_with('(') {
        let (filter, rest) = one(text, depth + 1)?;
        filters.push(filter);
        text = rest;
    }
    match filters.is_empty() {
        true => Err("has an & or | of nothing".to_owned()),
        false => Ok((Filter::All(tag, filters), text)),
    }
}

/// A comparison, without its parentheses.
fn item(text: &str) -> Result<Filter, String> {
    let (left, value) = text.split_once('=').ok_or_else(|| missing(text, '='))?;
    if value.contains('(') {
        return Err("has a ( within a value, which is \\28".to_owned());
    }
    let (tag, attribute) = match left.as_bytes().last() {
        Some(b'>') => (AT_LEAST, &left[..left.len() - 1]),
        Some(b'<') => (AT_MOST, &left[..left.len() - 1]),
        Some(b'~') => (LIKE, &left[..left.len() - 1]),
        Some(b':') => return extensible(&left[..left.len() - 1], value),
        _ => (EQUAL, left),
    };
    require_attribute(attribute)?;
    let attribute = attribute.to_owned();
    if tag == EQUAL && value == "*" {
        return Ok(Filter::Present(attribute));
    }
    if tag == EQUAL && value.contains('*') {
        let parts = value.split('*').map(Value::parse).collect::<Result<Vec<_>, _>>()?;
        return match parts.iter().all(Value::is_empty) {
            true => Err("compares with asterisks only".to_owned()),
            false => Ok(Filter::Substrings(attribute, parts)),
        };
    }
    Ok(Filter::Compare(tag, attribute, Value::parse(value)?))
}

/// `ATTRIBUTE:dn:RULE`, where something may be missing.
fn extensible(left: &str, value: &str) -> Result<Filter, String> {
    let mut parts = left.split(':');
    let attribute = parts.next().unwrap_or_default().to_owned();
    let mut rest: Vec<&str> = parts.collect();
    let of_name = rest.first().is_some_and(|part| part.eq_ignore_ascii_case("dn"));
    if of_name {
        rest.remove(0);
    }
    let rule = match rest[..] {
        [] => "",
        [rule] if is_attribute(rule) => rule,
        _ => return Err(format!("has `{left}:=`, which names no rule")),
    };
    if !attribute.is_empty() {
        require_attribute(&attribute)?;
    } else if rule.is_empty() {
        return Err("has a comparison without an attribute".to_owned());
    }
    Ok(Filter::Extensible {
        attribute,
        of_name,
        rule: rule.to_owned(),
        value: Value::parse(value)?,
    })
}

fn require_attribute(text: &str) -> Result<(), String> {
    match is_attribute(text) {
        true => Ok(()),
        false => Err(format!("has `{text}` where an attribute must be")),
    }
}

/// Whether this is the name of an attribute or a number of one, with options.
pub(super) fn is_attribute(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b';');
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(allowed)
}

fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| behind.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("has a \\ without two hexadecimal digits".to_owned());
        };
        // Two digits of four bits.
        bytes.push((high << 4 | low) as u8);
        rest = &behind[2..];
    }
    Ok(bytes)
}

fn missing(text: &str, what: char) -> String {
    match text.is_empty() {
        true => format!("ends where `{what}` must be"),
        false => format!("has `{text}` where `{what}` must be"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(filter: &str, user: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Filter::parse(filter).unwrap().encode(&mut out, user);
        out
    }

    #[test]
    fn filters_are_sent_as_the_standard_says() {
        assert_eq!(encoded("(cn=*)", ""), b"\x87\x02cn");
        assert_eq!(encoded("(cn=a\\2ab)", ""), b"\xa3\x09\x04\x02cn\x04\x03a*b");
        assert_eq!(
            encoded("(&(cn={s.username})(!(cn>=5)))", "ann"),
            b"\xa0\x16\xa3\x09\x04\x02cn\x04\x03ann\xa2\x09\xa5\x07\x04\x02cn\x04\x015"
        );
        assert_eq!(
            encoded("(cn=a*{s.username}*c*)", "b"),
            b"\xa4\x0f\x04\x02cn\x30\x09\x80\x01a\x81\x01b\x81\x01c"
        );
        assert_eq!(
            encoded("(ou:dn:2.4:=x)", ""),
            b"\xa9\x0f\x81\x032.4\x82\x02ou\x83\x01x\x84\x01\xff"
        );
    }

    #[test]
    fn a_name_changes_no_filter() {
        let hostile = "*)(uid=*))(|(uid=*";
        let filter = "(&(objectClass=person)(uid={s.username}))";
        let honest = encoded(filter, "ann");
        let sent = encoded(filter, hostile);
        assert_eq!(sent.len(), honest.len() + hostile.len() - 3, "it is a value and nothing else");
        assert!(sent.windows(hostile.len()).any(|window| window == hostile.as_bytes()));
    }

    #[test]
    fn the_attributes_that_must_be_the_name_are_known() {
        let names = |text| Filter::parse(text).unwrap().names().join(" ");
        assert_eq!(names("(&(a=b)(|(uid={s.username})(mail={s.username})))"), "uid mail");
        let filter = Filter::parse("(|(uid=x{s.username})(cn=*{s.username})(!(a={s.username})))");
        assert_eq!(filter.unwrap().names(), [""; 0]);
    }

    #[test]
    fn mistakes_are_told() {
        let deep = format!("{}(a=b){}", "(!".repeat(40), ")".repeat(40));
        let mistakes = [
            ("", "ends where `(`"),
            ("uid=x", "`uid=x` where `(`"),
            ("(uid=x", "where `)`"),
            ("(uid=x))", "behind its end"),
            ("(uid)", "where `=`"),
            ("(=x)", "where an attribute"),
            ("(u d=x)", "where an attribute"),
            ("(uid=\\2)", "two hexadecimal digits"),
            ("(uid=\\é)", "two hexadecimal digits"),
            ("(uid=**)", "asterisks only"),
            ("(&)", "of nothing"),
            ("(:=x)", "without an attribute"),
            ("(a:b:c:=x)", "names no rule"),
            ("(uid=(x)", "within a value"),
            (&deep, "nested deeper"),
        ];
        for (text, expected) in mistakes {
            let mistake = Filter::parse(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
    }
}
