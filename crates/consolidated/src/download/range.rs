//! Which rows of a table a remote is sent: none, the changes, or all.

use crate::download::Sink;
use crate::download::mark::{Mark, Point};
use crate::download::own::{self, Origin};
use crate::download::resume::{self, Continued, Seal, Window};
use crate::download::time::{NEVER, Time, Times};
use crate::identity::Void;
use crate::script::{CURSORS, Event, Script};
use crate::synchronization::by_scripts::ByScripts;
use crate::synchronization::resuming::TableToken;
use crate::synchronization::{
    DownloadBatch, DownloadedTable, FetchRequest, Session, TableMark, UploadRequest,
};
use model::{Failure, PublishedTable, Watermark};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The database at the moment of a download.
pub(crate) trait Moment {
    type Table: DownloadTable;
    type Point: Point;
    /// From where on changes are sent.
    type Since: Clone;
    /// From where on the changes of a table are known.
    type Floor;

    /// Changes when the database is found to have been restored (trap 3).
    fn generation(&self) -> i64;

    /// Which watermarks of this remote count for nothing.
    fn void(&self) -> Void;

    /// Whether everything that a mark of this generation shows is in this database.
    fn proves(&self, mark: &Mark<Self::Point>) -> bool;

    /// The place in time of a table that is not downloaded.
    fn nowhere(&self) -> Self::Point;

    /// A time before everything that the remote will lack; none where that is not known.
    fn time(&self) -> Option<Time>;

    /// Up to where a table is complete now.
    fn now(&self, table: &Self::Table) -> Result<(Self::Point, Self::Floor), Failure>;

    /// What a remote lacks that was at `held`; none where that cannot be said.
    fn since(
        &self,
        held: Self::Point,
        now: &Self::Point,
        floor: &Self::Floor,
    ) -> Option<Self::Since>;
}

/// What decides how a table is downloaded.
pub(crate) trait DownloadTable {
    fn published(&self) -> &PublishedTable;

    fn scripts(&self) -> &BTreeMap<Event, Script>;

    /// It is unknown which rows leave and enter the selection of the model.
    fn has_custom_selection(&self) -> bool;

    /// Digest of the selection and of the values that it has for the remote.
    fn selection_claims(&self, session: &Session) -> Result<u128, Failure>;

    /// Digest of the two cursors as they were generated.
    fn generated_cursors(&self) -> Option<&String>;

    /// The model says that a remote keeps the rows that a refresh does not return.
    fn is_kept_by_refresh(&self) -> bool;

    /// Its rows can be sent in the order of their keys, which is the same for ever.
    fn has_key_order(&self) -> bool;

    /// Rows can be compared with this key.
    fn can_compare(&self, key: &[u8]) -> bool;

    /// Where the cursor of an event comes from.
    fn origin(&self, event: Event) -> Origin {
        own::origin(self.scripts(), event)
    }

    /// Nothing says which rows leave, so every synchronization sends the whole table.
    fn is_sent_afresh(&self) -> bool {
        self.has_custom_selection() && self.origin(Event::DownloadDeleteCursor) == Origin::Missing
    }

    /// Digest of all that decides, beside changes, which rows the remote has.
    fn claims(&self, session: &Session) -> Result<u128, Failure> {
        let selection = self.selection_claims(session)?;
        Ok(own::claims(self.scripts(), session).map_or(selection, |own| own ^ selection))
    }

    /// Its cursors are those that were generated, so it is known which rows they name.
    fn has_generated_cursors(&self) -> bool {
        let cursors = resume::cursors_of(self.scripts());
        cursors.is_some() && cursors.as_ref() == self.generated_cursors()
    }

    /// No download takes rows away only because they do not arrive.
    fn is_never_refreshed(&self) -> bool {
        self.is_kept_by_refresh()
            || CURSORS.into_iter().any(|event| self.origin(event) == Origin::Ignored)
    }
}

/// What of a table is sent, and up to where it is complete then.
#[derive(Debug)]
pub(crate) struct DownloadRange<P, S> {
    pub(crate) mode: DownloadedTable,
    /// From where on changes are sent, where only these are sent.
    pub(crate) since: Option<S>,
    pub(crate) until: Mark<P>,
    /// How a download that is cut goes on with the table; none if it cannot.
    token: Option<Vec<u8>>,
    /// The rows are sent in key order, and the deleted keys.
    ordered: bool,
    /// What the remote keeps of the table, if that counts.
    pub(crate) continued: Option<Continued<S>>,
    /// Where the cursor of rows comes from.
    rows: Origin,
    /// Where the cursor of deleted keys comes from.
    deletes: Origin,
    /// A script wants the whole table to be sent.
    is_wanted: bool,
    /// Since when the remote lacks what was stamped.
    pub(crate) times: Times,
}

