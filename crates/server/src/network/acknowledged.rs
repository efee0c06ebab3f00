//! How much of what was sent the peer has acknowledged.
//!
//! The network takes megabytes from us before the peer has seen any of them, so bytes that were
//! written say nothing of a peer. Linux tells how many of them are not acknowledged yet; elsewhere
//! what was written has to stand for it.

use tokio::net::TcpStream;

/// `SIOCOUTQ`, which most architectures share with `TIOCOUTQ`.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64", target_arch = "arm")
))]
pub(super) fn unacknowledged(stream: &TcpStream) -> Option<u64> {
    const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
    type Count = std::ffi::c_int;
    // SAFETY: this request writes one `int`, which `Getter` has room for, and reads nothing. The
    // descriptor is that of a TCP socket, and valid while `stream` is borrowed.
    #[allow(unsafe_code)]
    let asked =
        unsafe { rustix::ioctl::ioctl(stream, rustix::ioctl::Getter::<SIOCOUTQ, Count>::new()) };
    asked.ok().and_then(|count| u64::try_from(count).ok())
}

/// Nobody says.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64", target_arch = "arm")
)))]
pub(super) fn unacknowledged(_stream: &TcpStream) -> Option<u64> {
    None
}
