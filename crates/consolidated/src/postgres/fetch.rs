//! Fetches one download from one snapshot, in two flights.
//!
//! The first reads the state of the tables, and the second all rows.
//!
//! Invariants:
//! F1. Rows and watermarks come from the same snapshot, so no change is between them (S2).
//! F2. Owed rows are sent whatever the watermark of the remote says (trap 5).

use super::catalog::{self, Table};
use super::cursor::{self, Source, Value};
use super::departed::{Questions, Stillness};
use super::durable;
use super::errors::{Fault, failed, script_failed};
use super::link::{Answer, Call, Link, Row, Unreadable};
use super::new_keys::{self, Search};
use super::orphans::Digests;
use super::owed::{self, Owed};
use super::read_lock::{self, ReadLock};
use super::rows::{Batches, Download, Kind};
use super::snapshot::{Snapshot, Xid8};
use super::span::{LogState, Moment, Span};
use super::statement::{Slot, Statement};
use super::timeline::Timelines;
use super::watch;
use super::watermark::{Mark, Place};
use crate::echo::{Echo, Transaction};
use crate::identity::Void;
use crate::script::Event;
use crate::synchronization::{DownloadBatch, DownloadedTable, FetchRequest, Fetched};
use model::{Code, Counter, Failure};
use postgres_types::ToSql;
use std::collections::HashMap;
use std::sync::Arc;

/// Where the parts of a download go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(DownloadBatch) -> Result<(), Failure>;

/// Each log, and beside it the state of the database: once also where there is no log. Of the
/// transaction that uploaded last for the remote, the lower half of its number. `$1` is the remote,
/// `$2` what its last download has shown it.
fn state() -> String {
    format!(
        "SELECT log.table_name, log.incarnation, log.floor::text,
    (SELECT pg_current_snapshot()::text),
    (SELECT value::int8 FROM syncline.syncline_system WHERE name = 'generation'),
    (SELECT value::int8 FROM syncline.syncline_system WHERE name = 'deployment'),
    remote.xmin::text::int8,
    (SELECT (pg_current_wal_insert_lsn() - '0/0')::int8),
    (SELECT (pg_current_wal_flush_lsn() - '0/0')::int8),
    remote.void_counter, remote.deletes_lost,
    log.bypassed::text, log.bypassed IS DISTINCT FROM log.settled,
    {keys_changed}
FROM (SELECT) AS state
LEFT JOIN syncline.syncline_remote AS remote ON remote.remote_id = $1
LEFT JOIN syncline.syncline_log_state AS log ON TRUE",
        keys_changed = new_keys::ANY
    )
}

/// The number of none.
const NO_TRANSACTION: u64 = 0;

/// What other cursors read is for the planner to decide, again each time (decision 0011).
pub(super) const FOR_SCRIPTS: [&str; 2] = [
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
        set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true)",
    "SET LOCAL max_parallel_workers_per_gather TO DEFAULT",
];

/// A download's transaction, and what it found.
pub(super) struct Opening {
    pub(super) deployment: i64,
    moment: Moment,
    owed: Vec<Row>,
    stillness: Stillness,
    /// Tables whose triggers are not those of the deployment, with their names in SQL.
    pub(super) changed: Vec<(String, String)>,
    /// Where the log ended, unless it was on the disk up to there.
    unflushed: Option<i64>,
}

impl Opening {
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.moment.snapshot
    }

    /// The tables that are tracked.
    pub(super) fn logs(&self) -> &HashMap<String, LogState> {
        &self.moment.logs
    }

    pub(super) fn note_orphans(&mut self, orphans: Digests) {
        self.moment.orphans = orphans;
    }
}

/// Why there is no snapshot.
pub(super) enum Unopened {
    /// Another session has locked a table of the download.
    Locked,
    /// Something is not there that was deployed.
    Missing(Failure),
    Failed(Failure),
}

impl Unopened {
    pub(super) fn of(fault: Fault) -> Unopened {
        let (locked, missing) = (read_lock::has_waited(&fault), read_lock::is_missing(&fault));
        match (locked, missing) {
            (true, _) => Unopened::Locked,
            (_, true) => Unopened::Missing(failed("lock what a download reads")(fault)),
            _ => Unopened::Failed(catalog::not_deployed(fault)),
        }
    }
}

