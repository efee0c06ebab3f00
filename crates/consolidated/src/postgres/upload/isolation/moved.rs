//! Applies pending changes of remotes to rows that have another key now.
//!
//! A remote names a row by the key that it knows. If the row has got another key since
//! (`key_log.rs`), a change under the old key would find no row, or another row that has taken the
//! key and may look the same. So each change is rebased onto the current keys of its row and of the
//! rows to which it refers.
//!
//! Invariants:
//! M1. An upload is applied together only if no key change is unseen in its tables and in those to
//!     which they refer. This is checked after its last write: a transaction that changes a key
//!     that the upload used must wait for it, or is visible.
//! M2. In an upload whose faults are isolated, every row is looked up before it is applied. The
//!     unseen changes of that time must be all that are unseen at the end, in all of these tables.
//!     Otherwise all rows are applied again.
//! M3. If a key change that the remote has not received is no longer in the log, a change of a row
//!     that is not as the remote knew it is rejected, because it may be meant for another row.
//!
//! If a watermark belongs to another place, or there is none, it is not known what the remote has
//! received. Then only rows that are missing under their key are looked up.

use crate::postgres::link::Call;
use crate::postgres::tracking::key_log;
use crate::postgres::upload::batch::{Batch, batches};
use crate::postgres::upload::isolation::group::Group;
use crate::postgres::upload::isolation::state::Isolation;
use crate::postgres::upload::moves::image_of;
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::values::row_decoder::Decoder;
use crate::synchronization::change::Change;
use crate::upload::rebase::values;
use model::{Failure, ValueRef, skip_row};
use std::collections::{BTreeMap, HashSet};

/// Looks up the rows that `group` speaks of, and those that they refer to.
pub(in crate::postgres) fn look(
    isolation: &mut Isolation<'_, '_>,
    group: &Group,
) -> Result<(), Stop> {
    if isolation.moves.seen.is_empty() {
        return Ok(());
    }
    let (upload, table) = (isolation.upload, group.table);
    let published = &upload.tables[table].deployed.published;
    let mut images = BTreeMap::new();
    for bytes in &group.rows {
        let row = isolation.read(table, group.change, bytes)?;
        isolation.moves.ask((&isolation.links, upload), table, &row, &mut images)?;
    }
    for (table, images) in images {
        learn(isolation, table, images)?;
    }
    if group.change == Change::Insert {
        for bytes in &group.rows {
            let key = isolation.read(table, group.change, bytes)?.key(published, table);
            if isolation.moves.of_row(&key)?.is_some() {
                isolation.moves.taken.push(table, group.change, bytes)?;
            }
        }
    }
    Ok(())
}

/// Asks the log about the keys of `images`.
fn learn(
    isolation: &mut Isolation<'_, '_>,
    table: usize,
    images: Vec<Vec<u8>>,
) -> Result<(), Stop> {
    let Some(seen) = isolation.moves.seen.get(&table) else { return Ok(()) };
    let (snapshot, certain) = (seen.snapshot.text(), seen.certain);
    let this = isolation.table(table);
    let (published, columns) = (&this.deployed.published, &this.deployed.details.columns);
    let key: Vec<_> = published.key.iter().map(|at| &columns[usize::from(*at)]).collect();
    let statement = key_log::whereabouts(this)?;
    let mut asked = Vec::with_capacity(images.len());
    for image in images {
        // No row has a value that a key cannot have.
        let row = isolation.read(table, Change::Delete, &image)?;
        let mut batch = Batch::new(this, &statement, isolation.upload.request.session);
        if batch.add(&row).is_ok() {
            asked.push(image);
        }
    }
    isolation.flush()?;
    isolation
        .link
        .flight(&[Call::new(key_log::SEE, &[&snapshot])])
        .map_err(stopped("look for changed keys"))?;
    let mut found = Vec::new();
    let twice = key.repeat(2);
    isolation.ask(table, Change::Delete, &statement, &asked, &mut |row| {
        let mut was = Vec::new();
        Decoder::new(row, twice.iter().copied())?.write(row, &mut was)?;
        let now = skip_row(&was, key.len())?.to_vec();
        was.truncate(was.len() - now.len());
        found.push((was, now));
        Ok(())
    })?;
    let mut here = HashSet::new();
    if !certain && !found.is_empty() {
        let image = |(was, _): &(Vec<u8>, Vec<u8>)| Ok(image_of(published, &values(was)?));
        let images = found.iter().map(image).collect::<Result<Vec<_>, Failure>>()?;
        here = isolation.present(table, Change::Delete, &images)?;
    }
    for (was, now) in found {
        if !here.contains(&was) {
            let now = (!values(&now)?.contains(&ValueRef::Null)).then_some(now);
            isolation.moves.learn(&(table, was), now.as_deref())?;
        }
    }
    Ok(())
}

/// Whether no key has changed since the beginning (M2). Also records which keys mean the remote's
/// own rows from now on.
pub(in crate::postgres) fn settle(isolation: &mut Isolation<'_, '_>) -> Result<bool, Stop> {
    let upload = isolation.upload;
    let taken = isolation.moves.taken.take();
    let mut taken = taken.reader();
    while let Some(Group { table, change, rows }) = taken.next_group()? {
        let statement = key_log::own(isolation.table(table))?;
        let batches = batches(isolation.table(table), &statement, upload, change, &rows)?;
        isolation.select(&batches, &mut |_| Ok(()))?;
    }
    isolation.flush()?;
    Ok(isolation.moves.last(isolation.link, upload)? == isolation.moves.last)
}
