//! One attempt: performs the decisions of the session on the file and the connection.

use super::channel::Channel;
use super::{Request, Step, Total};
use crate::Remote;
use crate::apply::{self, Circumstances, Download};
use crate::clock::iso_utc;
use crate::connection::{begin_immediate, explain};
use crate::fail_point::fail_point;
use crate::progress::{self, Attempt, Frozen, State};
use crate::schema::change::{Names, Waiting};
use crate::schema::{self, RemoteTable};
use crate::session::{Event, Instruction, Session};
use crate::settings::{self, Settings};
use crate::transport::Transport;
use crate::upload::{Limits, Upload};
use model::{Code, Failure, Progress, Receipt, UserName};
use protocol::{
    Capabilities, Credential, DownloadEnd, Hello, MAGIC, Message, Mode, Outcome, PROTOCOL_VERSION,
    SchemaChange, TableWatermark, UPLOAD_WITH_HELLO_BYTES_MAX, UploadCommitted, UploadState,
    Welcome,
};
use std::sync::Arc;

/// A server that hears nothing for longer may take the client for dead.
const HEARTBEAT_INTERVAL_MS: u64 = 15_000;

/// An upload of more bytes is collected after Welcome, under heartbeats: the server does not wait
/// for Hello as long as a large one may take.
const COLLECTED_BEFORE_HELLO_BYTES_MAX: u64 = 2 << 20;

pub(super) struct Host<'a> {
    remote: &'a mut Remote,
    request: &'a Request,
    user: &'a UserName,
    observer: &'a mut dyn FnMut(Step),
    total: &'a mut Total,
    channel: Channel,
    tables: Arc<[RemoteTable]>,
    state: State,
    /// An earlier attempt froze this generation. It is unknown whether it was committed.
    outcome: Outcome,
    /// The upload, spelled before Hello but too large to go with it.
    collected: Option<Upload>,
    /// An upload went with Hello.
    upload_sent: bool,
    /// It has key changes, which only a server of the kind met last understands.
    relies_on_capabilities: bool,
    /// Positions of the tables whose changes are not uploaded now.
    kept: Vec<u16>,
    /// Pending changes are uploaded in another attempt, after the download of this one.
    pub(super) postponed: bool,
    /// The upload that was acknowledged in this attempt.
    committed: Option<Frozen>,
    /// The receipt of that acknowledgement.
    receipt: Option<Receipt>,
    download: Option<Download>,
}

