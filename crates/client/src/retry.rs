//! What a person decides about a reject or a lost conflict: try it again, or dismiss it.
//!
//! A retry is an ordinary change of the present row, which triggers capture and the next
//! synchronization uploads. It is refused if the row is not the one to which the rejected change
//! was made. Otherwise it would overwrite work that the author of the change has not seen.

use crate::apply::constraint::{is_duplicate, is_of_another_table};
use crate::apply::readable;
use crate::apply::rejects::lost_conflicts::{self, StoredConflict};
use crate::apply::rejects::{self, StoredReject, settled};
use crate::connection::{begin_immediate, bind, explain, triggers_on, value};
use crate::schema::RemoteTable;
use crate::sql::{ident, list, parameters};
use model::{Code, Failure, Readable, Value, unhex};
use protocol::Settlement;
use rusqlite::{Connection, Error};
use serde_json::{Map, Value as Json, json};

/// What is decided about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Reject,
    Conflict,
}

/// Forgets rejects or lost conflicts; all or none.
pub(crate) fn dismiss(connection: &Connection, kind: Kind, ids: &[i64]) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    for id in ids {
        forget(connection, kind, *id, Settlement::Dismissed)?;
    }
    transaction.commit().map_err(explain)
}

/// Makes the rejected changes again and forgets the rejects; all or none.
pub(crate) fn retry(
    connection: &Connection,
    tables: &[RemoteTable],
    ids: &[i64],
    force: bool,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    triggers_on(connection)?;
    let stored = rejects::all(connection)?;
    for id in ids {
        let reject = stored.iter().find(|reject| reject.id == *id);
        let reject = reject.ok_or_else(|| unknown(Kind::Reject, *id))?;
        retry_one(connection, tables, reject, force).map_err(|failure| {
            failure.about(format!("reject {id}")).table(&reject.table).key(&reject.key)
        })?;
        forget(connection, Kind::Reject, *id, Settlement::Retried)?;
    }
    transaction.commit().map_err(explain)
}

/// Makes the changes that lost conflicts again, to the rows that stayed, and forgets the conflicts;
/// all or none.
pub(crate) fn retry_conflicts(
    connection: &Connection,
    tables: &[RemoteTable],
    ids: &[i64],
    force: bool,
) -> Result<(), Failure> {
    let transaction = begin_immediate(connection)?;
    triggers_on(connection)?;
    let stored = lost_conflicts::all(connection)?;
    for id in ids {
        let conflict = stored.iter().find(|conflict| conflict.id == *id);
        let conflict = conflict.ok_or_else(|| unknown(Kind::Conflict, *id))?;
        retry_conflict(connection, tables, conflict, force).map_err(|failure| {
            failure.about(format!("conflict {id}")).table(&conflict.table).key(&conflict.key)
        })?;
        forget(connection, Kind::Conflict, *id, Settlement::Retried)?;
    }
    transaction.commit().map_err(explain)
}

fn unknown(kind: Kind, id: i64) -> Failure {
    match kind {
        Kind::Reject => Failure::new(Code::NoSuchReject, format!("there is no reject {id}")),
        Kind::Conflict => Failure::new(Code::NoSuchReject, format!("there is no conflict {id}"))
            .hint("`syncline remote conflicts FILE` lists the conflicts"),
    }
}

/// Removes it from its list, and remembers that it is settled.
fn forget(
    connection: &Connection,
    kind: Kind,
    id: i64,
    as_what: Settlement,
) -> Result<(), Failure> {
    let forgotten = match kind {
        Kind::Reject => {
            settled::reject(connection, id, as_what)?;
            let sql = "DELETE FROM syncline_reject WHERE id = ?1";
            connection.execute(sql, [id]).map_err(explain)? > 0
        }
        Kind::Conflict => lost_conflicts::forget(connection, id)?,
    };
    if forgotten { Ok(()) } else { Err(unknown(kind, id)) }
}

/// Makes one change again. Columns that this remote had not changed stay as the center has them.
fn retry_conflict(
    connection: &Connection,
    tables: &[RemoteTable],
    conflict: &StoredConflict,
    force: bool,
) -> Result<(), Failure> {
    let name = &conflict.table;
    let Some(table) = uploaded(tables, name) else { return Err(not_retried(not_uploaded(name))) };
    let key = key_of(table, &conflict.key)?;
    let read = |text: &Option<String>| {
        let known = text.as_deref().filter(|text| *text != "null");
        known.map(object).transpose()
    };
    let (lost, base) = (read(&conflict.lost)?, read(&conflict.base)?);
    let now = row_now(connection, table, &key).map_err(explain)?;
    if !force && !is_as_it_stayed(read(&conflict.stayed)?, conflict, table, now.as_ref()) {
        let message = format!("the row of {name} has changed since the conflict");
        return Err(Failure::new(Code::RetryOverwrites, message));
    }
    let wanted = lost.map(|mut row| {
        row.retain(|column, wanted| {
            // Of a row that was there before, a large value that was not changed is not known.
            let is_changed = match &base {
                Some(base) if now.is_some() => base.get(column).is_some_and(|was| was != wanted),
                _ => true,
            };
            is_changed && table.published.columns.contains(column)
        });
        row
    });
    if wanted.as_ref().is_some_and(Map::is_empty) {
        return Ok(());
    }
    write(connection, table, &key, wanted.as_ref(), now.is_some())
        .map_err(|error| refused(name, error))
}

