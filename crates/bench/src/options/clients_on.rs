//! Where clients keep their rows.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Where clients keep their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClientsOn {
    /// The real client on SQLite databases in memory
    Memory,
    /// The real client on SQLite files
    File,
    /// Nowhere: clients that only speak the protocol, to put load on the server only
    Wire,
}

impl ClientsOn {
    /// The name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClientsOn::Memory => "memory",
            ClientsOn::File => "file",
            ClientsOn::Wire => "wire",
        }
    }
}
