//! Scripts that users write.
//!
//! What is wrong with one is said when it is deployed, with line and column. What its statements
//! mean is not looked at: the database says that. Only the words are that would break what holds
//! for all scripts: they run inside our transactions, on connections that other users share.

use super::event::{Event, Phase};
use super::lexer::{Token, Tokens};
use super::{Mistake, Own, Parameter, Piece, Script};
use model::{Code, Direction, Failure, PublishedTable};

/// The first lines of a script that is there, and does nothing.
const IGNORED: [&str; 2] = ["--{ignore}", "--{ml_ignore}"];

/// Statements that a script must not have, by their first word, and why.
const REFUSED: [(&[&str], &str); 3] = [
    (
        &[
            "BEGIN",
            "START",
            "COMMIT",
            "END",
            "ROLLBACK",
            "ABORT",
            "SAVEPOINT",
            "RELEASE",
            "PREPARE",
            "EXECUTE",
            "DEALLOCATE",
        ],
        "a script runs inside a transaction of the server, and must not control it",
    ),
    (
        &["PRAGMA", "ATTACH", "DETACH", "RESET", "DISCARD", "LISTEN", "UNLISTEN", "LOAD"],
        "it would change the connection, which other users share",
    ),
    (&["VACUUM", "COPY", "EXPLAIN"], "it is not a statement of a script"),
];

/// Whether a script does nothing, by its first line.
pub(crate) fn is_ignored(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    IGNORED.iter().any(|word| first.starts_with(word))
}

/// How the stored text of a script begins that a user wrote. A generated one never begins so.
const STORED: &str = "-- syncline: own\n";

/// The text of a user's script as it is stored.
pub(crate) fn stored(text: &str) -> String {
    format!("{STORED}{text}")
}

/// Whether a user wrote a stored script, and its text.
pub(crate) fn read(stored: &str) -> (bool, &str) {
    stored.strip_prefix(STORED).map_or((false, stored), |text| (true, text))
}

impl Script {
    /// Understands a script that is stored.
    pub(crate) fn stored(
        stored: &str,
        event: Event,
        table: &PublishedTable,
    ) -> Result<Script, Failure> {
        let (own, text) = read(stored);
        Script::of(text, own, event, table)
    }

    /// Understands a script that was found to be right before.
    pub(crate) fn of(
        text: &str,
        own: bool,
        event: Event,
        table: &PublishedTable,
    ) -> Result<Script, Failure> {
        if !own {
            return Script::parse(text, table);
        }
        Script::own(text, event, table).map_err(|mistakes| {
            let told: Vec<String> = mistakes.iter().map(|mistake| mistake.told(text)).collect();
            let (name, told) = (&table.name, told.join("; "));
            Failure::new(Code::ScriptFailed, format!("the script {event} of table {name}: {told}"))
                .table(name.as_str())
        })
    }

    /// Understands a script that a user wrote for an event of `table`; or says all that is wrong.
    pub(crate) fn own(
        text: &str,
        event: Event,
        table: &PublishedTable,
    ) -> Result<Script, Vec<Mistake>> {
        if is_ignored(text) {
            let own = Own { ignored: true, ..Own::default() };
            return Ok(Script { own: Some(own), ..Script::default() });
        }
        let (mut statements, mut mistakes) = (Vec::new(), Vec::new());
        for tokens in statements_of(text) {
            let (statement, wrong) = understood(&tokens, table, event);
            mistakes.extend(wrong);
            mistakes.extend(refusal(&Words::of(&tokens), event, statements.len()));
            statements.push(statement);
        }
        let none = || Mistake {
            at: 0,
            message: "there is no statement; a script that does nothing begins with --{ignore}"
                .to_owned(),
        };
        mistakes.extend(statements.is_empty().then(none));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut statements = statements.into_iter();
        let mut script = statements.next().unwrap_or_default();
        if let Some(own) = &mut script.own {
            own.then = statements.collect();
            own.counts &= own.then.is_empty();
        }
        Ok(script)
    }

    /// Understands a script that a user wrote for an event of a whole script version.
    pub(crate) fn of_version(text: &str, event: Event) -> Result<Script, Vec<Mistake>> {
        Script::own(text, event, &no_table())
    }

