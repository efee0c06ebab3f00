//! Rows that get a spare key, so that they are out of the way.
//!
//! Such a key is nobody's, before the upload and after it.

use super::renaming::rename;
use super::spot::Spot;
use super::{Rebasing, rebase_over_key_changes};
use crate::deploy::{KeyAction, TableFacts};
use crate::script::Event;
use crate::sqlite::deploy::tables::UserTable;
use crate::sqlite::details::CatalogTable;
use crate::sqlite::download::followers;
use crate::sqlite::errors::failed as failing;
use crate::sqlite::upload::WaitingRow;
use crate::sqlite::upload::attempt::{Attempt, Stop};
use crate::sqlite::upload::waiting::WaitingRows;
use crate::upload::owed_rows::OwedRows;
use crate::upload::rebase::{Rebased, values};
use crate::upload::uploaded_row::{UploadedRow, key_of};
use model::{Code, Failure, Value, ValueRef};

/// Moves a row that is to be deleted out of the way, with its children: those that the upload gives
/// another parent would go with it. Only where foreign keys take all children along, and where
/// nothing is known to stand against the delete. Returns the rows of the remote that do not go with
/// it, and the key that it has got.
pub(super) fn put_aside(
    attempt: &mut Attempt<'_>,
    waiting_rows: &WaitingRow,
) -> Result<(WaitingRows, Option<Vec<u8>>), Stop> {
    let (tables, none) = (attempt.tables, WaitingRows::within(attempt.spills));
    let table = &tables[waiting_rows.table];
    let Some(links) = attempt.links else { return Ok((none, None)) };
    let mut row = UploadedRow::default();
    row.read(&waiting_rows.row, waiting_rows.change, table.published.width())?;
    let rebased = match rebase_over_key_changes(attempt, table, waiting_rows.table, &row)? {
        Rebasing::AsItIs => Rebased::of(row.change, &table.published, &row.old, &row.new),
        Rebasing::Onto(rebased) => rebased,
        Rebasing::Gone => return Ok((none, None)),
    };
    let rebased = rebased.row(table.published.width())?;
    let Some(now) = attempt.fetch(table, &rebased)? else { return Ok((none, None)) };
    let followers = followers::of(attempt, waiting_rows.table, &rebased)?;
    let keys = links.user_tables.values().flat_map(|child| &child.foreign_keys);
    let mut referring = keys.filter(|key| key.parent == table.published.name);
    let all_go = referring.all(|key| key.on_update == KeyAction::Cascade);
    let aside = match all_go && followers.are_known && rebased.is_as_seen(&now)? {
        true => move_away(attempt, table, waiting_rows.table, &rebased)?,
        false => None,
    };
    Ok((followers.rows, aside))
}

/// Adds the deletes of rows that were put aside, and are still there: they are left out of a new
/// attempt.
pub(in crate::sqlite) fn refuse_what_is_aside(
    attempt: &Attempt<'_>,
    refused: &mut OwedRows,
) -> Result<(), Failure> {
    let Some(moving) = &attempt.moving else { return Ok(()) };
    moving.aside.visit(|(position, aside), key| {
        let table = &attempt.tables[position];
        let mut row = UploadedRow::default();
        row.new.resize(table.published.width(), ValueRef::Null);
        for (column, value) in table.published.key.iter().zip(values(&aside)?) {
            row.new[usize::from(*column)] = value;
        }
        row.old.clone_from(&row.new);
        if Spot::of(attempt, table, &row)?.own.is_some() {
            let reason = (Code::RowRefused, "the row could not be deleted".to_owned());
            refused.reject(&(position, key.to_vec()), reason)?;
        }
        Ok(())
    })
}

/// Gives a row a temporary key, so that the others of its ring can move.
pub(super) fn place(attempt: &mut Attempt<'_>, waiting_rows: &WaitingRow) -> Result<bool, Stop> {
    let tables = attempt.tables;
    let table = &tables[waiting_rows.table];
    let mut row = UploadedRow::default();
    row.read(&waiting_rows.row, waiting_rows.change, table.published.width())?;
    let rebased = match rebase_over_key_changes(attempt, table, waiting_rows.table, &row)? {
        Rebasing::AsItIs => Rebased::of(row.change, &table.published, &row.old, &row.new),
        Rebasing::Onto(rebased) => rebased,
        Rebasing::Gone => return Ok(false),
    };
    let rebased = rebased.row(table.published.width())?;
    let now = attempt.fetch(table, &rebased.as_seen())?;
    let Some(now) = now else { return Ok(false) };
    if !rebased.is_as_seen(&now)? && table.script(Event::ResolveConflict).is_none() {
        return Ok(false);
    }
    Ok(move_away(attempt, table, waiting_rows.table, &rebased)?.is_some())
}

/// Gives the row to which `row` applies a temporary key, and returns it.
fn move_away(
    attempt: &mut Attempt<'_>,
    table: &CatalogTable,
    position: usize,
    row: &UploadedRow<'_>,
) -> Result<Option<Vec<u8>>, Stop> {
    let Some(links) = attempt.links else { return Ok(None) };
    let Some(user_table) = links.user_tables.get(&table.published.name) else { return Ok(None) };
    let columns = &table.published.columns;
    // One column is enough; one that refers to nothing is best.
    let refers = |name: &String| {
        user_table.foreign_keys.iter().any(|key| key.columns.iter().any(|(from, _)| from == name))
    };
    let mut candidates: Vec<u16> = table.published.key.clone();
    candidates.sort_by_key(|column| refers(&columns[usize::from(*column)]));
    for number in 0..SPARE_KEYS_MAX {
        for column in &candidates {
            let column = usize::from(*column);
            let value = spare(user_table, &columns[column], number);
            let mut placed = row.as_seen();
            placed.new[column] = value.as_ref();
            if Spot::of(attempt, table, &placed)?.occupant.is_some() {
                continue;
            }
            let setting = failing("give a row a spare key");
            let checks = |on: &str| {
                let sql = format!("PRAGMA ignore_check_constraints = {on}");
                attempt.connection.execute_batch(&sql).map_err(&setting)
            };
            checks("ON")?;
            let fault = rename(attempt, table, &placed);
            checks("OFF")?;
            if fault?.is_none() {
                if let Some(moving) = &mut attempt.moving {
                    moving.spares.note(position, &columns[column], &value);
                }
                return Ok(Some(key_of(&table.published, &placed.new)));
            }
        }
    }
    Ok(None)
}

/// Spare keys that are tried before a ring is rejected.
const SPARE_KEYS_MAX: i64 = 64;

fn spare(table: &UserTable, column: &str, number: i64) -> Value {
    let declared = table.column(column).map(|column| column.declared_type.to_ascii_uppercase());
    let declared = declared.unwrap_or_default();
    let has = |part: &str| declared.contains(part);
    if has("INT") {
        Value::Integer(i64::MIN / 2 + number)
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        Value::Real(-1e300 + number as f64 * 1e290)
    } else if has("BLOB") {
        Value::Blob(format!("syncline waiting_rows {number}").into_bytes())
    } else {
        Value::Text(format!("syncline waiting_rows {number}").into_bytes())
    }
}
