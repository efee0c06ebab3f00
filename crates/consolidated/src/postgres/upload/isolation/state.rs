//! The state of an upload whose faults are isolated.
//!
//! Each of its statements runs in a savepoint, which is kept or undone.

use crate::postgres::catalog::table::Table;
use crate::postgres::errors::script_failed;
use crate::postgres::link::{Answer, Call, Link};
use crate::postgres::upload::batch::{self, Batch, Part, Reason};
use crate::postgres::upload::record::UploadRecord;
use crate::postgres::upload::row_fault::{RowFault, log_detail, may_collide, row_fault};
use crate::postgres::upload::stop::{Stop, stopped};
use crate::postgres::upload::work::Upload;
use crate::script::Event;
use crate::script::around::RowCues;
use crate::synchronization::change::Change;
use crate::upload::row_map::RowMap;
use crate::upload::uploaded_row::{UploadedRow, event_of};
use crate::upload::waiting::WaitingRows;
use model::Failure;
use std::collections::{HashMap, HashSet};

/// What became of a set of rows.
pub(in crate::postgres) enum Ran {
    /// Rows that the script changed.
    Affected(u64),
    Fault(RowFault),
}

/// An upload under way.
pub(in crate::postgres) struct Isolation<'l, 'a> {
    pub(in crate::postgres) link: &'l mut Link,
    pub(in crate::postgres) upload: Upload<'a>,
    /// Rows as they were sent, by what they were rebased to.
    pub(in crate::postgres) originals: RowMap,
    pub(in crate::postgres) record: UploadRecord,
    pub(in crate::postgres) waiting_rows: WaitingRows,
    /// Statements that must be sent before the next one.
    pub(super) before: &'static str,
    /// Rows that leave the partition, as they may: applied when all others are, so that these
    /// do not lose their parent before.
    pub(super) leaving: WaitingRows,
    /// The statements that were run.
    prepared: HashSet<String>,
    /// Rows whose errors were logged with what no remote may see.
    details_logged: u32,
    /// What may keep rows out of a table without a word.
    pub(in crate::postgres) silent: HashMap<usize, Vec<&'static str>>,
    /// Whether policies may hide rows of a table.
    pub(super) policies: HashMap<usize, bool>,
    pub(super) cues: RowCues<'a>,
}

pub(super) const UNDO: &str = "ROLLBACK TO SAVEPOINT isolated; RELEASE SAVEPOINT isolated;";

const KEEP: &str = "RELEASE SAVEPOINT isolated;";

/// Most rows of an upload whose errors are logged in full: they are kept with their content anyway.
const DETAILS_MAX: u32 = 10;

impl<'l, 'a> Isolation<'l, 'a> {
    pub(in crate::postgres) fn new(link: &'l mut Link, upload: Upload<'a>) -> Isolation<'l, 'a> {
        Isolation {
            link,
            upload,
            originals: RowMap::within(upload.spills),
            record: UploadRecord::within(upload.spills),
            waiting_rows: WaitingRows::within(upload.spills),
            before: "",
            leaving: WaitingRows::within(upload.spills),
            prepared: HashSet::new(),
            details_logged: 0,
            silent: HashMap::new(),
            policies: HashMap::new(),
            cues: RowCues::new(upload.scripts, upload.request.session),
        }
    }

