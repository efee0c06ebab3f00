//! What the programs of a world do all the time. It follows from the seed alone.

use crate::history::is_unchecked;

/// The habits of a world.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Other programs open a file each time they need it.
    pub(super) hasty: bool,
    /// Remotes have a rollback journal.
    pub(super) remotes_roll_back: bool,
    /// The center has one.
    pub(super) center_rolls_back: bool,
    /// Other programs at remotes do not check foreign keys.
    pub(super) unchecked: bool,
    /// Remotes fill every table under a hidden name that they receive for the first time.
    pub(super) fills_hidden: bool,
}

impl Habits {
    pub(super) fn of(seed: u64) -> Habits {
        Habits {
            hasty: seed.is_multiple_of(8),
            remotes_roll_back: seed % 6 == 5,
            center_rolls_back: seed % 12 == 5,
            unchecked: is_unchecked(seed),
            fills_hidden: !seed.is_multiple_of(3),
        }
    }
}