/// Begins the transaction with the snapshot of the download, after the lock on all its tables, for
/// which it may wait.
pub(super) fn open(
    link: &mut Link,
    request: &FetchRequest<'_>,
    tables: &[Arc<Table>],
    (lock, waits): (&ReadLock, bool),
) -> Result<Opening, Unopened> {
    let remote_id = request.session.remote_id.as_str();
    let (state, shown) = (state(), new_keys::shown(request));
    let remote: [&(dyn ToSql + Sync); 1] = [&remote_id];
    let asked: [&(dyn ToSql + Sync); 2] = [&remote_id, &shown];
    let questions = Questions::new(tables, request, own_upload(request.echo, link.place()));
    let values = questions.values(request);
    let parameters: Vec<_> = values.iter().map(|values| cursor::as_parameters(values)).collect();
    let mut calls = vec![Call::new("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &[])];
    calls.extend(lock.calls(waits));
    let at = calls.len();
    let (published, relations) = watch::watched(tables);
    let (watched, changed): ([&(dyn ToSql + Sync); 2], _) =
        ([&published, &relations], watch::changed());
    calls.extend([
        Call::new(&state, &asked),
        Call::new(owed::READ, &remote),
        Call::new(&changed, &watched),
    ]);
    let first = calls.len();
    calls.extend(questions.calls(&parameters));
    let mut answers = link.begin(&calls).map_err(Unopened::of)?;
    let stillness = questions.understand(&answers[first..]);
    answers.truncate(first);
    let [state, owed, changed]: [Answer; 3] = answers.split_off(at).try_into().map_err(|_| {
        Unopened::Failed(Failure::new(Code::Bug, "a flight has other answers than calls"))
    })?;
    let opening = opening(link, &state.rows, owed.rows, stillness).map_err(Unopened::Failed)?;
    Ok(Opening { changed: watch::found(&changed), ..opening })
}

fn opening(
    link: &Link,
    state: &[Row],
    owed: Vec<Row>,
    stillness: Stillness,
) -> Result<Opening, Failure> {
    let deployment = state.first().and_then(|row| row.try_get(5).ok());
    let deployment = deployment
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))?;
    let garbled = || Failure::new(Code::Drift, "the state of the database cannot be read");
    let moment = moment(link, state).ok_or_else(garbled)?;
    let read = |row: &Row| Some((row.try_get(7).ok()?, row.try_get(8).ok()?));
    let (written, flushed): (i64, i64) = state.first().and_then(read).ok_or_else(garbled)?;
    let unflushed = (flushed < written).then_some(written);
    Ok(Opening { deployment, moment, owed, stillness, changed: Vec::new(), unflushed })
}

fn moment(link: &Link, rows: &[Row]) -> Option<Moment> {
    let state = rows.first()?;
    let snapshot = Snapshot::parse(state.try_get(3).ok()?)?;
    let uploaded: Option<i64> = state.try_get(6).ok()?;
    let mut logs = HashMap::with_capacity(rows.len());
    for row in rows {
        // None where there is no log at all.
        let Some(table) = row.try_get::<Option<String>>(0).ok()? else { continue };
        let floor: &str = row.try_get(2).ok()?;
        let log = LogState {
            incarnation: row.try_get(1).ok()?,
            floor: floor.parse().ok()?,
            bypassed: row.try_get(11).ok()?,
            loose: row.try_get(12).ok()?,
            keys_changed: row.try_get(13).ok()?,
        };
        logs.insert(table, log);
    }
    Some(Moment {
        place: link.place(),
        perishable: uploaded.map_or(0, |low| after(low as u32, snapshot.xmax)),
        snapshot,
        generation: state.try_get(4).ok()?,
        void: Void {
            counter: Counter(state.try_get::<Option<i64>>(9).ok()?.unwrap_or(0)),
            deletes_lost: state.try_get::<Option<bool>>(10).ok()?.unwrap_or(false),
        },
        logs,
        orphans: Digests::new(),
    })
}

/// The number after the transaction whose lower half is `low`, which began before `now`.
fn after(low: u32, now: u64) -> u64 {
    let ago = (now as u32).wrapping_sub(low);
    now.saturating_sub(u64::from(ago)) + 1
}