impl<P, S: Clone> DownloadRange<P, S> {
    /// The readings of the table's rows.
    pub(crate) fn windows(&self) -> Vec<Window<S>> {
        match self.sends_rows() {
            true => {
                let kept = self.continued.as_ref().map_or(&[][..], |it| &it.segments);
                resume::windows(kept, self.since.as_ref(), self.ordered)
            }
            false => Vec::new(),
        }
    }

    /// The readings of the keys that have departed.
    pub(crate) fn delete_windows(&self) -> Vec<Window<S>> {
        let Some(since) = self.deletes() else { return Vec::new() };
        let kept = self.continued.as_ref().map_or(&[][..], |it| &it.deletes);
        resume::windows(kept, since, self.ordered)
    }

    /// Whether a user wrote the cursor of this event.
    pub(crate) fn is_own(&self, event: Event) -> bool {
        let origin = if event == Event::DownloadCursor { self.rows } else { self.deletes };
        origin == Origin::Own
    }

    /// Since when keys have departed that the remote may have: without a value all that the cursor
    /// of deleted keys returns. None where it does not run, because there is none, or because the
    /// remote lets go of what does not arrive.
    pub(crate) fn deletes(&self) -> Option<Option<&S>> {
        let kept = self.continued.as_ref().map(|continued| &continued.departed);
        let since = kept.or(self.since.as_ref());
        let runs = match self.deletes {
            Origin::Ignored | Origin::Missing => false,
            Origin::Generated => since.is_some(),
            Origin::Own => since.is_some() || self.mode == DownloadedTable::Changes,
        };
        runs.then_some(since)
    }
}

/// The ranges of all tables of a download.
pub(crate) struct Ranges<P, S> {
    pub(crate) tables: Vec<DownloadRange<P, S>>,
    /// The remote has a watermark that is not of the past of this database.
    restored: bool,
    deletes_lost: bool,
}

/// Compares what the remote holds with the database.
pub(crate) fn all<M: Moment>(
    moment: &M,
    tables: &[Arc<M::Table>],
    request: &FetchRequest<'_>,
) -> Result<Ranges<M::Point, M::Since>, Failure> {
    let of = |(position, table): (usize, &Arc<M::Table>)| {
        let mut range = range(moment, &**table, request.marks.get(position), request)?;
        resumable(moment, (position, &**table), request, &mut range)?;
        Ok(range)
    };
    let mut ranges = tables.iter().enumerate().map(of).collect::<Result<Vec<_>, Failure>>()?;
    hand_out_times(moment, (tables, request.session), &mut ranges);
    let is_of_here = |held: &TableMark, mark: &Mark<M::Point>| match held.fingerprint.as_str() {
        TableMark::FORMER => {
            mark.generation == moment.generation()
                && moment.void().counter < mark.counter
                && moment.proves(mark)
        }
        _ => is_past(moment, mark, request),
    };
    let marks = request.present_marks().filter_map(|held| Some((held, Mark::held(held)?)));
    let others = marks.filter(|(held, mark)| !is_of_here(held, mark)).map(|(_, mark)| mark);
    // A mark that is void counts for this remote alone: nothing else need have been lost.
    let is_void = |mark: &Mark<M::Point>| {
        mark.generation == moment.generation()
            && !moment.void().leaves(mark.counter, request.counter)
    };
    let (mut restored, mut deletes_lost) = (false, false);
    for mark in others {
        restored = true;
        deletes_lost |= moment.void().deletes_lost || !is_void(&mark);
    }
    Ok(Ranges { tables: ranges, restored, deletes_lost })
}

fn range<M: Moment>(
    moment: &M,
    table: &M::Table,
    held: Option<&TableMark>,
    request: &FetchRequest<'_>,
) -> Result<DownloadRange<M::Point, M::Since>, Failure> {
    let published = table.published();
    let (generation, counter) = (moment.generation(), request.counter);
    if !published.direction.downloads() {
        // The mark still carries the counter, which settles what the remote was sent.
        let until = Mark { generation, counter, claims: 0, time: None, point: moment.nowhere() };
        return Ok(DownloadRange::new(table, DownloadedTable::None, None, until));
    }
    let (point, floor) = moment.now(table)?;
    let claims = table.claims(request.session)?;
    let mut until = Mark { generation, counter, claims, time: None, point };
    let anew = table.is_sent_afresh() || request.session.by_scripts.starts_anew();
    let mark = held
        .filter(|held| !anew && held.fingerprint == published.fingerprint)
        .and_then(Mark::held)
        .filter(|mark| mark.claims == claims && is_past(moment, mark, request));
    let time = mark.as_ref().and_then(|mark| mark.time);
    let since = mark.and_then(|mark| moment.since(mark.point, &until.point, &floor));
    until.time = time.filter(|_| since.is_some());
    let mode = match since {
        Some(_) => DownloadedTable::Changes,
        None if table.is_never_refreshed() => DownloadedTable::Changes,
        None => DownloadedTable::Refresh,
    };
    Ok(DownloadRange::new(table, mode, since, until))
}

