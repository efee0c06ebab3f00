//! Notes which deployment's tables a remote holds.

use crate::synchronization::{Held, Session};
use postgres_types::ToSql;

/// Notes that a remote holds the tables of this deployment.
pub(in crate::postgres) const NOTE_HELD: &str =
    "UPDATE syncline.syncline_remote SET held_deployment = $2
WHERE remote_id = $1 AND held_deployment IS DISTINCT FROM $2";

/// What [`NOTE_HELD`] is given, where that is worth a statement.
pub(in crate::postgres) struct HeldNote<'a> {
    remote_id: &'a str,
    deployment: i64,
}

impl<'a> HeldNote<'a> {
    pub(in crate::postgres) fn of(session: &'a Session) -> Option<HeldNote<'a>> {
        let (remote_id, deployment) = (session.remote_id.as_str(), session.deployment);
        matches!(session.held, Held::Same { note: true })
            .then_some(HeldNote { remote_id, deployment })
    }

    pub(in crate::postgres) fn parameters(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.remote_id, &self.deployment]
    }
}
