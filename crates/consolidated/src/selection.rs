//! Which rows of a table belong to a partition, as SQL.
//!
//! A [`Selection`] is the condition of a table and those of its parents, resolved against the
//! database (`selection/resolve.rs`). `selection/render.rs` makes the conditions and queries of the
//! scripts from it. A [`Dialect`] has the differences between databases.
//!
//! Words: the *place* of a row is the values that decide whether the row is covered: its partition
//! column, or the columns that refer to its parent. A *departure* is a row that was deleted, or
//! changed its key or its place. Its entry in a log has the old key and the old place.
//!
//! Invariants, with *then* for the remote's last download and *now* for this one:
//!
//! I1. A row that was covered then and is not now has departed since, and its first entry has the
//!     place of then ([`Selection::deletes`], first half). Or it is unchanged, and the row that
//!     decided about its place has departed (second half). The same holds for parents, recursively.
//! I2. A row that is covered now and was not then, and is unchanged: the row that decides about its
//!     place is new or has moved since ([`Selection::entered`]). A parent that was only updated
//!     does not count.
//! I3. A missing claim is NULL, and NULL covers no row.
//!
//! This holds while the claims stay the same. If they differ, or if a condition is custom, the
//! whole table is sent again (trap 4).

mod render;
pub(crate) mod resolve;

use crate::quote::{ident, join};
use crate::sync_model::{Claim, ClaimTest};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most parents above a table; a watermark has a place for each.
pub(crate) const ANCESTORS_MAX: usize = 16;

/// Which rows of a table are covered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    /// The table.
    pub(crate) table: Table,
    /// What decides.
    pub(crate) rows: Rows,
}

/// A table and the columns of its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// As the database spells it.
    pub(crate) name: String,
    /// In key order.
    pub(crate) key: Vec<String>,
}

/// What decides about a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rows {
    /// Every row is covered.
    All,
    /// A column of its own.
    Column {
        /// The column.
        column: String,
        /// How it is compared.
        test: ClaimTest,
    },
    /// Rows of a mapping table with the same value.
    Mapping {
        /// The row's column.
        column: String,
        /// The mapping table.
        mapping: Table,
        /// The mapping table's column with the same value.
        selected: String,
        /// The mapping table's column that is compared with a claim.
        matched: String,
        /// How it is compared.
        test: ClaimTest,
    },
    /// The row that it refers to.
    Parent {
        /// Referring column and column of the parent.
        link: Vec<(String, String)>,
        /// Which parents are covered.
        parent: Box<Selection>,
    },
    /// A condition over the row `t`, of which nothing is known.
    Custom(String),
}

/// How a database spells what a selection needs.
pub(crate) trait Dialect {
    /// The table as statements name it.
    fn table(&self, table: &Table) -> String;

    /// The table as `row`, in a query that looks rows up by their key.
    fn looked_up(&self, table: &Table, row: &str) -> String {
        format!("{} AS {row}", self.table(table))
    }

    /// The condition that `left` and `right` have the same key, for remotes, which tell keys apart
    /// letter by letter.
    fn same_key(&self, table: &Table, left: &str, right: &str) -> String {
        same_key(table, left, right)
    }

    /// The log with the departures of `table`. It has the key's columns under their own names and
    /// the others under [`place_column`].
    fn departures(&self, table: &Table) -> String;

    /// The condition that `entry` of that log is a departure that the remote's last download did
    /// not see.
    fn departed_since(&self, table: &Table, entry: &str) -> String;

    /// The same for an entry of a row that went or moved, of which nothing but its key is wanted:
    /// one that the remote made itself may be left out.
    fn departed_unknown(&self, table: &Table, entry: &str) -> String {
        self.departed_since(table, entry)
    }

    /// The query for the entries of that log, not made by the remote itself, whose value for
    /// `column` passes the test, where there is a faster way to them than to look at each.
    fn departures_of(&self, _: &Table, _: (&str, &ClaimTest)) -> Option<String> {
        None
    }

