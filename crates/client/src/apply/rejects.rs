//! The reject table: rows that lost, stored at the remote with the reason (S5, S7).

pub(crate) mod lost_conflicts;
pub(super) mod perhaps_lost;
pub(crate) mod settled;

use super::circumstances::Circumstances;
use super::download::Download;
use super::readable::{key_json, row_json, row_text};
use super::values::next_key;
use crate::connection::{bind, explain, value};
use crate::progress::facts;
use crate::progress::state::Frozen;
use crate::schema::{Image, RemoteTable};
use crate::sql::list;
use model::{Code, Counter, Failure, PublishedTable, Readable, RowReader, Value, ValueRef};
use protocol::{FRAME_BYTES_MAX, FrameDecoder, Message};
use rusqlite::Connection;
use serde_json::{Map, Value as Json, json};

/// The number of the last reject, in `syncline_state`.
const LAST_ID: &str = "reject_last_id";

/// The number of the last reject that a summary has reported.
const LAST_TOLD: &str = "reject_last_told";

/// A row that the consolidated database refused, or lost.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredReject {
    /// Its number in this file.
    pub id: i64,
    /// The table.
    pub table: String,
    /// The key, as a JSON object by column name.
    pub key: String,
    /// The synchronization in which it was refused. If this remote itself recorded the reject, it
    /// is the remote's own number, negative.
    pub counter: i64,
    /// Why, as the number of an error code.
    pub code: u16,
    /// What the consolidated database said.
    pub message: String,
    /// The row as it was at this remote, as a JSON object; none if it was deleted here.
    pub row: Option<String>,
    /// When it was recorded.
    pub at: String,
    /// The row to which the change was made, as JSON, and `null` where there was none; none where
    /// that is not known.
    pub base: Option<String>,
}

/// Every reject, the oldest first.
pub(crate) fn all(connection: &Connection) -> Result<Vec<StoredReject>, Failure> {
    let mut statement = connection
        .prepare(
            "SELECT table_name, key, counter, code, message, row, at, id, base FROM syncline_reject
             ORDER BY id",
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
                id: row.get(7)?,
                base: row.get(8)?,
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

/// Records the rejects and lost conflicts of a download. They are repeated until the server knows
/// that they arrived. The row of each is recorded the first time. The entries of the upload that
/// this download follows are still there.
pub(super) fn record(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
) -> Result<Learned, Failure> {
    let Circumstances { tables, committed, at, .. } = *circumstances;
    let unknown = || Failure::new(Code::MalformedMessage, "a reject of an unknown table");
    let mut learned = Learned::default();
    let mut reader = download.rejects.reader();
    while let Some(chunk) = reader.next_chunk()? {
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        decoder.push(&chunk);
        let message = decoder.next_frame()?.map(Message::decode).transpose()?.flatten();
        let rejects = match message {
            Some(Message::Rejects(rejects)) => rejects,
            Some(Message::LostConflicts(lost)) => {
                lost_conflicts::create(connection).map_err(explain)?;
                for conflict in &lost.conflicts {
                    let position = usize::from(conflict.table);
                    let table = tables.get(position).ok_or_else(unknown)?;
                    let base = |key: &[Value]| base(connection, table, key, committed);
                    let of = (table, position);
                    let news = lost_conflicts::record(connection, of, conflict, at, base)?;
                    learned.conflicts.extend(news);
                }
                continue;
            }
            _ => return Err(Failure::new(Code::Bug, "the spill returned something else")),
        };
        for reject in rejects.rejects {
            let table = tables.get(usize::from(reject.table)).ok_or_else(unknown)?;
            let key = next_key(table, &mut RowReader::new(&reject.key))?;
            let (code, message) = (reject.code, &reject.message);
            // Not to what it was before it was entered again.
            let base = match code == Code::RowKeyTaken.number() {
                true => Some("null".to_owned()),
                false => base(connection, table, &key, committed).map_err(explain)?,
            };
            let counter = Some(reject.counter);
            let reason = Reason { counter, code, message, at, base };
            let row = row_json(connection, table, &key, code, &[]).map_err(explain)?;
            let is_news = insert_with_row(connection, table, &key, reason, row).map_err(explain)?;
            learned.rejects += u64::from(is_news);
            if is_news && code == Code::RowKeyTaken.number() {
                learned.lost.push((usize::from(reject.table), key));
                continue;
            }
            let withheld = [Code::RowTooLargeToSend, Code::OwedRowUnreadable];
            if withheld.iter().any(|withheld| withheld.number() == code) {
                learned.withheld.push(Withheld { table: usize::from(reject.table), key });
            }
        }
    }
    Ok(learned)
}

/// What a download tells of single rows.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// Rejects that are news.
    pub(super) rejects: u64,
    /// Rows that could not be sent. They are not gone.
    pub(super) withheld: Vec<Withheld>,
    /// New rows of this remote whose keys other rows have at the center: table and key.
    pub(super) lost: Vec<(usize, Vec<Value>)>,
    /// Lost conflicts that are news.
    pub(super) conflicts: Vec<lost_conflicts::Unsettled>,
}

/// The row to which an uploaded change was made, by column name; `null` where it was new. None
/// where that is not known any more.
fn base(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    committed: Option<Frozen>,
) -> rusqlite::Result<Option<String>> {
    let Some(frozen) = committed.filter(|_| table.uploads()) else { return Ok(None) };
    let columns = table.published.columns.iter().map(|name| Image::Old.column(name));
    let captured = if table.large_bits() == 0 { "0" } else { "\"captured\"" };
    let sql = format!(
        "SELECT \"existed\", {captured}, {} FROM {} WHERE {} AND \"generation\" = ?{}",
        list(columns),
        table.change_sql(),
        table.our_key_is_parameter(1),
        table.key.len() + 1
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref())?;
    }
    statement.raw_bind_parameter(table.key.len() + 1, frozen.generation)?;
    let mut rows = statement.raw_query();
    let Some(row) = rows.next()? else { return Ok(None) };
    if row.get::<_, i64>(0)? == 0 {
        return Ok(Some("null".to_owned()));
    }
    let captured: i64 = row.get(1)?;
    let mut object = Map::new();
    for (n, name) in table.published.columns.iter().enumerate() {
        // An unchanged large value was not recorded: it is not compared.
        if table.large[n].is_none_or(|bit| captured & (1 << bit) != 0) {
            object.insert(name.clone(), json!(Readable(value(row, n + 2)?)));
        }
    }
    Ok(Some(Json::Object(object).to_string()))
}

