//! What triggers of the owner make of uploaded rows.

mod instead;
mod moved_keys;
mod owners_faults;
mod vetoes;
