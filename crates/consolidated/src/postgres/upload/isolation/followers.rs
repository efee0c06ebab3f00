//! Rows of a remote that would be deleted together with a row whose key another row takes.
//!
//! Suppose a remote moves a child to another parent, deletes its old parent, and gives the new
//! parent that key. The child is unchanged, so the upload does not contain it. The delete goes
//! first, because it frees the key, and `ON DELETE` would remove the child. It cannot be known then
//! whether the child should be deleted. So the delete is rejected, and the key change fails because
//! its key is taken. Both rows are reported, and all rows stay.

use crate::catalog::table::CatalogTable;
use crate::postgres::catalog::table::Table;
use crate::postgres::deploy::details::TableDetails;
use crate::postgres::errors::{failed, unreadable};
use crate::postgres::link::Row;
use crate::postgres::statement::Statement;
use crate::postgres::upload::batch::{Reason, are_enough, batches};
use crate::postgres::upload::isolation::group::{Group, Groups};
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::marks::{Marks, mark};
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::stop::Stop;
use crate::postgres::values::row_decoder::Decoder;
use crate::quote::{ident, join};
use crate::script::Script;
use crate::synchronization::change::Change;
use model::{Code, Failure, Spill, SpillReader, ValueRef, skip_row, write_value};

/// The conditions under which rows `c` of the table `$1` refer to rows `p` of `$2` by foreign keys
/// that act when these are deleted.
const ACTING: &str = "SELECT (
    SELECT string_agg(format('p.%I OPERATOR(%I.%s) c.%I', r.attname, n.nspname, e.oprname,
        a.attname), ' AND ')
    FROM unnest(o.conkey, o.confkey, o.conpfeqop) AS k(num, referred, operator)
    JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.num
    JOIN pg_attribute AS r ON r.attrelid = o.confrelid AND r.attnum = k.referred
    JOIN pg_operator AS e ON e.oid = k.operator
    JOIN pg_namespace AS n ON n.oid = e.oprnamespace)
FROM pg_constraint AS o
WHERE o.contype = 'f' AND o.confdeltype IN ('c', 'n', 'd')
    AND o.conrelid = to_regclass($1) AND o.confrelid = to_regclass($2)
ORDER BY o.oid";

pub(in crate::postgres) fn reason() -> Reason {
    let message = "other rows of the remote refer to the row, or to the row that gets its key";
    (Code::RowReferences, message.to_owned())
}

/// The deletes of rows whose key another row takes, and those among `holding`, with which rows
/// would go that the upload does not delete.
pub(in crate::postgres) fn taking(
    isolation: &mut Isolation<'_, '_>,
    outline: &UploadShape,
    holding: &Marks,
) -> Result<Marks, Stop> {
    let upload = isolation.upload;
    let none = || Marks::within(upload.spills);
    let (mut taken, mut deleted, mut taking) = (none(), none(), none());
    let mut freeing = Groups::within(upload.spills);
    outline.visit_keys(upload, &mut |table, row| {
        let published = &upload.tables[table].deployed.published;
        if row.change != Change::Delete {
            return Ok(taken.add(mark(table, &row.new_key(published, table).1))?);
        }
        let key = mark(table, &row.key(published, table).1);
        deleted.add(key)?;
        if taken.contains(key)? || holding.contains(key)? {
            freeing.push(table, row.change, row.bytes)?;
        }
        Ok(())
    })?;
    let mut freeing = freeing.reader();
    while let Some(Group { table, rows, .. }) = freeing.next_group()? {
        for child in 0..upload.tables.len() {
            for query in queries(isolation, table, child)? {
                let found = children(isolation, (table, child), &query, &rows, &deleted)?;
                let mut found = found.reader();
                while let Some(kept) = next_pairs(&mut found)? {
                    let images = kept.iter().map(|(_, key)| as_a_row(isolation, child, key));
                    let images = images.collect::<Result<Vec<_>, Failure>>()?;
                    let covered = isolation.fetch(child, Change::Delete, &images)?;
                    for (parent, _) in kept.iter().filter(|(_, key)| covered.contains_key(key)) {
                        taking.add(mark(table, parent))?;
                    }
                }
            }
        }
    }
    Ok(taking)
}

