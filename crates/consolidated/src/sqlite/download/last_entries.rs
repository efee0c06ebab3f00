//! The last entries of a log, to be found by the keys of their rows.
//!
//! A log has no index by key. To find the last entry of a row, it is read from its end. For more
//! than a few rows, the entries that the remote has not seen are copied once.

use super::copied::{Copied, ROWS_COPIED};
use super::key_record::{becomes, keys_name, was};
use crate::quote::{ident, join};
use crate::sqlite::errors::failed;
use crate::sqlite::tracking::log_table::log_name;
use crate::sqlite::values::Bind;
use model::{Failure, PublishedTable, ValueRef};
use rusqlite::Connection;

/// The entries of the log of a table.
pub(super) struct LastEntries<'t> {
    table: &'t PublishedTable,
    copy: Option<Copied>,
}

impl<'t> LastEntries<'t> {
    /// Those of the table at `position` behind an entry, to be looked for by so many rows. Inside a
    /// savepoint that is undone or followed by [`LastEntries::forget`].
    pub(super) fn of(
        connection: &Connection,
        (table, position): (&'t PublishedTable, usize),
        since: i64,
        rows: u64,
    ) -> Result<LastEntries<'t>, Failure> {
        if rows < ROWS_COPIED {
            return Ok(LastEntries { table, copy: None });
        }
        let names = (log_name(&table.name), format!("syncline_last_{position}"));
        let key: Vec<String> = key_names(table).map(str::to_owned).collect();
        let copied = Copied::of(connection, (&names.0, names.1), (since, i64::MAX), &key)?;
        Ok(LastEntries { table, copy: copied })
    }

    /// Leaves nothing behind.
    pub(super) fn forget(&self, connection: &Connection) -> Result<(), Failure> {
        self.copy.as_ref().map_or(Ok(()), |copy| copy.forget(connection))
    }

    /// Notes under the number of its last entry that the row with this key is one of `remote`'s.
    pub(super) fn note_own(
        &self,
        connection: &Connection,
        key: &[ValueRef<'_>],
        remote: &str,
    ) -> Result<(), Failure> {
        let table = self.table;
        let source = match &self.copy {
            Some(copy) => copy.source(),
            None => ident(&log_name(&table.name)),
        };
        let names: Vec<&str> = key_names(table).collect();
        let values: Vec<String> = (1..=names.len()).map(|at| format!("?{at}")).collect();
        let each = names.iter().zip(&values);
        let each = each.map(|(name, value)| format!("{} = {value}", ident(name)));
        let sql = format!(
            "INSERT OR IGNORE INTO {} (sequence, {}, {}, remote_id)
             SELECT max(sequence), {values}, {values}, ?{} FROM {source} WHERE {}
             HAVING max(sequence) > 0",
            ident(&keys_name(&table.name)),
            join(&names, ", ", |name| ident(&was(name))),
            join(&names, ", ", |name| ident(&becomes(name))),
            names.len() + 1,
            each.collect::<Vec<_>>().join(" AND "),
            values = values.join(", "),
        );
        let noting = failed("note a row under a key that was left");
        let mut statement = connection.prepare_cached(&sql).map_err(&noting)?;
        for (at, value) in key.iter().enumerate() {
            statement.raw_bind_parameter(at + 1, Bind(*value)).map_err(&noting)?;
        }
        statement.raw_bind_parameter(names.len() + 1, remote).map_err(&noting)?;
        statement.raw_execute().map_err(&noting)?;
        Ok(())
    }
}

fn key_names(table: &PublishedTable) -> impl Iterator<Item = &str> {
    table.key.iter().map(|column| table.columns[usize::from(*column)].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Direction;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn table() -> PublishedTable {
        PublishedTable {
            compress: true,
            name: "t".into(),
            columns: vec!["id".into(), "v".into()],
            key: vec![0],
            direction: Direction::Both,
            create: vec![],
            fingerprint: String::new(),
        }
    }

    /// A log in which others have changed the keys of so many rows, and then a remote has inserted
    /// rows under the keys that were left.
    fn with_entries(rows: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE \"syncline_log_t\" (sequence INTEGER PRIMARY KEY,
                     \"id\" TEXT COLLATE NOCASE);
                 CREATE TABLE \"syncline_keys_t\" (sequence INTEGER PRIMARY KEY,
                     \"was_id\" TEXT COLLATE NOCASE, \"is_id\" TEXT COLLATE NOCASE, remote_id TEXT,
                     UNIQUE (\"was_id\", sequence))",
            )
            .unwrap();
        for key in (0..rows).map(|n| format!("a{n}")).chain((0..rows).map(|n| format!("A{n}"))) {
            let sql = "INSERT INTO syncline_log_t (id) VALUES (?1)";
            connection.prepare_cached(sql).unwrap().execute([key]).unwrap();
        }
        connection
    }

    /// What is noted of rows, which were many enough to be copied or not, and how many steps
    /// SQLite took for it.
    fn noted(rows: i64, as_of: u64) -> (Vec<(i64, String)>, u64) {
        let mut connection = with_entries(rows);
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        let table = table();
        let entries = LastEntries::of(&connection, (&table, 3), 0, as_of).unwrap();
        for n in 0..rows {
            let key = format!("a{n}");
            entries.note_own(&connection, &[ValueRef::Text(key.as_bytes())], "r").unwrap();
        }
        entries.forget(&connection).unwrap();
        let steps = steps.load(Ordering::Relaxed);
        let sql = "SELECT sequence, is_id FROM syncline_keys_t
                   WHERE remote_id = 'r' AND was_id = is_id ORDER BY sequence";
        let mut statement = connection.prepare(sql).unwrap();
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        (found.map(Result::unwrap).collect(), steps)
    }

    // S9: for each row the log was read from its end.
    #[test]
    fn many_rows_take_as_many_steps_each_as_a_few() {
        let (few, many) = (noted(100, 100).1, noted(800, 800).1);
        assert!(many < 10 * few, "{few} steps for 100 rows, {many} for 800");
    }

    // S5, Trap 22: keys in another spelling are the same to the database.
    #[test]
    fn a_copy_has_the_same_last_entries() {
        let (copied, plain) = (noted(40, 40).0, noted(40, 1).0);
        let wanted: Vec<(i64, String)> = (0..40).map(|n| (41 + n, format!("a{n}"))).collect();
        assert_eq!((&copied, &plain), (&wanted, &wanted));
    }
}
