//! What a deployment notes about a published table, for servers.

use super::claims::TypedClaim;
use super::kept::Probe;
use super::orphans::Guard;
use super::spelling::KeySpelling;
use super::values::ColumnType;
use super::verbatim::Verbatim;
use serde::{Deserialize, Serialize};

/// Beyond what the remote knows of the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TableDetails {
    pub(super) schema: String,
    /// The name without its schema.
    pub(super) name: String,
    /// Of the published columns, in their order.
    pub(super) columns: Vec<ColumnType>,
    /// How it is proven that what was uploaded is what is stored (trap 8); none where it is not.
    pub(super) verbatim: Option<Verbatim>,
    /// Published names of the tables whose incarnation counts: this one and those that decide
    /// which of its rows are covered.
    pub(super) depends_on: Vec<String>,
    /// The parameters that decide which rows are covered, as scripts spell them: `{u.region}`.
    pub(super) parameters: Vec<String>,
    /// The claims among them, unless any text will do.
    pub(super) claims: Vec<TypedClaim>,
    /// The selection as text; empty for all rows. If it changes, the whole table is sent again.
    pub(super) selection: String,
    /// The selection is a custom condition: the whole table is sent every time.
    pub(super) afresh: bool,
    /// Digests of the scripts whose plans may be kept (`kept.rs`).
    pub(super) kept: Vec<String>,
    /// Asks whether anything has departed.
    pub(super) departed: Option<Probe>,
    /// Published names, and names in SQL, of the tables whose triggers it relies on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) watched: Vec<(String, String)>,
    /// The foreign keys that decide which of its rows a remote has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) guards: Vec<Guard>,
    /// The query for the places of rows whose keys have changed; none if all remotes receive all
    /// rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) places: Option<String>,
    /// An upload may move a row out of the partition.
    pub(super) may_leave: bool,
    /// Rows may not be stored as they are sent, because triggers change them or the rule does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) remade: bool,
    /// Published names of the tables whose changed keys an upload to this one has to follow: itself
    /// and those that it refers to, as far as they are logged (`moved.rs`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) heeds: Vec<String>,
    /// What the database calls the published columns, where remotes call some otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) local: Vec<String>,
    /// Published names of the tables whose deletes take rows of this one along.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) takers: Vec<String>,
    /// Digest of the upload scripts whose rows carry the version of their transaction
    /// (`shortfall.rs`); none where the rows of a table carry none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stamping: Option<String>,
    /// How keys have to be spelled, where their types alone do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spelling: Option<KeySpelling>,
}
