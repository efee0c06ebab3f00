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
use crate::sqlite::upload::constraint::above::{self, Sought, TakesReferring};
use crate::sqlite::upload::orphans::{self, foreign_keys};
use crate::sqlite::values::write_row;
use crate::synchronization::change::Change;
use crate::upload::by_values::ByValues;
use crate::upload::owed_rows::OwedRows;
use crate::upload::row_map::{RowMap, place, read_place};
use crate::upload::uploaded_row::{self, RowId, UploadedRow};
use model::{Code, Failure, ValueRef, write_value};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A foreign key of the consolidated database, and where its tables are in the upload.
pub(super) struct Link<'a> {
    pub(super) child: &'a UserTable,
    foreign_key: &'a ForeignKey,
    pub(super) child_at: Option<usize>,
    pub(super) parent_at: Option<usize>,
}

/// The rows to leave out of the next attempt: at least one that was not left out of this one, or
/// none if the upload is not to blame, or not yet. The attempt may be taken back.
pub(in crate::sqlite) fn violators(attempt: &Attempt<'_>) -> Result<OwedRows, Failure> {
    let user_tables = tables::read(attempt.connection)?;
    let links = links(attempt, &user_tables);
    let uploaded = Suspects::of(attempt)?;
    let (mut refused, mut unexplained) = (OwedRows::within(attempt.spills), Vec::new());
    let mut sought = Sought::within(attempt.spills);
    for link in &links {
        if !blame(attempt, link, &uploaded, (&mut refused, &mut sought))? {
            unexplained.push(link);
        }
    }
    refuse_dependents(attempt, &links, &mut refused)?;
    if refused.is_empty() {
        // Others have written below a row that the upload takes away.
        let reason = "rows of others refer to the row, or to a row that is deleted with it";
        above::visit_rows_above(attempt, &user_tables, sought, &mut |id| match uploaded
            .change_of(&id)?
        {
            None | Some(Change::Insert) => Ok(()),
            Some(_) => refused.reject(&id, (Code::RowReferences, reason.to_owned())),
        })?;
    }
    if refused.is_empty() && attempt.watch.is_some() {
        // Values that are equal to SQLite and not to us: whatever may be the reason is left out.
        for link in unexplained {
            uploaded.visit(|(position, key), change| {
                let is_suspect = match change {
                    Change::Delete => link.parent_at == Some(position),
                    Change::Update => [link.child_at, link.parent_at].contains(&Some(position)),
                    Change::Insert => link.child_at == Some(position),
                };
                match is_suspect {
                    true => refused.reject(&(position, key), link.reason()),
                    false => Ok(()),
                }
            })?;
        }
    }
    Ok(refused)
}

