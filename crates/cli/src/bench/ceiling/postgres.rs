//! Bare PostgreSQL: set statements over arrays, and binary results that nobody decodes.
//!
//! On a table without tracking. The best of several numbers of connections counts.

use super::{Ceiling, Deletes, Load};
use crate::args::Operation;
use crate::bench::centre::{FILLFACTOR, NAME};
use crate::bench::clock::Stopwatch;
use crate::bench::cpu;
use crate::bench::layout::notes_len;
use crate::bench::machine;
use crate::bench::processors::Processors;
use crate::bench::purchase::{Content, Purchase, Table};
use crate::bench::session::{self, Numeric, Session, Timestamp};
use consolidated::PostgresUrl;
use futures_util::TryStreamExt;
use model::{Code, Failure};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Statement};

/// Connections that work at once.
const CONNECTIONS: [u32; 3] = [2, 4, 8];

/// One transaction: the rows that are written as arrays, one per column, with the changed cost
/// behind the others; and where the rows begin that are read.
struct Columns {
    employees: Vec<i32>,
    ids: Vec<i32>,
    thirds: Vec<i32>,
    costs: Vec<Numeric>,
    dates: Vec<Timestamp>,
    notes: Vec<String>,
    costs_after: Vec<Numeric>,
}

impl Columns {
    fn new(rows: &[Purchase]) -> Columns {
        let column = |f: fn(&Purchase) -> i64| -> Vec<i32> {
            rows.iter().map(|row| f(row) as i32).collect()
        };
        let cost_after = |row: &Purchase| Numeric::cost(&row.with(Content::ByRemote));
        Columns {
            employees: column(Purchase::employee),
            ids: column(Purchase::id),
            thirds: column(Purchase::third),
            costs: rows.iter().map(Numeric::cost).collect(),
            dates: rows.iter().map(Timestamp::order_date).collect(),
            notes: rows.iter().map(Purchase::notes).collect(),
            costs_after: rows.iter().map(cost_after).collect(),
        }
    }

    fn parameters(&self, operation: Operation) -> Vec<&(dyn ToSql + Sync)> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&self.employees, &self.ids];
        if operation != Operation::UploadDelete {
            let values: [&(dyn ToSql + Sync); 4] =
                [&self.thirds, &self.costs, &self.dates, &self.notes];
            parameters.extend(values);
        }
        if matches!(operation, Operation::UploadUpdate | Operation::Exchange) {
            // The new image of all that is no key, as an update ships it.
            let values: [&(dyn ToSql + Sync); 4] =
                [&self.thirds, &self.costs_after, &self.dates, &self.notes];
            parameters.extend(values);
        }
        parameters
    }
}

/// One transaction.
struct Transaction {
    all: Columns,
    written: Columns,
    /// The key where reading begins, if anything is read.
    read_from: Option<(i32, i32)>,
}

impl Transaction {
    fn new(load: &Load, number: u32) -> Transaction {
        let (rows, written) = load.transaction(number);
        let key = |row: &Purchase| (row.employee() as i32, row.id() as i32);
        Transaction {
            all: Columns::new(&rows),
            written: Columns::new(&rows[..written]),
            read_from: rows.get(written).map(key),
        }
    }
}

/// What does the work, and where.
struct Bench<'a> {
    runtime: Runtime,
    config: Config,
    backend: Option<u32>,
    load: &'a Load,
    transactions: Arc<Vec<Transaction>>,
    /// Chooses processors for the connections.
    pinning: Option<(&'a Processors, Session)>,
}

/// Measures on a table of its own, with every number of connections.
pub(in crate::bench) fn measure(
    url: &PostgresUrl,
    backend: Option<u32>,
    load: &Load,
    processors: Option<&Processors>,
) -> Result<Ceiling, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(machine::cores() as usize)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Bug, "cannot start the runtime").source(error))?;
    let transactions = (0..load.transactions).map(|number| Transaction::new(load, number));
    let open = |processors| Ok::<_, Failure>((processors, Session::open(url)?));
    let mut bench = Bench {
        runtime,
        config: session::config(url)?,
        backend,
        load,
        transactions: Arc::new(transactions.collect()),
        pinning: processors.map(open).transpose()?,
    };
    let bare = bench.best(Deletes::Bare)?;
    let tracked = match load.operation() {
        Operation::UploadDelete => Some(bench.best(Deletes::Tracked)?),
        _ => None,
    };
    Ok(bare.with_tracked_delete(tracked))
}

/// How arrays become rows. Which is faster depends on the version of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfolding {
    /// One function with several arguments, whose result is stored before it is read.
    Together,
    /// A function for each column, read row by row.
    EachByItself,
}

impl Unfolding {
    /// A relation with these columns, each of a parameter and its type.
    fn relation(self, columns: &[(&str, u32, &str)]) -> String {
        let list = |spell: &dyn Fn(&(&str, u32, &str)) -> String| {
            columns.iter().map(spell).collect::<Vec<_>>().join(", ")
        };
        match self {
            Unfolding::Together => format!(
                "unnest({}) AS u({})",
                list(&|(_, number, kind)| format!("${number}::{kind}[]")),
                list(&|(name, ..)| (*name).to_owned())
            ),
            Unfolding::EachByItself => format!(
                "(SELECT {}) AS u",
                list(&|(name, number, kind)| format!("unnest(${number}::{kind}[]) AS {name}"))
            ),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unfolding::Together => "unnest of all arrays",
            Unfolding::EachByItself => "unnest of each array",
        }
    }
}

