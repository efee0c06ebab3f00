//! A connection that applies uploads, each in its own transaction.
//!
//! PostgreSQL itself flushes the commits of many connections together. So a group is one
//! synchronization, and its last flight commits.

mod scripted;

use crate::administration::history::{self, EndedSynchronization, Noting};
use crate::administration::{notes, users};
use crate::catalog::{VersionScripts, require_known};
use crate::identity::{Remembered, noting, still_ours};
use crate::postgres::catalog::table::Table;
use crate::postgres::catalog::{self, Catalog};
use crate::postgres::connect::Role;
use crate::postgres::download::fetcher::{Fetcher, Known};
use crate::postgres::download::timeline::Timelines;
use crate::postgres::download::{Access, withhold};
use crate::postgres::errors::failed;
use crate::postgres::event_script::{self, Running};
use crate::postgres::identity::{self, Locked};
use crate::postgres::incarnation::Life;
use crate::postgres::link::{Answer, Call, Link};
use crate::postgres::statement::as_parameters;
use crate::postgres::tracking::{trim, watch};
use crate::postgres::upload::work::Upload;
use crate::postgres::upload::{self, Undone, held};
use crate::postgres::words::PostgresWords;
use crate::script::around::{Around, AroundRows};
use crate::script::authentication::{Answered, Question};
use crate::script::{Event, Phase, trace};
use crate::serving::{Departures, Serving};
use crate::shape;
use crate::sql::Sql;
use crate::synchronization::change::{RowSource, UploadedRows};
use crate::synchronization::withheld::Withholding;
use crate::synchronization::{
    Acknowledgement, Applied, Begun, DownloadBatch, Ending, FetchRequest, Fetched, Held, Identity,
    PasswordChange, Session, UploadRequest,
};
use crate::upload::decisions::{Deciding, Decisions};
use crate::url::PostgresUrl;
use model::{Counter, Failure, Receipt, Spills, ValueRef};
use postgres_types::ToSql;
use std::sync::Arc;
use std::time::Duration;

/// Position of the lock in the first flight.
const LOCK_AT: usize = 2;

/// Position of the question for triggers that went, where it is asked.
const WATCH_AT: usize = LOCK_AT + 1;

/// The most times that a transaction is begun after it met another one (trap 14).
const ATTEMPTS_MAX: u32 = 6;

/// After the first of them, about; each time twice as long.
const PAUSE_MS: u64 = 10;

/// Writes to the consolidated database.
#[derive(Debug)]
pub(crate) struct Writer {
    link: Link,
    catalog: Catalog,
    timelines: Timelines,
    life: Life,
    /// For downloads. Timelines are met there apart from here, where the life is met with them.
    known: Known,
    spills: Arc<Spills>,
    departures: Departures,
    may_drain: bool,
    /// The connection of a script version that has one for itself, and for whom it was used last.
    own: Option<(Session, Box<Writer>)>,
    url: PostgresUrl,
    serving: Serving,
}

impl Drop for Writer {
    fn drop(&mut self) {
        crate::connection::Writer::end_session(self);
    }
}

impl Writer {
    /// Connects.
    pub(crate) fn open(url: &PostgresUrl, serving: &Serving) -> Result<Writer, Failure> {
        let mut link = Link::open_for(url, Role::Apply, serving)?;
        let catalog = Catalog::load(&mut link)?;
        let (timelines, life) = (Timelines::default(), Life::default());
        let (spills, departures) = (serving.spills.clone(), serving.departures.clone());
        let (known, may_drain) = (Known::new(serving), serving.may_drain);
        Ok(Writer {
            link,
            catalog,
            timelines,
            life,
            known,
            spills,
            departures,
            may_drain,
            own: None,
            url: url.clone(),
            serving: serving.clone(),
        })
    }

