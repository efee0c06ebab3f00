//! The reject table: rows that lost, kept at the remote with the reason (S5, S7).

use crate::connection::{bind, explain, value};
use crate::progress;
use crate::schema::RemoteTable;
use crate::sql::parameters;
use model::{Code, Counter, Failure, RowReader, Spill, Value, ValueRef};
use protocol::{FRAME_BYTES_MAX, FrameDecoder, Message};
use rusqlite::Connection;
use serde_json::{Map, Value as Json, json};

/// A row that the consolidated database refused, or lost.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredReject {
    /// The table.
    pub table: String,
    /// The key's values, as a JSON array.
    pub key: String,
    /// The synchronization in which it was refused.
    pub counter: i64,
    /// Why, as the number of an error code.
    pub code: u16,
    /// What the consolidated database said.
    pub message: String,
    /// The row as it was at this remote, as a JSON object; none if it was deleted here.
    pub row: Option<String>,
    /// When it was recorded.
    pub at: String,
}

/// Every reject, the oldest first.
pub(crate) fn all(connection: &Connection) -> Result<Vec<StoredReject>, Failure> {
    let mut statement = connection
        .prepare(
            "SELECT table_name, key, counter, code, message, row, at FROM syncline_reject
             ORDER BY at, counter, table_name, key",
        )
        .map_err(explain)?;
    let rows = statement
        .query_map([], |row| {
            Ok(StoredReject {
                table: row.get(0)?,
                key: row.get(1)?,
                counter: row.get(2)?,
                code: row.get(3)?,
                message: row.get(4)?,
                row: row.get(5)?,
                at: row.get(6)?,
            })
        })
        .map_err(explain)?;
    rows.collect::<rusqlite::Result<_>>().map_err(explain)
}

/// How many there are.
pub(crate) fn count(connection: &Connection) -> Result<u64, Failure> {
    connection
        .query_row("SELECT count(*) FROM syncline_reject", [], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
        .map_err(explain)
}

/// Forgets all.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM syncline_reject")
}

/// Records what came with a download. A reject comes again until the server knows that it
/// arrived; its row is taken as it was the first time.
pub(super) fn record(
    connection: &Connection,
    tables: &[RemoteTable],
    frames: &Spill,
    at: &str,
) -> Result<(), Failure> {
    let mut reader = frames.reader();
    while let Some(chunk) = reader.next_chunk()? {
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        decoder.push(&chunk);
        let message = decoder.next_frame()?.map(Message::decode).transpose()?.flatten();
        let Some(Message::Rejects(rejects)) = message else {
            return Err(Failure::new(Code::Bug, "the spill returned something else"));
        };
        for reject in rejects.rejects {
            let unknown = || Failure::new(Code::MalformedMessage, "a reject of an unknown table");
            let table = tables.get(usize::from(reject.table)).ok_or_else(unknown)?;
            let mut key = Vec::new();
            let mut reader = RowReader::new(&reject.key);
            for _ in &table.key {
                key.push(reader.value()?.to_owned());
            }
            let (code, message) = (reject.code, &reject.message);
            insert(connection, table, &key, Reason { counter: reject.counter, code, message, at })
                .map_err(explain)?;
        }
    }
    Ok(())
}

/// Records rows that a restored consolidated database lacks, before they are deleted here.
pub(super) fn record_lost_rows(
    connection: &Connection,
    table: &RemoteTable,
    keys: &[u8],
    at: &str,
) -> Result<(), Failure> {
    let counter = Counter(progress::get(connection, "counter").map_err(explain)?.unwrap_or(0));
    let message = "the consolidated database was restored to a state without this row";
    let mut reader = RowReader::new(keys);
    while !reader.is_at_end() {
        let mut key = Vec::new();
        for _ in &table.key {
            key.push(reader.value()?.to_owned());
        }
        if recorded_now(connection, table, &key, at).map_err(explain)? {
            continue;
        }
        let code = Code::RowLostByRestore.number();
        insert(connection, table, &key, Reason { counter, code, message, at }).map_err(explain)?;
    }
    Ok(())
}