    /// The same of one that is stored.
    pub(crate) fn stored_of_version(stored: &str, event: Event) -> Result<Script, Failure> {
        let (_, text) = read(stored);
        Script::of_version(text, event).map_err(|mistakes| {
            let told: Vec<String> = mistakes.iter().map(|mistake| mistake.told(text)).collect();
            Failure::new(Code::ScriptFailed, format!("the script {event}: {}", told.join("; ")))
        })
    }

    /// The statements of the script, in their order; none of one that does nothing.
    pub(crate) fn statements(&self) -> impl Iterator<Item = &Script> {
        let then = self.own.as_ref().map_or(&[][..], |own| &own.then);
        let first = (!self.is_ignored()).then_some(self);
        first.into_iter().chain(then)
    }

    /// Which of its pieces is a batch of rows, if one is.
    pub(crate) fn batch(&self) -> Option<usize> {
        self.pieces.iter().position(|piece| matches!(piece, Piece::Relation(_)))
    }

    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    pub(crate) fn is_ignored(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.ignored)
    }

    /// Whether a count of 0 says that the script was not applied. A generated one always counts.
    pub(crate) fn counts(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.counts)
    }

    /// Where a piece stands in the text that is a value of a download, unknown to `event`.
    fn unknown_to(&self, event: Event, piece: usize) -> Option<usize> {
        let Piece::Parameter(at) = self.pieces.get(piece)? else { return None };
        let place = self.own.as_ref()?.places.get(piece)?;
        let parameter = &self.parameters[*at];
        (parameter.is_of_download() && !knows(event, parameter)).then_some(*place)
    }

    /// The position in the user's text of a position in the statement of this script. `begins` says
    /// where each piece begins in the statement.
    pub(crate) fn place_of(&self, at: usize, begins: &[usize]) -> usize {
        let places = self.own.as_ref().map_or(&[][..], |own| &own.places);
        let last = begins.partition_point(|begin| *begin <= at).saturating_sub(1);
        match (places.get(last), begins.get(last)) {
            // Inside a parameter all positions are that of its brace.
            (Some(place), Some(begin)) if matches!(self.pieces[last], Piece::Text(_)) => {
                place + (at - begin)
            }
            (Some(place), _) => *place,
            (None, _) => 0,
        }
    }
}

/// Whether a script of an event may name a value of the download.
fn knows(event: Event, parameter: &Parameter) -> bool {
    match (event.fact().phase, parameter) {
        (Phase::Download, _) if !event.is_around() => true,
        (Phase::Prepare | Phase::Download, Parameter::LastDownload) => true,
        (Phase::Download, Parameter::LastTableDownload) => event.is_of_table(),
        _ => false,
    }
}

/// Stands for the table of a script that has none.
pub(crate) fn no_table() -> PublishedTable {
    PublishedTable {
        compress: false,
        fires: false,
        name: String::new(),
        columns: Vec::new(),
        key: Vec::new(),
        direction: Direction::Both,
        create: Vec::new(),
        fingerprint: String::new(),
    }
}

type Placed<'t> = (usize, Token<'t>);

/// The tokens of each statement in `text`. What has only comments is none.
fn statements_of(text: &str) -> Vec<Vec<Placed<'_>>> {
    let mut statements = vec![Vec::new()];
    for (at, token) in Tokens::of(text) {
        match (token, statements.last_mut()) {
            (Token::Semicolon, _) => statements.push(Vec::new()),
            (token, Some(statement)) => statement.push((at, token)),
            (_, None) => {}
        }
    }
    let says_something = |(_, token): &Placed<'_>| match token {
        Token::Plain(plain) => !plain.trim().is_empty(),
        Token::Comment(_) => false,
        _ => true,
    };
    statements.retain(|statement| statement.iter().any(says_something));
    statements
}

