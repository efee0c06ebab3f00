//! A synchronization that its host drives: events in, requests out. It waits for nothing.

use super::attempt::{Attempt, Wish};
use super::host::{Event, Host, Next};
use super::side::Scene;
use super::{Report, Request, Step, Total};
use crate::apply::fired::silent;
use crate::apply::rejects;
use crate::claim::Claim;
use crate::connection::{damaged, explain};
use crate::progress::facts;
use crate::schema::history::History;
use crate::{Remote, progress};
use model::{Code, Failure, Random, UserName};
use protocol::Mode;

/// Attempts to apply a download past changes that are made meanwhile.
pub(super) const APPLY_ATTEMPTS_MAX: u32 = 10;

/// How often tables may go away at the center during one synchronization.
const INTERRUPTIONS_MAX: u32 = 3;

/// How often the server may ask for the upload where each time is another connection. Once is
/// usual; what it leaves out may change meanwhile.
const REQUESTS_MAX: u32 = 5;

/// A server that wants another attempt later is followed, but for no longer than this.
const RETRY_DELAY_MS_MAX: u64 = 60_000;

/// Attempts in a row that may bring nothing of a download, once one has brought something.
const IDLE_ATTEMPTS_MAX: u32 = 5;

/// The longest pause after the first of them. Behind each further one it is twice as long.
const PAUSE_MS: u64 = 1000;

/// A synchronization, from the first attempt to the report.
///
/// [`Remote::synchronize`] is enough for most programs: it does all of this and waits itself. A
/// program that must not wait, for example in a browser or on an event loop, is the host of a
/// conversation. It passes every event to [`Conversation::step`] and does what the step says:
///
/// ```
/// # use syncline_client::{Components, Conversation, Credential, Event, Host, Mode, Next, Remote};
/// # use syncline_client::{Request, Step, Transport};
/// # use model::Failure;
/// # struct Quiet;
/// # impl Host for Quiet {
/// #     fn show(&mut self, _: Step) {}
/// #     fn send_now(&mut self, _: Vec<u8>) -> Result<(), Failure> { Ok(()) }
/// # }
/// fn drive(
///     remote: &mut Remote,
///     request: Request,
///     connect: impl Fn() -> Result<Box<dyn Transport>, Failure>,
/// ) -> Result<(), Failure> {
///     let claim = remote.claim()?;
///     let mut conversation = Conversation::begin(remote, claim, request)?;
///     let (mut connection, mut buffer) = (None, [0; 4096]);
///     let mut event = Event::Tick;
///     loop {
///         event = match (conversation.step(remote, event, &mut Quiet)?, &mut connection) {
///             (Next::Connect { .. }, connection) => match connect() {
///                 Ok(made) => {
///                     *connection = Some(made);
///                     Event::Connected
///                 }
///                 Err(failure) => Event::Lost(failure),
///             },
///             (Next::Send(bytes), Some(connection)) => match connection.send(&bytes) {
///                 Ok(()) => Event::Sent,
///                 Err(failure) => Event::Unsent(failure),
///             },
///             (Next::Wait { .. }, Some(connection)) => match connection.receive(&mut buffer) {
///                 Ok(0) => Event::Closed,
///                 Ok(len) => Event::Received(&buffer[..len]),
///                 Err(failure) => Event::Lost(failure),
///             },
///             (Next::Done(_), _) => return Ok(()),
///             (_, None) => Event::Tick,
///         };
///     }
/// }
/// ```
///
/// Between two steps nothing is open in the file: other programs may write to it, and so may this
/// one through the [`Remote`]. A conversation may be dropped after any step, as by a kill of the
/// program. The next one continues with the file, and nothing is lost or doubled (S1).
///
/// A step may take as long as it takes to read the upload or to apply the download. It holds no
/// more memory than the budget of the remote for rows on their way, and one message.
#[derive(Debug)]
pub struct Conversation {
    claim: Claim,
    request: Request,
    user: UserName,
    started_ms: u64,
    total: Total,
    apply_attempts: u32,
    /// How often the server asked for the upload.
    requests: u32,
    /// Attempts since one that left more of a download here than was here before; none where no
    /// attempt did.
    idle_attempts: Option<u32>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The next step begins an attempt.
    Beginning,
    /// The host connects.
    Connecting {
        at_ms: u64,
    },
    /// There is a connection.
    Connected(Box<Attempt>),
    Ended,
}

