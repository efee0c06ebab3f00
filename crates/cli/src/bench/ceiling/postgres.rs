//! Bare PostgreSQL: set statements over arrays, and binary results that nobody decodes.
//!
//! On a table without tracking. The best of several numbers of connections counts.

use super::{Ceiling, Load};
use crate::args::Operation;
use crate::bench::centre::{FILLFACTOR, NAME};
use crate::bench::clock::Stopwatch;
use crate::bench::cpu;
use crate::bench::machine;
use crate::bench::purchase::{DEFINITION, Purchase};
use crate::bench::session::{self, Numeric, Timestamp};
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

/// One transaction's rows as arrays, one per column, with the changed cost behind the others.
struct Columns {
    employees: Vec<i32>,
    ids: Vec<i32>,
    customers: Vec<i32>,
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
        Columns {
            employees: column(Purchase::employee),
            ids: column(Purchase::id),
            customers: column(Purchase::customer),
            costs: rows.iter().map(Numeric::cost).collect(),
            dates: rows.iter().map(Timestamp::order_date).collect(),
            notes: rows.iter().map(Purchase::notes).collect(),
            costs_after: rows.iter().map(|row| Numeric::cost(&row.after_update())).collect(),
        }
    }

    fn parameters(&self, operation: Operation) -> Vec<&(dyn ToSql + Sync)> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&self.employees, &self.ids];
        if operation != Operation::UploadDelete {
            let values: [&(dyn ToSql + Sync); 4] =
                [&self.customers, &self.costs, &self.dates, &self.notes];
            parameters.extend(values);
        }
        if operation == Operation::UploadUpdate {
            // The new image of all that is no key, as an update ships it.
            let values: [&(dyn ToSql + Sync); 4] =
                [&self.customers, &self.costs_after, &self.dates, &self.notes];
            parameters.extend(values);
        }
        parameters
    }
}

/// Measures on a table of its own, with every number of connections.
pub(in crate::bench) fn measure(
    url: &PostgresUrl,
    backend: Option<u32>,
    load: &Load,
) -> Result<Ceiling, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(machine::cores() as usize)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Bug, "cannot start the runtime").source(error))?;
    let config = session::config(url)?;
    let transactions: Arc<Vec<Columns>> = Arc::new(
        (0..load.transactions).map(|number| Columns::new(&load.transaction(number))).collect(),
    );
    let mut best: Option<Ceiling> = None;
    for connections in CONNECTIONS {
        runtime.block_on(fill(&config, load, &transactions))?;
        let (took, used) = work(&runtime, &config, backend, load, &transactions, connections)?;
        let ceiling = Ceiling::new(technique(load.operation), connections, load.rows(), took, used);
        best = Some(match best {
            Some(best) => best.best(ceiling),
            None => ceiling,
        });
    }
    best.ok_or_else(|| Failure::new(Code::Bug, "nothing was measured"))
}

fn technique(operation: Operation) -> &'static str {
    match operation {
        Operation::Download => "prepared SELECT, binary results, not decoded",
        Operation::UploadInsert => "INSERT … SELECT FROM unnest",
        Operation::UploadUpdate => "UPDATE … FROM unnest(new, old), old values compared",
        Operation::UploadDelete => "DELETE … USING unnest",
    }
}

/// What is measured, one transaction each.
fn statement(operation: Operation) -> String {
    const IMAGE: &str = "::int4[], $2::int4[], $3::int4[], $4::numeric[], $5::timestamp[], \
                         $6::text[]";
    match operation {
        Operation::Download => format!(
            "SELECT emp_id, purch_id, cust_id, cost, order_date, notes
             FROM {NAME}.bare WHERE emp_id = $1"
        ),
        Operation::UploadInsert => {
            format!("INSERT INTO {NAME}.bare SELECT * FROM unnest($1{IMAGE})")
        }
        Operation::UploadUpdate => format!(
            "UPDATE {NAME}.bare AS t
             SET cust_id = u.cust_id, cost = u.cost, order_date = u.order_date, notes = u.notes
             FROM unnest($1{IMAGE}, $7::int4[], $8::numeric[], $9::timestamp[], $10::text[])
                 AS u(emp_id, purch_id, old_cust_id, old_cost, old_order_date, old_notes,
                      cust_id, cost, order_date, notes)
             WHERE t.emp_id = u.emp_id AND t.purch_id = u.purch_id
                 AND t.cust_id = u.old_cust_id AND t.cost = u.old_cost
                 AND t.order_date = u.old_order_date
                 AND t.notes IS NOT DISTINCT FROM u.old_notes"
        ),
        Operation::UploadDelete => format!(
            "DELETE FROM {NAME}.bare AS t
             USING unnest($1::int4[], $2::int4[]) AS u(emp_id, purch_id)
             WHERE t.emp_id = u.emp_id AND t.purch_id = u.purch_id"
        ),
    }
}