impl<'a> Host<'a> {
    /// Connects, and makes the attempt durable before its first byte leaves (P2, P3).
    pub(super) fn begin(
        remote: &'a mut Remote,
        request: &'a Request,
        user: &'a UserName,
        connect: &mut dyn FnMut() -> Result<Box<dyn Transport>, Failure>,
        observer: &'a mut dyn FnMut(Step),
        total: &'a mut Total,
    ) -> Result<Host<'a>, Failure> {
        observer(Step::Connecting);
        let channel = Channel::new(connect()?);
        let tables = remote.tables()?;
        let uploads = matches!(request.mode, Mode::Full | Mode::UploadOnly);
        if let Some(remote_id) = remote.proposed.remote_id.take() {
            // An attempt has an identity before a server can accept it.
            let identity = Settings { remote_id: Some(remote_id), ..Settings::default() };
            settings::remember(&remote.connection, &identity)?;
        }
        let Attempt { mut state, outcome_unknown, postponed } =
            progress::begin_attempt(&remote.connection, &tables, &mut remote.random, uploads)?;
        remote.proposed.overlay(&mut state);
        require_download(postponed, request.mode)?;
        fail_point!("client-frozen");
        total.remote_id.clone_from(&state.remote_id);
        let outcome = if outcome_unknown { Outcome::Unknown } else { Outcome::Known };
        Ok(Host {
            remote,
            request,
            user,
            observer,
            total,
            channel,
            tables,
            state,
            outcome,
            collected: None,
            upload_sent: false,
            relies_on_capabilities: false,
            kept: Vec::new(),
            postponed,
            committed: None,
            receipt: None,
            download: None,
        })
    }

    /// The conversation.
    pub(super) fn converse(&mut self) -> Result<(), Failure> {
        self.collected = self.collect_before_hello()?;
        let server = self.state.server_capabilities;
        let with_hello = self.collected.take_if(|it| {
            it.bytes <= UPLOAD_WITH_HELLO_BYTES_MAX as u64 && it.is_understood(server)
        });
        self.send_hello(with_hello.as_ref())?;
        self.upload_sent = with_hello.is_some();
        self.relies_on_capabilities = with_hello.as_ref().is_some_and(|it| it.key_changes > 0);
        let mut session = Session::new(self.request.mode, self.upload_sent, self.tables.len());
        drop(with_hello);
        loop {
            let event = match self.channel.receive()? {
                Some(message) => Event::Received(message),
                None => Event::Closed,
            };
            for instruction in session.handle(event)? {
                match instruction {
                    Instruction::Agree(welcome) => self.agree(welcome)?,
                    Instruction::ChangeSchema(change) => self.change_schema(&change)?,
                    Instruction::ChangeSchemaBehindUpload(change) => {
                        self.change_schema_behind_upload(&change)?;
                    }
                    Instruction::Upload => self.upload()?,
                    Instruction::NoteCommitted(committed) => self.note_committed(committed)?,
                    Instruction::BeginDownload(mut begin) => {
                        if !begin.waiting_tables.is_empty() {
                            self.total.waiting = std::mem::take(&mut begin.waiting_tables);
                        }
                        self.download = Some(Download::new(begin, &self.remote.spills));
                    }
                    Instruction::KeepRows(frame) => self.download()?.keep_rows(frame)?,
                    Instruction::KeepRejects(rejects) => self.download()?.keep_rejects(rejects)?,
                    Instruction::Apply(end) => self.apply(&end)?,
                    Instruction::Finish => return Ok(()),
                }
            }
            if let Some(download) = &self.download {
                (self.observer)(Step::Downloading { rows: download.rows() });
            }
        }
    }

    /// The whole upload, if the outcome of the last one is known, there is a schema, and it is
    /// small enough to be sent with Hello.
    fn collect_before_hello(&mut self) -> Result<Option<Upload>, Failure> {
        let uploads = matches!(self.request.mode, Mode::Full | Mode::UploadOnly);
        if !uploads || self.outcome == Outcome::Unknown || self.state.schema_fingerprint.is_none() {
            return Ok(None);
        }
        // A server that turns out not to know all that it has gets another upload after Welcome.
        let bytes_max = Some(COLLECTED_BEFORE_HELLO_BYTES_MAX);
        self.collect_or_take_back(Limits::of(Capabilities::ALL, bytes_max))
    }

    /// What was collected before Hello, where it is still what is to be uploaded: C2 sees to its
    /// content, but the schema may have changed since, or the frozen set, or the server may not
    /// know key changes.
    fn collected_already(&mut self) -> Option<Upload> {
        let (frozen, server) = (self.state.frozen?, self.state.server_capabilities);
        let upload = self.collected.take().filter(|upload| upload.is_of(frozen))?;
        upload.is_understood(server).then_some(upload)
    }

    fn send_hello(&mut self, upload: Option<&Upload>) -> Result<(), Failure> {
        let hello = self.hello(upload.is_some())?;
        let mut bytes = MAGIC.to_vec();
        Message::Hello(Box::new(hello)).encode(&mut bytes)?;
        let mut rows = 0;
        if let Some(upload) = upload {
            rows = upload.rows;
            upload.send(&mut |frame, _| {
                bytes.extend_from_slice(frame);
                Ok(())
            })?;
        }
        self.channel.send(&bytes)?;
        if upload.is_some() {
            fail_point!("client-upload-sent");
            (self.observer)(Step::Uploading { rows_done: rows, rows_total: rows });
        }
        (self.observer)(Step::Waiting);
        Ok(())
    }

    fn hello(&self, upload_follows: bool) -> Result<Hello, Failure> {
        let state = &self.state;
        let missing = || Failure::new(Code::Bug, "an attempt was not recorded");
        Ok(Hello {
            protocol_version: PROTOCOL_VERSION,
            capabilities: Capabilities::ALL,
            client: self.request.client.clone(),
            database: None,
            remote_id: state.remote_id.clone().ok_or_else(missing)?,
            user: self.user.clone(),
            credential: self.credential(),
            script_version: state.script_version.clone(),
            publications: state.publications.clone(),
            database_id: state.database_id.clone(),
            mode: self.request.mode,
            progress: state.progress,
            outcome: self.outcome,
            counter: state.counter,
            nonce_confirmed: state.nonce_confirmed,
            nonce_attempt: state.nonce_attempt.ok_or_else(missing)?,
            attempt: state.attempt,
            file_secret: state.file_secret,
            receipt: state.receipt.clone(),
            schema_fingerprint: state.schema_fingerprint.clone(),
            watermarks: self.watermarks()?,
            upload_follows,
        })
    }

    fn watermarks(&self) -> Result<Vec<TableWatermark>, Failure> {
        let stored = progress::watermarks(&self.remote.connection)?;
        let with_table = self.tables.iter().zip(stored);
        Ok(with_table
            .map(|(table, watermark)| TableWatermark {
                fingerprint: table.published.fingerprint.clone(),
                watermark,
            })
            .collect())
    }

    /// A token that an earlier attempt of this call was given saves the server a password check.
    fn credential(&self) -> Credential {
        match &self.total.token {
            Some(token) => Credential::Token(token.clone()),
            None => self.request.credential.clone(),
        }
    }

    /// Records what Welcome says, as far as it is news.
    fn agree(&mut self, welcome: Welcome) -> Result<(), Failure> {
        if welcome.token.is_some() {
            self.total.token = welcome.token;
        }
        self.total.script_version = welcome.script_version;
        self.total.waiting = welcome.waiting_tables;
        self.kept = welcome.kept_tables;
        match &self.state.database_id {
            Some(known) if *known != welcome.database_id => {
                let message = format!(
                    "the remote belongs to database {known}, the server has {}",
                    welcome.database_id
                );
                return Err(Failure::new(Code::WrongDatabase, message));
            }
            Some(_) => {}
            None if self.request.mode == Mode::Ping => {}
            None => {
                progress::set(&self.remote.connection, "database_id", &welcome.database_id.0)
                    .map_err(explain)?;
                self.state.database_id = Some(welcome.database_id);
            }
        }
        self.remote.proposed.accepted(&self.remote.connection)?;
        if self.request.mode == Mode::Ping {
            return Ok(());
        }
        if welcome.capabilities != self.state.server_capabilities {
            self.state.server_capabilities = welcome.capabilities;
            let capabilities = welcome.capabilities.0.cast_signed();
            progress::set(&self.remote.connection, "server_capabilities", capabilities)
                .map_err(explain)?;
        }
        if self.state.synchronized_user.as_ref() != Some(self.user) {
            progress::set(&self.remote.connection, "synchronized_user", self.user.as_str())
                .map_err(explain)?;
        }
        let news = match (self.outcome, welcome.progress) {
            (Outcome::Unknown, None) => {
                let message = "Welcome does not contain the outcome of the last upload";
                return Err(Failure::new(Code::UnexpectedMessage, message));
            }
            (Outcome::Unknown, committed) => committed,
            // What is being applied gets its outcome from UploadCommitted.
            (Outcome::Known, _) if welcome.upload == UploadState::Taken => None,
            (Outcome::Known, committed) => committed.filter(|it| *it != self.state.progress),
        };
        if let Some(committed) = news {
            self.learn_outcome(committed)?;
        }
        if welcome.upload == UploadState::Send && !welcome.unknown_tables.is_empty() {
            self.give_up(&welcome.unknown_tables)?;
        }
        Ok(())
    }

    /// The server does not know these tables, so it cannot accept their pending changes. It skipped
    /// the upload that came with Hello.
    fn give_up(&mut self, tables: &[u16]) -> Result<(), Failure> {
        let at = iso_utc(self.remote.clock.unix_ms());
        // What it records is counted with all other rejects (`synchronize.rs`).
        schema::change::give_up(&self.remote.connection, tables, &at)?;
        self.collected = None;
        self.state = self.read_state()?;
        Ok(())
    }

    /// The server's last upload is not the one we knew of (trap 6).
    fn learn_outcome(&mut self, committed: Progress) -> Result<(), Failure> {
        let ours = self.state.frozen.is_some_and(|frozen| frozen.progress == committed);
        if !ours && committed != self.state.progress {
            // A copy of the file has continued with this identity. Numbers have random gaps, so an
            // own number means the own content.
            let message = format!("the server has upload {}, which is not ours", committed.0);
            return Err(Failure::new(Code::CopiedRemote, message));
        }
        progress::learn_outcome(&self.remote.connection, &self.tables, &self.state, committed)?;
        self.outcome = Outcome::Known;
        self.state = self.read_state()?;
        fail_point!("client-outcome-learned");
        Ok(())
    }

    fn read_state(&self) -> Result<State, Failure> {
        State::read(&self.remote.connection)
    }

    /// The server wants the new tables before anything else.
    fn change_schema(&mut self, change: &SchemaChange) -> Result<(), Failure> {
        self.follow(
            change,
            match self.request.mode {
                Mode::DownloadOnly => Waiting::Kept,
                _ => Waiting::CarriedOver(Names::Guessed),
            },
        )
    }

    /// What waited has gone up under the tables that it was captured in.
    fn change_schema_behind_upload(&mut self, change: &SchemaChange) -> Result<(), Failure> {
        // Changes that had to wait for a download, or still wait, would block this change forever.
        let waiting = match self.postponed || !self.kept.is_empty() {
            true => {
                self.drop_committed()?;
                Waiting::CarriedOver(Names::Told)
            }
            false => Waiting::Uploaded(self.committed),
        };
        self.follow(change, waiting)?;
        self.committed = None;
        fail_point!("client-schema-changed");
        Ok(())
    }

    fn follow(&mut self, change: &SchemaChange, waiting: Waiting) -> Result<(), Failure> {
        let at = iso_utc(self.remote.clock.unix_ms());
        schema::change::apply(&self.remote.connection, change, waiting, &at)?;
        self.collected = None;
        self.remote.tables = None;
        self.tables = self.remote.tables()?;
        self.state = self.read_state()?;
        Ok(())
    }

    fn upload(&mut self) -> Result<(), Failure> {
        if self.state.frozen.is_none() {
            let (connection, random) = (&self.remote.connection, &mut self.remote.random);
            let attempt = progress::begin_attempt(connection, &self.tables, random, true)?;
            require_download(attempt.postponed, self.request.mode)?;
            self.postponed = attempt.postponed;
            self.state = attempt.state;
        }
        self.keep_back()?;
        let collected = match self.collected_already() {
            Some(upload) => Some(upload),
            None => {
                let limits = Limits::of(self.state.server_capabilities, None);
                self.collect_or_take_back(limits)?
            }
        };
        let Some(upload) = collected else { return Ok(()) };
        let rows_total = upload.rows;
        let (channel, observer) = (&mut self.channel, &mut self.observer);
        upload.send(&mut |frame, rows_done| {
            channel.send(frame)?;
            observer(Step::Uploading { rows_done, rows_total });
            Ok(())
        })?;
        fail_point!("client-upload-sent");
        observer(Step::Waiting);
        Ok(())
    }

    /// Removes changes of tables that wait at the centre from the upload. Nothing of it has left,
    /// or it was thrown away there: it is pending as before.
    fn keep_back(&mut self) -> Result<(), Failure> {
        let Some(frozen) = self.state.frozen.filter(|_| !self.kept.is_empty()) else {
            return Ok(());
        };
        let kept = self.kept.iter().filter_map(|at| self.tables.get(usize::from(*at)));
        let open = self.state.open_generation;
        progress::keep_back(&self.remote.connection, kept, frozen, open)?;
        self.collected = None;
        fail_point!("client-kept-back");
        Ok(())
    }

    /// The upload. Where it cannot be sent, for a row that is too large, nothing of it has left.
    fn collect_or_take_back(&mut self, limits: Limits) -> Result<Option<Upload>, Failure> {
        let collected = self.collect(limits);
        if collected.is_err() && !self.upload_sent {
            self.take_back()?;
        }
        collected
    }

    /// Nothing of the frozen generation has left, so its outcome is known.
    fn take_back(&mut self) -> Result<(), Failure> {
        let Some(frozen) = self.state.frozen else { return Ok(()) };
        let transaction = begin_immediate(&self.remote.connection)?;
        progress::merge_back(&transaction, &self.tables, frozen, self.state.open_generation)
            .map_err(explain)?;
        transaction.commit().map_err(explain)
    }

    fn collect(&mut self, limits: Limits) -> Result<Option<Upload>, Failure> {
        let (channel, clock) = (&mut self.channel, &self.remote.clock);
        let mut said_ms = clock.monotonic_ms();
        let mut alive = || {
            let now_ms = clock.monotonic_ms();
            if limits.bytes_max.is_none() && now_ms.saturating_sub(said_ms) >= HEARTBEAT_INTERVAL_MS
            {
                said_ms = now_ms;
                channel.send(&Message::Heartbeat.to_frame()?)?;
            }
            Ok(())
        };
        let remote = &*self.remote;
        Upload::collect(
            &remote.connection,
            &self.tables,
            &self.state,
            &remote.spills,
            limits,
            &mut alive,
        )
    }

    fn note_committed(&mut self, committed: UploadCommitted) -> Result<(), Failure> {
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
        let total = &mut *self.total;
        total.uploaded.inserts += committed.inserts;
        total.uploaded.updates += committed.updates;
        total.uploaded.deletes += committed.deletes;
        total.conflicts += committed.conflicts;
        total.rejected += committed.rejected;
        match self.request.mode {
            Mode::UploadOnly => self.drop_committed(),
            _ => Ok(()),
        }
    }

    fn download(&mut self) -> Result<&mut Download, Failure> {
        let bug = || Failure::new(Code::Bug, "rows were kept before their download began");
        self.download.as_mut().ok_or_else(bug)
    }

    fn apply(&mut self, end: &DownloadEnd) -> Result<(), Failure> {
        fail_point!("client-download-received");
        let Some(download) = self.download.take() else { return Ok(()) };
        let rows_total = download.rows();
        let at = iso_utc(self.remote.clock.unix_ms());
        let circumstances = Circumstances {
            tables: &self.tables,
            committed: self.committed,
            open_generation: self.state.open_generation,
            nonce: self.state.nonce_attempt,
            at: &at,
            spills: &self.remote.spills,
            // What had to wait for this download, or waits on, cannot make room for it.
            uploads: self.request.mode == Mode::Full && !self.postponed && self.kept.is_empty(),
            guards: false,
        };
        let observer = &mut self.observer;
        observer(Step::Applying { rows_done: 0, rows_total });
        let report = &mut |rows_done| observer(Step::Applying { rows_done, rows_total });
        let connection = &self.remote.connection;
        self.total.learned += apply::apply(connection, &download, end, &circumstances, report)?;
        self.committed = None;
        self.total.downloaded.upserts += download.upsert_rows;
        self.total.downloaded.deletes += download.delete_rows;
        Ok(())
    }

    fn drop_committed(&mut self) -> Result<(), Failure> {
        let Some(frozen) = self.committed.take() else { return Ok(()) };
        let receipt = self.receipt.as_ref();
        progress::commit_frozen(&self.remote.connection, &self.tables, frozen, receipt)?;
        fail_point!("client-outcome-learned");
        Ok(())
    }

    /// After a failure: an acknowledgement that was received is recorded, which spares the next
    /// attempt the question. If this fails too, it is asked. A server that could not read what the
    /// one before could is asked first next time what it can do.
    pub(super) fn save_what_is_known(&mut self, failure: &Failure) {
        let _ = self.drop_committed();
        if failure.code() == Code::MalformedMessage && self.relies_on_capabilities {
            let _ = progress::forget(&self.remote.connection, &["server_capabilities"]);
        }
    }
}

/// An upload that must wait for a download would wait forever if there is none.
fn require_download(postponed: bool, mode: Mode) -> Result<(), Failure> {
    if postponed && mode == Mode::UploadOnly {
        let message = "changed rows have new columns whose values were not received yet";
        return Err(Failure::new(Code::DownloadFirst, message));
    }
    Ok(())
}
