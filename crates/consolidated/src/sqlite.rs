//! The consolidated database as one SQLite file.
//!
//! One writer applies uploads, several at a time in one transaction with a savepoint for each.
//! Readers fetch downloads from snapshots at the same time (WAL). Other programs may write to the
//! file: triggers record every change in a log per table. SQLite's single writer numbers the
//! entries, so a number is never visible before a smaller one.
//!
//! The command line uses `admin.rs`, and a server `writer.rs` and `reader.rs`.

mod admin;
mod catalog;
mod connect;
mod deploy;
mod details;
mod dialect;
mod download;
mod errors;
mod event_script;
mod identity;
mod incarnation;
mod owners_fault;
mod query;
mod reader;
mod serve_lock;
mod start;
mod tracking;
mod upload;
mod values;
mod words;
mod writer;

pub(crate) use admin::administer;
pub(crate) use reader::Reader;
pub(crate) use serve_lock::ServeLock;
pub(crate) use start::start;
pub(crate) use writer::Writer;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Location;
    use crate::sqlite::connect::connect;
    use crate::sync_model::SyncModel;
    use rusqlite::Connection;

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
        administer(Location::system(&path)).unwrap().deploy(&[model], false).unwrap();
        let analyze = "
            INSERT INTO item VALUES (1, 'x'), (2, 'y');
            INSERT INTO pair VALUES ('a', 'b', 'x');
            INSERT INTO mine VALUES ('ann', '1', 'x');
            INSERT INTO part VALUES ('1', 'ann');
            ANALYZE;";
        Connection::open(&path).unwrap().execute_batch(analyze).unwrap();

        let connection = connect(&Location::system(&path), true).unwrap();
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
