//! The SQL of SQLite for a selection.
//!
//! Each log has its own numbers, so the remote's last download is another number in each log. For
//! the log of the table it is `{s.watermark}`, and for that of another table
//! `{s.watermark.NAME}`.

use crate::quote::{ident, idents, join};
use crate::script::parameter;
use crate::selection::{Dialect, Table, place_column};
use crate::sqlite::download::runs;
use crate::sqlite::tracking::log_table::{MOVED, SEQUENCE, log_name};
use crate::sync_model::ClaimTest;

/// The dialect for the scripts of one table.
pub(super) struct Sqlite<'a> {
    pub(super) own: &'a str,
    /// The index of its key. Without naming it, SQLite reads the whole table for each row that is
    /// looked up, if the table was nearly empty at the last ANALYZE.
    pub(super) key_index: Option<&'a str>,
}

impl Sqlite<'_> {
    fn since(&self, table: &Table) -> String {
        match table.name == self.own {
            true => "{s.watermark}".into(),
            false => parameter("s.watermark", &table.name),
        }
    }

    /// The condition that `entry`, of the log of the table itself, need be read: the remote does
    /// not know what it tells of, because it is not one that its own upload made.
    pub(super) fn unknown_to_remote(&self, entry: &str) -> String {
        format!(
            "({entry}.{SEQUENCE} BETWEEN {{s.uploaded_first}} AND {{s.uploaded_last}}) IS NOT TRUE"
        )
    }
}

impl Sqlite<'_> {
    /// The query for `columns` of the entries since the last download whose value for a column of
    /// the table itself passes the test, without those that the remote made.
    pub(super) fn entries_of(
        &self,
        table: &Table,
        (column, test): (&str, &ClaimTest),
        columns: &str,
    ) -> String {
        let kept = match table.key.iter().any(|key| key == column) {
            true => column.to_owned(),
            false => place_column(column),
        };
        let passes = |value: &str| self.passes(test, value, table, column);
        runs::entries(&table.name, (column, &kept), columns, &self.since(table), &passes)
    }
}

impl Dialect for Sqlite<'_> {
    fn table(&self, table: &Table) -> String {
        ident(&table.name)
    }

    fn looked_up(&self, table: &Table, row: &str) -> String {
        let index = self.key_index.filter(|_| table.name == self.own);
        let hint = index.map_or(String::new(), |index| format!(" INDEXED BY {}", ident(index)));
        format!("{} AS {row}{hint}", self.table(table))
    }

    fn departures(&self, table: &Table) -> String {
        ident(&log_name(&table.name))
    }

    fn departed_since(&self, table: &Table, entry: &str) -> String {
        // Without an identity a row cannot be identified.
        let present = join(&table.key, " AND ", |c| format!("{entry}.{} IS NOT NULL", ident(c)));
        format!("{entry}.{SEQUENCE} > {} AND {entry}.{MOVED} AND {present}", self.since(table))
    }

    // A new row was not covered before: 2 is not the mark of a departure.
    fn departed_unknown(&self, table: &Table, entry: &str) -> String {
        let departed = self.departed_since(table, entry);
        format!("{departed} AND {entry}.{MOVED} = 1 AND {}", self.unknown_to_remote(entry))
    }

    fn departures_of(&self, table: &Table, sought: (&str, &ClaimTest)) -> Option<String> {
        Some(self.entries_of(table, sought, "l.*"))
    }

    fn changed_since(&self, table: &Table, row: &str) -> String {
        let key = idents(&format!("{row}."), &table.key);
        let key = if table.key.len() == 1 { key } else { format!("({key})") };
        format!(
            "{key} IN (SELECT {} FROM {} WHERE {SEQUENCE} > {})",
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