fn understood(
    tokens: &[Placed<'_>],
    table: &PublishedTable,
    event: Event,
) -> (Script, Vec<Mistake>) {
    let counts = Words::of(tokens).verb().is_none_or(|verb| !matches!(verb, "CALL" | "DO"));
    let own = Own { counts, out: event.fact().out, ..Own::default() };
    let (mut script, mut mistakes) = (Script { own: Some(own), ..Script::default() }, Vec::new());
    for (at, token) in tokens {
        if let Token::Plain(plain) = token
            && let Some(bare) = bare_parameter(plain)
        {
            let message = "a value is named in braces, such as {r.column}".to_owned();
            mistakes.push(Mistake { at: at + bare, message });
        }
        mistakes.extend(script.add((*at, *token), table, event.fact()).err());
        if (event.is_of_one_row() || event.is_around())
            && matches!(script.pieces.last(), Some(Piece::Relation(_)))
        {
            let message = format!("{event} is not for a batch of rows: name single values");
            mistakes.push(Mistake { at: *at, message });
        }
    }
    let pieces = (0..script.pieces.len()).filter_map(|at| script.unknown_to(event, at));
    let unknown = |at| Mistake {
        at,
        message: format!("{event} knows nothing of downloads, and has no such value"),
    };
    mistakes.extend(pieces.map(unknown));
    (script, mistakes)
}

/// Where a parameter of the database stands, `?1` or `$1`: the numbers are ours.
fn bare_parameter(plain: &str) -> Option<usize> {
    let digit = |at: usize| plain.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit);
    plain.match_indices(['?', '$']).map(|(at, _)| at).find(|at| digit(*at))
}

/// The words of a statement outside of quotes, in capitals, each with its position and with the
/// number of parentheses around it.
struct Words(Vec<(usize, String, usize)>);

