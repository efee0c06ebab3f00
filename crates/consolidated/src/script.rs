//! Scripts: SQL with named parameters that runs at an event.
//!
//! | parameter | value |
//! |---|---|
//! | `{s.remote_id}`, `{s.username}`, `{s.script_version}` | who synchronizes |
//! | `{s.last_download}` | the table's last download, NULL the first time |
//! | `{s.last_download.table}` | the same in the count of another table that the script looks at |
//! | `{s.last_upload}` | on PostgreSQL, the transaction whose rows need not come back |
//! | `{s.uploaded_first}`, `{s.uploaded_last}` | the part of the log that need not be read |
//! | `{r.column}` | the new row |
//! | `{o.column}` | the row as the remote saw it before its change |
//! | `{u.name}` | a claim of the user |
//! | `{inserts}`, `{updates}`, `{deletes}` | the uploaded rows as a relation |
//! | `{keys}` | the keys of wanted rows as a relation |
//!
//! A relation has the new row's values under the names of the columns, and those of the row that
//! the remote saw as `old_` and the name.
//!
//! The older spelling with the prefix `ml ` is accepted. Text, comments and quoted identifiers
//! are left alone.

use model::{Code, Failure, PublishedTable};
use std::fmt;

/// The moment at which a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// A row was inserted at the remote.
    UploadInsert,
    /// A row was updated at the remote.
    UploadUpdate,
    /// A row was deleted at the remote.
    UploadDelete,
    /// Reads the row as it is now, when an upload did not find what it expected.
    UploadFetch,
    /// Tells which rows are inside the partition, whatever is in them.
    UploadFence,
    /// An insert or update has a conflict: sets the resulting row.
    ResolveConflict,
    /// A delete has a conflict.
    ResolveDeleteConflict,
    /// The rows to send.
    DownloadCursor,
    /// The keys of the rows to delete.
    DownloadDeleteCursor,
}

impl Event {
    /// Every event, in the order in which they run.
    pub const ALL: [Event; 9] = [
        Event::UploadInsert,
        Event::UploadUpdate,
        Event::UploadDelete,
        Event::UploadFetch,
        Event::UploadFence,
        Event::ResolveConflict,
        Event::ResolveDeleteConflict,
        Event::DownloadCursor,
        Event::DownloadDeleteCursor,
    ];

    /// The field's name of the event.
    pub fn name(self) -> &'static str {
        match self {
            Event::UploadInsert => "upload_insert",
            Event::UploadUpdate => "upload_update",
            Event::UploadDelete => "upload_delete",
            Event::UploadFetch => "upload_fetch",
            Event::UploadFence => "upload_fence",
            Event::ResolveConflict => "resolve_conflict",
            Event::ResolveDeleteConflict => "resolve_delete_conflict",
            Event::DownloadCursor => "download_cursor",
            Event::DownloadDeleteCursor => "download_delete_cursor",
        }
    }

    /// Whether it belongs to an upload.
    pub(crate) fn is_upload(self) -> bool {
        !matches!(self, Event::DownloadCursor | Event::DownloadDeleteCursor)
    }

    /// The event of this name.
    pub fn from_name(name: &str) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.name() == name)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A parameter of a script, resolved against its table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parameter {
    RemoteId,
    Username,
    ScriptVersion,
    LastDownload,
    /// The last download, as another table counts.
    LastDownloadOf(String),
    /// The transaction of the synchronization's own upload, where nothing it wrote has to come
    /// back; otherwise one that wrote nothing.
    LastUpload,
    /// Where the upload's own stretch of the table's log begins.
    UploadedFirst,
    /// Where it ends.
    UploadedLast,
    Claim(String),
    /// Position in the new row.
    New(usize),
    /// Position in the old image.
    Old(usize),
}

/// A batch that a script names like a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Inserts,
    Updates,
    Deletes,
    Keys,
}

/// A stretch of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// Position among the script's parameters.
    Parameter(usize),
    Relation(Relation),
}

/// A script, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The text with `?1`, `?2`, … for the parameters, which is how SQLite spells them.
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) pieces: Vec<Piece>,
}