    pub(in crate::postgres) fn table(&self, position: usize) -> &'a Table {
        &self.upload.tables[position]
    }

    /// Writes conflicts that are too many to be kept until the end.
    pub(in crate::postgres) fn write_conflicts(&mut self) -> Result<(), Stop> {
        if !self.record.has_many_conflicts() {
            return Ok(());
        }
        self.flush()?;
        self.record.write_conflicts(self.link, self.upload)
    }

    /// Runs the script of `event` for `rows` inside a savepoint, which [`Isolation::keep`] or
    /// [`Isolation::undo`] ends.
    pub(in crate::postgres) fn run(
        &mut self,
        table: usize,
        change: Change,
        event: Event,
        rows: &[Vec<u8>],
    ) -> Result<Ran, Stop> {
        let this = self.table(table);
        let batches = match event == event_of(change) {
            true => batch::applying(this, self.upload, change, rows)?,
            false => batch::batches(this, this.required(event)?, self.upload, change, rows)?,
        };
        self.send((table, event), &batches, rows.len() == 1)
    }

    /// Sends the batches of a statement inside a savepoint, for one row or for several.
    pub(super) fn send(
        &mut self,
        (table, event): (usize, Event),
        batches: &[Batch<'_>],
        is_one: bool,
    ) -> Result<Ran, Stop> {
        let parts: Vec<_> = batches.iter().flat_map(Batch::parts).collect();
        let calls: Vec<_> = parts.iter().map(Part::call).collect();
        Ok(match self.fly((table, event), &calls, is_one)? {
            Ok(answers) => Ran::Affected(answers.iter().map(|answer| answer.affected).sum()),
            Err(fault) => Ran::Fault(fault),
        })
    }

    /// Sends the calls of a script inside a savepoint, for one row or for several.
    pub(super) fn fly(
        &mut self,
        (table, event): (usize, Event),
        script: &[Call<'_>],
        is_one: bool,
    ) -> Result<Result<Vec<Answer>, RowFault>, Stop> {
        // A statement is prepared before the flight. A failed transaction that is undone within the
        // flight would refuse it.
        let mut is_new = false;
        for call in script {
            if let Call::Prepared { sql, .. } = call
                && !self.prepared.contains(*sql)
            {
                is_new |= self.prepared.insert((*sql).to_owned());
            }
        }
        if is_new && self.before == UNDO {
            self.flush()?;
        }
        let begin = format!("{} SAVEPOINT isolated", std::mem::take(&mut self.before));
        let mut calls = vec![Call::Simple(&begin)];
        calls.extend_from_slice(script);
        match self.link.flight(&calls) {
            Ok(mut answers) => Ok(Ok(answers.split_off(1))),
            Err(fault) => match row_fault(&fault) {
                Some(row_fault) => {
                    if is_one && self.details_logged < DETAILS_MAX {
                        let name = &self.table(table).deployed.published.name;
                        self.details_logged += u32::from(log_detail(&fault, name));
                    }
                    Ok(Err(row_fault))
                }
                None if may_collide(&fault) => Err(stopped("apply rows one by one")(fault)),
                None => {
                    let name = &self.table(table).deployed.published.name;
                    Err(script_failed(name, event.name())(fault).into())
                }
            },
        }
    }

    pub(in crate::postgres) fn keep(&mut self) {
        self.before = KEEP;
    }

    pub(in crate::postgres) fn undo(&mut self) {
        self.before = UNDO;
    }

    /// Sends what is still to be sent.
    pub(in crate::postgres) fn flush(&mut self) -> Result<(), Stop> {
        match std::mem::take(&mut self.before) {
            "" => Ok(()),
            sql => self.link.batch(sql).map_err(stopped("end a savepoint")),
        }
    }

    pub(in crate::postgres) fn read<'r>(
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
    pub(super) fn misfit(
        &self,
        table: usize,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Reason>, Failure> {
        let this = self.table(table);
        match (&this.wide, &this.deployed.whole) {
            (Some(wide), Some(whole)) if this.deployed.is_own(row.change) => {
                self.misfit_of(&wide.table, &whole.read(&whole.widen(row, None)?)?)
            }
            _ => self.misfit_of(this, row),
        }
    }

    /// The same of a row of `table`.
    pub(super) fn misfit_of(
        &self,
        table: &Table,
        row: &UploadedRow<'_>,
    ) -> Result<Option<Reason>, Failure> {
        let statement = table.required(event_of(row.change))?;
        Ok(Batch::new(table, statement, self.upload.request.session).add(row).err())
    }
}
