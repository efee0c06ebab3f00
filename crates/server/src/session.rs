//! One synchronization, from the first byte to the last.
//!
//! | state | hears | does |
//! |---|---|---|
//! | new | magic, Hello | admits: user, schema, lease |
//! | admitted | UploadBegin, Rows, UploadEnd | keeps the rows in the spill |
//! | applying | nothing | one transaction; `UploadCommitted` leaves when it is durable |
//! | fetching | nothing | one snapshot into the spill |
//! | sending | nothing | the download, then `DownloadEnd` |
//!
//! Everything else that is heard is a failure with a code. A failure in any state is told to the
//! peer and ends the synchronization; what was committed stays, and the next Hello learns of it.

use crate::authenticate::{Authenticator, Claim};
use crate::config::Settings;
use crate::fail_point::fail_point;
use crate::lease::{Claimant, Lease, Leases};
use crate::network::Connection;
use crate::phases::{Phase, Phases};
use crate::turns::Origin;
use crate::upload::{ReceivedUpload, UploadInProgress};
use crate::worker::{Admission, Begin, Cost, Costed, Fetch, Upload, Withhold, Worker};
use consolidated::{Applied, Begun, Held, HeldSchema, Identity, Session, TableMark};
use model::{Clock, Code, Failure, Progress, Spill, SpillPosition, Spills};
use protocol::{
    Capabilities, Hello, Message, Mode, Outcome, PROTOCOL_VERSION, RenamedTable, SchemaChange,
    UploadCommitted, UploadState, Welcome,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Most frames of a download in one write.
const FRAMES_PER_WRITE: usize = 16;

/// Bytes of a download from which on no further frame is added to a write.
const BYTES_PER_WRITE: usize = 256 << 10;

/// What all sessions of a server share.
pub(crate) struct Shared {
    pub(crate) config: Settings,
    pub(crate) worker: Worker,
    pub(crate) authenticator: Authenticator,
    pub(crate) leases: Arc<Leases>,
    pub(crate) spills: Arc<Spills>,
    pub(crate) sessions: Semaphore,
    pub(crate) stopping: AtomicBool,
}

impl Shared {
    fn place(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.sessions.try_acquire().map_err(|_| {
            let message =
                format!("{} synchronizations are under way", self.config.now().sessions_max);
            Failure::new(Code::ServerFull, message).retry_after_s(1)
        })
    }
}

/// What the log says of a synchronization.
pub(crate) struct Summary {
    pub(crate) phases: Phases,
    pub(crate) remote: String,
    pub(crate) user: String,
    pub(crate) script_version: String,
    pub(crate) uploaded: u64,
    pub(crate) conflicts: u64,
    pub(crate) rejected: u64,
    /// Rows that the actions of foreign keys reached beyond the upload.
    pub(crate) reached: u64,
    pub(crate) downloaded: u64,
    pub(crate) filtered: u64,
    /// Bytes of rows that went to disk, because memory was short.
    pub(crate) spilled_bytes: u64,
    pub(crate) cost: Cost,
}

impl Summary {
    /// Of one that has just begun.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Summary {
        Summary {
            phases: Phases::new(clock),
            remote: String::new(),
            user: String::new(),
            script_version: String::new(),
            uploaded: 0,
            conflicts: 0,
            rejected: 0,
            reached: 0,
            downloaded: 0,
            filtered: 0,
            spilled_bytes: 0,
            cost: Cost::default(),
        }
    }
}

