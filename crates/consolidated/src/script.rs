//! Scripts: SQL with named parameters that runs at an event.
//!
//! A parameter stands in braces: `{r.column}`, `{s.remote_id}`, `{u.claim}`. A relation such as
//! `{inserts}` is the whole batch, and has the new row's values under the names of the columns, and
//! those of the row that the remote saw as `old_` and the name. Text, comments and quoted
//! identifiers are left alone.
//!
//! A model generates scripts ([`Script::parse`]). Users write some of their own ([`own`]).

pub(crate) mod around;
mod assignments;
pub(crate) mod authentication;
pub(crate) mod called;
pub(crate) mod conflicts;
mod event;
mod lexer;
pub(crate) mod own;
mod parameter;
pub(crate) mod secrets;
mod statistics;
pub(crate) mod told;
pub(crate) mod trace;

pub use conflicts::Detection;
pub use event::Event;
pub(crate) use event::{CURSORS, FETCHING, Phase};
pub(crate) use parameter::{Parameter, Relation, claim, passed};

use crate::upload::changed_columns::ChangedColumns;
use assignments::Assignments;
use event::EventFact;
use lexer::{Token, Tokens, line_and_column, separated};
use model::{Code, Failure, PublishedTable};
use told::Told;

/// A stretch of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// Position among the script's parameters.
    Parameter(usize),
    Relation(Relation),
}

/// A script, taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// The text with `?1`, `?2`, … for the parameters, which is how SQLite spells them.
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) pieces: Vec<Piece>,
    /// Of a script that a user wrote. Nothing may be concluded from its text.
    pub(crate) own: Option<Own>,
    /// Of a generated update: what it assigns.
    pub(crate) assignments: Option<Assignments>,
}

/// What only a script of the user's has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Own {
    /// The script is there, and does nothing.
    pub(crate) ignored: bool,
    /// It is one statement, and the database counts the rows that it changes.
    pub(crate) counts: bool,
    /// The statements behind the first.
    pub(crate) then: Vec<Script>,
    /// What its event tells and the script may set.
    out: &'static [Told],
    /// Where each piece begins in the text.
    places: Vec<usize>,
}

/// What is wrong with a script, and where in its text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Mistake {
    /// `line:column: message`, of a mistake in `text`.
    pub(crate) fn told(&self, text: &str) -> String {
        let (line, column) = line_and_column(text, self.at);
        format!("{line}:{column}: {}", self.message)
    }
}

impl Script {
    /// Resolves the parameters in the generated `text`.
    pub fn parse(text: &str, table: &PublishedTable) -> Result<Script, Failure> {
        // Generated scripts name what there is.
        let generated = Event::ConflictRule.fact();
        let assignments = Assignments::of(text, table);
        let mut script = Script { assignments, ..Script::default() };
        for (at, token) in Tokens::of(text) {
            script.add((at, token), table, generated).map_err(|mistake| {
                Failure::new(Code::ScriptFailed, mistake.message).table(table.name.as_str())
            })?;
        }
        Ok(script)
    }

    /// Whether it can leave out columns that a row does not change.
    pub(crate) fn may_assign_less(&self) -> bool {
        self.assignments.is_some()
    }

    /// The same script of `table`, with the assignments of the `changed` columns alone.
    pub(crate) fn assigning(
        &self,
        changed: &ChangedColumns,
        table: &PublishedTable,
    ) -> Result<Script, Failure> {
        match &self.assignments {
            Some(assignments) => Script::parse(&assignments.text(changed), table),
            None => Ok(self.clone()),
        }
    }

    /// Whether the script may set a value of its event.
    pub(crate) fn sets(&self, told: Told) -> bool {
        self.own.as_ref().is_some_and(|own| own.out.contains(&told))
    }

    /// Whether it is given a value of its event.
    pub(crate) fn names(&self, told: Told) -> bool {
        self.statements().any(|one| one.parameters.contains(&Parameter::Told(told)))
    }

    /// What it sets by a column of this name that it returns.
    pub(crate) fn may_set(&self, column: &str) -> Option<Told> {
        let out = self.own.as_ref().map_or(&[][..], |own| own.out);
        out.iter().copied().find(|told| told.name().eq_ignore_ascii_case(column))
    }

