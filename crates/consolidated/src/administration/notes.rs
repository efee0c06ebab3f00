//! Records about single rows for people: rejects and conflicts.

use super::readable;
use crate::sql::{Sql, TextRow, Words, number, text};
use model::Failure;

/// A row of a remote that was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectNote {
    /// Names it.
    pub id: i64,
    /// When, UTC.
    pub at: String,
    /// Whose row it was.
    pub remote_id: String,
    /// Who synchronized.
    pub user: String,
    /// The table.
    pub table: String,
    /// What the remote wanted: `insert`, `update`, `delete`; `download` of a row that the remote
    /// cannot be sent.
    pub operation: String,
    /// The key, a JSON object by column name.
    pub key: String,
    /// The row, in the same form.
    pub row: Option<String>,
    /// Why, as the number of an error code.
    pub code: u16,
    /// The same in words.
    pub message: String,
    /// The remote knows of it.
    pub learned: bool,
}

/// Two changes of one row that met.
#[derive(Debug, Clone, PartialEq)]
pub struct ConflictNote {
    /// Names it.
    pub id: i64,
    /// When, UTC.
    pub at: String,
    /// Whose change met another one.
    pub remote_id: String,
    /// Who synchronized.
    pub user: String,
    /// The table.
    pub table: String,
    /// What the remote wanted: `insert`, `update`, `delete`.
    pub operation: String,
    /// What decided.
    pub rule: String,
    /// The row as the remote knew it before: JSON, an object by column name.
    pub old: Option<String>,
    /// The row that the remote wanted.
    pub new: Option<String>,
    /// The row that was there.
    pub consolidated: Option<String>,
    /// The resulting row; none if it was deleted.
    pub result: Option<String>,
}

/// Which notes to read.
#[derive(Debug, Clone, Copy)]
pub enum Notes {
    /// The newest of them, at most so many.
    Newest(u32),
    /// One.
    Of(i64),
}

impl Notes {
    /// The end of the query for them: the newest come first.
    fn wanted(self, id: &str) -> String {
        match self {
            Notes::Newest(count) => format!("ORDER BY {id} DESC LIMIT {count}"),
            Notes::Of(wanted) => format!("WHERE {id} = {wanted}"),
        }
    }
}

/// A reject whose remote has not presented a watermark issued after it. What is owed because of a
/// lost conflict (E7009) is none.
const IS_OWED: &str = "EXISTS (SELECT 1 FROM {}syncline_owed AS o
    WHERE o.remote_id = r.remote_id AND o.table_name = r.table_name
      AND o.counter >= r.counter AND o.code <> 7009)";

/// The rejects, the oldest first.
pub(super) fn rejects<Q: Sql>(sql: &mut Q, wanted: Notes) -> Result<Vec<RejectNote>, Failure> {
    let query = format!(
        "SELECT CAST(reject_id AS text), {}, remote_id, user_name, table_name, operation, row_key,
             row_content, CAST(code AS text), message, CASE WHEN {IS_OWED} THEN 'owed' END
         FROM {{}}syncline_reject AS r {}",
        Q::Words::utc("rejected_at"),
        wanted.wanted("reject_id"),
    );
    let note = |row: &TextRow| {
        Ok(RejectNote {
            id: number(row, 0)?,
            at: text(row, 1),
            remote_id: text(row, 2),
            user: text(row, 3),
            table: text(row, 4),
            operation: text(row, 5),
            key: text(row, 6),
            row: row[7].clone(),
            code: number(row, 8)?,
            message: text(row, 9),
            learned: row[10].is_none(),
        })
    };
    sql.bookkeep("read the rejects", &query, &[])?.iter().rev().map(note).collect()
}

/// The conflicts, the oldest first.
pub(super) fn conflicts<Q: Sql>(sql: &mut Q, wanted: Notes) -> Result<Vec<ConflictNote>, Failure> {
    let query = format!(
        "SELECT CAST(conflict_id AS text), {}, remote_id, user_name, table_name, operation,
             conflict_rule, old_row, new_row, consolidated_row, result_row
         FROM {{}}syncline_conflict {}",
        Q::Words::utc("detected_at"),
        wanted.wanted("conflict_id"),
    );
    let note = |row: &TextRow| {
        Ok(ConflictNote {
            id: number(row, 0)?,
            at: text(row, 1),
            remote_id: text(row, 2),
            user: text(row, 3),
            table: text(row, 4),
            operation: text(row, 5),
            rule: text(row, 6),
            old: row[7].clone(),
            new: row[8].clone(),
            result: readable::result(row[10].clone(), &row[9]),
            consolidated: row[9].clone(),
        })
    };
    sql.bookkeep("read the conflicts", &query, &[])?.iter().rev().map(note).collect()
}

/// Removes the rejects that their remotes know of and that are at least so many seconds old.
pub(super) fn purge_rejects<Q: Sql>(sql: &mut Q, seconds: i64) -> Result<u64, Failure> {
    let old = Q::Words::ago(seconds);
    let delete = format!(
        "DELETE FROM {{}}syncline_reject AS r WHERE rejected_at <= {old} AND NOT {IS_OWED}"
    );
    sql.change("remove rejects", &delete, &[])
}

/// Removes the conflicts that are at least so many seconds old.
pub(super) fn purge_conflicts<Q: Sql>(sql: &mut Q, seconds: i64) -> Result<u64, Failure> {
    let old = Q::Words::ago(seconds);
    let delete = format!("DELETE FROM {{}}syncline_conflict WHERE detected_at <= {old}");
    sql.change("remove conflicts", &delete, &[])
}

/// Keeps the newest `rows_max` notes of each kind (S9), and of the rejects that their remotes know
/// of those of the last `rejects_kept_s` seconds.
pub(crate) fn trim<Q: Sql>(sql: &mut Q, rows_max: i64, rejects_kept_s: i64) -> Result<(), Failure> {
    purge_rejects(sql, rejects_kept_s)?;
    for (table, id) in [("syncline_conflict", "conflict_id"), ("syncline_reject", "reject_id")] {
        // Ids may have gaps, so they are counted; where there can be no more, they need not be.
        let of = format!("FROM {{}}{table}");
        let delete = format!(
            "DELETE {of} WHERE {id} <= CASE
                 WHEN (SELECT max({id}) {of}) - (SELECT min({id}) {of}) >= {rows_max}
                 THEN (SELECT {id} {of} ORDER BY {id} DESC LIMIT 1 OFFSET {rows_max}) END"
        );
        sql.change("trim the notes", &delete, &[])?;
    }
    Ok(())
}
