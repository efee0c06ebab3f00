//! Rows of a download that have another key than the one by which the remote knows them.
//!
//! The key changes beside the log of a table say which rows these are (`moves.rs`). A remote is
//! told the old key with the row, so that its own `ON UPDATE` acts, and its row stays the same row.
//!
//! Invariants:
//! N1. No remote is told an old key that it did not have (S7). The delete cursor names the key, or
//!     the remote receives another row under it; and its row had the place then that it has now, or
//!     one that the delete cursor asks for. In every other case the row comes as any row does, and
//!     its old key goes as any key does.
//! N2. What lies under an old key that is told is told too: the row that is there now comes,
//!     whoever has made it. So the remote holds what is here, whatever it held before (S3).

use super::catalog::CatalogTable;
use super::errors::failed;
use super::moves;
use super::runs;
use super::tracking::{MOVED, log_name};
use super::values::{Bind, write_row};
use crate::quote::{ident, join};
use crate::rebase::values;
use crate::selection::place_column;
use model::{Failure, PublishedTable, skip_row};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};

/// Most key changes of a table that a download tells as what they are. Beyond it, as where the log
/// is too short, a row goes and another comes.
const KEY_CHANGES_MAX: usize = 100_000;

/// The rows of a table that a remote knows by other keys.
#[derive(Default)]
pub(super) struct NewKeys {
    /// By the key that a row has now, the one by which the remote knows it.
    known_by: HashMap<Vec<u8>, Vec<u8>>,
    /// The keys by which the remote knows them.
    given_up: HashSet<Vec<u8>>,
    /// Those of them that were told.
    told: HashSet<Vec<u8>>,
}

/// The columns whose old values the log of a table keeps, and what it says of keys given up.
struct Places {
    columns: Vec<String>,
    pasts: HashMap<Vec<u8>, Past>,
}

/// What the log says of a key that was given up.
#[derive(Default)]
struct Past {
    heard: bool,
    /// It belonged to no row at the last download.
    came_since: bool,
    /// The place that its row had then.
    place: Option<Vec<u8>>,
    /// The row, or one behind it, departed from another place later.
    went_on: bool,
}

impl NewKeys {
    /// Those that have got other keys since the entry `since` of the log.
    pub(super) fn read(
        connection: &Connection,
        table: &CatalogTable,
        since: i64,
        remote: &str,
    ) -> Result<NewKeys, Failure> {
        let published = &table.published;
        let known_by = moves::by_new_key(connection, published, since, remote, KEY_CHANGES_MAX)?;
        Ok(NewKeys::of(known_by))
    }

