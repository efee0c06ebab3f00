//! Capabilities: what a peer says of its connection, and what it reads by choice.

use serde::{Deserialize, Serialize};

/// A set of capabilities, as bits. A reader ignores unknown bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Nothing beyond the protocol version.
    pub const NONE: Capabilities = Capabilities(0);
    /// Reads rows that are compressed by LZ4.
    pub const LZ4: Capabilities = Capabilities(1 << 4);
    /// Reads rows that are compressed by Zstandard.
    pub const ZSTD: Capabilities = Capabilities(1 << 5);
    /// Of a client: its transport has one answer to all that it sends, as HTTP. An upload that the
    /// server asks for comes with another Hello.
    pub const HALF_DUPLEX: Capabilities = Capabilities(1 << 8);

    /// These and others.
    pub const fn and(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }

    /// True when all of `wanted` are among these.
    pub fn has(self, wanted: Capabilities) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 18
    #[test]
    fn a_bit_from_the_future_changes_nothing() {
        let peer = Capabilities(Capabilities::LZ4.0 | 1 << 63);
        assert!(peer.has(Capabilities::LZ4));
        assert!(!peer.has(Capabilities::ZSTD));
        assert!(!Capabilities::NONE.has(Capabilities::LZ4));
    }
}
