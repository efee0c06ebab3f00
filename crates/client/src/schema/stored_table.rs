//! What `syncline_table` says of each published table.

use crate::connection::{damaged, explain};
use model::Failure;
use rusqlite::Connection;

/// A row of `syncline_table`.
#[derive(Debug, Clone)]
pub(crate) struct StoredTable {
    pub(crate) published: model::PublishedTable,
    pub(crate) watermark: Option<model::Watermark>,
    /// We created it, so we may create it again.
    pub(crate) created: bool,
    /// Columns that may be large, as the change table was made for them.
    pub(crate) large: Vec<String>,
}

/// What `syncline_table` says.
pub(crate) fn stored_tables(connection: &Connection) -> Result<Vec<StoredTable>, Failure> {
    let mut statement = connection
        .prepare_cached(
            "SELECT published, watermark, created, large FROM syncline_table ORDER BY position",
        )
        .map_err(explain)?;
    let mut rows = statement.query([]).map_err(explain)?;
    let mut tables = Vec::new();
    while let Some(row) = rows.next().map_err(explain)? {
        let published: String = row.get(0).map_err(explain)?;
        let watermark: Option<Vec<u8>> = row.get(1).map_err(explain)?;
        let large: String = row.get(3).map_err(explain)?;
        let unreadable =
            |error: serde_json::Error| damaged("syncline_table does not read").source(error);
        tables.push(StoredTable {
            published: serde_json::from_str(&published).map_err(unreadable)?,
            large: serde_json::from_str(&large).map_err(unreadable)?,
            watermark: watermark.map(model::Watermark::new).transpose()?,
            created: row.get(2).map_err(explain)?,
        });
    }
    Ok(tables)
}
