//! The one connection that writes: several synchronizations in one transaction.
//!
//! Trap 17: each synchronization has its own savepoint, so a failed one does not affect the others.
//! None is acknowledged before the common commit, which is durable.

use super::catalog::{self, Catalog};
use super::connect::connect_for;
use super::errors::failed;
use super::upload;
use super::{identity, incarnation, query, start};
use crate::administration::history::{self, EndedSynchronization, Noting};
use crate::administration::{notes, users};
use crate::catalog::VersionScripts;
use crate::disk::Location;
use crate::identity::{Incarnation, noting};
use crate::script::around::{Around, AroundRows, Calls};
use crate::script::authentication::{self, Answered, Question};
use crate::script::{Event, Phase, trace};
use crate::serving::Serving;
use crate::serving::start_mark::SET_BACK;
use crate::shape;
use crate::sql::Words;
use crate::sqlite::details::logs_of;
use crate::sqlite::download;
use crate::sqlite::download::durable::{Durable, Ends};
use crate::sqlite::download::moment;
use crate::sqlite::download::runs::{self, Runs};
use crate::sqlite::download::withhold;
use crate::sqlite::event_script::{self, Running};
use crate::sqlite::tracking::log_table::{SEQUENCE, log_name};
use crate::sqlite::upload::constraint;
use crate::sqlite::words::SqliteWords;
use crate::synchronization::change::UploadedRows;
use crate::synchronization::withheld::Withholding;
use crate::synchronization::{
    Acknowledgement, Applied, Begun, DownloadBatch, Ending, FetchRequest, Fetched, Identity,
    PasswordChange, Session, UploadRequest,
};
use crate::upload::decisions::{Deciding, Decisions};
use crate::upload::owed_rows::OwedRows;
use model::{Code, Failure, Receipt, Spills};
use rusqlite::{Connection, ErrorCode, params_from_iter};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of one upload at each of which the transaction may be ended, and begun again without it.
const ENDED_MAX: u64 = 1000;

/// Writes to the consolidated database.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: Connection,
    catalog: Catalog,
    runs: Vec<Runs>,
    durable: Arc<Durable>,
    /// Tables whose logs the group may have written to.
    written: BTreeSet<String>,
    /// Tables that are known not to be as they were deployed.
    went: BTreeSet<String>,
    incarnation: Incarnation,
    /// The mark of the last start of a server, as of the last transaction.
    last_start: Option<String>,
    location: Location,
    /// What was at the path when it was opened.
    file: Option<(u64, u64)>,
    /// How many have worked in the transaction.
    in_hand: usize,
    spills: Arc<Spills>,
    may_drain: bool,
    /// The connection of a script version that has one for itself, and for whom it was used last.
    own: Option<(Session, Box<Writer>)>,
    serving: Serving,
    /// What was decided in the transaction about rows that the database refuses.
    decided: Vec<(Session, Arc<VersionScripts>, Decisions)>,
}

impl Writer {
    /// Opens the database; the caller that does so for a server holds its lock.
    pub(crate) fn open(location: &Location, serving: &Serving) -> Result<Writer, Failure> {
        let file = start::file_at(location);
        let connection = connect_for(location, false, serving)?;
        Ok(Writer {
            catalog: Catalog::load(&connection)?,
            runs: Runs::all(&connection)?,
            durable: Durable::of(location),
            written: BTreeSet::new(),
            went: BTreeSet::new(),
            incarnation: incarnation::read(&connection)?,
            last_start: incarnation::last_start(&connection)?,
            location: location.clone(),
            file,
            in_hand: 0,
            spills: serving.spills.clone(),
            may_drain: serving.may_drain,
            decided: Vec::new(),
            own: None,
            serving: serving.clone(),
            connection,
        })
    }

    /// Refuses to write to a file that no other program can find any more.
    fn require_in_place(&self) -> Result<(), Failure> {
        let found = start::file_at(&self.location);
        if found == self.file {
            return Ok(());
        }
        let name = self.location.path.file_name().unwrap_or_default().display();
        let failure = |what: &str| Failure::new(Code::DatabaseReplaced, format!("{name} {what}"));
        Err(match found {
            Some(_) => failure("is another file than when the server started"),
            None => failure("is not where it was when the server started")
                .hint("put the file back in its place; the server goes on by itself"),
        })
    }

