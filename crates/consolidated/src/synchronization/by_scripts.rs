//! What the scripts of a synchronization have set for all that follows.

use crate::download::time::{NEVER, Time};
use std::collections::BTreeMap;

/// What the scripts of a synchronization have set. It travels with the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByScripts {
    /// Of `{u.…}`. It goes before claims, where scripts of the user's ask.
    pub user_values: BTreeMap<String, Option<String>>,
    /// Since when the remote lacks what was stamped, in microseconds since 1970; none where the
    /// remote knows better.
    pub(crate) last_download: Option<Time>,
    /// The time to hand out with the download; none where that is left to the database.
    pub(crate) next_last_download: Option<Time>,
}

impl ByScripts {
    /// Whether the remote is to be sent everything, as if it had nothing.
    pub(crate) fn starts_anew(&self) -> bool {
        self.last_download.is_some_and(|time| time <= NEVER)
    }
}
