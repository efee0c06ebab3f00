//! Rows whose keys change, at a remote or at the center.

mod key_changes;
mod key_chaos_postgres;
mod key_downloads;
mod key_races_postgres;
mod keys_forgotten;
