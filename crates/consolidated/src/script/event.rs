//! The events at which scripts run, as data. `docs/reference/events.md` has the same table.

use super::told::Told;
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
    /// Reads the row at the center, to compare it with the one that the remote saw.
    UploadFetch,
    /// The same; a conflict is a column that both sides have changed.
    UploadFetchColumnConflict,
    /// An update has a conflict: takes the row that the remote saw.
    UploadOldRowInsert,
    /// Takes the row that the remote made of it.
    UploadNewRowInsert,
    /// Resolves the conflict.
    ResolveConflict,
    /// Reads the row as it is now, when an upload did not find what it expected.
    UploadLook,
    /// Tells which rows are inside the partition, whatever is in them.
    UploadFence,
    /// An insert or update has a conflict: sets the row by the rule of the model.
    ConflictRule,
    /// A delete has a conflict.
    DeleteConflictRule,
    /// The rows to send.
    DownloadCursor,
    /// The keys of the rows to delete.
    DownloadDeleteCursor,
    /// The database refused an uploaded row: says what is to become of that.
    HandleError,
    /// Words what the remote is told of an error.
    ModifyErrorMessage,
    /// Hears of a decision about an error, when it stands.
    ReportError,
}

/// The events of a download.
pub(crate) const CURSORS: [Event; 2] = [Event::DownloadCursor, Event::DownloadDeleteCursor];

/// The events whose scripts read a row to compare it.
pub(crate) const FETCHING: [Event; 2] = [Event::UploadFetch, Event::UploadFetchColumnConflict];

/// The part of a synchronization that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Upload,
    Download,
    /// Around the transaction of an upload.
    Error,
}

/// The rows that a script of an event may name: `{r.…}`, and `{o.…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    None,
    New,
    NewAndOld,
}

/// Who writes the script of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// It serves the rules of a model.
    Model,
    ModelOrUser,
    User,
}

/// What holds for every script of an event.
#[derive(Debug)]
pub(crate) struct EventFact {
    pub(crate) event: Event,
    /// The field's name of it.
    pub(crate) name: &'static str,
    pub(crate) phase: Phase,
    pub(crate) images: Images,
    pub(crate) by: By,
    /// What else its script may name, as `{s.…}`.
    pub(crate) told: &'static [Told],
    /// What of it a row that the script returns may set.
    pub(crate) out: &'static [Told],
}

/// Every event, in the order in which they run.
#[rustfmt::skip]
pub(crate) const EVENTS: [EventFact; 17] = {
    use {By::*, Event as E, Images as I, Phase as P, Told as T};
    const ERROR: &[Told] =
        &[T::ActionCode, T::ErrorCode, T::SqlState, T::ErrorMessage, T::Table];
    [
        fact(E::UploadInsert, "upload_insert", P::Upload, I::New, ModelOrUser),
        fact(E::UploadUpdate, "upload_update", P::Upload, I::NewAndOld, ModelOrUser),
        fact(E::UploadDelete, "upload_delete", P::Upload, I::NewAndOld, ModelOrUser),
        fact(E::UploadFetch, "upload_fetch", P::Upload, I::New, User),
        fact(E::UploadFetchColumnConflict, "upload_fetch_column_conflict", P::Upload, I::New, User),
        fact(E::UploadOldRowInsert, "upload_old_row_insert", P::Upload, I::New, User),
        fact(E::UploadNewRowInsert, "upload_new_row_insert", P::Upload, I::New, User),
        fact(E::ResolveConflict, "resolve_conflict", P::Upload, I::NewAndOld, User),
        fact(E::UploadLook, "upload_look", P::Upload, I::New, Model),
        fact(E::UploadFence, "upload_fence", P::Upload, I::New, Model),
        fact(E::ConflictRule, "conflict_rule", P::Upload, I::NewAndOld, Model),
        fact(E::DeleteConflictRule, "delete_conflict_rule", P::Upload, I::NewAndOld, Model),
        fact(E::DownloadCursor, "download_cursor", P::Download, I::None, ModelOrUser),
        fact(E::DownloadDeleteCursor, "download_delete_cursor", P::Download, I::None, ModelOrUser),
        around(E::HandleError, "handle_error", P::Error, ERROR, &[T::ActionCode]),
        around(E::ModifyErrorMessage, "modify_error_message", P::Error, ERROR, &[T::ErrorMessage]),
        around(E::ReportError, "report_error", P::Error, ERROR, &[]),
    ]
};

const fn fact(event: Event, name: &'static str, phase: Phase, images: Images, by: By) -> EventFact {
    EventFact { event, name, phase, images, by, told: &[], out: &[] }
}

