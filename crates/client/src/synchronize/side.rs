//! The remote's side of an attempt: performs the decisions of the session on the file.

mod agreement;
mod hello;
mod upload;

use super::arriving::{Arriving, merge};
use super::{Host, Lesson, Request, Step, Total};
use crate::Remote;
use crate::apply::circumstances::{Circumstances, Uploads};
use crate::apply::download::Download;
use crate::apply::rejects::settled;
use crate::apply::{self, Applied};
use crate::fail_point::fail_point;
use crate::moment::iso_utc;
use crate::progress::partial::{self, Kept};
use crate::progress::state::{Frozen, State};
use crate::progress::{self, Freezing};
use crate::schema::{self, RemoteTable};
use crate::session::Instruction;
use crate::settings::{self, Settings};
use crate::upload::{Upload, UploadFrames};
use model::{Code, Failure, Receipt, UserName};
use protocol::{
    DownloadBegin, DownloadEnd, LastUpload, Mode, Position, ResumedTable, SettledReject,
    UploadCommitted,
};
use std::sync::Arc;

/// What surrounds a step, for as long as it takes.
pub(super) struct Scene<'a> {
    pub(super) remote: &'a mut Remote,
    pub(super) request: &'a Request,
    pub(super) user: &'a UserName,
    /// What all attempts together came to.
    pub(super) total: &'a mut Total,
    pub(super) host: &'a mut dyn Host,
}

/// What the remote knows of one attempt. The rest is in the file.
#[derive(Debug)]
pub(super) struct Side {
    tables: Arc<[RemoteTable]>,
    state: State,
    /// An earlier attempt froze this generation. It is unknown whether it was committed.
    outcome: LastUpload,
    /// The upload, spelled before Hello but too large to go with it.
    collected: Option<Upload>,
    /// An upload went with Hello.
    upload_sent: bool,
    /// Positions of the tables whose changes are not uploaded now.
    kept: Vec<u16>,
    /// Positions of the tables that the server does not know: nothing of them is pending.
    unknown: Vec<u16>,
    /// The upload was asked for, and goes with Hello whatever its size.
    upload_is_wanted: bool,
    /// Pending changes are uploaded in another attempt, after the download of this one.
    postponed: bool,
    /// The download of this attempt makes another one necessary.
    receives_anew: bool,
    /// The upload that was acknowledged in this attempt.
    committed: Option<Frozen>,
    /// The receipt of that acknowledgement.
    receipt: Option<Receipt>,
    download: Option<Download>,
    /// What is kept of downloads that were cut.
    resume: Vec<ResumedTable>,
    was_cut: bool,
    /// What the server is told of rejects.
    settled: Vec<SettledReject>,
    /// The server says how the download goes on if it is cut.
    arriving: Option<Arriving>,
}

/// The first bytes of a connection.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) bytes: Vec<u8>,
    /// Rows of the upload that goes with Hello, if one does.
    pub(super) rows: Option<u64>,
    /// What is left of an upload that was begun with these bytes.
    pub(super) more: Option<Box<UploadFrames>>,
}

/// An upload that is ready, or not.
#[derive(Debug)]
pub(super) enum Ready {
    /// This has to be sent.
    Upload(Box<UploadFrames>),
    /// A heartbeat could not be sent while it was collected.
    Unsent(Failure),
}

