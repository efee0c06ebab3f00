//! Rows of an upload that wait, because other rows of the upload may block them.
//!
//! All rows of an upload may have to wait: those for which there is no memory lie on disk.

use crate::postgres::link::pulse::Pulse;
use crate::postgres::upload::batch::{self, Reason};
use crate::postgres::upload::isolation::group::Group;
use crate::synchronization::change::Change;
use model::{Code, Failure, Spill, SpillReader, Spills};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that met an obstacle which other rows may move, and its description.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::postgres) struct WaitingRow {
    pub(in crate::postgres) table: usize,
    pub(in crate::postgres) change: Change,
    pub(in crate::postgres) row: Vec<u8>,
    pub(in crate::postgres) reason: Reason,
}

/// When rows of a kind are applied: first what is written, parents first, then deletes, children
/// first.
type Turn = (u8, isize, i8);

/// Rows of one table with one change.
#[derive(Debug)]
struct Kind {
    table: usize,
    change: Change,
    rows: Spill,
}

/// Rows that wait, in the order in which they are applied.
#[derive(Debug)]
pub(in crate::postgres) struct WaitingRows {
    spills: Arc<Spills>,
    pulse: Option<Pulse>,
    kinds: BTreeMap<Turn, Kind>,
    len: usize,
}

impl WaitingRows {
    /// None, with files and memory from `spills`. Who goes through them has a `pulse`, if a
    /// transaction is open.
    pub(in crate::postgres) fn within(spills: &Arc<Spills>, pulse: Option<&Pulse>) -> WaitingRows {
        let (spills, pulse) = (spills.clone(), pulse.cloned());
        WaitingRows { spills, pulse, kinds: BTreeMap::new(), len: 0 }
    }

    /// None, from where these are.
    fn alike(&self) -> WaitingRows {
        WaitingRows::within(&self.spills, self.pulse.as_ref())
    }

    pub(in crate::postgres) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(in crate::postgres) fn push(&mut self, waiting_rows: &WaitingRow) -> Result<(), Failure> {
        let WaitingRow { table, change, row, reason: (code, message) } = waiting_rows;
        let (table, change) = (*table, *change);
        let kind = self.kinds.entry(place(table, change));
        let kind = kind.or_insert_with(|| Kind { table, change, rows: self.spills.open() });
        let mut chunk = Vec::with_capacity(6 + message.len() + row.len());
        chunk.extend_from_slice(&code.number().to_le_bytes());
        chunk.extend_from_slice(&(message.len() as u32).to_le_bytes());
        chunk.extend_from_slice(message.as_bytes());
        chunk.extend_from_slice(row);
        kind.rows.append(chunk)?;
        self.len += 1;
        Ok(())
    }

    /// Takes all of them, which leaves none.
    pub(in crate::postgres) fn take(&mut self) -> WaitingRows {
        std::mem::replace(self, self.alike())
    }

    /// Those for which `is_first` holds, and the others.
    pub(in crate::postgres) fn partition(
        &self,
        is_first: impl Fn(&WaitingRow) -> bool,
    ) -> Result<(WaitingRows, WaitingRows), Failure> {
        let (mut first, mut others) = (self.alike(), self.alike());
        let mut rows = self.reader();
        while let Some(waiting_rows) = rows.next_row()? {
            if is_first(&waiting_rows) { &mut first } else { &mut others }.push(&waiting_rows)?;
        }
        Ok((first, others))
    }

    /// Their tables and changes.
    pub(in crate::postgres) fn kinds(&self) -> impl Iterator<Item = (usize, Change)> + '_ {
        self.kinds.values().map(|kind| (kind.table, kind.change))
    }

    pub(in crate::postgres) fn reader(&self) -> WaitingReader<'_> {
        let (kinds, pulse) = (self.kinds.values().collect(), self.pulse.as_ref());
        WaitingReader { kinds, pulse, now: None, kept: None }
    }
}

