//! The number of rows, and a checksum that does not depend on their order.

use serde::{Deserialize, Serialize};
use std::iter::Sum;

/// Rows and the sum of their digests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksum {
    pub(crate) rows: u64,
    pub(crate) checksum: u64,
}

impl Checksum {
    /// One row.
    pub(crate) fn of(digest: u64) -> Checksum {
        Checksum { rows: 1, checksum: digest }
    }

    pub(crate) fn add(&mut self, digest: u64) {
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(digest);
    }
}

impl Sum for Checksum {
    fn sum<I: Iterator<Item = Checksum>>(checksums: I) -> Checksum {
        checksums.fold(Checksum::default(), |sum, checksum| Checksum {
            rows: sum.rows + checksum.rows,
            checksum: sum.checksum.wrapping_add(checksum.checksum),
        })
    }
}
