//! The time that a download hands out, for cursors that compare what rows were stamped with.
//!
//! It is read before the snapshot. Rows are stamped with the time at which a transaction began, or
//! with a later one. So it is the beginning of the oldest transaction that is open (DT1). A session
//! has begun a transaction shortly before others see that: hence the margin. Of a prepared
//! transaction nobody can tell when it began. As long as there is one, no time is handed out, and
//! the remote keeps the one that it has: that is not later (DT2), because the transaction was open
//! then, or had not begun.

use crate::download::own::ask_for_times;
use crate::download::time::Time;
use crate::postgres::catalog::table::Table;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link, Row};
use crate::synchronization::Session;
use model::{Code, Failure};
use std::sync::Arc;

/// Whether this role sees when the transactions of other roles began; and a time before all that
/// are open, in microseconds since 1970. What autovacuum does, and what sends the log to other
/// servers, writes no rows.
const OLDEST: &str =
    "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user::text,
    (extract(epoch FROM least(clock_timestamp(), min(xact_start)) - interval '1 second')
        * 1000000)::int8
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND backend_type NOT IN ('autovacuum worker', 'walsender')";

/// Asked behind [`OLDEST`]: what was not open any more is prepared, or committed.
const PREPARED: &str =
    "SELECT 1 FROM pg_prepared_xacts WHERE database = current_database() LIMIT 1";

/// The time to hand out with a snapshot that is taken now; none if it is not known, or if neither a
/// cursor of these tables nor another script of the session asks for times.
pub(super) fn before_snapshot(
    link: &mut Link,
    tables: &[Arc<Table>],
    session: &Session,
) -> Result<Option<Time>, Failure> {
    let asks = |table: &Arc<Table>| ask_for_times(table.deployed.scripts());
    if !session.asks_for_times && !tables.iter().any(asks) {
        return Ok(None);
    }
    let calls = [Call::new(OLDEST, &[]), Call::new(PREPARED, &[])];
    let answers = link.begin(&calls).map_err(failed("read since when transactions are open"))?;
    let (oldest, prepared) = (&answers[0].rows, &answers[1].rows);
    let Some(row) = oldest.first() else { return Ok(None) };
    let (sees_all, role, time) = read(row)?;
    if !sees_all {
        let message = format!(
            "a script asks for {{s.last_download}} or {{s.last_table_download}}, and the role \
             {role} does not see since when the transactions of other roles are open"
        );
        return Err(Failure::new(Code::DatabaseRights, message)
            .hint(format!("GRANT pg_read_all_stats TO {role}")));
    }
    Ok(time.filter(|_| prepared.is_empty()))
}

fn read(row: &Row) -> Result<(bool, String, Option<Time>), Failure> {
    let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    read().map_err(unreadable)
}
