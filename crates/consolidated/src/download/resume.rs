//! Goes on with a download that was cut, from another snapshot, with nothing kept at the server.
//!
//! Rows of a table are sent in key order. With the first part of a download the remote gets a
//! *token* for each table, which names the snapshot, and from time to time a *position*: all rows
//! up to a key were sent. A remote that was cut presents both. Then it is sent
//!
//! - of the keys up to the position, what the snapshot of the token does not show;
//! - of the others, what the watermark does not show;
//! - all that has departed since the watermark. If the whole table is sent, there is no such
//!   watermark, and the first token takes its place. Deleted keys are sent in key order too and
//!   have positions of their own: of those up to theirs, what the snapshot does not show.
//!
//! Invariants, with W for the watermark and S for the snapshot of the token:
//!
//! RS1. A token counts only together with W, and with all else that decides what was sent: the
//!     deployment, the tables, the claims. It has a digest of these.
//! RS2. A row that was sent from S and is covered no more has departed since W. The query for
//!     departures finds it, because that asks for rows that were covered at any moment since W
//!     (`selection/render.rs`, `was`).
//! RS3. A row up to the position that was sent neither from S nor now is as it was at W, or the
//!     remote has uploaded it before S, or it is owed.
//! RS4. What the remote has uploaded since S is sent back, or an older image of it, which the
//!     remote keeps, would take its place.

use crate::digest;
use crate::download::mark::{Mark, Point};
use crate::script::{Event, Script};
use crate::synchronization::resuming::ResumedTable;
use crate::synchronization::{DownloadedTable, FetchRequest};
use model::{PublishedTable, Watermark, skip_row};
use std::collections::BTreeMap;

/// The form of tokens and positions.
const VERSION: u8 = 1;

/// Bytes of the digest in a token.
const DIGEST_BYTES: usize = 16;

/// Longest position, in bytes: no index entry of a sensible key is longer.
pub(crate) const POSITION_BYTES_MAX: usize = 1 << 10;

/// Most segments of a table that are looked at.
const SEGMENTS_MAX: usize = 8;

/// How a position begins.
const AT_KEY: u8 = 0;
const AT_END: u8 = 1;

/// Where the rows of a segment end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Upto {
    /// The key's columns as a row.
    Key(Vec<u8>),
    End,
}

/// Rows of a table that a remote keeps, behind those of the segment before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment<S> {
    /// What the remote lacks of them.
    pub(crate) since: S,
    pub(crate) upto: Upto,
}

/// A table with which a download goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continued<S> {
    pub(crate) segments: Vec<Segment<S>>,
    /// Likewise of deleted keys.
    pub(crate) deletes: Vec<Segment<S>>,
    /// Since when rows have departed that the remote may keep: its watermark, or the first token.
    pub(crate) departed: S,
}

/// One reading of a table's rows: those with keys behind `low` and up to `high`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window<S> {
    /// Since when rows have changed; none for all.
    pub(crate) since: Option<S>,
    pub(crate) low: Option<Vec<u8>>,
    pub(crate) high: Option<Vec<u8>>,
    /// The rows are in key order.
    pub(crate) ordered: bool,
    /// Segments of the remote that lie before.
    pub(crate) passed: u16,
    pub(crate) is_last: bool,
}

impl<S> Window<S> {
    /// All that has changed since then, or all that there is, in any order.
    pub(crate) fn all(since: Option<S>) -> Window<S> {
        let (low, high) = (None, None);
        Window { since, low, high, ordered: false, passed: 0, is_last: true }
    }
}

/// What a table's position says, to be sent.
pub(crate) fn position(upto: &Upto) -> Vec<u8> {
    match upto {
        Upto::Key(key) => [&[VERSION, AT_KEY], key.as_slice()].concat(),
        Upto::End => vec![VERSION, AT_END],
    }
}

fn read_position(bytes: &[u8], table: &PublishedTable) -> Option<Upto> {
    if bytes.len() > POSITION_BYTES_MAX {
        return None;
    }
    match bytes {
        [VERSION, AT_END] => Some(Upto::End),
        [VERSION, AT_KEY, key @ ..] => {
            let is_key = skip_row(key, table.key.len()).is_ok_and(<[u8]>::is_empty);
            is_key.then(|| Upto::Key(key.to_vec()))
        }
        _ => None,
    }
}

/// Writes and reads the tokens of one table (RS1).
pub(crate) struct Seal([u8; DIGEST_BYTES]);

