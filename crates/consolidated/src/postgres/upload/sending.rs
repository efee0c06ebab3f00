//! One attempt to apply all rows of an upload together, with one statement for each batch.
//!
//! The result shows whether it succeeded: whether a statement failed, and how many rows each
//! statement changed.

use crate::postgres::catalog::table::Table;
use crate::postgres::identity;
use crate::postgres::link::{Answer, Call, Link};
use crate::postgres::optimize::round_trip_proof;
use crate::postgres::statement::Statement;
use crate::postgres::upload::batch::{BATCH_BYTES, Batch, Numbers, Parcel, Part};
use crate::postgres::upload::fence::{self, Fence, Seen};
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::row_fault;
use crate::postgres::upload::shape::UploadShape;
use crate::postgres::upload::shortfall::missed::{self, Missed, Short};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::synchronization::change::Change;
use crate::upload::changed_columns::ChangedColumns;
use crate::upload::uploaded_row::UploadedRow;
use model::{Code, Failure};

/// Bytes of parameters that are sent before their answers are awaited. They are held twice, as
/// parameters and as messages; more of them save one wait for each of the largest batches.
const FLIGHT_BYTES: usize = 2 << 20;

/// Most sets of columns whose rows are gathered at the same time.
const PARTS_MAX: usize = 64;

/// In front of the lock and the first batch. Each is prepared, and so is all that shares their
/// flight: then it is answered as a whole, and who waits is woken once.
pub(in crate::postgres) const BEGIN: [&str; 2] = ["BEGIN", "SET CONSTRAINTS ALL DEFERRED"];

/// Position of the lock, after [`BEGIN`] and the lock on the deployment.
pub(in crate::postgres) const LOCK_AT: usize = BEGIN.len() + 1;

/// Position of the question for triggers that went, where no download asks it.
pub(in crate::postgres) const WATCH_AT: usize = LOCK_AT + 1;

/// The first statement in a transaction that has locked the remote.
pub(in crate::postgres) const BEGIN_AGAIN: &str =
    "SET CONSTRAINTS ALL DEFERRED; SAVEPOINT fast_path";

/// Behind the last batch: what remains is to be noticed here, where it can still be undone, and
/// not at the commit.
const END: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// Statements before the first batch.
#[derive(Clone, Copy)]
pub(in crate::postgres) enum Opening<'o> {
    /// Begins a transaction and locks the remote.
    Transaction(&'o [Call<'o>]),
    /// A savepoint of a transaction that is open.
    Savepoint,
    /// It was sent.
    Sent,
}

/// What became of a try.
pub(in crate::postgres) enum Sent {
    /// Every row was applied, or rejected before it was sent, but for these.
    But(Missed),
    /// All is to be undone.
    Failed {
        /// A value that must be unique is there already, perhaps a key.
        not_unique: bool,
    },
}

/// One try at applying all rows with one statement for each batch.
pub(in crate::postgres) struct Sending<'l, 'a> {
    link: &'l mut Link,
    upload: Upload<'a>,
    opening: Opening<'l>,
    /// What the lock found, where it was part of the opening.
    pub(in crate::postgres) locked: Option<Answer>,
    /// Triggers that are not as they were deployed, where that was asked.
    pub(in crate::postgres) watched: Option<Answer>,
    /// Complete batches, and the one that is being filled.
    ready: Vec<Parcel<'a>>,
    ready_bytes: usize,
    /// Of one table and change: one for every set of columns that its rows change.
    filling: Vec<Parcel<'a>>,
    /// Bytes of the rows in it.
    filling_bytes: usize,
    /// Columns that the last row changes.
    changed: ChangedColumns,
    /// The runs among them of rows that go through a user's script and must stay within the
    /// partition.
    fenced: Vec<FencedRun<'a>>,
    record: UploadRecord,
    failed: bool,
    not_unique: bool,
    /// Rows that were not applied are looked for; or else the first of them ends the try.
    seeks: bool,
    /// Rows of an upload of one kind: where one statement has them all, nothing else has changed
    /// what it met.
    alone: Option<u64>,
    /// The number of the next row.
    number: u64,
    /// Rows that are known to find another one in their place, and are not sent; the last first.
    aside: Vec<u64>,
    missed: Missed,
    /// Every row so far was applied as it was sent.
    verbatim: bool,
}

