//! Recognizes a session that a connection pooler shares between several clients.
//!
//! A pooler that assigns sessions per transaction or per statement gives each transaction any free
//! session: without the settings of this connection, with those of another client, and with
//! statements of the same names that another client prepared. So every session gets a random mark
//! when it is set up, and each flight outside a transaction reads the mark.

use crate::postgres::errors::{Fault, FaultKind};
use crate::random;
use model::{Code, Failure};
use postgres_driver::RowRef;
use std::io::ErrorKind;

/// Reads the mark back. Not a `SELECT`: that would take the snapshot of a transaction that has yet
/// to lock its tables.
pub(in crate::postgres) const READ: &str = "SHOW syncline.session";

/// A new mark, in hexadecimal digits.
pub(in crate::postgres) fn draw() -> Result<String, Failure> {
    Ok(format!("{:016x}", random::number()?))
}

/// Marks the session. One that has a mark already is lent to another client, or was handed on
/// without a reset: both of us see that.
pub(in crate::postgres) fn set(mark: &str) -> String {
    format!(
        "SELECT set_config('syncline.session', CASE \
         WHEN coalesce(current_setting('syncline.session', true), '') = '' \
         THEN '{mark}' ELSE 'shared' END, false);"
    )
}

/// Whether the row that [`READ`] returned holds our own mark.
pub(in crate::postgres) fn compare(row: RowRef<'_>, mark: &str) -> Result<(), Failure> {
    match row.try_get::<&str>(0) {
        Ok(found) if found == mark => Ok(()),
        _ => Err(shared()),
    }
}

/// What became of a flight, given where [`READ`] was in it: a session that knows neither the mark
/// nor the statement is not the one that was set up.
pub(in crate::postgres) fn judge(fault: Fault, at: usize) -> Fault {
    match fault.sqlstate() {
        Some("42704" | "26000") if fault.call == at => {
            Fault { call: at, kind: FaultKind::Failure(shared()) }
        }
        _ => fault,
    }
}

/// The same of a session that is being set up. There, answers out of turn are those of several
/// sessions, which a pooler mixes up.
pub(in crate::postgres) fn judge_first(fault: Fault, at: usize) -> Fault {
    match &fault.kind {
        FaultKind::Broken(error) if error.kind() == ErrorKind::InvalidData => {
            Fault { kind: FaultKind::Failure(shared()), ..fault }
        }
        _ => judge(fault, at),
    }
}

fn shared() -> Failure {
    let message = "the session of PostgreSQL is not the one that was set up: a pooler shares it \
                   with other clients";
    Failure::new(Code::PoolerShares, message)
}
