//! A consolidated database on PostgreSQL, for the remotes of `center.rs`.

use super::center::{Center, deploy};
use harness::postgres::{Cluster, TestDatabase};
use syncline_consolidated::{Url, open_reader, open_writer};

/// A database with `schema`, deployed with a model whose tables have `tables` as their text.
pub(crate) fn center(schema: &str, tables: &str) -> (Center, TestDatabase) {
    let database = Cluster::shared().database();
    database.sql(schema);
    let center = deployed(&database, tables);
    (center, database)
}

/// The same for a database that is there.
pub(crate) fn deployed(database: &TestDatabase, tables: &str) -> Center {
    let url = Url::parse(&database.url()).unwrap();
    deploy(&url, tables).unwrap();
    connected(database)
}

/// New connections to a deployed database.
pub(crate) fn connected(database: &TestDatabase) -> Center {
    let folder = tempfile::tempdir().unwrap();
    let url = Url::parse(&database.url()).unwrap();
    let (writer, reader) = (open_writer(&url).unwrap(), open_reader(&url).unwrap());
    Center { folder, url, writer, reader, by_writer: false }
}
