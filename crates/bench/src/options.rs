//! The options of `syncline bench`.

mod clients_on;
mod suite;
mod wire;

pub(crate) use clients_on::ClientsOn;
pub(crate) use suite::{BenchSuiteOptions, TestName};
pub(crate) use wire::{Certificate, Compression, Handshake, Notes, Transport};

use crate::machine;
use clap::{Args, Subcommand, ValueEnum};
use model::ServerUrl;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Measures how many rows per second many remotes synchronize with a consolidated database.
#[derive(Debug, Args)]
pub struct BenchOptions {
    #[command(subcommand)]
    pub(crate) action: BenchAction,
}

impl BenchOptions {
    /// Why these options exclude each other, if they do. That is wrong usage: do not run them.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        match &self.action {
            BenchAction::Run(options) => options.contradiction(),
            BenchAction::Suite(_) | BenchAction::Report(_) | BenchAction::Clients => None,
        }
    }
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchAction {
    /// Measures one operation with one set of parameters
    Run(Box<BenchRunOptions>),
    /// Repeats the published tests, one parameter at a time
    Suite(Box<BenchSuiteOptions>),
    /// Writes the results of a suite as one page, beside the published figures
    Report(BenchReportOptions),
    /// Acts as many clients; `run` starts it and sends orders to its standard input
    #[command(hide = true)]
    Clients,
}

/// Measures one operation with one set of parameters.
///
/// It creates its own table `purchase`, for SQLite in a new file beside the one that you name, for
/// PostgreSQL in the schema `syncline_bench`. It deploys a generated model and starts a server and
/// many clients. In each set all clients begin at the same time. At the end the rows at both sides
/// are compared; a run whose rows differ fails and has no figures. Then it measures the bare
/// database, and removes everything that it has created.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  syncline bench run --operation upload-insert --consolidated sqlite:bench.db
  syncline bench run --operation download --consolidated postgres:///bench \\
                     --clients 1000 --rows 1000 --sets 10 --json download.json
  syncline bench run --operation upload-update --conflicts 1 --model order-lines \\
                     --consolidated postgres:///bench
  syncline bench run --operation upload-insert --consolidated sqlite:bench.db --scripts scripts

FILE is overwritten, also by a run that fails; then it has the reason in `error`.")]
pub(crate) struct BenchRunOptions {
    /// What every timed synchronization does
    #[arg(long, value_enum, value_name = "OP")]
    pub(crate) operation: Operation,