impl Words {
    fn of(tokens: &[Placed<'_>]) -> Words {
        let (mut words, mut depth) = (Vec::new(), 0_usize);
        for (at, token) in tokens {
            let plain = match token {
                Token::Plain(plain) => plain,
                Token::Call => {
                    words.push((*at, "CALL".to_owned(), depth));
                    continue;
                }
                _ => continue,
            };
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let mut begin = None;
            for (here, c) in plain.char_indices().chain([(plain.len(), ' ')]) {
                match (begin, is_word(c)) {
                    (None, true) => begin = Some(here),
                    (Some(from), false) => {
                        words.push((at + from, plain[from..here].to_uppercase(), depth));
                        begin = None;
                    }
                    _ => {}
                }
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
        Words(words)
    }

    /// What the statement does: its first word, or the one behind a WITH.
    fn verb(&self) -> Option<&str> {
        let (_, first, _) = self.0.first()?;
        if first != "WITH" {
            return Some(first);
        }
        const VERBS: [&str; 7] =
            ["SELECT", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"];
        let main =
            self.0.iter().find(|(_, word, depth)| *depth == 0 && VERBS.contains(&word.as_str()));
        main.map(|(_, word, _)| word.as_str())
    }
}

/// Why a statement cannot stand in a script, at its number from 0.
fn refusal(words: &Words, event: Event, number: usize) -> Option<Mistake> {
    let (at, first, _) = words.0.first()?;
    let second = words.0.get(1).map_or("", |(_, word, _)| word.as_str());
    let wrong = |message: String| Some(Mistake { at: *at, message });
    if let Some((_, why)) = REFUSED.iter().find(|(words, _)| words.contains(&first.as_str())) {
        return wrong(format!("{first}: {why}"));
    }
    if first == "SET" && second != "LOCAL" {
        return wrong("SET: connections are shared; SET LOCAL ends with the transaction".into());
    }
    if !event.is_query() {
        return None;
    }
    if number > 0 {
        return wrong(format!("{event} is one statement; this is another one"));
    }
    let reads = words.verb().is_some_and(|verb| matches!(verb, "SELECT" | "VALUES"));
    if reads { None } else { wrong(format!("{event} must be a SELECT")) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    fn wrong(text: &str, event: Event) -> Vec<String> {
        let mistakes = Script::own(text, event, &table()).err().unwrap_or_default();
        mistakes.iter().map(|mistake| mistake.told(text)).collect()
    }

    fn right(text: &str) -> Script {
        Script::own(text, Event::UploadUpdate, &table()).unwrap()
    }

    #[test]
    fn all_spellings_of_a_parameter_are_understood() {
        let spellings = [
            "SELECT {ml r.id}, {r.\"Full Name\"}",
            "SELECT {r.1}, {r.2}",
            "SELECT {r.id, ml r.[Full Name]}",
            "SELECT { r.ID }, {r.[Full Name]}",
        ];
        for text in spellings {
            assert_eq!(right(text).sql, "SELECT ?1, ?2", "{text}");
        }
        assert_eq!(right("{call p({r.id}, {o.2})}").sql, "CALL p(?1, ?2)");
        assert_eq!(right("SELECT $$ {r.id} $$, {a.255}").sql, "SELECT $$ {r.id} $$, ?1");
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let text = "UPDATE t SET a = {r.nope}\nWHERE id = {o.id} AND {s.x} = ?1";
        assert_eq!(
            wrong(text, Event::UploadUpdate),
            [
                "1:19: unknown parameter {r.nope}",
                "2:24: unknown parameter {s.x}",
                "2:31: a value is named in braces, such as {r.column}",
            ]
        );
        assert_eq!(wrong("", Event::UploadInsert).len(), 1);
        assert_eq!(wrong("-- {r.nope}\n;", Event::UploadInsert).len(), 1);
        assert_eq!(
            wrong("INSERT INTO t VALUES ({o.id})", Event::UploadInsert),
            ["1:24: {o.id}: this event has no such row"]
        );
        assert_eq!(wrong("SELECT {a.0}", Event::UploadInsert).len(), 1);
        assert_eq!(wrong("SELECT {a.256}", Event::UploadInsert).len(), 1);
    }

    #[test]
    fn a_script_does_not_reach_beyond_its_transaction() {
        for text in [
            "COMMIT",
            "/* x */ rollback",
            "BEGIN; SELECT 1",
            "SELECT 1; END",
            "savepoint a",
            "PRAGMA foreign_keys = off",
            "ATTACH 'x' AS y",
            "SET search_path = x",
            "reset all",
            "{call p()}; COMMIT",
        ] {
            assert_eq!(wrong(text, Event::UploadDelete).len(), 1, "{text}");
        }
        for text in [
            "SET LOCAL work_mem = '1MB'; UPDATE t SET a = 1",
            "SELECT 'COMMIT'; -- COMMIT\n",
            "UPDATE t SET \"begin\" = 1 -- ; COMMIT",
        ] {
            assert_eq!(wrong(text, Event::UploadDelete), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_cursor_is_one_query() {
        for text in ["SELECT 1; SELECT 2", "UPDATE t SET a = 1", "CALL p()", "SELECT {r.id}"] {
            assert_eq!(wrong(text, Event::DownloadCursor).len(), 1, "{text}");
        }
        for text in ["SELECT 1;", "WITH x AS (SELECT 1) SELECT * FROM x", "(SELECT 1)"] {
            assert_eq!(wrong(text, Event::DownloadCursor), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_call_and_several_statements_say_nothing() {
        let with_name = "WITH x AS (SELECT 1) UPDATE t SET a = 1";
        assert!(right("UPDATE t SET a = 1;").counts() && right(with_name).counts());
        assert!(!right("UPDATE t SET a = 1; SELECT 1").counts());
        assert!(!right("{call p()}").counts() && !right("call p()").counts());
        let twice = right("UPDATE t SET a = {r.1}; SELECT {o.2}");
        assert_eq!(
            twice.statements().map(|one| one.sql.as_str()).collect::<Vec<_>>(),
            ["UPDATE t SET a = ?1", " SELECT ?1"]
        );
    }

    #[test]
    fn an_ignored_script_does_nothing() {
        for text in ["--{ignore}", "--{ml_ignore} why\nCOMMIT"] {
            let script = right(text);
            assert!(script.is_ignored() && script.statements().next().is_none());
        }
        assert!(!right("SELECT 1 --{ignore}").is_ignored());
    }

    #[test]
    fn a_place_in_the_statement_is_one_in_the_text() {
        let script = right("UPDATE t SET a = {r.id}, b = c");
        // ?1 is shorter than {r.id}.
        let mut begins = Vec::new();
        let mut at = 0;
        for piece in &script.pieces {
            begins.push(at);
            at += match piece {
                Piece::Text(text) => text.len(),
                _ => 2,
            };
        }
        let place = script.sql.find('c').unwrap();
        assert_eq!(script.place_of(place, &begins), 29);
    }
}
