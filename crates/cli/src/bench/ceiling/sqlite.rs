//! Bare SQLite: prepared statements, one writer with group commit, several readers.

use super::{Ceiling, Deletes, Load};
use crate::args::Operation;
use crate::bench::clock::Stopwatch;
use crate::bench::cpu;
use crate::bench::layout::notes_len;
use crate::bench::purchase::{Content, Purchase, Table, WIDTH};
use model::{Code, Failure};
use rusqlite::{Connection, params};
use std::path::Path;

/// Transactions that become durable together (`limits.md` E).
const TRANSACTIONS_PER_COMMIT: usize = 16;

/// Connections that read at once.
const READERS: [u32; 3] = [2, 4, 8];

/// A row, ready to be bound.
struct BoundRow {
    ids: [i64; 3],
    cost: f64,
    cost_after: f64,
    order_date: String,
    notes: String,
}

impl BoundRow {
    fn new(purchase: &Purchase) -> BoundRow {
        BoundRow {
            ids: [purchase.employee(), purchase.id(), purchase.third()],
            cost: purchase.cost_real(),
            cost_after: purchase.with(Content::ByRemote).cost_real(),
            order_date: purchase.order_date(),
            notes: purchase.notes(),
        }
    }
}

/// One transaction: rows that are written, then rows that are read.
struct Transaction {
    rows: Vec<BoundRow>,
    written: usize,
}

/// Measures in a new file. `log` makes the table that deletes are logged in.
pub(in crate::bench) fn measure(file: &Path, load: &Load, log: &str) -> Result<Ceiling, Failure> {
    let transactions: Vec<Transaction> = (0..load.transactions)
        .map(|number| {
            let (rows, written) = load.transaction(number);
            Transaction { rows: rows.iter().map(BoundRow::new).collect(), written }
        })
        .collect();
    let mut writer = open(file).map_err(failed)?;
    let definition = Table::Purchase.definition("", notes_len(load.model()));
    writer
        .execute_batch(&format!("CREATE TABLE purchase ({definition}); {log}"))
        .map_err(failed)?;
    if load.operation() == Operation::Download {
        fill(&mut writer, &transactions)?;
        return best_of_readers(file, load, &transactions);
    }
    let mut measure = |deletes| measure_writes(&mut writer, load, &transactions, deletes);
    let bare = measure(Deletes::Bare)?;
    let tracked = match load.operation() {
        Operation::UploadDelete => Some(measure(Deletes::Tracked)?),
        _ => None,
    };
    Ok(bare.with_tracked_delete(tracked))
}