    /// Runs `work` in a transaction, which it commits itself; undone where it fails.
    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Writer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let outcome = work(self);
        if outcome.is_err() {
            self.link.roll_back();
        }
        outcome
    }

    /// Does `work`, which is one transaction or several of which only the last commits; again,
    /// with a new snapshot, where another transaction was in its way.
    fn until_alone<T>(
        &mut self,
        mut work: impl FnMut(&mut Writer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut pause = Duration::from_millis(PAUSE_MS);
        for _ in 1..ATTEMPTS_MAX {
            match work(self) {
                Err(_) if self.link.has_collided() => {}
                outcome => return outcome,
            }
            // Two that met would meet again if both waited equally long.
            let spread = crate::random::number().unwrap_or_default() % 1024;
            std::thread::sleep(pause.mul_f64(0.5 + spread as f64 / 1024.0));
            pause *= 2;
        }
        work(self)
    }

    /// Begins a transaction and locks the remote. `watches` where no download looks at triggers.
    fn lock(
        &mut self,
        session: &Session,
        watches: bool,
    ) -> Result<(Vec<Arc<Table>>, Locked), Failure> {
        let (mut answers, mut changed) = self.begin_transaction(session, watches)?;
        if !self.timelines.is_for(self.link.number_space()) {
            // What was stored on older timelines is about to be overwritten.
            (answers, changed) = self.begin_elsewhere(session, watches)?;
        }
        let mut locked = self.locked(session, &answers)?;
        if !self.life.is_named(&locked.life) {
            // It was restored while this connection went on, or declared to be.
            (answers, changed) = self.begin_elsewhere(session, watches)?;
            locked = self.locked(session, &answers)?;
        }
        if locked.deployment != self.catalog.deployed.deployment || !changed.is_empty() {
            self.load()?;
        }
        if self.require_known(session).is_err() {
            // It may be back since.
            self.load()?;
            self.require_known(session)?;
        }
        watch::renew(&mut self.link, &changed)?;
        let tables = self.catalog.upload_tables(session)?;
        Ok((tables, locked))
    }

    fn load(&mut self) -> Result<(), Failure> {
        self.catalog = Catalog::load(&mut self.link)?;
        self.known.forget_scripts();
        Ok(())
    }

    fn locked(&mut self, session: &Session, answers: &[Answer]) -> Result<Locked, Failure> {
        match identity::locked(&answers[LOCK_AT])? {
            Some(locked) => Ok(locked),
            None => identity::take(&mut self.link, session),
        }
    }

    /// Finds out which database this is, and begins again.
    fn begin_elsewhere(
        &mut self,
        session: &Session,
        watches: bool,
    ) -> Result<(Vec<Answer>, watch::Changed), Failure> {
        self.link.roll_back();
        self.life = Life::meet(&mut self.link, &self.life)?;
        self.timelines = Timelines::meet(&mut self.link)?;
        self.begin_transaction(session, watches)
    }

    /// What the statements say, and the tables whose triggers went, where that is asked.
    fn begin_transaction(
        &mut self,
        session: &Session,
        watches: bool,
    ) -> Result<(Vec<Answer>, watch::Changed), Failure> {
        let remote_id = session.remote_id.as_str();
        // Those of another deployment are not valid for this session, which finds this out after
        // the lock.
        let tables = self.catalog.upload_tables(session).unwrap_or_default();
        let hold = held::hold(&self.link, &tables);
        let remote: [&(dyn ToSql + Sync); 1] = [&remote_id];
        let watched = watch::watched(&tables);
        let asked: [&(dyn ToSql + Sync); 1] = [&watched];
        let mut calls = vec![
            Call::new("BEGIN", &[]),
            Call::new(&hold, &[]),
            Call::new(identity::LOCK, &remote),
        ];
        if watches {
            calls.push(Call::new(&watch::CHANGED, &asked));
        }
        let answers = self.link.begin(&calls).map_err(identity::lock_failed(LOCK_AT))?;
        let changed = answers.get(WATCH_AT).map(|answer| watched.found(answer)).unwrap_or_default();
        Ok((answers, changed))
    }

    /// Applies the rows while the remote is only being locked: two flights in all, for a session
    /// that meets nothing unusual.
    fn upload_at_once(
        &mut self,
        request: &UploadRequest<'_>,
        deciding: Deciding<'_>,
    ) -> Result<Result<Applied, Undone>, Failure> {
        let deployment = self.catalog.deployed.deployment;
        // An earlier attempt may have been overtaken in the meantime.
        let usual = request.progress != request.previous
            && request.epoch.is_none()
            && !deciding.scripts.runs(Phase::Upload)
            && request.session.deployment == deployment
            && !matches!(request.session.held, Held::Older(_))
            && self.timelines.is_for(self.link.number_space());
        if !usual {
            return Ok(Err(Undone::Unlucky));
        }
        let tables = self.catalog.tables(request.session)?;
        let (spills, pulse) = (self.spills.clone(), self.link.pulse());
        let (spills, pulse, settled) = (&spills, &pulse, Counter(0));
        let scripts = deciding.scripts;
        let upload = Upload { tables: &tables, request, spills, pulse, settled, scripts };
        let (locked, together) = match upload::at_once(&mut self.link, upload)? {
            Ok(applied) => applied,
            Err(undone) => return Ok(Err(undone)),
        };
        // On another connection than the one that was asked before, perhaps.
        let still = locked.deployment == deployment
            && self.timelines.is_for(self.link.number_space())
            && self.life.is_named(&locked.life);
        if !still {
            return Ok(Err(Undone::Unlucky));
        }
        let remote = self.recognize(request, &locked)?;
        let record = match upload::resolve(&mut self.link, upload, (&remote, &locked), together)? {
            Ok(record) => record,
            Err(undone) => return Ok(Err(undone)),
        };
        let with = (&self.life, deciding);
        upload::finish(&mut self.link, upload, remote, &locked, record, with).map(Ok)
    }

    fn upload_once(
        &mut self,
        request: &UploadRequest<'_>,
        around: Option<&mut Around>,
        (scripts, decisions): (&VersionScripts, &mut Decisions),
    ) -> Result<Applied, Failure> {
        let may_drain = self.may_drain;
        *decisions = Decisions::default();
        let deciding = Deciding { scripts, may_drain, decisions };
        let mut undone =
            match self.in_transaction(|writer| writer.upload_at_once(request, deciding))? {
                Ok(applied) => return Ok(applied),
                Err(undone) => undone,
            };
        self.link.roll_back();
        if scripts.runs(Phase::Upload) {
            // Scripts run between the rows.
            undone = Undone::RowsFailed;
        }
        self.in_transaction(|writer| {
            let (tables, locked) = writer.lock(request.session, !request.download_follows)?;
            let remote = writer.recognize(request, &locked)?;
            let deployed: Vec<_> = tables.iter().map(|table| table.deployed.clone()).collect();
            let mut around = around.filter(|_| request.uploads);
            let session = match around.as_deref_mut() {
                Some(around) => {
                    let of = |batch: &UploadedRows<'_>| {
                        let table = &deployed[batch.table];
                        (table.published.name.as_str(), table.ignores(batch.change))
                    };
                    let calls = &mut Running { link: &mut writer.link, zone: None };
                    around.begin_upload(calls, request.batches, &of)?;
                    &around.session.clone()
                }
                None => request.session,
            };
            let request = &UploadRequest { session, ..*request };
            let convert = |table: usize, column: usize, value: ValueRef<'_>| {
                deployed[table].details.columns.get(column)?.converted(value)
            };
            let spills = &writer.spills.clone();
            shape::upload(request, (&deployed, spills), &convert, |request| {
                let pulse = &writer.link.pulse();
                let settled = Counter(0);
                let upload = Upload { tables: &tables, request, spills, pulse, settled, scripts };
                let known = (&remote, &locked);
                let record = upload::apply(&mut writer.link, upload, known, undone)?;
                if let Some(around) = around {
                    let calls = &mut Running { link: &mut writer.link, zone: None };
                    around.end_upload(calls, &record.applied.unusual)?;
                }
                let deciding = Deciding { scripts, may_drain, decisions };
                let with = (&writer.life, deciding);
                upload::finish(&mut writer.link, upload, remote, &locked, record, with)
            })
        })
    }

    /// T3, until it met no other transaction.
    fn apply(
        &mut self,
        request: &UploadRequest<'_>,
        scripts: &VersionScripts,
        mut around: Option<&mut Around>,
    ) -> Result<Applied, Failure> {
        let (mut decisions, mut times) = (Decisions::default(), 0);
        let outcome = self.until_alone(|writer| {
            if let Some(around) = around.as_deref_mut() {
                around.begun_again = times;
            }
            times += 1;
            writer.upload_once(request, around.as_deref_mut(), (scripts, &mut decisions))
        });
        trace::ended(request.session, Phase::Upload, outcome.is_ok());
        if decisions.stand(&outcome) {
            event_script::report(&mut self.link, scripts, request.session, &decisions);
        }
        match outcome {
            Err(failure) if catalog::may_be_missing(&failure) => {
                Err(self.went_away(request.session).unwrap_or(failure))
            }
            outcome => outcome,
        }
    }

    /// Behind a failure: whether a table is to blame that is not any more what it was when the
    /// session began.
    fn went_away(&mut self, session: &Session) -> Option<Failure> {
        let catalog = Catalog::load(&mut self.link).ok()?;
        if session.deployment != catalog.deployed.deployment {
            return None;
        }
        self.catalog = catalog;
        self.known.forget_scripts();
        self.require_known(session).err()
    }

    fn fetcher(&mut self) -> Fetcher<'_> {
        let Writer { link, catalog, known, .. } = self;
        Fetcher { link, catalog, known, access: Access::ReadWrite }
    }

    /// Refuses a session that relies on a table that went, and lets the others know.
    fn require_known(&self, session: &Session) -> Result<(), Failure> {
        let columns = self.catalog.require_columns(session);
        let known = columns.and_then(|()| require_known(session, &self.catalog.waiting(session)));
        if known.is_err() {
            self.departures.note();
        }
        known
    }

    fn recognize(
        &mut self,
        request: &UploadRequest<'_>,
        locked: &Locked,
    ) -> Result<Remembered, Failure> {
        let (session, found) = (request.session, locked.remembered.clone());
        match request.epoch {
            Some(epoch) => still_ours(session, found, epoch),
            None => {
                let (identity, receipt) = (&request.identity, request.receipt);
                identity::begin(&mut self.link, session, identity, receipt, found, &self.life)
            }
        }
    }
}

