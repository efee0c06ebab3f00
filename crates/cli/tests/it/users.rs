//! Users: who they are, who knows them, and what belongs to them.

mod by_scripts;
mod directory;
mod hook;
pub(crate) mod jwt;
mod ownership;
mod passwords;
mod secrets;
mod watch;
