//! Rejected rows as they are noted at the center.

use crate::administration::readable::{key, operation, row};
use crate::shape::LeftOut;
use crate::shape::left_out::ROWS_BYTES_MAX;
use crate::synchronization::change::{Change, RowSource};
use crate::upload::owed_rows::OwedRows;
use crate::upload::reason::Reason;
use crate::upload::uploaded_row::each_row;
use model::{Code, Failure, PublishedTable};

/// A row that the center refused.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// Position of the table.
    pub(crate) table: usize,
    pub(crate) operation: &'static str,
    /// JSON.
    pub(crate) key: String,
    /// JSON: the row that the remote wanted, or the one that it wanted to delete.
    pub(crate) row: Option<String>,
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Shows the rows of an upload that were refused, with their content, and none for each of the
/// others. If values of a row were left out, the content is what the remote sent.
pub(crate) fn visit_rejected<'t>(
    (batches, left_out): (RowSource<'_>, Option<&LeftOut>),
    table: &dyn Fn(usize) -> &'t PublishedTable,
    rows: &OwedRows,
    visit: &mut dyn FnMut(Option<Rejected>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut bytes = 0;
    each_row(
        batches,
        table,
        |_, _| true,
        |position, uploaded| {
            let published = table(position);
            let id = uploaded.key(published, position);
            let Some(Reason { code, message, .. }) = rows.reason(&id)? else { return visit(None) };
            let whole = left_out.map_or(Ok(None), |left_out| left_out.content(&id))?;
            let row = whole
                .or_else(|| (bytes < ROWS_BYTES_MAX).then(|| row(published, uploaded.new_image())));
            bytes += row.as_ref().map_or(0, String::len);
            let (operation, key) = (operation(uploaded.change), key(published, &id.1));
            visit(Some(Rejected { table: position, operation, key, row, code, message }))
        },
    )?;
    let Some(left_out) = left_out else { return Ok(()) };
    left_out.visit(|id, left| {
        if !left.empty {
            return Ok(());
        }
        let Some(Reason { code, message, .. }) = rows.reason(&id)? else { return Ok(()) };
        let (key, operation) = (key(table(id.0), &id.1), operation(Change::Update));
        visit(Some(Rejected { table: id.0, operation, key, row: left.content, code, message }))
    })
}