/// Tables that are sent as a whole every time need no query.
fn warn_of_refreshes(tables: &[Arc<Table>], spans: &[Span], request: &FetchRequest<'_>) {
    let whole = |position: &usize| spans[*position].mode == DownloadedTable::Refresh;
    let unplanned = |position: &usize| !tables[*position].deployed.details.afresh;
    let refreshed = (0..tables.len()).filter(whole).filter(unplanned);
    let named = refreshed.map(|at| (at, tables[at].deployed.published.name.as_str()));
    request.warn_of_refreshes(named);
}

/// Sends everything of `request` to `sink`, and ends the transaction.
pub(super) fn fetch(
    link: &mut Link,
    tables: &[Arc<Table>],
    request: &FetchRequest<'_>,
    timelines: &Timelines,
    opening: &Opening,
    sink: Sink<'_>,
) -> Result<Fetched, Failure> {
    let moment = &opening.moment;
    let mut spans = Vec::with_capacity(tables.len());
    for (position, table) in tables.iter().enumerate() {
        let held = request.marks.get(position);
        spans.push(moment.span(table, request.session, held, timelines, request.counter)?);
    }
    let marks = request.present_marks().filter_map(|held| Mark::read(held.watermark.as_ref()?));
    let others = marks.filter(|mark| !moment.is_past(mark, timelines, request.counter));
    let others: Vec<Mark> = others.collect();
    let other_generation = others.iter().any(|mark| !moment.is_of_void(mark, request.counter));
    let deletes_lost = !others.is_empty() && (other_generation || moment.void.deletes_lost);
    warn_of_refreshes(tables, &spans, request);
    let modes = spans.iter().map(|span| span.mode).collect();
    let (restored, waiting) = (!others.is_empty(), request.session.waiting.clone());
    sink(DownloadBatch::Begin { tables: modes, restored, deletes_lost, waiting })?;
    let mut owed = owed::understand(&opening.owed, tables)?;
    owed::tell(&owed, request, tables.len(), sink)?;
    owed.retain(|row| !row.is_too_large(request));
    let own_upload = own_upload(request.echo, moment.place);
    let cursors = plan(tables, &spans, &owed, request, own_upload, &opening.stillness)?;
    let unflushed = opening.unflushed;
    let stillness = &opening.stillness;
    let search = Search { tables, spans: &spans, request, moment, stillness, own_upload };
    let download = Download::new(tables, &owed, search.find(link)?, request, sink);
    let (fetched, flushed) = run(link, tables, &cursors, unflushed, download)?;
    // A download without rows need not wait, because nothing of it can be lost.
    if let Some(place) = unflushed.filter(|_| !flushed && fetched.rows > 0) {
        durable::flush(link, place)?;
    }
    let watermarks = spans.iter().enumerate().map(|(position, span)| {
        let until = span.until.write()?;
        Ok(request.watermark(position, Some(until)))
    });
    Ok(Fetched { watermarks: watermarks.collect::<Result<_, Failure>>()?, ..fetched })
}

/// The transaction that the remote need not be sent. The upload may have
/// gone to a server whose place this one has taken since.
fn own_upload(echo: &Echo, place: Place) -> Xid8 {
    let here =
        |upload: &Transaction| (upload.system, upload.timeline) == (place.system, place.timeline);
    Xid8(echo.upload.filter(here).map_or(NO_TRANSACTION, |upload| upload.number))
}

/// A statement of the second flight, and what its rows are.
struct Cursor<'a> {
    event: Event,
    statement: &'a Statement,
    values: Vec<Value<'a>>,
    batches: Batches,
}

impl Cursor<'_> {
    /// For a table that is sent as a whole, a new plan is better than the kept one.
    fn keeps_plan(&self) -> bool {
        self.statement.keeps_plan && !self.batches.refreshed
    }
}