impl crate::connection::Writer for Writer {
    fn group_len_max(&self) -> usize {
        1
    }

    // Each synchronization has a transaction of its own.
    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn rollback(&mut self) {}

    fn transaction_lost(&self) -> bool {
        false
    }

    fn authenticate(&mut self, question: &Question<'_>) -> Result<Answered, Failure> {
        self.meet_deployment(question.session)?;
        let outcome = self.ask(question);
        trace::ended(question.session, Phase::Authenticate, outcome.is_ok());
        outcome
    }

    fn begin_synchronization(
        &mut self,
        session: &Session,
        identity: &Identity,
        receipt: Option<&Receipt>,
    ) -> Result<Begun, Failure> {
        let begin = |writer: &mut Writer| {
            let (_, locked) = writer.lock(session, false)?;
            let found = locked.remembered;
            let (link, life) = (&mut writer.link, &writer.life);
            let remote = identity::begin(link, session, identity, receipt, found, life)?;
            let stored = identity::stored(&writer.link, session, &remote, false, false);
            let parameters = as_parameters(&stored);
            writer
                .link
                .flight(&[Call::new(identity::STORE, &parameters), Call::new("COMMIT", &[])])
                .map_err(failed("store what is known of the remote"))?;
            drop(stored);
            Ok(Begun::from(remote))
        };
        self.until_alone(|writer| writer.in_transaction(begin))
    }

