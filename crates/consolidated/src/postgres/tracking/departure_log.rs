//! The log of a table's departures.
//!
//! An entry has the rows that one statement removed from one place. It has arrays, one for each
//! column of the key and of the place, with an element for each row that departed. So a thousand
//! rows cost little more than one. The deletes of an upload write one entry per place, and the
//! batch of a statement limits its size (`batch.rs`). Triggers see one row at a time and write
//! arrays with one element. Readers expand the arrays ([`Log::unfolded`]). Conditions on the
//! version, and on columns that are single values, still use the index.
//!
//! Invariants:
//!
//! E1. Entries are looked up by single values. Rows that differ in such a value, even if only in
//!     notation, are in separate entries.
//! E2. All arrays of an entry have the same length. If the place is not known, its array contains
//!     NULLs.
//! E3. An array of arrays cannot be split into its elements. So columns that are arrays stay single
//!     values too.

use crate::deploy::{TableFacts, Wanted};
use crate::postgres::deploy::tables::{UserColumn, UserTable, VERSION, bounded_name};
use crate::postgres::statement::POSITION;
use crate::quote::ident;
use crate::selection::place_column;

/// How many rows an entry is about. Not `rows`, which a key may have.
const ROWS: &str = "syncline_rows";

/// The departure log of a table.
pub(in crate::postgres) struct Log<'a> {
    /// In SQL.
    name: String,
    columns: Vec<Column<'a>>,
    wanted: &'a Wanted,
}

/// A column of the key or of the place.
struct Column<'a> {
    /// In SQL.
    name: String,
    /// The column of the user's table, in SQL.
    source: String,
    described: Option<&'a UserColumn>,
    is_key: bool,
    /// Entries have an array of its values.
    folded: bool,
}

/// The name of the departure log of a table.
pub(in crate::postgres) fn log_name(published: &str) -> String {
    bounded_name("syncline_gone_", published)
}

/// The departure log of a table by its published name, in SQL.
pub(in crate::postgres) fn log(published: &str) -> String {
    format!("syncline.{}", ident(&log_name(published)))
}

