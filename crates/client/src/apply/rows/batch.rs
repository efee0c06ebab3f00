//! Many new rows with one statement.

use crate::apply::constraint::is_refusal;
use crate::connection::{bind, explain};
use model::{Failure, RowReader};
use rusqlite::{CachedStatement, Connection};

/// Inserts `count` encoded rows, up to the first that the table refuses, for example because its
/// key is there already. Yields what follows the written ones, and their number. The statement has
/// a parameter for each value.
pub(in crate::apply) fn insert<'c>(
    connection: &Connection,
    statement: &mut CachedStatement<'_>,
    (rows, width): (&'c [u8], usize),
    count: u32,
) -> Result<(&'c [u8], u32), Failure> {
    let mut reader = RowReader::new(rows);
    for parameter in 1..=count as usize * width {
        bind(statement, parameter, reader.value()?).map_err(explain)?;
    }
    let before = connection.total_changes();
    match statement.raw_execute() {
        Ok(_) => Ok((reader.rest(), count)),
        Err(error) if is_refusal(&error) => {
            let written = connection.total_changes() - before;
            let mut reader = RowReader::new(rows);
            for _ in 0..written as usize * width {
                reader.value()?;
            }
            Ok((reader.rest(), written as u32))
        }
        Err(error) => Err(explain(error)),
    }
}