    fn of(known_by: HashMap<Vec<u8>, Vec<u8>>) -> NewKeys {
        let given_up = known_by.values().cloned().collect();
        NewKeys { known_by, given_up, told: HashSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known_by.is_empty()
    }

    /// Whether the remote knows by this key a row that has another one now.
    pub(super) fn are_given_up(&self, key: &[u8]) -> bool {
        self.given_up.contains(key)
    }

    /// The key by which the remote knows the row with this key, which is about to be told.
    pub(super) fn tell(&mut self, key: &[u8]) -> Option<&[u8]> {
        let old = self.known_by.get(key)?;
        if !self.told.contains(old) {
            self.told.insert(old.clone());
        }
        Some(old)
    }

    /// Whether the key was told as the old one of a row.
    pub(super) fn is_told(&self, key: &[u8]) -> bool {
        self.told.contains(key)
    }

    /// Forgets the rows whose old keys the remote did not have (N1). `named` are those that the
    /// delete cursor names; `covered` says whether another row that the remote has is under a key.
    pub(super) fn keep_known(
        &mut self,
        connection: &Connection,
        table: &CatalogTable,
        since: i64,
        named: &HashSet<Vec<u8>>,
        covered: &mut dyn FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let places = self.places(connection, &table.published, since)?;
        let mut known_by = HashMap::with_capacity(self.known_by.len());
        for (new, old) in std::mem::take(&mut self.known_by) {
            let is_named = named.contains(&old);
            if !is_named && !covered(&old)? {
                continue;
            }
            let had_it = match &places {
                None => true,
                Some(Places { columns, pasts }) => match pasts.get(&old) {
                    Some(past) if !past.came_since => {
                        let now = place_now(connection, &table.published, columns, &new)?;
                        past.place.is_some() && past.place == now || is_named && !past.went_on
                    }
                    _ => false,
                },
            };
            if had_it {
                known_by.insert(new, old);
            }
        }
        *self = NewKeys::of(known_by);
        Ok(())
    }

    /// What the log says of the keys given up; none where all rows are everybody's.
    fn places(
        &self,
        connection: &Connection,
        table: &PublishedTable,
        since: i64,
    ) -> Result<Option<Places>, Failure> {
        let reading = failed("read the places of rows with other keys");
        let log = log_name(&table.name);
        let logged = runs::columns_of(connection, &log).map_err(&reading)?;
        if !logged.iter().any(|column| column == MOVED) {
            return Ok(None);
        }
        let prefix = place_column("");
        let columns: Vec<String> = logged
            .iter()
            .filter_map(|column| column.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect();
        let key: Vec<&str> = key_names(table).collect();
        let kept: Vec<String> = key
            .iter()
            .map(|name| ident(name))
            .chain(columns.iter().map(|name| ident(&place_column(name))))
            .collect();
        let sql = format!(
            "SELECT {}, coalesce({MOVED}, 0) FROM {} WHERE sequence > ?1 ORDER BY sequence",
            kept.join(", "),
            ident(&log)
        );
        let mut statement = connection.prepare_cached(&sql).map_err(&reading)?;
        let mut rows = statement.query([since]).map_err(&reading)?;
        let (mut pasts, mut entry) = (HashMap::<Vec<u8>, Past>::new(), Vec::new());
        while let Some(row) = rows.next().map_err(&reading)? {
            entry.clear();
            write_row(&mut entry, row, kept.len()).map_err(&reading)?;
            let place = skip_row(&entry, key.len())?;
            let key = &entry[..entry.len() - place.len()];
            if self.given_up.contains(key) {
                let kind = row.get(kept.len()).map_err(&reading)?;
                pasts.entry(key.to_vec()).or_default().hear(kind, place);
            }
        }
        Ok(Some(Places { columns, pasts }))
    }
}

impl Past {
    /// Of an entry of the log, in their order: 1 departed, 2 came.
    fn hear(&mut self, kind: i64, place: &[u8]) {
        self.came_since |= !self.heard && kind == 2;
        self.heard = true;
        if kind == 1 {
            self.went_on |= self.place.as_deref().is_some_and(|before| before != place);
            self.place.get_or_insert_with(|| place.to_vec());
        }
    }
}

/// The values that the row with this key has in `columns`.
fn place_now(
    connection: &Connection,
    table: &PublishedTable,
    columns: &[String],
    key: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    if columns.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let reading = failed("read the place of a row");
    let each = key_names(table).enumerate();
    let same = each.map(|(at, name)| format!("{} = ?{}", ident(name), at + 1));
    let sql = format!(
        "SELECT {} FROM {} WHERE {}",
        join(columns, ", ", ident),
        ident(&table.name),
        same.collect::<Vec<_>>().join(" AND ")
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&reading)?;
    for (at, value) in values(key)?.into_iter().enumerate() {
        statement.raw_bind_parameter(at + 1, Bind(value)).map_err(&reading)?;
    }
    let mut rows = statement.raw_query();
    let Some(row) = rows.next().map_err(&reading)? else { return Ok(None) };
    let mut place = Vec::new();
    write_row(&mut place, row, columns.len()).map_err(&reading)?;
    Ok(Some(place))
}

fn key_names(table: &PublishedTable) -> impl Iterator<Item = &str> {
    table.key.iter().map(|column| table.columns[usize::from(*column)].as_str())
}
