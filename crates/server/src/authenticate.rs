//! Authenticates users: a password once, slowly, and then tokens, quickly.
//!
//! An identity provider may do it instead (`jwt.rs`), or a service of the company (`outside.rs`).

mod granted;
mod jwt;
mod outside;
mod registrar;
mod secret_file;

pub(crate) use granted::Granted;
pub(crate) use registrar::Registrar;

pub mod password;
pub(crate) mod token;
pub(crate) mod wrong_passwords;

use crate::authenticate::password::Costs;
use crate::authenticate::token::{Checked, Tokens};
use crate::authenticate::wrong_passwords::WrongPasswords;
use crate::config::Config;
use crate::fail_point::fail_point;
use crate::pace::Pace;
use crate::stage::{self, Execution, Intake, Queue, Routine};
use crate::turns::{Origin, Turn, Turns};
use consolidated::Credentials;
use jwt::Jwts;
use model::{Clock, Code, Failure, UserName};
use outside::{Accepted, Question, Service};
use protocol::{Credential, Hello};
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Verifies users.
///
/// Bounds: `password_hashes_max` verifications at once, `password_queue_len_max` waiting; of
/// questions to a service `requests_max` at once, and as many waiting.
pub(crate) struct Authenticator {
    tokens: Tokens,
    token_lifetime_ms: AtomicI64,
    provider: RwLock<Provider>,
    clock: Arc<dyn Clock>,
    turns: Arc<Turns<IpAddr, UserName>>,
    questions: Arc<Turns<IpAddr, UserName>>,
    wrong: WrongPasswords,
    passwords: Queue<Verification>,
}

/// The claimed identity, before the database is asked.
pub(crate) enum Claim {
    /// A token of this server's database, for the password of this version.
    Token { password_version: i64, granted: Option<Arc<Granted>> },
    /// A JWT of an identity provider, and the claims in it.
    Jwt { granted: Arc<Granted> },
    /// A certificate that names the user.
    Certificate,
    /// A password that a service has accepted.
    Outside { granted: Arc<Granted>, expires_in_s: Option<u64> },
    /// A password, whose turn it is.
    Password { password: String, turn: Turn<IpAddr, UserName> },
}

/// Who else knows users, where that is configured.
#[derive(Clone)]
pub(crate) struct Provider {
    jwts: Option<Arc<Jwts>>,
    service: Option<Arc<Service>>,
}

/// A password that waits for a core.
struct Verification {
    password: String,
    hash: Option<String>,
    answer: oneshot::Sender<bool>,
}

impl Claim {
    /// The claims that an identity provider decides.
    pub(crate) fn granted(&self) -> Option<Arc<Granted>> {
        match self {
            Claim::Jwt { granted } | Claim::Outside { granted, .. } => Some(granted.clone()),
            Claim::Token { granted, .. } => granted.clone(),
            Claim::Certificate | Claim::Password { .. } => None,
        }
    }
}

impl Authenticator {
    pub(crate) fn start(
        config: &Config,
        token_key: Vec<u8>,
        clock: Arc<dyn Clock>,
        execution: &Execution,
        costs: Costs,
    ) -> Result<(Authenticator, Vec<JoinHandle<()>>), Failure> {
        let cores = Config::or_cores(config.password_hashes_max);
        let pace = Pace::new(clock.clone());
        let (len_max, at_once) = (config.password_queue_len_max, config.service.requests_max);
        let turns = Turns::new("passwords", cores, len_max, pace);
        let pace = Pace::new(clock.clone());
        let questions = Turns::new("passwords", at_once, len_max, pace);
        // Only those whose turn it is come here.
        let (passwords, threads) =
            stage::start("password", cores, vec![Verifier(costs); cores], execution)?;
        let token_lifetime_ms = AtomicI64::new(lifetime_ms(config));
        let tokens = Tokens::new(token_key);
        let provider = RwLock::new(Provider::read(config, &clock)?);
        let wrong = WrongPasswords::new(config.password_delay_max_s, config.password_failures_max);
        let authenticator = Authenticator {
            tokens,
            token_lifetime_ms,
            provider,
            clock,
            turns,
            questions,
            wrong,
            passwords,
        };
        Ok((authenticator, threads))
    }

