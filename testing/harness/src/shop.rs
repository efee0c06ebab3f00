//! A music shop as a program before Syncline has it: the published Chinook, and one of its shape.
//!
//! The published scripts are not part of the checkout. Tests that read them are named
//! `…_needs_syncline_test_data` and are ignored unless `SYNCLINE_TEST_DATA` names their folder;
//! each runs on [`Shop::Generated`] too, which needs nothing.

mod dialect;
mod rows;
mod tables;

pub use dialect::Dialect;

use std::path::Path;

/// The environment variable that names the folder with the published scripts.
const DATA_VARIABLE: &str = "SYNCLINE_TEST_DATA";

/// Where the shop comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shop {
    /// The scripts of Chinook, as published.
    Published,
    /// Tables of the same names and kinds, with rows that are made here.
    Generated,
}

impl Shop {
    /// The SQL that makes the shop in an empty database.
    ///
    /// # Panics
    /// When the published scripts cannot be read.
    pub fn script(self, dialect: Dialect) -> String {
        match (self, dialect) {
            (Shop::Generated, _) => tables::create(dialect) + &rows::insert(dialect),
            (Shop::Published, Dialect::Sqlite) => published("Chinook_Sqlite.sql"),
            (Shop::Published, Dialect::Postgres) => {
                let text = published("Chinook_PostgreSql.sql");
                let (_, tables) = text.split_once("\\c chinook;").unwrap();
                tables.to_owned()
            }
        }
    }
}

fn published(name: &str) -> String {
    let Some(folder) = std::env::var_os(DATA_VARIABLE) else {
        panic!("{DATA_VARIABLE} must name the folder with {name}");
    };
    let path = Path::new(&folder).join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{DATA_VARIABLE}: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ForeignTool;
    use crate::postgres::Cluster;
    use crate::{count, tables};

    const ROWS: [(&str, &str, i64); 11] = [
        ("Album", "album", 347),
        ("Artist", "artist", 275),
        ("Customer", "customer", 59),
        ("Employee", "employee", 8),
        ("Genre", "genre", 25),
        ("Invoice", "invoice", 412),
        ("InvoiceLine", "invoice_line", 2240),
        ("MediaType", "media_type", 5),
        ("Playlist", "playlist", 18),
        ("PlaylistTrack", "playlist_track", 3000),
        ("Track", "track", 1200),
    ];

    #[test]
    fn the_shop_has_the_same_rows_in_both_dialects() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let script = Shop::Generated.script(Dialect::Sqlite);
        ForeignTool::Shell.sql(&path, &format!("BEGIN; {script} COMMIT;"));
        assert_eq!(tables(&path).len(), ROWS.len());
        assert_eq!(count(&path, "SELECT count(*) FROM pragma_foreign_key_check"), 0);

        let database = Cluster::shared().database();
        database.sql(&Shop::Generated.script(Dialect::Postgres));
        assert_eq!(database.tables().len(), ROWS.len());
        for (sqlite, postgres, rows) in ROWS {
            assert_eq!(count(&path, &format!("SELECT count(*) FROM {sqlite}")), rows, "{sqlite}");
            let at_postgres = database.count(&format!("SELECT count(*) FROM {postgres}"));
            assert_eq!(at_postgres, rows, "{postgres}");
        }
    }
}
