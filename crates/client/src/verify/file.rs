//! What can be said of a remote file without a server.

use crate::connection::explain;
use crate::schema::RemoteTable;
use crate::{Remote, progress, schema};
use model::Failure;
use rusqlite::Connection;

/// Faults that are named, at most.
const FAULTS_MAX: usize = 100;

/// What came of the check of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileCheck {
    /// What SQLite says is damaged, the first of it.
    pub faults: Vec<String>,
    /// Rows that refer to rows that are not there.
    pub broken_references: u64,
    /// Published tables.
    pub tables: usize,
    /// Those whose triggers were missing, so that not all changes of them may be known. The next
    /// synchronization compares them, or uploads all that they have.
    pub uncaptured: Vec<String>,
    /// Others that are downloaded, and whose rows only the next synchronization brings.
    pub not_received: Vec<String>,
}

impl Remote {
    /// Checks the file, without a server: what SQLite says of it, and that every published table is
    /// there and has its triggers. Missing ones are created again, which is told.
    /// [`model::Code::RemoteTablesDamaged`] if a table that they write to is missing.
    pub fn check(&mut self) -> Result<FileCheck, Failure> {
        let mut faults = Vec::new();
        let sql = format!("PRAGMA integrity_check({FAULTS_MAX})");
        let mut statement = self.connection.prepare(&sql).map_err(explain)?;
        let mut rows = statement.query([]).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let fault: String = row.get(0).map_err(explain)?;
            if fault != "ok" {
                faults.push(fault);
            }
        }
        drop(rows);
        drop(statement);
        let sql = "SELECT count(*) FROM pragma_foreign_key_check";
        let broken = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let broken_references = broken.map_err(explain)?.unsigned_abs();
        // Before they are there again.
        let uncaptured = schema::uncaptured(&self.connection)?;
        let tables = self.tables()?;
        tables.iter().try_for_each(|table| require_own_tables(&self.connection, table))?;
        let not_received = not_received(&self.connection, &tables)?
            .filter(|table| !uncaptured.iter().any(|name| name == table.name()))
            .map(|table| table.name().to_owned())
            .collect();
        Ok(FileCheck { faults, broken_references, tables: tables.len(), uncaptured, not_received })
    }
}

/// What the triggers of a table write to is there. Without it no program can write to the table.
fn require_own_tables(connection: &Connection, table: &RemoteTable) -> Result<(), Failure> {
    if !table.uploads() {
        return Ok(());
    }
    for own in ["syncline_generation", &table.change_sql()] {
        connection.prepare(&format!("SELECT 1 FROM {own}")).map_err(explain)?;
    }
    Ok(())
}

/// The tables of which the next download has every row. Without a watermark there is nothing that
/// the remote should have.
pub(super) fn not_received<'t>(
    connection: &Connection,
    tables: &'t [RemoteTable],
) -> Result<impl Iterator<Item = &'t RemoteTable>, Failure> {
    let all = tables.iter().zip(progress::watermarks(connection)?);
    let missing = all.filter(|(table, watermark)| table.downloads() && watermark.is_none());
    Ok(missing.map(|(table, _)| table))
}
