//! Applies an upload in which a statement falls short, and finds the rows at fault.
//!
//! A batch that fails is undone and halved until one row is left. Rows that may only block each
//! other wait until all others are applied (`knot.rs`). Rows that did not find what they expected
//! are resolved together (`conflict.rs`).

use super::batch::{self, Batch, Reason};
use super::catalog::Table;
use super::conflict;
use super::detached;
use super::errors::script_failed;
use super::followers;
use super::image::old_image;
use super::key_change::{self, Marks};
use super::knot;
use super::ledger::Ledger;
use super::link::{Call, Link};
use super::links::Links;
use super::moved::{self, Moves};
use super::outline::Outline;
use super::parked::{GROUP_BYTES, ParkedRows};
use super::reached;
use super::row_fault::{RowFault, log_detail, may_collide, row_fault};
use super::spelling;
use super::statement::Statement;
use super::taken_along;
use super::upload::{Stop, Upload, stopped};
use crate::owed_rows::OwedRows;
use crate::reach::{By, Reached};
use crate::script::Event;
use crate::synchronization::Change;
use crate::uploaded_row::{RowId, UploadedRow, event_of};
use model::{Code, Failure};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most rows of an upload whose errors are logged in full: they are kept with their content anyway.
const DETAILS_MAX: u32 = 10;

/// Errors are to be met by the statement that makes them, so that a row can be blamed.
const BEGIN: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// Uploaded rows, as they came.
pub(super) type Rows = Vec<Vec<u8>>;

/// Rows at the centre, by key.
pub(super) type Images = HashMap<Vec<u8>, Vec<u8>>;

/// Uploaded rows of one table with one change.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) table: usize,
    pub(super) change: Change,
    pub(super) rows: Rows,
}

/// What became of a set of rows.
pub(super) enum Ran {
    /// Rows that the script changed.
    Affected(u64),
    Fault(RowFault),
}

/// Applies all rows and returns the records about them. Returns none if keys were changed in the
/// meantime: then everything must be undone and applied again. The rows of `refused` are left out.
pub(super) fn apply(
    link: &mut Link,
    upload: Upload<'_>,
    outline: &Outline,
    refused: &OwedRows,
) -> Result<Option<Ledger>, Stop> {
    let links = Links::read(link, upload.tables)?;
    let moves = Moves::of(link, upload, outline)?;
    let mut careful = Careful::new(link, upload, links, moves);
    careful.link.batch(BEGIN).map_err(stopped("check constraints at once"))?;
    careful.name_rows(outline)?;
    careful.look_for_staying_rows(outline)?;
    let refusal = |table: usize, row: &UploadedRow<'_>| match refused.is_empty() {
        true => Ok(None),
        false => refused.reason(&row.key(&upload.tables[table].deployed.published, table)),
    };
    let freeing = match outline.has_key_changes {
        true => key_change::freeing(&careful, outline)?,
        false => Marks::new(),
    };
    let frees = |table: usize, row: &UploadedRow<'_>| {
        let published = &upload.tables[table].deployed.published;
        row.change == Change::Delete
            && freeing.contains(&key_change::mark(table, &row.key(published, table).1))
    };
    let mut gathered = Gathered::default();
    if !freeing.is_empty() {
        let taking = followers::taking(&mut careful, outline)?;
        outline.visit_deletes(upload, &mut |table, row| {
            let key = row.key(&upload.tables[table].deployed.published, table).1;
            match frees(table, row) {
                true if taking.contains(&key_change::mark(table, &key)) => {
                    Ok(careful.reject(table, row.change, row.bytes, followers::reason())?)
                }
                true => careful.take(&mut gathered, table, row, refusal(table, row)?),
                false => Ok(()),
            }
        })?;
        careful.end(&mut gathered)?;
    }
    outline.visit_written(upload, &mut |table, row| {
        careful.take(&mut gathered, table, row, refusal(table, row)?)
    })?;
    careful.end(&mut gathered)?;
    let apart = detached::detach(&mut careful)?;
    outline.visit_deletes(
        upload,
        &mut |table, row| match !freeing.is_empty() && frees(table, row) {
            true => Ok(()),
            false => careful.take(&mut gathered, table, row, refusal(table, row)?),
        },
    )?;
    careful.end(&mut gathered)?;
    for group in std::mem::take(&mut careful.leaving) {
        careful.group(group)?;
    }
    careful.settle_parked()?;
    detached::attach(&mut careful, apart)?;
    taken_along::reject(&mut careful, outline)?;
    if !moved::settle(&mut careful)? {
        return Ok(None);
    }
    careful.ledger.applied.reached = careful.reached.count();
    Ok(Some(careful.ledger))
}

