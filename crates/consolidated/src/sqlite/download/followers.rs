//! Rows of a remote that would be deleted together with a row whose key another row takes.
//!
//! Suppose a remote moves a child to another parent, deletes its old parent, and gives the new
//! parent that key. The child is unchanged, so the upload does not contain it. Here the deleted
//! parent is put aside with its children, and `ON DELETE` would remove them. So children that the
//! remote has unchanged go to the row that takes the key, as at the remote. If another user has
//! changed a child since, or if this is not possible, the delete is rejected together with the key
//! change: it cannot be known then to which parent the child belongs.

use crate::quote::{ident, idents};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::watermark::Mark;
use crate::sqlite::errors::failed;
use crate::sqlite::links::Links;
use crate::sqlite::tracking::log_table::log_name;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::upload::fence::{self, Standing};
use crate::sqlite::upload::{WaitingRow, WaitingRows};
use crate::sqlite::values::{Bind, write_row};
use crate::synchronization::change::Change;
use crate::upload::rebase::values;
use crate::upload::uploaded_row::{UploadedRow, key_of};
use model::{Code, Failure, PublishedTable, ValueRef};
use rusqlite::Statement;

/// Why a delete is rejected with which rows of the remote would go.
pub(in crate::sqlite) fn reason() -> (Code, String) {
    let message = "other rows of the remote refer to the row, or to the row that gets its key";
    (Code::RowReferences, message.to_owned())
}

/// Rows that go to another parent, as updates that change nothing at the remote.
pub(in crate::sqlite) struct Followers {
    pub(in crate::sqlite) rows: WaitingRows,
    /// The remote holds all of them as they are.
    pub(in crate::sqlite) are_known: bool,
}

/// The rows that refer to the row of `deleted`, which has the key of `told` at the center. Only
/// rows that the remote has and that are not in the upload.
pub(in crate::sqlite) fn of(
    attempt: &Attempt<'_>,
    position: usize,
    told: &UploadedRow<'_>,
) -> Result<Followers, Failure> {
    let rows = WaitingRows::within(attempt.spills);
    let mut followers = Followers { rows, are_known: true };
    let (Some(links), tables) = (attempt.links, attempt.tables) else { return Ok(followers) };
    let parent = &tables[position].published;
    for (at, table) in tables.iter().enumerate() {
        for query in children(links, &parent.name, &table.published) {
            let parent = key_of(parent, &told.old);
            visit_keys(attempt, &query, &parent, table, &mut |key| {
                followers.add(attempt, at, key)
            })?;
        }
    }
    Ok(followers)
}

/// Find the keys of those rows of `below` that would go with the row of `above` whose key is in
/// the parameters, or change.
fn children(links: &Links, above: &str, below: &PublishedTable) -> Vec<String> {
    let (parent, child) = (links.user_tables.get(above), links.user_tables.get(&below.name));
    let (Some(parent), Some(child)) = (parent, child) else { return Vec::new() };
    let key = below.key.iter().map(|at| below.columns[usize::from(*at)].clone());
    let key: Vec<String> = key.collect();
    let numbered = |(at, name): (usize, &String)| format!("{} = ?{}", ident(name), at + 1);
    let numbered: Vec<String> = parent.key.iter().enumerate().map(numbered).collect();
    let query = |columns: &Vec<(String, String)>| {
        let same = columns.iter();
        let same = same.map(|(from, to)| format!("p.{} = c.{}", ident(to), ident(from)));
        format!(
            "SELECT {} FROM (SELECT * FROM {} WHERE {}) AS p CROSS JOIN {} AS c WHERE {}",
            idents("c.", &key),
            ident(above),
            numbered.join(" AND "),
            ident(&below.name),
            same.collect::<Vec<_>>().join(" AND "),
        )
    };
    let acting = child.foreign_keys.iter();
    let acting = acting.filter(|key| key.parent == above && key.on_delete.writes());
    acting.map(|key| query(&key.columns)).collect()
}

