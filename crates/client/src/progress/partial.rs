//! What is kept of a download that was cut, so that the next one goes on with it.
//!
//! It lies in two tables of the file, which are there only while something is kept.

use crate::connection::{damaged, explain};
use crate::progress::facts;
use crate::schema::{KeyColumn, RemoteTable};
use model::Failure;
use protocol::{ResumedTable, Segment};
use rusqlite::{Connection, OptionalExtension, params};

/// Most bytes of Hello that say what is kept. With an upload that goes with it, Hello must stay
/// within what a server reads of a peer that it does not know.
const PRESENTED_BYTES_MAX: usize = 8 << 10;

/// Bytes of rows that were received again, beyond those that were not, from which on a table begins
/// anew: most of what is kept of it is stale. So no more is kept than twice the table.
pub(crate) const AGAIN_BYTES_MAX: i64 = 16 << 20;

/// The fact that the last download was cut.
pub(crate) const WAS_CUT: &str = "download_cut";

/// What is kept, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Rows, some perhaps more than once.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// `again` marks rows that may be among the kept ones already.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS syncline_partial (
             position INTEGER PRIMARY KEY,
             resume TEXT NOT NULL
         );
         CREATE TABLE IF NOT EXISTS syncline_partial_rows (
             sequence INTEGER PRIMARY KEY,
             position INTEGER NOT NULL,
             again INTEGER NOT NULL,
             rows INTEGER NOT NULL,
             payload BLOB NOT NULL
         )",
    )
}

fn exists(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'syncline_partial'")?
        .exists([])
}

/// Removes everything, in the transaction of what makes it void (AR2).
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    if exists(connection)? {
        connection
            .execute_batch("DROP TABLE syncline_partial_rows; DROP TABLE syncline_partial")?;
        facts::forget(connection, &[WAS_CUT])?;
    }
    Ok(())
}

pub(crate) fn drop_table(connection: &Connection, at: usize) -> rusqlite::Result<()> {
    for table in ["syncline_partial", "syncline_partial_rows"] {
        let sql = format!("DELETE FROM {table} WHERE position = ?1");
        connection.prepare_cached(&sql)?.execute([at as i64])?;
    }
    Ok(())
}

pub(crate) fn keep(
    connection: &Connection,
    (position, again, rows): (u16, bool, u32),
    payload: &[u8],
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO syncline_partial_rows (position, again, rows, payload)
               VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![position, again, rows, payload])?;
    Ok(())
}

pub(crate) fn set(connection: &Connection, resumed: &ResumedTable) -> Result<(), Failure> {
    let text = serde_json::to_string(resumed)
        .map_err(|error| damaged("what is kept of a download has no text").source(error))?;
    let sql = "INSERT OR REPLACE INTO syncline_partial (position, resume) VALUES (?1, ?2)";
    let mut statement = connection.prepare_cached(sql).map_err(explain)?;
    statement.execute(params![resumed.table, text]).map_err(explain)?;
    Ok(())
}

/// What is kept, by table. What does not read is not kept.
fn read(connection: &Connection) -> Result<Vec<ResumedTable>, Failure> {
    if !exists(connection).map_err(explain)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT position, resume FROM syncline_partial ORDER BY position";
    let mut statement = connection.prepare_cached(sql).map_err(explain)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows: Vec<(i64, String)> = rows.and_then(Iterator::collect).map_err(explain)?;
    let read = |(position, text): &(i64, String)| {
        let resumed: ResumedTable = serde_json::from_str(text).ok()?;
        (i64::from(resumed.table) == *position && !resumed.segments.is_empty()).then_some(resumed)
    };
    Ok(rows.iter().filter_map(read).collect())
}

/// What Hello presents: of the tables whose keys are equal only where their bytes are, and of which
/// not too much has come again and again.
pub(crate) fn presented(
    connection: &Connection,
    tables: &[RemoteTable],
) -> Result<Vec<ResumedTable>, Failure> {
    let mut bytes = 0;
    let mut presented = Vec::new();
    for resumed in read(connection)? {
        let table = tables.get(usize::from(resumed.table));
        let is_exact = table.is_some_and(|table| table.key.iter().all(KeyColumn::is_exact));
        let more = bytes + presented_bytes(&resumed);
        let fits = is_exact && more <= PRESENTED_BYTES_MAX;
        if fits && again_bytes(connection, resumed.table)? <= AGAIN_BYTES_MAX {
            bytes = more;
            presented.push(resumed);
        }
    }
    Ok(presented)
}

fn presented_bytes(resumed: &ResumedTable) -> usize {
    let segment = |segment: &Segment| segment.token.len() + segment.position.len();
    let segments: usize = resumed.segments.iter().chain(&resumed.deletes).map(segment).sum();
    segments + resumed.first.as_ref().map_or(0, |token| token.len())
}

/// Whether the last download was cut.
pub(crate) fn was_cut(connection: &Connection) -> Result<bool, Failure> {
    Ok(facts::get::<i64>(connection, WAS_CUT).map_err(explain)?.is_some())
}

/// How many more bytes of a table came again than came once.
fn again_bytes(connection: &Connection, position: u16) -> Result<i64, Failure> {
    let sql = "SELECT coalesce(sum(CASE again WHEN 0 THEN -1 ELSE 1 END * length(payload)), 0)
               FROM syncline_partial_rows WHERE position = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(explain)?;
    statement.query_row([position], |row| row.get(0)).map_err(explain)
}

/// How much is kept of this table, or of all.
pub(crate) fn kept(connection: &Connection, at: Option<usize>) -> Result<Kept, Failure> {
    if !exists(connection).map_err(explain)? {
        return Ok(Kept::default());
    }
    let sql = "SELECT coalesce(sum(rows), 0), coalesce(sum(length(payload)), 0)
               FROM syncline_partial_rows WHERE ?1 IS NULL OR position = ?1";
    let count = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let mut statement = connection.prepare_cached(sql).map_err(explain)?;
    let at = at.map(|at| at as i64);
    let (rows, bytes) = statement.query_row([at], count).map_err(explain)?;
    Ok(Kept { rows: rows.unsigned_abs(), bytes: bytes.unsigned_abs() })
}

/// The next frame of a table behind `behind`: its number, and whether its rows may be there twice.
pub(crate) fn next(
    connection: &Connection,
    at: usize,
    behind: i64,
) -> rusqlite::Result<Option<(i64, bool, Vec<u8>)>> {
    let sql = "SELECT sequence, again, payload FROM syncline_partial_rows
               WHERE position = ?1 AND sequence > ?2 ORDER BY sequence LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let frame = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    statement.query_row(params![at as i64, behind], frame).optional()
}
