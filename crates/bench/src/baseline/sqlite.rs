//! Bare SQLite: prepared statements, one writer with group commit, several readers.

use super::{Baseline, Deletes, Load};
use crate::clock::Stopwatch;
use crate::layout::notes_len;
use crate::machine::cpu;
use crate::options::Operation;
use crate::purchase::{Content, Purchase, Table, WIDTH};
use model::{Code, Failure};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Transactions that become durable together (`limits.md` E).
const TRANSACTIONS_PER_COMMIT: u32 = 16;

/// Connections that read at once.
const READERS: [u32; 3] = [2, 4, 8];

/// What a row has besides its key, ready to be bound.
struct Values {
    third: i64,
    cost: f64,
    cost_after: f64,
    order_date: String,
    notes: String,
}

impl Values {
    fn new(purchase: &Purchase) -> Values {
        Values {
            third: purchase.third(),
            cost: purchase.cost_real(),
            cost_after: purchase.with(Content::ByRemote).cost_real(),
            order_date: purchase.order_date(),
            notes: purchase.notes(),
        }
    }
}

/// The rows of a load.
struct Rows {
    load: Load,
    /// The number of the first row of every employee.
    first_id: i64,
    /// Shared by all rows, in turn.
    values: Vec<Values>,
}

impl Rows {
    fn new(load: &Load) -> Rows {
        let kept = load.kept_rows();
        Rows {
            load: *load,
            first_id: kept.first().map_or(0, Purchase::id),
            values: kept.iter().map(Values::new).collect(),
        }
    }

    /// So many rows of a transaction: their numbers and values.
    fn first(&self, rows: u32) -> impl Iterator<Item = (i64, &Values)> {
        (self.first_id..).zip(self.values.iter().cycle()).take(rows as usize)
    }

    /// The transactions, as many at a time as become durable together.
    fn groups(&self) -> impl Iterator<Item = std::ops::Range<u32>> + use<> {
        let all = self.load.transactions;
        let begins = (0..all).step_by(TRANSACTIONS_PER_COMMIT as usize);
        begins.map(move |begin| begin..all.min(begin + TRANSACTIONS_PER_COMMIT))
    }
}

/// Measures in a new file. `log` makes the table that deletes are logged in.
pub(crate) fn measure(file: &Path, load: &Load, log: &str) -> Result<Baseline, Failure> {
    let rows = Rows::new(load);
    let mut writer = open(file).map_err(failed)?;
    let definition = Table::Purchase.definition("purchase", notes_len(load.model()));
    writer
        .execute_batch(&format!("CREATE TABLE purchase ({definition}); {log}"))
        .map_err(failed)?;
    if load.operation() == Operation::Download {
        fill(&mut writer, &rows).map_err(failed)?;
        return best_of_readers(file, load);
    }
    let mut measure = |deletes| measure_writes(&mut writer, &rows, deletes).map_err(failed);
    let bare = measure(Deletes::Bare)?;
    let tracked = match load.operation() {
        Operation::UploadDelete => Some(measure(Deletes::Tracked)?),
        _ => None,
    };
    Ok(bare.with_tracked_delete(tracked))
}

/// Writes the rows that must be there before the work begins.
fn fill(writer: &mut Connection, rows: &Rows) -> rusqlite::Result<()> {
    writer.execute_batch("DELETE FROM purchase")?;
    let insert = Statements::of(writer, Operation::UploadInsert, Deletes::Bare)?;
    for group in rows.groups() {
        let transaction = writer.transaction()?;
        for number in group {
            let employee = rows.load.employee(number);
            write(&transaction, &insert, employee, rows.first(rows.load.rows_each()))?;
        }
        transaction.commit()?;
    }
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
}

