//! Applies rows together, or else in halves until the rows at fault are alone.

use crate::postgres::upload::isolation::conflict;
use crate::postgres::upload::isolation::group::{Group, Images, Rows, halve};
use crate::postgres::upload::isolation::state::{Isolation, Ran};
use crate::postgres::upload::row_fault::RowFault;
use crate::postgres::upload::stop::Stop;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::event_of;

impl Isolation<'_, '_> {
    /// Applies rows: all at once, or else in halves.
    pub(in crate::postgres) fn group(&mut self, group: Group) -> Result<(), Stop> {
        if self.table(group.table).deployed.is_own(group.change) {
            return match self.table(group.table).deployed.detection(group.change) {
                Some(detection) => self.compared(group, detection),
                None => self.own(group),
            };
        }
        let Group { table, change, rows } = group;
        let event = event_of(change);
        let mut unmatched = Vec::new();
        let mut looked = false;
        let mut stack = vec![rows];
        while let Some(rows) = stack.pop() {
            if rows.is_empty() {
                continue;
            }
            let ran = self.run(table, change, event, &rows)?;
            match ran {
                Ran::Affected(count) if count >= rows.len() as u64 => {
                    self.keep();
                    self.echo(table, change, &rows)?;
                    continue;
                }
                Ran::Affected(0) if change != Change::Insert || rows.len() == 1 => {
                    self.undo();
                    unmatched.extend(rows);
                    continue;
                }
                Ran::Fault(fault) if rows.len() == 1 => {
                    self.undo();
                    self.blame(table, change, rows, fault, &mut unmatched)?;
                    continue;
                }
                Ran::Affected(_) | Ran::Fault(_) => self.undo(),
            }
            if !looked {
                looked = true;
                let (likely, unlikely, _) = self.look(table, change, rows)?;
                match likely.is_empty() || unlikely.is_empty() {
                    true => halve(if likely.is_empty() { unlikely } else { likely }, &mut stack),
                    false => stack.extend([unlikely, likely]),
                }
            } else {
                halve(rows, &mut stack);
            }
        }
        match unmatched.is_empty() {
            true => Ok(()),
            false => conflict::resolve(self, Group { table, change, rows: unmatched }),
        }
    }

    /// Parts rows that will probably find what they expect from those that will not; beside them
    /// is what is there.
    pub(in crate::postgres) fn look(
        &mut self,
        table: usize,
        change: Change,
        rows: Rows,
    ) -> Result<(Rows, Rows, Images), Stop> {
        let now = self.fetch(table, change, &rows)?;
        let (mut likely, mut unlikely) = (Vec::new(), Vec::new());
        for bytes in rows {
            let row = self.read(table, change, &bytes)?;
            let found = now.get(&row.key(&self.table(table).deployed.published, table).1);
            let expected = match change {
                Change::Insert => found.is_none(),
                Change::Update | Change::Delete => match found {
                    Some(image) => row.is_as_seen(image)?,
                    None => false,
                },
            };
            if expected { likely.push(bytes) } else { unlikely.push(bytes) }
        }
        Ok((likely, unlikely, now))
    }

    /// Decides what is to become of the one row that failed.
    fn blame(
        &mut self,
        table: usize,
        change: Change,
        mut rows: Rows,
        fault: RowFault,
        unmatched: &mut Rows,
    ) -> Result<(), Stop> {
        match fault {
            RowFault::NotUnique(_)
                if change == Change::Insert && !self.present(table, change, &rows)?.is_empty() =>
            {
                unmatched.append(&mut rows);
            }
            RowFault::Refused(reason) => {
                for row in rows {
                    self.reject(table, change, &row, reason.clone())?;
                }
            }
            blocked => {
                let reason = blocked.into_reason();
                for row in rows {
                    self.park(table, change, &row, reason.clone())?;
                }
            }
        }
        Ok(())
    }
}
