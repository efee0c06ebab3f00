//! Violations that SQLite's counter of broken foreign keys does not show.
//!
//! SQLite only counts. A row without its parent adds one. A new parent subtracts one for each row
//! that refers to it, also for an old orphan that was never counted. So a parent that arrives for
//! an old orphan hides a new violation (trap 26). The counter alone says that there is none. Then
//! the uploaded rows themselves are checked.

use crate::quote::{ident, idents};
use crate::sqlite::deploy::tables;
use crate::sqlite::errors::failed;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::upload::constraint::blame::{Link, columns_at, each_row, links};
use crate::sqlite::values::Bind;
use crate::synchronization::change::Change;
use model::{Failure, ValueRef};
use rusqlite::Statement;

/// Whether an uploaded row refers to nothing, or took away what others refer to. To be asked where
/// a foreign key was broken in between and is not any more.
pub(in crate::sqlite) fn violates(attempt: &Attempt<'_>) -> Result<bool, Failure> {
    let user_tables = tables::read(attempt.connection)?;
    for link in links(attempt, &user_tables) {
        if refers_to_nothing(attempt, &link)? || takes_a_parent_away(attempt, &link)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A new child, or one that refers to something else now.
fn refers_to_nothing(attempt: &Attempt<'_>, link: &Link<'_>) -> Result<bool, Failure> {
    let Some((child_at, referring)) = columns_at(attempt, link.child_at, &link.from()) else {
        return Ok(false);
    };
    let key = &attempt.tables[child_at].published.key;
    let condition = equal(&link.child.key, "c.");
    let mut statement = orphans_below(attempt, link, &condition)?;
    any(attempt, child_at, &mut |change, old, new| {
        let moved = change == Change::Insert
            || referring.iter().any(|at| old[*at] != new[*at] && new[*at] != ValueRef::Null);
        if change == Change::Delete || !moved {
            return Ok(false);
        }
        let key: Vec<_> = key.iter().map(|at| new[usize::from(*at)]).collect();
        exists(&mut statement, &key)
    })
}

/// A parent that is gone, or has other values now.
fn takes_a_parent_away(attempt: &Attempt<'_>, link: &Link<'_>) -> Result<bool, Failure> {
    let Some((parent_at, referred)) = columns_at(attempt, link.parent_at, &link.to()) else {
        return Ok(false);
    };
    let from: Vec<String> = link.from().into_iter().map(str::to_owned).collect();
    let mut statement = orphans_below(attempt, link, &equal(&from, "c."))?;
    any(attempt, parent_at, &mut |change, old, new| {
        let gone = change == Change::Delete
            || change != Change::Insert && referred.iter().any(|at| old[*at] != new[*at]);
        if !gone {
            return Ok(false);
        }
        let values: Vec<_> = referred.iter().map(|at| old[*at]).collect();
        exists(&mut statement, &values)
    })
}

pub(super) fn equal(columns: &[String], prefix: &str) -> String {
    let parts: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(n, column)| format!("{prefix}{} = ?{}", ident(column), n + 1))
        .collect();
    parts.join(" AND ")
}

/// The children that meet `condition` and refer to nothing.
pub(super) fn orphans_below<'c>(
    attempt: &Attempt<'c>,
    link: &Link<'_>,
    condition: &str,
) -> Result<Statement<'c>, Failure> {
    let from = idents("c.", &link.from());
    let sql = format!("SELECT {from} FROM {} AND {condition}", link.without_parent());
    attempt.connection.prepare(&sql).map_err(failed("look for rows without a parent"))
}

fn exists(statement: &mut Statement<'_>, values: &[ValueRef<'_>]) -> Result<bool, Failure> {
    let looking = failed("look for rows without a parent");
    for (n, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(n + 1, Bind(*value)).map_err(&looking)?;
    }
    let found = statement.raw_query().next().map_err(&looking)?.is_some();
    Ok(found)
}

/// What becomes of an uploaded row, its old image and the new one.
type Look<'l> =
    &'l mut dyn FnMut(Change, &[ValueRef<'_>], &[ValueRef<'_>]) -> Result<bool, Failure>;

/// Whether `look` finds something in an uploaded row of a table that was not refused.
fn any(attempt: &Attempt<'_>, table: usize, look: Look<'_>) -> Result<bool, Failure> {
    let mut found = false;
    each_row(attempt, |position, row| {
        let id = row.key(&attempt.tables[position].published, position);
        if position == table && !found && !attempt.refused.contains(&id)? {
            found = look(row.change, &row.old, &row.new)?;
        }
        Ok(())
    })?;
    Ok(found)
}
