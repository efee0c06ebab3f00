//! Fetches one download from one snapshot, in two flights.
//!
//! The first reads the state of the tables, and the second all rows. Most owed rows have changed,
//! so the cursor of their table returns them. If they are many, or those of the last table, only
//! those that it does not return are looked up, in one more flight.
//!
//! Invariants:
//! F1. Rows and watermarks come from the same snapshot, so no change is between them (S2).
//! F2. Owed rows are sent whatever the watermark of the remote says (trap 5).

pub(super) mod claims;
pub(super) mod cursor;
pub(super) mod durable;
pub(super) mod fetcher;
pub(super) mod guard;
mod key_order;
pub(super) mod moment;
pub(super) mod orphans;
pub(super) mod owed;
pub(super) mod own_cursor;
pub(super) mod read_lock;
pub(super) mod rows;
pub(super) mod scripted;
pub(super) mod search;
pub(super) mod snapshot;
pub(super) mod time;
pub(super) mod timeline;
pub(super) mod typed_claim;
pub(super) mod unreadable;
pub(super) mod watermark;
pub(super) mod withhold;

use crate::download::batches::{Kind, Part, Stretch};
use crate::download::owed::{OwedEntries, OwedKeys, Page};
use crate::download::resume::Window;
use crate::download::{self, Sink, range};
use crate::identity::Void;
use crate::postgres::catalog;
use crate::postgres::catalog::table::Table;
use crate::postgres::connect::BY_BITMAP_LOCALLY;
use crate::postgres::download::cursor::{Cursor, FOR_SCRIPTS, Source};
use crate::postgres::download::moment::{Digests, DownloadRange, LogState, Moment, Witness};
use crate::postgres::download::read_lock::ReadLock;
use crate::postgres::download::rows::Download;
use crate::postgres::download::scripted::Scripted;
use crate::postgres::download::search::Search;
use crate::postgres::download::snapshot::{Snapshot, Xid8};
use crate::postgres::download::timeline::Timelines;
use crate::postgres::download::unreadable::Unfetched;
use crate::postgres::download::watermark::{Mark, NumberSpace};
use crate::postgres::errors::{Fault, failed, script_failed};
use crate::postgres::link::{Answer, Call, Link, Row};
use crate::postgres::optimize::departure_probe::{DepartureProbe, Questions};
use crate::postgres::statement::{Value, as_parameters};
use crate::postgres::tracking::watch;
use crate::script::Event;
use crate::synchronization::{DownloadedTable, FetchRequest, Fetched, Session};
use crate::upload::echo::{Echo, Transaction};
use model::{Code, Counter, Failure, Spills};
use postgres_types::{PgLsn, ToSql};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Each log, and beside it the state of the database: once also where there is no log. Of the
/// transaction that uploaded last for the remote, the lower half of its number. `$1` is the remote,
/// `$2` the tables whose triggers are watched.
static STATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT log.table_name, log.incarnation, log.floor::text,
    (SELECT pg_current_snapshot()::text),
    (SELECT value::int8 FROM syncline.syncline_system WHERE name = 'generation'),
    (SELECT value::int8 FROM syncline.syncline_system WHERE name = 'deployment'),
    remote.xmin::text::int8, pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn(),
    remote.void_counter, remote.deletes_lost,
    log.bypassed::text, log.bypassed IS DISTINCT FROM log.settled,
    {changed}
FROM (SELECT) AS state
LEFT JOIN syncline.syncline_remote AS remote ON remote.remote_id = $1
LEFT JOIN syncline.syncline_logs AS log ON TRUE
{watched}",
        changed = *watch::IS_CHANGED,
        watched = watch::watched_relation("$2"),
    )
});

/// Where [`STATE`] says whether the triggers of a table differ from the deployment.
const CHANGED_AT: usize = 13;

/// The number of none.
const NO_TRANSACTION: u64 = 0;

/// Which connection fetches a download.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    /// One that only reads.
    ReadOnly,
    /// One that writes, because scripts of the download may write.
    ReadWrite,
}

impl Access {
    /// How its transaction begins, before the snapshot.
    fn begin(self) -> Vec<Call<'static>> {
        let begin = |sql| Call::new(sql, &[]);
        match self {
            Access::ReadOnly => vec![begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")],
            Access::ReadWrite => {
                let first = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE"];
                first.into_iter().chain(BY_BITMAP_LOCALLY).map(begin).collect()
            }
        }
    }

