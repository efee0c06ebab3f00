//! Fetches one download from one snapshot.
//!
//! Invariants:
//! F1. Rows and watermarks come from the same snapshot, so no change is between them (S2).
//! F2. Owed rows are sent whatever the watermark of the remote says (trap 5).

pub(super) mod durable;
mod key_order;
pub(super) mod moment;
pub(super) mod owed;
pub(super) mod runs;
pub(super) mod watermark;
pub(super) mod withhold;

use super::details::{CatalogTable, logs_of};
use crate::catalog::VersionScripts;
use crate::download::batches::{Batches, Kind, Part, Stretch};
use crate::download::owed::{OwedEntries, OwedKeys};
use crate::download::own::Origin;
use crate::download::range::DownloadTable;
use crate::download::resume::Window;
use crate::download::time::Times;
use crate::download::{self, Sink, range};
use crate::script::around::Around;
use crate::script::{Event, Parameter};
use crate::sqlite::download::durable::Ends;
use crate::sqlite::download::moment::{DownloadRange, Moment};
use crate::sqlite::download::owed::{Covered, Lookup};
use crate::sqlite::download::watermark::Mark;
use crate::sqlite::errors::{failed, script_failed};
use crate::sqlite::event_script::Running;
use crate::sqlite::values::{bind_session, bind_time, write_row};
use crate::sqlite::{identity, query};
use crate::synchronization::{DownloadedTable, FetchRequest, Fetched};
use model::{Code, Failure, Spills};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Sends all rows of `request` to `sink`, and returns up to which entries the logs were read. The
/// connection is inside a read transaction.
pub(super) fn fetch(
    connection: &Connection,
    tables: &[Arc<CatalogTable>],
    request: &FetchRequest<'_>,
    scripts: Option<&Arc<VersionScripts>>,
    spills: &Arc<Spills>,
    sink: Sink<'_>,
) -> Result<(Fetched, Ends), Failure> {
    let from = (connection, spills);
    let around = || scripts.and_then(|scripts| Around::of_download(scripts, request.session));
    let scripted = around().is_some();
    let run = |sql| match scripted {
        true => connection.execute_batch(sql).map_err(failed("set a savepoint")),
        false => Ok(()),
    };
    run("SAVEPOINT fetched")?;
    let fetched = match fetch_once(from, tables, request, (false, around()), sink) {
        Err(Unfetched::Unreadable(_)) => {
            run("ROLLBACK TO fetched")?;
            fetch_once(from, tables, request, (true, around()), sink)
        }
        outcome => outcome,
    };
    let fetched =
        fetched.map_err(|(Unfetched::Unreadable(failure) | Unfetched::Failed(failure))| failure)?;
    run("RELEASE fetched")?;
    Ok(fetched)
}

/// Why nothing was fetched.
enum Unfetched {
    /// A script cannot read an owed row.
    Unreadable(Failure),
    Failed(Failure),
}

impl From<Failure> for Unfetched {
    fn from(failure: Failure) -> Unfetched {
        Unfetched::Failed(failure)
    }
}

/// When it is `isolating`, owed rows are read once before, and those for which that fails are left
/// to the cursors.
fn fetch_once(
    (connection, spills): (&Connection, &Arc<Spills>),
    tables: &[Arc<CatalogTable>],
    request: &FetchRequest<'_>,
    (isolating, mut around): (bool, Option<Around>),
    mut sink: Sink<'_>,
) -> Result<(Fetched, Ends), Unfetched> {
    let sql = "SELECT value FROM syncline_system WHERE name = 'generation'";
    let generation = query::value(connection, "read the generation", sql, [])?;
    let void = identity::void(connection, &request.session.remote_id)?;
    let now = Moment { connection, generation, void, time: request.time_us };
    let mut judged = range::all(&now, tables, request)?;
    if let Some(around) = &mut around {
        around.begin_download(&mut Running(connection), &judged.times())?;
        // What was written is a part of this download.
        judged = range::all(&now, tables, request)?;
    }
    let session = around.as_ref().map(|around| around.session.clone());
    let session = session.as_ref().unwrap_or(request.session);
    let request = &FetchRequest { session, ..*request };
    for position in judged.unordered(tables) {
        if key_order::is_large(connection, &tables[position].published, request)? {
            judged.order(position);
        }
    }
    for position in judged.may_be_refreshed(tables) {
        let range = &judged.tables[position];
        if wants_all(connection, request, (position, &tables[position]), range)? {
            judged.refresh(position);
        }
    }
    judged.begin(tables, request, sink)?;
    let ranges = &judged.tables;
    let settled = download::owed::settled(request.marks, tables.len(), Mark::counter_of);
    let mut entries = OwedEntries::new(spills, ranges, settled, request, &mut sink);
    entries.want(request)?;
    owed::read(connection, tables, request, &mut entries)?;
    let (mut owed, unreadable) = entries.end();
    if isolating || unreadable {
        let unreadable = |table: usize, keys: &[Vec<u8>]| {
            owed::unreadable(connection, &tables[table], request.session, keys)
        };
        download::owed::leave_to_cursors(&mut owed, ranges, unreadable, sink)?;
    }
    let (batches, times) = (Batches::new(request, sink), judged.times());
    let mut download = Download { connection, request, batches, around, times };
    for (position, ((table, range), owed)) in tables.iter().zip(ranges).zip(owed).enumerate() {
        download.table(position, table, range, owed)?;
    }
    let Download { batches, around, times, .. } = download;
    let mut fetched = batches.finish();
    if let Some(mut around) = around {
        let times = (times.as_slice(), judged.next_time());
        around.end_download(&mut Running(connection), times, &fetched.sent)?;
        fetched.by_scripts = around.session.by_scripts;
        judged.hand_out(&fetched.by_scripts);
    }
    let mut ends = Ends::new();
    for (table, range) in tables.iter().zip(&judged.tables) {
        ends.extend(logs_of(table).iter().cloned().zip(range.until.point.0.iter().copied()));
    }
    fetched.watermarks = judged.watermarks(request)?;
    Ok((fetched, ends))
}

