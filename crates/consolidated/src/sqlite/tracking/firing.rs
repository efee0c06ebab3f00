//! Which triggers of the owner fire after a change and before those of Syncline.
//!
//! SQLite runs the triggers of one event from the newest to the oldest. So an `AFTER` trigger that
//! is newer than Syncline's runs first. Some statements keep the row and end all remaining
//! triggers: `RAISE(IGNORE)`, `RAISE(FAIL)`, and a write with `OR FAIL` that fails. Then Syncline's
//! triggers record nothing (trap 29). A trigger that fires *before* the change is no danger: if it
//! ends the statement, there is no change.

use crate::sqlite::errors::failed;
use model::Failure;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// A trigger of the owner that fires before some of Syncline.
#[derive(Debug)]
pub(in crate::sqlite) struct Ahead {
    pub(in crate::sqlite) trigger: String,
    pub(in crate::sqlite) table: String,
    /// It may end what would still run for a change, and keep the change. Of the others this is
    /// true only of statements that say `OR FAIL` themselves.
    pub(in crate::sqlite) hides: bool,
    /// Ours that fire after it.
    pub(in crate::sqlite) ours: BTreeSet<String>,
}

/// All of them.
pub(in crate::sqlite) fn ahead(connection: &Connection) -> Result<Vec<Ahead>, Failure> {
    let reading = failed("list the triggers");
    let newest_first = "SELECT name, tbl_name, sql FROM sqlite_schema
         WHERE type = 'trigger' ORDER BY rowid DESC";
    let mut statement = connection.prepare_cached(newest_first).map_err(&reading)?;
    let mut rows = statement.query([]).map_err(&reading)?;
    let mut ahead: Vec<Ahead> = Vec::new();
    // By table and event: those that fire before whatever comes.
    let mut seen: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    while let Some(row) = rows.next().map_err(&reading)? {
        let text = |column| row.get::<_, String>(column).map_err(&reading);
        let (name, table, sql) = (text(0)?, text(1)?, text(2)?);
        let tokens = tokens(&sql);
        let Some(event) = event_behind(&tokens) else { continue };
        // A trigger spells the name of its table as its statement did.
        let seen = seen.entry((table.to_ascii_lowercase(), event.to_owned())).or_default();
        match name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS)) {
            true => seen.iter().for_each(|at| {
                ahead[*at].ours.insert(name.clone());
                ahead[*at].table.clone_from(&table);
            }),
            false => {
                seen.push(ahead.len());
                let (ours, hides) = (BTreeSet::new(), ends_all(&tokens));
                ahead.push(Ahead { trigger: name, table, hides, ours });
            }
        }
    }
    ahead.retain(|theirs| !theirs.ours.is_empty());
    Ok(ahead)
}

const OURS: &str = "syncline_";

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// In lower case.
    Word(String),
    Quoted,
    Sign(char),
}

impl Token {
    fn is(&self, words: &[&str]) -> bool {
        matches!(self, Token::Word(word) if words.contains(&word.as_str()))
    }
}

/// The event of a trigger that fires behind it, from its text as SQLite keeps it: the name is
/// without a schema, and the third token.
fn event_behind(tokens: &[Token]) -> Option<&str> {
    match tokens.get(3..5)? {
        [time, Token::Word(event)] if time.is(&["after"]) => Some(event),
        _ => None,
    }
}

/// Whether a trigger may end its statement without undoing what it has done.
fn ends_all(tokens: &[Token]) -> bool {
    let raises = tokens.windows(3).any(|part| {
        part[0].is(&["raise"]) && part[1] == Token::Sign('(') && part[2].is(&["ignore", "fail"])
    });
    raises || tokens.windows(2).any(|part| part[0].is(&["or"]) && part[1].is(&["fail"]))
}

/// A statement in pieces, without comments.
fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_');
        let len = match first {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            '\'' | '"' | '`' | '[' => {
                tokens.push(Token::Quoted);
                quoted_len(rest, if first == '[' { ']' } else { first })
            }
            _ if word != Some(0) => {
                let len = word.unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..len].to_ascii_lowercase()));
                len
            }
            _ => {
                tokens.extend((!first.is_ascii_whitespace()).then_some(Token::Sign(first)));
                first.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    tokens
}

/// The length of what begins with a quote; the quote itself is doubled inside.
fn quoted_len(sql: &str, quote: char) -> usize {
    let mut from = 1;
    while let Some(end) = sql[from..].find(quote) {
        from += end + 1;
        match sql[from..].starts_with(quote) && quote != ']' {
            true => from += 1,
            false => return from,
        }
    }
    sql.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_read_whatever_its_names_and_comments_say() {
        let named = |rest: &str| format!("CREATE TRIGGER {rest}; END");
        for (rest, event, ends) in [
            ("x AFTER INSERT ON t BEGIN SELECT RAISE(IGNORE)", "insert", true),
            (
                "\"a\"\"b c\" after/**/update OF v ON t BEGIN SELECT rAiSe /* ' */ (\n fail, '')",
                "update",
                true,
            ),
            ("after AFTER DELETE ON t BEGIN INSERT OR FAIL INTO a VALUES (1)", "delete", true),
            (
                "[x] AFTER INSERT ON t BEGIN SELECT 'RAISE(IGNORE)', \"or\" \"fail\"; -- OR FAIL\n\
                 INSERT OR IGNORE INTO a VALUES (1); SELECT RAISE(ABORT, 'x')",
                "insert",
                false,
            ),
            ("é AFTER INSERT ON t BEGIN SELECT 'it''s', x'00', 1.5e3", "insert", false),
        ] {
            let sql = named(rest);
            let tokens = tokens(&sql);
            assert_eq!((event_behind(&tokens), ends_all(&tokens)), (Some(event), ends), "{sql}");
        }
        for sql in [
            "CREATE TRIGGER after BEFORE INSERT ON t BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TRIGGER x INSERT ON t BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TRIGGER x INSTEAD OF INSERT ON t BEGIN SELECT 1; END",
            "CREATE TRIGGER 'unended",
            "/* unended",
        ] {
            assert_eq!(event_behind(&tokens(sql)), None, "{sql}");
        }
    }
}