impl<'l, 'a> Sending<'l, 'a> {
    /// `aside`: the numbers of rows that are not to be sent.
    pub(in crate::postgres) fn new(
        link: &'l mut Link,
        upload: Upload<'a>,
        outline: &UploadShape,
        opening: Opening<'l>,
        mut aside: Vec<u64>,
    ) -> Sending<'l, 'a> {
        let verbatim = upload.request.download_follows;
        let mut record = UploadRecord::within(upload.spills);
        record.undigested = !verbatim || outline.rows() >= round_trip_proof::ROWS_MIN;
        let seeks = outline.can_be_sought(upload);
        aside.reverse();
        Sending {
            link,
            upload,
            opening,
            locked: None,
            watched: None,
            ready: Vec::new(),
            ready_bytes: 0,
            filling: Vec::new(),
            filling_bytes: 0,
            changed: ChangedColumns::default(),
            fenced: Vec::new(),
            record,
            failed: false,
            not_unique: false,
            seeks,
            alone: outline.is_of_one_kind().then(|| outline.rows()),
            number: 0,
            aside,
            missed: Missed::within(upload.spills),
            verbatim,
        }
    }

    pub(in crate::postgres) fn into_record(mut self, outline: &UploadShape) -> UploadRecord {
        (self.record.verbatim, self.record.written) = (self.verbatim, outline.tables());
        self.record
    }

    pub(in crate::postgres) fn rows(&mut self, outline: &UploadShape) -> Result<Sent, Stop> {
        let upload = self.upload;
        outline.visit(upload, &mut |table, row| match self.failed {
            // What is left is not sent.
            true => Ok(()),
            false => self.row(table, row),
        })?;
        if !self.failed {
            self.flush();
            self.send(true)?;
        }
        let none = Missed::within(self.upload.spills);
        let mut missed = std::mem::replace(&mut self.missed, none);
        // What a delete has taken along besides might have been among them.
        self.failed |= !missed.numbers.is_empty() && outline.deletes_act(upload);
        missed.numbers.sort_unstable();
        Ok(match self.failed {
            true => Sent::Failed { not_unique: self.not_unique },
            false => Sent::But(missed),
        })
    }

    fn row(&mut self, position: usize, row: &UploadedRow<'_>) -> Result<(), Stop> {
        let number = self.number;
        self.number += 1;
        if self.aside.last() == Some(&number) {
            let aside = self.aside.pop();
            self.failed |= !self.missed.extend(aside.as_slice());
            return Ok(());
        }
        let table: &'a Table = &self.upload.tables[position];
        table.look_at(row, &mut self.changed);
        let at = match self.filling.iter().position(|parcel| parcel.changed == self.changed) {
            Some(at) if self.takes(&self.filling[at], position, row.change) => at,
            known => {
                let goes_on = |parcel: &Parcel<'_>| self.takes(parcel, position, row.change);
                let room = known.is_none() && self.filling.len() < PARTS_MAX;
                if !(room && self.filling.iter().all(goes_on)) {
                    self.flush();
                    if self.ready_bytes > FLIGHT_BYTES {
                        self.send(false)?;
                    }
                }
                let parcel = self.parcel(position, row.change)?;
                self.filling.push(parcel);
                self.filling.len() - 1
            }
        };
        self.filling_bytes += row.bytes.len();
        let parcel = &mut self.filling[at];
        let published = &table.deployed.published;
        if let Err(reason) = parcel.batch.add(row) {
            let id = row.key(published, position);
            return Ok(self.record.reject((&id, row.change), reason)?);
        }
        parcel.numbers.push(number);
        if parcel.batch.statement.own.is_some()
            && let Some(Fence(look)) = &table.fence
        {
            self.look_at(position, look, row)?;
        }
        if !self.record.undigested {
            self.record.echo(published, position, row);
        }
        Ok(())
    }

