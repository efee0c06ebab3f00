//! The steps of a run: prepare, synchronize in sets, compare, measure the bare database.

use crate::barrier::{Assignment, Order};
use crate::baseline::Load;
use crate::center::database::Center;
use crate::center::{self, AddScripts};
use crate::clients::link::Link;
use crate::clients::{self, Clients, Round};
use crate::figures::{CpuTimes, Figures, Measured};
use crate::final_comparison;
use crate::interruption::{Ending, Interruption};
use crate::layout::Layout;
use crate::machine;
use crate::machine::processors::Processors;
use crate::options::{BenchRunOptions, Handshake, Operation};
use crate::purchase::Content;
use crate::server_process::ServerProcess;
use crate::steps::Steps;
use consolidated::Url;
use model::{Failure, ServerUrl};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use terminal::output;

/// Synchronizations of each remote before the first timed one: one that finds nothing and brings
/// the token, and one that brings the rows to begin with.
const UNTIMED: usize = 2;

/// Measures, and removes what was made, also after a failure.
pub(crate) fn run(options: &BenchRunOptions, add_scripts: AddScripts) -> Result<Measured, Failure> {
    let url = Url::parse(&options.consolidated)?;
    // Before anything starts that is to inherit it.
    let processors = options.cpus.map(Processors::restrict).transpose()?;
    let interruption = Interruption::listen(Ending::Kill)?;
    let once = |own_scripts: Option<&Path>| {
        let steps = Steps::new(options.sets);
        steps.next("preparing");
        let mut center = center::create(&url, options.model, options.tables)?;
        let processors = processors.as_ref();
        let scripts = own_scripts.map(|dir| (add_scripts, dir));
        let interruption = &interruption;
        let run = Run { options, steps: &steps, interruption, processors, scripts };
        let measured = run.measure(center.as_mut());
        let removed = center.remove();
        let figures = interruption.explain(measured)?;
        removed.map(|()| figures)
    };
    let Some(dir) = options.scripts.as_deref() else {
        return Ok(Measured { generated: once(None)?, own: None });
    };
    // The user's go first, so that their mistakes are told before anything is measured. The second
    // pair is the other way round: a machine that becomes slower or faster favors neither.
    let mut own = once(Some(dir))?;
    let mut generated = once(None)?;
    generated.add_run(once(None)?);
    own.add_run(once(Some(dir))?);
    Ok(Measured { generated, own: Some(own) })
}

/// What a run needs beside the database.
struct Run<'a> {
    options: &'a BenchRunOptions,
    steps: &'a Steps,
    interruption: &'a Interruption,
    processors: Option<&'a Processors>,
    /// The user's, instead of generated ones.
    scripts: Option<(AddScripts, &'a Path)>,
}

impl Run<'_> {
    fn measure(&self, center: &mut dyn Center) -> Result<Figures, Failure> {
        let (options, steps) = (self.options, self.steps);
        let layout = layout(options);
        center::deploy(center, &layout, self.scripts)?;
        let mut stage = Stage::set_up(center, self, layout)?;

        steps.next("first synchronization");
        stage.clients.carry_out(Order::Synchronize)?;
        steps.next("creating the first rows");
        stage
            .center
            .insert(&mut (0..layout.clients).flat_map(|employee| layout.initial(employee)))?;
        stage.center.settle()?;
        stage.clients.carry_out(Order::Synchronize)?;

        let mut figures = Figures::default();
        for set in 0..options.sets {
            steps.next(format!("set {} of {}", set + 1, options.sets));
            stage.change(set)?;
            stage.time(&mut figures)?;
        }

        steps.next("comparing the rows");
        if layout.expected().downloaded.is_none() {
            // What others did last was perhaps too late for the last set.
            stage.clients.carry_out(Order::Synchronize)?;
        }
        let at_clients = stage.clients.carry_out(Order::Checksum)?.report.checksums;
        final_comparison::compare(&layout, &at_clients, &stage.center.checksums()?)?;
        steps.next("measuring the bare database");
        stage.finish(&mut figures)?;
        // The user's scripts are compared with generated ones.
        if let (None, Some(load)) = (self.scripts, Load::of(&layout)) {
            figures.baseline = Some(center.baseline(&load, self.processors)?);
        }
        figures.database = center.settings()?;
        Ok(figures)
    }
}

