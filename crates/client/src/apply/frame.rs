//! The rows of a frame.

use crate::schema::RemoteTable;
use model::{Code, Failure, row_len};
use protocol::Operation;
use std::borrow::Cow;

pub(super) fn count_rows(mut rows: &[u8], width: usize) -> Result<u64, Failure> {
    let mut count = 0;
    while !rows.is_empty() {
        rows = model::skip_row(rows, width)?;
        count += 1;
    }
    Ok(count)
}

pub(super) fn expect_end(rest: &[u8]) -> Result<(), Failure> {
    if rest.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::MalformedMessage, "a rows frame has more bytes than rows"))
}

/// The rows of a frame, without the old keys where it has some.
pub(super) fn only_rows<'b>(
    table: &RemoteTable,
    operation: Operation,
    rows: &'b [u8],
    count: u32,
) -> Result<Cow<'b, [u8]>, Failure> {
    if operation != Operation::KeyChange {
        return Ok(Cow::Borrowed(rows));
    }
    let mut stripped = Vec::with_capacity(rows.len());
    let mut rest = rows;
    for _ in 0..count {
        rest = &rest[row_len(rest, table.key.len())?..];
        let (row, behind) = rest.split_at(row_len(rest, table.width())?);
        stripped.extend_from_slice(row);
        rest = behind;
    }
    expect_end(rest)?;
    Ok(Cow::Owned(stripped))
}
