//! Rows of an upload that wait, because other rows of the upload may block them.
//!
//! All rows of an upload may have to wait: those for which there is no memory lie on disk.

use super::batch::{self, Reason};
use super::careful::Group;
use crate::synchronization::Change;
use model::{Code, Failure, Spill, SpillReader, Spills};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of rows that are looked at together here.
pub(super) const GROUP_BYTES: usize = batch::BATCH_BYTES;

/// Rows that met an obstacle which other rows may move, and its description.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parked {
    pub(super) table: usize,
    pub(super) change: Change,
    pub(super) row: Vec<u8>,
    pub(super) reason: Reason,
}

/// When rows of a kind are applied: first what is written, parents first, then deletes, children
/// first.
type Place = (u8, isize, i8);

/// Rows of one table with one change.
#[derive(Debug)]
struct Kind {
    table: usize,
    change: Change,
    rows: Spill,
}

/// Rows that wait, in the order in which they are applied.
#[derive(Debug)]
pub(super) struct ParkedRows {
    spills: Arc<Spills>,
    kinds: BTreeMap<Place, Kind>,
    len: usize,
}

impl ParkedRows {
    pub(super) fn within(spills: &Arc<Spills>) -> ParkedRows {
        ParkedRows { spills: spills.clone(), kinds: BTreeMap::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, parked: &Parked) -> Result<(), Failure> {
        let Parked { table, change, row, reason: (code, message) } = parked;
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
    pub(super) fn take(&mut self) -> ParkedRows {
        std::mem::replace(self, ParkedRows::within(&self.spills))
    }

    /// Adds those of another one.
    pub(super) fn extend(&mut self, others: &ParkedRows) -> Result<(), Failure> {
        let mut rows = others.reader();
        while let Some(parked) = rows.next_row()? {
            self.push(&parked)?;
        }
        Ok(())
    }

    /// Those for which `is_first` holds, and the others.
    pub(super) fn partition(
        &self,
        is_first: impl Fn(&Parked) -> bool,
    ) -> Result<(ParkedRows, ParkedRows), Failure> {
        let (mut first, mut others) =
            (ParkedRows::within(&self.spills), ParkedRows::within(&self.spills));
        let mut rows = self.reader();
        while let Some(parked) = rows.next_row()? {
            if is_first(&parked) { &mut first } else { &mut others }.push(&parked)?;
        }
        Ok((first, others))
    }

    /// Their tables and changes.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (usize, Change)> + '_ {
        self.kinds.values().map(|kind| (kind.table, kind.change))
    }

    pub(super) fn reader(&self) -> ParkedReader<'_> {
        ParkedReader { kinds: self.kinds.values().collect(), now: None, kept: None }
    }
}

/// Goes through rows that wait once.
pub(super) struct ParkedReader<'p> {
    /// Those that are still to come.
    kinds: std::collections::VecDeque<&'p Kind>,
    now: Option<(&'p Kind, SpillReader<'p>)>,
    /// Read, and belongs to the next group.
    kept: Option<Parked>,
}

impl ParkedReader<'_> {
    /// The next row, none behind the last.
    pub(super) fn next_row(&mut self) -> Result<Option<Parked>, Failure> {
        if self.kept.is_some() {
            return Ok(self.kept.take());
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
    pub(super) fn next_group(&mut self) -> Result<Option<Group>, Failure> {
        let Some(Parked { table, change, row, .. }) = self.next_row()? else { return Ok(None) };
        let (mut bytes, mut rows) = (row.len(), vec![row]);
        while bytes < GROUP_BYTES
            && let Some(parked) = self.next_row()?
        {
            if (parked.table, parked.change) != (table, change) {
                self.kept = Some(parked);
                break;
            }
            bytes += parked.row.len();
            rows.push(parked.row);
        }
        Ok(Some(Group { table, change, rows }))
    }
}

fn place(table: usize, change: Change) -> Place {
    match change {
        Change::Insert => (0, table as isize, 0),
        Change::KeyChange => (0, table as isize, -1),
        Change::Update => (0, table as isize, 1),
        Change::Delete => (1, -(table as isize), 0),
    }
}

fn read(kind: &Kind, chunk: &[u8]) -> Option<Parked> {
    let (code, rest) = chunk.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (message, row) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let code = Code::from_number(u16::from_le_bytes(*code))?;
    let reason = (code, std::str::from_utf8(message).ok()?.to_owned());
    Some(Parked { table: kind.table, change: kind.change, row: row.to_vec(), reason })
}

fn torn() -> Failure {
    Failure::new(Code::Bug, "a row that waits does not read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(table: usize, change: Change, bytes: usize) -> Parked {
        let reason = (Code::RowNotUnique, format!("{table}"));
        Parked { table, change, row: vec![table as u8; bytes], reason }
    }

    #[test]
    fn rows_come_back_in_the_order_in_which_they_are_applied_in_groups_of_one_kind() {
        let mut rows = ParkedRows::within(&Arc::new(Spills::default()));
        let half = GROUP_BYTES / 2;
        let pushed = [
            parked(0, Change::Delete, 3),
            parked(1, Change::Delete, 3),
            parked(1, Change::Update, half),
            parked(0, Change::Insert, 4),
            parked(1, Change::KeyChange, 5),
            parked(1, Change::Update, half),
            parked(1, Change::Update, half),
        ];
        pushed.iter().for_each(|one| rows.push(one).unwrap());
        let (changed, others) = rows.partition(|one| one.change == Change::KeyChange).unwrap();
        assert_eq!((changed.len(), others.len()), (1, 6));
        let all = rows.take();
        assert!(rows.is_empty());
        rows.extend(&changed).unwrap();
        assert_eq!(rows.reader().next_row().unwrap(), Some(pushed[4].clone()));
        let mut reader = all.reader();
        let groups = std::iter::from_fn(|| reader.next_group().unwrap());
        let groups: Vec<_> =
            groups.map(|group| (group.table, group.change, group.rows.len())).collect();
        let wanted = [
            (0, Change::Insert, 1),
            (1, Change::KeyChange, 1),
            (1, Change::Update, 2),
            (1, Change::Update, 1),
            (1, Change::Delete, 1),
            (0, Change::Delete, 1),
        ];
        assert_eq!(groups, wanted);
    }
}