impl Side {
    /// Makes the attempt durable before its first byte leaves (P2, P3).
    pub(super) fn begin(scene: &mut Scene<'_>) -> Result<Side, Failure> {
        let (remote, mode) = (&mut *scene.remote, scene.request.mode);
        let tables = remote.tables()?;
        if let Some(remote_id) = remote.proposed.remote_id.take() {
            // An attempt has an identity before a server can accept it.
            let identity = Settings { remote_id: Some(remote_id), ..Settings::default() };
            settings::remember(&remote.connection, &identity)?;
        }
        let (connection, random) = (&remote.connection, &mut remote.random);
        let freezing = match uploads(mode) {
            true => Freezing::All,
            false => Freezing::Nothing,
        };
        let progress::BegunAttempt { mut state, outcome_unknown, postponed, left_behind } =
            progress::begin_attempt(connection, &tables, random, freezing)?;
        if !outcome_unknown {
            scene.total.left_behind = left_behind;
        }
        if state.filling {
            apply::first_fill::clear(connection)?;
        }
        remote.proposed.overlay(&mut state);
        require_download(postponed, mode)?;
        fail_point!("client-frozen");
        scene.total.remote_id.clone_from(&state.remote_id);
        let lesson = scene.total.lesson.take();
        let frozen = state.frozen.map(|frozen| frozen.progress);
        let unsent = lesson.as_ref().is_some_and(|lesson| lesson.unsent == frozen);
        let upload_is_wanted = lesson.is_some();
        let connection = &scene.remote.connection;
        let resume = partial::presented(connection, &tables)?;
        let was_cut = partial::was_cut(connection)?;
        let (kept, unknown) = lesson.map(|it| (it.kept, it.unknown)).unwrap_or_default();
        Ok(Side {
            tables,
            state,
            outcome: match outcome_unknown && !unsent {
                true => LastUpload::Unknown,
                false => LastUpload::Known,
            },
            collected: None,
            upload_sent: false,
            kept,
            unknown,
            upload_is_wanted,
            postponed,
            receives_anew: false,
            committed: None,
            receipt: None,
            download: None,
            resume,
            was_cut,
            settled: match mode {
                Mode::Full | Mode::DownloadOnly => settled::untold(connection)?,
                Mode::UploadOnly | Mode::Ping => Vec::new(),
            },
            arriving: None,
        })
    }

    /// Tables of the schema agreed on.
    pub(super) fn tables_len(&self) -> usize {
        self.tables.len()
    }

    /// An upload goes with Hello, or right behind it.
    pub(super) fn upload_is_sent(&self) -> bool {
        self.upload_sent
    }

    /// Leaves the upload that the server wants to the next attempt. Nothing of what is frozen has
    /// left, or the server has thrown it away.
    pub(super) fn put_off_upload(&mut self, scene: &mut Scene<'_>) {
        scene.total.lesson = Some(Lesson {
            kept: std::mem::take(&mut self.kept),
            unknown: std::mem::take(&mut self.unknown),
            unsent: self.state.frozen.map(|frozen| frozen.progress),
        });
    }

    /// Another attempt follows: it uploads changes that had to wait for the download of this one,
    /// or receives tables as a whole.
    pub(super) fn is_unfinished(&self) -> bool {
        self.postponed || self.receives_anew
    }

    /// Changes stay pending that another attempt would not upload either.
    fn leaves_any(&self, total: &Total) -> bool {
        !self.kept.is_empty() || !total.left_behind.is_empty()
    }

    /// Performs an instruction of the session.
    pub(super) fn perform(
        &mut self,
        scene: &mut Scene<'_>,
        instruction: Instruction,
    ) -> Result<(), Failure> {
        match instruction {
            Instruction::Agree(welcome) => self.agree(scene, welcome),
            Instruction::ChangeSchema(change) => self.change_schema(scene, &change),
            Instruction::ChangeSchemaBehindUpload(change) => {
                self.change_schema_behind_upload(scene, &change)
            }
            Instruction::NoteCommitted(committed) => self.note_committed(scene, committed),
            Instruction::BeginDownload(begin) => self.begin_download(scene, begin),
            Instruction::KeepRows(frame) => {
                if let Some(arriving) = &mut self.arriving {
                    arriving.note(frame.bytes.len());
                }
                self.download()?.keep_rows(frame)
            }
            Instruction::KeepPosition(position) => self.keep_position(scene, position),
            Instruction::KeepTold(told) => self.download()?.keep_told(&told),
            Instruction::Apply(end) => self.apply(scene, &end),
        }
    }

    /// Rows of the download so far, and how many come, while there is one.
    pub(super) fn downloading(&self) -> Option<Step> {
        let download = self.download.as_ref()?;
        let (rows, rows_total) = (download.rows(), download.rows_announced());
        Some(Step::Downloading { rows, rows_total })
    }

