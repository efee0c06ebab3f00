//! Rows that a restored center may lack, and of which no download shows it.
//!
//! A table is only uploaded. The center may have lost its rows, and may as well have processed and
//! removed them. So nothing is sent again, and a person decides.

use super::{Reason, insert};
use crate::apply::circumstances::Circumstances;
use crate::apply::download::Download;
use crate::connection::{explain, value};
use crate::schema::RemoteTable;
use crate::schema::history::History;
use crate::schema::stored_table::stored_tables;
use crate::sql::list;
use model::{Code, Failure, Value};
use rusqlite::Connection;

/// Most rows of one table of which is told that the consolidated database may lack them.
const PERHAPS_LOST_ROWS_MAX: i64 = 10_000;

/// Records the rows of tables that are only uploaded, where the center is in another state than
/// the one that they went to: it may lack them, and no download would show that. What waits to be
/// uploaded is no such row.
pub(in crate::apply) fn tell(
    connection: &Connection,
    download: &Download,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    let tables = circumstances.tables;
    if !download.begin.restored || tables.iter().all(RemoteTable::downloads) {
        return Ok(());
    }
    let mut history = History::read(connection)?;
    for stored in stored_tables(connection)? {
        let name = stored.published.name.as_str();
        let is_of_a_past = stored.watermark.is_some() || history.former_watermark(name).is_some();
        // The past of a table that nothing is downloaded of stays the same.
        let is_told = history.arriving.get(name).is_some_and(|arriving| arriving.told);
        let mut only_uploaded = tables.iter().filter(|table| !table.downloads());
        let table = only_uploaded.find(|table| table.name() == name);
        let Some(table) = table.filter(|_| is_of_a_past && !is_told) else { continue };
        record(connection, table, circumstances.at).map_err(explain)?;
        history.arriving.entry(name.to_owned()).or_default().told = true;
    }
    history.write(connection)
}

/// Records the rows of a table without a pending change, as far as they are not too many.
fn record(connection: &Connection, table: &RemoteTable, at: &str) -> rusqlite::Result<()> {
    let uploaded = format!(
        "FROM {} AS t WHERE NOT EXISTS (SELECT 1 FROM {} AS c WHERE {})",
        table.table_sql(),
        table.change_sql(),
        table.same_key("t.", "c."),
    );
    let count = format!("SELECT count(*) {uploaded}");
    let count: i64 = connection.query_row(&count, [], |row| row.get(0))?;
    let mut message =
        "the consolidated database was restored to an earlier state, and may lack this row"
            .to_owned();
    if count > PERHAPS_LOST_ROWS_MAX {
        let more = count - PERHAPS_LOST_ROWS_MAX;
        message.push_str(&format!(", as it may {more} more of the table that are not recorded"));
    }
    // The newest keys first, as far as keys have an age.
    let order: Vec<String> = (1..=table.key.len()).map(|column| format!("{column} DESC")).collect();
    let sql = format!(
        "SELECT {} {uploaded} ORDER BY {} LIMIT {PERHAPS_LOST_ROWS_MAX}",
        table.keys_sql("t."),
        list(order),
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let code = Code::RowPerhapsLost.number();
    while let Some(row) = rows.next()? {
        let key = (0..table.key.len()).map(|at| value(row, at).map(|it| it.to_owned()));
        let key = key.collect::<rusqlite::Result<Vec<Value>>>()?;
        let reason = Reason { counter: None, code, message: &message, at, base: None };
        insert(connection, table, &key, reason)?;
    }
    Ok(())
}
