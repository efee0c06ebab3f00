//! Watches that a user's script stays within the partition (S7).
//!
//! A generated script changes only rows that the partition covers. A user's script is not trusted
//! to do so. So a look at the rows under the uploaded keys runs before it and after it, in the same
//! flight. Nobody but us writes the looks. Nothing stands that a script did with a row that was
//! outside, nor a row that is outside afterwards, unless it was inside and may leave.

use crate::catalog::table::CatalogTable;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::errors::unreadable;
use crate::postgres::link::Answer;
use crate::postgres::statement::Statement;
use crate::quote::{ident, join};
use crate::script::{Event, Piece, Relation, Script};
use model::{Code, Failure};

/// Asks how many of some keys have a row, and how many one that the partition covers.
#[derive(Debug)]
pub(in crate::postgres) struct Fence(pub(in crate::postgres) Statement);

/// What a look has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::postgres) struct Seen {
    present: i64,
    covered: i64,
}

/// How a script has gone beyond the partition, or would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) enum Breach {
    /// A row was outside already.
    Touches,
    /// A row is outside now.
    Leads,
}

impl Fence {
    /// None where no user wrote a script that uploads, or the partition covers all rows.
    pub(in crate::postgres) fn of(table: &CatalogTable<TableDetails>) -> Option<Fence> {
        let is_fenced = !table.details.selection.is_empty();
        (is_fenced && table.has_own_uploads()).then(|| Fence(look(table)))
    }
}

/// Counts what is there by itself, and what is covered as [`Event::UploadLook`] finds it.
fn look(table: &CatalogTable<TableDetails>) -> Statement {
    let (published, details) = (&table.published, &table.details);
    let key: Vec<&String> =
        published.key.iter().filter_map(|at| published.columns.get(usize::from(*at))).collect();
    let text = |text: String| Piece::Text(text);
    let mut pieces = vec![
        text("SELECT (SELECT count(*) FROM ".to_owned()),
        Piece::Relation(Relation::Keys),
        // Each row is looked up by itself: a join might read the whole table instead.
        text(format!(
            " AS k\nWHERE (SELECT 1 FROM {} AS t WHERE {}) IS NOT NULL), (SELECT count(*) FROM (\n",
            details.sql_name(),
            join(&key, " AND ", |name| format!("t.{0} = k.{0}", ident(name))),
        )),
    ];
    let (covered, parameters) = match table.script(Event::UploadLook) {
        Some(fetch) => (fetch.pieces.clone(), fetch.parameters.clone()),
        // What cannot be read is covered by nothing.
        None => (vec![text("SELECT WHERE false".to_owned())], Vec::new()),
    };
    pieces.extend(covered);
    pieces.push(text("\n) AS f)".to_owned()));
    let script = Script { pieces, parameters, ..Script::default() };
    Statement::of(&script, published, &details.columns)
}

impl Seen {
    /// What the answer to a look says.
    pub(in crate::postgres) fn of(answer: &Answer) -> Result<Seen, Failure> {
        let row = answer.rows.first();
        let row = row.ok_or_else(|| Failure::new(Code::Bug, "a look at rows found no count"))?;
        let count = |at: usize| row.try_get::<i64>(at).map_err(unreadable);
        Ok(Seen { present: count(0)?, covered: count(1)? })
    }

    /// What looks at different keys have found together.
    pub(in crate::postgres) fn and(self, other: Seen) -> Seen {
        Seen { present: self.present + other.present, covered: self.covered + other.covered }
    }

    fn is_within(self) -> bool {
        self.present == self.covered
    }
}

/// How a script that was handed so many `rows` has left the partition, by the looks before and
/// after it. `may_leave`: what was inside may be outside now.
pub(in crate::postgres) fn breach(
    may_leave: bool,
    rows: u64,
    (before, after): (Seen, Seen),
) -> Option<Breach> {
    let were_inside = u64::try_from(before.covered) == Ok(rows);
    match (before.is_within(), after.is_within()) {
        (false, _) => Some(Breach::Touches),
        (true, false) if !(may_leave && were_inside) => Some(Breach::Leads),
        _ => None,
    }
}