    /// Remotes that synchronize at the same time
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) clients: u32,

    /// Rows of each timed synchronization; 0: synchronizations without rows
    #[arg(long, value_name = "R", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) rows: u32,

    /// Timed synchronizations of each client
    #[arg(long, value_name = "S", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) sets: u32,

    /// Tables, and who receives their rows
    #[arg(long, value_enum, value_name = "M", default_value_t = Model::Purchase)]
    pub(crate) model: Model,

    /// Tables that are published; those beyond the ones of the model stay empty
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tables: u32,

    /// With uploads: percentage of the rows that are also changed at the center, or written there
    /// with the same key; with order-lines only of changed rows
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) conflicts: u32,

    /// The consolidated database; only a schema or file created for the run is changed
    #[arg(long, value_name = "URL")]
    pub(crate) consolidated: String,

    /// Use this server, which runs for the same database [default: start one]
    #[arg(long, value_name = "URL")]
    pub(crate) server_url: Option<String>,

    /// The authorities that clients believe [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "server_url")]
    pub(crate) ca_file: Option<PathBuf>,

    /// How clients reach the server [default: as in --server-url, otherwise tcp]
    #[arg(long, value_enum, value_name = "T")]
    pub(crate) transport: Option<Transport>,

    /// The key of the server's certificate, if the transport is encrypted [default: ecdsa]
    #[arg(long, value_enum, value_name = "KEY")]
    pub(crate) certificate: Option<Certificate>,

    /// How connections begin, if the transport is encrypted [default: full]
    #[arg(long, value_enum, value_name = "H")]
    pub(crate) handshake: Option<Handshake>,

    /// How rows are compressed on the network, as far as the server allows it
    #[arg(long, value_enum, value_name = "C", default_value_t = Compression::None)]
    pub(crate) compression: Compression,

    /// What is in the last column of every row
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Notes::Random)]
    pub(crate) notes: Notes,

    /// Megabits per second, in each direction, of a link between all clients and the server (Linux,
    /// as root) [default: no link, and no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) link_mbit: Option<u32>,

    /// Where clients keep their rows
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ClientsOn::Memory)]
    pub(crate) clients_on: ClientsOn,

    /// Bytes per second between each client and the server in timed sets, in each direction
    /// [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) client_bandwidth: Option<u32>,

    /// Synchronizations that the server runs at the same time; more are refused and try again
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connection_limit: Option<u32>,

    /// Workers that read, and the same number that apply uploads; each has a database connection
    /// [default: the server's]
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    pub(crate) workers: Option<Workers>,

    /// Seconds until a refused client tries again [default: as the server says]
    #[arg(long, value_name = "S", value_parser = parse_delay)]
    pub(crate) retry_delay: Option<f64>,

    /// Processors for clients, server and the database processes that serve them (Linux)
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cpus: Option<u32>,

    /// Measure with the scripts below this folder too, DIR/VERSION/TABLE/EVENT.sql, beside the
    /// generated ones [default: generated ones only]
    #[arg(long, value_name = "DIR", conflicts_with = "server_url")]
    pub(crate) scripts: Option<PathBuf>,

    /// Write the result to this file as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl BenchRunOptions {
    fn contradiction(&self) -> Option<&'static str> {
        let overlapping = self.model == Model::Overlapping;
        if self.server_url.is_some() && self.consolidated.starts_with("sqlite:") {
            Some(
                "--server-url needs PostgreSQL: with SQLite the file of a run is new, so no \
                 server can serve it yet",
            )
        } else if let Some(why) = self.contradiction_of_wire() {
            Some(why)
        } else if self.conflicts > 0 && !self.can_conflict() {
            Some(
                "--conflicts needs an upload, and with --model order-lines --operation \
                 upload-update: a purchase and its lines come and go together",
            )
        } else if overlapping && (self.clients < 2 || !self.rows.is_multiple_of(2)) {
            Some(
                "--model overlapping needs at least two clients and an even number of rows: \
                 every row belongs to two remotes",
            )
        } else if self.cpus.is_some_and(|cpus| cpus > machine::cores()) {
            Some("--cpus asks for more processors than this program may use here")
        } else {
            None
        }
    }

    fn contradiction_of_wire(&self) -> Option<&'static str> {
        let given = self.server_url.is_some();
        let encrypted = self.transport().is_encrypted();
        if given && self.transport_given().is_some_and(|given| given != self.transport()) {
            Some("--transport is another one than that of --server-url")
        } else if given && self.certificate.is_some() {
            Some("--certificate is for a server that the run starts: --server-url has its own")
        } else if given && self.link_mbit.is_some() {
            Some("--link-mbit is for a server that the run starts, at one end of the link")
        } else if !encrypted && (self.certificate.is_some() || self.handshake.is_some()) {
            Some("--certificate and --handshake need an encrypted transport: tls, https or wss")
        } else {
            None
        }
    }

    /// How clients reach the server.
    pub(crate) fn transport(&self) -> Transport {
        self.transport.or(self.transport_given()).unwrap_or(Transport::Tcp)
    }

    /// As the URL of a server says it that somebody else runs.
    fn transport_given(&self) -> Option<Transport> {
        let url = ServerUrl::parse(self.server_url.as_deref()?).ok()?;
        Transport::of(url.scheme())
    }

    /// The key of the certificate of a server that the run starts, if it has one.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        let own = self.server_url.is_none() && self.transport().is_encrypted();
        own.then(|| self.certificate.unwrap_or(Certificate::Ecdsa))
    }

    /// How connections begin, if they are encrypted.
    pub(crate) fn handshake(&self) -> Option<Handshake> {
        let encrypted = self.transport().is_encrypted();
        encrypted.then(|| self.handshake.unwrap_or(Handshake::Full))
    }

    /// Whether others may have changed or inserted some of the uploaded rows.
    fn can_conflict(&self) -> bool {
        match self.operation {
            Operation::UploadUpdate => true,
            Operation::UploadInsert | Operation::UploadDelete => self.model != Model::OrderLines,
            Operation::Download | Operation::Exchange => false,
        }
    }
}

/// What every timed synchronization does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// Rows that are new at the consolidated database go to the remotes
    Download,
    /// Rows that are new at the remotes go to the consolidated database
    UploadInsert,
    /// Rows changed at the remotes; each is compared with its old image, to detect conflicts
    UploadUpdate,
    /// Rows deleted at the remotes
    UploadDelete,
    /// Half of the rows changed at the remotes, the other half at the consolidated database
    Exchange,
}

/// Writes the results of a suite as one page, beside the published figures.
///
/// The page is one HTML file with all charts. It needs no network and no script. You can make it
/// while the suite runs: runs that are missing or failed are marked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  syncline bench report bench-suite
  syncline bench report bench-suite --output figures.html

FILE is overwritten.")]
pub(crate) struct BenchReportOptions {
    /// The folder of the suite
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Write the page to this file
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) output: PathBuf,
}

impl Operation {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Download => "download",
            Operation::UploadInsert => "upload-insert",
            Operation::UploadUpdate => "upload-update",
            Operation::UploadDelete => "upload-delete",
            Operation::Exchange => "exchange",
        }
    }
}

/// Tables, and who receives their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Model {
    /// One table of 92-byte rows, each at one remote
    Purchase,
    /// Purchases of nine lines each; lines follow their purchase
    OrderLines,
    /// The same table, with every row at two remotes
    Overlapping,
    /// The same table with rows of 116 bytes, as in a published test of merge replication
    Merge,
}

impl Model {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Model::Purchase => "purchase",
            Model::OrderLines => "order-lines",
            Model::Overlapping => "overlapping",
            Model::Merge => "merge",
        }
    }
}

/// How many workers read at the server, and how many apply uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workers(pub(crate) u32);

fn parse_workers(text: &str) -> Result<Workers, String> {
    let number = |text: &str| match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err("write a number from 1 to 1024".to_owned()),
    };
    match text.split_once('-') {
        None => number(text).map(Workers),
        Some((least, most)) if number(least)? == number(most)? => number(least).map(Workers),
        Some(_) => Err("this version's server has a fixed number of workers".to_owned()),
    }
}

fn parse_delay(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0.001 to 3600".to_owned()),
    }
}
