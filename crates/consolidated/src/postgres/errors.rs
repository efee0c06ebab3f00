//! The meaning of PostgreSQL's errors, with the one who must act.

use crate::postgres::link::Unreadable;
use model::{Code, Failure, MESSAGE_BYTES_MAX, cut};
use postgres_driver::{Error, Ground, Objection, Refusal};
use std::{fmt, io};

/// When to try again after a lock of another session or a restart of the database, in seconds.
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
    /// The database refused, and said why.
    Refused(Box<Refusal>),
    /// The connection was lost, or its bytes are not the protocol.
    Broken(io::Error),
    /// There was no connection to use.
    Disconnected,
    /// The receiver of the rows failed, or a statement could not be sent.
    Failure(Failure),
}

impl From<Error> for FaultKind {
    fn from(error: Error) -> FaultKind {
        match error {
            Error::Refused(refusal) => FaultKind::Refused(refusal),
            Error::Broken(error) => FaultKind::Broken(error),
            Error::Objected(objection) => FaultKind::Failure(objected(*objection)),
            // Answers were left unread. `link/line.rs` has the failure that stopped them.
            Error::Stopped => FaultKind::Disconnected,
        }
    }
}

impl From<postgres_driver::Fault> for Fault {
    fn from(fault: postgres_driver::Fault) -> Fault {
        Fault { call: fault.call, kind: fault.error.into() }
    }
}

impl Fault {
    /// The database's own words, where it answered.
    pub(super) fn db(&self) -> Option<&Refusal> {
        match &self.kind {
            FaultKind::Refused(refusal) => Some(refusal),
            FaultKind::Broken(_) | FaultKind::Disconnected | FaultKind::Failure(_) => None,
        }
    }

    /// The kind of error, where the database answered.
    pub(super) fn sqlstate(&self) -> Option<&str> {
        self.db().map(Refusal::state)
    }

    /// Whether the connection is gone, and the transaction with it.
    pub(super) fn is_lost(&self) -> bool {
        match &self.kind {
            FaultKind::Refused(refusal) => refusal.is_fatal(),
            FaultKind::Broken(_) | FaultKind::Disconnected => true,
            FaultKind::Failure(_) => false,
        }
    }

    /// The failure of everything: what was being done, with the code that fits.
    pub(super) fn failure(self, doing: impl fmt::Display) -> Failure {
        self.kind.failure(format!("cannot {doing}"))
    }
}

