//! The scripts at the end of a synchronization, which run whatever becomes of it.

use super::exchange::Exchange;
use super::surroundings::Shared;
use crate::phases::Phase;
use crate::worker::{Heard, hear};
use consolidated::Session;
use model::Failure;
use std::sync::Arc;

/// That the scripts at the end are still to run. Where it is dropped, the synchronization has
/// failed, or its remote is gone, and they run with that.
pub(super) struct Ending<'a> {
    shared: &'a Shared,
    session: Option<Arc<Session>>,
    /// Where they run by themselves, behind the rest.
    awaited: Option<Heard<()>>,
}

impl<'a> Ending<'a> {
    /// Of a session whose upload has been applied.
    pub(super) fn of(exchange: &Exchange<'a>, awaited: Option<Heard<()>>) -> Ending<'a> {
        let is_ours = exchange.session.ends && awaited.is_none();
        let session = is_ours.then(|| exchange.session.clone());
        Ending { shared: exchange.shared, session, awaited }
    }

    /// Scripts have set more for those at the end.
    pub(super) fn knows(&mut self, session: &Arc<Session>) {
        if let Some(known) = &mut self.session {
            known.clone_from(session);
        }
    }

    /// Runs them, now that all is done at the database.
    pub(super) async fn run(
        mut self,
        exchange: &mut Exchange<'a>,
        phase: Phase,
    ) -> Result<(), Failure> {
        if let Some(awaited) = self.awaited.take() {
            return exchange.at_database(phase, hear(awaited)).await;
        }
        let Some(session) = self.session.clone() else { return Ok(()) };
        let shared = self.shared;
        // It is asked when it has its turn, and from then on they run.
        let asked = async {
            self.session = None;
            shared.worker.end(session).await
        };
        exchange.at_database(phase, asked).await
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.shared.worker.end_failed(session);
        }
    }
}
