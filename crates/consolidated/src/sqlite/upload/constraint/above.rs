//! Uploaded rows several levels above a broken foreign key.
//!
//! A delete removes children by `ON DELETE CASCADE`, and these may have children that refuse the
//! delete. The upload contains neither, because another user may have written them since the
//! remote's last download. So the rows above the row without a parent are searched for, in the
//! state before the upload.

use crate::quote::{ident, idents};
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::errors::{failed, script_failed};
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::values::{Bind, write_row};
use crate::upload::uploaded_row::RowId;
use model::{Failure, RowReader, skip_row};
use std::collections::{BTreeMap, HashSet};

/// Rows of a table that have these values.
pub(super) struct Sought<'a> {
    pub(super) table: &'a str,
    pub(super) columns: Vec<&'a str>,
    pub(super) values: Vec<u8>,
}

/// The rows sought, and all that they refer to, as they were before the upload. Takes the attempt
/// back.
pub(super) fn rows_above<'a>(
    attempt: &Attempt<'_>,
    user_tables: &'a BTreeMap<String, UserTable>,
    mut sought: Vec<Sought<'a>>,
) -> Result<HashSet<RowId>, Failure> {
    attempt.connection.execute_batch("ROLLBACK TO rows").map_err(failed("undo the attempt"))?;
    let (mut above, mut seen) = (HashSet::new(), HashSet::new());
    while let Some(next) = sought.pop() {
        let Some(table) = user_tables.get(next.table) else { continue };
        let position = attempt.tables.iter().position(|t| t.published.name == table.name);
        for (key, parents) in found(attempt, table, next)? {
            if !seen.insert((table.name.as_str(), key.clone())) {
                continue;
            }
            sought.extend(parents);
            above.extend(position.map(|position| (position, key)));
        }
    }
    Ok(above)
}

/// A row's key, and what it refers to.
type Found<'a> = (Vec<u8>, Vec<Sought<'a>>);

fn found<'a>(
    attempt: &Attempt<'_>,
    table: &'a UserTable,
    sought: Sought<'_>,
) -> Result<Vec<Found<'a>>, Failure> {
    let looking = |error| script_failed(error, &table.name, "the search for broken foreign keys");
    let conditions: Vec<String> = sought
        .columns
        .iter()
        .enumerate()
        .map(|(n, column)| format!("t.{} = ?{}", ident(column), n + 1))
        .collect();
    let referring = table.foreign_keys.iter().flat_map(|key| &key.columns);
    let columns: Vec<&str> = table
        .key
        .iter()
        .map(String::as_str)
        .chain(referring.map(|(from, _)| from.as_str()))
        .collect();
    let (columns_sql, name) = (idents("t.", &columns), ident(&table.name));
    let sql = format!("SELECT {columns_sql} FROM {name} AS t WHERE {}", conditions.join(" AND "));
    let mut statement = attempt.connection.prepare(&sql).map_err(looking)?;
    let mut values = RowReader::new(&sought.values);
    for n in 0..sought.columns.len() {
        statement.raw_bind_parameter(n + 1, Bind(values.value()?)).map_err(looking)?;
    }
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(looking)? {
        let mut bytes = Vec::new();
        write_row(&mut bytes, row, columns.len()).map_err(looking)?;
        let mut rest = skip_row(&bytes, table.key.len())?;
        let key = bytes[..bytes.len() - rest.len()].to_vec();
        let mut parents = Vec::new();
        for foreign_key in &table.foreign_keys {
            let behind = skip_row(rest, foreign_key.columns.len())?;
            parents.push(Sought {
                table: &foreign_key.parent,
                columns: foreign_key.columns.iter().map(|(_, to)| to.as_str()).collect(),
                values: rest[..rest.len() - behind.len()].to_vec(),
            });
            rest = behind;
        }
        found.push((key, parents));
    }
    Ok(found)
}
