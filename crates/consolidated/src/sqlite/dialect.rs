//! How SQLite spells what a selection needs.
//!
//! A log is numbered by itself, so a remote's last download is another number in each: the table's
//! own is `{s.last_download}`, that of another table `{s.last_download.NAME}`.

use super::tracking::{MOVED, log_name};
use crate::quote::{ident, idents, join};
use crate::script::parameter;
use crate::selection::{Dialect, Table};
use crate::sync_model::ClaimTest;

/// The dialect for the scripts of one table.
pub(super) struct Sqlite<'a> {
    pub(super) own: &'a str,
}

impl Sqlite<'_> {
    fn since(&self, table: &Table) -> String {
        match table.name == self.own {
            true => "{s.last_download}".into(),
            false => parameter("s.last_download", &table.name),
        }
    }
}

impl Dialect for Sqlite<'_> {
    fn table(&self, table: &Table) -> String {
        ident(&table.name)
    }

    fn departures(&self, table: &Table) -> String {
        ident(&log_name(&table.name))
    }

    fn departed_since(&self, table: &Table, entry: &str) -> String {
        // Without an identity a row cannot be told about.
        let present = join(&table.key, " AND ", |c| format!("{entry}.{} IS NOT NULL", ident(c)));
        format!("{entry}.sequence > {} AND {entry}.{MOVED} AND {present}", self.since(table))
    }

    fn changed_since(&self, table: &Table, row: &str) -> String {
        let key = idents(&format!("{row}."), &table.key);
        let key = if table.key.len() == 1 { key } else { format!("({key})") };
        format!(
            "{key} IN (SELECT {} FROM {} WHERE sequence > {})",
            idents("", &table.key),
            self.departures(table),
            self.since(table)
        )
    }

    fn passes(&self, test: &ClaimTest, value: &str, _: &Table, _: &str) -> String {
        match test {
            ClaimTest::Is(claim) => format!("{value} = {claim}"),
            // The claim as a JSON array of its parts.
            ClaimTest::IsIn(claim) => format!(
                "{value} IN (SELECT trim(value) FROM json_each(\
                 '[' || replace(json_quote({claim}), ',', '\",\"') || ']') \
                 WHERE trim(value) <> '')"
            ),
        }
    }
}
