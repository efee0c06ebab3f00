//! What a remote must receive whatever its watermark says (trap 5).
//!
//! A remote may be owed a million rows. So their keys lie on disk where there is no memory for
//! them, and what else is known of them is handed on as it is read.

use crate::download::Sink;
use crate::download::bundle;
use crate::download::range::DownloadRange;
use crate::identity::Remembered;
use crate::synchronization::{
    DownloadBatch, DownloadedTable, FetchRequest, TableMark, UploadRequest,
};
use model::{Code, Counter, Failure, SpillMap, Spills, Watermark};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of keys that are asked about at once. One key may exceed it.
const PAGE_BYTES: usize = 256 << 10;

/// If so many rows of a table are owed, looking all of them up costs more than one more exchange
/// with a database.
const MANY: usize = 50;

/// What a database knows of a row that the remote must receive, or of a bundle of such rows.
#[derive(Debug)]
pub(crate) struct OwedEntry {
    /// Position of its table.
    pub(crate) table: usize,
    /// The key's columns as a row.
    pub(crate) key: Vec<u8>,
    /// The synchronization since which it is owed.
    pub(crate) counter: Counter,
    /// It was refused: the number of the code, and why. Or it lost a conflict, and by which rule.
    pub(crate) reject: Option<(u16, String)>,
    /// It could not be sent: this many bytes, or none where no script could read it.
    pub(crate) withheld: Option<u64>,
}

impl OwedEntry {
    /// A script could not read it before.
    fn was_unreadable(&self) -> bool {
        self.withheld == Some(0)
    }

    /// What is to be done about the row.
    fn state(&self, row_bytes_max: u64) -> State {
        let impossible = Code::RowKeyUnreadable.number();
        // Not even tried: it was too large, and comes as any row does when it changes.
        if self.withheld.is_some_and(|bytes| bytes > row_bytes_max) {
            State::Left
        } else if self.reject.as_ref().is_some_and(|(code, _)| *code == impossible) {
            State::Impossible
        } else {
            State::Owed
        }
    }
}

/// Takes the entries of a remote as they are read, in the order of names and keys: tells which rows
/// were refused and which were withheld, and keeps the keys of those that are to be sent.
pub(crate) struct OwedEntries<'a, 's> {
    tables: Vec<OwedKeys>,
    /// Which tables are sent.
    are_sent: Vec<bool>,
    settled: Counter,
    is_counted: bool,
    row_bytes_max: u64,
    sink: &'a mut Sink<'s>,
    /// The table of the last entry.
    last: Option<usize>,
    unreadable: bool,
}

impl<'a, 's> OwedEntries<'a, 's> {
    /// None so far; the remote has heard of those that were `settled`.
    pub(crate) fn new<P, S>(
        spills: &Arc<Spills>,
        ranges: &[DownloadRange<P, S>],
        settled: Option<Counter>,
        request: &FetchRequest<'_>,
        sink: &'a mut Sink<'s>,
    ) -> OwedEntries<'a, 's> {
        OwedEntries {
            tables: ranges.iter().map(|_| OwedKeys::within(spills)).collect(),
            are_sent: ranges.iter().map(|range| range.sends_rows()).collect(),
            settled: settled.unwrap_or(Counter(0)),
            is_counted: request.is_counted,
            row_bytes_max: request.row_bytes_max,
            sink,
            last: None,
            unreadable: false,
        }
    }

    /// The position of the table of an entry, mostly that of the last one. `is_named` says whether
    /// a table has its name.
    pub(crate) fn table(&mut self, is_named: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.last.filter(|at| is_named(*at));
        let found = last.or_else(|| (0..self.tables.len()).find(|at| is_named(*at)))?;
        self.last = Some(found);
        Some(found)
    }

    /// Takes what the remote asks for. First of all: what the database knows of a row says more.
    pub(crate) fn want(&mut self, request: &FetchRequest<'_>) -> Result<(), Failure> {
        for (table, key) in request.wanted {
            if self.are_sent.get(*table) == Some(&true) {
                self.tables[*table].add(key.clone(), State::Owed)?;
            }
        }
        Ok(())
    }