    fn upload(&mut self, request: &UploadRequest<'_>) -> Result<Applied, Failure> {
        // Whoever goes through the rows, in a transaction or before, lets the database hear of it.
        let pulse = self.link.pulse();
        let batches: RowSource<'_> = &|visit| pulse.pass_batches(request.batches, visit);
        let request = &UploadRequest { batches, ..*request };
        self.meet_deployment(request.session)?;
        let scripts = self.scripts_of(request.session);
        match Around::of(&scripts, request.session) {
            None => self.apply(request, &scripts, None),
            Some(around) => {
                self.upload_within(around, request, &upload::time_of, |writer, request, around| {
                    writer.apply(request, &scripts, Some(around))
                })
            }
        }
    }

    fn end(&mut self, ending: &Ending<'_>) -> Result<(), Failure> {
        self.meet_deployment(ending.session)?;
        let scripts = self.scripts_of(ending.session);
        let Some(around) = Around::of(&scripts, ending.session) else { return Ok(()) };
        self.end_all(around, ending.ok)
    }

    fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let mut times = 0;
        let fetched = self.until_alone(|writer| {
            if let Some(counted) = &request.session.counted {
                counted.fetched(times);
            }
            times += 1;
            writer.fetcher().fetch(request, sink)
        });
        trace::ended(request.session, Phase::Download, fetched.is_ok());
        fetched.map_err(|failure| self.fetcher().explain(failure, request.session))
    }

    fn session(
        &mut self,
        session: &Session,
    ) -> Result<&mut dyn crate::connection::Writer, Failure> {
        self.meet_deployment(session)?;
        let deployment = self.catalog.deployed.deployment;
        // One that was lost meanwhile would fail in the middle.
        let fits = |(last, own): &mut (Session, Box<Writer>)| {
            last.script_version == session.script_version
                && own.catalog.deployed.deployment == deployment
                && own.link.query("SELECT 1", &[]).is_ok()
        };
        let own = match self.own.take_if(fits) {
            Some((_, own)) => own,
            None => {
                self.end_session();
                let mut own = Box::new(Writer::open(&self.url, &self.serving)?);
                own.run_for_connection(session, Event::BeginConnectionAutocommit)?;
                own.run_for_connection(session, Event::BeginConnection)?;
                own.link.keep();
                own
            }
        };
        let (_, own) = self.own.insert((session.clone(), own));
        Ok(own.as_mut())
    }

    fn end_session(&mut self) {
        let Some((session, mut own)) = self.own.take() else { return };
        if own.link.is_lost() {
            return;
        }
        if let Err(failure) = own.run_for_connection(&session, Event::EndConnection) {
            tracing::error!(error = %failure.full_message(), "end_connection fails");
        }
    }

    fn withhold(&mut self, withholding: &Withholding<'_>) -> Result<(), Failure> {
        self.in_transaction(|writer| {
            let (tables, locked) = writer.lock(withholding.session, false)?;
            still_ours(withholding.session, locked.remembered, withholding.epoch)?;
            withhold::withhold(&mut writer.link, &tables, withholding)
        })
    }

    fn acknowledge(&mut self, acknowledgement: &Acknowledgement) -> Result<(), Failure> {
        let named = [acknowledgement.remote_id.as_str()];
        let doing = "note that a download was applied";
        let noting = noting(acknowledgement, "FOR UPDATE SKIP LOCKED");
        self.link.change(doing, &noting, &named).map(drop)
    }

    fn change_password(&mut self, change: &PasswordChange) -> Result<(), Failure> {
        let values = [change.user.as_str(), &change.hash];
        let update = users::password_change(change);
        match self.link.change("change the password", &update, &values)? {
            1 => Ok(()),
            _ => Err(users::changed_meanwhile()),
        }
    }

    fn note_ended(&mut self, ended: &[EndedSynchronization]) -> Result<(), Failure> {
        let Noting { statements, calls } = history::noting::<PostgresWords>(ended);
        let values: Vec<Vec<&str>> =
            calls.iter().map(|(_, values)| values.iter().map(String::as_str).collect()).collect();
        let bound = calls.iter().zip(&values);
        let bound: Vec<_> =
            bound.map(|((which, _), values)| (statements[*which].clone(), &values[..])).collect();
        self.link.run_all("note synchronizations", &bound).map(drop)
    }

    fn trim_logs(&mut self, log_rows_max: i64) -> Result<(), Failure> {
        self.in_transaction(|writer| trim::trim(&mut writer.link, log_rows_max))
    }

    fn trim_notes(&mut self, rows_max: i64, rejects_kept_s: i64) -> Result<(), Failure> {
        notes::trim(&mut self.link, rows_max, rejects_kept_s)
    }

    fn round_trips(&self) -> u64 {
        self.link.round_trips()
    }
}
