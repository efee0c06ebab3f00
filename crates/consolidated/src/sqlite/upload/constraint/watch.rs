//! Finds the rows whose triggers break foreign keys.
//!
//! A trigger of the owner wrote a row that refers to nothing, or took a parent away. No uploaded
//! row has its key, so none can be blamed from what is in the database in the end. All rows are
//! applied again, each in its own savepoint. Behind each one that leaves a foreign key broken, the
//! rows without a parent are counted. What the row itself explains is left to the end of the
//! attempt: a child may come before its parent.

use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::upload::constraint::blame::{Link, all_links, columns_at};
use crate::sqlite::upload::constraint::foreign_keys_violated;
use crate::sqlite::upload::constraint::hidden::{equal, orphans_below};
use crate::sqlite::values::Bind;
use crate::upload::uploaded_row::UploadedRow;
use model::{Failure, ValueRef};

impl Attempt<'_> {
    /// The rows without a parent that have to do with `row`, by foreign key, before its statement;
    /// none if all foreign keys are whole, or rows are not watched.
    pub(in crate::sqlite::upload) fn orphans_before(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Vec<i64>>, Failure> {
        let Some(watch) = self.watch.as_ref().filter(|watch| !watch.are_used_up()) else {
            return Ok(None);
        };
        if !foreign_keys_violated(self.connection)? {
            return Ok(None);
        }
        let links = all_links(self, &watch.user_tables);
        let related = links.iter().map(|link| related(self, link, table, row));
        related.collect::<Result<_, _>>().map(Some)
    }

    /// Why `row`, whose statement has just been run, must not stay; none if it may.
    pub(in crate::sqlite::upload) fn orphaned_by(
        &self,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
        related_before: Option<Vec<i64>>,
    ) -> Result<Option<String>, Failure> {
        let Some(watch) = &self.watch else { return Ok(None) };
        if !foreign_keys_violated(self.connection)? {
            watch.note(None);
            return Ok(None);
        }
        if watch.are_used_up() {
            return Ok(None);
        }
        let now = watch.now(self.connection)?;
        for (at, link) in all_links(self, &watch.user_tables).iter().enumerate() {
            let before = related_before.as_ref().map_or(0, |related| related[at]);
            if now[at] - related(self, link, table, row)? > watch.last(at) - before {
                let (child, parent) = (&link.child.name, link.parent());
                let why = format!("a trigger made {child} refer to a missing row of {parent}");
                return Ok(Some(why));
            }
        }
        watch.note(Some(now));
        Ok(None)
    }
}

/// How many rows without a parent have to do with `row`: itself, or those that refer to it as it
/// was or as it will be.
fn related(
    attempt: &Attempt<'_>,
    link: &Link<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
) -> Result<i64, Failure> {
    let name = &table.published.name;
    let mut conditions: Vec<(String, Vec<ValueRef<'_>>)> = Vec::new();
    let mut add = |columns: &[String], positions: &[usize]| {
        for image in [&row.old, &row.new] {
            let values: Vec<_> = positions.iter().map(|at| image[*at]).collect();
            let of = (equal(columns, "c."), values);
            if !conditions.contains(&of) {
                conditions.push(of);
            }
        }
    };
    if link.child.name == *name {
        let key: Vec<usize> = table.published.key.iter().map(|at| usize::from(*at)).collect();
        add(&link.child.key, &key);
    }
    let referred = columns_at(attempt, link.parent_at, &link.to());
    if let Some((_, referred)) = referred.filter(|_| link.parent() == name) {
        let from: Vec<String> = link.from().into_iter().map(str::to_owned).collect();
        add(&from, &referred);
    }
    let looking = failed("look for rows without a parent");
    let mut found = 0;
    for (condition, values) in conditions {
        let mut statement = orphans_below(attempt, link, &condition)?;
        for (n, value) in values.iter().enumerate() {
            statement.raw_bind_parameter(n + 1, Bind(*value)).map_err(&looking)?;
        }
        let mut rows = statement.raw_query();
        while rows.next().map_err(&looking)?.is_some() {
            found += 1;
        }
    }
    Ok(found)
}
