//! Rows of a remote that would be deleted together with a row whose key another row takes.
//!
//! Suppose a remote moves a child to another parent, deletes its old parent, and gives the new
//! parent that key. The child is unchanged, so the upload does not contain it. The delete goes
//! first, because it frees the key, and `ON DELETE` would remove the child. It cannot be known then
//! whether the child should be deleted. So the delete is rejected, and the key change fails because
//! its key is taken. Both rows are reported, and all rows stay.

use crate::postgres::catalog::table::Table;
use crate::postgres::statement::Statement;
use crate::postgres::upload::batch::{Reason, batches};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::marks::{Marks, mark};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::postgres::values::row_decoder::Decoder;
use crate::synchronization::change::Change;
use model::{Code, Failure, ValueRef, skip_row, write_value};
use std::collections::HashMap;

pub(in crate::postgres) fn reason() -> Reason {
    let message = "other rows of the remote refer to the row, or to the row that gets its key";
    (Code::RowReferences, message.to_owned())
}

/// The deletes of rows whose key another row takes, and with which rows would go that the upload
/// does not delete.
pub(in crate::postgres) fn taking(
    isolation: &mut Isolation<'_, '_>,
    outline: &UploadShape,
) -> Result<Marks, Stop> {
    let upload = isolation.upload;
    let (mut taken, mut deleted) = (Marks::new(), Marks::new());
    let mut rows: HashMap<usize, Vec<Vec<u8>>> = HashMap::new();
    outline.visit_keys(upload, &mut |table, row| {
        let published = &upload.tables[table].deployed.published;
        if row.change != Change::Delete {
            taken.insert(mark(table, &row.new_key(published, table).1));
            return Ok(());
        }
        let key = mark(table, &row.key(published, table).1);
        deleted.insert(key);
        if taken.contains(&key) {
            rows.entry(table).or_default().push(row.bytes.to_vec());
        }
        Ok(())
    })?;
    let mut taking = Marks::new();
    for (table, rows) in rows {
        for child in 0..upload.tables.len() {
            let (reach, below) = (&isolation.table(table).reach, &isolation.table(child).deployed);
            for query in reach.children(&isolation.table(table).deployed, below)? {
                let found = children(isolation, (table, child), &query, &rows)?;
                let kept =
                    found.into_iter().filter(|(_, key)| !deleted.contains(&mark(child, key)));
                let kept: Vec<_> = kept.collect();
                let images = kept.iter().map(|(_, key)| as_a_row(isolation, child, key));
                let images = images.collect::<Result<Vec<_>, Failure>>()?;
                let covered = isolation.fetch(child, Change::Delete, &images)?;
                let kept = kept.into_iter().filter(|(_, key)| covered.contains_key(key));
                taking.extend(kept.map(|(parent, _)| mark(table, &parent)));
            }
        }
    }
    Ok(taking)
}

/// The keys of a parent and of its child.
type Pair = (Vec<u8>, Vec<u8>);

/// The keys of parent and child of all rows that refer to `rows` of a table.
fn children(
    isolation: &mut Isolation<'_, '_>,
    (table, child): (usize, usize),
    query: &Statement,
    rows: &[Vec<u8>],
) -> Result<Vec<Pair>, Stop> {
    let (above, below) = (isolation.table(table), isolation.table(child));
    let keys = |of: &Table| -> Vec<crate::postgres::values::ColumnType> {
        let key = of.deployed.published.key.iter();
        key.map(|at| of.deployed.details.columns[usize::from(*at)].clone()).collect()
    };
    let (mut columns, width) = (keys(above), above.deployed.published.key.len());
    columns.extend(keys(below));
    let batches = batches(above, query, isolation.upload, Change::Delete, rows)?;
    let mut found = Vec::new();
    isolation.select(&batches, &mut |row| {
        let mut both = Vec::new();
        Decoder::new(row, columns.iter())?.write(row, &mut both)?;
        let child = skip_row(&both, width)?.to_vec();
        both.truncate(both.len() - child.len());
        found.push((both, child));
        Ok(())
    })?;
    Ok(found)
}

/// A row of which only the key is known.
fn as_a_row(isolation: &Isolation<'_, '_>, table: usize, key: &[u8]) -> Result<Vec<u8>, Failure> {
    let published = &isolation.table(table).deployed.published;
    let mut values = vec![ValueRef::Null; published.width()];
    for (at, value) in published.key.iter().zip(crate::upload::rebase::values(key)?) {
        values[usize::from(*at)] = value;
    }
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_value(&mut bytes, *value));
    Ok(bytes)
}
