//! Reads from the log of a table which rows a remote knows by other keys.

use crate::download::new_keys::{Clues, NewKeys, Then};
use crate::quote::{ident, join};
use crate::selection::place_column;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::runs;
use crate::sqlite::errors::failed;
use crate::sqlite::tracking::log_table::{MOVED, log_name};
use crate::sqlite::values::{Bind, write_row};
use crate::upload::rebase::values;
use model::{Failure, PublishedTable, skip_row};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};

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
    /// The row, or a later one, departed from another place later.
    went_on: bool,
}

/// Forgets the rows whose old keys the remote did not have. `named` are those that the delete
/// cursor names; `covered` says whether another row that the remote has is under a key.
pub(in crate::sqlite) fn keep_known(
    new_keys: &mut NewKeys,
    connection: &Connection,
    table: &CatalogTable,
    since: i64,
    named: &HashSet<Vec<u8>>,
    covered: &mut dyn FnMut(&[u8]) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let places = Places::read(new_keys, connection, &table.published, since)?;
    new_keys.keep_known(&mut |old, new| {
        let is_named = named.contains(old);
        let is_covered = !is_named && covered(old)?;
        let (then, now) = match &places {
            None => (Then::Everywhere, None),
            Some(Places { columns, pasts }) => (
                pasts.get(old).map_or(Then::Unknown, Past::then),
                place_now(connection, &table.published, columns, new)?,
            ),
        };
        Ok(Clues { is_named, is_covered, then, now })
    })
}

impl Places {
    /// What the log says about the old keys; none if all remotes receive all rows.
    fn read(
        new_keys: &NewKeys,
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
            if new_keys.are_given_up(key) {
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

    fn then(&self) -> Then {
        match &self.place {
            Some(place) if !self.came_since => {
                Then::At { place: place.clone(), went_on: self.went_on }
            }
            _ => Then::Unknown,
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