/// Everything that is to be asked, in the order in which it is sent.
fn plan<'a>(
    tables: &'a [Arc<Table>],
    spans: &'a [Span],
    owed: &[Owed],
    request: &'a FetchRequest<'a>,
    own_upload: Xid8,
    stillness: &Stillness,
) -> Result<Vec<Cursor<'a>>, Failure> {
    let mut cursors = Vec::new();
    for (position, (table, span)) in tables.iter().zip(spans).enumerate() {
        let refreshed = span.mode == DownloadedTable::Refresh;
        let source = Source { session: request.session, since: span.since.as_ref(), own_upload };
        let mut add = |event: Event, kind: Kind| -> Result<(), Failure> {
            let statement = table.required(event)?;
            let batches = Batches { position, kind, refreshed };
            let values = statement.slots.iter().map(|slot| match slot {
                Slot::NewColumn(column) | Slot::OldColumn(column) => {
                    Ok(Value::Keys(owed::keys(owed, position, table, *column)?))
                }
                _ => Ok(source.value(slot)),
            });
            let values = values.collect::<Result<_, Failure>>()?;
            cursors.push(Cursor { event, statement, values, batches });
            Ok(())
        };
        if span.mode != DownloadedTable::None {
            add(Event::DownloadCursor, Kind::Rows)?;
            if !refreshed && !stillness.is_about(table, span.since.as_ref(), own_upload) {
                add(Event::DownloadDeleteCursor, Kind::DeletedKeys)?;
            }
            if owed.iter().any(|row| row.table == position) {
                add(Event::UploadFetch, Kind::Owed)?;
            }
        }
    }
    Ok(cursors)
}

fn run(
    link: &mut Link,
    tables: &[Arc<Table>],
    cursors: &[Cursor<'_>],
    unflushed: Option<i64>,
    mut download: Download<'_, '_>,
) -> Result<(Fetched, bool), Failure> {
    let parameters: Vec<_> =
        cursors.iter().map(|cursor| cursor::as_parameters(&cursor.values)).collect();
    // The plans that are kept first: it is a setting.
    let kept = cursors.iter().take_while(|cursor| cursor.keeps_plan()).count();
    let mut calls: Vec<Call<'_>> = Vec::with_capacity(cursors.len() + FOR_SCRIPTS.len() + 1);
    // Which cursor a call is.
    let mut places: Vec<Option<usize>> = Vec::with_capacity(calls.capacity());
    for (at, (cursor, parameters)) in cursors.iter().zip(&parameters).enumerate() {
        if at == kept {
            calls.extend(FOR_SCRIPTS.map(|sql| Call::new(sql, &[])));
            places.resize(calls.len(), None);
        }
        calls.push(Call::new(&cursor.statement.sql, parameters));
        places.push(Some(at));
    }
    let log_end: [&(dyn ToSql + Sync); 1] = [&unflushed];
    let asks_at = calls.len();
    calls.extend(unflushed.map(|_| Call::new(durable::IS_FLUSHED, &log_end)));
    calls.push(Call::new("COMMIT", &[]));
    let mut flushed = unflushed.is_none();
    let batches: Vec<Batches> = cursors.iter().map(|cursor| cursor.batches).collect();
    let place = |call: usize| places.get(call).copied().flatten();
    let flown = link.stream(&calls, &mut |call, row| match place(call) {
        Some(cursor) => download.row(&batches, cursor, row),
        None => {
            flushed |= call == asks_at && durable::is_flushed(&row.to_row());
            Ok(())
        }
    });
    flown.map_err(|fault| match place(fault.call) {
        Some(at) => {
            let Cursor { batches, event, .. } = &cursors[at];
            let name = &tables[batches.position].deployed.published.name;
            script_failed(name, event.name())(fault)
        }
        None => failed("read the snapshot to its end")(fault),
    })?;
    Ok((download.finish(&batches)?, flushed))
}

/// For values of system tables.
pub(super) fn unreadable(error: Unreadable) -> Failure {
    Failure::new(Code::Drift, "a system table differs from the one that deploy created")
        .source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 2, Trap 8: promotion gives numbers out again.
    #[test]
    fn a_transaction_of_another_timeline_is_not_our_own_upload() {
        let echo_at = |system, timeline| {
            let mut echo = Echo::default();
            echo.upload = Some(Transaction { system, timeline, number: 700 });
            echo
        };
        let here = Place { system: 1, timeline: 1 };
        assert_eq!(own_upload(&echo_at(1, 1), here), Xid8(700));
        for elsewhere in [echo_at(1, 2), echo_at(2, 1), Echo::default()] {
            assert_eq!(own_upload(&elsewhere, here), Xid8(0));
        }
    }
}
