//! Shapes: what a table looked like when remotes captured changes of it.
//!
//! A remote that was away uploads under the tables that it holds, and these may be tables of
//! yesterday: a column has got another name since, or is gone. What a column *is* is therefore a
//! number of ours, given at its first deployment, kept through declared renames, and never given
//! again. A shape says for each of its columns which number it has; where today's table has a
//! column of that number, the value goes there, whatever both are called.
//!
//! `shape/identity.rs` gives the numbers, `shape/succession.rs` says what a deployment makes of the
//! shapes before it, `shape/store.rs` keeps all that, and `shape/projection.rs` turns uploaded rows
//! of an older shape into rows of today's.
//!
//! Invariants:
//! H1. A number stands for one column for ever: a name that is used again gets another number.
//! H2. A shape is kept for as long as a remote may hold it, up to [`SHAPES_MAX`] of a table.
//! H3. No value of an upload is left out in silence: what no column takes is reported with its row.

mod identity;
mod projection;
mod store;
mod succession;

pub use projection::LeftOut;
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
