//! A new SQLite file, beside the one that was named, in a folder that ends with the run.

use super::database::Center;
use super::tables::{NAME, create_tables, tables};
use crate::baseline::{self, Baseline, Load};
use crate::checksum::Checksum;
use crate::machine::processors::Processors;
use crate::options::Model;
use crate::purchase::{Purchase, digest};
use consolidated::Url;
use model::{Code, Failure};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How long the run waits for the server's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The file, and the connection of an ordinary program.
pub(super) struct Sqlite {
    folder: TempDir,
    url: Url,
    connection: Connection,
    model: Model,
}

impl Sqlite {
    /// Makes the file beside `path`, on the same disk. Nothing is done to `path` itself.
    pub(super) fn create(path: &Path, model: Model, published: u32) -> Result<Sqlite, Failure> {
        let beside = path.parent().unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new()
            .prefix(&format!("{NAME}-"))
            .tempdir_in(beside)
            .map_err(|error| {
                let message = format!("cannot make a folder in {}", beside.display());
                Failure::new(Code::CannotWrite, message).source(error)
            })?;
        let file = folder.path().join("consolidated.db");
        let connection = Connection::open(&file).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.execute_batch(&create_tables(model, published, "", "")).map_err(failed)?;
        Ok(Sqlite { folder, url: Url::Sqlite(file), connection, model })
    }
}

impl Sqlite {
    /// How the deployed log of changes is made, with its indexes.
    fn log_of_changes(&self) -> Result<String, Failure> {
        let query = "SELECT coalesce(group_concat(sql, ';'), '') FROM sqlite_master
                     WHERE tbl_name = 'syncline_log_purchase' AND type IN ('table', 'index')";
        self.connection.query_row(query, [], |row| row.get(0)).map_err(failed)
    }
}

impl Center for Sqlite {
    fn url(&self) -> &Url {
        &self.url
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn has_decimals(&self) -> bool {
        false
    }

    fn insert(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure> {
        let transaction = self.connection.transaction().map_err(failed)?;
        for row in rows {
            let sql = format!("INSERT INTO {} VALUES (?, ?, ?, ?, ?, ?)", row.table().name());
            let mut statement = transaction.prepare_cached(&sql).map_err(failed)?;
            statement
                .execute(params![
                    row.employee(),
                    row.id(),
                    row.third(),
                    row.cost_real(),
                    row.order_date(),
                    row.notes()
                ])
                .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn update(&mut self, rows: &mut dyn Iterator<Item = Purchase>) -> Result<(), Failure> {
        let transaction = self.connection.transaction().map_err(failed)?;
        for row in rows {
            let (table, id) = (row.table().name(), row.table().id_column());
            let sql = format!("UPDATE {table} SET cost = ?3 WHERE emp_id = ?1 AND {id} = ?2");
            let mut statement = transaction.prepare_cached(&sql).map_err(failed)?;
            statement
                .execute(params![row.employee(), row.id(), row.cost_real()])
                .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(failed)
    }

    fn checksums(&mut self) -> Result<BTreeMap<i64, Checksum>, Failure> {
        let mut checksums: BTreeMap<i64, Checksum> = BTreeMap::new();
        for table in tables(self.model) {
            let query = format!("SELECT {} FROM {}", table.columns().join(", "), table.name());
            let mut statement = self.connection.prepare(&query).map_err(failed)?;
            let mut rows = statement.query([]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let read = || -> rusqlite::Result<(i64, u64)> {
                    let ids = [row.get(0)?, row.get(1)?, row.get(2)?];
                    let cost = format!("{:.6}", row.get::<_, f64>(3)?);
                    let date = row.get_ref(4)?.as_str()?;
                    Ok((ids[0], digest(ids, &cost, date, row.get_ref(5)?.as_str()?)))
                };
                let (employee, digest) = read().map_err(failed)?;
                checksums.entry(employee).or_default().add(digest);
            }
        }
        Ok(checksums)
    }

    fn pin(&mut self, _: &Processors) -> Result<(), Failure> {
        // The database is a part of the server's process, which is pinned as a whole.
        Ok(())
    }

    fn cpu(&self) -> Option<Duration> {
        // The database is a part of the server's process.
        None
    }

    fn baseline(&mut self, load: &Load, _: Option<&Processors>) -> Result<Baseline, Failure> {
        let log = self.log_of_changes()?;
        baseline::sqlite::measure(&self.folder.path().join("bare.db"), load, &log)
    }

    fn settings(&mut self) -> Result<Value, Failure> {
        let pragma = |name: &str| -> Result<String, Failure> {
            self.connection
                .query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
                .map_err(failed)
        };
        Ok(json!({
            "database": "SQLite",
            "version": rusqlite::version(),
            "journal_mode": pragma("journal_mode")?,
            "synchronous": "FULL",
        }))
    }

    fn remove(self: Box<Self>) -> Result<(), Failure> {
        let Sqlite { folder, connection, .. } = *self;
        drop(connection);
        folder.close().map_err(|error| {
            Failure::new(Code::CannotWrite, "cannot remove the folder of the run").source(error)
        })
    }
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::new(Code::ScriptFailed, "the database of the benchmark failed").source(error)
}
