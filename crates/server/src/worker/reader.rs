//! Answers requests that need no write: users, the tables of a remote, downloads.

use super::comparison::{self, Comparison};
use super::cost::{Answer, Cost, Costed};
use super::cut::Cut;
use super::kept::Kept;
use super::oversize::{News, Oversize, Sink};
use super::rejects;
use crate::authenticate::Granted;
use crate::fail_point::fail_point;
use crate::stage::{Intake, Routine};
use consolidated::{
    Admittee, Applied, Authenticates, Credentials, DownloadBatch, DownloadedTable, Echo,
    FetchRequest, Fetched, Passed, Reader, RemoteBinding, ResumedTable, Resuming, Session,
    TableMark, TableToken,
};
use model::{
    Clock, Counter, Failure, MESSAGE_BYTES_MAX, PublicationName, Receipt, RemoteId, ScriptVersion,
    Spill, SpilledBytes, Spills, UserName, Watermark, cut,
};
use protocol::{
    Compression, Compressor, DownloadBegin, DownloadEnd, DownloadMode, LostConflict, Message,
    Operation, Position, Reject, RowsFrame, TableDownload, WaitingTable,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most admissions that are answered together.
const ADMISSIONS_MAX: usize = 64;

/// What a reader is asked.
pub(crate) enum Read {
    Admit(Admission, Answer<Admitted>),
    Fetch(Fetch, Answer<FetchedDownload>),
    Compare(Comparison, Answer<Spill>),
}

/// Who wants to synchronize what.
pub(crate) struct Admission {
    pub(crate) user: UserName,
    /// What scripts call the user, where it has another name there.
    pub(crate) renamed: Option<UserName>,
    pub(crate) remote_id: RemoteId,
    pub(crate) script_version: Option<ScriptVersion>,
    pub(crate) publications: Vec<PublicationName>,
    /// The digests of the schema and the tables that it holds; none where it does not upload.
    pub(crate) holds: Option<(Option<String>, Vec<String>)>,
    /// Its authentication parameters.
    pub(crate) passed: Passed,
    /// The claims that an identity provider or a script decides.
    pub(crate) granted: Option<Arc<Granted>>,
}

/// What the database knows of them. The session is used only after the user was verified.
pub(crate) struct Admitted {
    pub(crate) credentials: Option<Credentials>,
    /// To whom the remote belongs.
    pub(crate) binding: RemoteBinding,
    pub(crate) session: Result<Session, Failure>,
}

impl Admitted {
    /// Which scripts decide about the user.
    pub(crate) fn authenticates(&self) -> Authenticates {
        self.session.as_ref().map(|session| session.authenticates).unwrap_or_default()
    }
}

/// Fetch a download.
pub(crate) struct Fetch {
    pub(crate) session: Arc<Session>,
    pub(crate) counter: Counter,
    pub(crate) marks: Arc<Vec<TableMark>>,
    pub(crate) held_marks: Arc<Vec<TableMark>>,
    /// How rows are compressed on their way.
    pub(crate) compression: Option<Compression>,
    pub(crate) echo: Echo,
    pub(crate) time_us: Option<i64>,
    /// Rows that the remote asks for.
    pub(crate) wanted: Vec<(usize, Vec<u8>)>,
    pub(crate) receipt: Option<Receipt>,
    /// Whether the remote is to acknowledge it.
    pub(crate) acknowledge: bool,
    pub(crate) resume: Resume,
    /// Counts what goes to disk.
    pub(crate) spilled: SpilledBytes,
}

impl Fetch {
    /// The same behind an upload.
    pub(crate) fn go_on(&mut self, session: &Arc<Session>, applied: &mut Applied) {
        self.session = session.clone();
        self.counter = applied.counter;
        self.echo = std::mem::take(&mut applied.echo);
        self.time_us = applied.time_us;
        self.receipt = applied.receipt.clone();
    }
}

/// What the remote keeps of downloads that were cut.
#[derive(Debug, Default)]
pub(crate) struct Resume {
    pub(crate) was_cut: bool,
    pub(crate) tables: Vec<ResumedTable>,
}

/// A download, complete, as frames from DownloadBegin to DownloadEnd.
pub(crate) struct FetchedDownload {
    /// The first of them, which says how many rows follow.
    pub(crate) begin: Vec<u8>,
    pub(crate) frames: Spill,
    /// How rows of it are compressed; none where none are.
    pub(crate) compression: Option<Compression>,
    pub(crate) rows: u64,
    pub(crate) filtered: u64,
    /// Tables of which the remote has kept a part.
    pub(crate) continued: u64,
    /// The session as it goes on, with what scripts have set.
    pub(crate) session: Arc<Session>,
    /// What must be noted before it is sent: rows that are too large, and such that no longer are.
    pub(crate) withheld: Option<News>,
    /// What the remote holds afterwards, per table of the schema.
    pub(crate) watermarks: Vec<Option<Watermark>>,
}

/// Where the parts of a download go.
pub(super) struct Packing {
    pub(super) spills: Arc<Spills>,
    pub(super) cut: Cut,
    pub(super) compressor: Compressor,
}

/// Asks a connection for a download.
pub(super) type Ask<'a> =
    &'a mut dyn FnMut(&FetchRequest<'_>, Sink<'_>) -> Result<Fetched, Failure>;

/// A worker that reads.
pub(super) struct Work {
    pub(super) kept: Kept<Box<dyn Reader>>,
    pub(super) packing: Packing,
    pub(super) clock: Arc<dyn Clock>,
}

impl Routine for Work {
    type Item = Read;

    fn begin(&mut self, intake: &Intake<Read>) -> bool {
        self.kept.prepare(intake, refuse)
    }

    fn work(&mut self, read: Read, intake: &Intake<Read>) {
        let Work { kept, packing, clock } = self;
        let clock = clock.as_ref();
        let begun_us = clock.monotonic_us();
        // Without a connection the answer is dropped, and whoever asked learns that.
        kept.lend(|reader| match read {
            Read::Admit(admission, answer) => {
                let mut group = vec![(admission, answer)];
                while group.len() < ADMISSIONS_MAX
                    && let Some(Read::Admit(admission, answer)) =
                        intake.take_waiting(|read| matches!(read, Read::Admit(..)))
                {
                    group.push((admission, answer));
                }
                admit(reader.as_mut(), group, clock, begun_us);
            }
            Read::Fetch(fetch, answer) => {
                let before = reader.round_trips();
                let mut ask =
                    |request: &FetchRequest<'_>, sink: Sink<'_>| reader.fetch(request, sink);
                let result = fetch_download(&mut ask, &fetch, packing);
                // The session may have ended in the meantime. Then the answer is not needed.
                let round_trips = reader.round_trips() - before;
                let worked_us = clock.monotonic_us() - begun_us;
                drop(answer.send(costed(result, round_trips, worked_us)));
            }
            Read::Compare(comparison, answer) => {
                let before = reader.round_trips();
                let Packing { spills, cut, .. } = packing;
                let result = comparison::compare(reader.as_mut(), &comparison, spills, *cut);
                // The session may have ended in the meantime. Then the answer is not needed.
                let round_trips = reader.round_trips() - before;
                let worked_us = clock.monotonic_us() - begun_us;
                drop(answer.send(costed(result, round_trips, worked_us)));
            }
        });
    }
}

fn refuse(read: Read, failure: Failure) {
    // The session may have ended in the meantime. Then the answer is not needed.
    match read {
        Read::Admit(_, answer) => drop(answer.send(Err(failure))),
        Read::Fetch(_, answer) => drop(answer.send(Err(failure))),
        Read::Compare(_, answer) => drop(answer.send(Err(failure))),
    }
}

fn costed<T>(
    result: Result<T, Failure>,
    round_trips: u64,
    worked_us: u64,
) -> Result<Costed<T>, Failure> {
    result.map(|value| Costed { value, cost: Cost { round_trips, commits: 0.0, worked_us } })
}

/// Answers all admissions that wait with one question to the database: in a rush there are many.
fn admit(
    reader: &mut dyn Reader,
    group: Vec<(Admission, Answer<Admitted>)>,
    clock: &dyn Clock,
    begun_us: u64,
) {
    fail_point!("worker-admits");
    let before = reader.round_trips();
    let who: Vec<(&UserName, &RemoteId)> =
        group.iter().map(|(admission, _)| (&admission.user, &admission.remote_id)).collect();
    let known = match reader.admittees(&who) {
        Ok(known) => known,
        Err(failure) => {
            // It belongs to one of them, or is met again by each alone.
            match <[_; 1]>::try_from(group) {
                Ok([(_, answer)]) => drop(answer.send(Err(failure))),
                Err(group) => {
                    for one in group {
                        admit(reader, vec![one], clock, begun_us);
                    }
                }
            }
            return;
        }
    };
    // What all have cost together is counted once.
    let mut round_trips = reader.round_trips() - before;
    for ((admission, answer), admittee) in group.into_iter().zip(known) {
        let Admittee { credentials, binding } = admittee;
        let before = reader.round_trips();
        let mut claims = credentials.as_ref().map(|it| it.claims.clone()).unwrap_or_default();
        if let Some(granted) = &admission.granted {
            claims = granted.over(claims);
        }
        let session = settle(reader, &admission, claims);
        round_trips += reader.round_trips() - before;
        let admitted = Admitted { credentials, binding, session };
        // The session may have ended in the meantime. Then the answer is not needed.
        let worked_us = clock.monotonic_us() - begun_us;
        drop(answer.send(costed(Ok(admitted), std::mem::take(&mut round_trips), worked_us)));
    }
}

/// Who synchronizes what, and under which tables.
fn settle(
    reader: &mut dyn Reader,
    admission: &Admission,
    claims: BTreeMap<String, String>,
) -> Result<Session, Failure> {
    let mut session = reader.session(
        admission.renamed.as_ref().unwrap_or(&admission.user),
        claims,
        &admission.remote_id,
        admission.script_version.as_ref(),
        &admission.publications,
    )?;
    session.owner = admission.user.clone();
    session.passed = admission.passed.clone();
    if let Some((schema, tables)) = &admission.holds {
        session.held = reader.held(&session, schema.as_deref(), tables)?;
    }
    Ok(session)
}

/// Fetches a download and packs it.
pub(super) fn fetch_download(
    ask: Ask<'_>,
    fetch: &Fetch,
    packing: &mut Packing,
) -> Result<FetchedDownload, Failure> {
    let Packing { spills, cut, compressor } = packing;
    let compressed_before = compressor.frames();
    let mut begin = DownloadBegin::default();
    let open = || spills.open().counted_by(&fetch.spilled);
    let (mut frames, mut rejects) = (open(), rejects::Waiting::default());
    let mut oversize = Oversize::new(&fetch.session.schema, fetch.counter, cut.row_bytes_max);
    let no_echo = Echo::default();
    let request = request(fetch, *cut, &no_echo);
    let mut continued = 0;
    let mut keep = |batch| {
        let message = match batch {
            DownloadBatch::Reject { table, key, counter, code, message } => {
                let reject = Reject { table: table as u16, key, counter, code, message };
                return rejects.add(reject, &mut frames);
            }
            DownloadBatch::Conflict { table, key, counter, rule } => {
                let conflict = LostConflict { table: table as u16, key, counter, rule };
                return rejects.add_conflict(conflict, &mut frames);
            }
            DownloadBatch::Begin { tables, tokens, restored, deletes_lost, waiting } => {
                (frames, rejects) = (open(), rejects::Waiting::default());
                continued = tokens.iter().filter(|table| table.continued).count() as u64;
                begin = begun(fetch, (tables, tokens), (restored, deletes_lost), &waiting);
                return Ok(());
            }
            DownloadBatch::Position { table, deletes, passed, complete, position } => {
                let table = table as u16;
                Message::Position(Position { table, deletes, passed, complete, position })
            }
            // It is reported in the words of the reject that was noted with it.
            DownloadBatch::Withheld { .. } | DownloadBatch::Unreadable { .. } => return Ok(()),
            DownloadBatch::Upserts { table, count, rows } => {
                rows_message(table, Operation::Upsert, count, rows)
            }
            DownloadBatch::Deletes { table, count, rows } => {
                rows_message(table, Operation::Delete, count, rows)
            }
        };
        announce(&mut begin, &message);
        rejects.send(&mut frames)?;
        frames.append(packed(message, fetch, compressor)?)
    };
    let fetched = ask(&request, &mut |batch| oversize.pass(batch, &mut keep))?;
    oversize.finish(&mut keep)?;
    let rows = fetched.rows - oversize.rows;
    let compression = fetch.compression.filter(|_| compressor.frames() > compressed_before);
    rejects.send(&mut frames)?;
    fail_point!("server-download-fetched");
    let (session, watermarks) = (fetched.session(&fetch.session), fetched.watermarks);
    frames.append(Message::DownloadEnd(ended(fetch, rows, &watermarks)).to_frame()?)?;
    let begin = Message::DownloadBegin(begin).to_frame()?;
    let (filtered, withheld) = (fetched.filtered, oversize.into_news());
    count_withheld(&session, withheld.as_ref());
    Ok(FetchedDownload {
        begin,
        frames,
        compression,
        rows,
        filtered,
        continued,
        session,
        withheld,
        watermarks,
    })
}

/// Tells the scripts at the end how many rows are withheld.
fn count_withheld(session: &Session, news: Option<&News>) {
    if let (Some(counted), Some((withheld, _))) = (&session.counted, news) {
        counted.withheld(withheld.iter().map(|row| row.table));
    }
}

/// What is asked of the database.
fn request<'f>(fetch: &'f Fetch, cut: Cut, no_echo: &'f Echo) -> FetchRequest<'f> {
    FetchRequest {
        session: &fetch.session,
        counter: fetch.counter,
        marks: &fetch.marks,
        held_marks: &fetch.held_marks,
        is_counted: false,
        // Of what it has uploaded since, the remote may keep older images (RS4).
        echo: if fetch.resume.tables.is_empty() { &fetch.echo } else { no_echo },
        time_us: fetch.time_us,
        wanted: &fetch.wanted,
        resuming: Resuming {
            // Without a receipt a restore of the database would go unnoticed.
            is_offered: fetch.receipt.is_some(),
            was_cut: fetch.resume.was_cut,
            tables: &fetch.resume.tables,
        },
        batch_bytes: cut.batch_bytes,
        batch_rows: cut.batch_rows,
        row_bytes_max: cut.row_bytes_max as u64,
    }
}

/// How the download begins.
fn begun(
    fetch: &Fetch,
    (tables, tokens): (Vec<DownloadedTable>, Vec<TableToken>),
    (restored, deletes_lost): (bool, bool),
    waiting: &[consolidated::WaitingTable],
) -> DownloadBegin {
    let can_resume = tokens.iter().any(|table| table.token.is_some());
    let more = waiting.len() > fetch.session.waiting.len();
    DownloadBegin {
        tables: tables.into_iter().zip(tokens).map(table_download).collect(),
        restored,
        deletes_lost,
        waiting_tables: waiting.iter().filter(|_| more).map(waiting_table).collect(),
        receipt: fetch.receipt.clone().filter(|_| can_resume),
    }
}

/// How it ends.
fn ended(fetch: &Fetch, rows: u64, watermarks: &[Option<Watermark>]) -> DownloadEnd {
    let (counter, acknowledge) = (fetch.counter, fetch.acknowledge);
    let (watermarks, receipt) = (watermarks.to_vec(), fetch.receipt.clone());
    DownloadEnd { rows, watermarks, counter, receipt, acknowledge }
}

/// Counts the rows of a message among those that follow.
fn announce(begin: &mut DownloadBegin, message: &Message) {
    if let Message::Rows(rows) = message
        && let Some(table) = begin.tables.get_mut(usize::from(rows.table))
    {
        table.rows = Some(table.rows.unwrap_or(0) + u64::from(rows.count));
    }
}

/// The message as a frame, whose rows are compressed where that is wanted.
fn packed(
    message: Message,
    fetch: &Fetch,
    compressor: &mut Compressor,
) -> Result<Vec<u8>, Failure> {
    let mut frame = message.to_frame()?;
    if let (Some(method), Message::Rows(rows)) = (fetch.compression, message) {
        let table = fetch.session.schema.tables.get(usize::from(rows.table));
        if table.is_some_and(|table| table.compress) {
            compressor.compress(method, &mut frame)?;
        }
    }
    Ok(frame)
}

/// A table that waits, as remotes are told of it.
pub(crate) fn waiting_table(table: &consolidated::WaitingTable) -> WaitingTable {
    let (table, message) = (table.table.clone(), cut(&table.message, MESSAGE_BYTES_MAX));
    WaitingTable { table, message: message.into_owned() }
}

fn table_download((table, token): (DownloadedTable, TableToken)) -> TableDownload {
    let TableToken { token, continued } = token;
    TableDownload { token: token.map(Into::into), continued, ..TableDownload::new(mode(table)) }
}

fn mode(table: DownloadedTable) -> DownloadMode {
    match table {
        DownloadedTable::None => DownloadMode::None,
        DownloadedTable::Changes => DownloadMode::Changes,
        DownloadedTable::Refresh => DownloadMode::Refresh,
    }
}

fn rows_message(table: usize, operation: Operation, count: u32, bytes: Vec<u8>) -> Message {
    Message::Rows(RowsFrame { table: table as u16, operation, count, bytes })
}
