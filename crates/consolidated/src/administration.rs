//! Arguments and results of `init`, `deploy`, `check`, `scripts` and `user`, for every database.

mod deployed;
pub(crate) mod drift;
pub(crate) mod fleet;
pub(crate) mod history;
pub(crate) mod notes;
pub(crate) mod orphans;
mod planned;
pub(crate) mod readable;
pub(crate) mod resolution;
pub(crate) mod steward;
pub(crate) mod users;
pub(crate) mod waiting;

use crate::deploy::difference::{Difference, Disagreement};
use crate::deploy::own;
use crate::script::{self, Detection, Event};
use crate::sync_model::SyncModel;
use crate::synchronization::expiry::Expiry;
use model::{Code, Failure, ScriptVersion, UserName};
use std::collections::BTreeMap;

/// A sync model to start from.
#[derive(Debug, Clone)]
pub struct InitialModel {
    /// The text of `model.toml`.
    pub toml: String,
    /// The tables that it publishes.
    pub tables: Vec<String>,
    /// What it had to leave out, and why.
    pub warnings: Vec<String>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// What `deploy` did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Deployment {
    /// The SQL statements, in order; none when everything was as it should be.
    pub statements: Vec<String>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// What `undeploy` did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Undeployment {
    /// The SQL statements, in order; none if the database had no object of Syncline.
    pub statements: Vec<String>,
    /// What it could not put back as it was, and how to do that later.
    pub left: Vec<String>,
}

/// How much a finding of `check` matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Rows may be missed until it is repaired.
    Error,
    /// Good to know.
    Notice,
}

/// How many statements a deployment would run. If it would refuse undeclared changes, these are
/// findings, and the search continues.
pub(crate) fn pending(
    deployed: Result<Vec<String>, Failure>,
) -> Result<(usize, Vec<Finding>), Failure> {
    match deployed {
        Ok(statements) => Ok((statements.len(), Vec::new())),
        Err(failure) if failure.code() == Code::UndeclaredChange => Ok((0, Finding::of(&failure))),
        Err(failure) => Err(failure),
    }
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

impl Finding {
    /// A failure and those beside it, as errors.
    pub fn of(failure: &Failure) -> Vec<Finding> {
        let of_one = |failure: &Failure| Finding {
            severity: Severity::Error,
            table: failure.table_name().map(str::to_owned),
            message: format!("{}; {}", failure.full_message(), failure.hint_text()),
        };
        std::iter::once(failure).chain(failure.others()).map(of_one).collect()
    }
}

/// A table that is deployed and not there: whatever else of it is missing went with it.
pub(crate) fn table_gone(table: String) -> Finding {
    Finding {
        severity: Severity::Error,
        message: format!(
            "table {table} is gone: it was dropped or renamed; run `syncline check`, declare this \
             in the model (`dropped_tables`, or `renamed_from`), then run `syncline deploy`"
        ),
        table: Some(table),
    }
}

/// Why a table is left out that lacks a column which is deployed.
pub(crate) fn column_gone(table: &str, column: &str) -> String {
    format!(
        "column {column} of table {table} is gone: it was dropped or renamed; run `syncline \
         check`, declare this in the model (`renamed`, or `dropped`), then run `syncline deploy`"
    )
}

/// Why a table cannot be served, if a column is gone that decides which of its rows a remote has.
pub(crate) fn deciding_column_gone(of: &str, table: &str, column: &str) -> String {
    format!(
        "column {column} of table {table} is gone, which decides about the rows of table {of}: it \
         was dropped or renamed; run `syncline check`, correct the partition in the model, then \
         run `syncline deploy`"
    )
}

/// The failure of a model with a section for a table that the database does not have.
pub(crate) fn no_table(model: &SyncModel, name: &str) -> Failure {
    let message = format!("{}: there is no table {name}", model.file_name);
    let hint = format!(
        "correct the name; or, if the table was dropped, write `dropped_tables = [\"{name}\"]` \
         instead of its section; or, if it was renamed, `renamed_from = \"{name}\"` in a section \
         of its new name"
    );
    Failure::new(Code::ModelMismatch, message).hint(hint).table(name)
}

/// Most differences in one finding.
const DIFFERENCES_TOLD_MAX: usize = 5;

/// How the finding begins that a deployment has something to do.
pub(crate) const NOT_DEPLOYED: &str = "the model differs from the deployed one";

/// Adds to what `check` found which tables and columns differ.
pub(crate) fn tell_differences(findings: &mut Vec<Finding>, differences: &[Difference]) {
    let differs = differences.iter().filter(|one| one.what != Disagreement::NotPublished);
    let told: Vec<String> = differs.take(DIFFERENCES_TOLD_MAX).map(ToString::to_string).collect();
    let undeployed = findings.iter_mut().find(|found| found.message.starts_with(NOT_DEPLOYED));
    match undeployed {
        _ if told.is_empty() => (),
        Some(found) => found.message.push_str(&format!(": {}", told.join("; "))),
        // What is missing of the deployment does not hide what the next one brings.
        None => findings.push(Finding {
            severity: Severity::Error,
            table: None,
            message: format!("{NOT_DEPLOYED}: {}", told.join("; ")),
        }),
    }
    findings.extend(unpublished(differences));
}

/// What the database has and no model publishes: nothing is wrong with that, but it may be new.
fn unpublished(differences: &[Difference]) -> Vec<Finding> {
    let new = differences.iter().filter(|new| new.what == Disagreement::NotPublished);
    let finding = |new: &Difference| Finding {
        severity: Severity::Notice,
        table: None,
        message: format!(
            "{new} {}; `syncline model add` publishes it, `unpublished` leaves it out",
            new.script_version
        ),
    };
    new.map(finding).collect()
}

/// The scripts that users can write, as the models and the files are now.
#[derive(Debug, Clone, Default)]
pub struct PlannedScripts {
    /// In the order of versions, tables and events.
    pub scripts: Vec<PlannedScript>,
    /// What is a conflict, of every table that is uploaded.
    pub conflicts: Vec<TableConflicts>,
    /// What is wrong with files, each with its place.
    pub mistakes: Vec<String>,
}

impl PlannedScripts {
    /// Refuses them if something is wrong, as a deployment would.
    pub fn require_right(&self) -> Result<(), Failure> {
        own::refused(&self.mistakes)
    }
}

/// The script of one event, as the next deployment would have it.
#[derive(Debug, Clone)]
pub struct PlannedScript {
    /// The script version.
    pub script_version: ScriptVersion,
    /// The table; empty where the event belongs to none.
    pub table: String,
    /// The event.
    pub event: Event,
    /// What a file says that has the text of the model, if the model makes one.
    pub exported: Option<String>,
    /// The file that a user wrote; none of a generated script.
    pub file: Option<String>,
    /// The model makes another text now than when the file was exported.
    pub outdated: bool,
    /// How it runs; none where something is wrong with it.
    pub way: Option<Way>,
}

/// What is a conflict in a table that is uploaded.
#[derive(Debug, Clone)]
pub struct TableConflicts {
    /// The script version.
    pub script_version: ScriptVersion,
    /// The table.
    pub table: String,
    /// How scripts find it that resolve it too; none where the rule of the model does.
    pub detection: Option<Detection>,
    /// That rule. It decides what the scripts do not.
    pub rule: String,
}

/// How a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Ignored,
    /// Once for a batch of rows.
    Set,
    /// For each row; a batch of rows is sent together.
    Together,
    /// For each row.
    RowByRow,
    /// Once for each download.
    Once,
    /// Whenever its event happens.
    AtEvent,
}

