//! What `init`, `deploy`, `check`, `scripts` and `user` say and hear, whatever the database.

use crate::script::Event;
use model::{ScriptVersion, UserName};
use std::collections::BTreeMap;

/// A sync model to start from.
#[derive(Debug, Clone)]
pub struct InitialModel {
    /// The text of `model.toml`.
    pub toml: String,
    /// How many tables it publishes.
    pub tables: usize,
    /// What it had to leave out, and why.
    pub warnings: Vec<String>,
}

/// What `deploy` did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Deployment {
    /// The SQL statements, in order; none when everything was as it should be.
    pub statements: Vec<String>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// How much a finding of `check` matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Rows may be missed until it is repaired.
    Error,
    /// Good to know.
    Notice,
}

/// Something that `check` found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The table, where one is concerned.
    pub table: Option<String>,
    /// One line.
    pub message: String,
}

/// A deployed script.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredScript {
    /// The script version.
    pub script_version: ScriptVersion,
    /// The table of a table event.
    pub table: String,
    /// The event.
    pub event: Event,
    /// The SQL.
    pub script: String,
}

/// A user, without the password.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    /// The name.
    pub name: UserName,
    /// Values that scripts see as `{u.name}`.
    pub claims: BTreeMap<String, String>,
}
