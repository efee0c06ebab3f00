//! What the catalog knows of each table.

use super::upload::affinity::Affinity;
use crate::catalog::deciding::{Decided, Deciding};
use crate::catalog::reference::Reference;
use crate::catalog::table;
use crate::sync_model::Claim;
use serde::{Deserialize, Serialize};

/// What this backend notes of a table when it is deployed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TableDetails {
    /// What the table's selection is; empty if it has all rows.
    pub(super) selection: String,
    /// The claims that decide about it, as a script spells them.
    pub(super) claims: Vec<Claim>,
    /// The tables whose logs its downloads look at, itself first; empty if it alone.
    pub(super) logs: Vec<String>,
    /// It is unknown which rows leave and enter, so every synchronization sends the whole table.
    pub(super) sent_afresh: bool,
    /// Positions of the published columns in which the changes of both sides count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) added: Vec<u16>,
    /// The statement that keeps a row that loses a conflict; none where nobody wants them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) losers: Option<String>,
    /// An upload may move a row out of its own partition.
    pub(super) may_leave: bool,
    /// How each published column stores what it is given; empty where that is not all that decides
    /// what an uploaded row becomes.
    pub(super) affinities: Vec<Affinity>,
    /// The published column whose value alone decides whether a row is covered, where no trigger
    /// can change it.
    pub(super) decider: Option<u16>,
    /// What the database calls the published columns, where remotes call some otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) local: Vec<String>,
    /// The columns that decide about its rows, beside published ones of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) deciding: Vec<Deciding>,
    /// A digest of the two cursors of its downloads as they were generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursors: Option<String>,
    /// A remote keeps the rows that a refresh does not return.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) kept_by_refresh: bool,
    /// The tables that its foreign keys refer to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parents: Vec<String>,
    /// The foreign keys to tables that remotes insert into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) references: Vec<Reference>,
    /// Published columns that actions of its foreign keys write, where no download tells a remote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) written: Vec<String>,
}

impl TableDetails {
    /// True when a fence stands around the rows of a remote (S7).
    pub(super) fn is_fenced(&self) -> bool {
        !self.selection.is_empty()
    }
}

impl Decided for TableDetails {
    fn deciding(&self) -> &[Deciding] {
        &self.deciding
    }
}

/// One table of a script version, ready to run.
pub(super) type CatalogTable = table::CatalogTable<TableDetails>;

/// The tables whose logs decide about a download of `table`, itself first.
pub(super) fn logs_of(table: &CatalogTable) -> &[String] {
    match table.details.logs.as_slice() {
        [] => std::slice::from_ref(&table.published.name),
        logs => logs,
    }
}