/// Says since when cursors ask for what was stamped, and hands out the times for the next download.
/// `until` of each range has the time that the remote holds.
fn hand_out_times<M: Moment>(
    moment: &M,
    (tables, session): (&[Arc<M::Table>], &Session),
    ranges: &mut [DownloadRange<M::Point, M::Since>],
) {
    let asks = |table: &Arc<M::Table>| own::ask_for_times(table.scripts());
    if !session.asks_for_times && !tables.iter().any(asks) {
        let sent = ranges.iter_mut().filter(|range| range.is_sent());
        return sent.for_each(|range| range.until.time = None);
    }
    let held = ranges.iter().filter(|range| range.is_sent()).map(|range| range.until.time);
    let Times { oldest, .. } = Times::oldest_of(held);
    for range in ranges {
        // Scripts of a table that is not sent may ask too.
        range.times.oldest = oldest;
        if range.is_sent() {
            range.times.table = range.until.time.unwrap_or(NEVER);
            let next = session.by_scripts.next_last_download.or(moment.time());
            range.until.time = next.or(range.until.time);
        }
        range.times = range.times.not_after(session.by_scripts.last_download);
    }
}

/// Finds out whether the remote may go on with a table later, and whether it does so now.
fn resumable<M: Moment>(
    moment: &M,
    (position, table): (usize, &M::Table),
    request: &FetchRequest<'_>,
    range: &mut DownloadRange<M::Point, M::Since>,
) -> Result<(), Failure> {
    let resuming = &request.resuming;
    // Rows that are asked for once may come behind all positions, and not a second time.
    let is_wanted = request.wanted.iter().any(|(table, _)| *table == position);
    let can_be = resuming.is_offered
        && range.is_sent()
        && !is_wanted
        && !table.is_sent_afresh()
        && table.has_generated_cursors();
    if !can_be {
        return Ok(());
    }
    range.ordered = table.has_key_order() && resuming.follows_cut();
    let published = table.published();
    let seal = Seal::of(request, (position, published), range.mode);
    range.token = Some(seal.token(&range.until.write()?));
    let Some(resumed) = resuming.tables.iter().find(|it| it.table == position) else {
        return Ok(());
    };
    let (_, floor) = moment.now(table)?;
    let until = &range.until;
    let since = |mark: Mark<M::Point>| {
        let counts = mark.claims == until.claims
            && mark.counter < request.counter
            && is_past(moment, &mark, request);
        counts.then(|| moment.since(mark.point, &until.point, &floor)).flatten()
    };
    let can_compare = |key: &[u8]| range.ordered && table.can_compare(key);
    range.continued = seal.continued(resumed, published, can_compare, range.since.clone(), since);
    Ok(())
}

/// Whether the mark is of the past of this database.
fn is_past<M: Moment>(moment: &M, mark: &Mark<M::Point>, request: &FetchRequest<'_>) -> bool {
    mark.generation == moment.generation()
        && moment.void().leaves(mark.counter, request.counter)
        && moment.proves(mark)
}

/// Whether the remote was sent this table with other claims than it has now. What it uploads to it
/// is not covered by its watermark, and would stay at the remote when the old claims return (traps
/// 4 and 5).
pub(crate) fn has_other_claims<P: Point>(
    table: &impl DownloadTable,
    request: &UploadRequest<'_>,
) -> Result<bool, Failure> {
    let published = table.published();
    if !published.direction.downloads() {
        return Ok(false);
    }
    let held = request.marks.iter().find(|held| held.fingerprint == published.fingerprint);
    let Some(mark) = held.and_then(Mark::<P>::held) else { return Ok(false) };
    Ok(mark.claims != table.claims(request.session)?)
}

