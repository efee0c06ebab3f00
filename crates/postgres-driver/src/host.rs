//! Where a server is.

use std::path::PathBuf;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// By TCP: a name or an address.
    Tcp(String, u16),
    /// By the Unix socket in this folder; the port is part of its name.
    Socket(PathBuf, u16),
}

impl Host {
    /// The name or address, or the folder.
    pub fn name(&self) -> String {
        match self {
            Host::Tcp(name, _) => name.clone(),
            Host::Socket(folder, _) => folder.to_string_lossy().into_owned(),
        }
    }

    /// The port, which also names the socket in its folder.
    pub fn port(&self) -> u16 {
        match self {
            Host::Tcp(_, port) | Host::Socket(_, port) => *port,
        }
    }
}