/// How many rejects no summary has reported.
pub(crate) fn untold(connection: &Connection) -> Result<u64, Failure> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM syncline_reject WHERE id >
             coalesce((SELECT value FROM syncline_state WHERE name = ?1), 0)",
        )
        .and_then(|mut statement| statement.query_row([LAST_TOLD], |row| row.get::<_, i64>(0)))
        .map(i64::unsigned_abs)
        .map_err(explain)
}

/// The summary that is being written tells of all.
pub(crate) fn note_told(connection: &Connection) -> Result<(), Failure> {
    let last: i64 = facts::get(connection, LAST_ID).map_err(explain)?.unwrap_or(0);
    facts::set(connection, LAST_TOLD, last).map_err(explain)
}

/// A row of the center that does not come.
#[derive(Debug)]
pub(super) struct Withheld {
    /// Position of the table.
    pub(super) table: usize,
    pub(super) key: Vec<Value>,
}

/// Records a change that belongs to a row which has lost its key to another row. False if this
/// download has rejected it already.
pub(super) fn record_belonging(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    at: &str,
) -> rusqlite::Result<bool> {
    if recorded_now(connection, table, key, at)? {
        return Ok(false);
    }
    let message = "the row that it belongs to was rejected, and another row has its key";
    let code = Code::RowOfKeyTaken.number();
    insert(connection, table, key, Reason { counter: None, code, message, at, base: None })
}

