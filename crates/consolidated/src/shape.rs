//! Shapes: the definition that a table had when remotes captured changes of it.
//!
//! A remote that was away uploads with the tables that it holds, and these may be older than the
//! current ones: a column has another name now, or was dropped. So each column has a number. It
//! gets the number at its first deployment, keeps it through declared renames, and the number is
//! never used again. A shape has the number of each of its columns. If the current table has a
//! column with that number, the value goes there, whatever the names are.
//!
//! `shape/identity.rs` assigns the numbers, and `shape/succession.rs` decides what a deployment
//! does with older shapes. `shape/store.rs` stores them, and `shape/projection.rs` converts
//! uploaded rows of an older shape to rows of the current table.
//!
//! Invariants:
//! H1. A number always means the same column. A name that is used again gets another number.
//! H2. A shape is kept as long as a remote may hold it, up to [`SHAPES_MAX`] per table.
//! H3. No value of an upload is left out silently. A value without a column is reported with its
//!     row.

mod identity;
pub(crate) mod left_out;
mod projection;
mod store;
mod succession;

pub use left_out::LeftOut;
pub(crate) use projection::{as_it_is, upload};
pub(crate) use store::Past;
pub(crate) use succession::{Narrow, Planned, Succession, succeed};

use model::PublishedTable;
use std::collections::BTreeMap;

/// Most shapes of one table that are kept for remotes that are away; the oldest go first.
pub(crate) const SHAPES_MAX: usize = 32;

/// A table as it was published at some time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    /// As remotes hold it.
    pub(crate) published: PublishedTable,
    /// The number of the table.
    pub(crate) table: i64,
    /// The numbers of the published columns, in their order.
    pub(crate) columns: Vec<i64>,
    /// When it was deployed, and with which deployment.
    pub(crate) deployed_at: String,
    pub(crate) deployment: i64,
    /// When it was no longer published, and since which deployment.
    pub(crate) superseded_at: Option<String>,
    pub(crate) superseded: Option<i64>,
}

/// The numbers of the tables and columns of today, under the names that the database gives them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Identities {
    /// The next number.
    pub(crate) next: i64,
    pub(crate) tables: BTreeMap<String, TableIdentity>,
}

/// The number of a table, and those of its columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableIdentity {
    pub(crate) id: i64,
    pub(crate) columns: BTreeMap<String, i64>,
}

impl Identities {
    fn give(&mut self) -> i64 {
        self.next += 1;
        self.next
    }
}
