//! Reads and removes what is kept about single rows.

use super::errors::failed;
use super::link::{Link, Row, Unreadable};
use crate::notes::{ConflictNote, Notes, RejectNote};
use model::{Code, Failure};

/// A reject whose remote has not presented a watermark issued after it.
const IS_OWED: &str = "EXISTS (SELECT FROM syncline.syncline_owed AS o
    WHERE o.remote_id = r.remote_id AND o.table_name = r.table_name
      AND o.counter >= r.counter AND o.code IS NOT NULL)";

/// As SQLite spells a time.
const UTC: &str = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')";

pub(super) fn rejects(link: &mut Link, wanted: Notes) -> Result<Vec<RejectNote>, Failure> {
    let sql = format!(
        "SELECT reject_id, {}, remote_id, user_name, table_name, operation, row_key, row_content,
             code, message, (NOT {IS_OWED})::int4
         FROM syncline.syncline_reject AS r WHERE $1::int8 IS NULL OR reject_id = $1
         ORDER BY reject_id DESC LIMIT $2",
        UTC.replace("{}", "rejected_at")
    );
    let note = |row: &Row| -> Result<RejectNote, Unreadable> {
        let (code, learned): (i32, i32) = (row.try_get(8)?, row.try_get(10)?);
        Ok(RejectNote {
            id: row.try_get(0)?,
            at: row.try_get(1)?,
            remote_id: row.try_get(2)?,
            user: row.try_get(3)?,
            table: row.try_get(4)?,
            operation: row.try_get(5)?,
            key: row.try_get(6)?,
            row: row.try_get(7)?,
            code: u16::try_from(code).unwrap_or_default(),
            message: row.try_get(9)?,
            learned: learned != 0,
        })
    };
    read(link, &sql, wanted, note, "read the rejects")
}

pub(super) fn conflicts(link: &mut Link, wanted: Notes) -> Result<Vec<ConflictNote>, Failure> {
    let sql = format!(
        "SELECT conflict_id, {}, remote_id, user_name, table_name, operation, conflict_rule,
             old_row, new_row, consolidated_row, result_row
         FROM syncline.syncline_conflict WHERE $1::int8 IS NULL OR conflict_id = $1
         ORDER BY conflict_id DESC LIMIT $2",
        UTC.replace("{}", "detected_at")
    );
    let note = |row: &Row| -> Result<ConflictNote, Unreadable> {
        Ok(ConflictNote {
            id: row.try_get(0)?,
            at: row.try_get(1)?,
            remote_id: row.try_get(2)?,
            user: row.try_get(3)?,
            table: row.try_get(4)?,
            operation: row.try_get(5)?,
            rule: row.try_get(6)?,
            old: row.try_get(7)?,
            new: row.try_get(8)?,
            consolidated: row.try_get(9)?,
            result: row.try_get(10)?,
        })
    };
    read(link, &sql, wanted, note, "read the conflicts")
}

fn read<T>(
    link: &mut Link,
    sql: &str,
    wanted: Notes,
    note: impl Fn(&Row) -> Result<T, Unreadable>,
    doing: &str,
) -> Result<Vec<T>, Failure> {
    let (id, count) = wanted.bounds();
    let rows = link.query(sql, &[&id, &count]).map_err(failed(doing))?;
    let notes = rows.iter().rev().map(note).collect::<Result<_, _>>();
    notes.map_err(|error| Failure::new(Code::Drift, "a note does not read").source(error))
}

/// Removes the rejects that their remotes know of and that are at least so many seconds old.
pub(super) fn purge_rejects(link: &mut Link, seconds: i64) -> Result<u64, Failure> {
    let sql = format!(
        "DELETE FROM syncline.syncline_reject AS r
         WHERE rejected_at <= now() - make_interval(secs => $1::int8) AND NOT {IS_OWED}"
    );
    purge(link, &sql, seconds, "remove rejects")
}

/// Removes the conflicts that are at least so many seconds old.
pub(super) fn purge_conflicts(link: &mut Link, seconds: i64) -> Result<u64, Failure> {
    let sql = "DELETE FROM syncline.syncline_conflict
        WHERE detected_at <= now() - make_interval(secs => $1::int8)";
    purge(link, sql, seconds, "remove conflicts")
}

fn purge(link: &mut Link, sql: &str, seconds: i64, doing: &str) -> Result<u64, Failure> {
    let sql = format!("WITH purged AS ({sql} RETURNING 1) SELECT count(*) FROM purged");
    let rows = link.query(&sql, &[&seconds]).map_err(failed(doing))?;
    let count: Option<i64> = rows.first().and_then(|row| row.try_get(0).ok());
    Ok(count.unwrap_or_default().unsigned_abs())
}

/// Keeps the newest `rows_max` notes of each kind (S9), and of the rejects that their remotes know
/// of those of the last `rejects_kept_s` seconds.
pub(super) fn trim(link: &mut Link, rows_max: i64, rejects_kept_s: i64) -> Result<(), Failure> {
    purge_rejects(link, rejects_kept_s)?;
    for (table, id) in [("syncline_conflict", "conflict_id"), ("syncline_reject", "reject_id")] {
        let sql = format!(
            "DELETE FROM syncline.{table} WHERE {id} <= (
                 SELECT {id} FROM syncline.{table} ORDER BY {id} DESC OFFSET $1 LIMIT 1)"
        );
        link.query(&sql, &[&rows_max]).map_err(failed("trim the notes"))?;
    }
    Ok(())
}
