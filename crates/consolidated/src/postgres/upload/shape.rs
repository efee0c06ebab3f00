//! The contents of an upload, and the order in which its rows are applied.

use crate::postgres::deploy::key_spelling::KeySpelling;
use crate::postgres::upload::key_order;
use crate::postgres::upload::stop::Stop;
use crate::postgres::upload::work::Upload;
use crate::synchronization::Applied;
use crate::synchronization::change::Change;
use crate::upload::uploaded_row::UploadedRow;
use model::Failure;
use std::collections::BTreeSet;
use std::ops::ControlFlow::{self, Break, Continue};

/// What an upload consists of.
#[derive(Default)]
pub(in crate::postgres) struct UploadShape {
    inserts: u64,
    updates: u64,
    deletes: u64,
    /// Tables and what is written there, parents first.
    written: BTreeSet<(usize, Turn)>,
    /// Whether they were sent in this order.
    in_order: bool,
    deleted: BTreeSet<usize>,
}

/// When the rows of a table have their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Inserts,
    Updates,
}

impl Turn {
    fn of(change: Change) -> Option<Turn> {
        match change {
            Change::Insert => Some(Turn::Inserts),
            Change::Update => Some(Turn::Updates),
            Change::Delete => None,
        }
    }
}

impl UploadShape {
    pub(in crate::postgres) fn of(upload: Upload<'_>) -> Result<UploadShape, Failure> {
        let mut outline = UploadShape { in_order: true, ..UploadShape::default() };
        let mut last = (0, Turn::Inserts);
        (upload.request.batches)(&mut |batch| {
            let count = u64::from(batch.count);
            let Some(turn) = Turn::of(batch.change) else {
                outline.deletes += count;
                outline.deleted.insert(batch.table);
                return Ok(());
            };
            match turn {
                Turn::Inserts => outline.inserts += count,
                Turn::Updates => outline.updates += count,
            }
            let place = (batch.table, turn);
            outline.in_order &= last <= place;
            last = place;
            outline.written.insert(place);
            Ok(())
        })?;
        Ok(outline)
    }

    /// The tables with rows that deletes of the upload may take along, or change unseen
    /// (`isolation/taken_along.rs`).
    pub(in crate::postgres) fn endangered(&self, upload: Upload<'_>) -> BTreeSet<usize> {
        let deployed = |table: usize| &upload.tables[table].deployed;
        let takes = |child: usize, parent: usize| {
            deployed(child).details.takers.contains(&deployed(parent).published.name)
        };
        let written = self.written.iter().map(|(table, _)| *table);
        written.filter(|child| self.deleted.iter().any(|parent| takes(*child, *parent))).collect()
    }

    /// Whether actions of foreign keys may follow its deletes.
    pub(in crate::postgres) fn deletes_act(&self, upload: Upload<'_>) -> bool {
        self.deleted.iter().any(|table| upload.tables[*table].deployed.details.deletes_act)
    }

    /// Whether the rows are not to be tried together: some may take others along, or the database
    /// knows alone how keys are spelled (`key_spelling.rs`).
    pub(in crate::postgres) fn needs_care(&self, upload: Upload<'_>) -> bool {
        let spelling = |table: usize| upload.tables[table].deployed.details.spelling.as_ref();
        !self.endangered(upload).is_empty()
            || self.tables().into_iter().filter_map(spelling).any(KeySpelling::is_asked)
    }

    /// Whether all rows are of one table, with the same change.
    pub(in crate::postgres) fn is_of_one_kind(&self) -> bool {
        self.written.len() + self.deleted.len() == 1
    }