impl Conversation {
    /// Begins a synchronization of the remote that `claim` is for. Nothing is done before the first
    /// step.
    pub fn begin(remote: &Remote, claim: Claim, request: Request) -> Result<Conversation, Failure> {
        claim.require(remote)?;
        let known = facts::get::<String>(&remote.connection, "user").map_err(explain)?;
        let known = known.map(UserName::new).transpose()?;
        let user = remote.proposed.user.clone().or(known).ok_or_else(|| {
            Failure::new(Code::ServerUnknown, "the remote does not know its user yet")
        })?;
        Ok(Conversation {
            claim,
            request,
            user,
            started_ms: remote.clock.monotonic_ms(),
            total: Total::default(),
            apply_attempts: 1,
            requests: 0,
            idle_attempts: None,
            state: State::Beginning,
        })
    }

    /// Takes an event, the first time any, and says what the host does next. A failure is the end,
    /// as is [`Next::Done`]; the conversation is dropped then.
    ///
    /// Every event is allowed at any time. One that makes no sense where it comes is a `Tick`.
    pub fn step(
        &mut self,
        remote: &mut Remote,
        event: Event<'_>,
        host: &mut dyn Host,
    ) -> Result<Next, Failure> {
        self.claim.require(remote)?;
        match (std::mem::replace(&mut self.state, State::Ended), event) {
            (State::Beginning, _) => Ok(self.connect(remote, 0, host)),
            (State::Connecting { .. }, Event::Connected) => self.connected(remote, host, false),
            (State::Connecting { .. }, Event::ConnectedHalfDuplex) => {
                self.connected(remote, host, true)
            }
            (State::Connecting { .. }, Event::Lost(failure)) => self.failed(remote, failure, host),
            (State::Connecting { at_ms }, _) => {
                self.state = State::Connecting { at_ms };
                Ok(Next::Connect { at_ms })
            }
            (State::Connected(attempt), event) => self.talk(remote, attempt, event, host),
            (State::Ended, _) => Err(Failure::new(
                Code::ConversationMisused,
                "a step was taken after the end of the conversation",
            )),
        }
    }

    fn connect(&mut self, remote: &Remote, delay_ms: u64, host: &mut dyn Host) -> Next {
        host.show(Step::Connecting);
        let at_ms = remote.clock.monotonic_ms().saturating_add(delay_ms);
        self.state = State::Connecting { at_ms };
        Next::Connect { at_ms }
    }

    fn connected(
        &mut self,
        remote: &mut Remote,
        host: &mut dyn Host,
        half_duplex: bool,
    ) -> Result<Next, Failure> {
        self.total.half_duplex = half_duplex;
        match Attempt::begin(&mut self.scene(remote, host)) {
            Ok((attempt, bytes)) => {
                self.state = State::Connected(Box::new(attempt));
                Ok(Next::Send(bytes))
            }
            Err(failure) => self.failed(remote, failure, host),
        }
    }

    fn talk(
        &mut self,
        remote: &mut Remote,
        mut attempt: Box<Attempt>,
        event: Event<'_>,
        host: &mut dyn Host,
    ) -> Result<Next, Failure> {
        match attempt.step(&mut self.scene(remote, host), event) {
            Ok(Wish::Send(bytes)) => {
                self.state = State::Connected(attempt);
                Ok(Next::Send(bytes))
            }
            Ok(Wish::Wait { until_ms }) => {
                self.state = State::Connected(attempt);
                Ok(Next::Wait { until_ms })
            }
            // Changes had to wait for the download, or tables are received as a whole.
            Ok(Wish::End { unfinished: true }) if self.apply_attempts < APPLY_ATTEMPTS_MAX => {
                self.apply_attempts += 1;
                Ok(self.connect(remote, 0, host))
            }
            Ok(Wish::Again) if self.requests < REQUESTS_MAX => {
                self.requests += 1;
                Ok(self.connect(remote, 0, host))
            }
            Ok(Wish::Again) => {
                let message = format!("the server asked for the upload {REQUESTS_MAX} times");
                Err(Failure::new(Code::UploadAskedAgain, message))
            }
            Ok(Wish::End { .. }) => Ok(Next::Done(Box::new(self.report(remote)?))),
            Err(failure) => {
                if attempt.save_what_is_known(remote) {
                    self.idle_attempts = Some(0);
                }
                drop(attempt);
                self.failed(remote, failure, host)
            }
        }
    }

