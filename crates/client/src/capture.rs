//! Captures what any program changed at this remote since the last upload.
//!
//! Triggers (`capture/triggers.rs`) record, per generation and key, the *base*: whether the row
//! existed before its first change in the generation, and its values. They record nothing else, so
//! ten updates cost one entry. The change is the difference between the base and the present row
//! (`capture/change_log.rs`): if the row is equal to its base, there is no change.
//!
//! A row that the center knows, or may know, keeps its key: the triggers refuse another one, so
//! that the application learns it at once. A row that was not uploaded yet may get another key. It
//! is an insert with the key that it has when it is uploaded.
//!
//! C1. At most one generation is frozen, and it is the one before the open one.
//! C2. The content of a frozen generation never changes, whatever the application writes: the new
//!     image of its row is the base of the open generation's entry for the same key, or the row
//!     itself if there is no such entry (trap 6).
//! C3. BEFORE triggers record a base before the row is changed. So it is right for any other
//!     triggers of the table and any order of firing.

pub(crate) mod broken;
pub(crate) mod change_log;
mod generation;
pub(crate) mod triggers;
pub(crate) mod undone;

#[cfg(test)]
mod tests;