/// Records rows that a restored consolidated database lacks, before they are deleted here.
pub(super) fn record_lost_rows(
    connection: &Connection,
    table: &RemoteTable,
    keys: &[u8],
    at: &str,
) -> Result<(), Failure> {
    let message = "the consolidated database was restored to a state without this row";
    let mut reader = RowReader::new(keys);
    while !reader.is_at_end() {
        let key = next_key(table, &mut reader)?;
        if recorded_now(connection, table, &key, at).map_err(explain)? {
            continue;
        }
        let code = Code::RowLostByRestore.number();
        insert(connection, table, &key, Reason { counter: None, code, message, at, base: None })
            .map_err(explain)?;
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
    let row = row_json(connection, table, &key, 0, &[]).map_err(explain)?;
    let message = "the consolidated database has other values, possibly of an earlier state";
    told(connection, table, &key, row, Code::RowSetBack, message, at)
}

/// Records a row that has gone, with what lay in the columns of `own`, which are not published.
pub(super) fn record_taken(
    connection: &Connection,
    table: &RemoteTable,
    row: &[ValueRef<'_>],
    own: &[String],
    at: &str,
) -> Result<(), Failure> {
    let key: Vec<Value> = table.key.iter().map(|key| row[key.position].to_owned()).collect();
    let row = Some(row_text(table, own, row));
    let message = "the row has gone from here, with values in columns that are not synchronized";
    let code = Code::OwnValuesGone.number();
    let reason = Reason { counter: None, code, message, at, base: None };
    insert_with_row(connection, table, &key, reason, row).map(drop).map_err(explain)
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
    let row = Some(row_text(table, &[], row));
    let message = "the consolidated database has this row, which was deleted here before or is new";
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
    let reason = Reason { counter: None, code: code.number(), message, at, base: None };
    insert_with_row(connection, table, key, reason, row).map(|_| ()).map_err(explain)
}

/// Records a downloaded row that its table refuses. It is tried again and again, and one reject
/// tells of it.
pub(super) fn record_unfit(
    connection: &Connection,
    table: &RemoteTable,
    row: &[ValueRef<'_>],
    reason: &str,
    at: &str,
) -> rusqlite::Result<()> {
    let key: Vec<Value> = table.key.iter().map(|key| row[key.position].to_owned()).collect();
    let (text, code) = (row_text(table, &[], row), Code::RowUnfit.number());
    let updated = connection
        .prepare_cached(
            "UPDATE syncline_reject SET row = ?4, message = ?5
             WHERE table_name = ?1 AND key = ?2 AND code = ?3",
        )?
        .execute(rusqlite::params![table.name(), key_json(table, &key), code, text, reason])?;
    if updated > 0 {
        return Ok(());
    }
    let reason = Reason { counter: None, code, message: reason, at, base: None };
    insert_with_row(connection, table, &key, reason, Some(text)).map(|_| ())
}

/// Whether a reject tells that the table refuses the row.
pub(super) fn is_unfit(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<bool> {
    is_told(connection, table, key, Code::RowUnfit)
}

fn is_told(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    code: Code,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM syncline_reject WHERE table_name = ?1 AND key = ?2 AND code = ?3";
    let told = rusqlite::params![table.name(), key_json(table, key), code.number()];
    connection.prepare_cached(sql)?.exists(told)
}

/// Records a row that should have gone, and `why` it stays.
pub(super) fn record_held(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    why: &str,
    at: &str,
) -> rusqlite::Result<()> {
    if is_told(connection, table, key, Code::RowHeld)? {
        return Ok(());
    }
    let code = Code::RowHeld.number();
    let message = format!("the row no longer belongs to this remote, but {why}");
    let reason = Reason { counter: None, code, message: &message, at, base: None };
    insert(connection, table, key, reason).map(drop)
}

/// The codes of rejects that tell of what is kept back.
fn kept_back() -> [u16; 2] {
    [Code::RowUnfit.number(), Code::RowHeld.number()]
}

/// The row has found its place, or is gone.
pub(super) fn forget_unfit(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
) -> rusqlite::Result<()> {
    let [unfit, held] = kept_back();
    connection
        .prepare_cached(
            "DELETE FROM syncline_reject WHERE table_name = ?1 AND key = ?2 AND code IN (?3, ?4)",
        )?
        .execute(rusqlite::params![table.name(), key_json(table, key), unfit, held])
        .map(drop)
}

/// Forgets what is reported of rows of the table that are kept back.
pub(super) fn forget_all_unfit(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<()> {
    let [unfit, held] = kept_back();
    connection
        .prepare_cached("DELETE FROM syncline_reject WHERE table_name = ?1 AND code IN (?2, ?3)")?
        .execute(rusqlite::params![table.name(), unfit, held])
        .map(drop)
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
    statement.exists([table.name(), &key_json(table, key), at])
}

/// Records a change of this remote that will not be uploaded, with its row.
pub(crate) fn record_stranded(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    code: Code,
    at: &str,
) -> rusqlite::Result<()> {
    let message = match code {
        Code::TableNotPublished => "changed while the table was still published",
        Code::DirectionNotPublished => "changed while the table was still uploaded",
        Code::ColumnLost => {
            "changed in a column that the consolidated database no longer publishes, or that may \
             be another column there now"
        }
        Code::RowRefused => "made before the table had columns that must have a value",
        Code::RowDiffersOnReturn => "changed before the rows of its table were downloaded again",
        Code::ShapeUnknown => {
            "changed with a definition of the table that the consolidated database does not know"
        }
        _ => "changed in a table that the consolidated database no longer has",
    };
    let reason = Reason { counter: None, code: code.number(), message, at, base: None };
    insert(connection, table, key, reason).map(|_| ())
}

/// Records a row of a table that is published again, as it was before it was overwritten or
/// removed. Behind what is published of it are the columns of `own`.
pub(super) fn record_difference(
    connection: &Connection,
    table: &RemoteTable,
    (row, own): (&[ValueRef<'_>], &[String]),
    code: Code,
    at: &str,
) -> rusqlite::Result<()> {
    let key: Vec<Value> = table.key.iter().map(|key| row[key.position].to_owned()).collect();
    let row = Some(row_text(table, own, row));
    let message = match code {
        Code::RowNotCaptured => "here without triggers; the center has another row or none",
        _ => "here when the table was published again; the center has another row or none",
    };
    let reason = Reason { counter: None, code: code.number(), message, at, base: None };
    insert_with_row(connection, table, &key, reason, row).map(|_| ())
}

/// Records a row of a table that is published again and whose new definition refuses the row, by
/// the names of its columns. Columns of the key that it does not have are left out.
pub(crate) fn record_left_out(
    connection: &Connection,
    published: &PublishedTable,
    row: &[(&str, ValueRef<'_>)],
    at: &str,
) -> rusqlite::Result<()> {
    let of = |wanted: &String| {
        let value = row.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        value.map(|(_, value)| (wanted.clone(), json!(Readable(*value))))
    };
    let key = published.key.iter().filter_map(|at| published.columns.get(usize::from(*at)));
    let key = Json::Object(key.filter_map(of).collect()).to_string();
    let told = row.iter().filter(|(_, value)| !matches!(value, ValueRef::Null));
    let row: Map<String, Json> =
        told.map(|(name, value)| ((*name).to_owned(), json!(Readable(*value)))).collect();
    let message = "here when the table was published again, which does not take it as it is now";
    let code = Code::RowDiffersOnReturn.number();
    let reason = Reason { counter: None, code, message, at, base: None };
    let row = Some(Json::Object(row).to_string());
    insert_as_read(connection, &published.name, &key, reason, row).map(drop)
}

/// Says of changes whose table the consolidated database did not know that it is gone there: that
/// is known with its new tables.
pub(crate) fn say_dropped(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let message = format!(
        "table {table} was dropped at the consolidated database, or is not published any more"
    );
    let sql = "UPDATE syncline_reject SET message = ?1 WHERE table_name = ?2 AND code = ?3";
    let code = Code::ShapeUnknown.number();
    connection.execute(sql, rusqlite::params![message, table, code]).map(drop)
}

#[derive(Default)]
struct Reason<'a> {
    /// The synchronization in which the consolidated database refused the row; none if this remote
    /// itself recorded the reject.
    counter: Option<Counter>,
    code: u16,
    message: &'a str,
    at: &'a str,
    /// The row that the change was made to, as JSON; `null` where there was none.
    base: Option<String>,
}

/// Records a reject. One of the consolidated database that is there already stays as it is. What
/// this remote records by itself is news each time, whatever else is known of the row, unless the
/// same was recorded just now.
fn insert(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    reason: Reason<'_>,
) -> rusqlite::Result<bool> {
    let row = row_json(connection, table, key, reason.code, &[])?;
    insert_with_row(connection, table, key, reason, row)
}

fn insert_with_row(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    reason: Reason<'_>,
    row: Option<String>,
) -> rusqlite::Result<bool> {
    insert_as_read(connection, table.name(), &key_json(table, key), reason, row)
}

/// The same with the key as people read it.
fn insert_as_read(
    connection: &Connection,
    table: &str,
    key: &str,
    reason: Reason<'_>,
    row: Option<String>,
) -> rusqlite::Result<bool> {
    if let Some(counter) = reason.counter
        && settled::is_settled(connection, table, key, counter)?
    {
        return Ok(false);
    }
    let id = facts::get::<i64>(connection, LAST_ID)?.unwrap_or(0) + 1;
    let inserted = connection
        .prepare_cached(
            "INSERT INTO syncline_reject
                 (table_name, key, counter, code, message, row, at, id, base)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT EXISTS (
                 SELECT 1 FROM syncline_reject
                 WHERE table_name = ?1 AND key = ?2
                   AND (counter = ?3 OR ?10 AND code = ?4 AND row IS ?6 AND at = ?7))",
        )?
        .execute(rusqlite::params![
            table,
            key,
            reason.counter.map_or(-id, |counter| counter.0),
            reason.code,
            reason.message,
            row,
            reason.at,
            id,
            reason.base,
            reason.counter.is_none(),
        ])?;
    if inserted == 1 {
        facts::set(connection, LAST_ID, id)?;
    }
    Ok(inserted == 1)
}