/// By table, change and row as it was rebased: change and row as it was sent.
pub(super) type Originals = HashMap<(usize, Change, Vec<u8>), (Change, Vec<u8>)>;

/// Rows that have not been applied yet, of one table with one change.
#[derive(Default)]
struct Gathered {
    group: Option<Group>,
    bytes: usize,
}

/// An upload under way.
pub(super) struct Careful<'l, 'a> {
    pub(super) link: &'l mut Link,
    pub(super) upload: Upload<'a>,
    pub(super) links: Links,
    pub(super) moves: Moves,
    /// Rows as they were sent, by what they were rebased to.
    pub(super) originals: Originals,
    pub(super) ledger: Ledger,
    pub(super) parked: ParkedRows,
    /// Statements that must be sent before the next one.
    before: &'static str,
    /// Asks which keys exist, by table.
    pub(super) present: HashMap<usize, Arc<Statement>>,
    /// Rows that leave the partition, as they may: applied when all others are, so that these
    /// do not lose their parent before.
    leaving: Vec<Group>,
    /// Rows that an upload tried to have in another spelling, in vain.
    pub(super) respelled: HashSet<RowId>,
    /// Rows that a rule has brought back under their new keys: other rows of the upload may have
    /// had these.
    pub(super) returned: HashSet<RowId>,
    /// The scripts that were run.
    prepared: HashSet<(usize, Event)>,
    /// Rows that deletes and key changes have reached, and those that the last script would.
    pub(super) reached: Reached<i64>,
    reaching: Option<(By, Vec<i64>)>,
    /// Rows whose errors were logged with what no remote may see.
    details_logged: u32,
    /// What may keep rows out of a table without a word.
    pub(super) silent: HashMap<usize, Vec<&'static str>>,
}

const UNDO: &str = "ROLLBACK TO SAVEPOINT careful; RELEASE SAVEPOINT careful;";
const KEEP: &str = "RELEASE SAVEPOINT careful;";

impl<'l, 'a> Careful<'l, 'a> {
    pub(super) fn new(
        link: &'l mut Link,
        upload: Upload<'a>,
        links: Links,
        moves: Moves,
    ) -> Careful<'l, 'a> {
        Careful {
            link,
            upload,
            links,
            moves,
            originals: HashMap::new(),
            ledger: Ledger::within(upload.spills),
            parked: ParkedRows::within(upload.spills),
            before: "",
            present: HashMap::new(),
            leaving: Vec::new(),
            respelled: HashSet::new(),
            returned: HashSet::new(),
            prepared: HashSet::new(),
            reached: Reached::default(),
            reaching: None,
            details_logged: 0,
            silent: HashMap::new(),
        }
    }

