//! Fetches one download from one snapshot, in two flights: what is there to do, then all rows.
//!
//! Invariants:
//! F1. Rows and watermarks come from the same snapshot, so nothing is between them (S2).
//! F2. What the remote is owed is sent whatever its watermark says (trap 5).

use super::catalog::{self, Table};
use super::errors::{failed, script_failed};
use super::link::{Answer, Call, Link, Row, Unreadable};
use super::owed::{self, Owed};
use super::rows::{Batches, Download, Kind};
use super::snapshot::Snapshot;
use super::span::{LogState, Moment, Span, session_value};
use super::statement::{Slot, Statement};
use super::timeline::Timelines;
use super::watermark::{Mark, Place};
use crate::echo::{Echo, Transaction};
use crate::script::{Event, Parameter};
use crate::synchronization::{DownloadBatch, DownloadedTable, FetchRequest, Fetched};
use model::{Code, Failure};
use postgres_types::ToSql;
use std::collections::HashMap;
use std::sync::Arc;

/// Where the parts of a download go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(DownloadBatch) -> Result<(), Failure>;

/// Each log, and beside it the state of the database: once also where there is no log. Of the
/// transaction that uploaded last for the remote, the lower half of its number.
const STATE: &str = "SELECT log.table_name, log.incarnation, log.floor::text,
    (SELECT pg_current_snapshot()::text),
    (SELECT value::int8 FROM syncline.syncline_system WHERE name = 'generation'),
    (SELECT value::int8 FROM syncline.syncline_system WHERE name = 'deployment'),
    (SELECT xmin::text::int8 FROM syncline.syncline_remote WHERE remote_id = $1)
FROM (SELECT) AS state LEFT JOIN syncline.syncline_log_state AS log ON TRUE";

/// The number of none.
const NO_TRANSACTION: u64 = 0;

/// What a download reads is for the planner to decide, anew each time (decision 0010).
const FOR_SCRIPTS: &str = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('enable_seqscan', 'on', true)";

/// A download's transaction, and what it found.
pub(super) struct Opening {
    pub(super) deployment: i64,
    moment: Moment,
    owed: Vec<Row>,
}

impl Opening {
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.moment.snapshot
    }
}

/// Begins the transaction whose snapshot everything comes from.
pub(super) fn open(link: &mut Link, request: &FetchRequest<'_>) -> Result<Opening, Failure> {
    let remote_id = request.session.remote_id.as_str();
    let answers = link
        .begin(&[
            Call::new("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &[]),
            Call::new(STATE, &[&remote_id]),
            Call::new(owed::READ, &[&remote_id]),
            Call::new(FOR_SCRIPTS, &[]),
        ])
        .map_err(catalog::not_deployed)?;
    let [_, state, owed, _]: [Answer; 4] = answers
        .try_into()
        .map_err(|_| Failure::new(Code::Bug, "a flight has other answers than calls"))?;
    let deployment = state.rows.first().and_then(|row| row.try_get(5).ok());
    let deployment = deployment
        .ok_or_else(|| Failure::new(Code::NotDeployed, "nothing is deployed in this database"))?;
    let moment = moment(link, &state.rows)
        .ok_or_else(|| Failure::new(Code::Drift, "the state of the database cannot be read"))?;
    Ok(Opening { deployment, moment, owed: owed.rows })
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
        let log = LogState { incarnation: row.try_get(1).ok()?, floor: floor.parse().ok()? };
        logs.insert(table, log);
    }
    Some(Moment {
        place: link.place(),
        perishable: uploaded.map_or(0, |low| after(low as u32, snapshot.xmax)),
        snapshot,
        generation: state.try_get(4).ok()?,
        logs,
    })
}

/// The number after the transaction whose lower half is `low`, which began before `now`.
fn after(low: u32, now: u64) -> u64 {
    let ago = (now as u32).wrapping_sub(low);
    now.saturating_sub(u64::from(ago)) + 1
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
    let restored = request
        .marks
        .iter()
        .filter_map(|held| Mark::read(held.watermark.as_ref()?))
        .any(|mark| mark.generation != moment.generation);
    let modes = spans.iter().map(|span| span.mode).collect();
    sink(DownloadBatch::Begin { tables: modes, restored })?;
    let owed = owed::understand(&opening.owed, tables)?;
    owed::reject(&owed, sink)?;
    let own_upload = own_upload(request.echo, moment.place);
    let cursors = plan(tables, &spans, &owed, request, &own_upload)?;
    let fetched = run(link, tables, &cursors, &owed, request, sink)?;
    let watermarks = spans.iter().map(|span| span.until.write().map(Some));
    Ok(Fetched { watermarks: watermarks.collect::<Result<_, _>>()?, ..fetched })
}