    /// The tables with updates.
    pub(in crate::postgres) fn updated(&self) -> impl Iterator<Item = usize> + '_ {
        let updates = self.written.iter().filter(|(_, turn)| *turn == Turn::Updates);
        updates.map(|(table, _)| *table)
    }

    pub(in crate::postgres) fn rows(&self) -> u64 {
        self.inserts + self.updates + self.deletes
    }

    /// The tables with rows.
    pub(in crate::postgres) fn tables(&self) -> BTreeSet<usize> {
        self.written.iter().map(|(table, _)| *table).chain(self.deleted.iter().copied()).collect()
    }

    pub(in crate::postgres) fn count(&self, applied: &mut Applied) {
        applied.inserts = self.inserts;
        applied.updates = self.updates;
        applied.deletes = self.deletes;
    }

    /// Shows every row in the order in which rows are applied: what is written, parents first,
    /// then deletes, children first, or RESTRICT would stop the parent's.
    pub(in crate::postgres) fn visit(
        &self,
        upload: Upload<'_>,
        each: Each<'_>,
    ) -> Result<(), Stop> {
        self.visit_while(upload, &mut |table, row| each(table, row).map(Continue)).map(|_| ())
    }

    /// The same, until `each` breaks.
    pub(in crate::postgres) fn visit_while(&self, upload: Upload<'_>, each: EachWhile<'_>) -> Flow {
        if self.written_while(upload, each)?.is_break() {
            return Ok(Break(()));
        }
        for table in self.deleted.iter().rev() {
            let wanted = |at: usize, change: Change| at == *table && change == Change::Delete;
            if pass(upload, each, &wanted)?.is_break() {
                return Ok(Break(()));
            }
        }
        Ok(Continue(()))
    }

    fn written_while(&self, upload: Upload<'_>, each: EachWhile<'_>) -> Flow {
        if self.in_order && !self.written.is_empty() {
            return pass(upload, each, &|_, change| change != Change::Delete);
        }
        for place in &self.written {
            let wanted = |at: usize, change: Change| {
                Turn::of(change).is_some_and(|turn| (at, turn) == *place)
            };
            if pass(upload, each, &wanted)?.is_break() {
                return Ok(Break(()));
            }
        }
        Ok(Continue(()))
    }

    /// Shows what is written alone.
    pub(in crate::postgres) fn visit_written(
        &self,
        upload: Upload<'_>,
        each: Each<'_>,
    ) -> Result<(), Stop> {
        self.written_while(upload, &mut |table, row| each(table, row).map(Continue)).map(|_| ())
    }

    /// Shows the deletes alone, children first.
    pub(in crate::postgres) fn visit_deletes(
        &self,
        upload: Upload<'_>,
        each: Each<'_>,
    ) -> Result<(), Stop> {
        for table in self.deleted.iter().rev() {
            pass_all(upload, each, &|at, change| at == *table && change == Change::Delete)?;
        }
        Ok(())
    }
}

/// Takes a row of the table at a position.
type Each<'e> = &'e mut dyn FnMut(usize, &UploadedRow<'_>) -> Result<(), Stop>;

/// The same, and says whether it wants more.
type EachWhile<'e> = &'e mut dyn FnMut(usize, &UploadedRow<'_>) -> Flow;

/// Whether all rows were shown.
type Flow = Result<ControlFlow<()>, Stop>;

fn pass_all(
    upload: Upload<'_>,
    each: Each<'_>,
    wanted: &dyn Fn(usize, Change) -> bool,
) -> Result<(), Stop> {
    pass(upload, &mut |table, row| each(table, row).map(Continue), wanted).map(|_| ())
}

fn pass(upload: Upload<'_>, each: EachWhile<'_>, wanted: &dyn Fn(usize, Change) -> bool) -> Flow {
    let mut flow = Ok(Continue(()));
    (upload.request.batches)(&mut |batch| {
        // What is left is passed over.
        if !matches!(flow, Ok(Continue(()))) || !wanted(batch.table, batch.change) {
            return Ok(());
        }
        let published = &upload.tables[batch.table].deployed.published;
        let sorted = key_order::sorted(&batch, published)?;
        let mut row = UploadedRow::default();
        let mut rest = batch.rows;
        for at in 0..batch.count as usize {
            rest = row.read(
                sorted.as_ref().map_or(rest, |rows| rows[at]),
                batch.change,
                published.width(),
            )?;
            upload.pulse.pass_row()?;
            flow = each(batch.table, &row);
            if !matches!(flow, Ok(Continue(()))) {
                break;
            }
        }
        Ok(())
    })?;
    flow
}