    /// Checks a credential first: the signature of a token is verified in memory, and a password
    /// waits for its turn.
    pub(crate) async fn claim(
        &self,
        origin: &Origin,
        address: IpAddr,
        hello: &Hello,
    ) -> Result<Claim, Failure> {
        match &hello.credential {
            Credential::Token(token) if Jwts::is_one(token) => {
                let jwts = self.provider().jwts.ok_or_else(|| {
                    let message = "this server accepts no JWT: no provider is configured";
                    Failure::new(Code::TokenRefused, message)
                })?;
                let granted = Arc::new(jwts.verify(token, &origin.user).await?);
                Ok(Claim::Jwt { granted })
            }
            Credential::Token(token) => {
                let now = self.clock.unix_ms();
                let Checked { password_version, granted } =
                    self.tokens.check(token, &origin.user, now)?;
                self.require_said_today(granted.as_ref())?;
                Ok(Claim::Token { password_version, granted: granted.map(Arc::new) })
            }
            // What it says was compared before (`session/certificate.rs`).
            Credential::Certificate => Ok(Claim::Certificate),
            Credential::Password(password) => {
                if let Some(service) = self.provider().service {
                    return self.ask(service, origin, question(hello, password, address)).await;
                }
                self.wrong.allow(origin, self.clock.monotonic_ms())?;
                let turn = self.turns.take(&origin.address, &origin.user).await?;
                // Others of the same pair were perhaps found wrong while this one waited.
                self.wrong.allow(origin, self.clock.monotonic_ms())?;
                Ok(Claim::Password { password: password.clone(), turn })
            }
        }
    }

    /// Seconds since 1970, by which the dates of certificates are read.
    pub(crate) fn now_unix_s(&self) -> i64 {
        self.clock.unix_ms().div_euclid(1000)
    }

    /// What is needed to ask those whom `config` names.
    pub(crate) fn read_provider(&self, config: &Config) -> Result<Provider, Failure> {
        Provider::read(config, &self.clock)
    }

    /// From now on issues tokens under this key and for as long as `config` says, and believes
    /// this provider.
    pub(crate) fn reload(&self, token_key: Vec<u8>, config: &Config, provider: Provider) {
        *self.provider.write().unwrap_or_else(PoisonError::into_inner) = provider;
        self.tokens.set_key(token_key);
        self.token_lifetime_ms.store(lifetime_ms(config), Ordering::Relaxed);
    }

    /// Whether the database gets this user, which it does not know.
    pub(crate) fn registers(&self, claim: &Claim) -> bool {
        let provider = self.provider();
        match claim {
            Claim::Jwt { .. } => provider.jwts.is_some_and(|jwts| jwts.registers()),
            Claim::Outside { .. } => provider.service.is_some_and(|service| service.registers()),
            Claim::Token { .. } | Claim::Certificate | Claim::Password { .. } => false,
        }
    }