/// Makes the table anew, with the rows that the operation needs.
async fn fill(config: &Config, load: &Load, transactions: &[Columns]) -> Result<(), Failure> {
    let client = session::connect(config).await?;
    let create = format!(
        "DROP TABLE IF EXISTS {NAME}.bare;
         CREATE TABLE {NAME}.bare ({DEFINITION}) WITH (fillfactor = {FILLFACTOR})"
    );
    client.batch_execute(&create).await.map_err(session::failed)?;
    if load.needs_rows() {
        let insert =
            client.prepare(&statement(Operation::UploadInsert)).await.map_err(session::failed)?;
        for columns in transactions {
            let parameters = columns.parameters(Operation::UploadInsert);
            client.execute(&insert, &parameters).await.map_err(session::failed)?;
        }
    }
    // As the table of the run is settled before its sets.
    client.batch_execute(&format!("VACUUM (ANALYZE) {NAME}.bare")).await.map_err(session::failed)
}

/// Does all transactions over so many connections; how long that took, and what it cost.
fn work(
    runtime: &Runtime,
    config: &Config,
    backend: Option<u32>,
    load: &Load,
    transactions: &Arc<Vec<Columns>>,
    connections: u32,
) -> Result<(Duration, Option<Duration>), Failure> {
    let operation = load.operation;
    let sql = statement(operation);
    let ready: Vec<(Client, Statement)> = runtime.block_on(async {
        let mut ready = Vec::new();
        for _ in 0..connections {
            let client = session::connect(config).await?;
            let statement = client.prepare(&sql).await.map_err(session::failed)?;
            ready.push((client, statement));
        }
        Ok::<_, Failure>(ready)
    })?;
    let next = Arc::new(AtomicUsize::new(0));
    let (before, started) = (used(backend), Stopwatch::start());
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|(client, statement)| {
            let (next, transactions) = (next.clone(), transactions.clone());
            runtime.spawn(async move {
                let mut rows = 0;
                while let Some(columns) = transactions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    rows += one(&client, &statement, operation, columns).await?;
                }
                Ok::<_, tokio_postgres::Error>((rows, client))
            })
        })
        .collect();
    let mut rows = 0;
    let mut clients = Vec::new();
    for task in tasks {
        let crashed = |error| Failure::new(Code::Bug, "the ceiling crashed").source(error);
        let (done, client) = runtime.block_on(task).map_err(crashed)?.map_err(session::failed)?;
        rows += done;
        clients.push(client);
    }
    let took = started.elapsed();
    let cpu = used(backend).zip(before).map(|(after, before)| after.saturating_sub(before));
    drop(clients);
    if rows != load.rows() {
        let message = format!("the bare database did {rows} rows instead of {}", load.rows());
        return Err(Failure::new(Code::BenchmarkWrong, message));
    }
    Ok((took, cpu))
}

/// One transaction; how many rows it was about.
async fn one(
    client: &Client,
    statement: &Statement,
    operation: Operation,
    columns: &Columns,
) -> Result<u64, tokio_postgres::Error> {
    if operation != Operation::Download {
        return client.execute(statement, &columns.parameters(operation)).await;
    }
    let mut rows = Box::pin(client.query_raw(statement, &columns.employees[..1]).await?);
    let mut count = 0;
    while rows.try_next().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Processor time of the database and of this program.
fn used(backend: Option<u32>) -> Option<Duration> {
    Some(cpu::used_by_postgres(backend?)? + cpu::used_by(std::process::id())?)
}
