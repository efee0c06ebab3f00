//! The SQL of PostgreSQL for a selection.

use crate::deploy::{TableFacts, Tracked};
use crate::postgres::deploy::tables::{UserTable, VERSION};
use crate::postgres::tracking::departure_log::{self, Log};
use crate::quote::ident;
use crate::selection::{self, Dialect, Table};
use crate::sync_model::ClaimTest;
use std::collections::BTreeMap;

/// The dialect for the tables of one database, by published name.
#[derive(Clone, Copy)]
pub(super) struct Postgres<'a> {
    pub(super) user_tables: &'a BTreeMap<String, UserTable>,
    pub(super) tracked: &'a Tracked,
}

impl<'a> Postgres<'a> {
    /// The departure log of a table; none if it is not needed.
    pub(super) fn log(&self, published: &str) -> Option<Log<'a>> {
        Some(Log::of(self.user_tables.get(published)?, self.tracked.get(published)?))
    }
}

/// The transaction that wrote `row` was not yet visible to the remote's last download.
pub(super) fn since(row: &str) -> String {
    format!(
        "{row}.{VERSION} >= pg_snapshot_xmin({{s.watermark}})\n  \
         AND NOT pg_visible_in_snapshot({row}.{VERSION}, {{s.watermark}})"
    )
}

/// The same, and nothing that the remote has itself just uploaded as it is now.
pub(super) fn news(row: &str) -> String {
    format!(
        "{row}.{VERSION} >= pg_snapshot_xmin({{s.watermark}})\n  \
         AND {row}.{VERSION} <> {{s.last_upload}}\n  \
         AND NOT pg_visible_in_snapshot({row}.{VERSION}, {{s.watermark}})"
    )
}

impl Dialect for Postgres<'_> {
    fn table(&self, table: &Table) -> String {
        self.user_tables.get(&table.name).map_or_else(|| ident(&table.name), UserTable::sql_name)
    }

    /// By its own equality, which an index answers, and where that is not enough in its letters.
    fn same_key(&self, table: &Table, left: &str, right: &str) -> String {
        let known = self.user_tables.get(&table.name);
        let spelled = table.key.iter().filter(|name| {
            let column = known.and_then(|known| known.column(name));
            column.is_some_and(|column| column.ambiguous.is_some())
        });
        let spelled = spelled.map(|name| {
            let name = ident(name);
            format!(
                "\n  AND {left}.{name}::text COLLATE \"C\" = {right}.{name}::text COLLATE \"C\""
            )
        });
        selection::same_key(table, left, right) + &spelled.collect::<String>()
    }

    fn departures(&self, table: &Table) -> String {
        self.log(&table.name).map_or_else(|| departure_log::log(&table.name), |log| log.unfolded())
    }

    fn departed_since(&self, _: &Table, entry: &str) -> String {
        since(entry)
    }

    fn departed_unknown(&self, _: &Table, entry: &str) -> String {
        news(entry)
    }

    fn changed_since(&self, _: &Table, row: &str) -> String {
        since(row)
    }

    /// A claim is text; it becomes a value of the column's type, so that the column's index counts.
    fn passes(&self, test: &ClaimTest, value: &str, table: &Table, column: &str) -> String {
        let column = self.user_tables.get(&table.name).and_then(|table| table.column(column));
        let cast = column.map_or("text", |column| column.cast.as_str());
        match test {
            ClaimTest::Is(claim) => format!("{value} = {claim}::{cast}"),
            ClaimTest::IsIn(claim) => format!(
                "{value} = ANY (ARRAY(\n    SELECT trim(v)::{cast} \
                 FROM unnest(string_to_array({claim}, ',')) AS v WHERE trim(v) <> ''))"
            ),
        }
    }
}
