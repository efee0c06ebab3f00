//! Who is it? A password is verified once, slowly; afterwards tokens say it quickly.

use crate::config::Config;
use crate::password;
use crate::stage::{self, Intake, Queue};
use crate::token::Tokens;
use consolidated::Credentials;
use model::{Clock, Code, Failure, UserName};
use protocol::Credential;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Verifies users.
///
/// Bounds: `password_hashes_max` verifications at once, `password_queue_len_max` waiting.
pub(crate) struct Authenticator {
    tokens: Tokens,
    token_lifetime_ms: i64,
    clock: Arc<dyn Clock>,
    passwords: Queue<Verification>,
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
        let cores = vec![(); Config::or_cores(config.password_hashes_max)];
        let (passwords, threads) =
            stage::start("password", config.password_queue_len_max, cores, |(), intake| {
                verify_passwords(intake);
            })?;
        let lifetime_s = i64::try_from(config.token_lifetime_s).unwrap_or(i64::MAX);
        let token_lifetime_ms = lifetime_s.saturating_mul(1000);
        let tokens = Tokens::new(token_key);
        Ok((Authenticator { tokens, token_lifetime_ms, clock, passwords }, threads))
    }

    /// Forgets the passwords that wait.
    pub(crate) fn abandon(&self) {
        self.passwords.abandon();
    }

    /// Accepts the user, with a new token where a password was verified.
    pub(crate) async fn verify(
        &self,
        user: &UserName,
        credential: &Credential,
        known: Option<&Credentials>,
    ) -> Result<Option<String>, Failure> {
        match credential {
            Credential::Token(token) => {
                let known = known.ok_or_else(|| {
                    Failure::new(Code::TokenRefused, "the token was not issued here")
                })?;
                let now = self.clock.unix_ms();
                self.tokens.check(token, user, known.password_version, now)?;
                Ok(None)
            }
            Credential::Password(password) => {
                self.verify_password(password, known).await?;
                let version = known.map_or(0, |known| known.password_version);
                let expires = self.clock.unix_ms().saturating_add(self.token_lifetime_ms);
                self.tokens.issue(user, version, expires).map(Some)
            }
        }
    }

    async fn verify_password(
        &self,
        password: &str,
        known: Option<&Credentials>,
    ) -> Result<(), Failure> {
        let (answer, verified) = oneshot::channel();
        let hash = known.map(|known| known.password_hash.clone());
        self.passwords.try_put(Verification { password: password.to_owned(), hash, answer })?;
        match verified.await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Failure::new(Code::AuthenticationFailed, "unknown user or wrong password"))
            }
            Err(_) => Err(Failure::new(Code::Bug, "the verification ended early")),
        }
    }
}

fn verify_passwords(intake: &Intake<Verification>) {
    while let Some(Verification { password, hash, answer }) = intake.take() {
        // The session may have ended meanwhile; then nobody wants to know.
        let _ = answer.send(password::verify(&password, hash.as_deref()));
    }
}