    /// Whether the database still has what the last transaction found: a start of a server. Inside
    /// a transaction, which may have been another one before.
    fn notice_set_back(&mut self) -> Result<(), Failure> {
        let last = incarnation::last_start(&self.connection)?;
        if last == self.last_start {
            return Ok(());
        }
        if let Some(known) = &self.last_start
            && incarnation::number(&self.connection)? == self.incarnation.number
            && !incarnation::has_mark(&self.connection, known)?
        {
            incarnation::renew(&self.connection, SET_BACK)?;
            self.begin_again("begin a new generation")?;
        }
        self.last_start = last;
        Ok(())
    }

    /// Changes of a table without Syncline's triggers are unknown. One that comes back, as it was
    /// to look at, is sent as a whole.
    fn notice_tables_that_went(&mut self) -> Result<(), Failure> {
        self.catalog.verify(&self.connection)?;
        let unserved: BTreeSet<String> = self.catalog.unserved().cloned().collect();
        for table in unserved.difference(&self.went) {
            incarnation::renew_log(&self.connection, table)?;
        }
        if !unserved.is_subset(&self.went) {
            self.begin_again("note that a table went")?;
        }
        self.went = unserved;
        Ok(())
    }

    /// What was written so far stays, whatever becomes of the synchronizations.
    fn begin_again(&self, doing: &str) -> Result<(), Failure> {
        self.connection
            .execute_batch("COMMIT; BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON;")
            .map_err(failed(doing))
    }

    /// Looks which incarnation this is: the synchronization before may have begun a new one.
    fn meet(&mut self) -> Result<(), Failure> {
        if incarnation::number(&self.connection)? != self.incarnation.number {
            self.incarnation = incarnation::read(&self.connection)?;
        }
        Ok(())
    }

