//! What people see and set at a center: its remotes, its records, its users.

mod fleet;
mod history;
mod notes;
mod users;
