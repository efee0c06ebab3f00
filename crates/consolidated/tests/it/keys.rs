//! Rows whose keys change at the center.

mod key_downloads;
mod pending_edits;