impl Seal {
    /// Of the table at `at`, which is sent in this way.
    pub(crate) fn of(
        request: &FetchRequest<'_>,
        (at, table): (usize, &PublishedTable),
        mode: DownloadedTable,
    ) -> Seal {
        let session = request.session;
        let held = request.marks.get(at).and_then(|mark| mark.watermark.as_ref());
        let digest = digest::digest(&[
            session.database_id.0.as_str(),
            &session.deployment.to_string(),
            session.remote_id.as_str(),
            session.script_version.as_str(),
            &session.schema.fingerprint,
            &table.fingerprint,
            match mode {
                DownloadedTable::None => "none",
                DownloadedTable::Changes => "changes",
                DownloadedTable::Refresh => "refresh",
            },
            &held.map_or_else(String::new, |held| model::hex(held.as_bytes())),
        ]);
        Seal(digest::from_hex(&digest).unwrap_or_default().to_le_bytes())
    }

    /// A token for a snapshot.
    pub(crate) fn token(&self, until: &Watermark) -> Vec<u8> {
        [&[VERSION][..], &self.0, until.as_bytes()].concat()
    }

    /// The snapshot of a token that counts here.
    fn open<P: Point>(&self, token: &[u8]) -> Option<Mark<P>> {
        let digest = token.strip_prefix(&[VERSION])?;
        let watermark = digest.strip_prefix(self.0.as_slice())?;
        Mark::read(&Watermark::new(watermark.to_vec()).ok()?)
    }

    /// What of a table counts; none if the remote keeps nothing that does. `since` says what a
    /// remote lacks that was at a mark.
    pub(crate) fn continued<P: Point, S>(
        &self,
        resumed: &ResumedTable,
        table: &PublishedTable,
        can_compare: impl Fn(&[u8]) -> bool,
        watermark: Option<S>,
        since: impl Fn(Mark<P>) -> Option<S>,
    ) -> Option<Continued<S>> {
        let (oldest, _) = resumed.segments.last()?;
        let segments = self.segments(&resumed.segments, table, &can_compare, &since)?;
        let deletes = self.segments(&resumed.deletes, table, &can_compare, &since)?;
        let departed = match watermark {
            Some(since) => since,
            None => since(self.open(resumed.first.as_ref().unwrap_or(oldest))?)?,
        };
        Some(Continued { segments, deletes, departed })
    }

    fn segments<P: Point, S>(
        &self,
        given: &[(Vec<u8>, Vec<u8>)],
        table: &PublishedTable,
        can_compare: impl Fn(&[u8]) -> bool,
        since: impl Fn(Mark<P>) -> Option<S>,
    ) -> Option<Vec<Segment<S>>> {
        if given.len() > SEGMENTS_MAX {
            return None;
        }
        let mut segments = Vec::with_capacity(given.len());
        for (token, position) in given {
            let upto = read_position(position, table)?;
            // Everything lies before the end, so what follows it says nothing.
            let ends = |last: &Segment<S>| last.upto == Upto::End;
            let is_usable = match &upto {
                Upto::Key(key) => can_compare(key),
                Upto::End => true,
            };
            if !is_usable || segments.last().is_some_and(ends) {
                return None;
            }
            segments.push(Segment { since: since(self.open(token)?)?, upto });
        }
        Some(segments)
    }
}

/// The readings of a table's rows or deleted keys, of which the last has those that the remote
/// keeps nothing of.
pub(crate) fn windows<S: Clone>(
    segments: &[Segment<S>],
    since: Option<&S>,
    ordered: bool,
) -> Vec<Window<S>> {
    let mut windows = Vec::new();
    let mut low = None;
    for segment in segments {
        let high = match &segment.upto {
            Upto::Key(key) => Some(key.clone()),
            Upto::End => None,
        };
        let since = Some(segment.since.clone());
        let passed = windows.len() as u16;
        let is_last = high.is_none();
        windows.push(Window { since, low, high: high.clone(), ordered, passed, is_last });
        if is_last {
            return windows;
        }
        low = high;
    }
    let passed = windows.len() as u16;
    windows.push(Window { since: since.cloned(), low, high: None, ordered, passed, is_last: true });
    windows
}

/// The position behind the last row of `batch`, whose key is `key`; none if it is too long.
pub(crate) fn behind(key: &[u8]) -> Option<Vec<u8>> {
    let position = position(&Upto::Key(key.to_vec()));
    (position.len() <= POSITION_BYTES_MAX).then_some(position)
}

/// Whether a script can be part of another statement.
pub(crate) fn can_be_nested(sql: &str) -> bool {
    !sql.contains(';') && !sql.contains("--")
}

/// A digest of the two cursors of a table as they were generated. Of others it is unknown which
/// rows they name.
pub(crate) fn cursors_of(scripts: &BTreeMap<Event, Script>) -> Option<String> {
    let sql = |event| scripts.get(&event).map(|script: &Script| script.sql.as_str());
    cursors(sql(Event::DownloadCursor), sql(Event::DownloadDeleteCursor))
}

fn cursors<'s>(rows: Option<&'s str>, deletes: Option<&'s str>) -> Option<String> {
    let (rows, deletes) = (rows?, deletes?);
    (can_be_nested(rows) && can_be_nested(deletes)).then(|| digest::digest(&[rows, deletes]))
}
