//! Which rows of a table a remote receives, as a model declares it.
//!
//! | `partition` | covers |
//! |---|---|
//! | `COLUMN = CLAIM` | rows whose column is the claim |
//! | `COLUMN IN CLAIM` | rows whose column is one of the values in the claim, between commas |
//! | `COLUMN IN (SELECT COLUMN FROM TABLE WHERE COLUMN = CLAIM)` | by a mapping table; `IN` too |
//! | `{ custom = "CONDITION" }` | rows `t` that meet a condition in SQL |
//!
//! A claim is `{u.NAME}`, `{s.remote_id}` or `{s.username}`. Names are written plainly or between
//! double quotes. Anything that is not in the table above is a mistake and not a custom condition,
//! because departures can be computed only for the forms in the table.

use crate::synchronization::Session;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which rows of a table are covered by a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// A column of the row decides.
    Column {
        /// The column.
        column: String,
        /// How it is compared with a claim.
        test: ClaimTest,
    },
    /// Rows of another table decide.
    Mapping {
        /// The column of the row.
        column: String,
        /// The mapping table, as written.
        table: String,
        /// The mapping table's column that is equal to the row's.
        selected: String,
        /// The mapping table's column that is compared with a claim.
        matched: String,
        /// How it is compared.
        test: ClaimTest,
    },
    /// A condition in SQL over the row `t` decides.
    Custom(String),
}

/// How a column is compared with a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimTest {
    /// The column is the claim.
    Is(Claim),
    /// The column is one of the values in the claim, which are separated by commas.
    IsIn(Claim),
}

/// What is known of the remote that synchronizes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The remote ID.
    RemoteId,
    /// The name of the user.
    Username,
    /// A claim of the user.
    User(String),
}

/// The table whose rows decide about the rows that refer to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The table, as written.
    pub table: String,
    /// The referring columns; without them, those of the one foreign key to the table.
    pub columns: Option<Vec<String>>,
}

/// `partition` as it stands in the file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a condition or { custom = \"SQL\" }")]
pub(super) enum PartitionFile {
    Condition(String),
    Custom(CustomFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CustomFile {
    custom: String,
}

/// `parent` as it stands in the file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"TABLE\" or { table = \"TABLE\", columns = [\"COLUMN\"] }"
)]
pub(super) enum ParentFile {
    Table(String),
    Link(LinkFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkFile {
    table: String,
    columns: Option<Vec<String>>,
}

impl ClaimTest {
    /// The claim that it looks at.
    pub fn claim(&self) -> &Claim {
        match self {
            ClaimTest::Is(claim) | ClaimTest::IsIn(claim) => claim,
        }
    }
}

impl Claim {
    /// What it is for the remote that synchronizes.
    pub(crate) fn value<'s>(&self, session: &'s Session) -> Option<&'s str> {
        match self {
            Claim::RemoteId => Some(session.remote_id.as_str()),
            Claim::Username => Some(session.user.as_str()),
            Claim::User(name) => session.claims.get(name).map(String::as_str),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::RemoteId => f.write_str("{s.remote_id}"),
            Claim::Username => f.write_str("{s.username}"),
            Claim::User(name) => f.write_str(&crate::script::parameter("u", name)),
        }
    }
}

impl From<ParentFile> for Parent {
    fn from(file: ParentFile) -> Parent {
        match file {
            ParentFile::Table(table) => Parent { table, columns: None },
            ParentFile::Link(link) => Parent { table: link.table, columns: link.columns },
        }
    }
}

impl PartitionFile {
    pub(super) fn read(self) -> Result<Partition, String> {
        match self {
            PartitionFile::Condition(text) => parse(&text),
            PartitionFile::Custom(file) if file.custom.trim().is_empty() => {
                Err("the custom condition is empty".into())
            }
            PartitionFile::Custom(file) => Ok(Partition::Custom(file.custom)),
        }
    }
}