impl Followers {
    /// Adds the row with a key, unless the upload speaks of it, or the remote does not have it.
    fn add(&mut self, attempt: &Attempt<'_>, at: usize, key: Vec<u8>) -> Result<(), Failure> {
        let table = &attempt.tables[at];
        let id = (at, key);
        let named = attempt.moving.as_ref().map(|moving| moving.named.contains(&id));
        if named.transpose()? == Some(true) {
            return Ok(());
        }
        let key = &id.1;
        let mut row = UploadedRow::default();
        row.new.resize(table.published.width(), ValueRef::Null);
        for (column, value) in table.published.key.iter().zip(values(key)?) {
            row.new[usize::from(*column)] = value;
        }
        row.old.clone_from(&row.new);
        if fence::standing(attempt, table, &row)? != Standing::Inside {
            return Ok(());
        }
        self.are_known &= is_known(attempt, at, key)?;
        let Some(image) = attempt.fetch(table, &row)? else { return Ok(()) };
        let row = [image.as_slice(), &image].concat();
        self.rows.push(&WaitingRow { table: at, change: Change::Update, row, id })
    }
}

/// Shows the keys that `query` finds for a parent.
fn visit_keys(
    attempt: &Attempt<'_>,
    query: &str,
    parent: &[u8],
    table: &CatalogTable,
    visit: &mut dyn FnMut(Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let asking = failed("look for rows that refer to a deleted one");
    let mut statement = attempt.connection.prepare_cached(query).map_err(&asking)?;
    bind(&mut statement, parent, 1)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(&asking)? {
        let mut key = Vec::new();
        write_row(&mut key, row, table.published.key.len()).map_err(&asking)?;
        visit(key)?;
    }
    Ok(())
}

fn bind(statement: &mut Statement<'_>, key: &[u8], first: usize) -> Result<(), Failure> {
    for (index, value) in values(key)?.into_iter().enumerate() {
        statement
            .raw_bind_parameter(first + index, Bind(value))
            .map_err(failed("look for rows that refer to a deleted one"))?;
    }
    Ok(())
}

/// Whether the row with `key` has not changed since the remote's last download.
fn is_known(attempt: &Attempt<'_>, position: usize, key: &[u8]) -> Result<bool, Failure> {
    let table = &attempt.tables[position];
    let mark = attempt.request.marks.get(position).and_then(|mark| mark.watermark.as_ref());
    let Some(mark) = mark.and_then(Mark::read) else { return Ok(false) };
    let Some(log) = mark.point.0.first() else { return Ok(false) };
    let names = table.published.key.iter().map(|at| &table.published.columns[usize::from(*at)]);
    let same = names.enumerate().map(|(at, name)| format!("{} = ?{}", ident(name), at + 5));
    let sql = format!(
        "SELECT 1 WHERE (SELECT incarnation FROM syncline_log_state WHERE table_name = ?1) = ?2
           AND (SELECT value FROM syncline_system WHERE name = 'generation') = ?3
           AND NOT EXISTS (
               SELECT 1 FROM {} WHERE sequence > ?4 AND sequence <= {} AND {})",
        ident(&log_name(&table.published.name)),
        attempt.log_end_before(position),
        same.collect::<Vec<_>>().join(" AND "),
    );
    let asking = failed("look whether a row has changed");
    let mut statement = attempt.connection.prepare(&sql).map_err(&asking)?;
    statement
        .raw_bind_parameter(1, &table.published.name)
        .and_then(|()| statement.raw_bind_parameter(2, log.incarnation))
        .and_then(|()| statement.raw_bind_parameter(3, mark.generation))
        .and_then(|()| statement.raw_bind_parameter(4, log.sequence))
        .map_err(&asking)?;
    bind(&mut statement, key, 5)?;
    let mut rows = statement.raw_query();
    let found = rows.next().map_err(&asking)?;
    Ok(found.is_some())
}
