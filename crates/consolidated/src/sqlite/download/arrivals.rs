//! Key changes of a table, to be found by the key that they lead to.
//!
//! The record of key changes has an index by the key that a row has left. To find who came to a
//! key, all of a range is read. For more than a few rows, the range is copied once into a table of
//! the connection's own, with an index.

use super::copied::{Copied, ROWS_COPIED};
use super::key_record::{becomes, keys_name};
use crate::quote::ident;
use model::{Failure, PublishedTable};
use rusqlite::Connection;

/// A range of the key changes of a table.
pub(in crate::sqlite) struct Arrivals {
    /// Behind which entry it begins, and the last one.
    pub(super) range: (i64, i64),
    /// Where they are, in SQL.
    pub(super) source: String,
    copy: Option<Copied>,
}

impl Arrivals {
    /// Those of the table at `position`, to be looked for by so many rows. Inside a savepoint that
    /// is undone or followed by [`Arrivals::forget`].
    pub(in crate::sqlite) fn of(
        connection: &Connection,
        table: &PublishedTable,
        position: usize,
        range: (i64, i64),
        rows: u64,
    ) -> Result<Arrivals, Failure> {
        let keys = keys_name(&table.name);
        let mut copied = None;
        if rows >= ROWS_COPIED {
            // One upload has two of them: what others did before, and what it did itself.
            let copy = format!("syncline_arrivals_{position}_{}", range.0);
            let key = table.key.iter().map(|at| becomes(&table.columns[usize::from(*at)]));
            let key: Vec<String> = key.collect();
            copied = Copied::of(connection, (&keys, copy), range, &key)?;
        }
        let source = copied.as_ref().map_or_else(|| ident(&keys), Copied::source);
        Ok(Arrivals { range, source, copy: copied })
    }

    /// Leaves nothing behind.
    pub(in crate::sqlite) fn forget(&self, connection: &Connection) -> Result<(), Failure> {
        self.copy.as_ref().map_or(Ok(()), |copy| copy.forget(connection))
    }
}

#[cfg(test)]
mod tests {
    use super::super::moves::{chain, made_by};
    use super::*;
    use model::{Direction, ValueRef};
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

    /// A record of key changes: each has the key before, the key after, and who made it.
    fn with_changes(
        changes: impl Iterator<Item = (String, String, Option<&'static str>)>,
    ) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE \"syncline_keys_t\" (sequence INTEGER PRIMARY KEY,
                     \"was_id\" TEXT COLLATE NOCASE, \"is_id\" TEXT COLLATE NOCASE, remote_id TEXT,
                     UNIQUE (\"was_id\", sequence))",
            )
            .unwrap();
        let sql = "INSERT INTO syncline_keys_t (was_id, is_id, remote_id) VALUES (?1, ?2, ?3)";
        for (was, is, by) in changes {
            connection.prepare_cached(sql).unwrap().execute((was, is, by)).unwrap();
        }
        connection
    }

    /// The steps that SQLite takes to note for so many rows who changed their keys.
    fn steps(rows: i64) -> u64 {
        let mut connection =
            with_changes((0..rows).map(|id| (format!("a{id}"), format!("b{id}"), None)));
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        let arrivals = Arrivals::of(&connection, &table(), 0, (0, i64::MAX), rows as u64).unwrap();
        for id in 0..rows {
            let key = format!("a{id}");
            let key = [ValueRef::Text(key.as_bytes())];
            made_by(&connection, &table(), &key, &arrivals, "r").unwrap();
        }
        arrivals.forget(&connection).unwrap();
        let noted = "SELECT count(*) FROM syncline_keys_t WHERE remote_id = 'r'";
        let noted: i64 = connection.query_row(noted, [], |row| row.get(0)).unwrap();
        assert_eq!(noted, rows);
        steps.load(Ordering::Relaxed)
    }

    // S9: for each row all key changes were read.
    #[test]
    fn many_key_changes_take_as_many_steps_each_as_a_few() {
        let (few, many) = (steps(100), steps(800));
        assert!(many < 10 * few, "{few} steps for 100 rows, {many} for 800");
    }

    // S5, Trap 10, Trap 22: chains, rings, keys that others came to, in another spelling too.
    #[test]
    fn a_copy_tells_the_same_of_each_row() {
        let draw = |at: u64| at.wrapping_mul(6_364_136_223_846_793_005).rotate_left(21) % 11;
        let key = |number: u64| match number % 2 {
            0 => format!("k{number}"),
            _ => format!("K{number}"),
        };
        let by = |number: u64| [None, Some("r"), Some("other")][number as usize % 3];
        let changes = (1..200).map(|at| (key(draw(at)), key(draw(at + 1000)), by(draw(at + 5))));
        let connection = with_changes(changes);
        let (mut moved, mut replaced) = (0, 0);
        for since in [0, 20, 150, 190] {
            let range = (since, 195);
            let [plain, copied] =
                [0, 1000].map(|rows| Arrivals::of(&connection, &table(), 3, range, rows).unwrap());
            assert_ne!(plain.source, copied.source);
            for key in (0..11).flat_map(|number| [format!("k{number}"), format!("K{number}")]) {
                let key = [ValueRef::Text(key.as_bytes())];
                let of = |arrivals| chain(&connection, &table(), &key, arrivals, "r").unwrap();
                let (steps, is_replaced) = of(&plain);
                assert_eq!(of(&copied), (steps.clone(), is_replaced), "{key:?} since {since}");
                moved += steps.len();
                replaced += usize::from(is_replaced);
            }
            copied.forget(&connection).unwrap();
        }
        assert!(moved > 20 && replaced > 2, "{moved} {replaced}");
    }
}