/// Writes the rows that must be there before the work begins.
fn fill(writer: &mut Connection, transactions: &[Transaction]) -> Result<(), Failure> {
    writer.execute_batch("DELETE FROM purchase").map_err(failed)?;
    let insert = Statements::of(writer, Operation::UploadInsert, Deletes::Bare).map_err(failed)?;
    for group in transactions.chunks(TRANSACTIONS_PER_COMMIT) {
        let transaction = writer.transaction().map_err(failed)?;
        for Transaction { rows, .. } in group {
            write(&transaction, &insert, rows).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
    }
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(failed)
}

fn measure_writes(
    writer: &mut Connection,
    load: &Load,
    transactions: &[Transaction],
    deletes: Deletes,
) -> Result<Ceiling, Failure> {
    if load.needs_rows() {
        fill(writer, transactions)?;
    }
    let statements = Statements::of(writer, load.operation(), deletes).map_err(failed)?;
    let (before, started) = (cpu::used_by(std::process::id()), Stopwatch::start());
    work(writer, &statements, transactions).map_err(failed)?;
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
    Ok(Ceiling::new(technique.to_owned(), 1, load.rows(), took, cpu))
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
    /// The entry of the log, behind each row.
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
        "SELECT name FROM pragma_table_info('syncline_log_purchase') WHERE name <> 'sequence'",
    )?;
    let columns: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let value = |column: &String| match column.as_str() {
        "emp_id" | "place_emp_id" => "?1",
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

fn work(
    connection: &mut Connection,
    statements: &Statements,
    transactions: &[Transaction],
) -> rusqlite::Result<()> {
    for group in transactions.chunks(TRANSACTIONS_PER_COMMIT) {
        let transaction = connection.transaction()?;
        for Transaction { rows, written } in group {
            transaction.execute_batch("SAVEPOINT one")?;
            let (write_these, read_these) = rows.split_at(*written);
            write(&transaction, statements, write_these)?;
            if let Some(first) = read_these.first() {
                let mut select = transaction.prepare_cached(
                    "SELECT * FROM purchase WHERE emp_id = ?1 AND purch_id >= ?2",
                )?;
                count_rows(&mut select.query([first.ids[0], first.ids[1]])?)?;
            }
            transaction.execute_batch("RELEASE one")?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn write(
    connection: &Connection,
    statements: &Statements,
    rows: &[BoundRow],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statements.write)?;
    let mut log = statements.log.as_ref().map(|sql| connection.prepare_cached(sql)).transpose()?;
    for BoundRow { ids, cost, cost_after, order_date, notes } in rows {
        let [employee, id, third] = ids;
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

fn best_of_readers(
    file: &Path,
    load: &Load,
    transactions: &[Transaction],
) -> Result<Ceiling, Failure> {
    let employees: Vec<i64> =
        transactions.iter().filter_map(|it| it.rows.first()).map(|row| row.ids[0]).collect();
    let mut best: Option<Ceiling> = None;
    for readers in READERS {
        let (before, started) = (cpu::used_by(std::process::id()), Stopwatch::start());
        let rows = read_with(file, &employees, readers)?;
        let took = started.elapsed();
        let cpu =
            cpu::used_by(std::process::id()).zip(before).map(|(after, before)| after - before);
        if rows != load.rows() {
            let message = format!("{rows} rows were read instead of {}", load.rows());
            return Err(Failure::new(Code::BenchmarkWrong, message));
        }
        let technique = "prepared statements, several readers, values not decoded";
        let ceiling = Ceiling::new(technique.to_owned(), readers, rows, took, cpu);
        best = Some(match best {
            Some(best) => best.best(ceiling),
            None => ceiling,
        });
    }
    best.ok_or_else(|| Failure::new(Code::Bug, "nothing was measured"))
}

/// Reads the rows of all employees, shared among so many connections; how many there were.
fn read_with(file: &Path, employees: &[i64], readers: u32) -> Result<u64, Failure> {
    let share = employees.len().div_ceil(readers as usize).max(1);
    let read = |employees: &[i64]| -> rusqlite::Result<u64> {
        let connection = open(file)?;
        let mut statement = connection.prepare("SELECT * FROM purchase WHERE emp_id = ?1")?;
        let mut count = 0;
        for employee in employees {
            count += count_rows(&mut statement.query([employee])?)?;
        }
        Ok(count)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            employees.chunks(share).map(|employees| scope.spawn(move || read(employees))).collect();
        let mut sum = 0;
        for thread in threads {
            let crashed = |_| Failure::new(Code::Bug, "a reader of the ceiling crashed");
            sum += thread.join().map_err(crashed)?.map_err(failed)?;
        }
        Ok(sum)
    })
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::new(Code::ScriptFailed, "measuring the bare database failed").source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Model;
    use crate::bench::layout::Layout;

    #[test]
    fn every_operation_does_what_it_says() {
        for (operation, remaining, changed) in [
            (Operation::Download, 64, 0),
            (Operation::UploadInsert, 64, 0),
            (Operation::UploadUpdate, 64, 64),
            (Operation::UploadDelete, 0, 0),
            (Operation::Exchange, 64, 32),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("bare.db");
            let layout = Layout {
                operation,
                model: Model::Purchase,
                clients: 16,
                rows: 4,
                sets: 1,
                conflicts_percent: 0,
            };
            let load = Load::of(&layout).unwrap();
            let log = "CREATE TABLE syncline_log_purchase (sequence INTEGER PRIMARY KEY,
                       emp_id, purch_id, place_emp_id, syncline_moved)";
            let ceiling = measure(&file, &load, log).unwrap();
            assert!(ceiling.rows_per_second > 0.0);
            let connection = Connection::open(&file).unwrap();
            let count =
                |sql: &str| -> i64 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
            assert_eq!(count("SELECT count(*) FROM purchase"), remaining, "{operation:?}");
            let found = count("SELECT count(*) FROM purchase WHERE cost > 123456790");
            assert_eq!(found, changed, "{operation:?}");
            let logged = "SELECT count(*) FROM syncline_log_purchase WHERE syncline_moved = 1";
            assert_eq!(count(logged), 64 - remaining, "{operation:?}");
            assert_eq!(ceiling.tracked_delete.is_some(), operation == Operation::UploadDelete);
        }
    }
}
