//! Tells the log, at debug, which scripts run: each event with its transaction, table, rows and
//! time. What the scripts say and what they are given is not told.

use super::event::{Event, Phase};
use crate::synchronization::Session;
use std::time::Instant;

/// What these lines are logged under.
pub const TARGET: &str = "syncline::events";

/// Whether anybody wants to know.
pub(crate) fn is_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// When something began, where somebody wants to know.
pub(crate) fn begin() -> Option<Instant> {
    is_on().then(Instant::now)
}

/// A script of an event has run, for so many rows where it is for rows.
pub(crate) fn ran(
    session: &Session,
    event: Event,
    table: Option<&str>,
    rows: Option<u64>,
    began: Option<Instant>,
) {
    if !is_on() {
        return;
    }
    let (remote, version) = (session.remote_id.as_str(), session.script_version.as_str());
    let transaction = event.fact().phase.transaction();
    let us = began.map(|began| began.elapsed().as_micros() as u64);
    tracing::debug!(target: TARGET, remote, version, transaction, event = event.name(), table, rows, us);
}

/// A transaction has ended.
pub(crate) fn ended(session: &Session, phase: Phase, committed: bool) {
    let (remote, version) = (session.remote_id.as_str(), session.script_version.as_str());
    let (transaction, end) = (phase.transaction(), if committed { "commit" } else { "rollback" });
    tracing::debug!(target: TARGET, remote, version, transaction, end);
}
