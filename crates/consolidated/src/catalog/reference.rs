//! Foreign keys between tables that remotes upload, by the names of their columns.

use serde::{Deserialize, Serialize};

/// A foreign key of a published table to another one, or to itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reference {
    /// The published name of the table that it refers to.
    pub(crate) parent: String,
    /// Published column and the column that it refers to.
    pub(crate) columns: Vec<(String, String)>,
}