    /// How it ends, behind the last rows.
    fn end(self) -> Option<Call<'static>> {
        matches!(self, Access::ReadOnly).then(|| Call::new("COMMIT", &[]))
    }
}

/// A download's transaction, and what it found.
pub(super) struct Opening {
    access: Access,
    pub(super) deployment: i64,
    moment: Moment,
    owed: Vec<Row>,
    departures: DepartureProbe,
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
    (access, lock, waits): (Access, &ReadLock, bool),
) -> Result<Opening, Unopened> {
    let time = time::before_snapshot(link, tables, request.session).map_err(Unopened::Failed)?;
    let remote_id = request.session.remote_id.as_str();
    let watched = watch::watched(tables);
    let remote: [&(dyn ToSql + Sync); 1] = [&remote_id];
    let asked: [&(dyn ToSql + Sync); 2] = [&remote_id, &watched];
    let questions = Questions::new(tables, request, own_upload(request.echo, link.number_space()));
    let values = questions.values(request);
    let parameters: Vec<_> = values.iter().map(|values| as_parameters(values)).collect();
    let mut calls = access.begin();
    calls.extend(lock.calls(waits));
    let at = calls.len();
    calls.extend([Call::new(&owed::READ, &remote), Call::new(&STATE, &asked)]);
    let first = calls.len();
    calls.extend(questions.calls(&parameters));
    let mut answers = link.begin(&calls).map_err(Unopened::of)?;
    let departures = questions.understand(&answers[first..]);
    answers.truncate(first);
    let [owed, state]: [Answer; 2] = answers.split_off(at).try_into().map_err(|_| {
        Unopened::Failed(Failure::new(Code::Bug, "a flight has other answers than calls"))
    })?;
    let mut opening =
        opening(link, &state.rows, owed.rows, departures).map_err(Unopened::Failed)?;
    opening.moment.time = time;
    Ok(Opening { access, changed: watched.changed(&state, CHANGED_AT), ..opening })
}

fn opening(
    link: &Link,
    state: &[Row],
    owed: Vec<Row>,
    departures: DepartureProbe,
) -> Result<Opening, Failure> {
    let deployment = state.first().and_then(|row| row.try_get(5).ok());
    let deployment = deployment
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))?;
    let garbled = || Failure::new(Code::Drift, "the state of the database cannot be read");
    let moment = moment(link, state).ok_or_else(garbled)?;
    let read = |row: &Row| Some((row.try_get(7).ok()?, row.try_get(8).ok()?));
    let (written, flushed): (PgLsn, PgLsn) = state.first().and_then(read).ok_or_else(garbled)?;
    let unflushed = (flushed < written).then(|| u64::from(written).cast_signed());
    let (access, changed) = (Access::ReadOnly, Vec::new());
    Ok(Opening { access, deployment, moment, owed, departures, changed, unflushed })
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
        };
        logs.insert(table, log);
    }
    Some(Moment {
        space: link.number_space(),
        perishable: uploaded.map_or(0, |low| after(low as u32, snapshot.xmax)),
        snapshot,
        generation: state.try_get(4).ok()?,
        void: Void {
            counter: Counter(state.try_get::<Option<i64>>(9).ok()?.unwrap_or(0)),
            deletes_lost: state.try_get::<Option<bool>>(10).ok()?.unwrap_or(false),
        },
        logs,
        orphans: Digests::new(),
        time: None,
    })
}

/// The number after the transaction whose lower half is `low`, which began before `now`.
fn after(low: u32, now: u64) -> u64 {
    let ago = (now as u32).wrapping_sub(low);
    now.saturating_sub(u64::from(ago)) + 1
}