/// What the run is about.
fn layout(options: &BenchRunOptions) -> Layout {
    Layout {
        operation: options.operation,
        model: options.model,
        tables: options.tables,
        clients: options.clients,
        rows: options.rows,
        sets: options.sets,
        conflicts_percent: options.conflicts,
        notes: options.notes,
    }
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
        link: Option<&Link>,
        interruption: &'a Interruption,
    ) -> Result<WatchedClients<'a>, Failure> {
        let clients = Clients::start(assignment, shares, link)?;
        interruption.watch(clients.ids());
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

/// All processes of the run.
struct Stage<'a> {
    center: &'a mut dyn Center,
    server: Option<ServerProcess>,
    clients: WatchedClients<'a>,
    // Behind the clients: they are ended first.
    _link: Option<Link>,
    processors: Option<&'a Processors>,
    layout: Layout,
    handshake: Option<Handshake>,
    client_processes: usize,
}

impl<'a> Stage<'a> {
    fn set_up(
        center: &'a mut dyn Center,
        run: &'a Run<'_>,
        layout: Layout,
    ) -> Result<Stage<'a>, Failure> {
        let options = run.options;
        let link = options.link_mbit.map(Link::new).transpose()?;
        let (server, url) = match &options.server_url {
            Some(url) => {
                let url = ServerUrl::parse(url)?.to_string();
                output::notice(&format!(
                    "deployed; waiting for the server {url} of the database {}",
                    center.url()
                ));
                (None, url)
            }
            None => {
                let address = link.as_ref().map_or(Ipv4Addr::LOCALHOST, Link::address);
                let (folder, address) = (center.folder(), IpAddr::V4(address));
                let server = ServerProcess::start(folder, center.url(), options, address)?;
                let url = server.url().to_owned();
                (Some(server), url)
            }
        };
        let own_authority = server.as_ref().and_then(ServerProcess::ca_file);
        let assignment = Assignment {
            layout,
            clients_on: options.clients_on,
            first: 0,
            count: options.clients,
            server: url,
            ca_file: own_authority.or(options.ca_file.as_deref()).map(Path::to_owned),
            handshake: options.handshake(),
            compression: options.compression,
            cost_as_text: center.has_decimals(),
            folder: center.folder().to_owned(),
            retry_delay_s: options.retry_delay,
            bandwidth: options.client_bandwidth,
        };
        let shares = clients::shares(options.clients, machine::cores());
        let clients = WatchedClients::start(&assignment, &shares, link.as_ref(), run.interruption)?;
        Ok(Stage {
            center,
            server,
            clients,
            _link: link,
            processors: run.processors,
            layout,
            handshake: options.handshake(),
            client_processes: shares.len(),
        })
    }

    /// Changes the rows of a set, at the end or the ends where the operation wants them changed.
    fn change(&mut self, set: u32) -> Result<(), Failure> {
        let layout = self.layout;
        let employees = 0..layout.clients;
        if layout.operation == Operation::Download {
            return self.center.insert(&mut employees.flat_map(|it| layout.set(it, set)));
        }
        self.clients.carry_out(Order::Change { set })?;
        let mut rows = employees.flat_map(|employee| {
            let rows = layout.changed_at_center(employee, set);
            rows.map(|row| row.with(Content::ByCenter))
        });
        match layout.operation {
            Operation::UploadInsert => self.center.insert(&mut rows),
            _ => self.center.update(&mut rows),
        }
    }

    /// One timed synchronization of every client.
    fn time(&mut self, figures: &mut Figures) -> Result<(), Failure> {
        if let Some(processors) = self.processors {
            // The server opens connections when it needs them.
            self.center.pin(processors)?;
        }
        let before = self.cpu();
        let round = self.clients.carry_out(Order::SynchronizeTimed)?;
        let used = self.cpu().since(before);
        let syncs = u64::from(self.layout.clients);
        round.report.network.check(self.handshake, syncs)?;
        figures.add_set(&self.layout, round, used);
        Ok(())
    }

    fn cpu(&self) -> CpuTimes {
        CpuTimes {
            consolidated: self.center.cpu(),
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
            figures.database_cost = Some(server.stop(UNTIMED, self.layout.sets as usize)?);
        }
        Ok(())
    }
}
