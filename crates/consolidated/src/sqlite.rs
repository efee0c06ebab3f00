//! The consolidated database as one SQLite file.
//!
//! One writer applies uploads, several at a time in one transaction with a savepoint for each.
//! Readers fetch downloads from snapshots at the same time (WAL). Other programs may write to the
//! file: triggers record every change in a log per table. SQLite's single writer numbers the
//! entries, so a number is never visible before a smaller one.
//!
//! The command line uses `admin.rs`, and a server `writer.rs` and `reader.rs`.

mod admin;
mod affinity;
mod binding;
mod catalog;
mod check;
mod conflict;
mod constraint;
mod deploy;
mod dialect;
mod durable;
mod effects;
mod errors;
mod fence;
mod fetch;
mod firing;
mod fleet;
mod followers;
mod identity;
mod incarnation;
mod key_change;
mod ledger;
mod links;
mod made;
mod migration;
mod moves;
mod new_keys;
mod notes;
mod orphans;
mod plan;
mod reached;
mod reader;
mod remote_ddl;
mod runs;
mod scripts;
mod serve_lock;
mod shapes;
mod start;
mod stretch;
mod tables;
mod tracking;
mod upload;
mod values;
mod watermark;
mod withhold;
mod writer;

pub(crate) use admin::Admin;
pub(crate) use reader::Reader;
pub(crate) use serve_lock::ServeLock;
pub(crate) use start::start;
pub(crate) use writer::Writer;

use crate::serving::Serving;
use errors::failed;
use model::{Code, Failure};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long a statement waits for another program's lock before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements kept per connection; more than any model needs at once.
const STATEMENTS_MAX: usize = 4096;

/// After how many steps of a statement it looks whether it is to end: far less than a millisecond,
/// and too many to be felt.
const STEPS: i32 = 10_000;

/// Opens an existing database file for a server.
fn connect_for(path: &Path, read_only: bool, serving: &Serving) -> Result<Connection, Failure> {
    let mut connection = connect(path, read_only)?;
    let cancellation = serving.cancellation.clone();
    connection
        .progress_handler(STEPS, Some(move || cancellation.is_cancelled()))
        .map_err(failed("set up the end of statements"))?;
    Ok(connection)
}

/// Opens an existing database file.
fn connect(path: &Path, read_only: bool) -> Result<Connection, Failure> {
    if !path.is_file() {
        return Err(Failure::new(
            Code::DatabaseUnavailable,
            format!("there is no database file {}", path.display()),
        ));
    }
    // Readers open for writing too: a WAL file of a killed writer needs recovery first.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed("set the lock time-out"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans that depend on the values bound would be created again in every synchronization.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failed("keep plans stable"))?;
    // The first access to the file: this is where one learns that it is no database.
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(|error| opening(path, error))?;
    connection
        .execute_batch(match read_only {
            true => "PRAGMA query_only = ON;",
            // With a small cache every page of a large upload would be written several times.
            false => {
                "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;"
            }
        })
        .map_err(failed("set up the connection"))?;
    Ok(connection)
}

fn opening(path: &Path, error: rusqlite::Error) -> Failure {
    let code = errors::code(&error);
    let code = if code == Code::ScriptFailed { Code::DatabaseUnavailable } else { code };
    Failure::new(code, format!("cannot open {}", path.display())).source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Administration;
    use crate::sync_model::SyncModel;

    /// Plans were made once from statistics of a nearly empty table: each download then read all of
    /// its rows for each of its own, which made a thousand downloads a thousand times as slow.
    ///
    /// With one row, SQLite reads the whole of a table whose key is the rowid, and this cannot be
    /// prevented; so there are two in that one.
    #[test]
    fn downloads_look_rows_up_whatever_analyze_has_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consolidated.db");
        let schema = "
            CREATE TABLE item (id INTEGER PRIMARY KEY, v TEXT);
            CREATE TABLE pair (a TEXT, b TEXT, v TEXT, PRIMARY KEY (a, b));
            CREATE TABLE mine (owner TEXT, id TEXT, v TEXT, PRIMARY KEY (owner, id));
            CREATE TABLE part (id TEXT PRIMARY KEY NOT NULL, owner TEXT) WITHOUT ROWID;
            CREATE INDEX part_owner ON part (owner);";
        Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        let model = "script_version = \"v1\"
            [table.item]
            [table.pair]
            [table.mine]
            partition = \"owner = {u.name}\"
            [table.part]
            partition = \"owner = {u.name}\"";
        let model = SyncModel::parse(model, "model.toml").unwrap();
        Admin::open(&path).unwrap().deploy(&[model], false).unwrap();
        let analyze = "
            INSERT INTO item VALUES (1, 'x'), (2, 'y');
            INSERT INTO pair VALUES ('a', 'b', 'x');
            INSERT INTO mine VALUES ('ann', '1', 'x');
            INSERT INTO part VALUES ('1', 'ann');
            ANALYZE;";
        Connection::open(&path).unwrap().execute_batch(analyze).unwrap();

        let connection = connect(&path, true).unwrap();
        let deployed = "SELECT table_name, event, script FROM syncline_script
             WHERE event LIKE 'download%' ORDER BY table_name, event";
        let mut scripts = connection.prepare(deployed).unwrap();
        let mut scripts = scripts.query([]).unwrap();
        let mut seen = 0;
        while let Some(script) = scripts.next().unwrap() {
            let read = |column| script.get::<_, String>(column).unwrap();
            let (table, event, mut sql) = (read(0), read(1), read(2));
            while let (Some(from), Some(to)) = (sql.find('{'), sql.find('}')) {
                sql.replace_range(from..=to, "?");
            }
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps: Vec<String> =
                plan.raw_query().mapped(|row| row.get("detail")).map(Result::unwrap).collect();
            let what = format!("{event} of {table}: {steps:#?}");
            let begins = |what| steps.iter().filter(|step| step.starts_with(what)).count();
            // Only what sends a whole table may read it.
            let anew = event == "download_cursor" && table != "mine";
            assert!(begins("SCAN t") <= usize::from(anew), "{what}");
            assert!(begins("SEARCH t USING") > 0, "{what}");
            seen += 1;
        }
        assert_eq!(seen, 8);
    }
}