/// Sends everything of `request` to `sink`, and ends the transaction. When it is `isolating`, rows
/// that no script can read are found before and left to the cursors.
pub(super) fn fetch(
    link: &mut Link,
    tables: &[Arc<Table>],
    request: &FetchRequest<'_>,
    timelines: &Timelines,
    (opening, isolating, mut scripted): (&Opening, bool, Option<Scripted>),
    spills: &Arc<Spills>,
    mut sink: Sink<'_>,
) -> Result<Fetched, Unfetched> {
    let moment = &opening.moment;
    let mut judged = range::all(&Witness { moment, timelines }, tables, request)?;
    if let Some(scripted) = &mut scripted {
        scripted.begin(link, judged.times())?;
    }
    let session = scripted.as_ref().map(|scripted| scripted.session().clone());
    let session = session.as_ref().unwrap_or(request.session);
    let request = &FetchRequest { session, ..*request };
    for position in key_order::large(link, tables, judged.unordered(tables), request)? {
        judged.order(position);
    }
    for position in
        wanted_whole(link, tables, &judged.tables, judged.may_be_refreshed(tables), request)?
    {
        judged.refresh(position);
    }
    judged.begin(tables, request, sink)?;
    let ranges = &judged.tables;
    let settled = download::owed::settled(request.marks, tables.len(), Mark::counter_of);
    let mut entries = OwedEntries::new(spills, ranges, settled, request, &mut sink);
    let remote_id = request.session.remote_id.as_str();
    entries.want(request)?;
    owed::read(link, &opening.owed, remote_id, tables, &mut entries)?;
    let (mut owed, unreadable) = entries.end();
    let isolating = isolating || unreadable;
    let own_upload = own_upload(request.echo, moment.space);
    let unflushed = opening.unflushed;
    // Scripts may have removed rows since it was asked about.
    let departures = Some(&opening.departures).filter(|_| scripted.is_none());
    let search = Search { tables, ranges, request, departures, own_upload };
    if isolating {
        unreadable::leave_to_cursors(link, search, &mut owed, sink)?;
    }
    let windows: Vec<Windows> = ranges.iter().map(Windows::of).collect();
    let first = |position| scripted.as_ref().is_some_and(|it: &Scripted| it.surrounds(position));
    let cursors = plan(search, &windows, &owed, &first)?;
    if let Some(scripted) = &mut scripted {
        let parts: Vec<Part> = cursors.iter().map(|cursor| cursor.part).collect();
        let sent = (0..ranges.len()).filter(|at| ranges[*at].is_sent());
        scripted.place(&parts, sent);
    }
    let download = Download::new(tables, owed, request, sink);
    let access = opening.access;
    let flights = (access, unflushed, scripted.as_mut());
    let (mut fetched, flushed) = run(link, tables, &cursors, flights, download)?;
    if let Some(scripted) = scripted {
        scripted.end(link, judged.next_time(), &mut fetched)?;
        judged.hand_out(&fetched.by_scripts);
    }
    if let Access::ReadWrite = access {
        let committing = failed("commit what was written during a download");
        link.flight(&[Call::new("COMMIT", &[])]).map_err(committing)?;
    }
    // A download without rows need not wait, because nothing of it can be lost.
    if let Some(place) = unflushed.filter(|_| !flushed && fetched.rows > 0) {
        durable::flush(link, place)?;
    }
    Ok(Fetched { watermarks: judged.watermarks(request)?, ..fetched })
}

/// The transaction that the remote need not be sent. The upload may have
/// gone to a server whose place this one has taken since.
fn own_upload(echo: &Echo, space: NumberSpace) -> Xid8 {
    let here =
        |upload: &Transaction| (upload.system, upload.timeline) == (space.system, space.timeline);
    Xid8(echo.upload.filter(here).map_or(NO_TRANSACTION, |upload| upload.number))
}

/// Those of the tables at `positions` whose own cursor of deleted keys returns a row of NULLs.
fn wanted_whole(
    link: &mut Link,
    tables: &[Arc<Table>],
    ranges: &[DownloadRange],
    positions: Vec<usize>,
    request: &FetchRequest<'_>,
) -> Result<Vec<usize>, Failure> {
    let asked = positions.into_iter().filter_map(|at| {
        let statement = tables[at].nulls.as_ref()?;
        let DownloadRange { since, times, .. } = &ranges[at];
        let (session, own_upload) = (request.session, Xid8(NO_TRANSACTION));
        let source = Source { session, since: since.as_ref(), own_upload, times: *times };
        let values: Vec<_> = statement.slots.iter().map(|slot| source.value(slot)).collect();
        Some((at, statement, values))
    });
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let parameters: Vec<_> = asked.iter().map(|(.., values)| as_parameters(values)).collect();
    let calls = asked.iter().zip(&parameters);
    let calls: Vec<_> =
        calls.map(|((_, statement, _), values)| Call::new(&statement.sql, values)).collect();
    let answers = link.flight(&calls).map_err(|fault| {
        let name = asked
            .get(fault.call)
            .map_or("", |(at, ..)| tables[*at].deployed.published.name.as_str());
        script_failed(name, Event::DownloadDeleteCursor.name())(fault)
    })?;
    let answered = asked.iter().zip(&answers).filter(|(_, answer)| answer.affected > 0);
    Ok(answered.map(|((at, ..), _)| *at).collect())
}