/// Serves one connection. `Ok(None)`: it left without a word.
pub(crate) async fn serve(
    connection: &mut Connection,
    address: IpAddr,
    shared: &Shared,
    summary: &mut Summary,
) -> Result<Option<()>, Failure> {
    let limit = Duration::from_secs(shared.config.now().hello_timeout_s);
    if connection.receive_magic(limit).await?.is_none() {
        return Ok(None);
    }
    let hello = tokio::time::timeout(limit, expect_hello(connection))
        .await
        .map_err(|_| Failure::new(Code::PeerSilent, "no Hello arrived in time"))??;
    summary.phases.end(Phase::Receiving);
    summary.remote = hello.remote_id.to_string();
    summary.user = hello.user.to_string();
    if shared.stopping.load(Ordering::Relaxed) {
        return Err(Failure::new(Code::ServerStopping, "the server is stopping").retry_after_s(1));
    }
    let origin = Origin::new(address, hello.user.clone());
    let claim = shared.authenticator.claim(&origin, &hello.credential).await?;
    summary.phases.end(Phase::Waiting);
    // What was signed here is worth a place; a password is only once it was verified.
    let place = match &claim {
        Claim::Token { .. } => Some(shared.place()?),
        Claim::Password { .. } => None,
    };
    let (session, token) = admit(shared, &hello, &origin, claim, summary).await?;
    let _place = match place {
        Some(place) => place,
        None => shared.place()?,
    };
    summary.script_version = session.script_version.to_string();
    let identity = identity(&hello);
    let (remote_id, user) = (hello.remote_id.clone(), hello.user.clone());
    let holder = Claimant { remote_id, user, file: identity.secret };
    summary.phases.end(Phase::Admission);
    let lease = shared.leases.take(&holder).await?;
    summary.phases.end(Phase::Waiting);
    connection.admit(shared.config.now().frame_bytes_max);
    let mut synchronization = Synchronization {
        connection,
        shared,
        lease: &lease,
        marks: marks(&hello, &session),
        identity,
        hello,
        session: Arc::new(session),
        token,
        summary,
    };
    tokio::select! {
        result = synchronization.run() => result?,
        failure = lease.cancelled() => return Err(failure),
    }
    summary.phases.end(Phase::Sending);
    Ok(Some(()))
}

async fn expect_hello(connection: &mut Connection) -> Result<Hello, Failure> {
    let hello = match connection.receive().await? {
        Message::Hello(hello) => *hello,
        other => return Err(other.unexpected("Hello")),
    };
    if hello.protocol_version == 0 || hello.protocol_version > PROTOCOL_VERSION {
        return Err(Failure::new(
            Code::UnsupportedVersion,
            format!(
                "the client speaks version {} of the protocol; this server speaks up to {}",
                hello.protocol_version, PROTOCOL_VERSION
            ),
        )
        .hint("update the server"));
    }
    if let Some(name) = hello.database.as_deref().filter(|name| !name.is_empty()) {
        let message =
            format!("this server has one database, which has no name; {name:?} was asked for");
        return Err(Failure::new(Code::WrongDatabase, message).hint("name no database in Hello"));
    }
    Ok(hello)
}

/// Verifies the user before anything else is told.
async fn admit(
    shared: &Shared,
    hello: &Hello,
    origin: &Origin,
    claim: Claim,
    summary: &mut Summary,
) -> Result<(Session, Option<String>), Failure> {
    let Costed { value: admitted, cost: spent } = shared
        .worker
        .admit(Admission {
            user: hello.user.clone(),
            remote_id: hello.remote_id.clone(),
            script_version: hello.script_version.clone(),
            publications: hello.publications.clone(),
            holds: holds(hello),
        })
        .await?;
    summary.cost += spent;
    summary.phases.end_work(Phase::Admission, spent.worked_us);
    let known = admitted.credentials.as_ref();
    let token = shared.authenticator.verify(claim, origin, known).await?;
    let mut session = admitted.session?;
    // Before anything is done in the name of the remote: its lease, its epoch, what it is owed.
    admitted.binding.require(&hello.remote_id, &hello.user)?;
    refuse_older_program(hello, &session)?;
    if !hello.capabilities.has(Capabilities::HELD_SHAPE) {
        // It changes its tables first, and uploads under those of today.
        session.held = Held::Untold;
    }
    if hello.database_id.as_ref().is_some_and(|id| *id != session.database_id) {
        return Err(Failure::new(
            Code::WrongDatabase,
            "the remote belongs to another consolidated database",
        ));
    }
    Ok((session, token))
}

/// The digests of what the remote holds.
fn holds(hello: &Hello) -> Option<(Option<String>, Vec<String>)> {
    let digests = hello.watermarks.iter().map(|table| table.fingerprint.clone());
    let holds = || (hello.schema_fingerprint.clone(), digests.collect());
    (hello.mode != Mode::Ping).then(holds)
}

fn uploads(hello: &Hello) -> bool {
    matches!(hello.mode, Mode::Full | Mode::UploadOnly)
}

/// A program that changes its tables before it uploads finds them again by their names: what waits
/// for a column that has another name now, or is gone, would vanish there without a word.
fn refuse_older_program(hello: &Hello, session: &Session) -> Result<(), Failure> {
    let Held::Older(held) = &session.held else { return Ok(()) };
    match held.altered.first() {
        Some(table) if uploads(hello) && !hello.capabilities.has(Capabilities::HELD_SHAPE) => {
            let message = format!("columns of table {table} have other names now, or are gone");
            Err(Failure::new(Code::ProgramTooOld, message).table(table.as_str()))
        }
        _ => Ok(()),
    }
}