/// An event of a whole script version. Users write its scripts.
const fn around(
    event: Event,
    name: &'static str,
    phase: Phase,
    told: &'static [Told],
    out: &'static [Told],
) -> EventFact {
    EventFact { event, name, phase, images: Images::None, by: By::User, told, out }
}

/// Events of other products for which there are no scripts here, and why.
const FOREIGN: [(&[&str], &str); 5] = [
    (
        &["upload_cursor", "new_row_cursor", "old_row_cursor"],
        "uploads by cursors are a thing of the past: write upload_insert, upload_update and \
         upload_delete",
    ),
    (
        &["authenticate_user_hashed"],
        "passwords are not sent as hashes: users are checked by Syncline, LDAP, a service or JWT",
    ),
    (
        &["handle_UploadData", "handle_DownloadData"],
        "rows are handled by SQL: write the events of the table",
    ),
    (&["authenticate_file_transfer", "authenticate_file_upload"], "files are not transferred"),
    (
        &["handle_odbc_error", "report_odbc_error"],
        "there is no ODBC in between: write handle_error and report_error, which have {s.sqlstate}",
    ),
];

impl Event {
    /// What holds for its scripts. The facts stand in the order of the events.
    pub(crate) const fn fact(self) -> &'static EventFact {
        &EVENTS[self as usize]
    }

    /// The field's name of the event.
    pub const fn name(self) -> &'static str {
        self.fact().name
    }

    /// Whether it belongs to an upload.
    pub(crate) fn is_upload(self) -> bool {
        self.fact().phase == Phase::Upload
    }

    /// Whether it is one of a table, and not of a whole script version.
    pub fn is_of_table(self) -> bool {
        self.fact().phase != Phase::Error
    }

    /// The event of this name.
    pub fn from_name(name: &str) -> Option<Event> {
        EVENTS.iter().find(|fact| fact.name == name).map(|fact| fact.event)
    }

    /// The events of a whole script version.
    pub(crate) fn of_versions() -> impl Iterator<Item = Event> {
        Event::all().filter(|event| !event.is_of_table())
    }

    /// Every event, in the order in which they run.
    pub(crate) fn all() -> impl Iterator<Item = Event> {
        EVENTS.iter().map(|fact| fact.event)
    }

    /// Why there are no scripts for an event that other products have under this name.
    pub fn refusal(name: &str) -> Option<&'static str> {
        FOREIGN.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
    }

    /// Whether users may write its script.
    pub fn may_be_own(self) -> bool {
        self.fact().by != By::Model
    }

    /// Whether its script carries out the rule of a model for conflicts.
    pub(crate) fn is_rule(self) -> bool {
        matches!(self, Event::ConflictRule | Event::DeleteConflictRule)
    }

    /// Whether its script is one query, whose rows are read.
    pub(crate) fn is_query(self) -> bool {
        CURSORS.contains(&self) || FETCHING.contains(&self)
    }

    /// Whether its script always runs for a single row.
    pub(crate) fn is_of_one_row(self) -> bool {
        self.is_upload() && self.fact().by == By::User
    }

    /// The events whose scripts users may write, in the order in which they run.
    pub fn own() -> impl Iterator<Item = Event> {
        Event::all().filter(|event| event.may_be_own())
    }

    /// Those of them that belong to a table.
    pub(crate) fn own_of_tables() -> impl Iterator<Item = Event> {
        Event::own().filter(|event| event.is_of_table())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_stand_in_the_order_of_the_events() {
        for (at, fact) in EVENTS.iter().enumerate() {
            assert_eq!(fact.event as usize, at);
            assert_eq!(Event::from_name(fact.name), Some(fact.event));
        }
    }

    // The page has one line for each event, and no other.
    #[test]
    fn the_page_of_events_says_the_same() {
        let page = include_str!("../../../../docs/reference/events.md");
        let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let spelled = EVENTS.iter().map(|fact| {
            let images = match fact.images {
                Images::None => "",
                Images::New => "`{r.…}`",
                Images::NewAndOld => "`{r.…}`, `{o.…}`",
            };
            let phase = match fact.phase {
                Phase::Upload => "upload",
                Phase::Download => "download",
                Phase::Error => "error",
            };
            let by = match fact.by {
                By::Model => "the model",
                By::ModelOrUser => "the model, or you",
                By::User => "you",
            };
            format!("| `{}` | {phase} | {images} | {by} |", fact.name)
        });
        let spelled: Vec<String> = spelled.collect();
        assert_eq!(lines.len(), spelled.len());
        for (line, spelled) in lines.iter().zip(&spelled) {
            assert!(line.starts_with(spelled.as_str()), "{line}\n{spelled}");
        }
    }
}
