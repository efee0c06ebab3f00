//! Uploads by scripts, of models and of users.

mod around;
mod authentication;
mod conflicts;
mod errors;
mod faults;
mod own;
mod own_postgres;
mod sessions;
mod statistics;
