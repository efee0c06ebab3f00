//! Who has the keys that a key change is about.

use super::columns::{key_names, numbered};
use super::{Rebasing, rebase_over_key_changes};
use crate::quote::{ident, idents};
use crate::sqlite::details::CatalogTable;
use crate::sqlite::errors::failed as failing;
use crate::sqlite::upload::WaitingRow;
use crate::sqlite::upload::attempt::Attempt;
use crate::sqlite::values::{Bind, write_row};
use crate::upload::uploaded_row::UploadedRow;
use model::{Failure, ValueRef};

/// Whose keys a key change is about.
#[derive(Debug)]
pub(in crate::sqlite) struct Spot {
    /// The key of the row that is to have another one, as the center spells it.
    pub(in crate::sqlite) own: Option<Vec<u8>>,
    /// That of the row that has the new one.
    pub(in crate::sqlite) occupant: Option<Vec<u8>>,
}

impl Spot {
    pub(in crate::sqlite) fn of(
        attempt: &Attempt<'_>,
        table: &CatalogTable,
        row: &UploadedRow<'_>,
    ) -> Result<Spot, Failure> {
        let published = &table.published;
        let names = key_names(published);
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            idents("", &names),
            ident(&published.name),
            numbered(&names, 1, " AND "),
        );
        let look = |image: &[ValueRef<'_>]| -> rusqlite::Result<Option<Vec<u8>>> {
            let mut statement = attempt.connection.prepare_cached(&sql)?;
            for (index, column) in published.key.iter().enumerate() {
                statement.raw_bind_parameter(index + 1, Bind(image[usize::from(*column)]))?;
            }
            let mut rows = statement.raw_query();
            let Some(found) = rows.next()? else { return Ok(None) };
            let mut key = Vec::new();
            write_row(&mut key, found, names.len())?;
            Ok(Some(key))
        };
        let looking = failing("look for the rows of a key change");
        let own = look(&row.old).map_err(&looking)?;
        let occupant = look(&row.new).map_err(&looking)?;
        Ok(Spot { own, occupant })
    }

    /// Another row has the new key.
    pub(in crate::sqlite) fn is_taken(&self) -> bool {
        self.taken_by().is_some()
    }

    /// The key of that row.
    pub(super) fn taken_by(&self) -> Option<&[u8]> {
        self.occupant.as_deref().filter(|_| self.occupant != self.own)
    }
}

pub(super) fn spot_of(attempt: &Attempt<'_>, waiting_rows: &WaitingRow) -> Result<Spot, Failure> {
    let table = &attempt.tables[waiting_rows.table];
    let mut row = UploadedRow::default();
    row.read(&waiting_rows.row, waiting_rows.change, table.published.width())?;
    match rebase_over_key_changes(attempt, table, waiting_rows.table, &row)? {
        Rebasing::AsItIs => Spot::of(attempt, table, &row),
        Rebasing::Gone => Ok(Spot { own: None, occupant: None }),
        Rebasing::Onto(rebased) => Spot::of(attempt, table, &rebased.row(table.published.width())?),
    }
}