    fn note_committed(
        &mut self,
        scene: &mut Scene<'_>,
        committed: UploadCommitted,
    ) -> Result<(), Failure> {
        if let Some(frozen) = self.state.frozen {
            if committed.progress < frozen.progress {
                let message = format!(
                    "upload {} was sent, {} is acknowledged",
                    frozen.progress.0, committed.progress.0
                );
                return Err(Failure::new(Code::UnexpectedMessage, message));
            }
            self.committed = Some(frozen);
        }
        self.receipt = committed.receipt;
        fail_point!("client-upload-committed");
        let total = &mut *scene.total;
        total.uploaded.inserts += committed.inserts;
        total.uploaded.updates += committed.updates;
        total.uploaded.deletes += committed.deletes;
        total.conflicts += committed.conflicts;
        for (table, rows) in committed.conflicts_by_table {
            *total.conflicts_by_table.entry(table).or_default() += rows;
        }
        total.rejected += committed.rejected;
        total.ignored += committed.ignored;
        match scene.request.mode {
            Mode::UploadOnly => self.drop_committed(scene.remote),
            _ => Ok(()),
        }
    }

    fn begin_download(
        &mut self,
        scene: &mut Scene<'_>,
        mut begin: DownloadBegin,
    ) -> Result<(), Failure> {
        if !begin.waiting_tables.is_empty() {
            scene.total.waiting = std::mem::take(&mut begin.waiting_tables);
        }
        if begin.tables.iter().any(|table| table.token.is_some()) {
            let now_ms = scene.remote.clock.monotonic_ms();
            let arriving = Arriving::begin(&begin, &self.resume, now_ms)?;
            if arriving.continues() {
                let connection = &scene.remote.connection;
                scene.total.resumed = arriving.kept(connection)?;
                let Kept { rows, bytes } = scene.total.resumed;
                scene.host.show(Step::Resuming { rows, bytes });
            }
            self.arriving = Some(arriving);
        }
        self.download = Some(Download::new(begin, &scene.remote.spills));
        Ok(())
    }

    fn keep_position(&mut self, scene: &Scene<'_>, position: Position) -> Result<(), Failure> {
        let (Some(arriving), Some(download)) = (&mut self.arriving, &self.download) else {
            let message = "a position of a download that cannot be resumed";
            return Err(Failure::new(Code::MalformedMessage, message));
        };
        arriving.reach(position, download)?;
        let Remote { connection, clock, .. } = &*scene.remote;
        arriving.store_in_time(connection, download, clock.monotonic_ms());
        fail_point!("client-position-reached");
        Ok(())
    }

    fn download(&mut self) -> Result<&mut Download, Failure> {
        let bug = || Failure::new(Code::Bug, "rows were kept before their download began");
        self.download.as_mut().ok_or_else(bug)
    }

