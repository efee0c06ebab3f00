//! What can stand in braces. `docs/reference/parameters.md` has the same list.

use super::event::{By, EventFact, Images};
use super::told::Told;
use model::PublishedTable;

/// A parameter of a script, resolved against its table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parameter {
    RemoteId,
    Username,
    ScriptVersion,
    /// What the remote has of the table, as the table counts its changes.
    Watermark,
    /// The same, as another table counts.
    WatermarkOf(String),
    /// Since when the remote lacks what was stamped in any table.
    LastDownload,
    /// The same of this table.
    LastTableDownload,
    /// The transaction of the synchronization's own upload, where nothing it wrote has to come
    /// back; otherwise one that wrote nothing.
    LastUpload,
    /// Where the upload's own stretch of the table's log begins.
    UploadedFirst,
    /// Where it ends.
    UploadedLast,
    Claim(String),
    /// What a script has set for the synchronization, otherwise the claim.
    User(String),
    /// An authentication parameter, counted from 1.
    Passed(u8),
    /// Position in the new row.
    New(usize),
    /// Position in the old image.
    Old(usize),
    /// What the event tells.
    Told(Told),
}

impl Parameter {
    /// Whether it is a moment at the center.
    pub(crate) fn is_time(&self) -> bool {
        match self {
            Parameter::LastDownload | Parameter::LastTableDownload => true,
            Parameter::Told(told) => told.is_time(),
            _ => false,
        }
    }

    /// The parameter as far as it says which rows a remote has: what scripts set does not.
    pub(crate) fn as_claim(&self) -> Parameter {
        match self {
            Parameter::User(name) => Parameter::Claim(name.clone()),
            other => other.clone(),
        }
    }

    /// Whether its value follows from what the remote was sent last.
    pub(crate) fn is_of_download(&self) -> bool {
        matches!(
            self,
            Parameter::Watermark
                | Parameter::WatermarkOf(_)
                | Parameter::LastDownload
                | Parameter::LastTableDownload
                | Parameter::LastUpload
                | Parameter::UploadedFirst
                | Parameter::UploadedLast
        )
    }
}

/// A batch that a script names like a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Inserts,
    Updates,
    Deletes,
    Keys,
}

impl Relation {
    pub(super) fn from_name(name: &str) -> Option<Relation> {
        Some(match name {
            "inserts" => Relation::Inserts,
            "updates" => Relation::Updates,
            "deletes" => Relation::Deletes,
            "keys" => Relation::Keys,
            _ => return None,
        })
    }
}

/// What `name` means in a script of `table` for an event.
pub(super) fn resolve(
    name: &str,
    table: &PublishedTable,
    fact: &EventFact,
) -> Result<Parameter, String> {
    let unknown = || format!("unknown parameter {{{}}}", name.trim());
    let (kind, rest) = bare(name).split_once('.').ok_or_else(unknown)?;
    let rest = rest.trim();
    let column = || position(rest, table).ok_or_else(unknown);
    let image = |wanted: &[Images]| match wanted.contains(&fact.images) {
        true => Ok(()),
        false => Err(format!("{{{}}}: this event has no such row", name.trim())),
    };
    Ok(match (kind, rest) {
        ("s", "remote_id") => Parameter::RemoteId,
        ("s", "username") if fact.told.contains(&Told::Username) => Parameter::Told(Told::Username),
        ("s", "username") => Parameter::Username,
        ("s", "script_version") => Parameter::ScriptVersion,
        ("s", "watermark") => Parameter::Watermark,
        ("s", "last_download") => match fact.told.contains(&Told::LastDownload) {
            true => Parameter::Told(Told::LastDownload),
            false => Parameter::LastDownload,
        },
        ("s", "last_table_download") => Parameter::LastTableDownload,
        ("s", "last_upload") => Parameter::LastUpload,
        ("s", "uploaded_first") => Parameter::UploadedFirst,
        ("s", "uploaded_last") => Parameter::UploadedLast,
        ("s", other) => match other.strip_prefix("watermark.") {
            Some(table) => Parameter::WatermarkOf(unquoted(table)),
            None => match Told::from_name(other) {
                Some(told) if fact.told.contains(&told) => Parameter::Told(told),
                Some(_) => return Err(format!("{}: this event has no such value", unknown())),
                None => return Err(unknown()),
            },
        },
        ("u" | "ui", _) if fact.by == By::Model => Parameter::Claim(unquoted(rest)),
        ("u" | "ui", _) => Parameter::User(unquoted(rest)),
        ("a", number) => match number.parse() {
            Ok(number) if number > 0 => Parameter::Passed(number),
            _ => return Err(format!("{}: there are {{a.1}} to {{a.255}}", unknown())),
        },
        ("r", _) => {
            image(&[Images::New, Images::NewAndOld])?;
            Parameter::New(column()?)
        }
        ("o", _) => {
            image(&[Images::NewAndOld])?;
            Parameter::Old(column()?)
        }
        _ => return Err(unknown()),
    })
}

/// A parameter without the prefix of older spellings.
fn bare(name: &str) -> &str {
    let name = name.trim();
    name.strip_prefix("ml ").unwrap_or(name).trim_start()
}

/// The claim that a parameter is, if it is one.
pub(crate) fn claim(name: &str) -> Option<String> {
    let (kind, rest) = bare(name).split_once('.')?;
    matches!(kind, "u" | "ui").then(|| unquoted(rest.trim()))
}

/// The number of the authentication parameter that a parameter is, if it is one.
pub(crate) fn passed(name: &str) -> Option<u8> {
    let (kind, number) = bare(name).split_once('.')?;
    number.trim().parse().ok().filter(|_| kind == "a")
}

/// The position of a column by its name, or by its number from 1.
fn position(name: &str, table: &PublishedTable) -> Option<usize> {
    let wanted = unquoted(name);
    let exact = table.columns.iter().position(|column| *column == wanted);
    let alike = || {
        let mut alike = (0..table.width())
            .filter(|at| wanted == name && table.columns[*at].eq_ignore_ascii_case(&wanted));
        alike.next().filter(|_| alike.next().is_none())
    };
    let numbered = || {
        let number: usize = name.parse().ok()?;
        (1..=table.width()).contains(&number).then(|| number - 1)
    };
    exact.or_else(alike).or_else(numbered)
}

/// A name without its quotes or brackets, if it has some.
fn unquoted(name: &str) -> String {
    let between = |open: char, close: char| name.strip_prefix(open)?.strip_suffix(close);
    match (between('"', '"'), between('[', ']')) {
        (Some(inner), _) => inner.replace("\"\"", "\""),
        (None, Some(inner)) => inner.to_owned(),
        (None, None) => name.to_owned(),
    }
}
