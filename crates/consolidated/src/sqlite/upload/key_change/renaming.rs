//! The statement that gives a row another key.

use super::columns::{key_names, numbered};
use crate::quote::ident;
use crate::script::Event;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::{RowFault, script_failed};
use crate::sqlite::upload::attempt::{Attempt, Stop};
use crate::sqlite::values::Bind;
use crate::upload::uploaded_row::UploadedRow;

/// Gives the row with the old key of `row` its new one, and nothing else.
pub(in crate::sqlite) fn rename(
    attempt: &Attempt<'_>,
    table: &CatalogTable,
    row: &UploadedRow<'_>,
) -> Result<Option<(RowFault, String)>, Stop> {
    let published = &table.published;
    let names = key_names(published);
    let set = numbered(&names, 1, ", ");
    let condition = numbered(&names, 1 + names.len(), " AND ");
    let sql = format!("UPDATE OR ABORT {} SET {set} WHERE {condition}", ident(&published.name));
    let event = Event::UploadKeyChange;
    let bound = attempt.connection.prepare_cached(&sql).and_then(|mut statement| {
        let new = published.key.iter().map(|column| row.new[usize::from(*column)]);
        let old = published.key.iter().map(|column| row.old[usize::from(*column)]);
        for (index, value) in new.chain(old).enumerate() {
            statement.raw_bind_parameter(index + 1, Bind(value))?;
        }
        Ok(statement)
    });
    let mut statement =
        bound.map_err(|error| script_failed(error, &published.name, event.name()))?;
    Ok(attempt.execute(&mut statement, &sql, (table, row, event))?.err())
}