fn measure_writes(
    writer: &mut Connection,
    rows: &Rows,
    deletes: Deletes,
) -> rusqlite::Result<Baseline> {
    let load = &rows.load;
    if load.needs_rows() {
        fill(writer, rows)?;
    }
    let statements = Statements::of(writer, load.operation(), deletes)?;
    let (before, started) = (cpu::used_by(std::process::id()), Stopwatch::start());
    work(writer, &statements, rows)?;
    let took = started.elapsed();
    let cpu = cpu::used_by(std::process::id()).zip(before).map(|(after, before)| after - before);
    let technique = match (load.operation(), deletes) {
        (_, Deletes::Tracked) => {
            "prepared deletes and entries of the log, one writer, 16 transactions per commit"
        }
        (Operation::Exchange, _) => {
            "prepared updates and SELECT, one writer, 16 transactions per commit"
        }
        _ => "prepared statements, one writer, 16 transactions per commit",
    };
    Ok(Baseline::new(technique.to_owned(), 1, load.rows(), took, cpu))
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")?;
    Ok(connection)
}

/// The statements of an operation.
struct Statements {
    operation: Operation,
    write: &'static str,
    /// The entry of the log after each row.
    log: Option<String>,
}

impl Statements {
    fn of(
        connection: &Connection,
        operation: Operation,
        deletes: Deletes,
    ) -> rusqlite::Result<Statements> {
        let write = match operation {
            Operation::UploadInsert | Operation::Download => {
                "INSERT INTO purchase VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
            }
            Operation::UploadUpdate | Operation::Exchange => {
                "UPDATE purchase SET cust_id = ?3, cost = ?7, order_date = ?5, notes = ?6
                 WHERE emp_id = ?1 AND purch_id = ?2 AND cust_id IS ?3 AND cost IS ?4
                     AND order_date IS ?5 AND notes IS ?6"
            }
            Operation::UploadDelete => "DELETE FROM purchase WHERE emp_id = ?1 AND purch_id = ?2",
        };
        let log = match deletes {
            Deletes::Bare => None,
            Deletes::Tracked => Some(log_entry(connection)?),
        };
        Ok(Statements { operation, write, log })
    }
}

/// The statement that logs a delete, whatever columns the deployed log has.
fn log_entry(connection: &Connection) -> rusqlite::Result<String> {
    let mut statement = connection.prepare(
        "SELECT name FROM pragma_table_info('syncline_log_purchase')
         WHERE name <> 'syncline_sequence'",
    )?;
    let columns: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let value = |column: &String| match column.as_str() {
        "emp_id" | "syncline_place_emp_id" => "?1",
        "purch_id" => "?2",
        // The only flag: the row has left its place.
        _ => "1",
    };
    let values: Vec<&str> = columns.iter().map(value).collect();
    Ok(format!(
        "INSERT INTO syncline_log_purchase ({}) VALUES ({})",
        columns.join(", "),
        values.join(", ")
    ))
}

