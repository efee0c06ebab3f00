//! The hidden command `syncline bench clients`: a process that plays many clients.
//!
//! The client engine blocks, so each client has a thread, which sleeps between orders. The process
//! ends when its standard input does.

use crate::barrier::{self, Answer, Assignment, Order, Report};
use crate::checksum::Checksum;
use crate::client::Client;
use crate::client::traffic::Network;
use crate::clock::Stopwatch;
use model::{Code, Failure};
use protocol::Failed;
use std::io::{self, BufReader};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Memory for the stack of one client's thread, in bytes.
const STACK_BYTES: usize = 1 << 20;

/// How often one synchronization may fail in a way that passes.
const ATTEMPTS_MAX: u64 = 1000;

/// When to come back where neither the user nor the server says.
const RETRY_DELAY_DEFAULT: Duration = Duration::from_secs(1);

/// Executes orders until the last one.
pub(crate) fn run() -> Result<(), Failure> {
    raise_descriptor_limit();
    let (mut stdin, mut stdout) = (BufReader::new(io::stdin().lock()), io::stdout().lock());
    let Some(assignment) = barrier::hear::<Assignment>(&mut stdin)? else { return Ok(()) };
    let crowd = match Crowd::start(&Arc::new(assignment)) {
        Ok(crowd) => crowd,
        Err(failure) => return barrier::say(&mut stdout, &Answer::Failed(Failed::from(&failure))),
    };
    barrier::say(&mut stdout, &Answer::Ended)?;
    while let Some(order) = barrier::hear::<Order>(&mut stdin)? {
        let results = crowd.carry_out(order)?;
        barrier::say(&mut stdout, &Answer::Ended)?;
        let answer = match Report::of(results) {
            Ok(report) => Answer::Done(report),
            Err(failure) => Answer::Failed(Failed::from(&failure)),
        };
        barrier::say(&mut stdout, &answer)?;
    }
    Ok(())
}

/// Every client may have a socket, and its files.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it may not be raised, the present limit stands.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// What one client did.
#[derive(Debug, Default)]
struct Performed {
    latency: Duration,
    retries: u64,
    errors: u64,
    conflicts: u64,
    network: Network,
    checksum: Option<Checksum>,
}

impl Report {
    fn of(results: Vec<Result<Performed, Failure>>) -> Result<Report, Failure> {
        let mut report = Report::default();
        for performed in results {
            let performed = performed?;
            report.latencies_us.push(performed.latency.as_micros() as u64);
            report.retries += performed.retries;
            report.errors += performed.errors;
            report.conflicts += performed.conflicts;
            report.network += performed.network;
            report.checksums.extend(performed.checksum);
        }
        Ok(report)
    }
}

/// The clients of this process, each behind its thread.
struct Crowd {
    orders: Vec<SyncSender<Order>>,
    results: Receiver<(usize, Result<Performed, Failure>)>,
}

impl Crowd {
    fn start(assignment: &Arc<Assignment>) -> Result<Crowd, Failure> {
        let count = assignment.count as usize;
        let (done, results) = sync_channel(count);
        let mut orders = Vec::with_capacity(count);
        for place in 0..count {
            let client = Client::new(assignment.first + place as u32, assignment)?;
            let (order, intake) = sync_channel(1);
            let (done, assignment) = (done.clone(), assignment.clone());
            std::thread::Builder::new()
                .name(format!("client-{place}"))
                .stack_size(STACK_BYTES)
                .spawn(move || play(client, &assignment, place, &intake, &done))
                .map_err(|error| {
                    Failure::new(Code::Bug, "cannot start a thread per client").source(error)
                })?;
            orders.push(order);
        }
        Ok(Crowd { orders, results })
    }

    /// Gives the order to all clients and waits for the last one.
    fn carry_out(&self, order: Order) -> Result<Vec<Result<Performed, Failure>>, Failure> {
        let gone = || Failure::new(Code::Bug, "a client of the benchmark ended early");
        for client in &self.orders {
            client.send(order).map_err(|_| gone())?;
        }
        let mut results = Vec::new();
        for _ in &self.orders {
            results.push(self.results.recv().map_err(|_| gone())?);
        }
        results.sort_by_key(|(place, _)| *place);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }
}

fn play(
    mut client: Client,
    assignment: &Assignment,
    place: usize,
    orders: &Receiver<Order>,
    done: &SyncSender<(usize, Result<Performed, Failure>)>,
) {
    while let Ok(order) = orders.recv() {
        let started = Stopwatch::start();
        let result = perform(&mut client, assignment, order)
            .map(|performed| Performed { latency: started.elapsed(), ..performed });
        if done.send((place, result)).is_err() {
            return;
        }
    }
}

fn perform(
    client: &mut Client,
    assignment: &Assignment,
    order: Order,
) -> Result<Performed, Failure> {
    let mut performed = Performed::default();
    match order {
        Order::Change { set } => client.change(set)?,
        Order::Checksum => performed.checksum = Some(client.checksum()?),
        Order::Synchronize | Order::SynchronizeTimed => {
            synchronize(client, assignment, order, &mut performed)?;
        }
    }
    Ok(performed)
}

/// Comes back until a synchronization succeeds.
fn synchronize(
    client: &mut Client,
    assignment: &Assignment,
    order: Order,
    performed: &mut Performed,
) -> Result<(), Failure> {
    loop {
        let failure = match client.synchronize(order, &mut performed.network) {
            Ok(traffic) => {
                performed.conflicts += traffic.disputed;
                return Ok(());
            }
            Err(failure) => failure,
        };
        if !failure.retry() || performed.retries + performed.errors >= ATTEMPTS_MAX {
            return Err(failure);
        }
        match failure.code() {
            Code::ServerFull => performed.retries += 1,
            _ => performed.errors += 1,
        }
        std::thread::sleep(delay(assignment, &failure));
    }
}

/// How long to wait before the next attempt.
fn delay(assignment: &Assignment, failure: &Failure) -> Duration {
    match (assignment.retry_delay_s, failure.retry_after()) {
        (Some(wanted), _) => Duration::from_secs_f64(wanted),
        (None, Some(seconds)) => Duration::from_secs(seconds.into()),
        (None, None) => RETRY_DELAY_DEFAULT,
    }
}