impl<P, S> DownloadRange<P, S> {
    fn new(
        table: &impl DownloadTable,
        mode: DownloadedTable,
        since: Option<S>,
        until: Mark<P>,
    ) -> DownloadRange<P, S> {
        DownloadRange {
            mode,
            since,
            until,
            token: None,
            ordered: false,
            continued: None,
            rows: table.origin(Event::DownloadCursor),
            deletes: table.origin(Event::DownloadDeleteCursor),
            is_wanted: false,
            times: Times::default(),
        }
    }

    /// Whether anything of the table may be sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.mode != DownloadedTable::None
    }

    /// Whether the cursor of rows runs, and what is owed is sent.
    pub(crate) fn sends_rows(&self) -> bool {
        self.is_sent() && self.rows != Origin::Ignored
    }

    /// Whether the remote is told how far the rows of the table have been sent.
    pub(crate) fn tells_positions(&self) -> bool {
        self.token.is_some()
    }
}

impl<P: Point, S> Ranges<P, S> {
    /// Whole tables that could be sent in key order and are not. To sort costs about as much as to
    /// read, so it is worth it only where a table is so large that much of it would be sent again.
    pub(crate) fn unordered<T: DownloadTable>(&self, tables: &[Arc<T>]) -> Vec<usize> {
        let all = self.tables.iter().zip(tables).enumerate();
        let unordered = all.filter(|(_, (range, table))| {
            let is_whole = range.mode == DownloadedTable::Refresh;
            is_whole && range.tells_positions() && !range.ordered && table.has_key_order()
        });
        unordered.map(|(position, _)| position).collect()
    }

    /// Since when the remote lacks what was stamped, of each table.
    pub(crate) fn times(&self) -> Vec<Times> {
        self.tables.iter().map(|range| range.times).collect()
    }

    /// The time that is handed out, the oldest of all tables; none where that is not known.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let sent = self.tables.iter().filter(|range| range.is_sent());
        sent.map(|range| range.until.time).min().flatten()
    }

    /// Hands out another time with all tables that are sent, if scripts say so.
    pub(crate) fn hand_out(&mut self, by_scripts: &ByScripts) {
        let sent = self.tables.iter_mut().filter(|range| range.is_sent());
        sent.for_each(|it| it.until.time = by_scripts.next_last_download.or(it.until.time));
    }

    /// The rows of this table are sent in key order.
    pub(crate) fn order(&mut self, position: usize) {
        self.tables[position].ordered = true;
    }

    /// The tables whose own cursor of deleted keys may return a row of NULLs only: the whole table
    /// is sent then.
    pub(crate) fn may_be_refreshed<T: DownloadTable>(&self, tables: &[Arc<T>]) -> Vec<usize> {
        let all = self.tables.iter().zip(tables).enumerate();
        let open = all.filter(|(_, (range, table))| {
            range.deletes == Origin::Own
                && range.mode == DownloadedTable::Changes
                && !table.is_never_refreshed()
        });
        open.map(|(position, _)| position).collect()
    }

    /// The whole table is sent, because a script says so.
    pub(crate) fn refresh(&mut self, position: usize) {
        let range = &mut self.tables[position];
        (range.mode, range.since, range.is_wanted) = (DownloadedTable::Refresh, None, true);
        range.times = Times::default();
    }

    /// Says how each table is downloaded. One that is sent whole is a warning, unless it is so
    /// every time.
    pub(crate) fn begin<T: DownloadTable>(
        &self,
        tables: &[Arc<T>],
        request: &FetchRequest<'_>,
        sink: Sink<'_>,
    ) -> Result<(), Failure> {
        let modes: Vec<DownloadedTable> = self.tables.iter().map(|range| range.mode).collect();
        let refreshed = tables.iter().enumerate().filter(|(position, table)| {
            modes[*position] == DownloadedTable::Refresh
                && !table.is_sent_afresh()
                && !self.tables[*position].is_wanted
        });
        let named = refreshed.map(|(position, table)| (position, table.published().name.as_str()));
        request.warn_of_refreshes(named);
        let tokens = self.tables.iter().map(|range| TableToken {
            token: range.token.clone(),
            continued: range.continued.is_some(),
        });
        sink(DownloadBatch::Begin {
            tokens: tokens.collect(),
            tables: modes,
            restored: self.restored,
            deletes_lost: self.deletes_lost,
            waiting: request.session.waiting.clone(),
        })
    }

    /// What the remote holds of each table afterwards.
    pub(crate) fn watermarks(
        &self,
        request: &FetchRequest<'_>,
    ) -> Result<Vec<Option<Watermark>>, Failure> {
        let ranges = self.tables.iter().enumerate();
        let watermarks =
            ranges.map(|(at, range)| Ok(request.watermark(at, Some(range.until.write()?))));
        watermarks.collect()
    }
}
