//! What differs for a table whose cursors a user wrote.
//!
//! Invariants:
//! OC1. A row of such a table reaches a remote through its own cursor only, also if the remote is
//!     owed the row. The cursor may hide rows and columns.
//! OC2. With other values of what the cursors name, or other cursors, the remote receives the table
//!     as a new one would: everything that the cursor returns from the beginning.

use crate::digest;
use crate::script::{CURSORS, Event, Parameter, Script};
use crate::synchronization::Session;
use std::collections::BTreeMap;

/// The scripts of a table.
type Scripts = BTreeMap<Event, Script>;

/// Where a cursor comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Generated,
    Own,
    /// Of the user, who says that nothing is to be done.
    Ignored,
    /// There is none.
    Missing,
}

/// Where the cursor of an event comes from.
pub(crate) fn origin(scripts: &Scripts, event: Event) -> Origin {
    match scripts.get(&event) {
        None => Origin::Missing,
        Some(script) if script.is_ignored() => Origin::Ignored,
        Some(script) if script.is_own() => Origin::Own,
        Some(_) => Origin::Generated,
    }
}

/// The cursors that a user wrote.
fn cursors(scripts: &Scripts) -> impl Iterator<Item = &Script> {
    CURSORS.iter().filter_map(|event| scripts.get(event)).filter(|script| script.is_own())
}

/// Whether a cursor asks since when the remote lacks what was stamped.
pub(crate) fn ask_for_times(scripts: &Scripts) -> bool {
    cursors(scripts).flat_map(|script| &script.parameters).any(Parameter::is_time)
}

/// A digest of the own cursors, and of the values that they have for this remote, unless they
/// follow from its last download; none without own cursors (OC2).
pub(crate) fn claims(scripts: &Scripts, session: &Session) -> Option<u128> {
    cursors(scripts).next()?;
    let mut parts = Vec::new();
    for script in cursors(scripts) {
        parts.push(script.sql.clone());
        for parameter in script.parameters.iter().filter(|it| !it.is_of_download()) {
            let parameter = &parameter.as_claim();
            // A value that is missing is not the same as an empty one.
            parts.push(format!("{parameter:?} {:?}", session.value_of(parameter)));
        }
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    digest::from_hex(&digest::digest(&parts))
}
