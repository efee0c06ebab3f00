//! Tells systemd, or another supervisor, that the server is ready or stops.
//!
//! With `Type=notify` a unit counts as started when this message arrives, and not before.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the supervisor listens: a path, or a name behind an `@`.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Sends a state such as `READY=1`, if there is a supervisor.
pub(crate) fn notify(state: &str) {
    let Some(address) = std::env::var_os(NOTIFY_SOCKET).filter(|it| !it.is_empty()) else { return };
    if let Err(error) = send(&address, state) {
        tracing::warn!(%error, state, "cannot notify the supervisor");
    }
}

fn send(address: &OsStr, state: &str) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &socket_address(address)?).map(drop)
}

fn socket_address(address: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::ffi::OsStrExt;
        if let Some(name) = address.as_bytes().strip_prefix(b"@") {
            return SocketAddr::from_abstract_name(name);
        }
    }
    SocketAddr::from_pathname(address)
}
