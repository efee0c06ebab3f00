//! Finds the uploaded rows that caused a broken foreign key.
//!
//! The rows of a remote are consistent. So there are two reasons for an orphan at the center.
//! Either the upload removed its parent, by a delete or by another value: then that change is
//! rejected, because another row refers to the parent. Or the upload brought a child whose parent
//! is missing: then the child is rejected, and so are uploaded rows that refer to it.

use crate::deploy::ForeignKey;
use crate::quote::idents;
use crate::sqlite::deploy::tables::{self, UserTable};
use crate::sqlite::errors::script_failed;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::upload::constraint::above::{self, Sought};
use crate::sqlite::upload::orphans::{self, foreign_keys};
use crate::sqlite::upload::refused::Refused;
use crate::sqlite::values::write_row;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::{self, RowId, UploadedRow};
use model::{Code, Failure, ValueRef, write_value};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};

/// A foreign key of the consolidated database, and where its tables are in the upload.
pub(super) struct Link<'a> {
    pub(super) child: &'a UserTable,
    foreign_key: &'a ForeignKey,
    pub(super) child_at: Option<usize>,
    pub(super) parent_at: Option<usize>,
}

/// Uploaded rows by the values of some of their columns.
type ByValues = HashMap<Vec<u8>, Vec<RowId>>;

/// The rows to leave out of the next attempt: at least one that was not left out of this one, or
/// none if the upload is not to blame, or not yet. The attempt may be taken back.
pub(in crate::sqlite) fn violators(attempt: &Attempt<'_>) -> Result<Refused, Failure> {
    let user_tables = tables::read(attempt.connection)?;
    let links = links(attempt, &user_tables);
    let uploaded = uploaded_rows(attempt)?;
    let may_blame = |id: &RowId| uploaded.contains_key(id);
    let (mut refused, mut unexplained) = (Refused::new(), Vec::new());
    let mut sought = Vec::new();
    for link in &links {
        let orphans = orphans_of(attempt.connection, link)?;
        if orphans.is_empty() {
            continue;
        }
        let taken = taken_away(attempt, link)?;
        let mut explained = true;
        for (child_key, referring) in orphans {
            let parents = taken.get(&referring).into_iter().flatten().cloned();
            let parents: Vec<RowId> = parents.filter(may_blame).collect();
            let child = link.child_at.map(|position| (position, child_key.clone()));
            let child = child.filter(|id| may_blame(id) && uploaded[id] != Change::Delete);
            if parents.is_empty() && child.is_none() {
                explained = false;
                sought.extend(link.sought(child_key, referring));
            }
            let blamed = if parents.is_empty() { child.into_iter().collect() } else { parents };
            refused.extend(blamed.into_iter().map(|id| (id, link.reason())));
        }
        if !explained {
            unexplained.push(link);
        }
    }
    refuse_dependents(attempt, &links, &mut refused)?;
    if refused.is_empty() {
        // Others have written below a row that the upload takes away.
        let above = above::rows_above(attempt, &user_tables, sought)?;
        let above = above.into_iter().filter(|id| may_blame(id) && uploaded[id] != Change::Insert);
        let reason = "rows of others refer to the row, or to a row that is deleted with it";
        refused.extend(above.map(|id| (id, (Code::RowReferences, reason.to_owned()))));
    }
    if refused.is_empty() && attempt.watch.is_some() {
        // Values that are equal to SQLite and not to us: whatever may be the reason is left out.
        for link in unexplained {
            let suspects = uploaded.iter().filter(|((position, _), change)| match change {
                Change::Delete => link.parent_at == Some(*position),
                Change::Update | Change::KeyChange => {
                    [link.child_at, link.parent_at].contains(&Some(*position))
                }
                Change::Insert => link.child_at == Some(*position),
            });
            let suspects = suspects.map(|(id, _)| id).filter(|id| may_blame(id));
            refused.extend(suspects.map(|id| (id.clone(), link.reason())));
        }
    }
    Ok(refused)
}

