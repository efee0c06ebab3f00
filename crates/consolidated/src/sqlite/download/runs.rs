//! Runs of log entries that have the same value in the column by which the log is searched.
//!
//! A remote reads only the entries of its own partition. An index of the log would find these
//! entries and cost as much as all other writes for a row. But an upload writes its entries one
//! after the other and mostly with one value, so a few runs are sufficient.
//!
//! Invariant: each entry up to the end of the last run is in the run that contains its number, and
//! has the value of that run. Later entries, which other programs wrote since the last commit of
//! the server, are in no run; downloads read them one by one. Runs are written in the transaction
//! of their entries or in a later one, and entries never change. So every snapshot keeps this
//! invariant (S2).

use crate::quote::{ident, join};
use crate::selection::place_column;
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::errors::failed;
use crate::sqlite::query;
use crate::sqlite::tracking::log_table::{Kept, SEQUENCE, kept_column, log_name};
use crate::sqlite::tracking::object::Object;
use crate::sqlite::values::{Bind, write_row};
use model::{Failure, RowReader};
use rusqlite::Connection;

/// Where a run begins and ends.
const FIRST: &str = "first_sequence";
const LAST: &str = "last_sequence";

pub(in crate::sqlite) fn runs_name(table: &str) -> String {
    format!("syncline_runs_{table}")
}

/// The table of the runs, for a log that is searched.
pub(in crate::sqlite) fn object(table: &UserTable, kept: &Kept) -> Option<Object> {
    if kept.sought.is_empty() {
        return None;
    }
    let name = runs_name(&table.name);
    let mut columns = vec![format!("{LAST} INTEGER PRIMARY KEY"), format!("{FIRST} INTEGER")];
    columns.extend(kept.sought.iter().map(|sought| kept_column(table, sought, &value(sought))));
    // An index, in the form in which it comes and goes with its table.
    columns.extend(kept.sought.iter().map(|s| format!("UNIQUE ({}, {LAST})", ident(&value(s)))));
    let sql = format!("CREATE TABLE {} ({})", ident(&name), columns.join(", "));
    Some(Object { kind: "TABLE", name, table: table.name.clone(), sql })
}

/// The column of a run with the value of `column`.
fn value(column: &str) -> String {
    place_column(column)
}

/// The columns by which the log of `table` is searched, as they were deployed.
pub(in crate::sqlite) fn deployed(
    connection: &Connection,
    table: &str,
) -> Result<Vec<String>, Failure> {
    deployed_columns(connection, table).map_err(failed("describe the runs of a log"))
}

fn deployed_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let names = columns_of(connection, &runs_name(table))?;
    let sought = |name: &String| name.strip_prefix(&place_column("")).map(str::to_owned);
    Ok(names.iter().filter_map(sought).collect())
}

/// The columns of a system table; none if it does not exist.
pub(in crate::sqlite) fn columns_of(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}

/// The query for the entries `l` of the log of `table` since `since` that `passes` says yes to:
/// it is given the column of a run, or of an entry, that has the value of `column`. `columns` are
/// those of the entry.
pub(in crate::sqlite) fn entries(
    table: &str,
    (column, log_column): (&str, &str),
    columns: &str,
    since: &str,
    passes: &dyn Fn(&str) -> String,
) -> String {
    let (runs, log) = (ident(&runs_name(table)), ident(&log_name(table)));
    let of_run = passes(&format!("s.{}", ident(&value(column))));
    let of_entry = passes(&format!("l.{}", ident(log_column)));
    let own = "{s.uploaded_first} AND {s.uploaded_last}";
    let (first, last) = ("{s.uploaded_first}", "{s.uploaded_last}");
    format!(
        "SELECT {columns}\nFROM {runs} AS s\n\
         CROSS JOIN {log} AS l ON l.{SEQUENCE} BETWEEN max(s.{FIRST}, {since} + 1) AND s.{LAST}\n\
         WHERE {of_run} AND s.{LAST} > {since}\n  \
         AND (s.{FIRST} >= {first} AND s.{LAST} <= {last}) IS NOT TRUE\n  \
         AND (l.{SEQUENCE} BETWEEN {own}) IS NOT TRUE\n\
         UNION ALL\n\
         SELECT {columns}\nFROM {log} AS l\n\
         WHERE l.{SEQUENCE} > max({since}, (SELECT coalesce(max({LAST}), 0) FROM {runs}))\n  \
         AND {of_entry}\n  AND (l.{SEQUENCE} BETWEEN {own}) IS NOT TRUE"
    )
}