impl Script {
    /// Resolves the parameters in `text`.
    pub fn parse(text: &str, table: &PublishedTable) -> Result<Script, Failure> {
        let mut sql = String::with_capacity(text.len());
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(part) = next_part(rest) {
            match part {
                Part::Verbatim(verbatim) => {
                    sql.push_str(verbatim);
                    pieces.push(Piece::Text(verbatim.to_owned()));
                    rest = &rest[verbatim.len()..];
                }
                Part::Parameter(body) => {
                    rest = &rest[body.len() + 2..];
                    if let Some(relation) = relation(body) {
                        sql.push_str(&format!("{{{body}}}"));
                        pieces.push(Piece::Relation(relation));
                        continue;
                    }
                    let parameter = resolve(body, table)?;
                    let index = match parameters.iter().position(|known| *known == parameter) {
                        Some(index) => index,
                        None => {
                            parameters.push(parameter);
                            parameters.len() - 1
                        }
                    };
                    sql.push_str(&format!("?{}", index + 1));
                    pieces.push(Piece::Parameter(index));
                }
            }
        }
        Ok(Script { sql, parameters, pieces })
    }
}

fn relation(body: &str) -> Option<Relation> {
    Some(match body.trim() {
        "inserts" => Relation::Inserts,
        "updates" => Relation::Updates,
        "deletes" => Relation::Deletes,
        "keys" => Relation::Keys,
        _ => return None,
    })
}

/// What stands between the braces of every parameter in `text`.
pub(crate) fn parameter_bodies(text: &str) -> Vec<&str> {
    let (mut bodies, mut rest) = (Vec::new(), text);
    while let Some(part) = next_part(rest) {
        rest = match part {
            Part::Verbatim(verbatim) => &rest[verbatim.len()..],
            Part::Parameter(body) => {
                bodies.push(body);
                &rest[body.len() + 2..]
            }
        };
    }
    bodies
}

enum Part<'a> {
    Verbatim(&'a str),
    Parameter(&'a str),
}

/// The front of `text`: a parameter, something quoted or commented as a whole, or the stretch
/// before the next of these.
fn next_part(text: &str) -> Option<Part<'_>> {
    let closed = |opening: usize, closing: &str| {
        let end =
            text[opening..].find(closing).map_or(text.len(), |at| opening + at + closing.len());
        Some(Part::Verbatim(&text[..end]))
    };
    match text.as_bytes() {
        [] => None,
        // A doubled quote inside is the end of one literal and the begin of the next.
        [b'\'', ..] => closed(1, "'"),
        [b'"', ..] => closed(1, "\""),
        [b'`', ..] => closed(1, "`"),
        [b'[', ..] => closed(1, "]"),
        [b'-', b'-', ..] => closed(2, "\n"),
        [b'/', b'*', ..] => closed(2, "*/"),
        [b'{', ..] => match text.find('}') {
            Some(end) => Some(Part::Parameter(&text[1..end])),
            None => Some(Part::Verbatim(text)),
        },
        _ => {
            let special = |(at, c): (usize, char)| {
                let here = &text[at..];
                (matches!(c, '\'' | '"' | '`' | '[' | '{')
                    || here.starts_with("--")
                    || here.starts_with("/*"))
                .then_some(at)
            };
            let end = text.char_indices().skip(1).find_map(special).unwrap_or(text.len());
            Some(Part::Verbatim(&text[..end]))
        }
    }
}

fn resolve(body: &str, table: &PublishedTable) -> Result<Parameter, Failure> {
    let unknown = || {
        Failure::new(Code::ScriptFailed, format!("unknown parameter {{{body}}}"))
            .table(table.name.as_str())
    };
    let name = body.strip_prefix("ml ").unwrap_or(body).trim();
    let (kind, name) = name.split_once('.').ok_or_else(unknown)?;
    let name = unquoted(name);
    let column = || table.columns.iter().position(|column| *column == name).ok_or_else(unknown);
    Ok(match (kind, name.as_str()) {
        ("s", "remote_id") => Parameter::RemoteId,
        ("s", "username") => Parameter::Username,
        ("s", "script_version") => Parameter::ScriptVersion,
        ("s", "last_download" | "last_table_download") => Parameter::LastDownload,
        ("s", "last_upload") => Parameter::LastUpload,
        ("s", "uploaded_first") => Parameter::UploadedFirst,
        ("s", "uploaded_last") => Parameter::UploadedLast,
        ("s", other) if other.starts_with("last_download.") => {
            Parameter::LastDownloadOf(unquoted(&other["last_download.".len()..]))
        }
        ("u" | "ui", _) => Parameter::Claim(name),
        ("r", _) => Parameter::New(column()?),
        ("o", _) => Parameter::Old(column()?),
        _ => return Err(unknown()),
    })
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

/// A name without its quotes, if it has some.
fn unquoted(name: &str) -> String {
    match name.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
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

    fn table() -> PublishedTable {
        PublishedTable {
            compress: true,
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