/// Refuses the rows to which the orphans of one foreign key can be traced, and notes the other
/// orphans. Whether there are none of these.
fn blame(
    attempt: &Attempt<'_>,
    link: &Link<'_>,
    uploaded: &Suspects,
    (refused, sought): (&mut OwedRows, &mut Sought),
) -> Result<bool, Failure> {
    let (mut taken, mut explained) = (None, true);
    visit_orphans(attempt.connection, link, &mut |child_key, referring| {
        let taken = match &taken {
            Some(taken) => taken,
            None => &*taken.insert(taken_away(attempt, link)?),
        };
        let mut blamed = false;
        taken.visit(referring, |entry| {
            let (table, key) = read_place(entry)?;
            let parent = (table, key.to_vec());
            if uploaded.change_of(&parent)?.is_some() {
                blamed = true;
                refused.reject(&parent, link.reason())?;
            }
            Ok::<_, Failure>(ControlFlow::Continue(()))
        })?;
        if blamed {
            return Ok(());
        }
        if let Some(position) = link.child_at {
            let child = (position, child_key.to_vec());
            if uploaded.change_of(&child)?.is_some_and(|change| change != Change::Delete) {
                return refused.reject(&child, link.reason());
            }
        }
        explained = false;
        sought.add(&link.child.name, &link.child.key, child_key)?;
        sought.add(link.parent(), &link.to(), referring)
    })?;
    Ok(explained)
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

/// The rows of the upload that were not left out, which alone can be blamed.
struct Suspects(RowMap);

impl Suspects {
    /// A row that leaves a key and a new one that takes it have the same ID, and are left out
    /// together; the one that was there before may be to blame for more.
    fn of(attempt: &Attempt<'_>) -> Result<Suspects, Failure> {
        let mut all = Suspects(RowMap::within(attempt.spills));
        each_row(attempt, |position, row| {
            let id = row.key(&attempt.tables[position].published, position);
            if attempt.refused.contains(&id)? {
                return Ok(());
            }
            match all.change_of(&id)? {
                None | Some(Change::Insert) => all.0.put(&id, &[row.change as u8]),
                Some(_) => Ok(()),
            }
        })?;
        Ok(all)
    }

    /// What the upload does to the row; none where it cannot be blamed.
    fn change_of(&self, id: &RowId) -> Result<Option<Change>, Failure> {
        self.0.get(id)?.map(|noted| read_change(&noted)).transpose()
    }

    fn visit(
        &self,
        mut visit: impl FnMut(RowId, Change) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.0.visit(|id, noted| visit(id, read_change(noted)?))
    }
}

fn read_change(noted: &[u8]) -> Result<Change, Failure> {
    const CHANGES: [Change; 3] = [Change::Insert, Change::Update, Change::Delete];
    let torn = || Failure::new(Code::Bug, "a row that may be blamed does not read");
    CHANGES.into_iter().find(|change| noted == [*change as u8]).ok_or_else(torn)
}

/// Parents that the upload deletes or gives other values, by the values they had.
fn taken_away(attempt: &Attempt<'_>, link: &Link<'_>) -> Result<ByValues, Failure> {
    let mut taken = ByValues::within(attempt.spills);
    let Some((parent_at, columns)) = columns_at(attempt, link.parent_at, &link.to()) else {
        return Ok(taken);
    };
    each_row(attempt, |position, row| {
        if position != parent_at || row.change == Change::Insert {
            return Ok(());
        }
        let old = values(&row.old, &columns);
        if row.change == Change::Update && old == values(&row.new, &columns) {
            return Ok(());
        }
        let id = row.key(&attempt.tables[position].published, position);
        old.map_or(Ok(()), |old| taken.add(&old, &place(&id)))
    })?;
    Ok(taken)
}

/// Adds the uploaded rows that refer to a refused new row, and those that refer to them.
fn refuse_dependents(
    attempt: &Attempt<'_>,
    links: &[Link<'_>],
    refused: &mut OwedRows,
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
        let mut children = ByValues::within(attempt.spills);
        each_row(attempt, |position, row| {
            if position == child_at
                && row.change != Change::Delete
                && let Some(referring) = values(&row.new, &columns)
            {
                let id = row.key(&attempt.tables[position].published, position);
                return children.add(&referring, &place(&id));
            }
            Ok(())
        })?;
        by_parent.push((link, parent, children));
    }
    loop {
        let before = refused.added();
        each_row(attempt, |position, row| {
            let id = row.key(&attempt.tables[position].published, position);
            if row.change != Change::Insert || !refused.contains(&id)? {
                return Ok(());
            }
            let here = by_parent.iter().filter(|(_, (parent_at, _), _)| *parent_at == position);
            for (link, (_, columns), children) in here {
                let Some(referred) = values(&row.new, columns) else { continue };
                children.visit(&referred, |entry| {
                    let (table, key) = read_place(entry)?;
                    let child = (table, key.to_vec());
                    if !refused.contains(&child)? {
                        refused.reject(&child, link.reason())?;
                    }
                    Ok::<_, Failure>(ControlFlow::Continue(()))
                })?;
            }
            Ok(())
        })?;
        if refused.added() == before {
            return Ok(());
        }
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
    visit: impl FnMut(usize, &UploadedRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let published = |position: usize| &attempt.tables[position].published;
    uploaded_row::each_row(attempt.request.batches, &published, |_, _| true, visit)
}

/// Shows the rows whose parent is missing.
fn visit_orphans(
    connection: &Connection,
    link: &Link<'_>,
    visit: TakesReferring<'_>,
) -> Result<(), Failure> {
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
    let mut both = Vec::new();
    while let Some(row) = rows.next().map_err(searching)? {
        both.clear();
        write_row(&mut both, row, child.key.len() + from.len()).map_err(searching)?;
        let referring = model::skip_row(&both, child.key.len())?;
        visit(&both[..both.len() - referring.len()], referring)?;
    }
    Ok(())
}
