//! The events at which scripts run, as data. `docs/reference/events.md` has the same table.

use super::told::Told;
use std::fmt;

/// The moment at which a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// A connection was opened for a script version. It is in no transaction.
    BeginConnectionAutocommit,
    /// The same, in a transaction.
    BeginConnection,
    /// A connection is about to be closed.
    EndConnection,
    /// A user wants to synchronize: checks the password.
    AuthenticateUser,
    /// The same: checks the authentication parameters.
    AuthenticateParameters,
    /// The user may synchronize: says under which name.
    ModifyUser,
    /// A synchronization begins.
    BeginSynchronization,
    /// The same for each of its publications.
    BeginPublication,
    /// The transaction of the upload begins.
    BeginUpload,
    /// Before the inserts and updates of a table.
    BeginUploadRows,
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
    /// Behind the inserts and updates of a table.
    EndUploadRows,
    /// Before the deletes of a table.
    BeginUploadDeletes,
    /// Behind the deletes of a table.
    EndUploadDeletes,
    /// All rows of the upload are applied.
    EndUpload,
    /// Hears what became of the rows of the upload.
    UploadStatistics,
    /// The upload is committed, and a download follows: says which time is handed out with it.
    GenerateNextLastDownloadTimestamp,
    /// The same: says since when the remote lacks what was stamped.
    ModifyLastDownloadTimestamp,
    /// The same, behind both.
    PrepareForDownload,
    /// The transaction of the download begins.
    BeginDownload,
    /// Before the keys of the rows of a table to delete.
    BeginDownloadDeletes,
    /// Before the rows of a table to send.
    BeginDownloadRows,
    /// The rows to send.
    DownloadCursor,
    /// The keys of the rows to delete.
    DownloadDeleteCursor,
    /// Behind the keys of the rows of a table to delete.
    EndDownloadDeletes,
    /// Behind the rows of a table to send.
    EndDownloadRows,
    /// All rows to send are known: changes the time that is handed out with them.
    ModifyNextLastDownloadTimestamp,
    /// The same, behind it.
    EndDownload,
    /// Hears how much is sent.
    DownloadStatistics,
    /// The synchronization ends, for each of its publications.
    EndPublication,
    /// The synchronization ends, also where it has failed.
    EndSynchronization,
    /// Hears what was counted of the whole synchronization.
    SynchronizationStatistics,
    /// Hears how long the scripts of an event took.
    TimeStatistics,
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

/// The part of a synchronization that an event belongs to. Each has a transaction of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Of a connection that a script version has for itself.
    Connection,
    /// T1
    Authenticate,
    /// T2
    Begin,
    /// T3
    Upload,
    /// T4
    Prepare,
    /// T5
    Download,
    /// T6
    End,
    /// Around the transaction of an upload.
    Error,
}

impl Phase {
    /// What the field calls its transaction.
    pub(crate) fn transaction(self) -> &'static str {
        match self {
            Phase::Connection => "connection",
            Phase::Authenticate => "T1",
            Phase::Begin => "T2",
            Phase::Upload => "T3",
            Phase::Prepare => "T4",
            Phase::Download => "T5",
            Phase::End => "T6",
            Phase::Error => "error",
        }
    }
}

/// What an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Table,
    /// A whole script version.
    Version,
    /// One has a script for the version, and one for each table.
    Both,
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
    pub(crate) scope: Scope,
    pub(crate) images: Images,
    pub(crate) by: By,
    /// What else its script may name, as `{s.…}`.
    pub(crate) told: &'static [Told],
    /// What of it a row that the script returns may set.
    pub(crate) out: &'static [Told],
}

