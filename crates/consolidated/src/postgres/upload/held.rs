//! Holds the deployment while an upload is under way (trap 28).
//!
//! An upload must commit under the model under which it began. Without this, it ran scripts of the
//! old model on tables of the new one: a row outside the fence was written, or a departure lacked
//! the place by which the new model looks it up.
//!
//! Invariants:
//! W1. An upload first locks `syncline_deploying`, which has no rows, and then reads the number of
//!     the deployment, in the same flight. LOCK takes no snapshot, so the number is current even
//!     above READ COMMITTED.
//! W2. A deployment locks the table against all uploads before it changes anything that one of them
//!     may use, until the new model is stored. It waits only briefly and then releases its place in
//!     the queue. So no upload waits behind a deployment that waits behind another upload.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{Fault, failed};
use crate::postgres::link::Link;
use model::{Code, Failure};
use std::sync::Arc;
use std::time::Duration;

/// The statement of an upload to `tables`. It waits no longer than the lock time-out of its
/// connection. Where the transaction will keep its snapshot it locks these, too: one of them that
/// is rewritten meanwhile would look empty to the upload (trap 20).
pub(in crate::postgres) fn hold(link: &Link, tables: &[Arc<Table>]) -> String {
    let mut names = vec!["syncline.syncline_deploying".to_owned()];
    let written = tables.iter().filter(|table| table.deployed.published.direction.uploads());
    let written = written.filter(|_| link.keeps_snapshots());
    names.extend(written.map(|table| table.deployed.details.sql_name()));
    names[1..].sort();
    format!("LOCK TABLE {} IN ROW SHARE MODE", names.join(", "))
}

/// The statement of a deployment, in a transaction that it must not undo.
const EXCLUDE: &str = "SAVEPOINT uploads; SET LOCAL lock_timeout = '250ms';
LOCK TABLE syncline.syncline_deploying IN EXCLUSIVE MODE";

/// Lets uploads go on.
pub(in crate::postgres) const ADMIT: &str =
    "ROLLBACK TO SAVEPOINT uploads; RELEASE SAVEPOINT uploads";

/// Attempts to find a moment without an upload, about a minute in all.
const ATTEMPTS_MAX: u32 = 80;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// When an upload should come back that met a deployment, in seconds.
const RETRY_AFTER_S: u32 = 5;

/// The failure of an upload that met a deployment.
pub(in crate::postgres) fn deploying() -> Failure {
    Failure::new(Code::DatabaseBusy, "a deployment is running").retry_after_s(RETRY_AFTER_S)
}

/// Shuts out uploads and takes the first step of `first`; lets them go on where it cannot be taken
/// for now, as long as nothing has been changed. `guard` is in a transaction.
pub(in crate::postgres) fn exclude(
    guard: &mut Link,
    is_locked: impl Fn(&Fault) -> bool,
    mut first: impl FnMut() -> Result<(), Fault>,
) -> Result<(), Failure> {
    for attempt in 1.. {
        let taken = guard.batch(EXCLUDE).and_then(|()| first());
        let Err(fault) = taken else { break };
        guard.batch(ADMIT).map_err(failed("let uploads go on"))?;
        if attempt == ATTEMPTS_MAX || !is_locked(&fault) {
            return Err(fault.failure("deploy"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
