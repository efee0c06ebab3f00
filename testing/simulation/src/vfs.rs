//! Disks that exist in memory only, and fail as they are asked to.
//!
//! SQLite reaches files through a table of functions. Each [`Disk`] is such a table with a name of
//! its own, which a program opens its files with. A disk knows what of its files is durable, so a
//! power cut takes what a power cut may take: writes since the last sync of a file, in part, and
//! names since the last sync of the folder. Time and chance come from outside, so two runs with the
//! same seed are the same.
//!
//! One thread uses all disks of a world. A lock that is taken is never given back while another
//! waits for it, so waiting ends with SQLite's time-out, and only the virtual time passes.

mod beside;
mod chance;
mod contents;
mod directory;
mod faults;
mod image;
mod locks;
mod machine;
mod memory;
mod operation;
mod registration;
mod shim;
mod slot;
mod system;

pub use chance::Chance;
pub use faults::Count;
pub use image::{Identity, Image};
pub use system::Sleep;

use machine::Machine;
use model::Clock;
use registration::Registration;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use system::System;

/// The disk of one machine, and the programs on it as far as they have files open.
#[derive(Debug)]
pub struct Disk {
    system: Arc<System>,
    registration: Registration,
}

impl Disk {
    /// An empty disk. What goes wrong on it follows from `seed`.
    pub fn new(seed: u64, clock: Arc<dyn Clock>, sleep: Sleep) -> Disk {
        let system = Arc::new(System::new(Machine::new(seed), clock, sleep));
        Disk { registration: Registration::of(system.clone()), system }
    }

    /// The name of this disk for SQLite, which is that of a VFS.
    pub fn vfs(&self) -> &str {
        self.registration.name()
    }

    /// Opens a database file, and creates it where it does not exist.
    pub fn open(&self, path: &Path) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), self.vfs())
    }

    /// How many operations there were.
    pub fn count(&self, count: Count) -> u64 {
        self.machine().faults.count(count)
    }

    /// The programs are killed at the `nth` operation from now, instead of it; 1 is the next.
    pub fn die_at(&self, count: Count, nth: u64) {
        self.machine().faults.die_at(count, nth);
    }

    /// The `nth` operation from now fails; 1 is the next.
    pub fn fail_at(&self, count: Count, nth: u64) {
        self.machine().faults.fail_at(count, nth);
    }

    /// One in so many operations fails, by chance.
    pub fn fail_one_in(&self, operations: u64) {
        self.machine().faults.fail_one_in(operations);
    }

    /// No operation fails any more, and no kill is to come. A full disk stays full.
    pub fn heal(&self) {
        self.machine().faults.heal();
    }

    /// Files can grow to so many bytes together; none: without end.
    pub fn limit(&self, capacity_bytes: Option<u64>) {
        self.machine().capacity_bytes = capacity_bytes;
    }

    /// What the files take up.
    pub fn used_bytes(&self) -> u64 {
        self.machine().used_bytes()
    }

    /// Kills the programs now: every operation fails until the restart.
    pub fn kill(&self) {
        self.machine().faults.kill();
    }

    /// Whether the programs were killed.
    pub fn is_dead(&self) -> bool {
        self.machine().faults.is_dead()
    }

    /// The machine goes on after a kill, for programs that start again. Files are as they were
    /// left.
    ///
    /// # Panics
    ///
    /// If a connection still exists: a program that was killed has none.
    pub fn restart(&self) {
        self.require_no_program();
        let mut machine = self.machine();
        machine.end_programs();
        machine.faults.restart();
    }

    /// The power has failed and comes back: what was not synced is lost, in part.
    ///
    /// # Panics
    ///
    /// If a connection still exists.
    pub fn cut_power(&self) {
        self.require_no_program();
        let mut machine = self.machine();
        machine.cut();
        machine.end_programs();
        machine.faults.restart();
    }

    /// A copy of all files, made in one moment.
    pub fn image(&self) -> Image {
        self.machine().image()
    }

    /// Puts a copy in the place of all files, while no program runs.
    ///
    /// # Panics
    ///
    /// If a connection still exists.
    pub fn put(&self, image: &Image, identity: Identity) {
        self.require_no_program();
        self.machine().put(image, identity);
    }

    /// How often files or names have changed. Where this is the same, so is all that lies there.
    pub fn changes(&self) -> u64 {
        self.machine().changes
    }

    /// A number that follows from all operations so far, their results, and what was written.
    pub fn fingerprint(&self) -> u64 {
        self.machine().digest.value()
    }

    /// Whether a connection exists that has a file of this disk open, dead or alive.
    fn is_in_use(&self) -> bool {
        // This disk has one, and its registration.
        Arc::strong_count(&self.system) > 2
    }

    fn require_no_program(&self) {
        assert!(!self.is_in_use(), "connections are dropped before their machine starts again");
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.system.machine()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.registration.give_back(self.is_in_use());
    }
}
