//! One synchronization, from the first byte to the last.
//!
//! Each state is a type, and each step takes one state and returns the next:
//!
//! | state | receives | its step |
//! |---|---|---|
//! | [`New`] | magic, Hello | reads who wants what |
//! | [`Greeted`] | nothing | admits: user, schema, lease |
//! | [`Admitted`] | UploadBegin, Rows, UploadEnd | stores the rows in the spill |
//! | [`Applying`] | nothing | one transaction; `UploadCommitted` leaves when it is durable |
//! | [`Committed`] | nothing | fetches one snapshot into the spill |
//! | [`Sending`] | nothing | the download, then `DownloadEnd` |
//!
//! Where that is wanted, the remote acknowledges the download (`session/acknowledgement.rs`).
//! A remote that wants to compare what it has asks instead of uploading (`session/verify.rs`).
//!
//! Any other message is a failure with a code. A failure in any state is sent to the peer and ends
//! the synchronization. A committed upload stays committed, and the next Hello learns of it.

mod acknowledgement;
mod admission;
mod authentication;
mod certificate;
mod download;
mod ending;
mod exchange;
mod readiness;
mod summary;
mod surroundings;
mod upload;
mod verify;

pub(crate) use readiness::Readiness;
pub(crate) use summary::Summary;
pub(crate) use surroundings::Shared;

use crate::authenticate::Claim;
use crate::interruption::Interruption;
use crate::lease::{Claimant, NumberedAttempt};
use crate::network::{Connection, Limits};
use crate::phases::Phase;
use crate::transfers::Transfer;
use crate::turns::Origin;
use crate::upload::ReceivedUpload;
use crate::worker::{FetchedDownload, Heard};
use acknowledgement::Awaited;
use admission::{admit, expect_hello, held_marks, identity, marks};
use consolidated::{Applied, EndedSynchronization, Session};
use ending::Ending;
use exchange::Exchange;
use model::{Code, Failure, Spill, cut};
use protocol::{Compression, Hello, Mode, UploadState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// For how long at most remotes are asked to leave a server alone that is stopping, in seconds.
const STOPPING_S_MAX: u64 = 60;

/// A connection of which nothing is known.
struct New<'a> {
    connection: &'a mut Connection,
    shared: &'a Shared,
    summary: &'a mut Summary,
}

/// Somebody has said who it is, and nothing of it is proven.
struct Greeted<'a> {
    new: New<'a>,
    hello: Hello,
    address: IpAddr,
    origin: Origin,
}

/// The remote of a user who may synchronize, with the lease on its place.
struct Admitted<'a>(Exchange<'a>);

/// All rows have arrived, or none was announced.
struct Applying<'a> {
    exchange: Exchange<'a>,
    rows: Option<ReceivedUpload>,
    /// Of the remote, where the database was asked before.
    epoch: Option<i64>,
}

/// The upload is durable, and the remote has its counter.
struct Committed<'a> {
    exchange: Exchange<'a>,
    applied: Applied,
    ending: Ending<'a>,
    /// The download, where it is fetched by itself behind the upload.
    awaited: Option<Heard<FetchedDownload>>,
}

/// The download is complete.
struct Sending<'a> {
    exchange: Exchange<'a>,
    /// The first frame, where it lies apart from the others.
    begin: Option<Vec<u8>>,
    frames: Spill,
    /// None where nobody is to acknowledge it.
    awaited: Option<Awaited>,
}

/// Serves one connection. `Ok(None)`: it left without a word.
pub(crate) async fn serve(
    connection: &mut Connection,
    address: IpAddr,
    shared: &Shared,
    summary: &mut Summary,
) -> Result<Option<()>, Failure> {
    let new = New { connection: &mut *connection, shared, summary: &mut *summary };
    let Some(greeted) = new.greet(address).await? else { return Ok(None) };
    let interruption = Arc::new(Interruption::new());
    let (awaited, _place) = tokio::select! {
        // What was ended does nothing more.
        biased;
        failure = interruption.ended() => return Err(failure),
        result = greeted.synchronize(&interruption) => result?,
    };
    summary.phases.end(Phase::Sending);
    if let Some(awaited) = awaited {
        if let Some(cost) = awaited.hear(connection, shared, &interruption).await? {
            summary.cost += cost;
        }
        summary.phases.end(Phase::Acknowledging);
    }
    Ok(Some(()))
}