    /// Takes an entry: a row, or a bundle.
    pub(crate) fn add(&mut self, entry: OwedEntry, is_bundle: bool) -> Result<(), Failure> {
        let (table, is_sent) = (entry.table, self.are_sent[entry.table]);
        if self.is_counted && entry.withheld.is_none() && entry.counter <= self.settled {
            return Ok(());
        }
        if is_bundle {
            for key in bundle::keys(&entry.key)? {
                if entry.reject.is_some() {
                    let (key, reject) = (key.to_vec(), entry.reject.clone());
                    tell(&OwedEntry { key, reject, ..entry }, self.settled, self.sink)?;
                }
                if is_sent {
                    self.tables[table].owe(key)?;
                }
            }
            return Ok(());
        }
        tell(&entry, self.settled, self.sink)?;
        if is_sent {
            let state = entry.state(self.row_bytes_max);
            self.unreadable |= state == State::Owed && entry.was_unreadable();
            self.tables[table].add(entry.key, state)?;
        }
        Ok(())
    }

    /// The keys by the position of their table, and whether a script could not read such a row
    /// before.
    pub(crate) fn end(self) -> (Vec<OwedKeys>, bool) {
        (self.tables, self.unreadable)
    }
}

/// What became of an owed row in the present download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing yet.
    Owed,
    /// Nothing yet; the database cannot hold its key.
    Impossible,
    /// A cursor has returned it.
    Met,
    /// It was looked up and found.
    Found,
    /// It is not sent for being owed.
    Left,
}

impl State {
    const ALL: [State; 5] = [State::Owed, State::Impossible, State::Met, State::Found, State::Left];

    /// Neither met nor found.
    pub(crate) fn is_due(self) -> bool {
        matches!(self, State::Owed | State::Impossible)
    }

    fn of(value: &[u8]) -> State {
        // What is only known from a bundle has no value.
        let number = value.first().map_or(0, |number| usize::from(*number));
        State::ALL.get(number).copied().unwrap_or(State::Owed)
    }
}

/// The keys of the owed rows of one table.
pub(crate) struct OwedKeys {
    states: SpillMap,
    /// How often a key was added, some perhaps more than once, and their bytes.
    added: usize,
    bytes: usize,
}

/// Some of the keys, in their order.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) keys: Vec<Vec<u8>>,
    /// There may be more behind them.
    is_full: bool,
}

impl Page {
    /// Behind which key the next page begins; none if nothing is left.
    pub(crate) fn end(&self) -> Option<&[u8]> {
        self.keys.last().filter(|_| self.is_full).map(Vec::as_slice)
    }
}

