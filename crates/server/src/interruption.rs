//! Whether, and why, another session ends a synchronization.
//!
//! This is a later synchronization of the same remote, or another user who needs its place. A
//! synchronization for which the database works always finishes: the work would be done anyway, and
//! its outcome would have to be asked for again.

use model::Failure;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What others know of a synchronization.
#[derive(Debug)]
pub(crate) struct Interruption {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
enum State {
    /// It waits for its remote, or for a place at the database.
    Transfer,
    AtDatabase,
    /// It was ended. The reason is removed when it is returned.
    Ended(Option<Failure>),
}

impl Interruption {
    /// Of a synchronization that has just come.
    pub(crate) fn new() -> Interruption {
        Interruption { state: Mutex::new(State::Transfer), changed: Notify::new() }
    }

    /// Ends it, unless the database works for it. Of several reasons the first one holds.
    pub(crate) fn end(&self, why: impl FnOnce() -> Failure) -> bool {
        let mut state = self.state();
        match *state {
            State::AtDatabase => return false,
            State::Ended(_) => return true,
            State::Transfer => *state = State::Ended(Some(why())),
        }
        drop(state);
        self.changed.notify_one();
        true
    }

    /// The database begins to work for it. False if it was ended before.
    pub(crate) fn begin_work(&self) -> bool {
        let mut state = self.state();
        let ended = matches!(*state, State::Ended(_));
        if !ended {
            *state = State::AtDatabase;
        }
        !ended
    }

    /// The database has done its work for it.
    pub(crate) fn end_work(&self) {
        let mut state = self.state();
        if matches!(*state, State::AtDatabase) {
            *state = State::Transfer;
        }
    }

    pub(crate) fn is_at_database(&self) -> bool {
        matches!(*self.state(), State::AtDatabase)
    }

    /// Returns when it was ended, with the reason.
    pub(crate) async fn ended(&self) -> Failure {
        loop {
            let reason = match &mut *self.state() {
                State::Ended(why) => why.take(),
                State::Transfer | State::AtDatabase => None,
            };
            match reason {
                Some(failure) => return failure,
                None => self.changed.notified().await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Code;

    fn superseded() -> Failure {
        Failure::new(Code::Superseded, "")
    }

    // S8
    #[tokio::test]
    async fn what_the_database_works_for_is_not_ended_and_what_was_ended_does_not_go_there() {
        let interruption = Interruption::new();
        assert!(interruption.begin_work());
        assert!(!interruption.end(superseded) && interruption.is_at_database());
        interruption.end_work();
        assert!(interruption.end(superseded));
        assert!(interruption.end(|| Failure::new(Code::PlaceYielded, "")), "it has ended already");
        assert!(!interruption.begin_work());
        interruption.end_work();
        assert_eq!(interruption.ended().await.code(), Code::Superseded, "the first reason");
    }
}