/// A download under way.
struct Download<'a, 's> {
    connection: &'a Connection,
    request: &'a FetchRequest<'a>,
    batches: Batches<'a, 's>,
    /// The scripts around the cursors, where there are some.
    around: Option<Around>,
    times: Vec<Times>,
}

impl Download<'_, '_> {
    /// Sends what there is of one table.
    fn table(
        &mut self,
        position: usize,
        table: &CatalogTable,
        range: &DownloadRange,
        owed: OwedKeys,
    ) -> Result<(), Unfetched> {
        // Only a generated cursor leaves them out by itself.
        let own = self.request.echo.own(position);
        let own = own.filter(|_| table.origin(Event::DownloadCursor) == Origin::Generated);
        if let (Some(_), Some((first, last))) = (&range.since, own) {
            self.batches.count_filtered(position, last.abs_diff(first) + 1);
        }
        self.batches.begin(Some(owed));
        let refreshed = range.mode == DownloadedTable::Refresh;
        let part = |kind: Kind| {
            let own = range.is_own(kind.event());
            Part { position, kind, refreshed, meets_owed: true, own, stretch: None }
        };
        let is_sent = range.is_sent();
        let around = self.around.as_ref().filter(|around| is_sent && around.surrounds(position));
        let is_surrounded = around.is_some();
        if is_surrounded {
            self.script(Event::BeginDownloadDeletes, position)?;
            self.deletes(table, range, part(Kind::DeletedKeys), is_surrounded)?;
            self.script(Event::EndDownloadDeletes, position)?;
            self.script(Event::BeginDownloadRows, position)?;
        }
        if is_sent {
            for window in range.windows() {
                let stretch = Stretch::of(range, &window, Kind::Rows, is_surrounded);
                let part = Part { stretch, ..part(Kind::Rows) };
                self.cursor(table, Event::DownloadCursor, (&window, range.times), part)?;
            }
        }
        if is_sent && !is_surrounded {
            self.deletes(table, range, part(Kind::DeletedKeys), is_surrounded)?;
        }
        self.owed(table, part(Kind::Owed))?;
        if is_surrounded {
            self.script(Event::EndDownloadRows, position)?;
        }
        Ok(())
    }

    /// Runs the script of an event of a table, if there is one.
    fn script(&mut self, event: Event, position: usize) -> Result<(), Failure> {
        let Some(around) = &mut self.around else { return Ok(()) };
        around.around_cursor(&mut Running(self.connection), (event, position), &self.times)
    }

    /// Sends the keys of the rows of a table that are to be deleted, before its rows or after.
    fn deletes(
        &mut self,
        table: &CatalogTable,
        range: &DownloadRange,
        part: Part,
        is_first: bool,
    ) -> Result<(), Failure> {
        for window in range.delete_windows() {
            let stretch = Stretch::of(range, &window, part.kind, is_first);
            let part = Part { stretch, ..part };
            self.cursor(table, Event::DownloadDeleteCursor, (&window, range.times), part)?;
        }
        Ok(())
    }