    fn provider(&self) -> Provider {
        self.provider.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the service about a password, in turn.
    async fn ask(
        &self,
        service: Arc<Service>,
        origin: &Origin,
        question: Question,
    ) -> Result<Claim, Failure> {
        self.wrong.allow(origin, self.clock.monotonic_ms())?;
        let turn = self.questions.take(&origin.address, &origin.user).await?;
        self.wrong.allow(origin, self.clock.monotonic_ms())?;
        // The turn goes with the question: it is over with the answer, also where the remote has
        // left meanwhile.
        let ask = move || (service.ask(&question), turn);
        let (answer, turn) = stage::aside_until_done("service", ask).await?;
        self.note(origin, answer.as_ref().err());
        drop(turn);
        let Accepted { granted, expires_in_s } = answer?;
        Ok(Claim::Outside { granted: Arc::new(granted), expires_in_s })
    }

    /// Remembers whether a password was wrong. One that nobody could verify is not.
    fn note(&self, origin: &Origin, failure: Option<&Failure>) {
        match failure.map(Failure::code) {
            None => self.wrong.succeeded(origin),
            Some(Code::AuthenticationFailed) => {
                self.wrong.failed(origin, self.clock.monotonic_ms());
            }
            Some(_) => {}
        }
    }

    /// Refuses a token that the service of today might not have let anybody have.
    fn require_said_today(&self, granted: Option<&Granted>) -> Result<(), Failure> {
        let stands = match (self.provider().service, granted) {
            (None, None) => true,
            (Some(service), Some(granted)) => service.stands(granted),
            _ => false,
        };
        match stands {
            true => Ok(()),
            false => {
                let message = "the token is older than the way in which users are verified now";
                Err(Failure::new(Code::TokenRefused, message))
            }
        }
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
            Claim::Token { password_version, .. } => {
                let refused = |why: &str| Err(Failure::new(Code::TokenRefused, why.to_owned()));
                match known {
                    None => refused("the token was not issued by this database"),
                    Some(known) if known.password_version != password_version => {
                        refused("the token was revoked")
                    }
                    Some(_) => Ok(None),
                }
            }
            // Who the provider knows, and the operator does not lock out.
            Claim::Jwt { .. } => match known {
                Some(known) if !known.locked() => Ok(None),
                Some(_) => Err(unknown_user("JWT", origin, "is locked")),
                None => Err(unknown_user("JWT", origin, "is not known here")),
            },
            Claim::Outside { granted, expires_in_s } => match known {
                Some(known) if !known.locked() => {
                    self.token_of(origin, known.password_version, &granted, expires_in_s)
                }
                Some(_) => Err(unknown_user("password", origin, "is locked")),
                None => Err(unknown_user("password", origin, "is not known here")),
            },
            Claim::Certificate => match known {
                Some(known) if !known.locked() => Ok(None),
                _ => Err(Failure::new(Code::AuthenticationFailed, "unknown user, or one shut out")),
            },
            Claim::Password { password, turn } => {
                let verified = self.verify_password(password, known).await;
                self.note(origin, verified.as_ref().err());
                // Not before it is noted: the next one may be of the same pair.
                drop(turn);
                verified?;
                let version = known.map_or(0, |known| known.password_version);
                let lifetime_ms = self.token_lifetime_ms.load(Ordering::Relaxed);
                let expires = self.clock.unix_ms().saturating_add(lifetime_ms);
                self.tokens.issue(&origin.user, version, None, expires).map(Some)
            }
        }
    }

    /// A token for as long as a service stands by its word.
    fn token_of(
        &self,
        origin: &Origin,
        password_version: i64,
        granted: &Granted,
        expires_in_s: Option<u64>,
    ) -> Result<Option<String>, Failure> {
        let Some(expires_in_s) = expires_in_s.filter(|it| *it > 0) else { return Ok(None) };
        let said_ms = i64::try_from(expires_in_s).unwrap_or(i64::MAX).saturating_mul(1000);
        let lifetime_ms = said_ms.min(self.token_lifetime_ms.load(Ordering::Relaxed));
        let expires = self.clock.unix_ms().saturating_add(lifetime_ms);
        let granted = Some(granted.clone());
        self.tokens.issue(&origin.user, password_version, granted, expires).map(Some)
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

impl Provider {
    /// Reads the files that `config` names.
    fn read(config: &Config, clock: &Arc<dyn Clock>) -> Result<Provider, Failure> {
        let jwts = Jwts::start(&config.jwt, clock.clone())?.map(Arc::new);
        let service = Service::start(&config.service)?.map(Arc::new);
        Ok(Provider { jwts, service })
    }
}

fn question(hello: &Hello, password: &str, address: IpAddr) -> Question {
    Question {
        user: hello.user.clone(),
        password: password.to_owned(),
        remote_id: hello.remote_id.clone(),
        address,
        script_version: hello.script_version.clone(),
        publications: hello.publications.clone(),
        parameters: hello.parameters.clone(),
    }
}

fn unknown_user(what: &str, origin: &Origin, why: &str) -> Failure {
    let message = format!("the {what} is valid, but user {} {why}", origin.user);
    let hint = "ask the operator to add or unlock the user, or to have such users added";
    Failure::new(Code::AuthenticationFailed, message).hint(hint)
}

fn lifetime_ms(config: &Config) -> i64 {
    i64::try_from(config.token_lifetime_s).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// A worker that hashes.
#[derive(Clone)]
struct Verifier(Costs);

impl Routine for Verifier {
    type Item = Verification;

    fn work(&mut self, asked: Verification, _: &Intake<Verification>) {
        let Verification { password, hash, answer } = asked;
        fail_point!("password-waits");
        // The session may have ended in the meantime. Then the result is not needed.
        let _ = answer.send(password::verify(&password, hash.as_deref(), self.0));
    }
}
