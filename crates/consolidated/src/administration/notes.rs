//! Records about single rows for people: rejects and conflicts.

use super::readable;
use crate::sql::{Sql, TextRow, Words, json, number, text};
use model::{Failure, PublishedTable};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

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
    /// What became of it at the remote, `dismissed` or `retried`, as far as the remote has said.
    pub settled: Option<String>,
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
    /// The key, a JSON object by column name; none where the table is not published any more.
    pub key: Option<String>,
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

/// Which notes to read: those that meet all of it.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// The newest of them, at most so many.
    pub limit: u32,
    /// The one with this number.
    pub id: Option<i64>,
    /// Of this user.
    pub user: Option<String>,
    /// Of this remote.
    pub remote_id: Option<String>,
    /// Of this table.
    pub table: Option<String>,
    /// Not older than so many seconds.
    pub seconds: Option<i64>,
    /// Of conflicts: decided by a rule that is shown so, or begins so.
    pub rule: Option<String>,
}

impl Notes {
    /// The newest of all.
    pub fn newest(limit: u32) -> Notes {
        Notes { limit, ..Notes::default() }
    }

    /// One.
    pub fn of(id: i64) -> Notes {
        Notes { id: Some(id), ..Notes::newest(1) }
    }

    /// The end of the query for them, with its values: the newest come first.
    fn wanted<W: Words>(&self, id: &str, time: &str) -> (String, Vec<&str>) {
        let (mut conditions, mut values) = (vec!["1 = 1".to_owned()], Vec::new());
        conditions.extend(self.id.map(|wanted| format!("{id} = {wanted}")));
        conditions
            .extend(self.seconds.map(|age| format!("{time} >= {}", W::ago(&age.to_string()))));
        let texts = [
            ("user_name = ", &self.user),
            ("remote_id = ", &self.remote_id),
            ("table_name = ", &self.table),
        ];
        for (condition, wanted) in texts {
            if let Some(wanted) = wanted {
                values.push(wanted.as_str());
                conditions.push(format!("{condition}?{}", values.len()));
            }
        }
        if let Some(rule) = &self.rule {
            values.push(rule);
            let at = values.len();
            conditions.push(format!("substr(conflict_rule, 1, length(?{at})) = ?{at}"));
        }
        let conditions = conditions.join(" AND ");
        (format!("WHERE {conditions} ORDER BY {id} DESC LIMIT {}", self.limit), values)
    }
}

/// A reject whose remote has not presented a watermark issued after it. What is owed because of a
/// lost conflict (E7009) is none.
const IS_OWED: &str = "EXISTS (SELECT 1 FROM {}syncline_owed AS o
    WHERE o.remote_id = r.remote_id AND o.table_name = r.table_name
      AND o.counter >= r.counter AND o.code <> 7009)";

/// The rejects, the oldest first.
pub(super) fn rejects<Q: Sql>(sql: &mut Q, wanted: &Notes) -> Result<Vec<RejectNote>, Failure> {
    let (end, values) = wanted.wanted::<Q::Words>("reject_id", "rejected_at");
    let query = format!(
        "SELECT CAST(reject_id AS text), {}, remote_id, user_name, table_name, operation, row_key,
             row_content, CAST(code AS text), message, CASE WHEN {IS_OWED} THEN 'owed' END,
             settled
         FROM {{}}syncline_reject AS r {}",
        Q::Words::utc("rejected_at"),
        end,
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
            settled: row[11].clone(),
        })
    };
    sql.bookkeep("read the rejects", &query, &values)?.iter().rev().map(note).collect()
}

/// The conflicts, the oldest first.
pub(super) fn conflicts<Q: Sql>(sql: &mut Q, wanted: &Notes) -> Result<Vec<ConflictNote>, Failure> {
    let (end, values) = wanted.wanted::<Q::Words>("conflict_id", "detected_at");
    let keys = keys(sql)?;
    let query = format!(
        "SELECT CAST(conflict_id AS text), {}, remote_id, user_name, table_name, operation,
             conflict_rule, old_row, new_row, consolidated_row, result_row
         FROM {{}}syncline_conflict {}",
        Q::Words::utc("detected_at"),
        end,
    );
    let note = |row: &TextRow| {
        Ok(ConflictNote {
            id: number(row, 0)?,
            at: text(row, 1),
            remote_id: text(row, 2),
            user: text(row, 3),
            key: [9, 7, 8].into_iter().find_map(|image| key_of(&keys, row, image)),
            table: text(row, 4),
            operation: text(row, 5),
            rule: text(row, 6),
            old: row[7].clone(),
            new: row[8].clone(),
            result: readable::result(row[10].clone(), &row[9]),
            consolidated: row[9].clone(),
        })
    };
    sql.bookkeep("read the conflicts", &query, &values)?.iter().rev().map(note).collect()
}

/// The columns of the keys of the published tables, by name.
fn keys<Q: Sql>(sql: &mut Q) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let query = "SELECT table_name, published FROM {}syncline_table";
    let mut keys = BTreeMap::new();
    for row in sql.bookkeep("read the published tables", query, &[])? {
        let published: PublishedTable = json(&text(&row, 1))?;
        let columns = published.key.iter().filter_map(|at| published.columns.get(usize::from(*at)));
        keys.insert(text(&row, 0), columns.cloned().collect());
    }
    Ok(keys)
}

/// The key of the row in an image of a conflict, if the table is published and the image has it.
fn key_of(keys: &BTreeMap<String, Vec<String>>, row: &TextRow, image: usize) -> Option<String> {
    let image: Map<String, Json> = serde_json::from_str(row[image].as_deref()?).ok()?;
    let key = keys.get(row[4].as_deref()?)?.iter();
    let key = key.map(|name| Some((name.clone(), image.get(name)?.clone())));
    Some(Json::Object(key.collect::<Option<Map<String, Json>>>()?).to_string())
}

/// Removes the rejects that their remotes know of and that are at least so many seconds old.
pub(super) fn purge_rejects<Q: Sql>(sql: &mut Q, seconds: i64) -> Result<u64, Failure> {
    let old = Q::Words::ago(&seconds.to_string());
    let delete = format!(
        "DELETE FROM {{}}syncline_reject AS r WHERE rejected_at <= {old} AND NOT {IS_OWED}"
    );
    sql.change("remove rejects", &delete, &[])
}

/// Removes the conflicts that are at least so many seconds old.
pub(super) fn purge_conflicts<Q: Sql>(sql: &mut Q, seconds: i64) -> Result<u64, Failure> {
    let old = Q::Words::ago(&seconds.to_string());
    let delete = format!("DELETE FROM {{}}syncline_conflict WHERE detected_at <= {old}");
    sql.change("remove conflicts", &delete, &[])
}

/// Removes a conflict that is resolved.
pub(super) fn remove_conflict<Q: Sql>(sql: &mut Q, id: i64) -> Result<(), Failure> {
    let delete = format!("DELETE FROM {{}}syncline_conflict WHERE conflict_id = {id}");
    sql.change("remove a conflict", &delete, &[]).map(drop)
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
