//! The way to the server: bytes out, bytes in.
//!
//! Implementations are in `transport/`; a browser or a test brings its own. The contract, checked
//! by `transport/conformance.rs`: bytes arrive in order and unchanged; `send` returns when all
//! are handed over; `receive` waits for at least one byte and returns 0 only at the end.

#[cfg(test)]
mod conformance;
#[cfg(test)]
pub(crate) mod memory;
pub mod tcp;

use model::Failure;

/// One connection to a server.
pub trait Transport {
    /// Sends all of `bytes`.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Waits for bytes and puts them at the front of `buffer`; 0 when the peer has closed.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure>;
}