/// Every event, in the order in which they run.
#[rustfmt::skip]
pub(crate) const EVENTS: [EventFact; 47] = {
    use {By::*, Event as E, Images as I, Phase as P, Scope as S, Told as T};
    const ERROR: &[Told] =
        &[T::ActionCode, T::ErrorCode, T::SqlState, T::ErrorMessage, T::Table];
    const TABLE: &[Told] = &[T::Table];
    const UPLOADED: &[Told] = &[
        T::Table, T::Warnings, T::Errors, T::InsertedRows, T::DeletedRows, T::UpdatedRows,
        T::ConflictedInserts, T::ConflictedDeletes, T::ConflictedUpdates, T::IgnoredInserts,
        T::IgnoredDeletes, T::IgnoredUpdates, T::Bytes, T::Deadlocks,
    ];
    const DOWNLOADED: &[Told] = &[
        T::Table, T::Warnings, T::Errors, T::FetchedRows, T::DeletedRows, T::FilteredRows, T::Bytes,
    ];
    const END: &[Told] = &[T::Table, T::SynchronizationOk];
    const COUNTED: &[Told] = &[
        T::Table, T::Warnings, T::Errors, T::Deadlocks, T::SynchronizedTables, T::ConnectionRetries,
    ];
    const TIMED: &[Told] = &[
        T::Table, T::EventName, T::NumberOfCalls, T::MinimumTime, T::MaximumTime, T::TotalTime,
    ];
    const PUBLICATION: &[Told] = &[T::PublicationName, T::GenerationNumber];
    const END_PUBLICATION: &[Told] = &[T::PublicationName, T::SynchronizationOk];
    const USER: &[Told] = &[T::AuthenticationStatus, T::Password, T::NewPassword];
    const LAST: &[Told] = &[T::LastDownload];
    const NEXT: &[Told] = &[T::NextLastDownload];
    const PARAMETERS: &[Told] = &[T::AuthenticationStatus, T::AuthenticationMessage];
    [
        around(E::BeginConnectionAutocommit, "begin_connection_autocommit", P::Connection,
            S::Version, &[]),
        around(E::BeginConnection, "begin_connection", P::Connection, S::Version, &[]),
        around(E::EndConnection, "end_connection", P::Connection, S::Version, &[]),
        around(E::AuthenticateUser, "authenticate_user", P::Authenticate, S::Version, USER)
            .setting(&[T::AuthenticationStatus]),
        around(
            E::AuthenticateParameters,
            "authenticate_parameters",
            P::Authenticate,
            S::Version,
            PARAMETERS,
        )
        .setting(PARAMETERS),
        around(E::ModifyUser, "modify_user", P::Authenticate, S::Version, &[T::Username])
            .setting(&[T::Username]),
        around(E::BeginSynchronization, "begin_synchronization", P::Begin, S::Both, TABLE),
        around(E::BeginPublication, "begin_publication", P::Begin, S::Version, PUBLICATION),
        around(E::BeginUpload, "begin_upload", P::Upload, S::Both, TABLE),
        around(E::BeginUploadRows, "begin_upload_rows", P::Upload, S::Table, TABLE),
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
        around(E::EndUploadRows, "end_upload_rows", P::Upload, S::Table, TABLE),
        around(E::BeginUploadDeletes, "begin_upload_deletes", P::Upload, S::Table, TABLE),
        around(E::EndUploadDeletes, "end_upload_deletes", P::Upload, S::Table, TABLE),
        around(E::EndUpload, "end_upload", P::Upload, S::Both, TABLE),
        around(E::UploadStatistics, "upload_statistics", P::Upload, S::Both, UPLOADED),
        around(
            E::GenerateNextLastDownloadTimestamp,
            "generate_next_last_download_timestamp",
            P::Prepare,
            S::Version,
            NEXT,
        )
        .setting(NEXT),
        around(
            E::ModifyLastDownloadTimestamp,
            "modify_last_download_timestamp",
            P::Prepare,
            S::Version,
            LAST,
        )
        .setting(LAST),
        around(E::PrepareForDownload, "prepare_for_download", P::Prepare, S::Version, &[]),
        around(E::BeginDownload, "begin_download", P::Download, S::Both, TABLE),
        around(E::BeginDownloadDeletes, "begin_download_deletes", P::Download, S::Table, TABLE),
        around(E::BeginDownloadRows, "begin_download_rows", P::Download, S::Table, TABLE),
        fact(E::DownloadCursor, "download_cursor", P::Download, I::None, ModelOrUser),
        fact(E::DownloadDeleteCursor, "download_delete_cursor", P::Download, I::None, ModelOrUser),
        around(E::EndDownloadDeletes, "end_download_deletes", P::Download, S::Table, TABLE),
        around(E::EndDownloadRows, "end_download_rows", P::Download, S::Table, TABLE),
        around(
            E::ModifyNextLastDownloadTimestamp,
            "modify_next_last_download_timestamp",
            P::Download,
            S::Version,
            NEXT,
        )
        .setting(NEXT),
        around(E::EndDownload, "end_download", P::Download, S::Both, TABLE),
        around(E::DownloadStatistics, "download_statistics", P::Download, S::Both, DOWNLOADED),
        around(E::EndPublication, "end_publication", P::End, S::Version, END_PUBLICATION),
        around(E::EndSynchronization, "end_synchronization", P::End, S::Both, END),
        around(E::SynchronizationStatistics, "synchronization_statistics", P::End, S::Both,
            COUNTED),
        around(E::TimeStatistics, "time_statistics", P::End, S::Both, TIMED),
        around(E::HandleError, "handle_error", P::Error, S::Version, ERROR)
            .setting(&[T::ActionCode]),
        around(E::ModifyErrorMessage, "modify_error_message", P::Error, S::Version, ERROR)
            .setting(&[T::ErrorMessage]),
        around(E::ReportError, "report_error", P::Error, S::Version, ERROR),
    ]
};

