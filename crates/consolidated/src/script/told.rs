//! What an event tells its script, beside rows and who synchronizes.

use crate::download::time::{Time, Times};
use std::fmt;

/// A value of an event, which a script names as `{s.…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// What becomes of an error: 1000, 3000 or 4000.
    ActionCode,
    /// The number of the database for it, if it has numbers.
    ErrorCode,
    /// SQLSTATE.
    SqlState,
    ErrorMessage,
    /// The table of the row, or of the script.
    Table,
    PublicationName,
    /// Counts how often everything was to be downloaded again.
    GenerationNumber,
    /// 1 where the synchronization has done its work at the database, otherwise 0.
    SynchronizationOk,
    Warnings,
    Errors,
    /// Rows of a download.
    FetchedRows,
    /// Keys of rows to delete; of an upload, rows that were deleted.
    DeletedRows,
    /// Rows that need not be sent.
    FilteredRows,
    Bytes,
    /// Rows of an upload that were applied.
    InsertedRows,
    UpdatedRows,
    /// Rows of an upload with a conflict.
    ConflictedInserts,
    ConflictedDeletes,
    ConflictedUpdates,
    /// Rows of an upload that met a script which ignores them.
    IgnoredInserts,
    IgnoredDeletes,
    IgnoredUpdates,
    /// How often other transactions were in the way.
    Deadlocks,
    SynchronizedTables,
    ConnectionRetries,
    /// Of which event scripts have run.
    EventName,
    NumberOfCalls,
    /// In milliseconds.
    MinimumTime,
    MaximumTime,
    TotalTime,
    /// Whether a user may synchronize, from 1000 to 5999.
    AuthenticationStatus,
    /// What the user is told of that.
    AuthenticationMessage,
    Password,
    /// The password from now on.
    NewPassword,
    /// The user, where the script may say another name.
    Username,
    /// Since when the remote lacks what was stamped in any table.
    LastDownload,
    /// The same after the download.
    NextLastDownload,
}

/// All of them.
const ALL: [Told; 37] = [
    Told::ActionCode,
    Told::ErrorCode,
    Told::SqlState,
    Told::ErrorMessage,
    Told::Table,
    Told::PublicationName,
    Told::GenerationNumber,
    Told::SynchronizationOk,
    Told::Warnings,
    Told::Errors,
    Told::FetchedRows,
    Told::DeletedRows,
    Told::FilteredRows,
    Told::Bytes,
    Told::InsertedRows,
    Told::UpdatedRows,
    Told::ConflictedInserts,
    Told::ConflictedDeletes,
    Told::ConflictedUpdates,
    Told::IgnoredInserts,
    Told::IgnoredDeletes,
    Told::IgnoredUpdates,
    Told::Deadlocks,
    Told::SynchronizedTables,
    Told::ConnectionRetries,
    Told::EventName,
    Told::NumberOfCalls,
    Told::MinimumTime,
    Told::MaximumTime,
    Told::TotalTime,
    Told::AuthenticationStatus,
    Told::AuthenticationMessage,
    Told::Password,
    Told::NewPassword,
    Told::Username,
    Told::LastDownload,
    Told::NextLastDownload,
];

impl Told {
    /// The field's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Told::ActionCode => "action_code",
            Told::ErrorCode => "error_code",
            Told::SqlState => "sqlstate",
            Told::ErrorMessage => "error_message",
            Told::Table => "table",
            Told::PublicationName => "publication_name",
            Told::GenerationNumber => "generation_number",
            Told::SynchronizationOk => "synchronization_ok",
            Told::Warnings => "warnings",
            Told::Errors => "errors",
            Told::FetchedRows => "fetched_rows",
            Told::DeletedRows => "deleted_rows",
            Told::FilteredRows => "filtered_rows",
            Told::Bytes => "bytes",
            Told::InsertedRows => "inserted_rows",
            Told::UpdatedRows => "updated_rows",
            Told::ConflictedInserts => "conflicted_inserts",
            Told::ConflictedDeletes => "conflicted_deletes",
            Told::ConflictedUpdates => "conflicted_updates",
            Told::IgnoredInserts => "ignored_inserts",
            Told::IgnoredDeletes => "ignored_deletes",
            Told::IgnoredUpdates => "ignored_updates",
            Told::Deadlocks => "deadlocks",
            Told::SynchronizedTables => "synchronized_tables",
            Told::ConnectionRetries => "connection_retries",
            Told::EventName => "event_name",
            Told::NumberOfCalls => "number_of_calls",
            Told::MinimumTime => "minimum_time",
            Told::MaximumTime => "maximum_time",
            Told::TotalTime => "total_time",
            Told::AuthenticationStatus => "authentication_status",
            Told::AuthenticationMessage => "authentication_message",
            Told::Password => "password",
            Told::NewPassword => "new_password",
            Told::Username => "username",
            Told::LastDownload => "last_download",
            Told::NextLastDownload => "next_last_download",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Told> {
        ALL.into_iter().find(|told| told.name() == name)
    }

    /// Whether it is a moment at the center.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Told::LastDownload | Told::NextLastDownload)
    }

    /// Whether it is a whole number. What is neither this nor a moment is text.
    pub(crate) fn is_number(self) -> bool {
        !self.is_time()
            && !matches!(
                self,
                Told::SqlState
                    | Told::ErrorMessage
                    | Told::Table
                    | Told::PublicationName
                    | Told::EventName
                    | Told::AuthenticationMessage
                    | Told::Password
                    | Told::NewPassword
                    | Told::Username
            )
    }
}

/// The values of one event. Some are passwords.
#[derive(Clone, Default)]
pub(crate) struct ToldValues {
    values: Vec<(Told, Option<String>)>,
    /// Since when the remote lacks what was stamped.
    pub(crate) times: Times,
    /// The same after the download; none where that is not known.
    next: Option<Time>,
}

impl ToldValues {
    pub(crate) fn with(mut self, told: Told, value: Option<String>) -> ToldValues {
        self.values.push((told, value));
        self
    }

    /// The same with times.
    pub(crate) fn at(self, times: Times) -> ToldValues {
        ToldValues { times, ..self }
    }

    /// The same with the time that is handed out.
    pub(crate) fn handing_out(self, next: Option<Time>) -> ToldValues {
        ToldValues { next, ..self }
    }

    /// A moment, in microseconds since 1970.
    pub(crate) fn time(&self, told: Told) -> Option<Time> {
        match told {
            Told::LastDownload => Some(self.times.oldest),
            _ => self.next,
        }
    }

    pub(crate) fn get(&self, told: Told) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == told)?.1.as_deref()
    }
}

impl fmt::Debug for ToldValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.iter().map(|(told, _)| told)).finish()
    }
}
