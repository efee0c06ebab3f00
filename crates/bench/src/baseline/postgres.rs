//! Bare PostgreSQL: set statements over arrays, and binary results that are not decoded.
//!
//! The table has no tracking. The best of several numbers of connections counts.

mod arrays;

use super::{Baseline, Deletes, Load};
use crate::center::tables::{FILLFACTOR, NAME};
use crate::clock::Stopwatch;
use crate::layout::{ROWS_PER_PURCHASE, notes_len};
use crate::machine;
use crate::machine::cpu;
use crate::machine::processors::Processors;
use crate::options::Operation;
use crate::purchase::{Content, Purchase, Table};
use crate::session::{self, Numeric, Session, Timestamp};
use arrays::{Array, Column};
use consolidated::PostgresUrl;
use futures_util::TryStreamExt;
use model::{Code, Failure};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Statement};

/// Connections that work at once.
const CONNECTIONS: [u32; 3] = [2, 4, 8];

/// What rows have besides their key, one array for each column, with the changed cost behind the
/// others.
struct Columns {
    thirds: Column,
    costs: Column,
    dates: Column,
    notes: Column,
    costs_after: Column,
    /// How many rows there are.
    len: u32,
    /// The number of the first one.
    first_id: i32,
}

impl Columns {
    fn new(rows: &[Purchase]) -> Result<Columns, Box<dyn Error + Sync + Send>> {
        let changed = |row: &Purchase| Numeric::cost(&row.with(Content::ByRemote));
        Ok(Columns {
            thirds: Column::new(rows, &Type::INT4, |row, kind, out| {
                (row.third() as i32).to_sql(kind, out)
            })?,
            costs: Column::new(rows, &Type::NUMERIC, |row, kind, out| {
                Numeric::cost(row).to_sql(kind, out)
            })?,
            dates: Column::new(rows, &Type::TIMESTAMP, |row, kind, out| {
                Timestamp::order_date(row).to_sql(kind, out)
            })?,
            notes: Column::new(rows, &Type::TEXT, |row, kind, out| row.notes().to_sql(kind, out))?,
            costs_after: Column::new(rows, &Type::NUMERIC, |row, kind, out| {
                changed(row).to_sql(kind, out)
            })?,
            len: rows.len() as u32,
            first_id: rows.first().map_or(0, |row| row.id() as i32),
        })
    }

    /// The arrays of each statement about the first rows of an employee, so many of them. A
    /// transaction of very many rows is several statements: so is an upload, and none of the
    /// messages is large.
    fn statements(
        &self,
        operation: Operation,
        employee: i32,
        rows: u32,
    ) -> impl Iterator<Item = Vec<Array<'_>>> {
        (0..rows.div_ceil(self.len)).map(move |part| {
            let begin = part * self.len;
            let first = self.first_id + begin as i32;
            self.arrays(operation, (employee, first), self.len.min(rows - begin))
        })
    }

    /// The same for purchases, and behind each of them those of their lines.
    fn with_lines(&self, employee: i32, rows: u32) -> impl Iterator<Item = [Vec<Array<'_>>; 2]> {
        (0..rows.div_ceil(self.len)).map(move |part| {
            let begin = part * self.len;
            let first = self.first_id + begin as i32;
            let rows = self.len.min(rows - begin);
            let each = ROWS_PER_PURCHASE as u32;
            let (run, leap) = (each - 1, each as i32);
            let purchases = rows.div_ceil(each);
            let lines = rows - purchases;
            let array = |key: Array<'static>, third: Option<Array<'static>>, len: u32| {
                let encoded = |column| Array::encoded(column, len);
                let third = third.unwrap_or_else(|| encoded(&self.thirds));
                let rest = [&self.costs, &self.dates, &self.notes].map(encoded);
                [Array::same(employee, len), key, third].into_iter().chain(rest).collect()
            };
            [
                array(Array::leaping(first, (1, 0), leap, purchases), None, purchases),
                array(
                    Array::leaping(first + 1, (run, 1), leap, lines),
                    Some(Array::leaping(first, (run, 0), leap, lines)),
                    lines,
                ),
            ]
        })
    }

    fn arrays(&self, operation: Operation, key: (i32, i32), len: u32) -> Vec<Array<'_>> {
        let (employee, first) = key;
        let mut arrays = vec![Array::same(employee, len), Array::counted(first, len)];
        let encoded = |column| Array::encoded(column, len);
        if operation != Operation::UploadDelete {
            let old = [&self.thirds, &self.costs, &self.dates, &self.notes];
            arrays.extend(old.map(encoded));
        }
        if matches!(operation, Operation::UploadUpdate | Operation::Exchange) {
            // The new image of all that is no key, as an update ships it.
            let new = [&self.thirds, &self.costs_after, &self.dates, &self.notes];
            arrays.extend(new.map(encoded));
        }
        arrays
    }
}