impl<'a> Log<'a> {
    pub(in crate::postgres) fn of(table: &'a UserTable, wanted: &'a Wanted) -> Log<'a> {
        let looked_up = |column: &str| wanted.lookups.iter().flatten().any(|name| name == column);
        let of = |column: &str, name: &str, is_key: bool| {
            let described = table.column(column);
            let folded = !looked_up(column) && described.is_some_and(|column| !column.is_array());
            Column { name: ident(name), source: ident(column), described, is_key, folded }
        };
        let key = table.key.iter().map(|column| of(column, column, true));
        let places = wanted.places.iter();
        let places = places.map(|column| of(column, &place_column(column), false));
        let columns = key.chain(places).collect();
        Log { name: log(&table.published_name()), columns, wanted }
    }

    /// The statements that make it.
    pub(in crate::postgres) fn create(&self) -> Vec<String> {
        let mut columns: Vec<String> = self.columns.iter().map(Column::definition).collect();
        // Not `version`, which a key may have.
        columns.push(format!("{VERSION} xid8 NOT NULL DEFAULT pg_current_xact_id()"));
        let (log, columns) = (&self.name, columns.join(", "));
        let mut sql =
            vec![format!("CREATE TABLE {log} ({columns},\n    {ROWS} integer NOT NULL DEFAULT 1)")];
        // By the value first: among a thousand remotes, each would read what all others have lost.
        sql.extend(self.wanted.lookups.iter().map(|column| {
            let column = column.as_deref().map(ident);
            let place = self.columns.iter().find(|known| Some(&known.source) == column.as_ref());
            let place = place.map_or(String::new(), |place| format!("{}, ", place.name));
            format!("CREATE INDEX ON {log} ({place}{VERSION})")
        }));
        sql
    }

    fn is_folded(&self) -> bool {
        self.columns.iter().any(|column| column.folded)
    }

    /// What reads like a table with a row for each departure.
    pub(in crate::postgres) fn unfolded(&self) -> String {
        if !self.is_folded() {
            return self.name.clone();
        }
        let values = self.columns.iter().map(|Column { name, folded, .. }| match folded {
            true => format!("unnest({name}) AS {name}"),
            false => name.clone(),
        });
        let values: Vec<String> = values.collect();
        format!("(\n    SELECT {}, {VERSION}\n    FROM {}\n)", values.join(", "), self.name)
    }

    /// What a statement that deletes `row` by a row of `batch` returns for [`Log::noted`].
    pub(in crate::postgres) fn returned(&self, row: &str, batch: &str) -> String {
        let values = self.columns.iter().map(|column| match column.is_key {
            true => format!("{row}.{}", column.source),
            false => format!("{row}.{} AS {}", column.source, column.name),
        });
        let position = self.is_folded().then(|| format!("{batch}.{POSITION}"));
        values.chain(position).collect::<Vec<_>>().join(", ")
    }

    /// Deletes by `delete`, which ends with [`Log::returned`], and notes in the same statement what
    /// departs. It returns which rows of the batch were there, where an entry is about many of
    /// them; or else it counts them.
    pub(in crate::postgres) fn noted(&self, delete: &str) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let names = names.join(", ");
        if !self.is_folded() {
            return format!(
                "WITH gone AS (\n{delete}\n)\nINSERT INTO {} ({names})\nSELECT {names} FROM gone",
                self.name
            );
        }
        let values: Vec<String> = self.columns.iter().map(Column::gathered).collect();
        let alike: Vec<String> = self.columns.iter().filter_map(Column::alike).collect();
        let by = match alike.is_empty() {
            // Of nothing there would be an entry of NULLs.
            true => "HAVING count(*) > 0".to_owned(),
            false => format!("GROUP BY {}", alike.join(", ")),
        };
        format!(
            "WITH gone AS (\n{delete}\n), noted AS (\n    INSERT INTO {} ({names}, {ROWS})\n    \
             SELECT {}, count(*)\n    FROM gone\n    {by}\n)\nSELECT {POSITION} FROM gone",
            self.name,
            values.join(", ")
        )
    }

    /// The statement of a trigger that notes `row`, with its place or without one.
    pub(in crate::postgres) fn note_row(&self, row: &str, with_place: bool) -> String {
        let noted =
            self.columns.iter().filter(|column| column.is_key || with_place || column.folded);
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for column in noted {
            let known = column.is_key || with_place;
            let value = match known {
                true => format!("{row}.{}", column.source),
                false => "NULL".to_owned(),
            };
            names.push(column.name.clone());
            values.push(match column.folded {
                true => format!("ARRAY[{}]", column.of_base_type(&value, !known)),
                false => value,
            });
        }
        format!(
            "INSERT INTO {} ({})\n    VALUES ({})",
            self.name,
            names.join(", "),
            values.join(", ")
        )
    }
}

impl Column<'_> {
    fn kind(&self) -> &str {
        self.described.map_or("text", |column| column.base_type.as_str())
    }

    fn of_type(&self, kind: &str) -> String {
        match self.described.and_then(|column| column.collation.as_deref()) {
            Some(collation) => format!("{kind} COLLATE {collation}"),
            None => kind.to_owned(),
        }
    }

    fn definition(&self) -> String {
        let kind = self.of_type(&format!("{}{}", self.kind(), if self.folded { "[]" } else { "" }));
        let not_null = if self.folded || self.is_key { " NOT NULL" } else { "" };
        format!("{} {kind}{not_null}", self.name)
    }

    /// Elements have the base type of a domain, like the columns of the log.
    fn of_base_type(&self, value: &str, cast: bool) -> String {
        match cast || self.described.is_some_and(|column| column.domain) {
            true => format!("{value}::{}", self.kind()),
            false => value.to_owned(),
        }
    }

    /// Its value in an entry of many rows.
    fn gathered(&self) -> String {
        match self.folded {
            true => format!("array_agg({})", self.of_base_type(&self.name, false)),
            false => self.name.clone(),
        }
    }

    /// What rows of one entry have in common (E1).
    fn alike(&self) -> Option<String> {
        let exact = self.described.is_some_and(UserColumn::is_spelled_in_one_way);
        let alike = match exact {
            true => self.name.clone(),
            false => format!("{name}, {name}::text COLLATE \"C\"", name = self.name),
        };
        (!self.folded).then_some(alike)
    }
}