/// The runs of one log, as a writer adds to them.
#[derive(Debug)]
pub(in crate::sqlite) struct Runs {
    /// The last entry, and the end of the last run.
    ends: String,
    /// The entries beyond it: values and number.
    beyond: String,
    /// How many values.
    width: usize,
    /// Adds a run.
    add: String,
}

impl Runs {
    /// Those of all logs that are searched.
    pub(in crate::sqlite) fn all(connection: &Connection) -> Result<Vec<Runs>, Failure> {
        let sql = "SELECT table_name, name FROM syncline_object WHERE kind = 'TABLE'";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let names: Vec<(String, String)> = query::all(connection, "list the logs", sql, read)?;
        let mut all = Vec::new();
        for (table, _) in names.iter().filter(|(table, name)| *name == runs_name(table)) {
            let sought = deployed(connection, table)?;
            all.push(Runs::of(connection, table, &sought)?);
        }
        Ok(all)
    }

    fn of(connection: &Connection, table: &str, sought: &[String]) -> Result<Runs, Failure> {
        let (runs, log) = (ident(&runs_name(table)), ident(&log_name(table)));
        let in_log = columns_of(connection, &log_name(table)).map_err(failed("describe a log"))?;
        // A column of the key is in the log under its own name.
        let kept = |column: &str| match in_log.contains(&place_column(column)) {
            true => ident(&place_column(column)),
            false => ident(column),
        };
        Ok(Runs {
            ends: format!(
                "SELECT (SELECT coalesce(max({SEQUENCE}), 0) FROM {log}),
                        (SELECT coalesce(max({LAST}), 0) FROM {runs})"
            ),
            beyond: format!(
                "SELECT {}, {SEQUENCE} FROM {log} WHERE {SEQUENCE} > ?1 ORDER BY {SEQUENCE}",
                join(sought, ", ", kept)
            ),
            width: sought.len(),
            add: format!(
                "INSERT INTO {runs} ({FIRST}, {LAST}, {}) VALUES (?1, ?2{})",
                join(sought, ", ", |column| ident(&value(column))),
                sought.iter().enumerate().map(|(n, _)| format!(", ?{}", n + 3)).collect::<String>()
            ),
        })
    }

    /// Puts the entries that are in none into runs.
    pub(in crate::sqlite) fn extend(&self, connection: &Connection) -> Result<(), Failure> {
        self.add_beyond(connection).map_err(failed("note runs of entries"))
    }

    fn add_beyond(&self, connection: &Connection) -> rusqlite::Result<()> {
        let ends = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let (last, end) = connection.prepare_cached(&self.ends)?.query_row([], ends)?;
        if last <= end {
            return Ok(());
        }
        let mut beyond = connection.prepare_cached(&self.beyond)?;
        let mut rows = beyond.query([end])?;
        let (mut values, mut run) = (Vec::new(), Run::default());
        while let Some(row) = rows.next()? {
            let sequence = row.get(self.width)?;
            values.clear();
            write_row(&mut values, row, self.width)?;
            if values != run.values {
                self.add(connection, &run)?;
                std::mem::swap(&mut run.values, &mut values);
                run.first = sequence;
            }
            run.last = sequence;
        }
        self.add(connection, &run)
    }

    fn add(&self, connection: &Connection, run: &Run) -> rusqlite::Result<()> {
        // The one before the first.
        if run.values.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(&self.add)?;
        statement.raw_bind_parameter(1, run.first)?;
        statement.raw_bind_parameter(2, run.last)?;
        let mut values = RowReader::new(&run.values);
        for column in 0..self.width {
            let value = values.value().map_err(|_| rusqlite::Error::InvalidQuery)?;
            statement.raw_bind_parameter(column + 3, Bind(value))?;
        }
        statement.raw_execute().map(|_| ())
    }
}

/// Forgets the runs of entries up to `floor`, which the log of `table` no longer has.
pub(in crate::sqlite) fn trim(
    connection: &Connection,
    table: &str,
    floor: i64,
) -> rusqlite::Result<()> {
    if deployed_columns(connection, table)?.is_empty() {
        return Ok(());
    }
    let sql = format!("DELETE FROM {} WHERE {LAST} <= ?1", ident(&runs_name(table)));
    connection.execute(&sql, [floor]).map(|_| ())
}

/// Entries that follow each other.
#[derive(Default)]
struct Run {
    first: i64,
    last: i64,
    /// As they are: type and bytes, whatever the collation.
    values: Vec<u8>,
}
