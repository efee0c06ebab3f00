//! Names the transaction that keeps snapshots old (trap 1).
//!
//! If a transaction is open for a long time, no row is sent twice because of it. But the snapshots
//! of all watermarks grow, and nothing can be trimmed. So the operator should know it.

use crate::postgres::download::snapshot::Snapshot;
use crate::postgres::link::Link;

/// So many transactions must have begun since the oldest that is still open.
const BEHIND_MIN: u64 = 10_000;

/// Downloads of one reader between two warnings.
const DOWNLOADS_BETWEEN: u32 = 1_000;

const NAME: &str = "SELECT coalesce(nullif(application_name, ''), 'without a name') || ', process '
    || pid FROM pg_stat_activity WHERE backend_xid = $1::text::xid
UNION ALL
SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE transaction = $1::text::xid";

/// Remembers the time of the last warning.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Oldest {
    downloads_until_next: u32,
}

impl Oldest {
    /// Warns, now and then, while a transaction is open for long. Outside a transaction.
    pub(in crate::postgres) fn look(&mut self, link: &mut Link, snapshot: &Snapshot) {
        self.downloads_until_next = self.downloads_until_next.saturating_sub(1);
        let behind = snapshot.xmax - snapshot.xmin;
        if self.downloads_until_next > 0 || behind < BEHIND_MIN {
            return;
        }
        self.downloads_until_next = DOWNLOADS_BETWEEN;
        // Snapshots count further than the numbers that other functions know.
        let number = (snapshot.xmin & u64::from(u32::MAX)).to_string();
        let found = link.query(NAME, &[&number]).ok();
        let name = found.as_ref().and_then(|rows| rows.first()?.try_get(0).ok());
        tracing::warn!(
            transaction = snapshot.xmin,
            of = name.unwrap_or("an unknown program"),
            behind,
            "a transaction has been open in PostgreSQL for a long time; it makes snapshots larger"
        );
    }
}
