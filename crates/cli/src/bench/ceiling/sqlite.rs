//! Bare SQLite: prepared statements, one writer with group commit, several readers.

use super::{Ceiling, Load};
use crate::args::Operation;
use crate::bench::clock::Stopwatch;
use crate::bench::cpu;
use crate::bench::purchase::{DEFINITION, Purchase};
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
            ids: [purchase.employee(), purchase.id(), purchase.customer()],
            cost: purchase.cost_real(),
            cost_after: purchase.after_update().cost_real(),
            order_date: purchase.order_date(),
            notes: purchase.notes(),
        }
    }
}

/// Measures in a new file.
pub(in crate::bench) fn measure(file: &Path, load: &Load) -> Result<Ceiling, Failure> {
    let transactions: Vec<Vec<BoundRow>> = (0..load.transactions)
        .map(|number| load.transaction(number).iter().map(BoundRow::new).collect())
        .collect();
    let mut writer = open(file).map_err(failed)?;
    writer.execute_batch(&format!("CREATE TABLE purchase ({DEFINITION})")).map_err(failed)?;
    if load.needs_rows() {
        write(&mut writer, Operation::UploadInsert, &transactions).map_err(failed)?;
        writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(failed)?;
    }
    if load.operation == Operation::Download {
        return best_of_readers(file, load, &transactions);
    }
    let (before, started) = (cpu::used_by(std::process::id()), Stopwatch::start());
    write(&mut writer, load.operation, &transactions).map_err(failed)?;
    let took = started.elapsed();
    let cpu = cpu::used_by(std::process::id()).zip(before).map(|(after, before)| after - before);
    let technique = "prepared statements, one writer, 16 transactions per commit";
    Ok(Ceiling::new(technique, 1, load.rows(), took, cpu))
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")?;
    Ok(connection)
}

fn write(
    connection: &mut Connection,
    operation: Operation,
    transactions: &[Vec<BoundRow>],
) -> rusqlite::Result<()> {
    let sql = match operation {
        Operation::UploadInsert | Operation::Download => {
            "INSERT INTO purchase VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        }
        Operation::UploadUpdate => {
            "UPDATE purchase SET cust_id = ?3, cost = ?7, order_date = ?5, notes = ?6
             WHERE emp_id = ?1 AND purch_id = ?2 AND cust_id IS ?3 AND cost IS ?4
                 AND order_date IS ?5 AND notes IS ?6"
        }
        Operation::UploadDelete => "DELETE FROM purchase WHERE emp_id = ?1 AND purch_id = ?2",
    };
    for group in transactions.chunks(TRANSACTIONS_PER_COMMIT) {
        let transaction = connection.transaction()?;
        let mut statement = transaction.prepare_cached(sql)?;
        for rows in group {
            transaction.execute_batch("SAVEPOINT one")?;
            for BoundRow { ids, cost, cost_after, order_date, notes } in rows {
                let [employee, id, customer] = ids;
                match operation {
                    Operation::UploadDelete => statement.execute([employee, id])?,
                    Operation::UploadUpdate => statement.execute(params![
                        employee, id, customer, cost, order_date, notes, cost_after
                    ])?,
                    Operation::UploadInsert | Operation::Download => statement
                        .execute(params![employee, id, customer, cost, order_date, notes])?,
                };
            }
            transaction.execute_batch("RELEASE one")?;
        }
        drop(statement);
        transaction.commit()?;
    }
    Ok(())
}

fn best_of_readers(
    file: &Path,
    load: &Load,
    transactions: &[Vec<BoundRow>],
) -> Result<Ceiling, Failure> {
    let employees: Vec<i64> =
        transactions.iter().filter_map(|rows| rows.first()).map(|row| row.ids[0]).collect();
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
        let ceiling = Ceiling::new(technique, readers, rows, took, cpu);
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
            let mut rows = statement.query([employee])?;
            while let Some(row) = rows.next()? {
                for column in 0..6 {
                    row.get_ref(column)?;
                }
                count += 1;
            }
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

    #[test]
    fn every_operation_does_what_it_says() {
        for (operation, remaining) in [
            (Operation::Download, 60),
            (Operation::UploadInsert, 60),
            (Operation::UploadUpdate, 60),
            (Operation::UploadDelete, 0),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("bare.db");
            let load = Load { operation, rows_per_transaction: 3, transactions: 20 };
            let ceiling = measure(&file, &load).unwrap();
            assert!(ceiling.rows_per_second > 0.0);
            let connection = Connection::open(&file).unwrap();
            let count =
                |sql: &str| -> i64 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
            assert_eq!(count("SELECT count(*) FROM purchase"), remaining, "{operation:?}");
            let changed = count("SELECT count(*) FROM purchase WHERE cost > 123456790");
            assert_eq!(changed, if operation == Operation::UploadUpdate { 60 } else { 0 });
        }
    }
}
