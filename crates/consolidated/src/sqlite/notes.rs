//! Reads and removes the records about single rows.

use super::errors::failed;
use crate::notes::{ConflictNote, Notes, RejectNote};
use model::Failure;
use rusqlite::{Connection, params};

/// A reject whose remote has not presented a watermark issued after it.
const IS_OWED: &str = "EXISTS (SELECT 1 FROM syncline_owed AS o
    WHERE o.remote_id = r.remote_id AND o.table_name = r.table_name
      AND o.counter >= r.counter AND o.code IS NOT NULL)";

pub(super) fn rejects(connection: &Connection, wanted: Notes) -> Result<Vec<RejectNote>, Failure> {
    let sql = format!(
        "SELECT reject_id, rejected_at, remote_id, user_name, table_name, operation, row_key,
             row_content, code, message, NOT {IS_OWED}
         FROM syncline_reject AS r WHERE ?1 IS NULL OR reject_id = ?1
         ORDER BY reject_id DESC LIMIT ?2"
    );
    let reading = failed("read the rejects");
    let mut statement = connection.prepare(&sql).map_err(&reading)?;
    let (id, count) = wanted.bounds();
    let notes = statement
        .query_map(params![id, count], |row| {
            Ok(RejectNote {
                id: row.get(0)?,
                at: row.get(1)?,
                remote_id: row.get(2)?,
                user: row.get(3)?,
                table: row.get(4)?,
                operation: row.get(5)?,
                key: row.get(6)?,
                row: row.get(7)?,
                code: row.get(8)?,
                message: row.get(9)?,
                learned: row.get(10)?,
            })
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(&reading)?;
    Ok(notes.into_iter().rev().collect())
}

pub(super) fn conflicts(
    connection: &Connection,
    wanted: Notes,
) -> Result<Vec<ConflictNote>, Failure> {
    let sql = "SELECT conflict_id, detected_at, remote_id, user_name, table_name, operation,
             conflict_rule, old_row, new_row, consolidated_row, result_row
         FROM syncline_conflict WHERE ?1 IS NULL OR conflict_id = ?1
         ORDER BY conflict_id DESC LIMIT ?2";
    let reading = failed("read the conflicts");
    let mut statement = connection.prepare(sql).map_err(&reading)?;
    let (id, count) = wanted.bounds();
    let notes = statement
        .query_map(params![id, count], |row| {
            Ok(ConflictNote {
                id: row.get(0)?,
                at: row.get(1)?,
                remote_id: row.get(2)?,
                user: row.get(3)?,
                table: row.get(4)?,
                operation: row.get(5)?,
                rule: row.get(6)?,
                old: row.get(7)?,
                new: row.get(8)?,
                consolidated: row.get(9)?,
                result: row.get(10)?,
            })
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(&reading)?;
    Ok(notes.into_iter().rev().collect())
}

/// Removes the rejects that their remotes know of and that are at least so many seconds old.
pub(super) fn purge_rejects(connection: &Connection, seconds: i64) -> Result<u64, Failure> {
    let sql = format!(
        "DELETE FROM syncline_reject AS r
         WHERE rejected_at <= datetime('now', '-' || ?1 || ' seconds') AND NOT {IS_OWED}"
    );
    purge(connection, &sql, seconds, "remove rejects")
}

/// Removes the conflicts that are at least so many seconds old.
pub(super) fn purge_conflicts(connection: &Connection, seconds: i64) -> Result<u64, Failure> {
    let sql = "DELETE FROM syncline_conflict
        WHERE detected_at <= datetime('now', '-' || ?1 || ' seconds')";
    purge(connection, sql, seconds, "remove conflicts")
}

fn purge(
    connection: &Connection,
    sql: &str,
    seconds: i64,
    doing: &'static str,
) -> Result<u64, Failure> {
    let purged = connection.execute(sql, [seconds]).map_err(failed(doing))?;
    Ok(purged as u64)
}

/// Keeps the newest `rows_max` notes of each kind (S9), and of the rejects that their remotes know
/// of those of the last `rejects_kept_s` seconds.
pub(super) fn trim(
    connection: &Connection,
    rows_max: i64,
    rejects_kept_s: i64,
) -> Result<(), Failure> {
    purge_rejects(connection, rejects_kept_s)?;
    for (table, id) in [("syncline_conflict", "conflict_id"), ("syncline_reject", "reject_id")] {
        let sql = format!("DELETE FROM {table} WHERE {id} <= (SELECT max({id}) FROM {table}) - ?1");
        connection.execute(&sql, [rows_max]).map_err(failed("trim the notes"))?;
    }
    Ok(())
}
