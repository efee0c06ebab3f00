//! Users: who they are, who knows them, and what belongs to them.

mod directory;
mod hook;
pub(crate) mod jwt;
mod ownership;
mod passwords;
mod secrets;
