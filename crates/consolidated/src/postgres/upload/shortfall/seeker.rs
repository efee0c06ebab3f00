//! Finds rows of a table that a statement has left out.

use crate::catalog::table::CatalogTable;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::deploy::tables::VERSION;
use crate::postgres::optimize::round_trip_proof::upload_scripts;
use crate::postgres::statement::{POSITION, Statement};
use crate::quote::{ident, join};
use crate::script::Script;

/// Finds rows of a table that were not applied: their positions in a batch, from 1.
#[derive(Debug)]
pub(in crate::postgres) struct Seeker {
    /// Rows without the version of this transaction, and missing rows.
    pub(in crate::postgres) unstamped: Statement,
    /// Rows that are there.
    pub(in crate::postgres) there: Statement,
}

impl Seeker {
    /// None where the scripts of `table` are not the generated ones, or leave no trace.
    pub(in crate::postgres) fn of(table: &CatalogTable<TableDetails>) -> Option<Seeker> {
        let stamping = table.details.stamping.as_ref()?;
        if *stamping != upload_scripts(table.scripts()) {
            return None;
        }
        Some(Seeker {
            unstamped: seeking(table, &|found| {
                format!("(SELECT t.{VERSION} {found}) IS DISTINCT FROM pg_current_xact_id()")
            })?,
            there: seeking(table, &|found| format!("(SELECT 1 {found}) IS NOT NULL"))?,
        })
    }
}

/// Each row is looked up by itself: a join might read the whole table instead.
fn seeking(
    table: &CatalogTable<TableDetails>,
    condition: &dyn Fn(&str) -> String,
) -> Option<Statement> {
    let (published, details) = (&table.published, &table.details);
    let key: Vec<&String> =
        published.key.iter().filter_map(|at| published.columns.get(usize::from(*at))).collect();
    let found = format!(
        "FROM {} AS t WHERE {}",
        details.sql_name(),
        join(&key, " AND ", |name| format!("t.{0} = k.{0}", ident(name))),
    );
    let text = format!("SELECT k.{POSITION}\nFROM {{keys}} AS k\nWHERE {}", condition(&found));
    let script = Script::parse(&text, published).ok()?;
    Some(Statement::of(&script, published, &details.columns))
}
