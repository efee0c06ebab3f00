//! What a deployment notes about a published table, for servers.

use crate::catalog::deciding::{Decided, Deciding};
use crate::catalog::reference::Reference;
use crate::postgres::deploy::key_spelling::{Doubt, KeySpelling};
use crate::postgres::download::guard::Guard;
use crate::postgres::download::typed_claim::TypedClaim;
use crate::postgres::optimize::plan_cache::Probe;
use crate::postgres::optimize::round_trip_proof::RoundTripProof;
use crate::postgres::values::ColumnType;
use crate::quote::ident;
use serde::{Deserialize, Serialize};

/// Beyond what the remote knows of the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::postgres) struct TableDetails {
    pub(in crate::postgres) schema: String,
    /// The name without its schema.
    pub(in crate::postgres) name: String,
    /// Of the published columns, in their order.
    pub(in crate::postgres) columns: Vec<ColumnType>,
    /// How it is proven that what was uploaded is what is stored (trap 8); none where it is not.
    pub(in crate::postgres) verbatim: Option<RoundTripProof>,
    /// Published names of the tables whose incarnation counts: this one and those that decide
    /// which of its rows are covered.
    pub(in crate::postgres) depends_on: Vec<String>,
    /// The parameters that decide which rows are covered, as scripts spell them: `{u.region}`.
    pub(in crate::postgres) parameters: Vec<String>,
    /// The claims among them, unless any text will do.
    pub(in crate::postgres) claims: Vec<TypedClaim>,
    /// The selection as text; empty for all rows. If it changes, the whole table is sent again.
    pub(in crate::postgres) selection: String,
    /// The selection is a custom condition: the whole table is sent every time.
    pub(in crate::postgres) afresh: bool,
    /// Digests of the scripts whose plans may be kept (`plan_cache.rs`).
    pub(in crate::postgres) kept: Vec<String>,
    /// A digest of the two cursors of its downloads as they were generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::postgres) cursors: Option<String>,
    /// A remote keeps the rows that a refresh does not return.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::postgres) kept_by_refresh: bool,
    /// The time zone of the local times that its own cursors compare; none if they compare moments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::postgres) time_zone: Option<String>,
    /// Asks whether anything has departed.
    pub(in crate::postgres) departed: Option<Probe>,
    /// Published names, and names in SQL, of the tables whose triggers it relies on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) watched: Vec<(String, String)>,
    /// The foreign keys that decide which of its rows a remote has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) guards: Vec<Guard>,
    /// Positions of the published columns in which the changes of both sides count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) added: Vec<u16>,
    /// The statement that keeps the rows that lose conflicts; none where nobody wants them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::postgres) losers: Option<String>,
    /// An upload may move a row out of the partition.
    pub(in crate::postgres) may_leave: bool,
    /// Rows may not be stored as they are sent, because triggers change them or the rule does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::postgres) remade: bool,
    /// Published names of the tables without which it waits: itself and those that it refers to,
    /// as far as they are logged. A row that is new in one of them would be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) heeds: Vec<String>,
    /// What the database calls the published columns, where remotes call some otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) local: Vec<String>,
    /// The columns that decide about its rows, beside published ones of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) deciding: Vec<Deciding>,
    /// Published names of the tables whose deletes take rows of this one along or, where no
    /// download tells a remote, may change them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) takers: Vec<String>,
    /// The foreign keys to tables that remotes insert into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) references: Vec<Reference>,
    /// Published columns that actions of its foreign keys write, where no download tells a remote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::postgres) written: Vec<String>,
    /// Actions of foreign keys follow when a row of it is deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::postgres) deletes_act: bool,
    /// Digest of the upload scripts whose rows carry the version of their transaction
    /// (`shortfall.rs`); none where the rows of a table carry none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::postgres) stamping: Option<String>,
    /// How keys have to be spelled, where their types alone do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::postgres) spelling: Option<KeySpelling>,
    /// Why remotes cannot use its key: for the deployment alone.
    #[serde(skip)]
    pub(in crate::postgres) doubt: Option<Doubt>,
}

impl TableDetails {
    /// The name in SQL.
    pub(in crate::postgres) fn sql_name(&self) -> String {
        format!("{}.{}", ident(&self.schema), ident(&self.name))
    }
}

impl Decided for TableDetails {
    fn deciding(&self) -> &[Deciding] {
        &self.deciding
    }
}