/// The row has not changed since the conflict, as far as it was published then and is now.
fn is_as_it_stayed(
    stayed: Option<Map<String, Json>>,
    conflict: &StoredConflict,
    table: &RemoteTable,
    now: Option<&Map<String, Json>>,
) -> bool {
    match (stayed, now) {
        (Some(stayed), Some(now)) => {
            let mut published =
                stayed.iter().filter(|(name, _)| table.published.columns.contains(*name));
            published.all(|(name, was)| now.get(name) == Some(was))
        }
        (None, None) => conflict.stayed.is_some(),
        _ => false,
    }
}

/// Why a reject can never be retried, whatever the row is; none where that depends on the row.
pub(crate) fn never_retried(tables: &[RemoteTable], reject: &StoredReject) -> Option<String> {
    let why = match Code::from_number(reject.code) {
        Some(Code::RowTooLargeToSend | Code::OwedRowUnreadable) => "the center has the row",
        Some(Code::RowUnfit) => "the row was downloaded, and every synchronization tries it again",
        Some(Code::RowHeld) => "the row is deleted when nothing is in the way any longer",
        _ => return uploaded(tables, &reject.table).is_none().then(|| not_uploaded(&reject.table)),
    };
    Some(format!("nothing was changed here: {why}"))
}

/// The published table of this name, if it is uploaded.
fn uploaded<'t>(tables: &'t [RemoteTable], name: &str) -> Option<&'t RemoteTable> {
    let mut uploaded = tables.iter().filter(|table| table.uploads());
    uploaded.find(|table| table.name().eq_ignore_ascii_case(name))
}

fn not_uploaded(table: &str) -> String {
    format!("table {table} is no longer uploaded, so the center would not receive the row")
}

fn not_retried(message: impl Into<String>) -> Failure {
    Failure::new(Code::RejectNotRetried, message)
}

/// Why the table here does not take the row.
fn refused(table: &str, error: Error) -> Failure {
    let message = if is_duplicate(&error) && !is_of_another_table(&error, table) {
        // The other row is as it was downloaded, or a new one of this remote.
        format!(
            "another row of table {table} has the same UNIQUE value here; if the center has \
             changed that row, synchronize first"
        )
    } else {
        format!("table {table} refuses the row")
    };
    not_retried(message).source(error)
}

fn retry_one(
    connection: &Connection,
    tables: &[RemoteTable],
    reject: &StoredReject,
    force: bool,
) -> Result<(), Failure> {
    let name = &reject.table;
    if let Some(why) = never_retried(tables, reject) {
        return Err(not_retried(why));
    }
    if reject.code == Code::RowOfKeyTaken.number() && !force {
        let message = "the row that it belongs to has another key now, or is gone; what it refers \
                       to is a row of somebody else";
        return Err(Failure::new(Code::RetryOverwrites, message));
    }
    let Some(table) = uploaded(tables, name) else { return Err(not_retried(not_uploaded(name))) };
    let key = key_of(table, &reject.key)?;
    let row = reject.row.as_deref().map(object).transpose()?;
    if let Some(row) = &row {
        let lost = [Code::ColumnLost, Code::ColumnDropped];
        let own = match lost.iter().any(|lost| lost.number() == reject.code) {
            // What was to be uploaded is not, if it is written here.
            true => Vec::new(),
            // They are written here as they were, because they were never uploaded.
            false => readable::own_columns(connection, table).map_err(explain)?,
        };
        let known =
            |column: &&String| table.published.columns.contains(column) || own.contains(column);
        if let Some(lost) = row.keys().find(|column| !known(column)) {
            let message = format!("column {lost} of the row is no longer published");
            return Err(not_retried(message));
        }
    }
    let now = row_now(connection, table, &key).map_err(explain)?;
    // A delete of a row that was there has that row. Otherwise the row was gone when the center
    // told of the reject, and what is there now is the work of somebody else.
    let knows_wanted = row.is_some() || !matches!(reject.base.as_deref(), None | Some("null"));
    if !knows_wanted && now.is_some() {
        let message = "it is not known what was wanted: the row was not here any more when the \
                       center told of it";
        return Err(not_retried(message.to_owned()));
    }
    let published = row.clone().map(|mut row| {
        row.retain(|column, _| table.published.columns.contains(column));
        row
    });
    if !force && !is_as_it_was(reject, published.as_ref(), now.as_ref())? {
        let message = format!("the row of {name} has changed since the rejected change was made");
        return Err(Failure::new(Code::RetryOverwrites, message));
    }
    write(connection, table, &key, row.as_ref(), now.is_some())
        .map_err(|error| refused(name, error))
}

