//! Where a history happens: a center, its server, a network, remotes, and their disks.

pub(crate) mod application;
pub(crate) mod arrived;
mod clock;
mod line;
mod loopback;

pub use loopback::Loopback;

use crate::history::Step;
use client::Report;
use model::Failure;
use rusqlite::Connection;
use std::rc::Rc;

/// A place for a history. Everything in it follows from the steps.
pub trait World {
    /// Does one step, which is never the pause at the end of a round. When it returns, nothing
    /// moves any more.
    fn apply(&mut self, step: &Step) -> Outcome;

    /// Ends all troubles that have not come yet: disks that would fail, connections that a dead
    /// remote has left.
    fn calm(&mut self);

    /// The remotes that there are, copies with them.
    fn remotes(&self) -> usize;

    /// The center, for another program that reads it.
    fn center(&self) -> Rc<Connection>;

    /// A remote, for another program that reads it.
    fn remote(&self, number: usize) -> Rc<Connection>;

    /// A number that changes with the files of a remote, or of the center; none where that is not
    /// known.
    fn version(&self, _remote: Option<usize>) -> Option<u64> {
        None
    }

    /// Whether steps of this kind can happen here.
    fn knows(&self, kind: &str) -> bool;

    /// How often what no step says has happened by chance.
    fn met(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What came of a step.
#[derive(Debug)]
pub enum Outcome {
    /// It makes no sense now.
    Nothing,
    /// A database or a deployment has refused it, and nothing has changed.
    Refused(String),
    /// It has happened.
    Done,
    /// A synchronization has succeeded.
    Synchronized(Box<Report>),
    /// A synchronization has failed.
    Failed(Failure),
    /// The remote has died in it.
    Died,
    /// A synchronization stands still.
    Stalled,
}

impl Outcome {
    /// Whether anything has happened.
    pub fn is_something(&self) -> bool {
        !matches!(self, Outcome::Nothing | Outcome::Refused(_))
    }
}