    /// Adds a row of the parcel that is being filled to the run that is looked at.
    fn look_at(
        &mut self,
        position: usize,
        look: &'a Statement,
        row: &UploadedRow<'_>,
    ) -> Result<(), Failure> {
        let (kind, at) = ((position, row.change), self.ready.len());
        let goes_on = |run: &FencedRun<'_>| {
            run.kind == kind && run.last + 1 >= at && (run.last == at || !run.keys.is_full())
        };
        if !self.fenced.last().is_some_and(goes_on) {
            let table = &self.upload.tables[position];
            let keys = Batch::new(table, look, self.upload.request.session);
            self.fenced.push(FencedRun { kind, first: at, last: at, keys });
        }
        let Some(run) = self.fenced.last_mut() else { return Ok(()) };
        run.last = at;
        run.keys.add(row).map_err(|reason| Failure::new(Code::Bug, reason.message))
    }

    /// Whether another row goes on in this parcel, or beside it.
    fn takes(&self, parcel: &Parcel<'_>, position: usize, change: Change) -> bool {
        (parcel.table, parcel.change) == (position, change)
            && self.filling_bytes < BATCH_BYTES
            && !parcel.batch.is_full()
    }

    fn parcel(&self, position: usize, change: Change) -> Result<Parcel<'a>, Failure> {
        let (table, session) = (&self.upload.tables[position], self.upload.request.session);
        let mut batch = Batch::new(table, table.applying(change, &self.changed)?, session);
        batch.verbatim = table.verbatim().filter(|_| self.verbatim && self.record.undigested);
        let (changed, numbers) = (self.changed.clone(), Numbers::default());
        Ok(Parcel { table: position, change, changed, batch, numbers })
    }

    fn flush(&mut self) {
        self.filling_bytes = 0;
        for mut parcel in std::mem::take(&mut self.filling) {
            // A row that leaves the partition is sent back as a delete.
            let details = &self.upload.tables[parcel.table].deployed.details;
            let leaves = parcel.change == Change::Update && details.may_leave;
            self.verbatim &= parcel.batch.verbatim.is_some() && !leaves;
            parcel.batch.finish();
            if parcel.batch.rows > 0 {
                self.ready_bytes += parcel.batch.bytes();
                self.ready.push(parcel);
            }
        }
    }

    /// Sends what is ready and looks whether every row of it was applied.
    fn send(&mut self, last: bool) -> Result<(), Stop> {
        let ready = std::mem::take(&mut self.ready);
        self.ready_bytes = 0;
        let mut fenced = std::mem::take(&mut self.fenced);
        fenced.iter_mut().for_each(|run| run.keys.finish());
        let flown = flown(&ready, &fenced);
        let opening = std::mem::replace(&mut self.opening, Opening::Sent);
        let mut calls = match opening {
            Opening::Transaction(calls) => calls.to_vec(),
            Opening::Savepoint => vec![Call::Simple(BEGIN_AGAIN)],
            Opening::Sent => Vec::new(),
        };
        let first = calls.len();
        calls.extend(flown.iter().map(Flown::call));
        if last {
            calls.push(Call::new(END, &[]));
        }
        let begins = matches!(opening, Opening::Transaction(_));
        let flight = if begins { self.link.begin(&calls) } else { self.link.flight(&calls) };
        let mut answers = match flight {
            Ok(answers) => answers,
            Err(fault) if begins && fault.call < first => {
                return Err(identity::lock_failed(LOCK_AT)(fault).into());
            }
            Err(fault) if row_fault::may_be_a_row(&fault) => {
                (self.failed, self.not_unique) = (true, row_fault::is_not_unique(&fault));
                return Ok(());
            }
            Err(fault) => return Err(stopped("apply the upload")(fault)),
        };
        let short = self.judge(&flown, &mut answers[first..])?;
        self.failed |= !self.seeks && !short.is_empty();
        if begins {
            self.watched = (first > WATCH_AT).then(|| answers.swap_remove(WATCH_AT));
            self.locked = Some(answers.swap_remove(LOCK_AT));
        }
        if !short.is_empty() && !self.failed {
            self.missed.fell_short = true;
            match missed::find(self.link, self.upload, &short)? {
                Some(numbers) => self.failed |= !self.missed.extend(&numbers),
                None => self.failed = true,
            }
        }
        Ok(())
    }

    /// What generated scripts fell short by. Where it is a user's that did, or that left the
    /// partition, the try has failed.
    fn judge<'p>(
        &mut self,
        flown: &[Flown<'p, 'a>],
        answers: &mut [Answer],
    ) -> Result<Vec<Short<'p, 'a>>, Failure> {
        let (mut short, mut before) = (Vec::new(), Seen::default());
        for (flown, answer) in flown.iter().zip(answers) {
            let affected = answer.affected;
            match &flown.about {
                About::Rows(parcel) if parcel.batch.statement.own.is_some() => {
                    self.failed |= parcel.batch.is_short_by(affected);
                }
                About::Rows(parcel) => {
                    self.verbatim &= affected <= parcel.numbers.len();
                    if parcel.batch.is_short_by(affected) {
                        let positions = std::mem::take(&mut answer.positions);
                        let alone = self.alone == Some(parcel.numbers.len());
                        short.push(Short { parcel, affected, positions, alone });
                    }
                }
                About::Following => {}
                About::Before => before = Seen::of(answer)?,
                About::After(run) => {
                    let (table, change) = run.kind;
                    let details = &self.upload.tables[table].deployed.details;
                    let may_leave = change == Change::Update && details.may_leave;
                    let (rows, seen) = (u64::from(run.keys.rows), (before, Seen::of(answer)?));
                    self.failed |= fence::breach(may_leave, rows, seen).is_some();
                }
            }
        }
        Ok(short)
    }
}