    fn apply(&mut self, scene: &mut Scene<'_>, end: &DownloadEnd) -> Result<(), Failure> {
        fail_point!("client-download-received");
        let Some(download) = self.download.take() else { return Ok(()) };
        let download = match self.arriving.take() {
            Some(arriving) if arriving.continues() => {
                let Remote { connection, spills, .. } = &*scene.remote;
                let whole = merge::merge(connection, download, &self.tables, &arriving, spills);
                whole.inspect_err(|failure| self.doubt_what_is_kept(&*scene.remote, failure))?
            }
            _ => download,
        };
        let rows_total = download.rows();
        let at = iso_utc(scene.remote.clock.unix_ms());
        let circumstances = Circumstances {
            tables: &self.tables,
            committed: self.committed,
            open_generation: self.state.open_generation,
            nonce: self.state.nonce_attempt,
            at: &at,
            spills: &scene.remote.spills,
            uploads: match scene.request.mode {
                Mode::Full if self.postponed => Uploads::Later,
                Mode::Full if self.leaves_any(scene.total) => Uploads::WithTheirTable,
                Mode::Full => Uploads::Next,
                Mode::DownloadOnly | Mode::UploadOnly | Mode::Ping => Uploads::Not,
            },
            guards: false,
            fill_rows_min: scene.remote.fill_rows_min,
            fired: None,
        };
        let host = &mut *scene.host;
        host.show(Step::Applying { rows_done: 0, rows_total });
        let report = &mut |rows_done| host.show(Step::Applying { rows_done, rows_total });
        let connection = &scene.remote.connection;
        let applied = apply::apply(connection, &download, end, &circumstances, report);
        let applied = applied.inspect_err(|it| self.doubt_what_is_kept(&*scene.remote, it));
        let applied =
            applied.or_else(|failure| self.reject_postponed(&*scene.remote, failure, &at))?;
        scene.total.learned += applied.rejects;
        scene.total.conflicts_lost += applied.conflicts_lost;
        scene.total.sent_again.left += applied.sent_again.left;
        scene.total.sent_again.came += applied.sent_again.came;
        // Every attempt that writes rows says the same.
        if !applied.silent.is_empty() {
            scene.total.unfit_triggers = applied.silent;
        }
        self.receives_anew = applied.receives_anew;
        self.committed = None;
        scene.remote.wanted.clear();
        settled::note_told(&scene.remote.connection, self.settled.len())?;
        scene.total.downloaded.upserts += download.upsert_rows;
        scene.total.downloaded.deletes += download.delete_rows;
        Ok(())
    }

    /// Changes that wait for a download would wait forever if it is blocked. They go to the reject
    /// table, and the next attempt uploads what else is pending.
    fn reject_postponed(
        &self,
        remote: &Remote,
        failure: Failure,
        at: &str,
    ) -> Result<Applied, Failure> {
        if failure.code() != Code::DownloadBlocked || !self.postponed {
            return Err(failure);
        }
        let connection = &remote.connection;
        let postponed = progress::postponed_tables(connection, &self.tables, &self.state)?;
        schema::change::give_up(connection, &postponed, Code::RowDiffersOnReturn, at)?;
        Err(Failure::new(Code::ApplyBlocked, failure.message()).source(failure))
    }

    /// What cannot be applied is not kept: it would fail again each time.
    fn doubt_what_is_kept(&self, remote: &Remote, failure: &Failure) {
        let doubted = [Code::MalformedMessage, Code::RemoteSchemaDiffers, Code::Bug];
        if doubted.contains(&failure.code()) {
            let _ = partial::clear(&remote.connection);
        }
    }

    fn drop_committed(&mut self, remote: &Remote) -> Result<(), Failure> {
        let Some(frozen) = self.committed.take() else { return Ok(()) };
        let receipt = self.receipt.as_ref();
        progress::commit_frozen(&remote.connection, &self.tables, frozen, receipt)?;
        fail_point!("client-outcome-learned");
        Ok(())
    }

    /// After a failure: an acknowledgement that was received is recorded, which spares the next
    /// attempt the question. If this fails too, it is asked. What has arrived of a download is
    /// kept; says whether that brings the download nearer to its end.
    pub(super) fn save_what_is_known(&mut self, remote: &Remote) -> bool {
        let _ = self.drop_committed(remote);
        let (Some(arriving), Some(download)) = (&mut self.arriving, &self.download) else {
            return false;
        };
        let stored = arriving.store(&remote.connection, download, remote.clock.monotonic_ms());
        // Changes are kept from the second attempt on, for which they are sent in order.
        let is_first = !self.was_cut && download.rows() > 0;
        stored.is_ok() && (is_first || arriving.has_gained())
    }
}

fn uploads(mode: Mode) -> bool {
    matches!(mode, Mode::Full | Mode::UploadOnly)
}

/// An upload that must wait for a download would wait forever if there is none.
fn require_download(postponed: bool, mode: Mode) -> Result<(), Failure> {
    if postponed && mode == Mode::UploadOnly {
        let message = "changed rows have new columns whose values were not received yet";
        return Err(Failure::new(Code::DownloadFirst, message));
    }
    Ok(())
}