fn technique(operation: Operation, deletes: Deletes, unfolding: Unfolding) -> String {
    let from = unfolding.name();
    match (operation, deletes) {
        (Operation::Download, _) => "prepared SELECT, binary results, not decoded".to_owned(),
        (Operation::UploadInsert, _) => format!("INSERT … SELECT FROM {from}"),
        (Operation::UploadUpdate, _) => format!("UPDATE … FROM {from}, old values compared"),
        (Operation::UploadDelete, Deletes::Bare) => format!("DELETE … USING {from}"),
        (Operation::UploadDelete, Deletes::Tracked) => {
            format!("DELETE … USING {from} that writes the same log of departures")
        }
        (Operation::Exchange, _) => {
            format!("UPDATE … FROM {from}, old values compared, and prepared SELECT")
        }
    }
}

/// What writes, one transaction each; for a download what reads.
fn statement(operation: Operation, unfolding: Unfolding) -> String {
    const KEY: [(&str, u32, &str); 2] = [("emp_id", 1, "int4"), ("purch_id", 2, "int4")];
    const IMAGE: [(&str, u32, &str); 6] = [
        KEY[0],
        KEY[1],
        ("cust_id", 3, "int4"),
        ("cost", 4, "numeric"),
        ("order_date", 5, "timestamp"),
        ("notes", 6, "text"),
    ];
    const NEW: [(&str, u32, &str); 4] = [
        ("new_cust_id", 7, "int4"),
        ("new_cost", 8, "numeric"),
        ("new_order_date", 9, "timestamp"),
        ("new_notes", 10, "text"),
    ];
    match operation {
        Operation::Download => READ.replace("NAME", NAME),
        Operation::UploadInsert => {
            format!("INSERT INTO {NAME}.bare SELECT * FROM {}", unfolding.relation(&IMAGE))
        }
        Operation::UploadUpdate | Operation::Exchange => format!(
            "UPDATE {NAME}.bare AS t
             SET cust_id = u.new_cust_id, cost = u.new_cost, order_date = u.new_order_date,
                 notes = u.new_notes
             FROM {}
             WHERE t.emp_id = u.emp_id AND t.purch_id = u.purch_id
                 AND t.cust_id = u.cust_id AND t.cost = u.cost
                 AND t.order_date = u.order_date AND t.notes IS NOT DISTINCT FROM u.notes",
            unfolding.relation(&[&IMAGE[..], &NEW].concat())
        ),
        Operation::UploadDelete => format!(
            "DELETE FROM {NAME}.bare AS t USING {}
             WHERE t.emp_id = u.emp_id AND t.purch_id = u.purch_id",
            unfolding.relation(&KEY)
        ),
    }
}

/// Reads the rows of an employee from one on.
const READ: &str = "SELECT emp_id, purch_id, cust_id, cost, order_date, notes
                    FROM NAME.bare WHERE emp_id = $1 AND purch_id >= $2";

/// The statement that also logs what it deletes, in a copy of the deployed log with all that it
/// has: so that whatever the log looks like, it is the same.
async fn tracked_delete(
    client: &Client,
    unfolding: Unfolding,
) -> Result<String, tokio_postgres::Error> {
    let copy = format!(
        "DROP TABLE IF EXISTS {NAME}.bare_gone;
         CREATE TABLE {NAME}.bare_gone (LIKE syncline.syncline_gone_purchase INCLUDING ALL)"
    );
    client.batch_execute(&copy).await?;
    let columns = format!(
        "SELECT attname::text FROM pg_attribute
         WHERE attrelid = '{NAME}.bare_gone'::regclass AND attnum > 0 AND NOT atthasdef"
    );
    let rows = client.query(&columns, &[]).await?;
    let columns: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let values: Vec<String> = columns
        .iter()
        .map(|column| format!("t.{}", column.strip_prefix("place_").unwrap_or(column)))
        .collect();
    Ok(format!(
        "WITH gone AS ({} RETURNING {}) INSERT INTO {NAME}.bare_gone ({}) SELECT * FROM gone",
        statement(Operation::UploadDelete, unfolding),
        values.join(", "),
        columns.join(", ")
    ))
}

/// A connection with all that it needs.
struct Worker {
    client: Client,
    write: Statement,
    read: Statement,
}

