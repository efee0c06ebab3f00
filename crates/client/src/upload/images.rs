//! The images of a row, as an upload spells them.

use crate::capture::change_log::Entry;
use crate::schema::RemoteTable;
use model::{ValueRef, write_value};
use protocol::Operation;

/// What is uploaded of an entry; nothing of a row that came and went.
pub(super) fn operation(entry: &Entry<'_>) -> rusqlite::Result<Option<Operation>> {
    Ok(match (entry.existed, entry.exists_after()?) {
        (false, false) => None,
        (false, true) => Some(Operation::Insert),
        (true, true) => Some(Operation::Update),
        (true, false) => Some(Operation::Delete),
    })
}

/// Appends the images that the operation has; false where an update changes nothing, whose bytes
/// do not count.
pub(super) fn write(
    table: &RemoteTable,
    operation: Operation,
    entry: &Entry<'_>,
    bytes: &mut Vec<u8>,
) -> rusqlite::Result<bool> {
    match operation {
        Operation::Insert | Operation::Upsert => write_after(table, entry, bytes).map(|()| true),
        Operation::Delete => write_before(table, entry, bytes).map(|_| true),
        Operation::Update => write_update(table, entry, bytes),
    }
}

/// Writes both images; false where they are the same. Values are the same exactly where their
/// encodings are, so nothing is read twice.
fn write_update(
    table: &RemoteTable,
    entry: &Entry<'_>,
    bytes: &mut Vec<u8>,
) -> rusqlite::Result<bool> {
    let start = bytes.len();
    let whole = write_before(table, entry, bytes)?;
    let middle = bytes.len();
    write_after(table, entry, bytes)?;
    if whole {
        let (old, new) = bytes[start..].split_at(middle - start);
        return Ok(old != new);
    }
    for column in 0..table.width() {
        if entry.changed(column)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the old image; false where a large column is missing in it, which did not change.
fn write_before(
    table: &RemoteTable,
    entry: &Entry<'_>,
    bytes: &mut Vec<u8>,
) -> rusqlite::Result<bool> {
    let mut whole = true;
    for column in 0..table.width() {
        let value = entry.before(column)?;
        whole &= value != ValueRef::Absent;
        write_value(bytes, value);
    }
    Ok(whole)
}

/// Appends the key of a row that existed, as its old image has it.
pub(super) fn write_key(
    table: &RemoteTable,
    entry: &Entry<'_>,
    bytes: &mut Vec<u8>,
) -> rusqlite::Result<()> {
    for key in &table.key {
        let value = match entry.before(key.position)? {
            ValueRef::Absent => entry.after(key.position)?,
            before => before,
        };
        write_value(bytes, value);
    }
    Ok(())
}

fn write_after(
    table: &RemoteTable,
    entry: &Entry<'_>,
    bytes: &mut Vec<u8>,
) -> rusqlite::Result<()> {
    for column in 0..table.width() {
        write_value(bytes, entry.after(column)?);
    }
    Ok(())
}
