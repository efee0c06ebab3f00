//! What PostgreSQL's errors mean for whoever has to act.

use model::{Code, Failure};
use std::fmt;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// When to come back after somebody else's lock or a restart of the database, in seconds.
const RETRY_AFTER_S: u32 = 2;

/// Why a flight of statements ended early.
#[derive(Debug)]
pub(super) struct Fault {
    /// Position of the call that failed.
    pub(super) call: usize,
    pub(super) kind: FaultKind,
}

#[derive(Debug)]
pub(super) enum FaultKind {
    /// The database refused, or its connection was lost.
    Database(Error),
    /// There was no connection to use.
    Disconnected,
    /// Whoever took the rows failed, or the connection could not be made.
    Failure(Failure),
}

impl Fault {
    /// The database's own words, where it answered.
    pub(super) fn db(&self) -> Option<&DbError> {
        match &self.kind {
            FaultKind::Database(error) => error.as_db_error(),
            FaultKind::Disconnected | FaultKind::Failure(_) => None,
        }
    }

    /// The kind of error, where the database answered.
    pub(super) fn sqlstate(&self) -> Option<&SqlState> {
        self.db().map(DbError::code)
    }

    /// Whether the connection is gone, and the transaction with it.
    pub(super) fn is_lost(&self) -> bool {
        match &self.kind {
            FaultKind::Database(error) => is_lost(error),
            FaultKind::Disconnected => true,
            FaultKind::Failure(_) => false,
        }
    }

    /// The failure of everything: what was being done, with the code that fits.
    pub(super) fn failure(self, doing: impl fmt::Display) -> Failure {
        match self.kind {
            FaultKind::Database(error) => of_error(error, format!("cannot {doing}")),
            FaultKind::Disconnected => lost(format!("cannot {doing}")),
            FaultKind::Failure(failure) => failure,
        }
    }
}

/// For `map_err`: what was being done, with the code that fits.
pub(super) fn failed(doing: &str) -> impl Fn(Fault) -> Failure + '_ {
    move |fault| fault.failure(doing)
}

/// The failure of a script as a whole.
pub(super) fn script_failed<'a>(table: &'a str, event: &'a str) -> impl Fn(Fault) -> Failure + 'a {
    move |fault| fault.failure(format_args!("run {event} of table {table}")).table(table)
}

/// `error` with the code that fits and the database's words as its cause.
pub(super) fn of_error(error: Error, message: String) -> Failure {
    let Some(said) = error.as_db_error() else {
        if is_lost(&error) {
            return lost(message).source(error);
        }
        return Failure::new(Code::ScriptFailed, message).source(error);
    };
    // A table changed under a prepared statement, which is prepared anew the next time.
    let stale = said.routine() == Some("RevalidateCachedQuery");
    let code = if stale { Code::DatabaseBusy } else { code(said.code()) };
    let failure = Failure::new(code, message).source(Said::new(said));
    match code {
        Code::DatabaseBusy => failure.retry_after_s(RETRY_AFTER_S),
        Code::DatabaseUnavailable => match hint(said.code()) {
            Some(hint) => failure.hint(hint),
            None => failure.retry_after_s(RETRY_AFTER_S),
        },
        _ => failure,
    }
}

fn lost(message: String) -> Failure {
    Failure::new(Code::DatabaseUnavailable, message)
        .hint("check that the PostgreSQL server runs and can be reached")
        .retry_after_s(RETRY_AFTER_S)
}

/// The code of an error outside a row.
pub(super) fn code(state: &SqlState) -> Code {
    match state.code() {
        // Locks, deadlocks, serialization, statements that were cancelled.
        "55P03" | "40001" | "40P01" | "57014" | "55006" => Code::DatabaseBusy,
        "53100" | "58030" => Code::DatabaseDiskFull,
        "42501" => Code::DatabaseRights,
        // Read only: a standby, or a primary that became one.
        "25006" => Code::NotPrimary,
        "3D000" | "25P03" | "57P05" => Code::DatabaseUnavailable,
        text => match &text[..2] {
            "08" | "53" | "57" | "28" => Code::DatabaseUnavailable,
            "XX" => Code::NotADatabase,
            _ => Code::ScriptFailed,
        },
    }
}

fn hint(state: &SqlState) -> Option<&'static str> {
    match state.code() {
        "28P01" | "28000" => {
            Some("check the user and the password of the database, and its pg_hba.conf")
        }
        "3D000" => Some("check the name of the database"),
        "53300" => Some("raise `max_connections` of PostgreSQL, or lower `workers`"),
        _ => None,
    }
}

fn is_lost(error: &Error) -> bool {
    if let Some(state) = error.code() {
        // 57P0x: shutdown, crash, still starting; 25P03, 57P05: ended for being idle.
        let state = state.code();
        return state.starts_with("08") || state.starts_with("57P") || state == "25P03";
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    error.is_closed()
}

/// The database's words, without the detail, which may quote rows that the reader must not see.
#[derive(Debug)]
struct Said(String);

impl Said {
    fn new(said: &DbError) -> Said {
        let mut text = format!("{} ({})", said.message(), said.code().code());
        if let Some(place) = said.where_().and_then(|place| place.lines().next()) {
            text.push_str(&format!(", {place}"));
        }
        Said(text)
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Said {}

#[cfg(test)]
mod tests {
    use super::*;

    // S11
    #[test]
    fn every_state_says_who_must_act() {
        for (state, expected) in [
            ("57P01", Code::DatabaseUnavailable),
            ("08006", Code::DatabaseUnavailable),
            ("53300", Code::DatabaseUnavailable),
            ("53100", Code::DatabaseDiskFull),
            ("55P03", Code::DatabaseBusy),
            ("40P01", Code::DatabaseBusy),
            ("42501", Code::DatabaseRights),
            ("25006", Code::NotPrimary),
            ("42703", Code::ScriptFailed),
        ] {
            assert_eq!(code(&SqlState::from_code(state)), expected, "{state}");
        }
    }
}