    /// The condition that `row` of `table` was inserted or updated since that download.
    fn changed_since(&self, table: &Table, row: &str) -> String;

    /// The condition that `value`, which is of the type of `column` of `table`, passes the test.
    fn passes(&self, test: &ClaimTest, value: &str, table: &Table, column: &str) -> String;
}

/// How a condition is best spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For a few rows that are at hand: each is looked up.
    Probe,
    /// The same where a database would join instead, which takes it as long as reading what decides
    /// once for each row, if it knows too little about it.
    Each,
    /// For finding rows in the table: what is covered drives the search.
    Search,
}

impl Selection {
    /// True when every row of the table is covered.
    pub(crate) fn is_all(&self) -> bool {
        self.rows == Rows::All
    }

    /// True if it is not known which rows leave and enter. Then every synchronization sends the
    /// whole table.
    pub(crate) fn is_custom(&self) -> bool {
        match &self.rows {
            Rows::Custom(_) => true,
            Rows::Parent { parent, .. } => parent.is_custom(),
            Rows::All | Rows::Column { .. } | Rows::Mapping { .. } => false,
        }
    }

    /// True when rows depart and enter and it can be worked out which.
    pub(crate) fn departs(&self) -> bool {
        !self.is_all() && !self.is_custom()
    }

    /// The parent's table, if a parent decides.
    pub(crate) fn parent(&self) -> Option<&str> {
        match &self.rows {
            Rows::Parent { parent, .. } => Some(&parent.table.name),
            _ => None,
        }
    }

    /// True when every covered row refers to a covered row of `parent` by these columns: then a
    /// foreign key over them holds at a remote.
    pub(crate) fn follows(&self, parent: &str, columns: &[(String, String)]) -> bool {
        let Rows::Parent { link, parent: above } = &self.rows else { return false };
        above.table.name == parent
            && link.len() == columns.len()
            && link.iter().all(|pair| columns.contains(pair))
    }

    /// The claims that decide, so that a watermark can say with which values it was made.
    pub(crate) fn claims(&self) -> BTreeSet<Claim> {
        match &self.rows {
            Rows::Column { test, .. } | Rows::Mapping { test, .. } => {
                BTreeSet::from([test.claim().clone()])
            }
            Rows::Parent { parent, .. } => parent.claims(),
            Rows::All | Rows::Custom(_) => BTreeSet::new(),
        }
    }