/// The number of the transaction that the remote need not be sent, as text. The upload may have
/// gone to a server whose place this one has taken since.
fn own_upload(echo: &Echo, place: Place) -> String {
    let here =
        |upload: &Transaction| (upload.system, upload.timeline) == (place.system, place.timeline);
    let number = echo.upload.filter(here).map_or(NO_TRANSACTION, |upload| upload.number);
    number.to_string()
}

/// A statement of the second flight, and what its rows are.
struct Cursor<'a> {
    event: Event,
    statement: &'a Statement,
    values: Vec<Value<'a>>,
    batches: Batches,
}

/// The value of a parameter.
enum Value<'a> {
    Text(Option<&'a str>),
    Snapshot(Option<String>),
    Number(&'a str),
    Keys(owed::KeyArray),
}

impl Value<'_> {
    fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Value::Text(text) => text,
            Value::Snapshot(text) => text,
            Value::Number(text) => text,
            Value::Keys(keys) => keys,
        }
    }
}

/// Everything that is to be asked, in the order in which it is sent.
fn plan<'a>(
    tables: &'a [Arc<Table>],
    spans: &[Span],
    owed: &[Owed],
    request: &'a FetchRequest<'a>,
    own_upload: &'a str,
) -> Result<Vec<Cursor<'a>>, Failure> {
    let mut cursors = Vec::new();
    for (position, (table, span)) in tables.iter().zip(spans).enumerate() {
        let refreshed = span.mode == DownloadedTable::Refresh;
        let mut add = |event: Event, kind: Kind| -> Result<(), Failure> {
            let statement = table.required(event)?;
            let batches = Batches { position, kind, refreshed };
            let mut values = Vec::with_capacity(statement.slots.len());
            for slot in &statement.slots {
                values.push(match slot {
                    Slot::Session(Parameter::LastDownload) => {
                        Value::Snapshot(span.since.as_ref().map(Snapshot::text))
                    }
                    Slot::Session(Parameter::LastUpload) => Value::Number(own_upload),
                    Slot::Session(parameter) => {
                        Value::Text(session_value(parameter, request.session))
                    }
                    Slot::NewColumn(column) | Slot::OldColumn(column) => {
                        Value::Keys(owed::keys(owed, position, table, *column)?)
                    }
                    Slot::New(_) | Slot::Old(_) => Value::Text(None),
                });
            }
            cursors.push(Cursor { event, statement, values, batches });
            Ok(())
        };
        if span.mode != DownloadedTable::None {
            add(Event::DownloadCursor, Kind::Rows)?;
            if !refreshed {
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
    owed: &[Owed],
    request: &FetchRequest<'_>,
    sink: Sink<'_>,
) -> Result<Fetched, Failure> {
    let parameters: Vec<Vec<&(dyn ToSql + Sync)>> = cursors
        .iter()
        .map(|cursor| cursor.values.iter().map(Value::as_parameter).collect())
        .collect();
    let with_parameters = cursors.iter().zip(&parameters);
    let mut calls: Vec<Call<'_>> = with_parameters
        .map(|(cursor, parameters)| Call::new(&cursor.statement.sql, parameters))
        .collect();
    calls.push(Call::new("COMMIT", &[]));
    let mut download = Download::new(tables, owed, request, sink);
    let batches: Vec<Batches> = cursors.iter().map(|cursor| cursor.batches).collect();
    link.stream(&calls, &mut |call, row| download.row(&batches, call, row)).map_err(|fault| {
        match cursors.get(fault.call) {
            Some(cursor) => {
                let name = &tables[cursor.batches.position].deployed.published.name;
                script_failed(name, cursor.event.name())(fault)
            }
            None => failed("end the snapshot")(fault),
        }
    })?;
    download.finish(&batches)
}

/// For values of system tables.
pub(super) fn unreadable(error: Unreadable) -> Failure {
    Failure::new(Code::Drift, "a system table is not what deploy made").source(error)
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
        assert_eq!(own_upload(&echo_at(1, 1), here), "700");
        for elsewhere in [echo_at(1, 2), echo_at(2, 1), Echo::default()] {
            assert_eq!(own_upload(&elsewhere, here), "0");
        }
    }
}