fn identity(hello: &Hello) -> Identity {
    Identity {
        counter: hello.counter,
        nonce_confirmed: hello.nonce_confirmed,
        nonce_attempt: hello.nonce_attempt,
        attempt: hello.attempt,
        progress: hello.progress,
        outcome_unknown: hello.outcome == Outcome::Unknown,
        secret: hello.file_secret.as_ref().map(consolidated::secret_digest),
    }
}

/// What the remote holds, in the order of the session's schema. Tables are recognized by their
/// digest, so a table that changed meanwhile counts as one that the remote does not have.
fn marks(hello: &Hello, session: &Session) -> Arc<Vec<TableMark>> {
    let held: HashMap<&str, _> =
        hello.watermarks.iter().map(|w| (w.fingerprint.as_str(), &w.watermark)).collect();
    let mark = |fingerprint: &String| TableMark {
        fingerprint: fingerprint.clone(),
        watermark: held.get(fingerprint.as_str()).and_then(|watermark| (*watermark).clone()),
    };
    Arc::new(session.schema.tables.iter().map(|table| mark(&table.fingerprint)).collect())
}

fn renamed(table: &consolidated::RenamedTable) -> RenamedTable {
    let (held, columns) = (table.held, table.columns.clone());
    RenamedTable { table: table.table, held, columns }
}

/// Frames that are sent with one write: what little there is, or one large frame.
fn next_frames<'a>(
    frames: &'a Spill,
    position: &mut SpillPosition,
) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
    let mut together = Vec::new();
    let mut bytes = 0;
    while together.len() < frames_per_write() && bytes < BYTES_PER_WRITE {
        let Some(frame) = frames.read_at(position)? else { break };
        bytes += frame.len();
        together.push(frame);
    }
    Ok(together)
}

fn frames_per_write() -> usize {
    // One by one, so that there is a moment at which half of them was sent.
    fail_point!("server-download-half-sent", 1);
    FRAMES_PER_WRITE
}

/// An admitted synchronization.
struct Synchronization<'a> {
    connection: &'a mut Connection,
    shared: &'a Shared,
    lease: &'a Lease,
    hello: Hello,
    session: Arc<Session>,
    identity: Identity,
    marks: Arc<Vec<TableMark>>,
    token: Option<String>,
    summary: &'a mut Summary,
}

