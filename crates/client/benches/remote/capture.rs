//! What the triggers add to the writes of a program that does not know Syncline.

use crate::site::{CREATE, Place, REST, Site, connect};
use divan::Bencher;
use divan::counter::ItemsCount;
use rusqlite::Connection;
use tempfile::TempDir;

const ROWS: i64 = 1_000;

/// A file with rows, a remote or not.
enum Table {
    Bare(TempDir),
    Remote(Box<Site>),
}

impl Table {
    fn new(captured: bool) -> Table {
        if captured {
            return Table::Remote(Box::new(Site::with_rows(Place::Disk, ROWS)));
        }
        let folder = Place::Disk.folder();
        let connection = connect(&folder.path().join("remote.db"));
        connection.execute_batch(CREATE).unwrap();
        write(&connection, &insert(), 0..ROWS);
        Table::Bare(folder)
    }

    fn connect(&self) -> Connection {
        match self {
            Table::Bare(folder) => connect(&folder.path().join("remote.db")),
            Table::Remote(site) => site.writer(),
        }
    }
}

fn insert() -> String {
    format!("INSERT INTO purchase VALUES (100000001, 200000000 + ?1, {REST})")
}

fn write(connection: &Connection, sql: &str, rows: std::ops::Range<i64>) {
    connection.execute_batch("BEGIN").unwrap();
    let mut statement = connection.prepare_cached(sql).unwrap();
    for n in rows {
        statement.execute([n]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn measure(bencher: Bencher<'_, '_>, captured: bool, sql: &str, first: i64) {
    bencher
        .counter(ItemsCount::new(ROWS as u64))
        .with_inputs(|| {
            let table = Table::new(captured);
            let connection = table.connect();
            connection.prepare_cached(sql).unwrap();
            (table, connection)
        })
        .bench_local_refs(|(_, connection)| write(connection, sql, first..first + ROWS));
}

#[divan::bench(args = [false, true], sample_count = 30)]
fn insert_captured(bencher: Bencher<'_, '_>, captured: bool) {
    measure(bencher, captured, &insert(), ROWS);
}

#[divan::bench(args = [false, true], sample_count = 30)]
fn update_captured(bencher: Bencher<'_, '_>, captured: bool) {
    let sql = "UPDATE purchase SET cost = cost + 1
               WHERE emp_id = 100000001 AND purch_id = 200000000 + ?1";
    measure(bencher, captured, sql, 0);
}

#[divan::bench(args = [false, true], sample_count = 30)]
fn delete_captured(bencher: Bencher<'_, '_>, captured: bool) {
    let sql = "DELETE FROM purchase WHERE emp_id = 100000001 AND purch_id = 200000000 + ?1";
    measure(bencher, captured, sql, 0);
}
