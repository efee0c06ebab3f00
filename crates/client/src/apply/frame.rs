//! The rows of a frame.

use model::{Code, Failure};

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