/// The row has not changed since the rejected change was made.
fn is_as_it_was(
    reject: &StoredReject,
    wanted: Option<&Map<String, Json>>,
    now: Option<&Map<String, Json>>,
) -> Result<bool, Failure> {
    if wanted == now {
        return Ok(true);
    }
    let Some(now) = now else {
        // If there was a row, it was deleted.
        return Ok(matches!(reject.base.as_deref(), None | Some("null")));
    };
    match reject.base.as_deref() {
        None | Some("null") => Ok(false),
        Some(base) => Ok(object(base)?.iter().all(|(name, was)| now.get(name) == Some(was))),
    }
}

fn write(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    row: Option<&Map<String, Json>>,
    exists: bool,
) -> rusqlite::Result<()> {
    let name = table.table_sql();
    let columns: Vec<&String> = row.map(|row| row.keys().collect()).unwrap_or_default();
    let mut values: Vec<Value> =
        row.map(|row| row.values().map(from_json).collect()).unwrap_or_default();
    let condition = |first| table.key_is_parameter("", first);
    let sql = match (row, exists) {
        (None, false) => return Ok(()),
        (None, true) => format!("DELETE FROM {name} WHERE {}", condition(1)),
        (Some(_), false) => format!(
            "INSERT INTO {name} ({}) VALUES ({})",
            list(columns.iter().map(|column| ident(column))),
            parameters(1, columns.len())
        ),
        (Some(_), true) => {
            let set = columns.iter().enumerate();
            let set = list(set.map(|(n, column)| format!("{} = ?{}", ident(column), n + 1)));
            format!("UPDATE {name} SET {set} WHERE {}", condition(columns.len() + 1))
        }
    };
    if exists {
        values.extend_from_slice(key);
    }
    let mut statement = connection.prepare_cached(&sql)?;
    for (n, value) in values.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref())?;
    }
    statement.raw_execute().map(|_| ())
}

/// The row as it is, in the form of the reject table.
fn row_now(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<Option<Map<String, Json>>> {
    let sql = format!(
        "SELECT {} FROM {} WHERE {}",
        table.columns_sql(""),
        table.table_sql(),
        table.key_is_parameter("", 1)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref())?;
    }
    let mut rows = statement.raw_query();
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut object = Map::new();
    for (n, name) in table.published.columns.iter().enumerate() {
        object.insert(name.clone(), json!(Readable(value(row, n)?)));
    }
    Ok(Some(object))
}

/// The key's values in the order of the key.
fn key_of(table: &RemoteTable, text: &str) -> Result<Vec<Value>, Failure> {
    let values: Option<Vec<Value>> = match serde_json::from_str(text) {
        Ok(Json::Object(columns)) => {
            table.key.iter().map(|key| columns.get(&key.name).map(from_json)).collect()
        }
        _ => None,
    };
    values.ok_or_else(|| not_retried("the key of the table has changed"))
}

fn object(text: &str) -> Result<Map<String, Json>, Failure> {
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Ok(object),
        _ => Err(not_retried("the reject has no row that can be written again")),
    }
}

/// The value that [`Readable`] wrote as this JSON.
fn from_json(json: &Json) -> Value {
    let text = |name: &str| json.get(name).and_then(Json::as_str);
    match json {
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Integer(integer),
            None => Value::Real(number.as_f64().unwrap_or_default()),
        },
        Json::Bool(truth) => Value::Integer(i64::from(*truth)),
        Json::String(text) => Value::Text(text.clone().into_bytes()),
        Json::Object(_) => match (text("blob"), text("text"), text("real")) {
            (Some(digits), ..) => Value::Blob(unhex(digits).unwrap_or_default()),
            (_, Some(digits), _) => Value::Text(unhex(digits).unwrap_or_default()),
            (.., Some(number)) => Value::Real(number.parse().unwrap_or(f64::NAN)),
            _ => Value::Null,
        },
        Json::Null | Json::Array(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_from_the_reject_table() {
        let values = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.1),
            Value::Real(1.0),
            Value::Real(f64::INFINITY),
            Value::Text(b"a\0b".to_vec()),
            Value::Text(vec![0xff]),
            Value::Blob(vec![0, 255]),
            Value::Blob(Vec::new()),
        ];
        for value in values {
            let json = json!(Readable(value.as_ref())).to_string();
            let back = from_json(&serde_json::from_str(&json).unwrap());
            assert!(back.as_ref().identical(value.as_ref()), "{value:?}: {json}, {back:?}");
        }
    }
}
