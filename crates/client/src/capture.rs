//! What changed at this remote since the last upload, by any program.
//!
//! Triggers (`capture/triggers.rs`) record, per generation and key, the *base*: whether the row
//! existed before the generation touched it first, and how it looked. They record nothing else,
//! so ten updates cost one entry. The change itself is the difference between the base and the
//! row as it is now (`capture/change_log.rs`): an entry whose row is back to its base is none.
//! Which row lies under a key that it did not have before is recorded beside it
//! (`capture/moves.rs`), so that a key change is one change and not a delete and an insert.
//!
//! C1. At most one generation is frozen, and it is the one before the open one.
//! C2. What a frozen generation says never changes, whatever the application goes on writing:
//!     the new image of its row is the base of the open generation's entry for the same key, or
//!     the row itself where there is none (trap 6).
//! C3. A base is recorded before the row is touched, by BEFORE triggers, so it is right whichever
//!     other triggers the table has and in whatever order they fire.

pub(crate) mod change_log;
pub(crate) mod moves;
pub(crate) mod set_back;
pub(crate) mod triggers;
pub(crate) mod undone;

#[cfg(test)]
mod tests;