/// The foreign keys with an uploaded table at either end.
pub(super) fn links<'a>(
    attempt: &Attempt<'_>,
    user_tables: &'a BTreeMap<String, UserTable>,
) -> Vec<Link<'a>> {
    let mut links = all_links(attempt, user_tables);
    links.retain(|link| link.child_at.is_some() || link.parent_at.is_some());
    links
}

/// All foreign keys, in the order of the tables.
pub(super) fn all_links<'a>(
    attempt: &Attempt<'_>,
    user_tables: &'a BTreeMap<String, UserTable>,
) -> Vec<Link<'a>> {
    let position = |name: &str| attempt.tables.iter().position(|t| t.published.name == name);
    foreign_keys(user_tables)
        .map(|(child, foreign_key)| Link {
            child,
            foreign_key,
            child_at: position(&child.name),
            parent_at: position(&foreign_key.parent),
        })
        .collect()
}

impl Link<'_> {
    fn reason(&self) -> (Code, String) {
        let (child, parent) = (&self.child.name, &self.foreign_key.parent);
        (Code::RowReferences, format!("{child} refers to a missing row of {parent}"))
    }

    /// The row without a parent, and the parent that is missing.
    fn sought(&self, child_key: Vec<u8>, referring: Vec<u8>) -> [Sought<'_>; 2] {
        let key = self.child.key.iter().map(String::as_str).collect();
        [
            Sought { table: &self.child.name, columns: key, values: child_key },
            Sought { table: self.parent(), columns: self.to(), values: referring },
        ]
    }

    /// `"child" AS c WHERE …`: the children that refer to nothing.
    pub(super) fn without_parent(&self) -> String {
        orphans::without_parent(self.child, self.foreign_key)
    }

    /// The table that is referred to.
    pub(super) fn parent(&self) -> &str {
        &self.foreign_key.parent
    }

    /// The referring columns.
    pub(super) fn from(&self) -> Vec<&str> {
        self.foreign_key.columns.iter().map(|(from, _)| from.as_str()).collect()
    }

    /// The columns that they refer to.
    pub(super) fn to(&self) -> Vec<&str> {
        self.foreign_key.columns.iter().map(|(_, to)| to.as_str()).collect()
    }
}

