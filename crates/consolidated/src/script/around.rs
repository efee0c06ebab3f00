//! Runs the scripts around the rows of a synchronization, in the published order.
//!
//! A script runs for the whole version, or for a table. What it sets of `{u.…}` is known to all
//! that follow. One that fails ends the transaction in which it runs.

use super::called::Called;
use super::event::{Event, Phase};
use super::statistics::UploadedTables;
use super::told::{Told, ToldValues};
use super::{Mistake, Script, statistics, trace};
use crate::catalog::VersionScripts;
use crate::download::time::{Time, Times};
use crate::synchronization::change::{Change, RowSource, UploadedRows};
use crate::synchronization::counted::UnusualRows;
use crate::synchronization::sent::Sent;
use crate::synchronization::{Applied, Session, TableMark, UploadRequest};
use crate::upload::uploaded_row::{each_batch, event_of};
use model::{Code, Failure};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// How a backend runs a script that belongs to no row.
pub(crate) trait Calls {
    /// Runs all statements of a script, and returns the first row that any returned; or says what
    /// is wrong with it.
    fn call(
        &mut self,
        script: &Script,
        session: &Session,
        told: &ToldValues,
    ) -> Result<Result<Called, Mistake>, Failure>;

    /// The moment that a text says, as a script of this database writes it; none if it says none.
    fn moment(&mut self, text: &str) -> Result<Option<Time>, Failure>;
}

/// Runs the script of an event for a table, or for the version, where there is one.
pub(crate) fn run(
    calls: &mut dyn Calls,
    scripts: &VersionScripts,
    session: &Session,
    (event, table): (Event, Option<&str>),
    told: ToldValues,
) -> Result<Option<(Arc<Script>, Called)>, Failure> {
    let Some(script) = scripts.of(table, event) else { return Ok(None) };
    let told = told.with(Told::Table, table.map(str::to_owned));
    let began = trace::begin(session);
    let called = calls.call(script, session, &told)?.map_err(|mistake| {
        let failure =
            Failure::new(Code::ScriptFailed, scripts.told(session, (event, table), &mistake));
        match table {
            Some(table) => failure.table(table),
            None => failure,
        }
    })?;
    trace::ran(session, event, table, None, began);
    Ok(Some((script.clone(), called)))
}

/// The scripts around the rows of one synchronization.
pub(crate) struct Around {
    scripts: Arc<VersionScripts>,
    /// Knows what the scripts have set.
    pub(crate) session: Session,
    /// The tables of which there are rows in the upload.
    uploaded: UploadedTables,
    /// How often the upload was begun again, because other transactions were in its way.
    pub(crate) begun_again: u64,
}

impl Around {
    /// None where there are no such scripts.
    pub(crate) fn of(scripts: &Arc<VersionScripts>, session: &Session) -> Option<Around> {
        const PHASES: [Phase; 5] =
            [Phase::Connection, Phase::Begin, Phase::Upload, Phase::Prepare, Phase::End];
        Around::of_phases(&PHASES, scripts, session)
    }

    /// Those of the transaction of its download; none where there are no such scripts.
    pub(crate) fn of_download(scripts: &Arc<VersionScripts>, session: &Session) -> Option<Around> {
        Around::of_phases(&[Phase::Download], scripts, session)
    }

    fn of_phases(
        phases: &[Phase],
        scripts: &Arc<VersionScripts>,
        session: &Session,
    ) -> Option<Around> {
        phases.iter().any(|it| scripts.runs(*it)).then(|| Around {
            scripts: scripts.clone(),
            session: session.clone(),
            uploaded: UploadedTables::default(),
            begun_again: 0,
        })
    }

    /// Whether anything is to be run.
    pub(crate) fn runs(&self, phase: Phase) -> bool {
        self.scripts.runs(phase)
    }

    /// Of a connection.
    pub(crate) fn of_connection(
        &mut self,
        calls: &mut dyn Calls,
        event: Event,
    ) -> Result<(), Failure> {
        self.run(calls, (event, None), ToldValues::default()).map(drop)
    }

