//! The key changes of a download, as they came.

use crate::apply::download::Download;
use crate::schema::RemoteTable;
use model::{Failure, RowReader, ValueRef};
use protocol::{Operation, RowsFrame};

type VisitFrame<'a> = dyn FnMut(usize, &[u8], u32) -> Result<(), Failure> + 'a;
type VisitKey<'a> = dyn FnMut(usize, &[ValueRef<'_>]) -> Result<(), Failure> + 'a;

/// Shows the position of the table, the rows and their number of every frame.
pub(in crate::apply) fn for_each_frame(
    download: &Download,
    visit: &mut VisitFrame<'_>,
) -> Result<(), Failure> {
    let mut reader = download.upserts.reader();
    while let Some(payload) = reader.next_chunk()? {
        let (table, operation, count) = RowsFrame::split(&payload)?;
        if operation == Operation::KeyChange {
            visit(usize::from(table), &payload[RowsFrame::PREFIX_BYTES..], count)?;
        }
    }
    Ok(())
}

/// Shows the position of the table and the former key of every row.
pub(in crate::apply) fn for_each_old_key(
    download: &Download,
    tables: &[RemoteTable],
    visit: &mut VisitKey<'_>,
) -> Result<(), Failure> {
    for_each_frame(download, &mut |position, rows, count| {
        let table = &tables[position];
        let mut reader = RowReader::new(rows);
        for _ in 0..count {
            let old: Vec<ValueRef<'_>> =
                table.key.iter().map(|_| reader.value()).collect::<Result<_, _>>()?;
            for _ in 0..table.width() {
                reader.value()?;
            }
            visit(position, &old)?;
        }
        Ok(())
    })
}
