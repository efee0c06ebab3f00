//! The plot of a run: prepare, synchronize in sets, compare, measure the bare database.

use super::ceiling::Load;
use super::centre::{self, Centre};
use super::clients::{self, Clients, Round};
use super::figures::{CpuTimes, Figures};
use super::gate::{Assignment, Order};
use super::interruption::Interruption;
use super::machine;
use super::purchase::Layout;
use super::server_process::ServerProcess;
use super::steps::Steps;
use super::tally;
use crate::args::{BenchRunOptions, Operation};
use crate::server_url::ServerUrl;
use consolidated::Url;
use model::Failure;
use std::time::Duration;

/// Synchronizations of each remote before the first timed one: one that finds nothing and brings
/// the token, and one that brings the rows to begin with.
const UNTIMED: usize = 2;

/// Measures, and removes what was made, also after a failure.
pub(super) fn run(options: &BenchRunOptions) -> Result<Figures, Failure> {
    let url = Url::parse(&options.consolidated)?;
    let interruption = Interruption::listen()?;
    let steps = Steps::new(options.sets);
    steps.next("preparing");
    let mut centre = centre::create(&url)?;
    let measured = measure(centre.as_mut(), options, &steps, &interruption);
    let removed = centre.remove();
    let figures = interruption.explain(measured)?;
    removed.map(|()| figures)
}

fn measure(
    centre: &mut dyn Centre,
    options: &BenchRunOptions,
    steps: &Steps,
    interruption: &Interruption,
) -> Result<Figures, Failure> {
    centre::deploy(centre, options.clients)?;
    let mut stage = Stage::set_up(centre, options, interruption)?;

    steps.next("first synchronization");
    stage.clients.carry_out(Order::Synchronize)?;
    steps.next("writing the rows to begin with");
    let layout = stage.layout;
    stage.centre.insert(&mut (0..options.clients).flat_map(|client| layout.initial(client)))?;
    stage.centre.settle()?;
    stage.clients.carry_out(Order::Synchronize)?;

    let mut figures = Figures::default();
    for set in 0..options.sets {
        steps.next(format!("set {} of {}", set + 1, options.sets));
        stage.change(set)?;
        stage.time(&mut figures)?;
    }

    steps.next("comparing the rows");
    let at_clients = stage.clients.carry_out(Order::Tally)?.report.tallies;
    tally::compare(&layout, &at_clients, &stage.centre.tallies()?)?;
    steps.next("measuring the bare database");
    stage.finish(&mut figures)?;
    figures.ceiling = Some(centre.ceiling(&Load::of(&layout, options.clients))?);
    figures.database = centre.settings()?;
    Ok(figures)
}

/// The clients, which a signal ends.
struct WatchedClients<'a> {
    clients: Clients,
    interruption: &'a Interruption,
}

impl<'a> WatchedClients<'a> {
    fn start(
        assignment: &Assignment,
        shares: &[u32],
        interruption: &'a Interruption,
    ) -> Result<WatchedClients<'a>, Failure> {
        let clients = Clients::start(assignment, shares)?;
        interruption.watch(&clients);
        Ok(WatchedClients { clients, interruption })
    }

    fn carry_out(&mut self, order: Order) -> Result<Round, Failure> {
        self.clients.carry_out(order)
    }
}

impl Drop for WatchedClients<'_> {
    fn drop(&mut self) {
        self.interruption.forget();
    }
}

/// Everybody who takes part.
struct Stage<'a> {
    centre: &'a mut dyn Centre,
    server: Option<ServerProcess>,
    clients: WatchedClients<'a>,
    layout: Layout,
    client_count: u32,
    client_processes: usize,
}

impl<'a> Stage<'a> {
    fn set_up(
        centre: &'a mut dyn Centre,
        options: &BenchRunOptions,
        interruption: &'a Interruption,
    ) -> Result<Stage<'a>, Failure> {
        let (server, url) = match &options.server_url {
            Some(url) => (None, ServerUrl::parse(url)?.to_string()),
            None => {
                let server = ServerProcess::start(centre.folder(), centre.url(), options)?;
                let url = server.url().to_owned();
                (Some(server), url)
            }
        };
        let layout =
            Layout { operation: options.operation, rows: options.rows, sets: options.sets };
        let assignment = Assignment {
            operation: options.operation,
            rows: options.rows,
            sets: options.sets,
            clients_on: options.clients_on,
            first: 0,
            count: options.clients,
            server: url,
            table: centre.table().to_owned(),
            cost_as_text: centre.has_decimals(),
            folder: centre.folder().to_owned(),
            retry_delay_s: options.retry_delay,
        };
        let shares = clients::shares(options.clients, machine::cores());
        Ok(Stage {
            centre,
            server,
            clients: WatchedClients::start(&assignment, &shares, interruption)?,
            layout,
            client_count: options.clients,
            client_processes: shares.len(),
        })
    }

    /// Changes the rows of a set, where the operation wants them changed.
    fn change(&mut self, set: u32) -> Result<(), Failure> {
        let layout = self.layout;
        match layout.operation {
            Operation::Download => {
                let rows = (0..self.client_count).flat_map(|client| layout.set(client, set));
                self.centre.insert(&mut { rows })
            }
            _ => self.clients.carry_out(Order::Change { set }).map(drop),
        }
    }

    /// One timed synchronization of every client.
    fn time(&mut self, figures: &mut Figures) -> Result<(), Failure> {
        let before = self.cpu();
        let round = self.clients.carry_out(Order::SynchronizeTimed)?;
        let used = self.cpu().since(before);
        figures.cpu = match figures.syncs {
            0 => used,
            _ => figures.cpu.plus(used),
        };
        figures.total_server_time += round.duration;
        figures.syncs += u64::from(self.client_count);
        figures.rows += u64::from(self.client_count) * u64::from(self.layout.rows);
        figures.retries += round.report.retries;
        figures.errors += round.report.errors;
        for latency_us in round.report.latencies_us {
            figures.latencies.add(Duration::from_micros(latency_us));
        }
        Ok(())
    }

    fn cpu(&self) -> CpuTimes {
        CpuTimes {
            consolidated: self.centre.cpu(),
            server: self.server.as_ref().and_then(ServerProcess::cpu),
            clients: self.clients.clients.cpu(),
        }
    }

    /// Ends clients and server, so that the bare database has the machine for itself.
    fn finish(self, figures: &mut Figures) -> Result<(), Failure> {
        figures.client_processes = self.client_processes;
        drop(self.clients);
        if let Some(server) = self.server {
            figures.peak_server_memory_bytes = server.peak_memory_bytes();
            figures.database_cost = Some(server.stop(UNTIMED)?);
        }
        Ok(())
    }
}