    pub(super) fn table(&self, position: usize) -> &'a Table {
        &self.upload.tables[position]
    }

    /// Looks which values rows of the upload leave and others take, where the remote says which
    /// rows stay.
    fn look_for_staying_rows(&mut self, outline: &Outline) -> Result<(), Stop> {
        let changes = outline.has_key_changes || outline.updated().next().is_some();
        if !changes || !self.upload.request.rows_stay {
            return Ok(());
        }
        let (upload, links) = (self.upload, &mut self.links);
        outline.visit_written(upload, &mut |table, row| {
            links.leaves(table, row);
            Ok(())
        })?;
        if !links.any_left() {
            return Ok(());
        }
        outline.visit_written(upload, &mut |table, row| {
            links.takes(table, row);
            Ok(())
        })
    }

    /// Adds a row to those that are applied together, and applies them when they are enough.
    fn take(
        &mut self,
        gathered: &mut Gathered,
        table: usize,
        row: &UploadedRow<'_>,
        refusal: Option<Reason>,
    ) -> Result<(), Stop> {
        let same = gathered.group.as_ref().is_some_and(|group| {
            (group.table, group.change) == (table, row.change) && gathered.bytes < GROUP_BYTES
        });
        if !same {
            self.next(gathered, Some((table, row.change)))?;
        }
        let refusal = match refusal {
            None => self.misfit(table, row)?,
            refusal => refusal,
        };
        if let Some(reason) = refusal {
            return Ok(self.reject(table, row.change, row.bytes, reason)?);
        }
        gathered.bytes += row.bytes.len();
        let (change, rows) = (row.change, Vec::new());
        let group = gathered.group.get_or_insert(Group { table, change, rows });
        group.rows.push(row.bytes.to_vec());
        Ok(())
    }

    /// Whether rows of `table` are still to leave.
    pub(super) fn leaves(&self, table: usize) -> bool {
        self.leaving.iter().any(|group| group.table == table && !group.rows.is_empty())
    }

    /// Applies the rows that were gathered last.
    fn end(&mut self, gathered: &mut Gathered) -> Result<(), Stop> {
        self.next(gathered, None)
    }

    fn next(&mut self, gathered: &mut Gathered, next: Option<(usize, Change)>) -> Result<(), Stop> {
        let Gathered { group, .. } = std::mem::take(gathered);
        let Some(group) = group else { return Ok(()) };
        let place = (group.table, group.change);
        self.unless_it_leaves(group)?;
        self.write_conflicts()?;
        match place.1 == Change::KeyChange && next != Some(place) {
            true => key_change::settle(self, place.0),
            false => Ok(()),
        }
    }

    /// Writes conflicts that are too many to be kept until the end.
    pub(super) fn write_conflicts(&mut self) -> Result<(), Stop> {
        if !self.ledger.has_many_conflicts() {
            return Ok(());
        }
        self.flush()?;
        self.ledger.write_conflicts(self.link, self.upload)
    }

    /// Applies a group, and keeps the rows that leave for later.
    fn unless_it_leaves(&mut self, group: Group) -> Result<(), Stop> {
        let mut group = spelling::refuse_misspelled(self, group)?;
        moved::look(self, &group)?;
        let (table, change) = (group.table, group.change);
        let moves = matches!(change, Change::Update | Change::KeyChange);
        if moves && self.table(table).deployed.details.may_leave {
            let Some(inside) = self.inside(table, change, &group.rows)? else {
                return self.group(group);
            };
            let published = &self.table(table).deployed.published;
            let mut leaving = Vec::new();
            let mut staying = Vec::new();
            for bytes in group.rows {
                let key = self.read(table, change, &bytes)?.new_key(published, table).1;
                if inside.contains(&key) { &mut staying } else { &mut leaving }.push(bytes);
            }
            self.leaving.push(Group { table, change, rows: leaving });
            group.rows = staying;
        }
        self.group(group)
    }

    /// Applies a group, its rows rebased where key changes have been there before.
    pub(super) fn group(&mut self, group: Group) -> Result<(), Stop> {
        for group in self.told(group)? {
            self.apply(group)?;
        }
        Ok(())
    }

    /// Applies rows: all at once, or else in halves.
    pub(super) fn apply(&mut self, group: Group) -> Result<(), Stop> {
        let Group { table, change, mut rows } = group;
        if change == Change::KeyChange {
            rows = key_change::in_order(self, table, rows)?;
        }
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
                    for bytes in &rows {
                        self.moved(table, change, bytes)?;
                    }
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
    pub(super) fn look(
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
                Change::Update | Change::KeyChange | Change::Delete => {
                    found.is_some_and(|image| *image == old_image(&row))
                }
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
        let reason = match fault {
            RowFault::NotUnique(message) => {
                if change == Change::Insert && !self.present(table, change, &rows)?.is_empty() {
                    unmatched.append(&mut rows);
                    return Ok(());
                }
                let key_taken = match (change, rows.first()) {
                    (Change::KeyChange, Some(row)) => key_change::taken(self, table, row)?,
                    _ => None,
                };
                key_taken.unwrap_or((Code::RowNotUnique, message))
            }
            RowFault::References(message) => (Code::RowReferences, message),
            RowFault::Refused(reason) => {
                for bytes in &rows {
                    self.reject(table, change, bytes, reason.clone())?;
                }
                return Ok(());
            }
        };
        for row in rows {
            self.park(table, change, &row, reason.clone())?;
        }
        Ok(())
    }

    /// Tries the waiting rows again for as long as that helps.
    fn settle_parked(&mut self) -> Result<(), Stop> {
        loop {
            let waiting = self.parked.take();
            let before = waiting.len();
            if before == 0 {
                return Ok(());
            }
            let mut waiting = waiting.reader();
            while let Some(group) = waiting.next_group()? {
                self.group(group)?;
                self.write_conflicts()?;
            }
            if self.parked.len() >= before {
                break;
            }
        }
        knot::untie(self)
    }

    /// Runs the script of `event` for `rows` inside a savepoint, which [`Careful::keep`] or
    /// [`Careful::undo`] ends.
    pub(super) fn run(
        &mut self,
        table: usize,
        change: Change,
        event: Event,
        rows: &[Vec<u8>],
    ) -> Result<Ran, Stop> {
        let statement = self.table(table).required(event)?;
        let batches = self.batches(table, change, statement, rows)?;
        // A statement is prepared before the flight. A failed transaction that is undone within the
        // flight would refuse it.
        let questions = self.questions(table, event, rows)?;
        if (self.prepared.insert((table, event)) || !questions.is_empty()) && self.before == UNDO {
            self.flush()?;
        }
        let mut asking = Vec::new();
        for (query, rows) in &questions {
            asking.extend(self.batches(table, Change::Delete, query, rows)?);
        }
        let asked_values: Vec<_> = asking.iter().map(Batch::values).collect();
        let asked: Vec<_> = asked_values.iter().map(|v| batch::as_parameters(v)).collect();
        let begin = format!("{} SAVEPOINT careful", std::mem::take(&mut self.before));
        let values: Vec<_> = batches.iter().map(Batch::values).collect();
        let parameters: Vec<_> = values.iter().map(|values| batch::as_parameters(values)).collect();
        let mut calls = vec![Call::Simple(&begin)];
        reached::ask(&mut calls, asking.iter().zip(&asked).map(|(b, p)| batch::query(b, p)));
        let first = calls.len();
        calls.extend(batches.iter().zip(&parameters).map(|(batch, p)| batch::call(batch, p)));
        match self.link.flight(&calls) {
            Ok(answers) => {
                let found = reached::found_by(&answers[1..first])?;
                self.reaching = reached::by(event).map(|by| (by, found));
                Ok(Ran::Affected(answers[first..].iter().map(|answer| answer.affected).sum()))
            }
            Err(fault) => match row_fault(&fault) {
                Some(row_fault) => {
                    if rows.len() == 1 && self.details_logged < DETAILS_MAX {
                        let name = &self.table(table).deployed.published.name;
                        self.details_logged += u32::from(log_detail(&fault, name));
                    }
                    Ok(Ran::Fault(row_fault))
                }
                None if may_collide(&fault) => Err(stopped("apply rows one by one")(fault)),
                None => {
                    let name = &self.table(table).deployed.published.name;
                    Err(script_failed(name, event.name())(fault).into())
                }
            },
        }
    }

    pub(super) fn keep(&mut self) {
        self.before = KEEP;
        if let Some((by, marks)) = self.reaching.take() {
            self.reached.extend(by, marks);
        }
    }

    pub(super) fn undo(&mut self) {
        self.before = UNDO;
        self.reaching = None;
    }

    /// Whether the last script was run for rows that reach others.
    pub(super) fn is_reaching(&self) -> bool {
        self.reaching.as_ref().is_some_and(|(_, marks)| !marks.is_empty())
    }

    /// Sends what is still to be sent.
    pub(super) fn flush(&mut self) -> Result<(), Stop> {
        match std::mem::take(&mut self.before) {
            "" => Ok(()),
            sql => self.link.batch(sql).map_err(stopped("end a savepoint")),
        }
    }

    fn batches<'s>(
        &self,
        table: usize,
        change: Change,
        statement: &'s Statement,
        rows: &[Vec<u8>],
    ) -> Result<Vec<Batch<'s>>, Stop>
    where
        'a: 's,
    {
        batches(self.table(table), statement, self.upload, change, rows)
    }

    pub(super) fn read<'r>(
        &self,
        table: usize,
        change: Change,
        bytes: &'r [u8],
    ) -> Result<UploadedRow<'r>, Failure> {
        let mut row = UploadedRow::default();
        row.read(bytes, change, self.table(table).deployed.published.width())?;
        Ok(row)
    }

    /// Why no statement can take the row at all.
    fn misfit(&self, table: usize, row: &UploadedRow<'_>) -> Result<Option<Reason>, Failure> {
        let this = self.table(table);
        if let Some(reason) = batch::misspelled_key(this, row) {
            return Ok(Some(reason));
        }
        if row.change == Change::KeyChange && this.statement(Event::UploadKeyChange).is_none() {
            let message = "no script of the table changes keys".to_owned();
            return Ok(Some((Code::RowKeyFixed, message)));
        }
        let statement = this.required(event_of(row.change))?;
        Ok(Batch::new(this, statement, self.upload.request.session).add(row).err())
    }
}

pub(super) fn halve(mut rows: Rows, stack: &mut Vec<Rows>) {
    let second = rows.split_off(rows.len().div_ceil(2));
    stack.extend([second, rows]);
}

pub(super) fn batches<'a>(
    table: &'a Table,
    statement: &'a Statement,
    upload: Upload<'_>,
    change: Change,
    rows: &[Vec<u8>],
) -> Result<Vec<Batch<'a>>, Stop> {
    let new = || Batch::new(table, statement, upload.request.session);
    let mut batches: Vec<Batch<'a>> = Vec::new();
    for bytes in rows {
        let mut row = UploadedRow::default();
        row.read(bytes, change, table.deployed.published.width())?;
        if batches.last().is_none_or(Batch::is_full) {
            batches.push(new());
        }
        let Some(batch) = batches.last_mut() else { continue };
        // Rows that do not fit were rejected before.
        batch.add(&row).map_err(|(_, message)| Failure::new(Code::Bug, message))?;
    }
    batches.iter_mut().for_each(Batch::finish);
    Ok(batches)
}