impl OwedKeys {
    /// None, with memory and files from `spills`.
    pub(crate) fn within(spills: &Arc<Spills>) -> OwedKeys {
        OwedKeys { states: SpillMap::new(spills), added: 0, bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Whether they are more than should be looked up without need, or than fit in one page.
    pub(crate) fn are_many(&self) -> bool {
        self.added >= MANY || self.bytes >= PAGE_BYTES
    }

    /// Adds a key of a bundle. What is known of a row by itself says more.
    pub(crate) fn owe(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.count(key);
        self.states.add(key.to_vec(), Vec::new())
    }

    fn add(&mut self, key: Vec<u8>, state: State) -> Result<(), Failure> {
        self.count(&key);
        self.states.add(key, vec![state as u8])
    }

    fn count(&mut self, key: &[u8]) {
        self.added += 1;
        self.bytes += bytes_in_page(key);
    }

    /// What became of a row; none if it is not owed.
    pub(crate) fn state(&self, key: &[u8]) -> Result<Option<State>, Failure> {
        Ok(self.states.get(key)?.map(|value| State::of(&value)))
    }

    /// Notes what became of an owed row.
    pub(crate) fn note(&mut self, key: &[u8], state: State) -> Result<(), Failure> {
        self.states.set(key, &[state as u8])
    }

    /// The next keys behind `behind` that may be found.
    pub(crate) fn findable(&self, behind: Option<&[u8]>) -> Result<Page, Failure> {
        self.page(behind, |state| state == State::Owed)
    }

    /// The next keys behind `behind` of rows that were neither met nor found.
    pub(crate) fn due(&self, behind: Option<&[u8]>) -> Result<Page, Failure> {
        self.page(behind, State::is_due)
    }

    fn page(
        &self,
        behind: Option<&[u8]>,
        is_wanted: impl Fn(State) -> bool,
    ) -> Result<Page, Failure> {
        let (mut page, mut bytes) = (Page::default(), 0);
        self.states.visit_behind(behind, |key, value| {
            if is_wanted(State::of(value)) {
                page.keys.push(key.to_vec());
                bytes += bytes_in_page(key);
                page.is_full = bytes >= PAGE_BYTES;
            }
            Ok::<_, Failure>(match page.is_full {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })?;
        Ok(page)
    }
}

fn bytes_in_page(key: &[u8]) -> usize {
    key.len() + size_of::<Vec<u8>>()
}

/// Takes out the rows that no script can read: a cursor may bring them. The cursor of a table that
/// is sent as a whole shows what became of them in any case. `unreadable` names those among keys of
/// a table, with the reason.
pub(crate) fn leave_to_cursors<P, S>(
    owed: &mut [OwedKeys],
    ranges: &[DownloadRange<P, S>],
    mut unreadable: impl FnMut(usize, &[Vec<u8>]) -> Result<Vec<(Vec<u8>, String)>, Failure>,
    sink: Sink<'_>,
) -> Result<(), Failure> {
    for (table, (range, owed)) in ranges.iter().zip(owed).enumerate() {
        let mut page = owed.findable(None)?;
        while !page.keys.is_empty() {
            for (key, message) in unreadable(table, &page.keys)? {
                owed.note(&key, State::Left)?;
                if range.mode != DownloadedTable::Refresh {
                    sink(DownloadBatch::Unreadable { table, key, message })?;
                }
            }
            page = match page.end() {
                Some(end) => owed.findable(Some(end))?,
                None => break,
            };
        }
    }
    Ok(())
}

/// Up to where the remote has received what it was owed: its watermarks were issued after that.
/// `counter_of` reads the counter in a watermark.
pub(crate) fn settled(
    marks: &[TableMark],
    tables: usize,
    counter_of: impl Fn(&Watermark) -> Option<Counter>,
) -> Option<Counter> {
    let counters = marks.iter().map(|held| {
        let counter = held.watermark.as_ref().and_then(&counter_of);
        counter.unwrap_or(Counter(0))
    });
    counters.min().filter(|_| marks.len() == tables)
}

/// The same for an upload. Of a table that waits nothing was received, and what was handed out in
/// another past settles nothing here.
pub(crate) fn settled_before(
    request: &UploadRequest<'_>,
    tables: usize,
    remote: &Remembered,
    counter_of: impl Fn(&Watermark) -> Option<Counter>,
) -> Option<Counter> {
    let waits = |position: usize| request.session.waits(position);
    let marks = request.marks.iter().enumerate().filter(|(position, _)| !waits(*position));
    let counters = marks.map(|(_, held)| {
        let counter = held.watermark.as_ref().and_then(&counter_of);
        counter.filter(|counter| remote.counts(*counter)).unwrap_or(Counter(0))
    });
    counters.min().filter(|_| request.marks.len() == tables)
}

/// Tells that a row was refused, withheld, or lost a conflict.
fn tell(row: &OwedEntry, settled: Counter, sink: Sink<'_>) -> Result<(), Failure> {
    if row.withheld.is_some() {
        let (table, key, counter) = (row.table, row.key.clone(), row.counter);
        sink(DownloadBatch::Withheld { table, key, counter })?;
    }
    // A row that was withheld stays owed when the remote knows of it.
    if let Some((code, message)) = &row.reject
        && (row.withheld.is_none() || row.counter > settled)
    {
        let (table, key, counter) = (row.table, row.key.clone(), row.counter);
        let (code, message) = (*code, message.clone());
        sink(match code == Code::ConflictLost.number() {
            true => DownloadBatch::Conflict { table, key, counter, rule: message },
            false => DownloadBatch::Reject { table, key, counter, code, message },
        })?;
    }
    Ok(())
}
