//! Authenticates users: a password once, slowly, and then tokens, quickly.

use crate::config::Config;
use crate::fail_point::fail_point;
use crate::pace::Pace;
use crate::password;
use crate::stage::{self, Intake, Queue};
use crate::token::Tokens;
use crate::turns::{Origin, Turn, Turns};
use crate::wrong_passwords::WrongPasswords;
use consolidated::Credentials;
use model::{Clock, Code, Failure, UserName};
use protocol::Credential;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Verifies users.
///
/// Bounds: `password_hashes_max` verifications at once, `password_queue_len_max` waiting.
pub(crate) struct Authenticator {
    tokens: Tokens,
    token_lifetime_ms: AtomicI64,
    clock: Arc<dyn Clock>,
    turns: Arc<Turns<IpAddr, UserName>>,
    wrong: WrongPasswords,
    passwords: Queue<Verification>,
}

/// The claimed identity, before the database is asked.
pub(crate) enum Claim {
    /// A token of this server's database, for the password of this version.
    Token { password_version: i64 },
    /// A password, whose turn it is.
    Password { password: String, turn: Turn<IpAddr, UserName> },
}

/// A password that waits for a core.
struct Verification {
    password: String,
    hash: Option<String>,
    answer: oneshot::Sender<bool>,
}

impl Authenticator {
    pub(crate) fn start(
        config: &Config,
        token_key: Vec<u8>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Authenticator, Vec<JoinHandle<()>>), Failure> {
        let cores = Config::or_cores(config.password_hashes_max);
        let pace = Pace::new(clock.clone());
        let turns = Turns::new("passwords", cores, config.password_queue_len_max, pace);
        // Only those whose turn it is come here.
        let (passwords, threads) =
            stage::start("password", cores, vec![(); cores], |(), intake| {
                verify_passwords(intake);
            })?;
        let token_lifetime_ms = AtomicI64::new(lifetime_ms(config));
        let tokens = Tokens::new(token_key);
        let wrong = WrongPasswords::new(config.password_delay_max_s, config.password_failures_max);
        let authenticator =
            Authenticator { tokens, token_lifetime_ms, clock, turns, wrong, passwords };
        Ok((authenticator, threads))
    }

    /// Checks a credential first: the signature of a token is verified in memory, and a password
    /// waits for its turn.
    pub(crate) async fn claim(
        &self,
        origin: &Origin,
        credential: &Credential,
    ) -> Result<Claim, Failure> {
        match credential {
            Credential::Token(token) => {
                let now = self.clock.unix_ms();
                let password_version = self.tokens.check(token, &origin.user, now)?;
                Ok(Claim::Token { password_version })
            }
            Credential::Password(password) => {
                self.wrong.allow(origin, self.clock.monotonic_ms())?;
                let turn = self.turns.take(&origin.address, &origin.user).await?;
                // Others of the same pair were perhaps found wrong while this one waited.
                self.wrong.allow(origin, self.clock.monotonic_ms())?;
                Ok(Claim::Password { password: password.clone(), turn })
            }
        }
    }

    /// Issues tokens under this key and for as long as `config` says, from now on.
    pub(crate) fn reload(&self, token_key: Vec<u8>, config: &Config) {
        self.tokens.set_key(token_key);
        self.token_lifetime_ms.store(lifetime_ms(config), Ordering::Relaxed);
    }

    /// Forgets the passwords that wait.
    pub(crate) fn abandon(&self) {
        self.passwords.abandon();
    }

    /// Accepts the user, with a new token where a password was verified.
    pub(crate) async fn verify(
        &self,
        claim: Claim,
        origin: &Origin,
        known: Option<&Credentials>,
    ) -> Result<Option<String>, Failure> {
        match claim {
            Claim::Token { password_version } => {
                let refused = |why: &str| Err(Failure::new(Code::TokenRefused, why.to_owned()));
                match known {
                    None => refused("the token was not issued by this database"),
                    Some(known) if known.password_version != password_version => {
                        refused("the token was revoked")
                    }
                    Some(_) => Ok(None),
                }
            }
            Claim::Password { password, turn } => {
                let verified = self.verify_password(password, known).await;
                match &verified {
                    Ok(()) => self.wrong.succeeded(origin),
                    Err(failure) if failure.code() == Code::AuthenticationFailed => {
                        self.wrong.failed(origin, self.clock.monotonic_ms());
                    }
                    Err(_) => {}
                }
                // Not before it is noted: the next one may be of the same pair.
                drop(turn);
                verified?;
                let version = known.map_or(0, |known| known.password_version);
                let lifetime_ms = self.token_lifetime_ms.load(Ordering::Relaxed);
                let expires = self.clock.unix_ms().saturating_add(lifetime_ms);
                self.tokens.issue(&origin.user, version, expires).map(Some)
            }
        }
    }

    async fn verify_password(
        &self,
        password: String,
        known: Option<&Credentials>,
    ) -> Result<(), Failure> {
        let (answer, verified) = oneshot::channel();
        let hash = known.map(|known| known.password_hash.clone());
        self.passwords.put(Verification { password, hash, answer }).await?;
        match verified.await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Failure::new(Code::AuthenticationFailed, "unknown user or wrong password"))
            }
            Err(_) => Err(Failure::new(Code::Bug, "the verification ended early")),
        }
    }
}

fn lifetime_ms(config: &Config) -> i64 {
    i64::try_from(config.token_lifetime_s).unwrap_or(i64::MAX).saturating_mul(1000)
}

fn verify_passwords(intake: &Intake<Verification>) {
    while let Some(Verification { password, hash, answer }) = intake.take() {
        fail_point!("password-waits");
        // The session may have ended in the meantime. Then the result is not needed.
        let _ = answer.send(password::verify(&password, hash.as_deref()));
    }
}
