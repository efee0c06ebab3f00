//! The connection to the server: bytes out, bytes in.
//!
//! Implementations are in `transport/`, and [`Connector`] chooses one by the URL. A browser or a
//! test may bring its own. `transport/conformance.rs` checks the contract: bytes arrive in order
//! and unchanged; `send` returns when all bytes are passed on; `receive` waits for at least one
//! byte and returns 0 only at the end. A transport that is half-duplex keeps what is sent until the
//! first `receive`.

#[cfg(test)]
mod conformance;
mod connector;
mod http;
#[cfg(test)]
pub(crate) mod memory;
mod meter;
pub mod tcp;
mod tls;
mod trust;

pub use connector::{Connections, Connector};
pub use meter::Metered;
pub use trust::Trust;

use model::Failure;

/// One connection to a server.
pub trait Transport {
    /// Sends all of `bytes`.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Waits for bytes and puts them at the front of `buffer`; 0 when the peer has closed.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure>;

    /// There is one answer to all that is sent, as over HTTP: after the first `receive` nothing can
    /// be sent.
    fn is_half_duplex(&self) -> bool {
        false
    }
}