/// The readings of a table.
struct Windows {
    rows: Vec<Window<Snapshot>>,
    deletes: Vec<Window<Snapshot>>,
}

impl Windows {
    fn of(range: &DownloadRange) -> Windows {
        Windows { rows: range.windows(), deletes: range.delete_windows() }
    }
}

/// Everything that is to be asked, in the order in which it is sent.
fn plan<'a>(
    search: Search<'a>,
    windows: &'a [Windows],
    owed: &[OwedKeys],
    deletes_first: &dyn Fn(usize) -> bool,
) -> Result<Vec<Cursor<'a>>, Failure> {
    let Search { tables, ranges, request, departures, own_upload } = search;
    let mut cursors = Vec::new();
    let last = ranges.iter().rposition(DownloadRange::is_sent);
    for (position, (table, range)) in tables.iter().zip(ranges).enumerate() {
        if !range.is_sent() {
            continue;
        }
        let refreshed = range.mode == DownloadedTable::Refresh;
        let owed = &owed[position];
        let meets_owed = owed.are_many() || last == Some(position);
        let (session, times) = (request.session, range.times);
        let source = |since| Source { session, since, own_upload, times };
        let part = |kind: Kind| {
            let own = range.is_own(kind.event());
            Part { position, kind, refreshed, meets_owed, own, stretch: None }
        };
        let deletes_first = deletes_first(position);
        let cursor = |kind: Kind, window: &'a Window<Snapshot>| -> Result<Cursor<'a>, Failure> {
            let event = kind.event();
            let statement = key_order::statement((event, table.required(event)?), table, window);
            let stretch = Stretch::of(range, window, kind, deletes_first);
            let part = Part { stretch, ..part(kind) };
            let bounds = [window.low.as_deref(), window.high.as_deref()];
            Ok(Cursor { event, statement, source: source(window.since.as_ref()), bounds, part })
        };
        let Windows { rows, deletes } = &windows[position];
        let is_quiet = |window: &&Window<Snapshot>| {
            let probed = departures.zip(window.since.as_ref());
            probed.is_some_and(|(probe, since)| probe.is_about(table, since, own_upload))
        };
        // Where there is an order, the remote is told that there are none.
        let deletes = deletes.iter().filter(|window| window.ordered || !is_quiet(window));
        let deletes = deletes.map(|window| cursor(Kind::DeletedKeys, window));
        let rows = rows.iter().map(|window| cursor(Kind::Rows, window));
        let both: Result<Vec<_>, _> = match deletes_first {
            true => deletes.chain(rows).collect(),
            false => rows.chain(deletes).collect(),
        };
        cursors.extend(both?);
        if !owed.is_empty() {
            let (event, statement) = table.lookup()?;
            let (statement, source) = (Cow::Borrowed(statement), search.source());
            let part = part(Kind::Owed);
            cursors.push(Cursor { event, statement, source, bounds: [None; 2], part });
        }
    }
    Ok(cursors)
}

