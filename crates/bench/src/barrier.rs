//! Messages between the run and its client processes, one JSON object per line.
//!
//! The run gives an order to all processes at once. It gives the next order when the last client
//! has completed this one. So all clients begin a timed synchronization together, and nothing else
//! happens in this time.

use crate::checksum::Checksum;
use crate::client::traffic::Network;
use crate::layout::Layout;
use crate::options::{ClientsOn, Compression, Handshake};
use model::{Code, Failure};
use protocol::Failed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// The first line that a client process reads: who its clients are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) layout: Layout,
    pub(crate) clients_on: ClientsOn,
    /// The number of the first client of the process, and how many it plays.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) server: String,
    /// The authorities that are believed in place of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) handshake: Option<Handshake>,
    pub(crate) compression: Compression,
    /// Whether the consolidated database has decimal numbers.
    pub(crate) cost_as_text: bool,
    /// Where remote files lie.
    pub(crate) folder: PathBuf,
    pub(crate) retry_delay_s: Option<f64>,
    /// Bytes a second, each way, in timed sets.
    pub(crate) bandwidth: Option<u32>,
}

/// What every client has to do, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Synchronize without measuring the time.
    Synchronize,
    /// The application changes the rows of a set.
    Change { set: u32 },
    /// Synchronize, and find exactly the rows of one set to carry.
    SynchronizeTimed,
    /// Count the rows.
    Checksum,
}

/// What a client process answers. To every order it says `Ended` at once when its last client is
/// done, and then the rest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ended,
    Done(Report),
    Failed(Failed),
}

/// The result of an order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Per client, from its first step to its last, in microseconds.
    pub(crate) latencies_us: Vec<u64>,
    /// Refusals of a full server, after which a client came back.
    pub(crate) retries: u64,
    /// Other failures that passed.
    pub(crate) errors: u64,
    /// Uploaded rows with a conflict.
    pub(crate) conflicts: u64,
    /// What went over the connections of all clients.
    pub(crate) network: Network,
    /// Per client, where it was asked for.
    pub(crate) checksums: Vec<Checksum>,
}

/// Says something, now.
pub(crate) fn say<T: Serialize>(pipe: &mut impl Write, what: &T) -> Result<(), Failure> {
    let broken = |error| Failure::new(Code::Bug, "the other process has ended").source(error);
    let mut line = serde_json::to_vec(what)
        .map_err(|error| Failure::new(Code::Bug, "a line does not encode").source(error))?;
    line.push(b'\n');
    pipe.write_all(&line).and_then(|()| pipe.flush()).map_err(broken)
}

/// Hears the next line; `None` when the other end is gone.
pub(crate) fn hear<T: DeserializeOwned>(pipe: &mut impl BufRead) -> Result<Option<T>, Failure> {
    let broken = |error| Failure::new(Code::Bug, "a pipe of the benchmark broke").source(error);
    let mut line = String::new();
    if pipe.read_line(&mut line).map_err(broken)? == 0 {
        return Ok(None);
    }
    let heard = serde_json::from_str(&line)
        .map_err(|error| Failure::new(Code::Bug, "a line does not decode").source(error))?;
    Ok(Some(heard))
}