/// Goes through rows that wait once.
pub(in crate::postgres) struct WaitingReader<'p> {
    /// Those that are still to come.
    kinds: std::collections::VecDeque<&'p Kind>,
    pulse: Option<&'p Pulse>,
    now: Option<(&'p Kind, SpillReader<'p>)>,
    /// Read, and belongs to the next group.
    kept: Option<WaitingRow>,
}

impl WaitingReader<'_> {
    /// The next row, none behind the last.
    pub(in crate::postgres) fn next_row(&mut self) -> Result<Option<WaitingRow>, Failure> {
        if self.kept.is_some() {
            return Ok(self.kept.take());
        }
        if let Some(pulse) = self.pulse {
            pulse.pass_row()?;
        }
        loop {
            if let Some((kind, rows)) = &mut self.now
                && let Some(chunk) = rows.next_chunk()?
            {
                return read(kind, &chunk).map(Some).ok_or_else(torn);
            }
            let Some(kind) = self.kinds.pop_front() else { return Ok(None) };
            self.now = Some((kind, kind.rows.reader()));
        }
    }

    /// The next rows of one kind, as many as are looked at together.
    pub(in crate::postgres) fn next_group(&mut self) -> Result<Option<Group>, Failure> {
        let Some(WaitingRow { table, change, row, .. }) = self.next_row()? else { return Ok(None) };
        let (mut bytes, mut rows) = (row.len(), vec![row]);
        while !batch::are_enough(rows.len(), bytes)
            && let Some(waiting_rows) = self.next_row()?
        {
            if (waiting_rows.table, waiting_rows.change) != (table, change) {
                self.kept = Some(waiting_rows);
                break;
            }
            bytes += waiting_rows.row.len();
            rows.push(waiting_rows.row);
        }
        Ok(Some(Group { table, change, rows }))
    }
}

fn place(table: usize, change: Change) -> Turn {
    match change {
        Change::Insert => (0, table as isize, 0),
        Change::Update => (0, table as isize, 1),
        Change::Delete => (1, -(table as isize), 0),
    }
}

fn read(kind: &Kind, chunk: &[u8]) -> Option<WaitingRow> {
    let (code, rest) = chunk.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (message, row) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let code = Code::from_number(u16::from_le_bytes(*code))?;
    let reason = (code, std::str::from_utf8(message).ok()?.to_owned());
    Some(WaitingRow { table: kind.table, change: kind.change, row: row.to_vec(), reason })
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row that waits does not read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::upload::isolation::group::GROUP_BYTES;

    fn waiting_rows(table: usize, change: Change, bytes: usize) -> WaitingRow {
        let reason = (Code::RowNotUnique, format!("{table}"));
        WaitingRow { table, change, row: vec![table as u8; bytes], reason }
    }

    #[test]
    fn rows_come_back_in_the_order_in_which_they_are_applied_in_groups_of_one_kind() {
        let mut rows = WaitingRows::within(&Arc::new(Spills::default()), None);
        let half = GROUP_BYTES / 2;
        let pushed = [
            waiting_rows(0, Change::Delete, 3),
            waiting_rows(1, Change::Delete, 3),
            waiting_rows(1, Change::Update, half),
            waiting_rows(0, Change::Insert, 4),
            waiting_rows(1, Change::Update, half),
            waiting_rows(1, Change::Update, half),
        ];
        pushed.iter().for_each(|one| rows.push(one).unwrap());
        let all = rows.take();
        assert!(rows.is_empty());
        let mut reader = all.reader();
        let groups = std::iter::from_fn(|| reader.next_group().unwrap());
        let groups: Vec<_> =
            groups.map(|group| (group.table, group.change, group.rows.len())).collect();
        let wanted = [
            (0, Change::Insert, 1),
            (1, Change::Update, 2),
            (1, Change::Update, 1),
            (1, Change::Delete, 1),
            (0, Change::Delete, 1),
        ];
        assert_eq!(groups, wanted);
    }
}