/// Records a row that is about to be overwritten by what another state of the consolidated database
/// has in its place.
pub(super) fn record_set_back(
    connection: &Connection,
    table: &RemoteTable,
    key: &[ValueRef<'_>],
    at: &str,
) -> Result<(), Failure> {
    let key: Vec<Value> = key.iter().map(|value| (*value).to_owned()).collect();
    let row = row_json(connection, table, &key, 0).map_err(explain)?;
    let message = "the consolidated database has other values, perhaps of an earlier state";
    told(connection, table, &key, row, Code::RowSetBack, message, at)
}

/// Records a row that comes although it had gone from here.
pub(super) fn record_brought_back(
    connection: &Connection,
    table: &RemoteTable,
    key: &[ValueRef<'_>],
    row: &[ValueRef<'_>],
    at: &str,
) -> Result<(), Failure> {
    let key: Vec<Value> = key.iter().map(|value| (*value).to_owned()).collect();
    let columns = table.published.columns.iter().zip(row);
    let object: Map<String, Json> =
        columns.map(|(name, value)| (name.clone(), to_json(*value))).collect();
    let row = Some(Json::Object(object).to_string());
    let message = "the consolidated database has this row, which had gone or was made meanwhile";
    told(connection, table, &key, row, Code::RowBroughtBack, message, at)
}

fn told(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    row: Option<String>,
    code: Code,
    message: &str,
    at: &str,
) -> Result<(), Failure> {
    if recorded_now(connection, table, key, at).map_err(explain)? {
        return Ok(());
    }
    let counter = Counter(progress::get(connection, "counter").map_err(explain)?.unwrap_or(0));
    let reason = Reason { counter, code: code.number(), message, at };
    insert_with_row(connection, table, key, reason, row).map_err(explain)
}

/// Whether this very download has rejected the row: then the restore did not lose it.
fn recorded_now(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    at: &str,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM syncline_reject WHERE table_name = ?1 AND key = ?2 AND at = ?3",
    )?;
    statement.exists([table.name(), &key_json(key), at])
}

/// Records a change of this remote that will not be uploaded, with its row.
pub(crate) fn record_stranded(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    code: Code,
    at: &str,
) -> rusqlite::Result<()> {
    let counter = Counter(progress::get(connection, "counter")?.unwrap_or(0));
    let message = match code {
        Code::TableNotPublished => "changed before the table ceased to be published",
        Code::DirectionNotPublished => "changed before the table ceased to be uploaded",
        Code::ColumnLost => "changed in a column that the consolidated database publishes no more",
        Code::RowRefused => "made before the table had columns that may not be empty",
        Code::ShapeUnknown => "changed in a table that the consolidated database does not know so",
        _ => "changed under a table that the consolidated database does not have any more",
    };
    insert(connection, table, key, Reason { counter, code: code.number(), message, at })
}

/// Records a row of a table that came back, as it was before it was overwritten or removed.
pub(super) fn record_difference(
    connection: &Connection,
    table: &RemoteTable,
    row: &[ValueRef<'_>],
    code: Code,
    at: &str,
) -> rusqlite::Result<()> {
    let counter = Counter(progress::get(connection, "counter")?.unwrap_or(0));
    let key: Vec<Value> = table.key.iter().map(|key| row[key.position].to_owned()).collect();
    let columns = table.published.columns.iter().zip(row);
    let object: Map<String, Json> =
        columns.map(|(name, value)| (name.clone(), to_json(*value))).collect();
    let message = match code {
        Code::RowNotCaptured => "here without triggers, and otherwise or not at the centre",
        _ => "here when the table was published again, and otherwise or not at the centre",
    };
    let reason = Reason { counter, code: code.number(), message, at };
    let row = Some(Json::Object(object).to_string());
    insert_with_row(connection, table, &key, reason, row)
}

struct Reason<'a> {
    counter: Counter,
    code: u16,
    message: &'a str,
    at: &'a str,
}

fn insert(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    reason: Reason<'_>,
) -> rusqlite::Result<()> {
    let row = row_json(connection, table, key, reason.code)?;
    insert_with_row(connection, table, key, reason, row)
}

fn insert_with_row(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    reason: Reason<'_>,
    row: Option<String>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT OR IGNORE INTO syncline_reject VALUES ({})",
            parameters(1, 7)
        ))?
        .execute(rusqlite::params![
            table.name(),
            key_json(key),
            reason.counter.0,
            reason.code,
            reason.message,
            row,
            reason.at,
        ])?;
    Ok(())
}

fn key_json(key: &[Value]) -> String {
    Json::Array(key.iter().map(|value| to_json(value.as_ref())).collect()).to_string()
}

fn row_json(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    code: u16,
) -> rusqlite::Result<Option<String>> {
    // A column that is published no more is still here, and it is what the reject is about.
    let columns = match code == Code::ColumnDropped.number() {
        true => "*".to_owned(),
        false => table.columns_sql(""),
    };
    let sql = format!(
        "SELECT {columns} FROM {} WHERE {}",
        table.table_sql(),
        table.key_is_parameter("", 1)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref())?;
    }
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut object = Map::new();
    for (n, name) in names.into_iter().enumerate() {
        object.insert(name, to_json(value(row, n)?));
    }
    Ok(Some(Json::Object(object).to_string()))
}

/// A value in JSON. What JSON cannot say stands in an object: bytes as hexadecimal digits,
/// numbers that are none by name.
fn to_json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null | ValueRef::Absent => Json::Null,
        ValueRef::Integer(i) => i.into(),
        ValueRef::Real(r) if r.is_finite() => r.into(),
        ValueRef::Real(r) => json!({ "real": r.to_string() }),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => json!({ "text": hex(text) }),
        },
        ValueRef::Blob(bytes) => json!({ "blob": hex(bytes) }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
