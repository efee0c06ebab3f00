//! The contents of an upload, and the order in which its rows are applied.

use crate::postgres::catalog::table::Table;
use crate::postgres::deploy::key_spelling::KeySpelling;
use crate::postgres::upload::stop::Stop;
use crate::postgres::upload::work::Upload;
use crate::postgres::values::respelled::respelled;
use crate::synchronization::change::Change;
use crate::synchronization::{Applied, Held};
use crate::upload::uploaded_row::{UploadedRow, each_batch};
use model::Failure;
use std::collections::BTreeSet;

/// What an upload consists of.
#[derive(Default)]
pub(in crate::postgres) struct UploadShape {
    inserts: u64,
    updates: u64,
    deletes: u64,
    /// Rows for which there is nothing to do. They belong to none of the others.
    ignored: u64,
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

    fn change(self) -> Change {
        match self {
            Turn::Inserts => Change::Insert,
            Turn::Updates => Change::Update,
        }
    }
}

impl UploadShape {
    pub(in crate::postgres) fn of(upload: Upload<'_>) -> Result<UploadShape, Failure> {
        let mut outline = UploadShape { in_order: true, ..UploadShape::default() };
        let mut last = (0, Turn::Inserts);
        (upload.request.batches)(&mut |batch| {
            let count = u64::from(batch.count);
            if upload.tables[batch.table].deployed.ignores(batch.change) {
                outline.ignored += count;
                return Ok(());
            }
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
    /// (`isolation/taken_along.rs`). Where a user's script has put its rows is not known.
    pub(in crate::postgres) fn endangered(&self, upload: Upload<'_>) -> BTreeSet<usize> {
        let deployed = |table: usize| &upload.tables[table].deployed;
        let takes = |child: usize, parent: usize| {
            deployed(child).details.takers.contains(&deployed(parent).published.name)
        };
        let generated =
            |(table, turn): &&(usize, Turn)| !upload.tables[*table].deployed.is_own(turn.change());
        let written = self.written.iter().filter(generated).map(|(table, _)| *table);
        written.filter(|child| self.deleted.iter().any(|parent| takes(*child, *parent))).collect()
    }

    /// Whether actions of foreign keys may follow its deletes.
    pub(in crate::postgres) fn deletes_act(&self, upload: Upload<'_>) -> bool {
        self.deleted.iter().any(|table| upload.tables[*table].deployed.details.deletes_act)
    }

    /// Whether the rows are not to be tried together: some may take others along, the database
    /// knows alone how keys are spelled (`key_spelling.rs`), or a user's script needs what the
    /// center has of them, or finds conflicts.
    pub(in crate::postgres) fn needs_care(&self, upload: Upload<'_>) -> bool {
        let spelling = |table: usize| upload.tables[table].deployed.details.spelling.as_ref();
        self.is_compared(upload)
            || !self.endangered(upload).is_empty()
            || self.tables().into_iter().any(|table| upload.tables[table].wide.is_some())
            || self.tables().into_iter().filter_map(spelling).any(KeySpelling::is_asked)
    }

    /// Whether scripts of the user's find and resolve conflicts of some rows.
    fn is_compared(&self, upload: Upload<'_>) -> bool {
        let detects = |table: usize, change| upload.tables[table].deployed.detection(change);
        let mut written = self.written.iter();
        let mut deleted = self.deleted.iter();
        written.any(|(table, turn)| detects(*table, turn.change()).is_some())
            || deleted.any(|table| detects(*table, Change::Delete).is_some())
    }

    /// Whether all rows are of one table, with the same change.
    pub(in crate::postgres) fn is_of_one_kind(&self) -> bool {
        self.written.len() + self.deleted.len() == 1
    }

    /// Whether rows that an upload falls short by can be looked for, as far as is known beforehand.
    pub(in crate::postgres) fn can_be_sought(&self, upload: Upload<'_>) -> bool {
        let table = |at: usize| -> &Table { &upload.tables[at] };
        let leaves = |(at, turn): &(usize, Turn)| {
            *turn == Turn::Updates && table(*at).deployed.details.may_leave
        };
        // Where a user's script falls short is not sought, and that does not concern the others.
        let sought = |at: usize| table(at).seeker.is_some() || table(at).deployed.has_own_uploads();
        !matches!(upload.request.session.held, Held::Older(_))
            && self.tables().into_iter().all(sought)
            && (self.is_of_one_kind() || !self.written.iter().any(leaves))
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
        applied.ignored = self.ignored;
    }

    /// Shows every row that is not ignored, in the order in which rows are applied: what is
    /// written, parents first, then deletes, children first, or RESTRICT would stop the parent's.
    pub(in crate::postgres) fn visit(
        &self,
        upload: Upload<'_>,
        each: Each<'_>,
    ) -> Result<(), Stop> {
        if self.in_order && !self.written.is_empty() {
            pass(upload, each, &|_, change| change != Change::Delete)?;
        } else {
            for place in &self.written {
                pass(upload, each, &|at, change| {
                    Turn::of(change).is_some_and(|turn| (at, turn) == *place)
                })?;
            }
        }
        for table in self.deleted.iter().rev() {
            pass(upload, each, &|at, change| at == *table && change == Change::Delete)?;
        }
        Ok(())
    }
}

/// Takes a row of the table at a position.
type Each<'e> = &'e mut dyn FnMut(usize, &UploadedRow<'_>) -> Result<(), Stop>;

/// Shows the rows of the batches that are `wanted`, in the notation of the center.
fn pass(
    upload: Upload<'_>,
    each: Each<'_>,
    wanted: &dyn Fn(usize, Change) -> bool,
) -> Result<(), Stop> {
    each_batch(upload.request.batches, |batch| {
        let ignored = upload.tables[batch.table].deployed.ignores(batch.change);
        if ignored || !wanted(batch.table, batch.change) {
            return Ok(());
        }
        let deployed = &upload.tables[batch.table].deployed;
        let (width, key) = (deployed.published.width(), &deployed.published.key);
        let images = if batch.change == Change::Update { 2 } else { 1 };
        let count = (batch.count, images);
        let respelled = respelled(&deployed.details.columns, key, batch.rows, count)?;
        let rows = respelled.as_deref().unwrap_or(batch.rows);
        let (mut row, mut rest) = (UploadedRow::default(), rows);
        for _ in 0..batch.count {
            rest = row.read(rest, batch.change, width)?;
            upload.pulse.pass_row()?;
            each(batch.table, &row)?;
        }
        Ok(())
    })
}