/// Reads a condition of the grammar.
fn parse(text: &str) -> Result<Partition, String> {
    let mut words = Words { words: words(text)?, at: 0 };
    let column = words.name("a column")?;
    if words.symbol("=") {
        let test = ClaimTest::Is(words.claim()?);
        words.end()?;
        return Ok(Partition::Column { column, test });
    }
    words.keyword("IN")?;
    if !words.symbol("(") {
        let test = ClaimTest::IsIn(words.claim()?);
        words.end()?;
        return Ok(Partition::Column { column, test });
    }
    words.keyword("SELECT")?;
    let selected = words.name("a column of the mapping table")?;
    words.keyword("FROM")?;
    let mut table = words.name("the mapping table")?;
    while words.symbol(".") {
        table = format!("{table}.{}", words.name("the mapping table")?);
    }
    words.keyword("WHERE")?;
    let matched = words.name("a column of the mapping table")?;
    let test = match words.symbol("=") {
        true => ClaimTest::Is(words.claim()?),
        false => {
            words.keyword("IN")?;
            ClaimTest::IsIn(words.claim()?)
        }
    };
    if !words.symbol(")") {
        return Err(words.expected("\")\""));
    }
    words.end()?;
    Ok(Partition::Mapping { column, table, selected, matched, test })
}

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Bare(String),
    Quoted(String),
    Parameter(String),
    Symbol(char),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Bare(name) => f.write_str(name),
            Word::Quoted(name) => write!(f, "\"{name}\""),
            Word::Parameter(body) => write!(f, "{{{body}}}"),
            Word::Symbol(symbol) => write!(f, "{symbol}"),
        }
    }
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let (name, length) = quoted(rest)?;
                words.push(Word::Quoted(name));
                length
            }
            '{' => {
                let end = rest.find('}').ok_or("a parameter lacks its \"}\"")?;
                words.push(Word::Parameter(rest[1..end].to_owned()));
                end + 1
            }
            _ if is_bare(first) => {
                let end = rest.find(|c| !is_bare(c)).unwrap_or(rest.len());
                words.push(Word::Bare(rest[..end].to_owned()));
                end
            }
            symbol => {
                words.push(Word::Symbol(symbol));
                symbol.len_utf8()
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

fn is_bare(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The name at the front of `text`, whose quotes are doubled inside, and the length of both.
fn quoted(text: &str) -> Result<(String, usize), String> {
    let mut name = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != '"' {
            name.push(character);
        } else if characters.next_if(|(_, next)| *next == '"').is_some() {
            name.push('"');
        } else {
            return Ok((name, at + 1));
        }
    }
    Err("a name lacks its closing quote".into())
}

struct Words {
    words: Vec<Word>,
    at: usize,
}

impl Words {
    fn name(&mut self, what: &str) -> Result<String, String> {
        match self.words.get(self.at) {
            Some(Word::Bare(name) | Word::Quoted(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => Err(self.expected(what)),
        }
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found =
            matches!(self.words.get(self.at), Some(Word::Symbol(s)) if symbol.starts_with(*s));
        self.at += usize::from(found);
        found
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), String> {
        match self.words.get(self.at) {
            Some(Word::Bare(word)) if word.eq_ignore_ascii_case(keyword) => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.expected(keyword)),
        }
    }

    fn claim(&mut self) -> Result<Claim, String> {
        let Some(Word::Parameter(body)) = self.words.get(self.at) else {
            return Err(self.expected("{u.NAME}, {s.remote_id} or {s.username}"));
        };
        let name = body.strip_prefix("ml ").unwrap_or(body).trim();
        let claim = match name.split_once('.') {
            Some(("s", "remote_id")) => Claim::RemoteId,
            Some(("s", "username")) => Claim::Username,
            Some(("u" | "ui", name)) if !name.is_empty() => {
                let inner = name.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
                Claim::User(inner.map_or(name.to_owned(), |inner| inner.replace("\"\"", "\"")))
            }
            _ => {
                let known = "{u.NAME}, {s.remote_id} or {s.username}";
                return Err(format!("{{{body}}} is not a claim; expected {known}"));
            }
        };
        self.at += 1;
        Ok(claim)
    }

    fn end(&self) -> Result<(), String> {
        match self.words.get(self.at) {
            None => Ok(()),
            Some(_) => Err(self.expected("the end; anything else needs { custom = \"SQL\" }")),
        }
    }

    fn expected(&self, what: &str) -> String {
        match self.words.get(self.at) {
            Some(word) => format!("expected {what}, found {word}"),
            None => format!("expected {what} at the end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Claim {
        Claim::User(name.into())
    }

    #[test]
    fn every_form_of_a_partition_is_read() {
        let column = |column: &str, test| Partition::Column { column: column.into(), test };
        let mapping = |test| Partition::Mapping {
            column: "project_id".into(),
            table: "member".into(),
            selected: "project".into(),
            matched: "person".into(),
            test,
        };
        for (text, partition) in [
            ("rep={u.rep}", column("rep", ClaimTest::Is(user("rep")))),
            ("\"the \"\"rep\"\"\" = {s.username}", {
                column("the \"rep\"", ClaimTest::Is(Claim::Username))
            }),
            (" device = { s.remote_id }", column("device", ClaimTest::Is(Claim::RemoteId))),
            ("device = {ml s.remote_id}", column("device", ClaimTest::Is(Claim::RemoteId))),
            ("region in {u.\"my regions\"}", {
                column("region", ClaimTest::IsIn(user("my regions")))
            }),
            (
                "project_id IN (SELECT project FROM member WHERE person = {u.person})",
                mapping(ClaimTest::Is(user("person"))),
            ),
            (
                "project_id in(select project from member where person in {u.people})",
                mapping(ClaimTest::IsIn(user("people"))),
            ),
        ] {
            assert_eq!(parse(text), Ok(partition), "{text}");
        }
        let schema = parse("a IN (SELECT b FROM crm.\"Member Of\" WHERE c = {s.username})");
        assert!(
            matches!(&schema, Ok(Partition::Mapping { table, .. }) if table == "crm.Member Of"),
            "{schema:?}"
        );
    }

    #[test]
    fn a_mistake_says_what_was_expected() {
        for (text, needle) in [
            ("", "expected a column at the end"),
            ("rep", "expected IN at the end"),
            ("rep = 3", "expected {u.NAME}, {s.remote_id} or {s.username}, found 3"),
            ("rep = {r.rep}", "{r.rep} is not a claim"),
            ("rep = {u.}", "{u.} is not a claim"),
            ("rep = {u.rep} OR TRUE", "expected the end; anything else needs { custom"),
            ("rep > {u.rep}", "expected IN, found >"),
            ("rep = {u.rep", "lacks its \"}\""),
            ("\"rep = {u.rep}", "lacks its closing quote"),
            ("rep IN (SELECT a FROM b WHERE c = {u.d}", "expected \")\" at the end"),
            ("rep IN (SELECT a, b FROM c WHERE d = {u.e})", "expected FROM, found ,"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(mistake.contains(needle), "{text}: {mistake}");
        }
    }
}
