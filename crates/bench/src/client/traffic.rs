//! What a synchronization carried.

use crate::options::Handshake;
use client::transport::Metered;
use model::{Code, Failure};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Rows that a synchronization carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) uploaded: u64,
    pub(crate) downloaded: u64,
    /// Uploaded rows with a conflict, or that were refused.
    pub(crate) disputed: u64,
}

/// What went over connections: bytes inside of TCP, and handshakes of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) full_handshakes: u64,
    pub(crate) resumed_handshakes: u64,
}

impl Network {
    /// What went over them between two readings.
    pub(crate) fn between(before: Metered, after: Metered) -> Network {
        Network {
            sent_bytes: after.sent_bytes - before.sent_bytes,
            received_bytes: after.received_bytes - before.received_bytes,
            full_handshakes: after.full_handshakes - before.full_handshakes,
            resumed_handshakes: after.resumed_handshakes - before.resumed_handshakes,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }

    /// Whether `syncs` synchronizations shook hands as they were to: otherwise their figures are
    /// those of something else.
    pub(crate) fn check(&self, wanted: Option<Handshake>, syncs: u64) -> Result<(), Failure> {
        let (full, resumed) = (self.full_handshakes, self.resumed_handshakes);
        let right = match wanted {
            None => full + resumed == 0,
            Some(Handshake::Full) => full >= syncs && resumed == 0,
            Some(Handshake::Resumed) => resumed >= syncs && full == 0,
        };
        if right {
            return Ok(());
        }
        let kind = wanted.map_or("no", Handshake::name);
        Err(Failure::new(
            Code::BenchmarkWrong,
            format!(
                "{syncs} synchronizations shook hands {full} times in full and {resumed} times \
                 with an earlier session; wanted were {kind} handshakes"
            ),
        ))
    }
}

impl AddAssign for Network {
    fn add_assign(&mut self, more: Network) {
        self.sent_bytes += more.sent_bytes;
        self.received_bytes += more.received_bytes;
        self.full_handshakes += more.full_handshakes;
        self.resumed_handshakes += more.resumed_handshakes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_those_that_were_wanted() {
        let network = |full_handshakes, resumed_handshakes| Network {
            full_handshakes,
            resumed_handshakes,
            ..Network::default()
        };
        let (full, resumed) = (Some(Handshake::Full), Some(Handshake::Resumed));
        for (seen, wanted, right) in [
            (network(0, 0), None, true),
            (network(5, 0), None, false),
            (network(5, 0), full, true),
            (network(7, 0), full, true),
            (network(4, 0), full, false),
            (network(5, 1), full, false),
            (network(0, 5), resumed, true),
            (network(1, 5), resumed, false),
            (network(0, 0), resumed, false),
        ] {
            assert_eq!(seen.check(wanted, 5).is_ok(), right, "{seen:?} {wanted:?}");
        }
    }
}
