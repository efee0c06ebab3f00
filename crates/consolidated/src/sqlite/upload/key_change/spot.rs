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

    /// Where no row is spoken of.
    pub(super) fn nobody() -> Spot {
        Spot { own: None, occupant: None }
    }

    /// As bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for key in [&self.own, &self.occupant] {
            let len = key.as_ref().map_or(0, |key| key.len() as u32 + 1);
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(key.as_deref().unwrap_or_default());
        }
        bytes
    }

    /// What [`Spot::to_bytes`] has made.
    pub(super) fn read(bytes: &[u8]) -> Option<Spot> {
        let mut rest = bytes;
        let mut key = || -> Option<Option<Vec<u8>>> {
            let (len, behind) = rest.split_first_chunk()?;
            let Some(len) = u32::from_le_bytes(*len).checked_sub(1) else {
                rest = behind;
                return Some(None);
            };
            let (key, behind) = behind.split_at_checked(len as usize)?;
            rest = behind;
            Some(Some(key.to_vec()))
        };
        Some(Spot { own: key()?, occupant: key()? })
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
        Rebasing::Gone => Ok(Spot::nobody()),
        Rebasing::Onto(rebased) => Spot::of(attempt, table, &rebased.row(table.published.width())?),
    }
}
