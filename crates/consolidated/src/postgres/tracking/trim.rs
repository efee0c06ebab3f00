//! Limits what is stored for remotes that were away (S9).
//!
//! When entries of a departure log are removed, its floor is raised. If a watermark may not have
//! shown all of them, the whole table is sent again.

use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::{Call, Link};
use crate::postgres::tracking::departure_log;
use model::Failure;

/// Raises the floor of the log of table `$1`; the answer is the new floor, where it rose.
///
/// Never above the oldest transaction in flight, or the remotes that are here now would be sent
/// everything again.
fn raise(log: &str) -> String {
    format!(
        "UPDATE syncline.syncline_logs AS s SET floor = wanted.floor
FROM (
    SELECT least(entry.version + 1,
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text::xid8 AS floor
    FROM (
        SELECT syncline_version::text::bigint AS version,
            sum(syncline_rows) OVER (ORDER BY syncline_version DESC) AS newest
        FROM {log}
    ) AS entry
    WHERE entry.newest > $2 ORDER BY entry.version DESC LIMIT 1
) AS wanted
WHERE s.table_name = $1 AND s.floor < wanted.floor
RETURNING s.floor::text"
    )
}

fn cut(log: &str) -> String {
    format!("DELETE FROM {log} WHERE syncline_version < $1::text::xid8")
}

/// Cuts every log to about its newest `log_rows_max` departures, a transaction each.
pub(in crate::postgres) fn trim(link: &mut Link, log_rows_max: i64) -> Result<(), Failure> {
    let trimming = failed("trim the departure logs");
    let sql = "SELECT table_name FROM syncline.syncline_logs ORDER BY table_name";
    let tables = link.begin(&[Call::new(sql, &[])]).map_err(&trimming)?.remove(0).rows;
    for row in tables {
        let table: &str = row.try_get(0).map_err(unreadable)?;
        let log = departure_log::log(table);
        let answers = link
            .flight(&[Call::Simple("BEGIN"), Call::new(&raise(&log), &[&table, &log_rows_max])])
            .map_err(&trimming)?;
        let mut calls = Vec::new();
        let floor: Option<&str> =
            answers[1].rows.first().map(|row| row.try_get(0)).transpose().map_err(unreadable)?;
        let (cut, parameters) = (cut(&log), [&floor as &(dyn postgres_types::ToSql + Sync)]);
        if floor.is_some() {
            calls.push(Call::new(&cut, &parameters));
        }
        calls.push(Call::Simple("COMMIT"));
        link.flight(&calls).map_err(&trimming)?;
    }
    Ok(())
}
