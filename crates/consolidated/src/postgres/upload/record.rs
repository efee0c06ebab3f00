//! What is recorded about an upload: owed rows, conflicts, and rows that need not be sent back.

pub(super) mod entries;

use crate::administration::readable::{self, UNCHANGED};
use crate::download::range::has_other_claims;
use crate::postgres::catalog::table::Table;
use crate::postgres::download::watermark::Point;
use crate::postgres::link::Link;
use crate::postgres::upload::batch::Reason;
use crate::postgres::upload::record::entries::{Conflict, Entries, PART_BYTES};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::synchronization::counted::Unusual;
use crate::synchronization::{Applied, UploadRequest};
use crate::upload::echo::Echo;
use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::{RowId, UploadedRow, each_row};
use model::{Counter, Failure, Hold, PublishedTable, Spills, write_value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Grows while rows are applied, and is written with what commits, many conflicts before.
pub(in crate::postgres) struct UploadRecord {
    pub(in crate::postgres) applied: Applied,
    /// What the remote is owed, and what was rejected.
    owed: OwedRows,
    conflicts: Vec<Conflict>,
    conflict_bytes: usize,
    /// There were others, which are written.
    conflicts_written: bool,
    /// The rows are not in the echo yet: it is not known whether they must be.
    pub(in crate::postgres) undigested: bool,
    /// Every row was stored as it was sent.
    pub(in crate::postgres) verbatim: bool,
    /// The tables with rows.
    pub(in crate::postgres) written: BTreeSet<usize>,
    /// Every row that is not as it was sent is owed.
    pub(in crate::postgres) is_settled: bool,
    /// The conflicts take so much of the memory.
    held: Hold,
}

impl UploadRecord {
    /// One that draws on `spills`.
    pub(in crate::postgres) fn within(spills: &Arc<Spills>) -> UploadRecord {
        UploadRecord {
            applied: Applied { echo: Echo::within(spills.memory()), ..Applied::default() },
            owed: OwedRows::within(spills),
            conflicts: Vec::new(),
            conflict_bytes: 0,
            conflicts_written: false,
            undigested: false,
            verbatim: false,
            written: BTreeSet::new(),
            is_settled: false,
            held: spills.memory().hold(),
        }
    }

    /// Notes that the remote need not be sent this row.
    pub(in crate::postgres) fn echo(
        &mut self,
        table: &PublishedTable,
        position: usize,
        row: &UploadedRow<'_>,
    ) {
        self.applied.echo.add_uploaded(table, position, row);
    }

    /// Notes that the remote must be sent this row, whatever it will be then.
    pub(in crate::postgres) fn owe(&mut self, row: &RowId) -> Result<(), Failure> {
        self.owed.owe(row)
    }

    /// The same for a row that has lost a conflict, of which the remote is told.
    pub(in crate::postgres) fn lose(&mut self, row: &RowId, rule: &str) -> Result<(), Failure> {
        self.owed.lose(row, rule)
    }

    pub(in crate::postgres) fn reject(
        &mut self,
        (row, change): (&RowId, Change),
        reason: Reason,
    ) -> Result<(), Failure> {
        self.applied.rejected += 1;
        self.unusual(row.0).rejected[change as usize] += 1;
        let message = readable::message(reason.message);
        self.owed.reject(row, Reason { message, ..reason })
    }

    /// What is counted of a table.
    pub(in crate::postgres) fn unusual(&mut self, table: usize) -> &mut Unusual {
        self.applied.unusual.entry(table).or_default()
    }

    /// Owes the uploaded rows that come with other claims than the remote was sent the table with:
    /// the departure log may lack them.
    pub(in crate::postgres) fn owe_what_no_log_names(
        &mut self,
        upload: Upload<'_>,
    ) -> Result<(), Failure> {
        let request = upload.request;
        let owes = |table: &Arc<Table>| has_other_claims::<Point>(&**table, request);
        let owes = upload.tables.iter().map(owes).collect::<Result<Vec<bool>, Failure>>()?;
        if !owes.contains(&true) {
            return Ok(());
        }
        let published = |position: usize| &upload.tables[position].deployed.published;
        let wanted = |position: usize, change| {
            owes[position]
                && change != Change::Delete
                && !upload.tables[position].deployed.ignores(change)
        };
        each_row(request.batches, &published, wanted, |position, row| {
            self.owe(&row.key(published(position), position))
        })
    }

    /// Values for columns that are gone are reported with their rows.
    pub(in crate::postgres) fn tell_left_out(
        &mut self,
        request: &UploadRequest<'_>,
    ) -> Result<(), Failure> {
        let Some(left_out) = request.left_out else { return Ok(()) };
        self.applied.rejected += self.owed.tell_left_out(left_out)?;
        Ok(())
    }

    /// Stores the rows of a conflict and the resulting row, so that people can look at them later.
    pub(in crate::postgres) fn conflict(
        &mut self,
        (table, published): (usize, &PublishedTable),
        row: &UploadedRow<'_>,
        now: Option<&[u8]>,
        result: Option<&[u8]>,
    ) {
        self.applied.conflicts += 1;
        self.unusual(table).conflicts[row.change as usize] += 1;
        let mut old = Vec::with_capacity(row.bytes.len());
        row.old.iter().for_each(|value| write_value(&mut old, *value));
        let told = |image: &[u8]| readable::row(published, image);
        let stays = result == now;
        let conflict = Conflict {
            table,
            change: row.change,
            old: (row.change != Change::Insert).then(|| told(&old)),
            new: (row.change != Change::Delete).then(|| told(row.new_image())),
            consolidated: now.map(told),
            result: match stays {
                true => now.map(|_| UNCHANGED.into()),
                false => result.map(|image| told(image).into()),
            },
        };
        self.conflict_bytes += conflict.bytes();
        self.held.grow(conflict.bytes() as u64);
        self.conflicts.push(conflict);
    }

    /// What the remote is owed, and what was rejected.
    pub(in crate::postgres) fn owed(&self) -> &OwedRows {
        &self.owed
    }

    /// The same, for who decides about what was refused.
    pub(in crate::postgres) fn owed_mut(&mut self) -> &mut OwedRows {
        &mut self.owed
    }

    /// Whether the remote will be sent this row.
    pub(in crate::postgres) fn tells_of(&self, row: &RowId) -> Result<bool, Failure> {
        self.owed.contains(row)
    }

    /// Whether the remote is owed enough to ask first what it is owed already.
    pub(in crate::postgres) fn owes_many(&self) -> bool {
        self.owed.are_many()
    }

    /// Whether nothing is to be sent of any row.
    pub(in crate::postgres) fn is_clear(&self) -> bool {
        self.owed.is_empty() && self.conflicts.is_empty() && !self.conflicts_written
    }

    pub(in crate::postgres) fn into_applied(self, download_follows: bool) -> Applied {
        let mut applied = self.applied;
        if !download_follows {
            applied.echo = Echo::default();
        }
        applied
    }

    /// What is to be written of the upload, see [`Entries::of`].
    pub(in crate::postgres) fn entries<'a>(
        &'a self,
        link: &mut Link,
        upload: Upload<'a>,
        counter: (Counter, bool),
    ) -> Result<Entries<'a>, Failure> {
        Entries::of((&self.owed, &self.conflicts), link, upload, counter)
    }

    /// Writes the conflicts so far where they are many, outside of any savepoint that may be undone
    /// by itself.
    pub(in crate::postgres) fn write_conflicts(
        &mut self,
        link: &mut Link,
        upload: Upload<'_>,
    ) -> Result<(), Stop> {
        let conflicts = std::mem::take(&mut self.conflicts);
        let bytes = std::mem::take(&mut self.conflict_bytes);
        self.conflicts_written = true;
        let mut entries = Entries::new(upload, link.encoding(), Counter(0), false);
        entries
            .add_conflicts(link, &conflicts)
            .and_then(|()| entries.write(link))
            .map_err(stopped("note conflicts"))?;
        drop(entries);
        drop(conflicts);
        self.held.shrink(bytes as u64);
        Ok(())
    }

    /// Whether there are enough conflicts for a statement of their own.
    pub(in crate::postgres) fn has_many_conflicts(&self) -> bool {
        self.conflict_bytes >= PART_BYTES
    }
}