/// Find the keys of rows of `table`, and those of the rows of `child` that would go with them or
/// change.
fn queries(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    child: usize,
) -> Result<Vec<Statement>, Failure> {
    let (above, below) = (&isolation.table(table).deployed, &isolation.table(child).deployed);
    let name = |of: &CatalogTable<TableDetails>| {
        format!("{}.{}", ident(&of.details.schema), ident(&of.details.name))
    };
    let select = |alias: &str, of: &CatalogTable<TableDetails>| {
        let columns = of.published.key.iter().map(|at| usize::from(*at)).map(|at| {
            let cast = if of.details.columns[at].read_as_text() { "::text" } else { "" };
            format!("{alias}.{}{cast}", ident(&of.published.columns[at]))
        });
        columns.collect::<Vec<_>>().join(", ")
    };
    let key = above.published.key.iter().map(|at| &above.published.columns[usize::from(*at)]);
    let same =
        join(&key.collect::<Vec<_>>(), " AND ", |name| format!("p.{0} = k.{0}", ident(name)));
    let found = isolation.link.query(ACTING, &[&name(below), &name(above)]);
    let found = found.map_err(failed("read foreign keys"))?;
    let query = |row: &Row| {
        let condition: String = row.try_get(0).map_err(unreadable)?;
        let keys = Script::parse("SELECT * FROM {keys} AS k", &above.published)?;
        let mut statement = Statement::of(&keys, &above.published, &above.details.columns);
        statement.sql = format!(
            "SELECT {}, {} FROM ({}) AS k JOIN ONLY {} AS p ON {same} JOIN {} AS c ON {condition}",
            select("k", above),
            select("c", below),
            statement.sql,
            name(above),
            name(below),
        );
        Ok(statement)
    };
    found.iter().map(query).collect()
}

/// The keys of a parent and of its child.
type Pair = (Vec<u8>, Vec<u8>);

/// The next pairs, as many as are looked at together; none behind the last.
fn next_pairs(found: &mut SpillReader<'_>) -> Result<Option<Vec<Pair>>, Failure> {
    let torn = || Failure::new(Code::Bug, "the keys of a parent and its child do not read");
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    while !are_enough(pairs.len(), bytes)
        && let Some(chunk) = found.next_chunk()?
    {
        bytes += chunk.len();
        let (parent_len, both) = chunk.split_first_chunk().ok_or_else(torn)?;
        let parent_len = u32::from_le_bytes(*parent_len) as usize;
        let (parent, child) = both.split_at_checked(parent_len).ok_or_else(torn)?;
        pairs.push((parent.to_vec(), child.to_vec()));
    }
    Ok((!pairs.is_empty()).then_some(pairs))
}

/// The keys of parent and child of all rows that refer to `rows` of a table and that the upload
/// does not delete.
fn children(
    isolation: &mut Isolation<'_, '_>,
    (table, child): (usize, usize),
    query: &Statement,
    rows: &[Vec<u8>],
    deleted: &Marks,
) -> Result<Spill, Stop> {
    let (above, below) = (isolation.table(table), isolation.table(child));
    let keys = |of: &Table| -> Vec<crate::postgres::values::ColumnType> {
        let key = of.deployed.published.key.iter();
        key.map(|at| of.deployed.details.columns[usize::from(*at)].clone()).collect()
    };
    let (mut columns, width) = (keys(above), above.deployed.published.key.len());
    columns.extend(keys(below));
    let batches = batches(above, query, isolation.upload, Change::Delete, rows)?;
    let mut found = isolation.upload.spills.open();
    isolation.select(&batches, &mut |row| {
        let mut both = Vec::new();
        Decoder::new(row, columns.iter())?.write(row, &mut both)?;
        let child_key = skip_row(&both, width)?;
        if deleted.contains(mark(child, child_key))? {
            return Ok(());
        }
        let parent_len = (both.len() - child_key.len()) as u32;
        found.append([parent_len.to_le_bytes().as_slice(), &both].concat())
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
