//! One machine with a remote.

use super::habits::Habits;
use super::talk::Talk;
use super::time::{Virtual, block};
use crate::history::USERS;
use crate::vfs::{Disk, Image};
use crate::world::application;
use client::{Components, Remote, Settings};
use harness::Chance;
use model::{Random, UserName};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// Where a remote lies on its disk.
pub(super) const REMOTE: &str = "/remote.db";

/// A remote, and what has become of it.
pub(super) struct Site {
    pub(super) disk: Arc<Disk>,
    pub(super) user: usize,
    pub(super) clock: Arc<Virtual>,
    /// None while it synchronizes.
    pub(super) remote: Option<Remote>,
    pub(super) token: Option<String>,
    pub(super) stalled: Option<Box<Talk>>,
    /// The files as they were kept.
    pub(super) kept: Option<Image>,
    fills_hidden: bool,
    chance: Chance,
    /// For what does not fit in memory.
    folder: PathBuf,
}

impl Site {
    pub(super) fn new(
        folder: PathBuf,
        user: usize,
        (begun, habits): (Instant, Habits),
        mut chance: Chance,
    ) -> Site {
        let clock = Virtual::new(begun);
        Site {
            disk: disk(&clock, &mut chance),
            user,
            clock,
            remote: None,
            token: None,
            stalled: None,
            kept: None,
            fills_hidden: habits.fills_hidden,
            chance,
            folder,
        }
    }

    /// The machine starts again, and its program. Nobody has a file open there.
    pub(super) fn revive(&mut self, with_power_cut: bool) {
        (self.stalled, self.remote) = (None, None);
        match with_power_cut {
            true => self.disk.cut_power(),
            false => self.disk.restart(),
        }
        self.open();
    }

    /// Opens the file, as a program does that begins.
    pub(super) fn open(&mut self) {
        (self.stalled, self.remote) = (None, None);
        let components = Components {
            clock: self.clock.clone(),
            random: random(&mut self.chance),
            disk: self.disk.clone(),
            ..Components::system(&self.folder).unwrap()
        };
        let mut remote = Remote::open_or_create(Path::new(REMOTE), components).unwrap();
        let user = Some(UserName::new(USERS[self.user].0).unwrap());
        remote.remember(&Settings { user, ..Settings::default() }).unwrap();
        if self.fills_hidden {
            remote.fill_hidden_from(1);
        }
        self.remote = Some(remote);
    }
}

/// An empty disk of a machine.
pub(super) fn disk(clock: &Arc<Virtual>, chance: &mut Chance) -> Arc<Disk> {
    Arc::new(Disk::new(chance.below(u64::MAX), clock.clone(), Arc::new(block)))
}

/// A generator that no other program of the world has.
pub(super) fn random(chance: &mut Chance) -> Random {
    Random::from_seed(std::array::from_fn(|_| chance.below(256) as u8))
}

/// Gives a database a rollback journal, while nobody else has it open.
pub(super) fn roll_back(disk: &Disk, path: &str) {
    let connection = open_database(disk, path);
    let mode = "PRAGMA journal_mode = DELETE";
    let mode: String = connection.query_row(mode, [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
}

/// A database, as another program opens it.
pub(super) fn open_database(disk: &Disk, path: &str) -> Connection {
    let connection = application::set_up(disk.open(Path::new(path)).unwrap());
    // What an application was promised survives a power cut, whatever the journal.
    connection.pragma_update(None, "synchronous", "EXTRA").unwrap();
    connection
}