impl Synchronization<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let applied = match self.hello.mode {
            Mode::Ping => {
                self.welcome(UploadState::None, None)?;
                return self.connection.flush().await;
            }
            Mode::DownloadOnly => self.begin_download_only().await?,
            Mode::Full | Mode::UploadOnly => self.upload().await?,
        };
        if self.hello.mode == Mode::UploadOnly {
            return self.connection.flush().await;
        }
        self.download(applied).await
    }

    /// The client sends key changes as what they are, and understands them.
    fn key_changes(&self) -> bool {
        self.hello.capabilities.has(Capabilities::KEY_CHANGES)
    }

    fn same_schema(&self) -> bool {
        self.hello.schema_fingerprint.as_ref() == Some(&self.session.schema.fingerprint)
    }

    /// The tables under which the remote uploads, where they are not those of today.
    fn held(&self) -> Option<Arc<HeldSchema>> {
        match &self.session.held {
            Held::Older(held) if uploads(&self.hello) => Some(held.clone()),
            _ => None,
        }
    }

    fn schema_change(&self) -> Message {
        let renamed = match &self.session.held {
            Held::Older(held) => held.renamed.iter().map(renamed).collect(),
            Held::Untold | Held::Same { .. } => Vec::new(),
        };
        let schema = (*self.session.schema).clone();
        Message::SchemaChange(Box::new(SchemaChange { schema, renamed }))
    }

    fn welcome(&mut self, upload: UploadState, progress: Option<Progress>) -> Result<(), Failure> {
        let differs = !self.same_schema() && self.hello.mode != Mode::Ping;
        let held = self.held().filter(|_| differs);
        let schema_change_follows = differs && held.is_none();
        self.connection.queue(&Message::Welcome(Welcome {
            protocol_version: PROTOCOL_VERSION,
            capabilities: Capabilities::ALL,
            schema_change_after_upload: held.is_some() && self.hello.mode == Mode::Full,
            unknown_tables: held.map_or_else(Vec::new, |held| held.unknown.clone()),
            server: concat!("syncline ", env!("CARGO_PKG_VERSION")).into(),
            database_id: self.session.database_id.clone(),
            progress,
            script_version: Some(self.session.script_version.clone()),
            upload,
            schema_change_follows,
            token: self.token.take(),
        }))?;
        if schema_change_follows {
            let change = self.schema_change();
            self.connection.queue(&change)?;
        }
        Ok(())
    }

    /// Answers what is committed, and shuts out every predecessor.
    async fn begin(&mut self) -> Result<Begun, Failure> {
        let begin = Begin {
            session: self.session.clone(),
            identity: self.identity,
            receipt: self.hello.receipt.clone(),
        };
        self.at_database(Phase::Applying, self.shared.worker.begin(begin)).await
    }

    /// Hands out the counter. A remote that does not know what became of its last upload has to
    /// learn it first: what it downloads must not be taken for older than what it sent.
    async fn begin_download_only(&mut self) -> Result<Applied, Failure> {
        let begun = match self.hello.outcome {
            Outcome::Known => None,
            Outcome::Unknown => Some(self.begin().await?),
        };
        self.welcome(UploadState::None, begun.map(|begun| begun.progress))?;
        self.apply(None, begun.map(|begun| begun.epoch)).await
    }

    /// Receives and applies the upload, and tells the remote that it is durable.
    async fn upload(&mut self) -> Result<Applied, Failure> {
        let held = self.held();
        // What waits for tables that nobody knows here, the remote has to take out.
        let understood = match &held {
            Some(held) => held.unknown.is_empty(),
            None => self.same_schema(),
        };
        let known = self.hello.outcome == Outcome::Known && understood;
        // Where nothing is in doubt the database is not asked before the rows are here. The
        // remote has no upload on its way that had to be shut out first, and the transaction of
        // this one recognizes it, and refuses it if it was overtaken meanwhile (S8, trap 6).
        let begun = if known { None } else { Some(self.begin().await?) };
        let upload = if known && self.hello.upload_follows {
            let upload = self.receive_upload().await?;
            self.welcome(UploadState::Taken, None)?;
            upload
        } else {
            if self.hello.upload_follows {
                // It was built on assumptions that do not hold: thrown away unseen, sent again.
                self.skip_upload().await?;
            }
            self.welcome(UploadState::Send, begun.map(|begun| begun.progress))?;
            self.connection.flush().await?;
            self.receive_upload().await?
        };
        let epoch = begun.map(|begun| begun.epoch);
        fail_point!("server-upload-received");
        self.summary.uploaded = upload.rows;
        self.summary.spilled_bytes += upload.spilled_bytes();
        let applied = self.apply(Some(upload), epoch).await?;
        self.summary.conflicts = applied.conflicts;
        self.summary.rejected = applied.rejected;
        self.summary.reached = applied.reached;
        self.connection.queue(&Message::UploadCommitted(UploadCommitted {
            progress: applied.progress,
            inserts: applied.inserts,
            updates: applied.updates,
            deletes: applied.deletes,
            conflicts: applied.conflicts,
            rejected: applied.rejected,
            // Where a download follows it comes at its end.
            receipt: match self.hello.mode {
                Mode::UploadOnly => applied.receipt.clone(),
                _ => None,
            },
        }))?;
        if held.is_some() && self.hello.mode == Mode::Full {
            let change = self.schema_change();
            self.connection.queue(&change)?;
        }
        self.connection.flush().await?;
        self.summary.phases.end(Phase::Sending);
        Ok(applied)
    }

    async fn receive_upload(&mut self) -> Result<ReceivedUpload, Failure> {
        let received = self.receive_rows().await;
        self.summary.phases.end(Phase::Receiving);
        received
    }

    async fn receive_rows(&mut self) -> Result<ReceivedUpload, Failure> {
        let begin = match self.connection.receive().await? {
            Message::UploadBegin(begin) => begin,
            other => return Err(other.unexpected("UploadBegin")),
        };
        let (spills, bytes_max) = (&self.shared.spills, self.shared.config.now().upload_bytes_max);
        let schema = match self.held() {
            Some(held) => Arc::new(held.schema.clone()),
            None => self.session.schema.clone(),
        };
        let mut upload =
            UploadInProgress::new(begin, &schema, spills, bytes_max, self.key_changes())?;
        loop {
            let frame = self.connection.receive_frame().await?;
            self.lease.progress();
            if frame.frame_type == Message::ROWS_TYPE {
                upload.take(frame)?;
                continue;
            }
            match Message::decode(frame)? {
                None | Some(Message::Heartbeat) => {}
                Some(Message::UploadEnd(end)) => return upload.end(end),
                Some(other) => return Err(other.unexpected("Rows or UploadEnd")),
            }
        }
    }

    /// Reads an upload to its end without looking at it.
    async fn skip_upload(&mut self) -> Result<(), Failure> {
        loop {
            match self.connection.receive().await? {
                Message::UploadEnd(_) => return Ok(()),
                Message::UploadBegin(_) | Message::Rows(_) => self.lease.progress(),
                other => return Err(other.unexpected("Rows or UploadEnd")),
            }
        }
    }

    /// One transaction at the consolidated database, also where there are no rows: it hands out
    /// the counter without which the download's watermarks could not be trusted (trap 3).
    async fn apply(
        &mut self,
        upload: Option<ReceivedUpload>,
        epoch: Option<i64>,
    ) -> Result<Applied, Failure> {
        let (previous, progress) = match &upload {
            Some(upload) => (upload.previous, upload.progress),
            None => (self.identity.progress, self.identity.progress),
        };
        let request = Upload {
            session: self.session.clone(),
            identity: self.identity,
            receipt: self.hello.receipt.clone(),
            epoch,
            previous,
            progress,
            download_follows: self.hello.mode != Mode::UploadOnly,
            key_changes: upload.as_ref().is_some_and(|upload| upload.key_changes),
            marks: self.marks.clone(),
            rows: upload,
        };
        self.at_database(Phase::Applying, self.shared.worker.upload(request)).await
    }

    /// Fetches the download into the spill, then sends it at the remote's pace.
    async fn download(&mut self, applied: Applied) -> Result<(), Failure> {
        let counter = applied.counter;
        let fetch = Fetch {
            session: self.session.clone(),
            counter,
            marks: self.marks.clone(),
            key_changes: self.key_changes(),
            echo: applied.echo,
            receipt: applied.receipt,
        };
        let fetching = self.shared.worker.fetch(fetch);
        let fetched = self.at_database(Phase::Fetching, fetching).await?;
        if let Some((withheld, released)) = fetched.withheld {
            self.summary.rejected += withheld.len() as u64;
            let (session, epoch) = (self.session.clone(), applied.epoch);
            let withhold = Withhold { session, epoch, counter, withheld, released };
            let withholding = self.shared.worker.withhold(withhold);
            self.at_database(Phase::Fetching, withholding).await?;
        }
        self.summary.downloaded = fetched.rows;
        self.summary.filtered = fetched.filtered;
        self.summary.spilled_bytes += fetched.frames.disk_bytes();
        let mut position = model::SpillPosition::default();
        let mut sent = 0;
        while sent < fetched.frames.len() {
            let frames = next_frames(&fetched.frames, &mut position)?;
            let frames: Vec<&[u8]> = frames.iter().map(Cow::as_ref).collect();
            self.connection.send(&frames).await?;
            self.lease.progress();
            sent += frames.len();
            if sent > fetched.frames.len() / 2 {
                fail_point!("server-download-half-sent");
            }
        }
        Ok(())
    }

    /// Waits for the database, and lets the remote know that somebody is still there.
    async fn at_database<T>(
        &mut self,
        phase: Phase,
        work: impl Future<Output = Result<Costed<T>, Failure>>,
    ) -> Result<T, Failure> {
        self.lease.at_database(true);
        let heartbeat = Duration::from_secs(self.shared.config.now().heartbeat_interval_s.max(1));
        tokio::pin!(work);
        let result = loop {
            match tokio::time::timeout(heartbeat, &mut work).await {
                Ok(result) => break result,
                Err(_) => {
                    self.connection.queue(&Message::Heartbeat)?;
                    self.connection.flush().await?;
                }
            }
        };
        self.lease.at_database(false);
        // Of work that failed nobody says how long it waited.
        let worked_us = result.as_ref().map_or(u64::MAX, |done| done.cost.worked_us);
        self.summary.phases.end_work(phase, worked_us);
        let Costed { value, cost } = result?;
        self.summary.cost += cost;
        Ok(value)
    }
}