/// What does the work, and where.
struct Bench<'a> {
    runtime: Runtime,
    config: Config,
    backend: Option<u32>,
    columns: Arc<Columns>,
    /// The load whose rows are there already and have been left as they were.
    filled: Option<u64>,
    /// Chooses processors for the connections.
    pinning: Option<(&'a Processors, Session)>,
}

/// Measures on a table of its own, with the best number of connections.
pub(crate) fn measure(
    url: &PostgresUrl,
    backend: Option<u32>,
    load: &Load,
    processors: Option<&Processors>,
) -> Result<Baseline, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(machine::cores() as usize)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Bug, "cannot start the runtime").source(error))?;
    let open = |processors| Ok::<_, Failure>((processors, Session::open(url)?));
    let columns = Columns::new(&load.kept_rows());
    let mut bench = Bench {
        runtime,
        config: session::config(url)?,
        backend,
        columns: Arc::new(columns.map_err(|error| {
            Failure::new(Code::Bug, "cannot encode the rows of the baseline").source(error)
        })?),
        filled: None,
        pinning: processors.map(open).transpose()?,
    };
    bench.best(load)
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

fn technique(load: &Load, deletes: Deletes, unfolding: Unfolding) -> String {
    let from = unfolding.name();
    match (load.operation(), deletes) {
        (Operation::Download, _) => "prepared SELECT, binary results, not decoded".to_owned(),
        (Operation::UploadInsert, _) if load.has_lines() => {
            format!("INSERT … SELECT FROM {from}, with the foreign key of the lines")
        }
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
/// has, by entries like those of an upload: an array of what is one, for each value of the rest.
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
        "SELECT attname::text, typcategory = 'A'
         FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
         WHERE attrelid = '{NAME}.bare_gone'::regclass AND attnum > 0 AND NOT atthasdef"
    );
    let rows = client.query(&columns, &[]).await?;
    let columns: Vec<(&str, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let list = |spell: &dyn Fn(&(&str, bool)) -> String| {
        columns.iter().map(spell).collect::<Vec<_>>().join(", ")
    };
    let own = |name: &str| name.strip_prefix("syncline_place_").unwrap_or(name).to_owned();
    let alike: Vec<String> =
        columns.iter().filter(|(_, array)| !array).map(|(name, _)| own(name)).collect();
    Ok(format!(
        "WITH gone AS ({} RETURNING {}), noted AS (
            INSERT INTO {NAME}.bare_gone ({}, syncline_rows)
            SELECT {}, count(*) FROM gone GROUP BY {}
         ) SELECT FROM gone",
        statement(Operation::UploadDelete, unfolding),
        list(&|(name, _)| format!("t.{}", own(name))),
        list(&|(name, _)| (*name).to_owned()),
        list(&|(name, array)| match array {
            true => format!("array_agg({})", own(name)),
            false => own(name),
        }),
        alike.join(", ")
    ))
}

/// A connection with all that it needs.
struct Worker {
    client: Client,
    write: Statement,
    /// Writes lines after their purchases.
    write_lines: Option<Statement>,
    read: Statement,
    columns: Arc<Columns>,
}

/// Where a measurement is: the next transaction, for the thread that is free.
struct Queue {
    load: Load,
    next: AtomicU32,
    running: Stopwatch,
}

