//! Who is it? A password is verified once, slowly; afterwards tokens say it quickly.

use crate::config::Config;
use crate::password;
use crate::token::Tokens;
use consolidated::Credentials;
use model::{Clock, Code, Failure, UserName};
use protocol::Credential;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// Verifies users.
///
/// Bounds: `password_hashes_max` verifications at once, `password_queue_len_max` waiting.
pub(crate) struct Authenticator {
    tokens: Tokens,
    token_lifetime_ms: i64,
    clock: Arc<dyn Clock>,
    hashes: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Authenticator {
    pub(crate) fn new(config: &Config, token_key: Vec<u8>, clock: Arc<dyn Clock>) -> Authenticator {
        Authenticator {
            tokens: Tokens::new(token_key),
            token_lifetime_ms: i64::try_from(config.token_lifetime_s).unwrap_or(i64::MAX / 1000)
                * 1000,
            clock,
            hashes: Arc::new(Semaphore::new(Config::or_cores(config.password_hashes_max))),
            waiting: AtomicUsize::new(0),
            waiting_max: config.password_queue_len_max,
        }
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
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.waiting_max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Failure::new(Code::ServerFull, "too many passwords wait to be verified")
                .retry_after_s(5));
        }
        let permit = self.hashes.clone().acquire_owned().await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let _permit =
            permit.map_err(|_| Failure::new(Code::ServerStopping, "the server is stopping"))?;
        let (password, hash) = (password.to_owned(), known.map(|k| k.password_hash.clone()));
        let verified =
            tokio::task::spawn_blocking(move || password::verify(&password, hash.as_deref()))
                .await
                .map_err(|error| {
                    Failure::new(Code::Bug, "the verification ended early").source(error)
                })?;
        match verified {
            true => Ok(()),
            false => {
                Err(Failure::new(Code::AuthenticationFailed, "unknown user or wrong password"))
            }
        }
    }
}