    /// T2.
    pub(crate) fn begin(&mut self, calls: &mut dyn Calls) -> Result<(), Failure> {
        let event = Event::BeginSynchronization;
        self.run(calls, (event, None), ToldValues::default())?;
        self.of_tables(calls, event, &|_| true, &|_| ToldValues::default())?;
        for publication in self.session.publications.clone().iter() {
            let told = ToldValues::default()
                .with(Told::PublicationName, Some(publication.to_string()))
                .with(Told::GenerationNumber, Some("1".to_owned()));
            self.run(calls, (Event::BeginPublication, None), told)?;
        }
        Ok(())
    }

    /// T3, before the rows. `of` says of some of them the name of their table, and whether they
    /// meet a script that does nothing.
    pub(crate) fn begin_upload<'t>(
        &mut self,
        calls: &mut dyn Calls,
        batches: RowSource<'_>,
        of: &dyn Fn(&UploadedRows<'_>) -> (&'t str, bool),
    ) -> Result<(), Failure> {
        let mut uploaded = UploadedTables::default();
        each_batch(batches, |batch| {
            uploaded.add(&batch, of(&batch));
            Ok::<_, Failure>(())
        })?;
        self.run(calls, (Event::BeginUpload, None), ToldValues::default())?;
        self.of_uploaded(calls, Event::BeginUpload, &uploaded, &|_| ToldValues::default())?;
        self.uploaded = uploaded;
        Ok(())
    }

    /// T3, behind the rows, of which `unusual` were not simply applied.
    pub(crate) fn end_upload(
        &mut self,
        calls: &mut dyn Calls,
        unusual: &UnusualRows,
    ) -> Result<(), Failure> {
        self.uploaded.settle(unusual);
        let uploaded = self.uploaded.clone();
        self.of_uploaded(calls, Event::EndUpload, &uploaded, &|_| ToldValues::default())?;
        self.run(calls, (Event::EndUpload, None), ToldValues::default())?;
        let begun_again = self.begun_again;
        let event = Event::UploadStatistics;
        self.of_uploaded(calls, event, &uploaded, &|table| uploaded.of(table).told(begun_again))?;
        self.run(calls, (event, None), uploaded.all().told(begun_again)).map(drop)
    }

    /// Runs the script of an event for each table of the upload that has rows.
    fn of_uploaded(
        &mut self,
        calls: &mut dyn Calls,
        event: Event,
        uploaded: &UploadedTables,
        told: &dyn Fn(&str) -> ToldValues,
    ) -> Result<(), Failure> {
        let schema = self.session.schema.clone();
        let told = |at: usize| told(&schema.tables[at].name);
        self.of_tables(calls, event, &|table| uploaded.has(table), &told)
    }

    /// T4. `time_of` says since when the remote lacks what was stamped in a table.
    pub(crate) fn prepare(
        &mut self,
        calls: &mut dyn Calls,
        marks: &[TableMark],
        time_of: &dyn Fn(&TableMark) -> Option<Time>,
    ) -> Result<(), Failure> {
        let Session { schema, .. } = &self.session;
        let tables = schema.tables.iter().enumerate().filter(|(_, it)| it.direction.downloads());
        let downloaded = tables.filter(|(position, _)| !self.session.waits(*position));
        let held = downloaded.map(|(position, _)| marks.get(position).and_then(time_of));
        let told = ToldValues::default().at(Times::oldest_of(held));
        let event = Event::GenerateNextLastDownloadTimestamp;
        let next = self.moment(calls, event, told.clone(), Told::NextLastDownload)?;
        let event = Event::ModifyLastDownloadTimestamp;
        let last = self.moment(calls, event, told.clone(), Told::LastDownload)?;
        // A script that returns what it was given changes nothing. But what it was given may be the
        // 1900 of tables that have no time.
        let given = self.scripts.script(event).is_some_and(|it| it.names(Told::LastDownload));
        let last = last.filter(|last| !given || *last < told.times.oldest);
        self.session.by_scripts.next_last_download = next;
        self.session.by_scripts.last_download = last;
        let told = told.clone().at(told.times.not_after(last));
        self.run(calls, (Event::PrepareForDownload, None), told).map(drop)
    }

    /// Runs the script of an event that may set a moment.
    fn moment(
        &mut self,
        calls: &mut dyn Calls,
        event: Event,
        told: ToldValues,
        of: Told,
    ) -> Result<Option<Time>, Failure> {
        let Some((script, called)) = self.run(calls, (event, None), told)? else {
            return Ok(None);
        };
        let Some(text) = called.out(&script, of) else { return Ok(None) };
        if let Some(moment) = calls.moment(text)?.filter(|it| MOMENTS.contains(it)) {
            return Ok(Some(moment));
        }
        let message = format!("it returns {text:?} as {}, which is no date and time", of.name());
        let mistake = Mistake { at: 0, message };
        let told = self.scripts.told(&self.session, (event, None), &mistake);
        Err(Failure::new(Code::ScriptFailed, told))
    }

    /// T5, before the cursors. `times` are those of each table.
    pub(crate) fn begin_download(
        &mut self,
        calls: &mut dyn Calls,
        times: &[Times],
    ) -> Result<(), Failure> {
        let event = Event::BeginDownload;
        self.run(calls, (event, None), ToldValues::default().at(of_all(times)))?;
        let told = |at: usize| ToldValues::default().at(of_table(times, at));
        self.of_tables(calls, event, &|_| true, &told)
    }

    /// Whether scripts run between the cursors of the table at a position.
    pub(crate) fn surrounds(&self, position: usize) -> bool {
        let table = self.session.schema.tables.get(position).map(|table| table.name.as_str());
        AROUND_CURSORS.iter().any(|event| self.scripts.of(table, *event).is_some())
    }

    /// T5, before or behind a cursor of the table at a position.
    pub(crate) fn around_cursor(
        &mut self,
        calls: &mut dyn Calls,
        (event, position): (Event, usize),
        times: &[Times],
    ) -> Result<(), Failure> {
        let schema = self.session.schema.clone();
        let table = schema.tables.get(position).map(|table| table.name.as_str());
        self.run(calls, (event, table), ToldValues::default().at(of_table(times, position)))
            .map(drop)
    }

    /// T5, behind the cursors. `sent` says what was sent of each table, and `next` which time is
    /// handed out with it.
    pub(crate) fn end_download(
        &mut self,
        calls: &mut dyn Calls,
        (times, next): (&[Times], Option<Time>),
        sent: &[Sent],
    ) -> Result<(), Failure> {
        let event = Event::ModifyNextLastDownloadTimestamp;
        let told = ToldValues::default().at(of_all(times)).handing_out(next);
        let modified = self.moment(calls, event, told, Told::NextLastDownload)?;
        self.session.by_scripts.next_last_download = modified.filter(|it| Some(*it) != next);
        let event = Event::EndDownload;
        let told = |at: usize| ToldValues::default().at(of_table(times, at));
        self.of_tables(calls, event, &|_| true, &told)?;
        self.run(calls, (event, None), ToldValues::default().at(of_all(times)))?;
        let event = Event::DownloadStatistics;
        let of = |at: usize| sent.get(at).copied().unwrap_or_default();
        let told = |at: usize| statistics::of_download(of(at)).at(of_table(times, at));
        self.of_tables(calls, event, &|_| true, &told)?;
        let all = sent.iter().copied().fold(Sent::default(), |all, more| all + more);
        self.run(calls, (event, None), statistics::of_download(all).at(of_all(times))).map(drop)
    }

    /// T6, `ok` where the synchronization has done all that it had to do at the database.
    pub(crate) fn end(&mut self, calls: &mut dyn Calls, ok: bool) -> Result<(), Failure> {
        let told = ToldValues::default();
        let told = told.with(Told::SynchronizationOk, Some(u8::from(ok).to_string()));
        for publication in self.session.publications.clone().iter() {
            let told = told.clone().with(Told::PublicationName, Some(publication.to_string()));
            self.run(calls, (Event::EndPublication, None), told)?;
        }
        self.of_tables(calls, Event::EndSynchronization, &|_| true, &|_| told.clone())?;
        self.run(calls, (Event::EndSynchronization, None), told)?;
        self.tell_counted(calls)
    }

    /// T6, last: lets scripts hear of the whole synchronization.
    fn tell_counted(&mut self, calls: &mut dyn Calls) -> Result<(), Failure> {
        let Some(counted) = self.session.counted.clone() else { return Ok(()) };
        let (event, schema) = (Event::SynchronizationStatistics, self.session.schema.clone());
        let counts = counted.so_far();
        self.of_tables(calls, event, &|_| true, &|at| statistics::of_table(&counts, at))?;
        let tables = schema.tables.len().saturating_sub(self.session.waiting.len());
        let told = statistics::of_synchronization(&counts, tables as u64);
        self.run(calls, (event, None), told)?;
        let ran = counted.so_far().ran;
        let names = schema.tables.iter().map(|table| Some(table.name.as_str()));
        for name in names.chain([None]) {
            for ((_, event), ran) in ran.iter().filter(|((of, _), _)| of.as_deref() == name) {
                let told = statistics::of_event(*event, ran);
                self.run(calls, (Event::TimeStatistics, name), told)?;
            }
        }
        Ok(())
    }

    /// Runs the script of an event for each of the tables that are wanted and do not wait. `told`
    /// has the values of each, by position.
    fn of_tables(
        &mut self,
        calls: &mut dyn Calls,
        event: Event,
        wanted: &dyn Fn(&str) -> bool,
        told: &dyn Fn(usize) -> ToldValues,
    ) -> Result<(), Failure> {
        let schema = self.session.schema.clone();
        for (position, table) in schema.tables.iter().enumerate() {
            if wanted(&table.name) && !self.session.waits(position) {
                self.run(calls, (event, Some(&table.name)), told(position))?;
            }
        }
        Ok(())
    }

    /// Runs one script, and keeps what it sets.
    fn run(
        &mut self,
        calls: &mut dyn Calls,
        of: (Event, Option<&str>),
        told: ToldValues,
    ) -> Result<Option<(Arc<Script>, Called)>, Failure> {
        let called = run(calls, &self.scripts, &self.session, of, told)?;
        if let Some((script, called)) = &called {
            for (name, value) in called.user_values(script) {
                self.session.set(name, value);
            }
        }
        Ok(called)
    }
}