/// Sends the cursors, those that wait for others in flights of their own, and ends a transaction
/// that has only read. What was written is committed when all rows have found their place: who
/// gives up a flight does not keep the database from running it to its end.
fn run(
    link: &mut Link,
    tables: &[Arc<Table>],
    cursors: &[Cursor<'_>],
    (access, unflushed, mut scripted): (Access, Option<i64>, Option<&mut Scripted>),
    mut download: Download<'_, '_>,
) -> Result<(Fetched, bool), Unfetched> {
    let parts: Vec<Part> = cursors.iter().map(|cursor| cursor.part).collect();
    // The plans that are kept first: it is a setting.
    let kept = cursors.iter().take_while(|cursor| cursor.keeps_plan()).count();
    let log_end: [&(dyn ToSql + Sync); 1] = [&unflushed];
    let mut flushed = unflushed.is_none();
    let mut flown = 0;
    let mut set = scripted.is_some();
    // Up to which key rows were looked up for the cursor that comes next.
    let mut behind: Option<Vec<u8>> = None;
    loop {
        run_scripts(link, &mut scripted, (&mut download, &parts), flown)?;
        let stops = |at| scripted.as_ref().is_some_and(|scripted| scripted.stops_at(at));
        let next = (flown + 1..cursors.len()).find(|at| cursors[*at].waits() || stops(*at));
        let mut page = Page::default();
        if cursors.get(flown).is_some_and(Cursor::waits) {
            download.proceed(&parts, flown)?;
            page = download.findable(parts[flown].position, behind.as_deref())?;
        }
        behind = page.end().map(<[u8]>::to_vec);
        // More keys than one statement has are asked about in flights of their own.
        let (part, is_last) = match behind {
            Some(_) => (flown..flown + 1, false),
            None => (flown..next.unwrap_or(cursors.len()), next.is_none()),
        };
        flown = if behind.is_none() { part.end } else { flown };
        let session = scripted.as_ref().map(|scripted| scripted.session().clone());
        let asked = asked(tables, cursors, (part, session.as_ref()), &page.keys, &download)?;
        let parameters: Vec<_> =
            asked.iter().map(|(at, values)| (*at, as_parameters(values))).collect();
        let mut calls: Vec<Call<'_>> = Vec::with_capacity(asked.len() + FOR_SCRIPTS.len() + 2);
        // Which cursor a call is.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(calls.capacity());
        for (at, parameters) in &parameters {
            if *at >= kept && !set {
                set = true;
                calls.extend(FOR_SCRIPTS.map(|sql| Call::new(sql, &[])));
                places.resize(calls.len(), None);
            }
            calls.push(Call::new(&cursors[*at].statement.sql, parameters));
            places.push(Some(*at));
        }
        let asks_at = calls.len();
        if is_last {
            calls.extend(unflushed.map(|_| Call::new(durable::IS_FLUSHED, &log_end)));
            calls.extend(access.end());
        }
        let place = |call: usize| places.get(call).copied().flatten();
        let outcome = link.stream(&calls, &mut |call, row| match place(call) {
            Some(cursor) => download.row(&parts, cursor, row),
            None => {
                flushed |= call == asks_at && durable::is_flushed(&row.to_row());
                Ok(())
            }
        });
        outcome
            .map_err(|fault| unfetched(tables, place(fault.call).map(|at| &cursors[at]), fault))?;
        if is_last {
            run_scripts(link, &mut scripted, (&mut download, &parts), cursors.len())?;
            return Ok((download.finish(&parts)?, flushed));
        }
    }
}

/// Runs the scripts before the cursor at `at`, behind those whose rows have all arrived.
fn run_scripts(
    link: &mut Link,
    scripted: &mut Option<&mut Scripted>,
    (download, parts): (&mut Download<'_, '_>, &[Part]),
    at: usize,
) -> Result<(), Failure> {
    match scripted {
        Some(scripted) if scripted.stops_at(at) => {
            download.proceed(parts, at)?;
            scripted.run(link, at)
        }
        _ => Ok(()),
    }
}

fn unfetched(tables: &[Arc<Table>], cursor: Option<&Cursor<'_>>, fault: Fault) -> Unfetched {
    let Some(Cursor { part, event, .. }) = cursor else {
        return failed("read the snapshot to its end")(fault).into();
    };
    let table = &tables[part.position];
    match part.kind {
        Kind::Owed => Unfetched::reading(table, *event, fault),
        Kind::Rows | Kind::DeletedKeys => {
            script_failed(&table.deployed.published.name, event.name())(fault).into()
        }
    }
}

/// The cursors of `part` with their parameters, without those that have nothing to ask any more.
/// The one that waited asks about `keys`. A `session` knows what scripts have set.
fn asked<'v>(
    tables: &[Arc<Table>],
    cursors: &'v [Cursor<'_>],
    (part, session): (Range<usize>, Option<&'v Session>),
    keys: &[Vec<u8>],
    download: &Download<'_, '_>,
) -> Result<Vec<(usize, Vec<Value<'v>>)>, Failure> {
    let mut asked = Vec::with_capacity(part.len());
    for at in part {
        let (cursor, position) = (&cursors[at], cursors[at].part.position);
        let values = match cursor.part.kind {
            Kind::Owed if cursor.waits() && keys.is_empty() => continue,
            Kind::Owed if cursor.waits() => cursor.values(&tables[position], keys, session)?,
            // They are few.
            Kind::Owed => {
                let keys = download.findable(position, None)?.keys;
                cursor.values(&tables[position], &keys, session)?
            }
            Kind::Rows | Kind::DeletedKeys => cursor.values(&tables[position], &[], session)?,
        };
        asked.push((at, values));
    }
    Ok(asked)
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
        let here = NumberSpace { system: 1, timeline: 1 };
        assert_eq!(own_upload(&echo_at(1, 1), here), Xid8(700));
        for elsewhere in [echo_at(1, 2), echo_at(2, 1), Echo::default()] {
            assert_eq!(own_upload(&elsewhere, here), Xid8(0));
        }
    }
}