fn work(connection: &mut Connection, statements: &Statements, rows: &Rows) -> rusqlite::Result<()> {
    let (load, written) = (&rows.load, rows.load.rows_written());
    for group in rows.groups() {
        let transaction = connection.transaction()?;
        for number in group {
            let employee = load.employee(number);
            transaction.execute_batch("SAVEPOINT one")?;
            write(&transaction, statements, employee, rows.first(written))?;
            if written < load.rows_each() {
                let mut select = transaction.prepare_cached(
                    "SELECT * FROM purchase WHERE emp_id = ?1 AND purch_id >= ?2",
                )?;
                let first = rows.first_id + i64::from(written);
                count_rows(&mut select.query([employee, first])?)?;
            }
            transaction.execute_batch("RELEASE one")?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn write<'a>(
    connection: &Connection,
    statements: &Statements,
    employee: i64,
    rows: impl Iterator<Item = (i64, &'a Values)>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statements.write)?;
    let mut log = statements.log.as_ref().map(|sql| connection.prepare_cached(sql)).transpose()?;
    for (id, Values { third, cost, cost_after, order_date, notes }) in rows {
        match statements.operation {
            Operation::UploadDelete => statement.execute([employee, id])?,
            Operation::UploadUpdate | Operation::Exchange => statement
                .execute(params![employee, id, third, cost, order_date, notes, cost_after])?,
            Operation::UploadInsert | Operation::Download => {
                statement.execute(params![employee, id, third, cost, order_date, notes])?
            }
        };
        if let Some(log) = &mut log {
            log.execute([employee, id])?;
        }
    }
    Ok(())
}

/// Looks at every value of every row.
fn count_rows(rows: &mut rusqlite::Rows<'_>) -> rusqlite::Result<u64> {
    let mut count = 0;
    while let Some(row) = rows.next()? {
        for column in 0..WIDTH {
            row.get_ref(column)?;
        }
        count += 1;
    }
    Ok(count)
}

fn best_of_readers(file: &Path, load: &Load) -> Result<Baseline, Failure> {
    let mut best: Option<Baseline> = None;
    // More readers than transactions would have nothing to do.
    for readers in READERS.into_iter().filter(|it| *it <= load.transactions) {
        let (before, started) = (cpu::used_by(std::process::id()), Stopwatch::start());
        let (transactions, rows) = read_with(file, load, readers, &started)?;
        let took = started.elapsed();
        let cpu =
            cpu::used_by(std::process::id()).zip(before).map(|(after, before)| after - before);
        let wanted = u64::from(transactions) * u64::from(load.rows_each());
        if rows != wanted {
            let message = format!("{rows} rows were read instead of {wanted}");
            return Err(Failure::new(Code::BenchmarkWrong, message));
        }
        let technique = "prepared statements, several readers, values not decoded";
        let baseline = Baseline::new(technique.to_owned(), readers, rows, took, cpu);
        best = Some(match best {
            Some(best) => best.best(baseline),
            None => baseline,
        });
    }
    best.ok_or_else(|| Failure::new(Code::Bug, "nothing was measured"))
}

/// Reads the rows of all employees, shared among so many connections; how many transactions and
/// rows there were.
fn read_with(
    file: &Path,
    load: &Load,
    readers: u32,
    running: &Stopwatch,
) -> Result<(u32, u64), Failure> {
    let next = AtomicU32::new(0);
    let read = || -> rusqlite::Result<(u32, u64)> {
        let connection = open(file)?;
        let mut statement = connection.prepare("SELECT * FROM purchase WHERE emp_id = ?1")?;
        let (mut transactions, mut rows) = (0, 0);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if !load.includes(number, running) {
                return Ok((transactions, rows));
            }
            let employee = load.employee(number % load.transactions);
            rows += count_rows(&mut statement.query([employee])?)?;
            transactions += 1;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        let (mut transactions, mut rows) = (0, 0);
        for thread in threads {
            let crashed = |_| Failure::new(Code::Bug, "a reader of the baseline crashed");
            let done = thread.join().map_err(crashed)?.map_err(failed)?;
            transactions += done.0;
            rows += done.1;
        }
        Ok((transactions, rows))
    })
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::new(Code::ScriptFailed, "measuring the bare database failed").source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::options::{Model, Notes};

    #[test]
    fn every_operation_does_what_it_says() {
        for (operation, remaining, changed) in [
            (Operation::Download, 4, 0),
            (Operation::UploadInsert, 4, 0),
            (Operation::UploadUpdate, 4, 4),
            (Operation::UploadDelete, 0, 0),
            (Operation::Exchange, 4, 2),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("bare.db");
            let layout = Layout {
                operation,
                model: Model::Purchase,
                tables: 1,
                clients: 16,
                rows: 4,
                sets: 1,
                conflicts_percent: 0,
                notes: Notes::Random,
            };
            let load = Load { transactions: 16, ..Load::of(&layout).unwrap() };
            let log = "CREATE TABLE syncline_log_purchase (syncline_sequence INTEGER PRIMARY KEY,
                       emp_id, purch_id, syncline_place_emp_id, syncline_moved)";
            let baseline = measure(&file, &load, log).unwrap();
            assert!(baseline.rows_per_second > 0.0);
            let connection = Connection::open(&file).unwrap();
            // For each transaction.
            let count = |sql: &str| -> i64 {
                let rows: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
                assert_eq!(rows % i64::from(load.transactions), 0, "{operation:?}: {sql}");
                rows / i64::from(load.transactions)
            };
            assert_eq!(count("SELECT count(*) FROM purchase"), remaining, "{operation:?}");
            let found = count("SELECT count(*) FROM purchase WHERE cost > 123456790");
            assert_eq!(found, changed, "{operation:?}");
            let logged = "SELECT count(*) FROM syncline_log_purchase WHERE syncline_moved = 1";
            assert_eq!(count(logged), 4 - remaining, "{operation:?}");
            assert_eq!(baseline.tracked_delete.is_some(), operation == Operation::UploadDelete);
        }
    }
}
