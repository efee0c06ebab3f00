//! Capabilities: abilities of a program that its protocol version does not imply.

use serde::{Deserialize, Serialize};

/// A set of abilities, as bits. A reader ignores unknown bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Nothing beyond the protocol version.
    pub const NONE: Capabilities = Capabilities(0);
    /// Understands a key change as an operation of its own, in both directions.
    pub const KEY_CHANGES: Capabilities = Capabilities(1);
    /// Uploads under the tables that the remote holds, before it takes the new ones.
    pub const HELD_SHAPE: Capabilities = Capabilities(1 << 1);
    /// An update of which a key or a reference is as it was means it, where another row of the same
    /// upload takes the key.
    pub const ROWS_STAY: Capabilities = Capabilities(1 << 2);
    /// Keeps back what waits for tables that the server names, and uploads the rest.
    pub const WAITING_TABLES: Capabilities = Capabilities(1 << 3);
    /// Reads rows that are compressed by LZ4.
    pub const LZ4: Capabilities = Capabilities(1 << 4);
    /// Reads rows that are compressed by Zstandard.
    pub const ZSTD: Capabilities = Capabilities(1 << 5);
    /// Of a client: its transport has one answer to all that it sends, as HTTP. An upload that the
    /// server asks for comes with another Hello. It says something of a connection, so it is not
    /// among [`Capabilities::ALL`].
    pub const HALF_DUPLEX: Capabilities = Capabilities(1 << 8);
    /// Goes on with a download that was cut. The server says in DownloadBegin and in Positions from
    /// where, and the client presents that in Hello.
    pub const RESUME: Capabilities = Capabilities(1 << 9);
    /// Acknowledges a download whose end asks for it.
    pub const ACKNOWLEDGE: Capabilities = Capabilities(1 << 10);
    /// Of a server: it tells what rows a remote should have, as digests, and sends single rows that
    /// Hello asks for.
    pub const VERIFY: Capabilities = Capabilities(1 << 12);
    /// Everything that this crate's messages can express, without what a peer reads by choice:
    /// [`Capabilities::LZ4`] and [`Capabilities::ZSTD`].
    pub const ALL: Capabilities = Capabilities(
        Capabilities::KEY_CHANGES.0
            | Capabilities::HELD_SHAPE.0
            | Capabilities::ROWS_STAY.0
            | Capabilities::WAITING_TABLES.0
            | Capabilities::RESUME.0
            | Capabilities::ACKNOWLEDGE.0
            | Capabilities::VERIFY.0,
    );

    /// These and others.
    pub const fn and(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }

    /// True when all abilities of `wanted` are among these.
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
        let peer = Capabilities(Capabilities::KEY_CHANGES.0 | 1 << 63);
        assert!(peer.has(Capabilities::KEY_CHANGES));
        assert!(!peer.has(Capabilities::HELD_SHAPE));
        assert!(!Capabilities::NONE.has(Capabilities::KEY_CHANGES));
    }
}
