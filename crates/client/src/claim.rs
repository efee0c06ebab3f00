//! The right to synchronize one remote, which one holder has at a time.

use crate::Remote;
use model::{Code, Failure, Spills};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The right to synchronize a [`Remote`]. It ends with the value.
///
/// [`Remote::claim`] gives it for a file: no other process has it then, and no other [`Remote`] of
/// this one (S8). Where files have no locks, as in a browser, the host finds another way and passes
/// what it holds: [`Claim::held`].
pub struct Claim {
    /// Every remote has its own, so they tell remotes apart.
    of: Arc<Spills>,
    _held: Option<Box<dyn Any + Send>>,
}

impl Claim {
    /// The right that `guard` stands for, and is dropped with.
    pub fn held(remote: &Remote, guard: impl Any + Send) -> Claim {
        Claim { of: remote.spills.clone(), _held: Some(Box::new(guard)) }
    }

    /// The right to a remote that nobody else can reach.
    pub(crate) fn alone(remote: &Remote) -> Claim {
        Claim { of: remote.spills.clone(), _held: None }
    }

    /// Refuses any other remote.
    pub(crate) fn require(&self, remote: &Remote) -> Result<(), Failure> {
        if Arc::ptr_eq(&self.of, &remote.spills) {
            return Ok(());
        }
        let message = "a conversation was continued with another remote than it was begun with";
        Err(Failure::new(Code::ConversationMisused, message))
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").finish_non_exhaustive()
    }
}
