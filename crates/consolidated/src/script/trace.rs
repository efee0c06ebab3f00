//! Tells the log which scripts run.
//!
//! Each event is told with its transaction, table, rows and time, at debug, or at info where it is
//! to be shown. What the scripts say and what they are given is not told.

use super::event::{Event, Phase};
use crate::serving::clock;
use crate::synchronization::Session;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether it is to be shown. The log is one for the whole process.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// From now on the log shows, at info, which scripts run.
pub fn trace_events() {
    IS_SHOWN.store(true, Ordering::Relaxed);
}

fn is_shown() -> bool {
    IS_SHOWN.load(Ordering::Relaxed)
}

/// One line, at the level at which it is to be.
macro_rules! line {
    ($($fields:tt)*) => {
        match is_shown() {
            true => tracing::info!(target: "syncline::events", $($fields)*),
            false => tracing::debug!(target: "syncline::events", $($fields)*),
        }
    };
}

/// Whether anybody wants to know.
pub(crate) fn is_on() -> bool {
    is_shown() || tracing::enabled!(target: "syncline::events", tracing::Level::DEBUG)
}

/// When something began, where somebody wants to know: the log, or scripts at the end.
pub(crate) fn begin(session: &Session) -> Option<Instant> {
    let is_timed = session.counted.as_ref().is_some_and(|counted| counted.times_scripts());
    (is_on() || is_timed).then(clock::now)
}

/// A script of an event has run, for so many rows where it is for rows.
pub(crate) fn ran(
    session: &Session,
    event: Event,
    table: Option<&str>,
    rows: Option<u64>,
    began: Option<Instant>,
) {
    let took = began.map(|began| clock::now() - began);
    if let (Some(counted), Some(took)) = (&session.counted, took) {
        counted.ran(event, table, took);
    }
    if !is_on() {
        return;
    }
    let (remote, version) = (session.remote_id.as_str(), session.script_version.as_str());
    let (transaction, event) = (event.fact().phase.transaction(), event.name());
    let us = took.map(|took| took.as_micros() as u64);
    line!(remote, version, transaction, event, table, rows, us, "script");
}

/// A transaction has ended.
pub(crate) fn ended(session: &Session, phase: Phase, committed: bool) {
    if !is_on() {
        return;
    }
    let (remote, version) = (session.remote_id.as_str(), session.script_version.as_str());
    let (transaction, end) = (phase.transaction(), if committed { "commit" } else { "rollback" });
    line!(remote, version, transaction, end, "transaction");
}