impl Bench<'_> {
    /// What is fastest with a small load is measured with the whole.
    fn best(&mut self, load: &Load) -> Result<Baseline, Failure> {
        if load.operation() == Operation::Download {
            // The rows stay, so that every number of connections may read all of them.
            return self.best_connections(load, Unfolding::EachByItself);
        }
        let trial = load.trial();
        let [each_by_itself, together] = [Unfolding::EachByItself, Unfolding::Together]
            .map(|unfolding| self.measure(&trial, Deletes::Bare, unfolding, CONNECTIONS[0]));
        let unfolding = match each_by_itself?.rows_per_second >= together?.rows_per_second {
            true => Unfolding::EachByItself,
            false => Unfolding::Together,
        };
        let connections = self.best_connections(&trial, unfolding)?.connections;
        let connections = connections.min(load.transactions);
        let bare = self.measure(load, Deletes::Bare, unfolding, connections)?;
        let tracked = match load.operation() {
            Operation::UploadDelete => {
                Some(self.measure(load, Deletes::Tracked, unfolding, connections)?)
            }
            _ => None,
        };
        Ok(bare.with_tracked_delete(tracked))
    }

    fn best_connections(&mut self, load: &Load, unfolding: Unfolding) -> Result<Baseline, Failure> {
        let mut best: Option<Baseline> = None;
        // More connections than transactions would have nothing to do.
        for connections in CONNECTIONS.into_iter().filter(|it| *it <= load.transactions) {
            let baseline = self.measure(load, Deletes::Bare, unfolding, connections)?;
            best = Some(match best {
                Some(best) => best.best(baseline),
                None => baseline,
            });
        }
        best.ok_or_else(|| Failure::new(Code::Bug, "nothing was measured"))
    }

    fn measure(
        &mut self,
        load: &Load,
        deletes: Deletes,
        unfolding: Unfolding,
        connections: u32,
    ) -> Result<Baseline, Failure> {
        if self.filled != Some(load.rows()) {
            let client = self.runtime.block_on(session::connect(&self.config))?;
            let fill = self.fill(&client, load, unfolding);
            self.runtime.block_on(fill).map_err(session::failed)?;
        }
        // What only reads leaves all rows as they are, for the next number of connections.
        self.filled = (load.operation() == Operation::Download).then_some(load.rows());
        let sql = match deletes {
            Deletes::Bare => statement(load.operation(), unfolding),
            Deletes::Tracked => self.runtime.block_on(self.track(unfolding))?,
        };
        let (rows, took, used) = self.work(load, &sql, connections)?;
        let technique = technique(load, deletes, unfolding);
        Ok(Baseline::new(technique, connections, rows, took, used))
    }

    /// Creates the table again, with the rows that the operation needs.
    async fn fill(
        &self,
        client: &Client,
        load: &Load,
        unfolding: Unfolding,
    ) -> Result<(), tokio_postgres::Error> {
        const INSERT: Operation = Operation::UploadInsert;
        let table = |table: Table, name: &str| {
            let definition = table.definition(&format!("{NAME}.bare"), notes_len(load.model()));
            format!("CREATE TABLE {NAME}.{name} ({definition}) WITH (fillfactor = {FILLFACTOR});")
        };
        let mut create = format!("DROP TABLE IF EXISTS {NAME}.bare_line, {NAME}.bare;");
        create.push_str(&table(Table::Purchase, "bare"));
        if load.has_lines() {
            create.push_str(&table(Table::Line, "bare_line"));
            create.push_str(&format!("CREATE INDEX ON {NAME}.bare_line (emp_id, purch_id)"));
        }
        client.batch_execute(&create).await?;
        if load.needs_rows() {
            let insert = client.prepare(&statement(INSERT, unfolding)).await?;
            for number in 0..load.transactions {
                let employee = load.employee(number) as i32;
                for arrays in self.columns.statements(INSERT, employee, load.rows_each()) {
                    client.execute(&insert, &parameters(&arrays)).await?;
                }
            }
        }
        // As the table of the run is settled before its sets.
        client.batch_execute(&format!("VACUUM (ANALYZE) {NAME}.bare")).await?;
        match load.has_lines() {
            true => client.batch_execute(&format!("VACUUM (ANALYZE) {NAME}.bare_line")).await,
            false => Ok(()),
        }
    }

    /// Makes the log of deletes; the statement that also writes to it.
    async fn track(&self, unfolding: Unfolding) -> Result<String, Failure> {
        let client = session::connect(&self.config).await?;
        tracked_delete(&client, unfolding).await.map_err(session::failed)
    }

    async fn connect(
        &self,
        load: &Load,
        sql: &str,
        connections: u32,
    ) -> Result<Vec<Worker>, Failure> {
        let mut workers = Vec::new();
        for _ in 0..connections {
            let client = session::connect(&self.config).await?;
            let write = client.prepare(sql).await.map_err(session::failed)?;
            let read = READ.replace("NAME", NAME);
            let read = client.prepare(&read).await.map_err(session::failed)?;
            let write_lines = match load.has_lines() {
                true => Some(sql.replace(&format!("{NAME}.bare "), &format!("{NAME}.bare_line "))),
                false => None,
            };
            let write_lines = match write_lines {
                Some(sql) => Some(client.prepare(&sql).await.map_err(session::failed)?),
                None => None,
            };
            let columns = self.columns.clone();
            workers.push(Worker { client, write, write_lines, read, columns });
        }
        Ok(workers)
    }

    /// Does all transactions over so many connections: how many rows that were, how long it took,
    /// and what it cost.
    fn work(
        &mut self,
        load: &Load,
        sql: &str,
        connections: u32,
    ) -> Result<(u64, Duration, Option<Duration>), Failure> {
        let workers = self.runtime.block_on(self.connect(load, sql, connections))?;
        if let Some((processors, session)) = &mut self.pinning {
            processors.pin_backends(session)?;
        }
        let before = used(self.backend);
        let running = Stopwatch::start();
        let queue = Arc::new(Queue { load: *load, next: AtomicU32::new(0), running });
        let start = |worker: Worker| self.runtime.spawn(worker.carry_out_all(queue.clone()));
        let tasks: Vec<_> = workers.into_iter().map(start).collect();
        let (mut rows, mut wanted) = (0, 0);
        let mut workers = Vec::new();
        for task in tasks {
            let crashed = |error| Failure::new(Code::Bug, "the baseline crashed").source(error);
            let (transactions, done, worker) =
                self.runtime.block_on(task).map_err(crashed)?.map_err(session::failed)?;
            wanted += transactions * u64::from(load.rows_each());
            rows += done;
            workers.push(worker);
        }
        let took = running.elapsed();
        let cpu =
            used(self.backend).zip(before).map(|(after, before)| after.saturating_sub(before));
        drop(workers);
        if rows != wanted {
            let message = format!("the bare database did {rows} rows instead of {wanted}");
            return Err(Failure::new(Code::BenchmarkWrong, message));
        }
        Ok((rows, took, cpu))
    }
}