impl FaultKind {
    /// The failure with this message, with the code that fits.
    pub(super) fn failure(self, message: String) -> Failure {
        match self {
            FaultKind::Refused(refusal) => refused(&refusal, message),
            FaultKind::Broken(error) => lost(message).source(error),
            FaultKind::Disconnected => lost(message),
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

/// What the driver would not do, with the code that fits.
fn objected(objection: Objection) -> Failure {
    let code = match objection.ground() {
        Ground::PasswordMissing => Code::DatabaseUnavailable,
        Ground::PasswordExposed => Code::PasswordExposed,
        Ground::ProofRefused => Code::ProofRefused,
        Ground::KeyExposed => Code::SecretExposed,
        Ground::FileUnusable => Code::ConfigUnreadable,
        Ground::Copy => {
            return Failure::new(Code::ScriptFailed, "COPY cannot be used in a script")
                .hint("use INSERT or SELECT");
        }
        Ground::Unsendable => Code::ScriptFailed,
        Ground::Misuse => Code::Bug,
    };
    let failure = Failure::new(code, objection.to_string());
    let failure = match (objection.ground(), objection.hint()) {
        (Ground::PasswordMissing, _) => {
            failure.hint("name it in the URL, PGPASSWORD or the password file")
        }
        (_, Some(hint)) => failure.hint(hint),
        (_, None) => failure,
    };
    match objection.into_source() {
        Some(cause) => failure.source(cause),
        None => failure,
    }
}

/// With the code that fits, and the database's words as its cause.
fn refused(refusal: &Refusal, message: String) -> Failure {
    // For the log at the center only: all three quote rows and columns that no remote may see.
    let more = [refusal.detail(), refusal.place(), refusal.statement()];
    if more.iter().any(Option::is_some) {
        let [detail, place, statement] =
            more.map(|text| cut(text.unwrap_or_default(), MESSAGE_BYTES_MAX));
        let said = cut(refusal.message(), MESSAGE_BYTES_MAX);
        tracing::warn!(state = refusal.state(), %said, %detail, %place, %statement, "{message}");
    }
    // A table changed under a prepared statement, which is prepared again the next time.
    let stale = refusal.routine() == Some("RevalidateCachedQuery");
    let code = match stale {
        true => Code::DatabaseBusy,
        false if is_by_statement(refusal) => Code::PoolerShares,
        false => code(refusal.state()),
    };
    let failure = Failure::new(code, message).source(Said::new(refusal));
    match code {
        Code::DatabaseBusy => failure.retry_after_s(RETRY_AFTER_S),
        Code::DatabaseUnavailable if refusal.message().contains("startup parameter") => {
            failure.hint(STARTUP_PARAMETER)
        }
        Code::DatabaseUnavailable => match hint(refusal.state()) {
            Some(hint) => failure.hint(hint),
            None => failure.retry_after_s(RETRY_AFTER_S),
        },
        _ => match hint(refusal.state()) {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
    }
}

/// A pooler that assigns sessions per statement reports this when a transaction begins.
fn is_by_statement(refusal: &Refusal) -> bool {
    refusal.state() == "08P01" && refusal.message().contains("statement pooling")
}

fn lost(message: String) -> Failure {
    Failure::new(Code::DatabaseUnavailable, message)
        .hint("check that the PostgreSQL server runs and can be reached")
        .retry_after_s(RETRY_AFTER_S)
}

/// The code of an error outside a row.
pub(super) fn code(state: &str) -> Code {
    match state {
        // Locks, deadlocks, serialization, statements that were canceled.
        "55P03" | "40001" | "40P01" | "57014" | "55006" => Code::DatabaseBusy,
        "53100" | "58030" => Code::DatabaseDiskFull,
        "42501" => Code::DatabaseRights,
        // Read only: a standby, or a primary that became one.
        "25006" => Code::NotPrimary,
        "3D000" | "25P03" | "57P05" => Code::DatabaseUnavailable,
        _ => match state.get(..2) {
            Some("08" | "53" | "57" | "28") => Code::DatabaseUnavailable,
            Some("XX") => Code::NotADatabase,
            _ => Code::ScriptFailed,
        },
    }
}

/// What most likely became of a table or a column that is not there.
const RENAMED: &str = "a table or a column was renamed or dropped without a deployment: run \
                       `syncline check`, then `syncline deploy`";

/// Of a row it is the row's fault, so it is of something else.
const LACKING: &str = "the encoding of the database lacks a character of a name, a claim or a \
                       script: use another, or a database in UTF8";

/// A pooler knows few parameters of the beginning.
const STARTUP_PARAMETER: &str = "leave it out of the URL and give the setting to the role, with \
                                 `ALTER ROLE … SET`; a pooler may ignore it silently";

fn hint(state: &str) -> Option<&'static str> {
    match state {
        "28P01" | "28000" => {
            Some("check the user and the password of the database, and its pg_hba.conf")
        }
        "3D000" => Some("check the name of the database"),
        "22P05" => Some(LACKING),
        "42703" | "42P01" => Some(RENAMED),
        "53300" => Some("raise `max_connections` of PostgreSQL, or lower `workers`"),
        _ => None,
    }
}

/// What the place of an error begins with if it is a line of a function. Any other place quotes a
/// statement, and one that a function has put together quotes values of rows.
const FUNCTIONS: [&str; 2] = ["PL/pgSQL function ", "SQL function "];

/// The database's words, without those that may quote rows that the reader must not see.
#[derive(Debug)]
struct Said(String);

impl Said {
    fn new(refusal: &Refusal) -> Said {
        let mut text = format!("{} ({})", refusal.message(), refusal.state());
        let place = refusal.place().and_then(|place| place.lines().next());
        let is_function = |place: &&str| FUNCTIONS.iter().any(|begin| place.starts_with(begin));
        if let Some(place) = place.filter(is_function) {
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

/// For values of system tables.
pub(super) fn unreadable(error: Unreadable) -> Failure {
    Failure::new(Code::Drift, "a system table differs from the one that deploy created")
        .source(error)
}

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
            assert_eq!(code(state), expected, "{state}");
        }
    }
}