impl Way {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Way::Ignored => "ignored",
            Way::Set => "set",
            Way::Together => "row by row, sent together",
            Way::RowByRow => "row by row",
            Way::Once => "once",
            Way::AtEvent => "at its event",
        }
    }

    /// Why it runs so.
    pub fn reason(self) -> &'static str {
        match self {
            Way::Ignored => "its first line says so",
            Way::Set => "it names a batch of rows",
            Way::Together => "it names values of one row",
            Way::RowByRow => "SQLite runs in the process of the server",
            Way::Once => "it is a cursor",
            Way::AtEvent => "it belongs to no table",
        }
    }
}

/// A deployed script.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredScript {
    /// The script version.
    pub script_version: ScriptVersion,
    /// The table; empty where the event belongs to none.
    pub table: String,
    /// The event.
    pub event: Event,
    /// The SQL.
    pub script: String,
    /// A user wrote it.
    pub own: bool,
}

impl StoredScript {
    /// The claims that it has as parameters.
    pub fn claims(&self) -> impl Iterator<Item = String> {
        script::parameter_names(&self.script).filter_map(script::claim)
    }
}

/// A user, without the password.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    /// The name.
    pub name: UserName,
    /// Values that scripts see as `{u.name}`.
    pub claims: BTreeMap<String, String>,
    /// Shut out until unlocked. The hash of the password begins with a mark then, so that no
    /// server, of whatever age, takes any password for the right one.
    pub locked: bool,
    /// When the password expires.
    pub password_expires: Expiry,
}

/// A claim of a user that meets no row, because it is no value of the column with which a model
/// compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisfitClaim {
    /// The name of the claim.
    pub claim: String,
    /// The table, as written in the model.
    pub table: String,
    /// The column.
    pub column: String,
    /// Its type.
    pub column_type: String,
}

pub(crate) fn no_such_user(name: &UserName) -> Failure {
    Failure::new(Code::NoSuchUser, format!("there is no user {name}"))
}

/// Claims as they are stored: a JSON object of texts.
pub(crate) fn claims_text(claims: &BTreeMap<String, String>) -> String {
    serde_json::json!(claims).to_string()
}

/// Understands [`claims_text`].
pub(crate) fn claims_from(text: &str) -> Result<BTreeMap<String, String>, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::new(Code::Bug, "stored claims do not parse").source(error))
}