impl Worker {
    /// Transactions while there are any; how many, and how many rows they were about.
    async fn carry_out_all(
        self,
        queue: Arc<Queue>,
    ) -> Result<(u64, u64, Worker), tokio_postgres::Error> {
        let (mut transactions, mut rows) = (0, 0);
        loop {
            let number = queue.next.fetch_add(1, Ordering::Relaxed);
            if !queue.load.includes(number, &queue.running) {
                return Ok((transactions, rows, self));
            }
            rows += self.carry_out(&queue.load, number % queue.load.transactions).await?;
            transactions += 1;
        }
    }

    /// One transaction; how many rows it was about.
    async fn carry_out(&self, load: &Load, number: u32) -> Result<u64, tokio_postgres::Error> {
        let (operation, written) = (load.operation(), load.rows_written());
        let employee = load.employee(number) as i32;
        // One statement is a transaction by itself.
        let is_several = operation == Operation::Exchange
            || self.write_lines.is_some()
            || written > self.columns.len;
        let mut count = 0;
        if is_several {
            self.client.batch_execute("BEGIN").await?;
        }
        match &self.write_lines {
            Some(write_lines) => {
                for [purchases, lines] in self.columns.with_lines(employee, written) {
                    count += self.client.execute(&self.write, &parameters(&purchases)).await?;
                    count += self.client.execute(write_lines, &parameters(&lines)).await?;
                }
            }
            None => {
                for arrays in self.columns.statements(operation, employee, written) {
                    count += self.client.execute(&self.write, &parameters(&arrays)).await?;
                }
            }
        }
        if written < load.rows_each() {
            let first = self.columns.first_id + written as i32;
            let mut rows = Box::pin(self.client.query_raw(&self.read, [employee, first]).await?);
            while rows.try_next().await?.is_some() {
                count += 1;
            }
        }
        if is_several {
            self.client.batch_execute("COMMIT").await?;
        }
        Ok(count)
    }
}

fn parameters<'a>(arrays: &'a [Array<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    arrays.iter().map(|array| array as &(dyn ToSql + Sync)).collect()
}

/// Processor time of the database and of this program.
fn used(backend: Option<u32>) -> Option<Duration> {
    Some(cpu::used_by_postgres(backend?)? + cpu::used_by(std::process::id())?)
}
