//! Rows of an upload that a delete of the same upload removes.
//!
//! A remote may lack a foreign key of the center. It inserts a child, deletes its parent and keeps
//! the child. At the center `ON DELETE CASCADE` removes both, as the owner wants it. But the remote
//! was told that the child was accepted. So this row is rejected afterwards, and reported. The same
//! is done where a foreign key changes the row, if the table is only uploaded: no download shows
//! the remote what the row has become.

use super::input::{Input, Turn};
use super::record::Record;
use crate::quote::ident;
use crate::sqlite::errors::failed;
use crate::sqlite::values::Bind;
use crate::synchronization::change::Change;
use model::{Code, Failure};

/// Rejects the rows of the upload that an action of the same upload has deleted, and those of
/// tables that are only uploaded that it has changed: no download tells the remote of these.
pub(super) fn reject(input: &Input<'_>, record: &mut Record<'_>) -> Result<(), Failure> {
    input.each_row(
        |_, change| change != Change::Delete,
        |turn| {
            // What a user's script made of a row need not be a row of this table.
            if turn.table.is_own(turn.row.change) {
                return Ok(());
            }
            // A row that was rebased, lost or rejected is owed already.
            if is_as_uploaded(input, turn)? || record.owed.contains(&turn.id())? {
                return Ok(());
            }
            let why = "a delete of the same upload also removed or changed the row".to_owned();
            record.reject(turn, (Code::RowTakenAlong, why).into())
        },
    )
}

/// Whether the row is there and, in a table that is only uploaded, refers to what it did.
fn is_as_uploaded(input: &Input<'_>, turn: Turn<'_>) -> Result<bool, Failure> {
    let (published, written) = (&turn.table.published, &turn.table.details.written);
    let compared = published.columns.iter().enumerate();
    let compared: Vec<usize> =
        compared.filter(|(_, name)| written.contains(name)).map(|(at, _)| at).collect();
    let key: Vec<usize> = published.key.iter().map(|at| usize::from(*at)).collect();
    let same = |columns: &[usize], operator: &str, first: usize| {
        let each = columns.iter().zip(first..);
        let each = each
            .map(|(at, number)| format!("{} {operator} ?{number}", ident(&published.columns[*at])));
        each.collect::<Vec<_>>()
    };
    let mut conditions = same(&key, "=", 1);
    conditions.extend(same(&compared, "IS", 1 + key.len()));
    let sql =
        format!("SELECT 1 FROM {} WHERE {}", ident(&published.name), conditions.join(" AND "));
    let look = || {
        let mut statement = input.connection.prepare_cached(&sql)?;
        for (number, at) in key.iter().chain(&compared).enumerate() {
            statement.raw_bind_parameter(number + 1, Bind(turn.row.new[*at]))?;
        }
        Ok(statement.raw_query().next()?.is_some())
    };
    look().map_err(failed("look what became of rows of the upload"))
}