impl<'a> New<'a> {
    /// `Ok(None)`: it left without a word.
    async fn greet(self, address: IpAddr) -> Result<Option<Greeted<'a>>, Failure> {
        let limit = Duration::from_secs(self.shared.config.now().hello_timeout_s);
        if self.connection.receive_magic(limit).await?.is_none() {
            return Ok(None);
        }
        let hello = expect_hello(self.connection).await?;
        self.summary.phases.end(Phase::Receiving);
        self.summary.remote = hello.remote_id.to_string();
        self.summary.user = hello.user.to_string();
        // It is kept for a while, whoever this is.
        let client = cut(&hello.client, EndedSynchronization::CLIENT_BYTES_MAX);
        self.summary.client = client.into_owned();
        self.summary.synchronizes = hello.mode != Mode::Ping;
        if self.shared.stopping.load(Ordering::Relaxed) {
            // Then at the latest the next one may listen.
            let drain_timeout_s = self.shared.config.now().drain_timeout_s.clamp(1, STOPPING_S_MAX);
            let failure = Failure::new(Code::ServerStopping, "the server is stopping");
            return Err(failure.retry_after_s(drain_timeout_s as u32));
        }
        let (config, now) = (self.shared.config.now(), self.shared.authenticator.now_unix_s());
        certificate::check(self.connection.certificate(), &hello, &config.tls, now)?;
        let address = self.connection.peer().map_or(address, |peer| peer.ip());
        let origin = Origin::new(address, hello.user.clone());
        Ok(Some(Greeted { new: self, hello, address, origin }))
    }
}

impl Greeted<'_> {
    /// Ends with what is awaited of the remote still, and the place in which it is.
    async fn synchronize(
        self,
        interruption: &Arc<Interruption>,
    ) -> Result<(Option<Awaited>, Transfer), Failure> {
        let Greeted { new: New { connection, shared, summary }, hello, address, origin } = self;
        let claim = shared.authenticator.claim(&origin, address, &hello).await?;
        summary.phases.end(Phase::Waiting);
        let place = || shared.transfers.take(&hello.user, interruption);
        // What was proven is worth a place; a password is only once it was verified.
        let of_token = match &claim {
            Claim::Token { .. } | Claim::Jwt { .. } | Claim::Certificate | Claim::Outside(_) => {
                Some(place()?)
            }
            Claim::Unasked { .. } | Claim::Password { .. } => None,
        };
        let (session, verified) = admit(shared, &hello, &origin, claim, summary).await?;
        let place = match of_token {
            Some(place) => place,
            None => place()?,
        };
        summary.script_version = session.script_version.to_string();
        summary.settled_rejects.clone_from(&hello.settled_rejects);
        warn_of_waiting_tables(&session);
        let identity = identity(&hello);
        let (remote_id, user) = (hello.remote_id.clone(), hello.user.clone());
        let holder = Claimant { remote_id, user, file: identity.secret };
        let number = (hello.mode != Mode::Ping).then_some(hello.attempt);
        let attempt = NumberedAttempt { number, interruption: interruption.clone() };
        summary.phases.end(Phase::Admission);
        let lease = shared.leases.take(&holder, &attempt).await?;
        summary.phases.end(Phase::Waiting);
        let config = shared.config.now();
        connection.admit(config.frame_bytes_max, Limits::of_known(&config));
        connection.read_compressed(Compression::capabilities(&config.compression));
        let mut exchange = Exchange {
            connection,
            shared,
            lease: &lease,
            marks: marks(&hello, &session),
            held_marks: held_marks(&hello, &session),
            identity,
            hello,
            origin,
            session: Arc::new(session),
            token: verified.token,
            authentication: verified.authentication,
            summary,
        };
        if let Some(change) = verified.change {
            exchange.change_password(change).await?;
        }
        Ok((Admitted(exchange).synchronize().await?, place))
    }
}

impl Admitted<'_> {
    async fn synchronize(self) -> Result<Option<Awaited>, Failure> {
        let mode = self.0.hello.mode;
        let applying = match mode {
            Mode::Ping if self.0.hello.verify_follows => return self.verify().await.map(|()| None),
            Mode::Ping => return self.answer_ping().await.map(|()| None),
            Mode::DownloadOnly => self.begin_download_only().await?,
            Mode::Full | Mode::UploadOnly => match self.receive().await? {
                Some(applying) => applying,
                None => return Ok(None),
            },
        };
        let committed = applying.apply().await?;
        committed.exchange.summary.committed = true;
        match mode {
            Mode::UploadOnly => committed.end().await.map(|()| None),
            _ => committed.fetch().await?.send().await,
        }
    }

    async fn answer_ping(mut self) -> Result<(), Failure> {
        self.0.welcome(UploadState::None, None)?;
        self.0.connection.flush().await
    }
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