    /// The tables whose logs a download looks at: this one first, then the others, each once.
    pub(crate) fn logs(&self) -> Vec<&Table> {
        let mut tables = vec![&self.table];
        let mut deciding = Some(self);
        while let Some(selection) = deciding {
            deciding = None;
            let table = match &selection.rows {
                Rows::Mapping { mapping, .. } => mapping,
                Rows::Parent { parent, .. } => {
                    deciding = Some(parent);
                    &parent.table
                }
                Rows::All | Rows::Column { .. } | Rows::Custom(_) => continue,
            };
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        tables
    }

    /// The columns whose old values the logs must have, by table: the place of every row that is
    /// looked at, and what children refer to. Key columns are not among them: a log has them
    /// anyway.
    pub(crate) fn places(&self) -> Vec<(&Table, Vec<&str>)> {
        let mut places = self.deciding();
        for (table, columns) in &mut places {
            columns.retain(|column| !table.key.iter().any(|key| key == column));
        }
        places
    }

    /// The columns that decide, by table: the place of every row that is looked at, and what
    /// children refer to.
    pub(crate) fn deciding(&self) -> Vec<(&Table, Vec<&str>)> {
        let mut places = Vec::new();
        match &self.rows {
            Rows::All | Rows::Custom(_) => places.push((&self.table, Vec::new())),
            Rows::Column { column, .. } => places.push((&self.table, vec![column.as_str()])),
            Rows::Mapping { column, mapping, selected, matched, .. } => {
                places.push((&self.table, vec![column.as_str()]));
                places.push((mapping, vec![selected.as_str(), matched.as_str()]));
            }
            Rows::Parent { link, parent } => {
                let (from, to): (Vec<&str>, Vec<&str>) =
                    link.iter().map(|(from, to)| (from.as_str(), to.as_str())).unzip();
                places.push((&self.table, from));
                places.push((&parent.table, to));
                places.extend(parent.deciding());
            }
        }
        places
    }

    /// The column of its own that decides, and how.
    pub(crate) fn sought(&self) -> Option<(&str, &ClaimTest)> {
        match &self.rows {
            Rows::Column { column, test } => Some((column, test)),
            _ => None,
        }
    }

    /// How the logs are searched: for the departures of one value of a column, or for all.
    pub(crate) fn lookups(&self) -> Vec<(&Table, Option<&str>)> {
        match &self.rows {
            Rows::All | Rows::Custom(_) => vec![(&self.table, None)],
            Rows::Column { column, .. } => vec![(&self.table, Some(column))],
            Rows::Mapping { mapping, matched, .. } => {
                vec![(&self.table, None), (mapping, Some(matched))]
            }
            Rows::Parent { parent, .. } => {
                // Children look for any parent that has moved.
                let mut lookups = vec![(&self.table, None), (&parent.table, None)];
                lookups.extend(parent.lookups());
                lookups
            }
        }
    }

    /// The columns of the table that an index should begin with, for departures and arrivals to be
    /// found by it.
    pub(crate) fn place(&self) -> Vec<&str> {
        match &self.rows {
            Rows::All | Rows::Custom(_) => Vec::new(),
            Rows::Column { column, .. } | Rows::Mapping { column, .. } => vec![column.as_str()],
            Rows::Parent { link, .. } => link.iter().map(|(from, _)| from.as_str()).collect(),
        }
    }
}

/// `ordered` with the parents that decide about rows before their children, which fences need even
/// where foreign keys form a cycle, or where there is none.
pub(crate) fn deciding_first(
    ordered: Vec<String>,
    selections: &BTreeMap<String, Selection>,
) -> Vec<String> {
    let mut placed: Vec<String> = Vec::with_capacity(ordered.len());
    for name in ordered {
        let mut chain = vec![name.as_str()];
        while let Some(parent) = selections.get(chain[chain.len() - 1]).and_then(Selection::parent)
        {
            chain.push(parent);
        }
        for name in chain.into_iter().rev() {
            if !placed.iter().any(|placed| placed == name) {
                placed.push(name.to_owned());
            }
        }
    }
    placed
}

/// The column of a departure log with the old value of `column`, which is not one of the key.
pub(crate) fn place_column(column: &str) -> String {
    format!("syncline_place_{column}")
}

/// What the selection is, in a line: where two are the same, so are their rows for the same
/// claims.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let test = |test: &ClaimTest| match test {
            ClaimTest::Is(claim) => format!("= {claim}"),
            ClaimTest::IsIn(claim) => format!("IN {claim}"),
        };
        match &self.rows {
            Rows::All => write!(f, "all of {}", self.table.name),
            Rows::Column { column, test: how } => {
                write!(f, "{}: {column} {}", self.table.name, test(how))
            }
            Rows::Mapping { column, mapping, selected, matched, test: how } => write!(
                f,
                "{}: {column} IN (SELECT {selected} FROM {} WHERE {matched} {})",
                self.table.name,
                mapping.name,
                test(how)
            ),
            Rows::Parent { link, parent } => {
                let link: Vec<String> = link.iter().map(|(a, b)| format!("{a} to {b}")).collect();
                write!(f, "{}: {} of {parent}", self.table.name, link.join(", "))
            }
            Rows::Custom(condition) => write!(f, "{}: custom {condition}", self.table.name),
        }
    }
}

/// `left` and `right` have the same key.
pub(crate) fn same_key(table: &Table, left: &str, right: &str) -> String {
    join(&table.key, " AND ", |c| format!("{left}.{} = {right}.{}", ident(c), ident(c)))
}