/// An event of a table whose scripts run for its rows, or return some.
const fn fact(event: Event, name: &'static str, phase: Phase, images: Images, by: By) -> EventFact {
    EventFact { event, name, phase, scope: Scope::Table, images, by, told: &[], out: &[] }
}

/// An event around rows, whose script runs once. Users write it.
const fn around(
    event: Event,
    name: &'static str,
    phase: Phase,
    scope: Scope,
    told: &'static [Told],
) -> EventFact {
    EventFact { event, name, phase, scope, images: Images::None, by: By::User, told, out: &[] }
}

impl EventFact {
    /// The same where its script may set these.
    const fn setting(self, out: &'static [Told]) -> EventFact {
        EventFact { out, ..self }
    }
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
        "passwords are not sent as hashes: write authenticate_user, which has {s.password}",
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

    /// Whether its script runs for uploaded rows.
    pub(crate) fn is_upload(self) -> bool {
        self.fact().phase == Phase::Upload && !self.is_around()
    }

    /// Whether its script runs around rows: once, and for none of them.
    pub(crate) fn is_around(self) -> bool {
        self.fact().images == Images::None && !self.is_query()
    }

    /// Whether its script makes a synchronization one that has a connection for itself.
    pub(crate) fn makes_session(self) -> bool {
        self.fact().phase == Phase::Connection
    }

    /// Whether its script makes what the other scripts find on a connection.
    pub(crate) fn begins_connection(self) -> bool {
        matches!(self, Event::BeginConnectionAutocommit | Event::BeginConnection)
    }

    /// Whether a table can have a script of it.
    pub fn is_of_table(self) -> bool {
        self.fact().scope != Scope::Version
    }

    /// Whether a whole script version can have one.
    pub fn is_of_version(self) -> bool {
        self.fact().scope != Scope::Table
    }

    /// The event of this name.
    pub fn from_name(name: &str) -> Option<Event> {
        EVENTS.iter().find(|fact| fact.name == name).map(|fact| fact.event)
    }

    /// The events of a whole script version.
    pub(crate) fn of_versions() -> impl Iterator<Item = Event> {
        Event::all().filter(|event| event.is_of_version())
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
            let phase = fact.phase.transaction();
            let by = match fact.by {
                By::Model => "the model",
                By::ModelOrUser => "the model, or you",
                By::User => "you",
            };
            let scope = match fact.scope {
                Scope::Table => "a table",
                Scope::Version => "the version",
                Scope::Both => "both",
            };
            format!("| `{}` | {phase} | {scope} | {images} | {by} |", fact.name)
        });
        let spelled: Vec<String> = spelled.collect();
        assert_eq!(lines.len(), spelled.len());
        for (line, spelled) in lines.iter().zip(&spelled) {
            assert!(line.starts_with(spelled.as_str()), "{line}\n{spelled}");
        }
    }
}