impl Bench<'_> {
    /// The faster unfolding, then the best number of connections.
    fn best(&mut self, deletes: Deletes) -> Result<Ceiling, Failure> {
        let [first, others @ ..] = CONNECTIONS;
        let mut unfolding = Unfolding::EachByItself;
        let mut best = self.measure(deletes, unfolding, first)?;
        if self.load.operation() != Operation::Download {
            let other = self.measure(deletes, Unfolding::Together, first)?;
            if other.rows_per_second > best.rows_per_second {
                (unfolding, best) = (Unfolding::Together, other);
            }
        }
        for connections in others {
            best = best.best(self.measure(deletes, unfolding, connections)?);
        }
        Ok(best)
    }

    fn measure(
        &mut self,
        deletes: Deletes,
        unfolding: Unfolding,
        connections: u32,
    ) -> Result<Ceiling, Failure> {
        let sql = self.runtime.block_on(self.fill(deletes, unfolding))?;
        let (took, used) = self.work(&sql, connections)?;
        let technique = technique(self.load.operation(), deletes, unfolding);
        Ok(Ceiling::new(technique, connections, self.load.rows(), took, used))
    }

    /// Makes the table anew, with the rows that the operation needs; the statement to measure.
    async fn fill(&self, deletes: Deletes, unfolding: Unfolding) -> Result<String, Failure> {
        let client = session::connect(&self.config).await?;
        let fill = async {
            let definition = Table::Purchase.definition("", notes_len(self.load.model()));
            let create = format!(
                "DROP TABLE IF EXISTS {NAME}.bare;
                 CREATE TABLE {NAME}.bare ({definition}) WITH (fillfactor = {FILLFACTOR})"
            );
            client.batch_execute(&create).await?;
            if self.load.needs_rows() {
                let insert = client.prepare(&statement(Operation::UploadInsert, unfolding)).await?;
                for Transaction { all, .. } in self.transactions.iter() {
                    client.execute(&insert, &all.parameters(Operation::UploadInsert)).await?;
                }
            }
            // As the table of the run is settled before its sets.
            client.batch_execute(&format!("VACUUM (ANALYZE) {NAME}.bare")).await?;
            match deletes {
                Deletes::Bare => Ok(statement(self.load.operation(), unfolding)),
                Deletes::Tracked => tracked_delete(&client, unfolding).await,
            }
        };
        fill.await.map_err(session::failed)
    }

    async fn connect(&self, sql: &str, connections: u32) -> Result<Vec<Worker>, Failure> {
        let mut workers = Vec::new();
        for _ in 0..connections {
            let client = session::connect(&self.config).await?;
            let write = client.prepare(sql).await.map_err(session::failed)?;
            let read = READ.replace("NAME", NAME);
            let read = client.prepare(&read).await.map_err(session::failed)?;
            workers.push(Worker { client, write, read });
        }
        Ok(workers)
    }

    /// Does all transactions over so many connections; how long that took, and what it cost.
    fn work(
        &mut self,
        sql: &str,
        connections: u32,
    ) -> Result<(Duration, Option<Duration>), Failure> {
        let workers = self.runtime.block_on(self.connect(sql, connections))?;
        if let Some((processors, session)) = &mut self.pinning {
            processors.pin_backends(session)?;
        }
        let operation = self.load.operation();
        let next = Arc::new(AtomicUsize::new(0));
        let (before, started) = (used(self.backend), Stopwatch::start());
        let start = |worker: Worker| {
            let (next, transactions) = (next.clone(), self.transactions.clone());
            self.runtime.spawn(async move {
                let mut rows = 0;
                while let Some(one) = transactions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    rows += worker.carry_out(operation, one).await?;
                }
                Ok::<_, tokio_postgres::Error>((rows, worker))
            })
        };
        let tasks: Vec<_> = workers.into_iter().map(start).collect();
        let mut rows = 0;
        let mut workers = Vec::new();
        for task in tasks {
            let crashed = |error| Failure::new(Code::Bug, "the ceiling crashed").source(error);
            let (done, worker) =
                self.runtime.block_on(task).map_err(crashed)?.map_err(session::failed)?;
            rows += done;
            workers.push(worker);
        }
        let took = started.elapsed();
        let cpu =
            used(self.backend).zip(before).map(|(after, before)| after.saturating_sub(before));
        drop(workers);
        if rows != self.load.rows() {
            let wanted = self.load.rows();
            let message = format!("the bare database did {rows} rows instead of {wanted}");
            return Err(Failure::new(Code::BenchmarkWrong, message));
        }
        Ok((took, cpu))
    }
}

impl Worker {
    /// One transaction; how many rows it was about.
    async fn carry_out(
        &self,
        operation: Operation,
        transaction: &Transaction,
    ) -> Result<u64, tokio_postgres::Error> {
        let mut count = 0;
        if operation == Operation::Exchange {
            self.client.batch_execute("BEGIN").await?;
        }
        if operation != Operation::Download {
            let parameters = transaction.written.parameters(operation);
            count += self.client.execute(&self.write, &parameters).await?;
        }
        if let Some((employee, id)) = transaction.read_from {
            let mut rows = Box::pin(self.client.query_raw(&self.read, [employee, id]).await?);
            while rows.try_next().await?.is_some() {
                count += 1;
            }
        }
        if operation == Operation::Exchange {
            self.client.batch_execute("COMMIT").await?;
        }
        Ok(count)
    }
}

/// Processor time of the database and of this program.
fn used(backend: Option<u32>) -> Option<Duration> {
    Some(cpu::used_by_postgres(backend?)? + cpu::used_by(std::process::id())?)
}