/// The rows that were not left out. A row that leaves a key and a new one that takes it have the
/// same ID, and are left out together; the one that was there before may be to blame for more.
fn uploaded_rows(attempt: &Attempt<'_>) -> Result<HashMap<RowId, Change>, Failure> {
    let (mut uploaded, mut failure) = (HashMap::new(), None);
    each_row(attempt, |position, row| {
        let id = row.key(&attempt.tables[position].published, position);
        match attempt.refused.contains(&id) {
            Ok(true) => {}
            Ok(false) => {
                let change = uploaded.entry(id).or_insert(row.change);
                if *change == Change::Insert {
                    *change = row.change;
                }
            }
            Err(error) => failure = Some(error),
        }
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => Ok(uploaded),
    }
}

/// Parents that the upload deletes or gives other values, by the values they had.
fn taken_away(attempt: &Attempt<'_>, link: &Link<'_>) -> Result<ByValues, Failure> {
    let mut taken = ByValues::new();
    let Some((parent_at, columns)) = columns_at(attempt, link.parent_at, &link.to()) else {
        return Ok(taken);
    };
    each_row(attempt, |position, row| {
        if position != parent_at || row.change == Change::Insert {
            return;
        }
        let old = values(&row.old, &columns);
        if row.change == Change::Update && old == values(&row.new, &columns) {
            return;
        }
        if let Some(old) = old {
            taken
                .entry(old)
                .or_default()
                .push(row.key(&attempt.tables[position].published, position));
        }
    })?;
    Ok(taken)
}

/// Adds the uploaded rows that refer to a refused new row, and those that refer to them.
fn refuse_dependents(
    attempt: &Attempt<'_>,
    links: &[Link<'_>],
    refused: &mut Refused,
) -> Result<(), Failure> {
    if refused.is_empty() {
        return Ok(());
    }
    let mut by_parent = Vec::new();
    for link in links {
        let (parent, child) = (
            columns_at(attempt, link.parent_at, &link.to()),
            columns_at(attempt, link.child_at, &link.from()),
        );
        let (Some(parent), Some((child_at, columns))) = (parent, child) else { continue };
        let mut children = ByValues::new();
        each_row(attempt, |position, row| {
            if position == child_at
                && row.change != Change::Delete
                && let Some(referring) = values(&row.new, &columns)
            {
                let id = row.key(&attempt.tables[position].published, position);
                children.entry(referring).or_default().push(id);
            }
        })?;
        by_parent.push((link, parent, children));
    }
    loop {
        let mut more: Vec<(RowId, (Code, String))> = Vec::new();
        each_row(attempt, |position, row| {
            let id = row.key(&attempt.tables[position].published, position);
            if row.change != Change::Insert || !refused.contains_key(&id) {
                return;
            }
            for (link, (parent_at, columns), children) in &by_parent {
                if *parent_at != position {
                    continue;
                }
                let found = values(&row.new, columns).and_then(|values| children.get(&values));
                let new = found.into_iter().flatten().filter(|child| !refused.contains_key(child));
                more.extend(new.map(|child| (child.clone(), link.reason())));
            }
        })?;
        if more.is_empty() {
            return Ok(());
        }
        refused.extend(more);
    }
}

/// The positions of these columns, if the table and all of them are published.
pub(super) fn columns_at(
    attempt: &Attempt<'_>,
    table: Option<usize>,
    names: &[&str],
) -> Option<(usize, Vec<usize>)> {
    let published = &attempt.tables[table?].published;
    let position = |name: &&str| published.columns.iter().position(|column| column == name);
    Some((table?, names.iter().map(position).collect::<Option<_>>()?))
}

/// Some values of a row; none if one of them refers to a missing row.
fn values(row: &[ValueRef<'_>], columns: &[usize]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for column in columns {
        match row[*column] {
            ValueRef::Null | ValueRef::Absent => return None,
            value => write_value(&mut bytes, value),
        }
    }
    Some(bytes)
}

pub(super) fn each_row(
    attempt: &Attempt<'_>,
    mut visit: impl FnMut(usize, &UploadedRow<'_>),
) -> Result<(), Failure> {
    let published = |position: usize| &attempt.tables[position].published;
    uploaded_row::each_row(
        attempt.request.batches,
        &published,
        |_, _| true,
        |position, row| {
            visit(position, row);
            Ok(())
        },
    )
}

/// The key of a row whose parent is missing, and the values that refer to it.
type Orphan = (Vec<u8>, Vec<u8>);

fn orphans_of(connection: &Connection, link: &Link<'_>) -> Result<Vec<Orphan>, Failure> {
    let (child, from) = (link.child, link.from());
    let searching = |error| script_failed(error, &child.name, "the search for broken foreign keys");
    let sql = format!(
        "SELECT {}, {} FROM {}",
        idents("c.", &child.key),
        idents("c.", &from),
        link.without_parent(),
    );
    let mut statement = connection.prepare(&sql).map_err(searching)?;
    let mut rows = statement.query([]).map_err(searching)?;
    let mut orphans = Vec::new();
    while let Some(row) = rows.next().map_err(searching)? {
        let mut key = Vec::new();
        write_row(&mut key, row, child.key.len() + from.len()).map_err(searching)?;
        let referring_from = key.len() - model::skip_row(&key, child.key.len())?.len();
        let referring = key.split_off(referring_from);
        orphans.push((key, referring));
    }
    Ok(orphans)
}