    /// Every upload has looked after its foreign keys. But a parent takes one from SQLite's count
    /// for each row that waited for it, orphans from long ago included, which are not in the count.
    /// Below nothing it keeps the transaction from its commit as above.
    fn commit_what_is_checked(&self) -> Result<(), Failure> {
        let commit = || self.connection.execute_batch("COMMIT");
        let Err(error) = commit() else { return Ok(()) };
        let is_constraint = error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation);
        if !is_constraint || constraint::foreign_keys_violated(&self.connection)? {
            return Err(failed("commit")(error));
        }
        // The end of the deferral clears the count.
        self.connection
            .execute_batch("PRAGMA defer_foreign_keys = OFF")
            .and_then(|()| commit())
            .map_err(failed("commit"))
    }

    /// Runs `work` so that its failure undoes nothing else.
    fn in_savepoint<T>(
        &mut self,
        work: impl FnOnce(&mut Writer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let run = |connection: &Connection, sql: &str| {
            connection.execute_batch(sql).map_err(failed("set a savepoint"))
        };
        run(&self.connection, "SAVEPOINT synchronization")?;
        self.in_hand += 1;
        let result = work(self);
        if self.connection.is_autocommit() {
            return Err(result.err().unwrap_or_else(|| {
                Failure::new(Code::ScriptFailed, "a script ended the transaction")
            }));
        }
        let end = match &result {
            Ok(_) => "RELEASE synchronization",
            Err(_) => "ROLLBACK TO synchronization; RELEASE synchronization",
        };
        if let Err(failure) = run(&self.connection, end) {
            // Then this is not the transaction that was begun: it must not be committed.
            crate::connection::Writer::rollback(self);
            return Err(result.err().unwrap_or(failure));
        }
        result
    }

    /// The transactions of one upload, with the scripts around it. They are savepoints of one
    /// transaction, so the commit is shared, and each has a fate of its own.
    fn upload_once(
        &mut self,
        request: &UploadRequest<'_>,
        ended: &mut OwedRows,
    ) -> Result<Applied, Failure> {
        let scripts = self.catalog.deployed.version_scripts(&request.session.script_version);
        let Some(around) = Around::of(&scripts, request.session) else {
            return self.apply(request, ended, scripts, None);
        };
        self.upload_within(around, request, &upload::time_of, |writer, request, around| {
            writer.apply(request, ended, scripts, Some(around))
        })
    }

    /// T3.
    fn apply(
        &mut self,
        request: &UploadRequest<'_>,
        ended: &mut OwedRows,
        scripts: Arc<VersionScripts>,
        around: Option<&mut Around>,
    ) -> Result<Applied, Failure> {
        let (may_drain, mut decisions) = (self.may_drain, Decisions::default());
        let outcome = self.in_savepoint(|writer| {
            writer.meet()?;
            writer.catalog.require_as_begun(request.session)?;
            let deployed = &writer.catalog.deployed;
            if request.progress != request.previous {
                let tables = deployed.tables(request.session)?;
                let downloaded = tables.iter().filter(|it| it.published.direction.downloads());
                let logs = downloaded.flat_map(|table| logs_of(table));
                writer.written.extend(logs.cloned());
            }
            let tables = deployed.upload_tables(request.session)?;
            let mut around = around.filter(|_| request.uploads);
            let session = match around.as_deref_mut() {
                Some(around) => {
                    let of = |batch: &UploadedRows<'_>| {
                        let table = &tables[batch.table];
                        (table.published.name.as_str(), table.ignores(batch.change))
                    };
                    let calls = &mut Running(&writer.connection);
                    around.begin_upload(calls, request.batches, &of)?;
                    &around.session.clone()
                }
                None => request.session,
            };
            let request = &UploadRequest { session, ..*request };
            let spills = &writer.spills;
            shape::upload(request, (&tables, spills), &shape::as_it_is, |request| {
                let (center, incarnation) = ((&writer.connection, spills), &writer.incarnation);
                let deciding = Deciding { scripts: &scripts, may_drain, decisions: &mut decisions };
                let with = (ended, deciding);
                upload::upload(center, &tables, request, incarnation, with, around)
            })
        });
        if decisions.stand(&outcome) {
            self.decided.push((request.session.clone(), scripts, decisions));
        }
        trace::ended(request.session, Phase::Upload, outcome.is_ok());
        outcome
    }

    /// Runs a script of the connection in a transaction of its own.
    fn run_for_connection(&mut self, session: &Session, event: Event) -> Result<(), Failure> {
        use crate::connection::Writer as _;
        let scripts = self.catalog.deployed.version_scripts(&session.script_version);
        let Some(mut around) = Around::of(&scripts, session) else { return Ok(()) };
        self.begin()?;
        let run =
            &mut |around: &mut Around, calls: &mut dyn Calls| around.of_connection(calls, event);
        match self.around_rows(Phase::Connection, &mut around, run) {
            Ok(()) => self.commit(),
            Err(failure) => {
                self.rollback();
                Err(failure)
            }
        }
    }

    /// In a transaction that writes. Returns up to which entries the logs were read.
    fn fetch_in_transaction(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<(Fetched, Ends), Failure> {
        let session = self.catalog.now(request.session);
        self.catalog.require_columns(&session)?;
        let tables = self.catalog.deployed.tables(&session)?;
        let request = FetchRequest { session: &session, ..*request };
        let scripts = self.catalog.deployed.version_scripts(&session.script_version);
        let (connection, spills) = (&self.connection, &self.spills);
        constraint::with_references(connection, || {
            download::fetch(connection, &tables, &request, Some(&scripts), spills, sink)
        })
    }

    /// Lets scripts hear of what was decided, now that it stands.
    fn report(&mut self) {
        for (session, scripts, decisions) in std::mem::take(&mut self.decided) {
            let reported = event_script::report(&self.connection, &scripts, &session, &decisions);
            if let Err(failure) = reported {
                tracing::error!(error = %failure.full_message(), "report_error did not run");
                if !self.connection.is_autocommit() {
                    // If even this fails, the next BEGIN tells.
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
            }
        }
    }
}

/// Each part is a savepoint.
impl AroundRows for Writer {
    fn around_rows(
        &mut self,
        phase: Phase,
        around: &mut Around,
        work: &mut dyn FnMut(&mut Around, &mut dyn Calls) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !around.runs(phase) {
            return Ok(());
        }
        let outcome = self.in_savepoint(|writer| {
            if phase == Phase::Begin {
                writer.catalog.require_as_begun(&around.session)?;
            }
            let connection = &writer.connection;
            constraint::with_references(connection, || work(around, &mut Running(connection)))
        });
        trace::ended(&around.session, phase, outcome.is_ok());
        outcome
    }

    fn has_lost_all(&self) -> bool {
        self.connection.is_autocommit()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        crate::connection::Writer::end_session(self);
    }
}

impl crate::connection::Writer for Writer {
    fn group_len_max(&self) -> usize {
        usize::MAX
    }

    // Waits for the lock of other programs for five seconds.
    fn begin(&mut self) -> Result<(), Failure> {
        self.require_in_place()?;
        self.decided.clear();
        self.connection
            .execute_batch("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON;")
            .map_err(failed("begin a transaction"))?;
        self.in_hand = 0;
        self.notice_set_back()?;
        if catalog::deployment(&self.connection)? != self.catalog.deployed.deployment {
            self.catalog = Catalog::load(&self.connection)?;
            self.runs = Runs::all(&self.connection)?;
        }
        self.notice_tables_that_went()
    }

    fn commit(&mut self) -> Result<(), Failure> {
        for runs in &self.runs {
            runs.extend(&self.connection)?;
        }
        let mut ends = Ends::new();
        for table in std::mem::take(&mut self.written) {
            let (end, _) = moment::end_of_log(&self.connection, &table)?;
            ends.push((table, end));
        }
        self.commit_what_is_checked()?;
        self.durable.note(&ends);
        self.report();
        Ok(())
    }

    fn rollback(&mut self) {
        self.decided.clear();
        if !self.transaction_lost() {
            // If even this fails, the next BEGIN tells.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn transaction_lost(&self) -> bool {
        self.connection.is_autocommit()
    }

    fn authenticate(&mut self, question: &Question<'_>) -> Result<Answered, Failure> {
        let outcome = self.in_savepoint(|writer| {
            let scripts = writer.catalog.deployed.authenticating(question.session)?;
            let connection = &writer.connection;
            constraint::with_references(connection, || {
                authentication::answer(&mut Running(connection), &scripts, question)
            })
        });
        trace::ended(question.session, Phase::Authenticate, outcome.is_ok());
        outcome
    }

    fn begin_synchronization(
        &mut self,
        session: &Session,
        identity: &Identity,
        receipt: Option<&Receipt>,
    ) -> Result<Begun, Failure> {
        self.in_savepoint(|writer| {
            writer.meet()?;
            let connection = &writer.connection;
            identity::begin(connection, session, identity, receipt, &writer.incarnation)
                .map(Begun::from)
        })
    }

    fn upload(&mut self, request: &UploadRequest<'_>) -> Result<Applied, Failure> {
        let mut ended = OwedRows::within(&self.spills);
        loop {
            let (before, is_first) = (ended.added(), self.in_hand == 0);
            let outcome = self.upload_once(request, &mut ended);
            let known = ended.added();
            // Uploads that were in the transaction before are tried again by the caller.
            let again = self.transaction_lost() && is_first && known > before;
            if !again || known > ENDED_MAX {
                let deployed = &self.catalog.deployed;
                return outcome.map_err(|failure| deployed.hide(request.session, failure));
            }
            tracing::warn!(
                remote = request.session.remote_id.as_str(),
                rows = known,
                "a trigger or a constraint ends the transaction of an upload; the row is rejected"
            );
            self.begin()?;
        }
    }

    fn end(&mut self, ending: &Ending<'_>) -> Result<(), Failure> {
        let scripts = self.catalog.deployed.version_scripts(&ending.session.script_version);
        let Some(around) = Around::of(&scripts, ending.session) else { return Ok(()) };
        self.end_all(around, ending.ok)
    }

    fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        let fetched = self.begin().and_then(|()| {
            let fetched = self.fetch_in_transaction(request, sink)?;
            // A transaction that has written nothing makes nothing durable, whoever wrote it.
            self.written.clear();
            self.commit()?;
            Ok(fetched)
        });
        trace::ended(request.session, Phase::Download, fetched.is_ok());
        let fetched = fetched.inspect_err(|_| self.rollback());
        let deployed = &self.catalog.deployed;
        let (fetched, ends) = fetched.map_err(|failure| deployed.hide(request.session, failure))?;
        self.durable.ensure(&ends)?;
        Ok(fetched)
    }

    fn session(
        &mut self,
        session: &Session,
    ) -> Result<&mut dyn crate::connection::Writer, Failure> {
        let deployment = catalog::deployment(&self.connection)?;
        let fits = |(last, own): &(Session, Box<Writer>)| {
            last.script_version == session.script_version
                && own.catalog.deployed.deployment == deployment
        };
        let own = match self.own.take_if(|own| fits(own)) {
            Some((_, own)) => own,
            None => {
                self.end_session();
                let mut own = Box::new(Writer::open(&self.location, &self.serving)?);
                own.run_for_connection(session, Event::BeginConnectionAutocommit)?;
                own.run_for_connection(session, Event::BeginConnection)?;
                own
            }
        };
        let (_, own) = self.own.insert((session.clone(), own));
        Ok(own.as_mut())
    }

    fn end_session(&mut self) {
        let Some((session, mut own)) = self.own.take() else { return };
        if let Err(failure) = own.run_for_connection(&session, Event::EndConnection) {
            tracing::error!(error = %failure.full_message(), "end_connection fails");
        }
    }

    fn withhold(&mut self, withholding: &Withholding<'_>) -> Result<(), Failure> {
        self.in_savepoint(|writer| {
            let tables = writer.catalog.deployed.tables(withholding.session)?;
            withhold::withhold(&writer.connection, &tables, withholding)
        })
    }

    fn acknowledge(&mut self, acknowledgement: &Acknowledgement) -> Result<(), Failure> {
        self.in_savepoint(|writer| {
            let sql = SqliteWords::spelled(&noting(acknowledgement, ""));
            let named = [acknowledgement.remote_id.as_str()];
            let doing = "note that a download was applied";
            query::run(&writer.connection, doing, &sql, named).map(drop)
        })
    }

    fn change_password(&mut self, change: &PasswordChange) -> Result<(), Failure> {
        self.in_savepoint(|writer| {
            let sql = SqliteWords::spelled(&users::password_change(change));
            let values = [change.user.as_str(), &change.hash];
            match query::run(&writer.connection, "change the password", &sql, values)? {
                1 => Ok(()),
                _ => Err(users::changed_meanwhile()),
            }
        })
    }

    fn note_ended(&mut self, ended: &[EndedSynchronization]) -> Result<(), Failure> {
        self.in_savepoint(|writer| {
            let Noting { statements, calls } = history::noting::<SqliteWords>(ended);
            calls.iter().try_for_each(|(which, values)| {
                let (doing, values) = ("note synchronizations", params_from_iter(values));
                query::run(&writer.connection, doing, &statements[*which], values).map(drop)
            })
        })
    }

    fn trim_logs(&mut self, log_rows_max: i64) -> Result<(), Failure> {
        let doing = "trim the change logs";
        let trimming = failed(doing);
        let sql = "SELECT name, table_name FROM syncline_object WHERE kind = 'TABLE'";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let logs: Vec<(String, String)> = query::all(&self.connection, doing, sql, read)?;
        for (log, table) in logs.into_iter().filter(|(name, table)| *name == log_name(table)) {
            let log = crate::quote::ident(&log);
            let sql = format!("SELECT coalesce(max({SEQUENCE}), 0) - ?1 FROM {log}");
            let floor: i64 = query::value(&self.connection, doing, &sql, [log_rows_max])?;
            if floor <= 0 {
                continue;
            }
            let transaction = self.connection.unchecked_transaction().map_err(&trimming)?;
            transaction
                .execute(
                    "UPDATE syncline_logs SET floor = max(floor, ?2) WHERE table_name = ?1",
                    rusqlite::params![table, floor],
                )
                .and_then(|_| {
                    // The newest entry always stays: its number must never be given out again.
                    transaction
                        .execute(&format!("DELETE FROM {log} WHERE {SEQUENCE} <= ?1"), [floor])
                })
                .and_then(|_| runs::trim(&transaction, &table, floor))
                .map_err(&trimming)?;
            transaction.commit().map_err(&trimming)?;
        }
        Ok(())
    }

    fn trim_notes(&mut self, rows_max: i64, rejects_kept_s: i64) -> Result<(), Failure> {
        notes::trim(&mut &self.connection, rows_max, rejects_kept_s)
    }
}

#[cfg(test)]
mod tests;
