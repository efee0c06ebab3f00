//! Why an upload cannot go on.

use crate::postgres::errors::{Fault, failed};
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::RowId;
use model::Failure;

/// Why a transaction cannot go on.
#[derive(Debug)]
pub(in crate::postgres) enum Stop {
    /// It met another one; done again it may succeed.
    Collision(Failure),
    /// Scripts that only read failed for these rows: without them the upload can be applied.
    Refused(Vec<(RowId, Reason)>, Failure),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl Stop {
    pub(in crate::postgres) fn into_failure(self) -> Failure {
        match self {
            Stop::Collision(failure) | Stop::Refused(_, failure) | Stop::Failed(failure) => failure,
        }
    }
}

/// For `map_err`: what was being done.
pub(in crate::postgres) fn stopped(doing: &str) -> impl Fn(Fault) -> Stop + '_ {
    move |fault| {
        let state = fault.sqlstate().map(str::to_owned);
        let failure = failed(doing)(fault);
        match state.as_deref() {
            Some("40001" | "40P01") => Stop::Collision(failure),
            _ => Stop::Failed(failure),
        }
    }
}
