//! Tells rows that a policy of row-level security hides from rows that are gone (S5).
//!
//! The server sees neither. An edit of a row that is gone is a conflict. A row that is hidden
//! by now is not the remote's to change.

use crate::postgres::errors::unreadable;
use crate::postgres::statement::Statement;
use crate::postgres::upload::batch::{self, Reason};
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::quote::idents;
use crate::script::Event;
use crate::synchronization::change::Change;
use crate::upload::halving;
use model::Code;
use std::collections::HashMap;

/// Of uploaded rows those that may be there although they are missing, by their keys: why they are
/// rejected.
pub(super) fn among(
    isolation: &mut Isolation<'_, '_>,
    (table, change): (usize, Change),
    rows: &[Vec<u8>],
    is_missing: &dyn Fn(&[u8]) -> bool,
) -> Result<HashMap<Vec<u8>, Reason>, Stop> {
    let this = isolation.table(table);
    let published = &this.deployed.published;
    let mut images = Vec::new();
    if change != Change::Insert && !this.deployed.is_own(Change::Insert) {
        for bytes in rows {
            let row = isolation.read(table, change, bytes)?;
            if is_missing(&row.key(published, table).1) {
                images.push(row.new_image().to_vec());
            }
        }
    }
    if images.is_empty() || !has_policies(isolation, table)? {
        return Ok(HashMap::new());
    }
    let key_of = |isolation: &Isolation<'_, '_>, image: &[u8]| {
        Ok::<_, Stop>(isolation.read(table, Change::Insert, image)?.key(published, table).1)
    };
    // What the partition does not cover is not entered either.
    if let Some(inside) = isolation.inside(table, Change::Insert, &images)? {
        let mut covered = Vec::new();
        for image in images {
            if inside.contains(&key_of(isolation, &image)?) {
                covered.push(image);
            }
        }
        images = covered;
    }
    let insert = this.required(Event::UploadInsert)?;
    let key = published.key.iter().map(|at| &published.columns[usize::from(*at)]);
    let key = idents("", &key.collect::<Vec<_>>());
    let sql = format!("{}\nON CONFLICT ({key}) DO NOTHING", insert.sql);
    let probe = Statement { sql, ..insert.clone() };
    let found = halving::failing(&images, |some| enter(isolation, table, &probe, some))?;
    let found = found.into_iter().map(|(image, why)| Ok((key_of(isolation, image)?, why)));
    found.collect()
}

/// Whether the server may not see every row of the table.
fn has_policies(isolation: &mut Isolation<'_, '_>, table: usize) -> Result<bool, Stop> {
    if let Some(known) = isolation.policies.get(&table) {
        return Ok(*known);
    }
    isolation.flush()?;
    let name = isolation.table(table).deployed.details.sql_name();
    let sql = "SELECT row_security_active($1::text::regclass)";
    let rows = isolation.link.query(sql, &[&name]).map_err(stopped("look for policies"))?;
    let mut active = false;
    for row in &rows {
        active = row.try_get(0).map_err(unreadable)?;
    }
    isolation.policies.insert(table, active);
    Ok(active)
}

/// Enters new rows and takes them back. Tells why not, where one is there already or may be.
fn enter(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    probe: &Statement,
    rows: &[Vec<u8>],
) -> Result<Option<Reason>, Stop> {
    let this = isolation.table(table);
    let batches = batch::batches(this, probe, isolation.upload, Change::Insert, rows)?;
    let ran = isolation.send((table, Event::UploadInsert), &batches, false)?;
    isolation.undo();
    let why = match ran {
        Ran::Affected(entered) if entered == rows.len() as u64 => return Ok(None),
        Ran::Affected(_) => "row-level security hides the row",
        Ran::Fault(_) => "the row is gone, or row-level security hides it",
    };
    Ok(Some((Code::RowVetoed, why.to_owned()).into()))
}