    fn scene<'a>(&'a mut self, remote: &'a mut Remote, host: &'a mut dyn Host) -> Scene<'a> {
        let Conversation { request, user, total, .. } = self;
        Scene { remote, request, user, total, host }
    }

    /// Goes on to another attempt, where one gets over the failure.
    fn failed(
        &mut self,
        remote: &mut Remote,
        failure: Failure,
        host: &mut dyn Host,
    ) -> Result<Next, Failure> {
        let (total, mode) = (&mut self.total, self.request.mode);
        let mut delay_ms = 0;
        match failure.code() {
            Code::CopiedRemote if !total.took_new_identity => {
                let tables = remote.tables()?;
                let (connection, random) = (&remote.connection, &mut remote.random);
                let committed = failure.committed_progress();
                progress::take_new_identity(connection, &tables, random, committed)?;
                total.took_new_identity = true;
            }
            // It reads less than the server of the last Welcome did.
            Code::CompressionNotAgreed if !total.uncompressed => {
                total.uncompressed = true;
                total.compression.uploaded = None;
            }
            Code::FrameTooLarge if !total.frame_refused => total.frame_refused = true,
            Code::RemoteOfAnother => {
                progress::forget_refused_identity(&remote.connection)?;
                return Err(failure);
            }
            Code::ApplyBlocked
                if mode == Mode::Full && self.apply_attempts < APPLY_ATTEMPTS_MAX =>
            {
                self.apply_attempts += 1;
            }
            // The next attempt leaves the table out.
            Code::TableWentAway if total.interrupted < INTERRUPTIONS_MAX => total.interrupted += 1,
            code => match self.idle_attempts {
                Some(idle) if may_go_on(code) && remote.goes_on && idle < IDLE_ATTEMPTS_MAX => {
                    delay_ms = pause_ms(idle, &mut remote.random);
                    self.idle_attempts = Some(idle + 1);
                }
                _ => return Err(failure),
            },
        }
        let asked_ms = u64::from(failure.retry_after().unwrap_or(0)) * 1000;
        host.show(Step::Retrying { failure });
        Ok(self.connect(remote, delay_ms.max(asked_ms.min(RETRY_DELAY_MS_MAX)), host))
    }

    fn report(&mut self, remote: &mut Remote) -> Result<Report, Failure> {
        let rejected = self.rejected(remote)?;
        let total = std::mem::take(&mut self.total);
        let off = std::mem::take(&mut remote.silent);
        let silent_triggers =
            silent::tell(&remote.connection, off, total.unfit_triggers).map_err(explain)?;
        let no_longer_published = match self.request.mode {
            Mode::Ping => Vec::new(),
            _ => History::tell_left(&remote.connection)?,
        };
        Ok(Report {
            remote_id: total
                .remote_id
                .ok_or_else(|| damaged("a remote was synchronized without an identity"))?,
            user: self.user.clone(),
            script_version: total.script_version,
            uploaded: total.uploaded,
            downloaded: total.downloaded,
            conflicts: total.conflicts,
            conflicts_by_table: total.conflicts_by_table,
            conflicts_lost: total.conflicts_lost,
            rejected,
            ignored: total.ignored,
            compression: total.compression,
            duration_ms: remote.clock.monotonic_ms().saturating_sub(self.started_ms),
            token: total.token,
            authentication: total.authentication.map(Box::new),
            took_new_identity: total.took_new_identity,
            waiting: total.waiting,
            left_behind: total.left_behind,
            resumed: total.resumed,
            sent_again: total.sent_again,
            silent_triggers,
            no_longer_published,
        })
    }

    /// Every reject that no summary has reported: what the server refused, whether or not it has
    /// been downloaded, and what the remote recorded by itself.
    fn rejected(&self, remote: &Remote) -> Result<u64, Failure> {
        if self.request.mode == Mode::Ping {
            return Ok(0);
        }
        let untold = rejects::untold(&remote.connection)?;
        if untold > 0 {
            rejects::note_told(&remote.connection)?;
        }
        let total = &self.total;
        Ok(untold.saturating_sub(total.learned) + total.learned.max(total.rejected))
    }
}

/// Whether the network, or a server that is busy or ends, is the reason, and not what was asked.
fn may_go_on(code: Code) -> bool {
    matches!(
        code,
        Code::ConnectionLost
            | Code::PeerSilent
            | Code::Unreachable
            | Code::SlowedOnTheWay
            // The server has not noticed that the last connection is gone.
            | Code::AlreadySynchronizing
            | Code::UserSynchronizing
            | Code::ServerFull
            | Code::ServerStopping
            | Code::MemoryShort
    )
}

/// How long to wait: not at all after an attempt that brought something, then longer and longer,
/// and spread by chance, so that not all remotes come back to a restarted server at once.
fn pause_ms(idle_attempts: u32, random: &mut Random) -> u64 {
    match idle_attempts.checked_sub(1) {
        None => 0,
        Some(doubled) => {
            let whole = PAUSE_MS << doubled;
            whole / 2 + random.next_u64() % (whole / 2)
        }
    }
}