/// A connection that runs scripts around the rows of a synchronization, each part of it in a
/// transaction of its own.
pub(crate) trait AroundRows: Sized {
    /// Runs what is to be run in this part, if there is anything, and commits it or undoes it.
    fn around_rows(
        &mut self,
        phase: Phase,
        around: &mut Around,
        work: &mut dyn FnMut(&mut Around, &mut dyn Calls) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Whether the database has given up what contains all parts.
    fn has_lost_all(&self) -> bool;

    /// Applies an upload between the scripts before it and those behind: T2, T3 as `apply` does it,
    /// and T4. Behind a failed T3 also T6. `time_of` says since when the remote lacks what was
    /// stamped in a table.
    fn upload_within(
        &mut self,
        mut around: Around,
        request: &UploadRequest<'_>,
        time_of: &dyn Fn(&TableMark) -> Option<Time>,
        apply: impl FnOnce(&mut Self, &UploadRequest<'_>, &mut Around) -> Result<Applied, Failure>,
    ) -> Result<Applied, Failure> {
        self.around_rows(Phase::Begin, &mut around, &mut |around, calls| around.begin(calls))?;
        let session = &around.session.clone();
        let outcome = apply(self, &UploadRequest { session, ..*request }, &mut around);
        if let Some(counted) = &session.counted {
            let none = UnusualRows::new();
            let unusual = outcome.as_ref().map_or(&none, |applied| &applied.unusual);
            counted.uploaded(unusual, around.begun_again);
        }
        let mut applied = match outcome {
            Ok(applied) => applied,
            Err(failure) => {
                if !self.has_lost_all() {
                    self.end_failed(around);
                }
                return Err(failure);
            }
        };
        if request.download_follows {
            let prepared = self.around_rows(Phase::Prepare, &mut around, &mut |around, calls| {
                around.prepare(calls, request.marks, time_of)
            });
            applied.stopped = prepared.err();
        }
        applied.by_scripts = around.session.by_scripts;
        Ok(applied)
    }

    /// T6.
    fn end_all(&mut self, mut around: Around, ok: bool) -> Result<(), Failure> {
        self.around_rows(Phase::End, &mut around, &mut |around, calls| around.end(calls, ok))
    }

    /// T6 of a synchronization that has failed: what fails here too is in the log alone.
    fn end_failed(&mut self, around: Around) {
        let remote = around.session.remote_id.clone();
        if let Err(failure) = self.end_all(around, false) {
            tracing::error!(remote = remote.as_str(), error = %failure.full_message(),
                "the scripts at the end of a failed synchronization fail");
        }
    }
}

/// What a script may set as a moment: of the years 1 to 9999.
const MOMENTS: Range<Time> = -62_135_596_800_000_000..253_402_300_800_000_000;

const AROUND_CURSORS: [Event; 4] = [
    Event::BeginDownloadDeletes,
    Event::EndDownloadDeletes,
    Event::BeginDownloadRows,
    Event::EndDownloadRows,
];

/// The oldest of all tables.
fn of_all(times: &[Times]) -> Times {
    let oldest = times.iter().map(|times| times.oldest).min().unwrap_or(Times::default().oldest);
    Times { oldest, ..Times::default() }
}

fn of_table(times: &[Times], position: usize) -> Times {
    times.get(position).copied().unwrap_or_default()
}

/// Runs the scripts between the rows of an upload, as these come: around the inserts and updates of
/// a table, and around its deletes. What they set is forgotten.
pub(crate) struct RowCues<'a> {
    scripts: &'a VersionScripts,
    session: &'a Session,
    /// False where there is nothing to run or to tell.
    active: bool,
    /// The table whose rows are applied now, and whether they are deletes.
    turn: Option<(&'a str, bool)>,
    began: Option<Instant>,
    /// Rows of this turn, by event.
    rows: BTreeMap<Event, u64>,
}

impl<'a> RowCues<'a> {
    pub(crate) fn new(scripts: &'a VersionScripts, session: &'a Session) -> RowCues<'a> {
        let active = scripts.runs(Phase::Upload) || trace::is_on();
        RowCues { scripts, session, active, turn: None, began: None, rows: BTreeMap::new() }
    }

    /// It is the turn of so many rows of a table with this change.
    pub(crate) fn turn(
        &mut self,
        calls: &mut dyn Calls,
        (table, change): (&'a str, Change),
        rows: u64,
    ) -> Result<(), Failure> {
        if !self.active {
            return Ok(());
        }
        if !self.is_turn_of((table, change)) {
            self.end(calls)?;
            let deletes = change == Change::Delete;
            (self.turn, self.began) = (Some((table, deletes)), trace::begin(self.session));
            let (begin, _) = events_around(deletes);
            run(calls, self.scripts, self.session, (begin, Some(table)), ToldValues::default())?;
        }
        self.ran(event_of(change), rows);
        Ok(())
    }

    /// Whether nothing is to be run before a row of a table with this change.
    pub(crate) fn is_turn_of(&self, (table, change): (&str, Change)) -> bool {
        !self.active || self.turn == Some((table, change == Change::Delete))
    }

    /// The script of an event has run for so many rows of this turn.
    pub(crate) fn ran(&mut self, event: Event, rows: u64) {
        if self.active {
            *self.rows.entry(event).or_default() += rows;
        }
    }

    /// The last turn has ended.
    pub(crate) fn end(&mut self, calls: &mut dyn Calls) -> Result<(), Failure> {
        let Some((table, deletes)) = self.turn.take() else { return Ok(()) };
        for (event, rows) in std::mem::take(&mut self.rows) {
            trace::ran(self.session, event, Some(table), Some(rows), self.began);
        }
        let (_, end) = events_around(deletes);
        run(calls, self.scripts, self.session, (end, Some(table)), ToldValues::default())?;
        Ok(())
    }
}

/// The events before and behind the rows of a table.
fn events_around(deletes: bool) -> (Event, Event) {
    match deletes {
        true => (Event::BeginUploadDeletes, Event::EndUploadDeletes),
        false => (Event::BeginUploadRows, Event::EndUploadRows),
    }
}