    /// Adds one token, which begins `at` this position of the text.
    fn add(
        &mut self,
        (at, token): (usize, Token<'_>),
        table: &PublishedTable,
        fact: &EventFact,
    ) -> Result<(), Mistake> {
        match token {
            Token::Plain(text) | Token::Quoted(text) | Token::Comment(text) => {
                self.add_text(at, text);
            }
            Token::Semicolon => self.add_text(at, ";"),
            Token::Call => self.add_text(at, "CALL"),
            Token::EndOfCall => {}
            Token::Open => {
                return Err(Mistake { at, message: "this brace is not closed".to_owned() });
            }
            Token::Braces(body) => match Relation::from_name(body.trim()) {
                Some(relation) => {
                    self.sql.push_str(&format!("{{{body}}}"));
                    self.push(at, Piece::Relation(relation));
                }
                None => self.add_parameters((at + 1, body), table, fact)?,
            },
        }
        Ok(())
    }

    /// How the parameter at `index` is written in [`Script::sql`]. A time of SQLite is a text of
    /// whole seconds: what CURRENT_TIMESTAMP has written in the same second is not less.
    pub(crate) fn spelled(&self, index: usize) -> String {
        match self.parameters[index].is_time() {
            true => format!("datetime(?{}, 'unixepoch')", index + 1),
            false => format!("?{}", index + 1),
        }
    }

    fn add_text(&mut self, at: usize, text: &str) {
        self.sql.push_str(text);
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) if self.own.is_none() => before.push_str(text),
            _ => self.push(at, Piece::Text(text.to_owned())),
        }
    }

    fn push(&mut self, at: usize, piece: Piece) {
        self.pieces.push(piece);
        if let Some(own) = &mut self.own {
            own.places.push(at);
        }
    }

    fn add_parameters(
        &mut self,
        (at, body): (usize, &str),
        table: &PublishedTable,
        fact: &EventFact,
    ) -> Result<(), Mistake> {
        for (number, (begin, name)) in separated(body).into_iter().enumerate() {
            if number > 0 {
                self.add_text(at + begin, ", ");
            }
            let parameter = parameter::resolve(name, table, fact)
                .map_err(|message| Mistake { at: at + begin, message })?;
            let index = match self.parameters.iter().position(|known| *known == parameter) {
                Some(index) => index,
                None => {
                    self.parameters.push(parameter);
                    self.parameters.len() - 1
                }
            };
            let spelled = self.spelled(index);
            self.sql.push_str(&spelled);
            self.push(at + begin, Piece::Parameter(index));
        }
        Ok(())
    }
}

/// Every parameter in `text`, as it is written between braces.
pub(crate) fn parameter_names(text: &str) -> impl Iterator<Item = &str> {
    let names = |(_, token)| match token {
        Token::Braces(body) => separated(body),
        _ => Vec::new(),
    };
    Tokens::of(text).flat_map(names).map(|(_, name)| name.trim())
}

/// What a relation calls the value of `column` that the remote saw, in a table of `columns`.
///
/// `old_` and the name, unless that is the name of another column.
pub(crate) fn old_name<S: AsRef<str>>(columns: &[S], column: &str) -> String {
    let taken = |prefix: &str| {
        let olds = columns.iter().filter_map(|c| c.as_ref().strip_prefix(prefix));
        olds.into_iter().any(|rest| columns.iter().any(|c| c.as_ref() == rest))
    };
    let mut prefix = String::from("old_");
    while taken(&prefix) {
        prefix.push('_');
    }
    format!("{prefix}{column}")
}

/// `{kind.column}`, with quotes where the name needs them.
pub(crate) fn parameter(kind: &str, column: &str) -> String {
    let plain = !column.is_empty()
        && column.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !column.contains('"');
    match plain {
        true => format!("{{{kind}.{column}}}"),
        // A closing brace inside a name would end the parameter; deploy refuses such names.
        false => format!("{{{kind}.\"{}\"}}", column.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Direction;

    pub(super) fn table() -> PublishedTable {
        PublishedTable {
            compress: true,
            fires: false,
            name: "t".into(),
            columns: vec!["id".into(), "Full Name".into()],
            key: vec![0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        }
    }

    fn check(text: &str, sql: &str, parameters: &[Parameter]) {
        let script = Script::parse(text, &table()).unwrap();
        assert_eq!(script.sql, sql);
        assert_eq!(script.parameters, parameters);
    }

    #[test]
    fn parameters_become_numbers_and_repeat() {
        check(
            "SELECT {r.id}, {o.\"Full Name\"}, {r.id}, {ml s.remote_id}, {u.region}",
            "SELECT ?1, ?2, ?1, ?3, ?4",
            &[
                Parameter::New(0),
                Parameter::Old(1),
                Parameter::RemoteId,
                Parameter::Claim("region".into()),
            ],
        );
    }

    #[test]
    fn braces_in_text_comments_and_identifiers_are_left_alone() {
        let text = "SELECT '{r.id}''{x}', \"{y}\", [{z}] -- {r.no}\n /* {q} */ , {r.id}";
        check(text, &text.replace(", {r.id}", ", ?1"), &[Parameter::New(0)]);
    }

    #[test]
    fn a_batch_is_named_like_a_table() {
        let script = Script::parse("DELETE FROM t USING {deletes} AS d", &table()).unwrap();
        let text = |text: &str| Piece::Text(text.into());
        let pieces =
            [text("DELETE FROM t USING "), Piece::Relation(Relation::Deletes), text(" AS d")];
        assert_eq!(script.pieces, pieces);
        assert_eq!(script.parameters, []);
    }

    #[test]
    fn old_values_have_names_of_their_own() {
        assert_eq!(old_name(&["id", "price"], "price"), "old_price");
        let columns = ["price", "old_price", "old__price"];
        assert_eq!(old_name(&columns, "price"), "old___price");
        assert_eq!(old_name(&columns, "old_price"), "old___old_price");
    }

    #[test]
    fn an_unknown_parameter_is_named() {
        for text in ["{r.nope}", "{s.nope}", "{nope}", "{x.id}"] {
            let failure = Script::parse(text, &table()).unwrap_err();
            assert_eq!(failure.code(), Code::ScriptFailed);
            assert!(failure.message().contains(text), "{}", failure.message());
        }
    }
}
