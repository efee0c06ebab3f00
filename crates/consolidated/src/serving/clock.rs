//! The time of the operating system. Only this file of the crate reads it (A6).

use std::time::Instant;

/// This moment, by a clock that never steps backwards.
#[allow(clippy::disallowed_methods, reason = "this is the file that reads time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