/// Consecutive parcels of rows that go through one user's script, with a look around them.
struct FencedRun<'a> {
    /// The table, and what happened to its rows.
    kind: (usize, Change),
    /// Positions of the first and the last parcel in a flight.
    first: usize,
    last: usize,
    /// The keys of the rows.
    keys: Batch<'a>,
}

/// A call of a flight with rows.
struct Flown<'p, 'a> {
    about: About<'p, 'a>,
    part: Part<'p>,
}

/// What it is about.
enum About<'p, 'a> {
    /// The statement that applies the rows, or the first of a user's script.
    Rows(&'p Parcel<'a>),
    /// Another statement of the script.
    Following,
    /// The look before a run.
    Before,
    /// The look after it.
    After(&'p FencedRun<'a>),
}

impl Flown<'_, '_> {
    fn call(&self) -> Call<'_> {
        match self.about {
            About::Rows(_) | About::Following => self.part.call(),
            About::Before | About::After(_) => self.part.asked(),
        }
    }
}

/// The calls of the parcels in their order, and the looks around the runs that are fenced.
fn flown<'p, 'a>(ready: &'p [Parcel<'a>], fenced: &'p [FencedRun<'a>]) -> Vec<Flown<'p, 'a>> {
    let mut flown = Vec::with_capacity(ready.len());
    let mut runs = fenced.iter().peekable();
    for (at, parcel) in ready.iter().enumerate() {
        if let Some(run) = runs.peek().filter(|run| run.first == at) {
            flown.extend(run.keys.parts().map(|part| Flown { about: About::Before, part }));
        }
        for (number, part) in parcel.batch.parts().enumerate() {
            let about = if number == 0 { About::Rows(parcel) } else { About::Following };
            flown.push(Flown { about, part });
        }
        if let Some(run) = runs.next_if(|run| run.last == at) {
            flown.extend(run.keys.parts().map(|part| Flown { about: About::After(run), part }));
        }
    }
    flown
}