    /// Runs a cursor and hands on what it returns.
    fn cursor(
        &mut self,
        table: &CatalogTable,
        event: Event,
        window: (&Window<Vec<i64>>, Times),
        part: Part,
    ) -> Result<(), Failure> {
        let Download { connection, request, batches, around, .. } = self;
        let session = around.as_ref().map_or(request.session, |around| &around.session);
        let request = &FetchRequest { session, ..**request };
        let published = &table.published;
        let width = match part.kind {
            Kind::DeletedKeys => published.key.len(),
            Kind::Rows | Kind::Owed => published.width(),
        };
        each(connection, request, table, event, window, part.position, &mut |row| {
            batches.row(part, published, |buffer| {
                write_row(buffer, row, width)
                    .map_err(|error| script_failed(error, &published.name, event.name()))
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
        batches.end(part)
    }

    /// Sends the owed rows that the cursor did not return as they are now, or the keys of those
    /// that are gone.
    fn owed(&mut self, table: &CatalogTable, part: Part) -> Result<(), Unfetched> {
        let mut page = self.batches.findable(None)?;
        let mut lookup = None;
        let mut image = Vec::new();
        while !page.keys.is_empty() {
            let lookup = match &mut lookup {
                Some(lookup) => lookup,
                none => none.insert(Lookup::new(self.connection, table, self.request.session)?),
            };
            for key in &page.keys {
                if !self.batches.still_owes(key)? {
                    continue;
                }
                image.clear();
                match lookup.find(key, &mut image)? {
                    Covered::Row => {
                        self.batches.found(key)?;
                        self.batches.row(part, &table.published, |buffer| {
                            buffer.extend_from_slice(&image);
                            Ok(())
                        })?;
                    }
                    Covered::Nothing => {}
                    Covered::Unreadable(message) => {
                        let name = table.published.name.as_str();
                        let failure = Failure::new(Code::ScriptFailed, message).table(name);
                        return Err(Unfetched::Unreadable(failure));
                    }
                }
            }
            page = match page.end() {
                Some(end) => self.batches.findable(Some(end))?,
                None => break,
            };
        }
        Ok(self.batches.end(part)?)
    }
}

/// Whether the own cursor of deleted keys wants the whole table to be sent: it returns a row of
/// NULLs.
fn wants_all(
    connection: &Connection,
    request: &FetchRequest<'_>,
    (position, table): (usize, &CatalogTable),
    range: &DownloadRange,
) -> Result<bool, Failure> {
    let (event, width) = (Event::DownloadDeleteCursor, table.published.key.len());
    let (window, mut wants) = (Window::all(range.since.clone()), false);
    each(connection, request, table, event, (&window, range.times), position, &mut |row| {
        let nulls = (0..width).map(|at| Ok(row.get_ref(at)? == ValueRef::Null));
        let nulls = nulls.collect::<rusqlite::Result<Vec<bool>>>();
        wants = !nulls.map_err(failed("read what a cursor returns"))?.contains(&false);
        Ok(if wants { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(wants)
}

/// Shows `visit` each row of a cursor, until it has seen enough.
fn each(
    connection: &Connection,
    request: &FetchRequest<'_>,
    table: &CatalogTable,
    event: Event,
    (window, times): (&Window<Vec<i64>>, Times),
    position: usize,
    visit: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let script = table.required(event)?;
    let since = window.since.as_deref();
    let running = |error| script_failed(error, &table.published.name, event.name());
    let sql = key_order::sql((event, script), &table.published, window);
    let mut statement = connection.prepare_cached(&sql).map_err(running)?;
    key_order::bind(&mut statement, script, &table.published, window).map_err(running)?;
    let own = since.and_then(|_| request.echo.own(position));
    for (index, parameter) in script.parameters.iter().enumerate() {
        match parameter {
            Parameter::UploadedFirst => {
                statement.raw_bind_parameter(index + 1, own.map(|own| own.0))
            }
            Parameter::UploadedLast => {
                statement.raw_bind_parameter(index + 1, own.map(|own| own.1))
            }
            Parameter::Watermark => {
                statement.raw_bind_parameter(index + 1, since.map(|since| since[0]))
            }
            Parameter::LastDownload => bind_time(&mut statement, index + 1, times.oldest),
            Parameter::LastTableDownload => bind_time(&mut statement, index + 1, times.table),
            Parameter::WatermarkOf(name) => {
                let log = logs_of(table).iter().position(|log| log == name);
                let since = since.and_then(|since| since.get(log?).copied());
                statement.raw_bind_parameter(index + 1, since)
            }
            other => bind_session(&mut statement, index + 1, other, request.session),
        }
        .map_err(running)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(running)? {
        if visit(row)?.is_break() {
            break;
        }
    }
    Ok(())
}
