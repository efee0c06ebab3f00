//! The words, names and signs that a statement of SQLite consists of.

use std::iter::Peekable;
use std::str::CharIndices;

/// A word, a name or text in quotes, or a single character.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl Token<'_> {
    /// It is this keyword.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    /// Behind its last character.
    pub(crate) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The tokens of a statement, without blanks and comments.
pub(crate) fn tokens(sql: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = sql.char_indices().peekable();
    while let Some((at, first)) = rest.next() {
        let second = rest.peek().map(|&(_, second)| second);
        match (first, second) {
            (first, _) if first.is_ascii_whitespace() => continue,
            ('-', Some('-')) => {
                skip_while(&mut rest, |it| it != '\n');
                continue;
            }
            ('/', Some('*')) => {
                rest.next();
                skip_comment(&mut rest);
                continue;
            }
            ('"' | '\'' | '`', _) => skip_quoted(&mut rest, first),
            ('[', _) => {
                skip_while(&mut rest, |it| it != ']');
                rest.next();
            }
            (first, _) if is_in_word(first) => skip_while(&mut rest, is_in_word),
            _ => {}
        }
        let end = rest.peek().map_or(sql.len(), |&(end, _)| end);
        found.push(Token { text: &sql[at..end], at });
    }
    found
}

fn is_in_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$') || !character.is_ascii()
}

fn skip_while(rest: &mut Peekable<CharIndices<'_>>, goes_on: impl Fn(char) -> bool) {
    while rest.next_if(|&(_, character)| goes_on(character)).is_some() {}
}

fn skip_comment(rest: &mut Peekable<CharIndices<'_>>) {
    while let Some((_, character)) = rest.next() {
        if character == '*' && rest.next_if(|&(_, next)| next == '/').is_some() {
            return;
        }
    }
}

/// To behind the closing quote; two of them are one within.
fn skip_quoted(rest: &mut Peekable<CharIndices<'_>>, quote: char) {
    while let Some((_, character)) = rest.next() {
        if character == quote && rest.next_if(|&(_, next)| next == quote).is_none() {
            return;
        }
    }
}
