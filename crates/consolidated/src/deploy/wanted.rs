//! What is tracked of a table, whatever a backend makes of it.

use std::collections::{BTreeMap, BTreeSet};

/// Which changes of a table must be recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wanted {
    /// Its own rows are downloaded.
    pub(crate) downloaded: bool,
    /// It is looked for rows that left a partition.
    pub(crate) departs: bool,
    /// The columns beside the key that decide who receives a row.
    pub(crate) places: BTreeSet<String>,
    /// Columns of its own by whose value departures are looked for.
    pub(crate) sought: BTreeSet<String>,
    /// Changed rows are found by their version alone.
    pub(crate) indexed: bool,
    /// Rows that come are logged too: they decide about rows that may have been there before.
    pub(crate) arrivals: bool,
    /// A foreign key of it, or to it, decides which rows a remote has.
    pub(crate) guarded: bool,
    /// How departures are looked for: those of one value of this column, or all since a version.
    pub(crate) lookups: BTreeSet<Option<String>>,
}

/// What is tracked and why, by published name.
pub(crate) type Tracked = BTreeMap<String, Wanted>;
