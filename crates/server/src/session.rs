//! One synchronization, from the first byte to the last.
//!
//! | state | receives | does |
//! |---|---|---|
//! | new | magic, Hello | admits: user, schema, lease |
//! | admitted | UploadBegin, Rows, UploadEnd | stores the rows in the spill |
//! | applying | nothing | one transaction; `UploadCommitted` leaves when it is durable |
//! | fetching | nothing | one snapshot into the spill |
//! | sending | nothing | the download, then `DownloadEnd` |
//!
//! Any other message is a failure with a code. A failure in any state is sent to the peer and ends
//! the synchronization. A committed upload stays committed, and the next Hello learns of it.

mod admission;
mod download;
mod summary;
mod upload;

pub(crate) use summary::Summary;

use crate::authenticate::{Authenticator, Claim};
use crate::config::Settings;
use crate::interruption::Interruption;
use crate::jitter::Jitter;
use crate::lease::{Attempt, Claimant, Lease, Leases};
use crate::network::{Connection, Limits};
use crate::pace::Pace;
use crate::phases::Phase;
use crate::transfers::Transfers;
use crate::turns::{Origin, Turns};
use crate::upload::ReceivedUpload;
use crate::worker::{Begin, Costed, Upload, Worker, waiting_table};
use admission::{admit, expect_hello, held_marks, identity, marks, uploads};
use consolidated::{Applied, Begun, Held, HeldSchema, Identity, Session, TableMark};
use model::{Code, Failure, Progress, Spills, UserName};
use protocol::{
    Capabilities, Hello, Message, Mode, Outcome, PROTOCOL_VERSION, RenamedTable, SchemaChange,
    UploadState, Welcome,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For how long at most remotes are asked to leave a server alone that is stopping, in seconds.
const STOPPING_S_MAX: u64 = 60;

/// What all sessions of a server share.
pub(crate) struct Shared {
    pub(crate) config: Settings,
    pub(crate) worker: Worker,
    pub(crate) authenticator: Authenticator,
    pub(crate) leases: Arc<Leases>,
    pub(crate) spills: Arc<Spills>,
    /// Of `connections_max`.
    pub(crate) connections_pace: Pace,
    /// Places for as long as a synchronization lasts.
    pub(crate) transfers: Arc<Transfers>,
    /// Turns of those who want to be admitted.
    pub(crate) admissions: Arc<Turns<UserName, IpAddr>>,
    /// Turns at the database, for as long as it works.
    pub(crate) sessions: Arc<Turns<UserName, IpAddr>>,
    pub(crate) jitter: Jitter,
    pub(crate) stopping: AtomicBool,
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
    let hello = expect_hello(connection).await?;
    summary.phases.end(Phase::Receiving);
    summary.remote = hello.remote_id.to_string();
    summary.user = hello.user.to_string();
    if shared.stopping.load(Ordering::Relaxed) {
        // Then at the latest the next one may listen.
        let drain_timeout_s = shared.config.now().drain_timeout_s.clamp(1, STOPPING_S_MAX);
        let failure = Failure::new(Code::ServerStopping, "the server is stopping");
        return Err(failure.retry_after_s(drain_timeout_s as u32));
    }
    let origin = Origin::new(address, hello.user.clone());
    let interruption = Arc::new(Interruption::new());
    tokio::select! {
        result = synchronize(connection, shared, hello, origin, &interruption, summary) => result?,
        failure = interruption.ended() => return Err(failure),
    }
    summary.phases.end(Phase::Sending);
    Ok(Some(()))
}

async fn synchronize(
    connection: &mut Connection,
    shared: &Shared,
    hello: Hello,
    origin: Origin,
    interruption: &Arc<Interruption>,
    summary: &mut Summary,
) -> Result<(), Failure> {
    let claim = shared.authenticator.claim(&origin, &hello.credential).await?;
    summary.phases.end(Phase::Waiting);
    let place = || shared.transfers.take(&hello.user, interruption);
    // What was signed here is worth a place; a password is only once it was verified.
    let of_token = match &claim {
        Claim::Token { .. } => Some(place()?),
        Claim::Password { .. } => None,
    };
    let (session, token) = admit(shared, &hello, &origin, claim, summary).await?;
    let _place = match of_token {
        Some(place) => place,
        None => place()?,
    };
    summary.script_version = session.script_version.to_string();
    warn_of_waiting_tables(&session);
    let identity = identity(&hello);
    let (remote_id, user) = (hello.remote_id.clone(), hello.user.clone());
    let holder = Claimant { remote_id, user, file: identity.secret };
    let number = (hello.mode != Mode::Ping).then_some(hello.attempt);
    let attempt = Attempt { number, interruption: interruption.clone() };
    summary.phases.end(Phase::Admission);
    let lease = shared.leases.take(&holder, &attempt).await?;
    summary.phases.end(Phase::Waiting);
    let config = shared.config.now();
    connection.admit(config.frame_bytes_max, Limits::of_known(&config));
    let mut synchronization = Synchronization {
        connection,
        shared,
        lease: &lease,
        marks: marks(&hello, &session),
        held_marks: held_marks(&hello),
        identity,
        hello,
        origin,
        session: Arc::new(session),
        token,
        summary,
    };
    synchronization.run().await
}

/// Each time: somebody has to do something about it.
fn warn_of_waiting_tables(session: &Session) {
    if let Some(first) = session.waiting.first() {
        let names: Vec<&str> = session.waiting.iter().map(|it| it.table.as_str()).collect();
        let (remote, tables) = (session.remote_id.as_str(), names.join(", "));
        let reason = first.message.as_str();
        tracing::warn!(remote, tables, reason, "tables are left out: they are not as deployed");
    }
}

fn renamed(table: &consolidated::RenamedTable) -> RenamedTable {
    let (held, columns) = (table.held, table.columns.clone());
    RenamedTable { table: table.table, held, columns }
}

/// An admitted synchronization.
struct Synchronization<'a> {
    connection: &'a mut Connection,
    shared: &'a Shared,
    lease: &'a Lease,
    hello: Hello,
    origin: Origin,
    session: Arc<Session>,
    identity: Identity,
    marks: Arc<Vec<TableMark>>,
    held_marks: Arc<Vec<TableMark>>,
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

    /// The client says which rows stay where others leave.
    fn rows_stay(&self) -> bool {
        self.hello.capabilities.has(Capabilities::ROWS_STAY)
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

    /// Positions, in the schema that the upload is made under, of the tables that wait.
    fn kept_tables(&self) -> Vec<u16> {
        match self.held() {
            Some(held) => held.waiting.clone(),
            None => self.session.waiting.iter().map(|table| table.position).collect(),
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
            kept_tables: self.kept_tables(),
            waiting_tables: self.session.waiting.iter().map(waiting_table).collect(),
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
            rows_stay: self.rows_stay(),
            marks: self.marks.clone(),
            held_marks: self.held_marks.clone(),
            rows: upload,
        };
        self.at_database(Phase::Applying, self.shared.worker.upload(request)).await
    }

    /// Waits for a turn at the database and for its work, and sends the remote signs of life. The
    /// turn ends with the work: no session has one while rows are sent or received (S10).
    async fn at_database<T>(
        &mut self,
        phase: Phase,
        work: impl Future<Output = Result<Costed<T>, Failure>>,
    ) -> Result<T, Failure> {
        let (shared, lease) = (self.shared, self.lease);
        let (user, address) = (self.origin.user.clone(), self.origin.address);
        let in_turn = async {
            let _turn = shared.sessions.take(&user, &address).await?;
            if !lease.begin_work() {
                // The session that ended it gives the reason.
                return std::future::pending().await;
            }
            let result = work.await;
            lease.end_work();
            result
        };
        let heartbeat = Duration::from_secs(shared.config.now().heartbeat_interval_s.max(1));
        tokio::pin!(in_turn);
        let result = loop {
            match tokio::time::timeout(heartbeat, &mut in_turn).await {
                Ok(result) => break result,
                // A remote must not keep its turn by not reading.
                Err(_) => self.connection.sign_of_life()?,
            }
        };
        // The waiting time of failed work is unknown.
        let worked_us = result.as_ref().map_or(u64::MAX, |done| done.cost.worked_us);
        self.summary.phases.end_work(phase, worked_us);
        let Costed { value, cost } = result?;
        self.summary.cost += cost;
        Ok(value)
    }
}
