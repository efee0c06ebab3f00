//! Takes the text of a script apart: what stays as it is, and what stands in braces.

/// A stretch of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// Outside of quotes and comments.
    Plain(&'t str),
    /// Quoted, as a whole.
    Quoted(&'t str),
    /// A comment, as a whole.
    Comment(&'t str),
    /// What stands between two braces.
    Braces(&'t str),
    /// The begin of `{call …}`: the brace and the word.
    Call,
    /// The brace behind it.
    EndOfCall,
    /// Between two statements.
    Semicolon,
    /// A brace that is never closed.
    Open,
}

/// The tokens of a text, each with its position in bytes.
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
    in_call: bool,
}

impl<'t> Tokens<'t> {
    pub(super) fn of(text: &'t str) -> Tokens<'t> {
        Tokens { text, at: 0, in_call: false }
    }

    /// From here up to and including `closing`, or to the end.
    fn closed(&self, opening: usize, closing: &str) -> &'t str {
        let rest = &self.text[self.at..];
        let inside = rest.get(opening..).unwrap_or_default();
        let end = inside.find(closing).map_or(rest.len(), |at| opening + at + closing.len());
        &rest[..end]
    }

    /// A literal of PostgreSQL in which a backslash escapes what follows.
    fn escaped(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let mut skips = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if skips => skips = false,
                '\\' => skips = true,
                '\'' => return &rest[..=at],
                _ => {}
            }
        }
        rest
    }

    /// A literal between `$tag$` and `$tag$`, if one begins here.
    fn dollar_quoted(&self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let tag_end = rest[1..].find('$')? + 2;
        let mut tag = rest[1..tag_end - 1].chars();
        let begins = tag.next().is_none_or(|c| c.is_alphabetic() || c == '_');
        let is_tag = begins && tag.all(|c| c.is_alphanumeric() || c == '_');
        // `a$b$c` is a name.
        let in_name = self.text[..self.at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        (is_tag && !in_name).then(|| self.closed(tag_end, &rest[..tag_end]))
    }

    fn follows_an_e(&self) -> bool {
        let mut before = self.text[..self.at].chars().rev();
        before.next().is_some_and(|c| matches!(c, 'e' | 'E'))
            && before.next().is_none_or(|c| !(c.is_alphanumeric() || c == '_'))
    }

    fn braces(&mut self) -> (Token<'t>, usize) {
        let rest = &self.text[self.at..];
        let body = rest[1..].trim_start();
        let word = body.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("call"));
        if word && body[4..].starts_with(char::is_whitespace) && !self.in_call {
            self.in_call = true;
            return (Token::Call, rest.len() - body.len() + 4);
        }
        let mut inside = Tokens { text: self.text, at: self.at + 1, in_call: false };
        loop {
            let here = &self.text[inside.at..];
            match here.chars().next() {
                None => return (Token::Open, rest.len()),
                Some('}') => break,
                Some(quote @ ('\'' | '"' | '`')) => {
                    inside.at += inside.closed(1, quote.encode_utf8(&mut [0; 4])).len();
                }
                Some('[') => inside.at += inside.closed(1, "]").len(),
                Some(c) => inside.at += c.len_utf8(),
            }
        }
        (Token::Braces(&self.text[self.at + 1..inside.at]), inside.at + 1 - self.at)
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = (usize, Token<'t>);

    fn next(&mut self) -> Option<(usize, Token<'t>)> {
        let (at, rest) = (self.at, &self.text[self.at..]);
        let quoted = |text: &'t str| (Token::Quoted(text), text.len());
        let comment = |text: &'t str| (Token::Comment(text), text.len());
        let (token, length) = match rest.as_bytes() {
            [] => return None,
            [b'\'', ..] if self.follows_an_e() => quoted(self.escaped()),
            // A doubled quote inside is the end of one literal and the begin of the next.
            [b'\'', ..] => quoted(self.closed(1, "'")),
            [b'"', ..] => quoted(self.closed(1, "\"")),
            [b'`', ..] => quoted(self.closed(1, "`")),
            [b'[', ..] => quoted(self.closed(1, "]")),
            [b'-', b'-', ..] => comment(self.closed(2, "\n")),
            [b'/', b'*', ..] => comment(self.closed(2, "*/")),
            [b'{', ..] => self.braces(),
            [b'}', ..] if self.in_call => {
                self.in_call = false;
                (Token::EndOfCall, 1)
            }
            [b';', ..] => (Token::Semicolon, 1),
            [b'$', ..] if self.dollar_quoted().is_some() => {
                quoted(self.dollar_quoted().unwrap_or_default())
            }
            _ => {
                let special = |(at, c): (usize, char)| {
                    let here = &rest[at..];
                    (matches!(c, '\'' | '"' | '`' | '[' | '{' | '}' | ';' | '$')
                        || here.starts_with("--")
                        || here.starts_with("/*"))
                    .then_some(at)
                };
                let end = rest.char_indices().skip(1).find_map(special).unwrap_or(rest.len());
                (Token::Plain(&rest[..end]), end)
            }
        };
        self.at += length;
        Some((at, token))
    }
}

/// The parameters between two braces, each with its position there: they are separated by commas.
pub(super) fn separated(body: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for (at, token) in Tokens::of(body) {
        if let Token::Plain(plain) = token {
            for (comma, _) in plain.match_indices(',') {
                parts.push((begin, &body[begin..at + comma]));
                begin = at + comma + 1;
            }
        }
    }
    parts.push((begin, &body[begin..]));
    parts
}

/// Line and column of a position in bytes, both from 1; the column counts characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let boundary = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let before = &text[..boundary.unwrap_or(0)];
    let line_begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_begin..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_found_outside_of_quotes_only() {
        use Token::{Braces, Call, Comment, EndOfCall, Plain, Quoted, Semicolon};
        let tokens = |text| Tokens::of(text).map(|(_, token)| token).collect::<Vec<_>>();
        assert_eq!(
            tokens("{ call p({r.a}) };"),
            [Call, Plain(" p("), Braces("r.a"), Plain(") "), EndOfCall, Semicolon]
        );
        assert_eq!(
            tokens("E'it\\'s {r.a}'$q$ {r.b} $q$--{x}\n{r.\"c}\"}"),
            [
                Plain("E"),
                Quoted("'it\\'s {r.a}'"),
                Quoted("$q$ {r.b} $q$"),
                Comment("--{x}\n"),
                Braces("r.\"c}\"")
            ]
        );
        assert_eq!(tokens("{r.a"), [Token::Open]);
        assert_eq!(tokens("a$1"), [Plain("a"), Plain("$1")]);
    }

    #[test]
    fn commas_separate_parameters_outside_of_quotes() {
        let parts = separated("r.a, r.\"b,c\",r.[d,e]");
        assert_eq!(parts, [(0, "r.a"), (4, " r.\"b,c\""), (13, "r.[d,e]")]);
    }

    #[test]
    fn places_are_counted_as_an_editor_does() {
        assert_eq!(line_and_column("ä\nöx", 5), (2, 2));
        assert_eq!(line_and_column("a", 9), (1, 2));
    }
}
