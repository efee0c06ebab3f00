//! Authenticates users: a password once, slowly, and then tokens, quickly.
//!
//! An identity provider may do it instead (`jwt.rs`), or a service of the company (`outside.rs`).

mod granted;
mod jwt;
mod lifetime;
mod outside;
mod registrar;
mod scripted;
mod secret_file;

pub(crate) use granted::Granted;
pub(crate) use outside::WRONG;
pub(crate) use registrar::Registrar;
pub(crate) use scripted::{Evidence, require_accepted};

pub mod password;
pub(crate) mod token;
pub(crate) mod wrong_passwords;

use crate::authenticate::password::Costs;
use crate::authenticate::token::{Checked, Tokens};
use crate::authenticate::wrong_passwords::WrongPasswords;
use crate::config::Config;
use crate::fail_point::fail_point;
use crate::pace::Pace;
use crate::random;
use crate::stage::{self, Execution, Intake, Queue, Routine};
use crate::turns::{Origin, Turn, Turns};
use consolidated::{Authenticates, Credentials, PasswordChange};
use jwt::Jwts;
use lifetime::{Lifetime, Standing};
use model::{Clock, Code, Failure, UserName};
use outside::{Accepted, Question, Service};
use protocol::{Authentication, Credential, Hello, NewPassword};
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
    password_lifetime: RwLock<Lifetime>,
    provider: RwLock<Provider>,
    clock: Arc<dyn Clock>,
    turns: Arc<Turns<IpAddr, UserName>>,
    questions: Arc<Turns<IpAddr, UserName>>,
    wrong: WrongPasswords,
    passwords: Queue<Hashing>,
}

/// The claimed identity, before the database is asked.
pub(crate) enum Claim {
    /// A token of this server's database, for the password of this version.
    Token { password_version: i64, granted: Option<Arc<Granted>> },
    /// A JWT of an identity provider, and the claims in it.
    Jwt { granted: Arc<Granted> },
    /// A certificate that names the user.
    Certificate,
    /// A password that is for a service to verify, unless scripts do.
    Unasked { service: Arc<Service>, question: Box<Question> },
    /// A password that a service has accepted.
    Outside(Accepted),
    /// A password, whose turn it is, and the one from now on.
    Password { password: String, new: Option<NewPassword>, turn: Turn<IpAddr, UserName> },
}

/// Who else knows users, where that is configured.
#[derive(Clone)]
pub(crate) struct Provider {
    jwts: Option<Arc<Jwts>>,
    service: Option<Arc<Service>>,
}

/// A user who is accepted.
#[derive(Default)]
pub(crate) struct Verified {
    /// For later synchronizations, where a password was verified.
    pub(crate) token: Option<String>,
    /// What there is to say of the password.
    pub(crate) authentication: Option<Authentication>,
    /// To be made before the user learns of it.
    pub(crate) change: Option<PasswordChange>,
}

/// A password that waits for a core.
enum Hashing {
    Verify { password: String, hash: Option<String>, answer: oneshot::Sender<bool> },
    Hash { password: NewPassword, answer: oneshot::Sender<Result<String, Failure>> },
}

/// Which of two passwords is the one of now.
enum Proof {
    Old,
    /// The answer to an earlier attempt was lost.
    New,
}

impl Claim {
    /// The claims that an identity provider decides.
    pub(crate) fn granted(&self) -> Option<Arc<Granted>> {
        match self {
            Claim::Jwt { granted } | Claim::Outside(Accepted { granted, .. }) => {
                Some(granted.clone())
            }
            Claim::Token { granted, .. } => granted.clone(),
            Claim::Certificate | Claim::Unasked { .. } | Claim::Password { .. } => None,
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
        let (len_max, at_once) = (config.password_queue_len_max, config.questions_max());
        let turns = Turns::new("passwords", cores, len_max, pace);
        let pace = Pace::new(clock.clone());
        let questions = Turns::new("passwords", at_once, len_max, pace);
        // Only those whose turn it is come here.
        let (passwords, threads) =
            stage::start("password", cores, vec![Verifier(costs); cores], execution)?;
        let token_lifetime_ms = AtomicI64::new(lifetime_ms(config));
        let password_lifetime = RwLock::new(Lifetime::of(config));
        let tokens = Tokens::new(token_key);
        let provider = RwLock::new(Provider::read(config, &clock)?);
        let wrong = WrongPasswords::new(config.password_delay_max_s, config.password_failures_max);
        let authenticator = Authenticator {
            tokens,
            token_lifetime_ms,
            password_lifetime,
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
        if let Some(new) = &hello.new_password {
            require_changing(&hello.credential, new)?;
        }
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
                self.wrong.allow(origin, self.clock.monotonic_ms())?;
                if let Some(service) = self.provider().service {
                    let question = Box::new(question(hello, password, address));
                    return Ok(Claim::Unasked { service, question });
                }
                let turn = self.turns.take_in_time(&origin.address, &origin.user).await?;
                // Others of the same pair were perhaps found wrong while this one waited.
                self.wrong.allow(origin, self.clock.monotonic_ms())?;
                let (password, new) = (password.clone(), hello.new_password.clone());
                Ok(Claim::Password { password, new, turn })
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
        let lifetime = Lifetime::of(config);
        *self.password_lifetime.write().unwrap_or_else(PoisonError::into_inner) = lifetime;
    }

    /// Whether the database gets this user, which it does not know.
    pub(crate) fn registers(&self, claim: &Claim) -> bool {
        let provider = self.provider();
        match claim {
            Claim::Jwt { .. } => provider.jwts.is_some_and(|jwts| jwts.registers()),
            Claim::Outside { .. } => provider.service.is_some_and(|service| service.registers()),
            Claim::Token { .. }
            | Claim::Certificate
            | Claim::Unasked { .. }
            | Claim::Password { .. } => false,
        }
    }

    fn provider(&self) -> Provider {
        self.provider.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the service about a password that is for it to verify, in turn.
    pub(crate) async fn ask_service(
        &self,
        claim: Claim,
        origin: &Origin,
        scripts: Authenticates,
    ) -> Result<Claim, Failure> {
        let Claim::Unasked { service, question } = claim else { return Ok(claim) };
        self.wrong.allow(origin, self.clock.monotonic_ms())?;
        let turn = self.questions.take_in_time(&origin.address, &origin.user).await?;
        self.wrong.allow(origin, self.clock.monotonic_ms())?;
        // The turn goes with the question: it is over with the answer, also where the remote has
        // left meanwhile.
        let guesses = guesses(question.new_password.as_ref());
        let ask = move || (service.ask(&question), turn);
        let (answer, turn) = stage::aside_until_done("service", ask).await?;
        self.note_own(origin, guesses, answer.as_ref().err(), scripts);
        drop(turn);
        Ok(Claim::Outside(answer?))
    }

    /// Remembers what our own check has found. Where scripts can refuse still, that is no success.
    fn note_own(
        &self,
        origin: &Origin,
        guesses: u32,
        failure: Option<&Failure>,
        scripts: Authenticates,
    ) {
        if failure.is_some() || scripts == Authenticates::Nothing {
            self.note(origin, guesses, failure);
        }
    }

    /// Remembers whether passwords were wrong. Those that nobody could verify are not.
    pub(crate) fn note(&self, origin: &Origin, guesses: u32, failure: Option<&Failure>) {
        match failure.map(Failure::code) {
            None => self.wrong.succeeded(origin),
            Some(Code::AuthenticationFailed) => {
                let now_ms = self.clock.monotonic_ms();
                (0..guesses).for_each(|_| self.wrong.failed(origin, now_ms));
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
        scripts: Authenticates,
    ) -> Result<Verified, Failure> {
        let nothing = Verified::default();
        match claim {
            Claim::Token { password_version, granted } => {
                let refused = |why: &str| Err(Failure::new(Code::TokenRefused, why.to_owned()));
                match known {
                    None => refused("the token was not issued by this database"),
                    Some(known) if known.password_version != password_version => {
                        refused("the token was revoked")
                    }
                    // Somebody else has verified the password, and says how long that counts.
                    Some(_) if granted.is_some() => Ok(nothing),
                    Some(known) => match self.standing(known) {
                        Standing::Expired => refused("the password has expired"),
                        standing => Ok(Verified { authentication: said(&standing), ..nothing }),
                    },
                }
            }
            // Who the provider knows, and the operator does not lock out.
            Claim::Jwt { .. } => match known {
                Some(known) if !known.locked() => Ok(nothing),
                Some(_) => Err(unknown_user("JWT", origin, "is locked")),
                None => Err(unknown_user("JWT", origin, "is not known here")),
            },
            Claim::Outside(accepted) => match known {
                Some(known) if !known.locked() => {
                    let token = self.token_of(origin, known.password_version, &accepted)?;
                    Ok(Verified { token, authentication: accepted.authentication, change: None })
                }
                Some(_) => Err(unknown_user("password", origin, "is locked")),
                None => Err(unknown_user("password", origin, "is not known here")),
            },
            Claim::Unasked { .. } => Err(Failure::new(Code::Bug, "no service was asked")),
            Claim::Certificate => match known {
                Some(known) if !known.locked() => Ok(nothing),
                _ => Err(Failure::new(Code::AuthenticationFailed, "unknown user, or one shut out")),
            },
            Claim::Password { password, new, turn } => {
                let guesses = guesses(new.as_ref());
                let proof = self.prove(password, new.clone(), known).await;
                self.note_own(origin, guesses, proof.as_ref().err(), scripts);
                let verified = match (proof, known) {
                    (Err(failure), _) => Err(failure),
                    (Ok(_), None) => Err(Failure::new(Code::Bug, "nobody's password is right")),
                    (Ok(proof), Some(known)) => self.accept(origin, known, &proof, new).await,
                };
                // Not before it is noted: the next one may be of the same pair.
                drop(turn);
                verified
            }
        }
    }

    /// A token for as long as a service stands by its word.
    fn token_of(
        &self,
        origin: &Origin,
        password_version: i64,
        accepted: &Accepted,
    ) -> Result<Option<String>, Failure> {
        let Some(expires_in_s) = accepted.expires_in_s.filter(|it| *it > 0) else {
            return Ok(None);
        };
        let said_ms = i64::try_from(expires_in_s).unwrap_or(i64::MAX).saturating_mul(1000);
        let lifetime_ms = said_ms.min(self.token_lifetime_ms.load(Ordering::Relaxed));
        let expires = self.clock.unix_ms().saturating_add(lifetime_ms);
        let granted = Some((*accepted.granted).clone());
        self.tokens.issue(&origin.user, password_version, granted, expires).map(Some)
    }

    /// Accepts a user whose password is proven, who may want another one.
    async fn accept(
        &self,
        origin: &Origin,
        known: &Credentials,
        proof: &Proof,
        new: Option<NewPassword>,
    ) -> Result<Verified, Failure> {
        let (authentication, version, change) = match (proof, new) {
            (Proof::Old, Some(new)) => {
                let change = self.change(&origin.user, known, new).await?;
                (Some(changed(said(&Standing::Good))), change.version, Some(change))
            }
            (proof, _) => {
                let standing = self.standing(known);
                if standing == Standing::Expired {
                    return Err(Failure::new(Code::PasswordExpired, "the password has expired"));
                }
                let said = match proof {
                    Proof::Old => said(&standing),
                    Proof::New => Some(changed(said(&standing))),
                };
                (said, known.password_version, None)
            }
        };
        let lifetime_ms = self.token_lifetime_ms.load(Ordering::Relaxed);
        let expires = self.clock.unix_ms().saturating_add(lifetime_ms);
        let token = Some(self.tokens.issue(&origin.user, version, None, expires)?);
        Ok(Verified { token, authentication, change })
    }

    /// Another password, which is stored before its user learns of it.
    async fn change(
        &self,
        user: &UserName,
        known: &Credentials,
        password: NewPassword,
    ) -> Result<PasswordChange, Failure> {
        if password::is_short(password.as_str()) {
            let message =
                format!("the new password has fewer than {} characters", password::CHARACTERS_MIN);
            return Err(Failure::new(Code::NewPasswordRefused, message));
        }
        let (answer, hashed) = oneshot::channel();
        self.passwords.put(Hashing::Hash { password, answer }).await?;
        let hash = hashed.await.map_err(|_| ended_early())??;
        // Every database and every client has such numbers.
        let version = (random::from_system()?.next_u64() >> 11) as i64;
        Ok(PasswordChange {
            user: user.clone(),
            former_version: known.password_version,
            version,
            hash,
        })
    }

    /// Verifies a password, and where it is not the one of now, the one that the user wants.
    async fn prove(
        &self,
        password: String,
        new: Option<NewPassword>,
        known: Option<&Credentials>,
    ) -> Result<Proof, Failure> {
        let wrong = || Failure::new(Code::AuthenticationFailed, WRONG);
        if self.is_right(password, known).await? {
            return Ok(Proof::Old);
        }
        let new = new.ok_or_else(wrong)?.as_str().to_owned();
        match self.is_right(new, known).await? {
            true => Ok(Proof::New),
            false => Err(wrong()),
        }
    }

    async fn is_right(
        &self,
        password: String,
        known: Option<&Credentials>,
    ) -> Result<bool, Failure> {
        let (answer, verified) = oneshot::channel();
        let hash = known.map(|known| known.password_hash.clone());
        self.passwords.put(Hashing::Verify { password, hash, answer }).await?;
        verified.await.map_err(|_| ended_early())
    }

    fn standing(&self, known: &Credentials) -> Standing {
        let lifetime = *self.password_lifetime.read().unwrap_or_else(PoisonError::into_inner);
        lifetime.standing(known, self.now_unix_s())
    }
}

impl Provider {
    /// Reads the files that `config` names.
    fn read(config: &Config, clock: &Arc<dyn Clock>) -> Result<Provider, Failure> {
        let jwts = Jwts::start(&config.jwt, clock.clone())?.map(Arc::new);
        let service = Service::start(config, clock)?.map(Arc::new);
        Ok(Provider { jwts, service })
    }
}

/// How many passwords are tried.
fn guesses(new: Option<&NewPassword>) -> u32 {
    1 + u32::from(new.is_some())
}

fn ended_early() -> Failure {
    Failure::new(Code::Bug, "the verification ended early")
}

/// Refuses a change that is none, or that no password proves.
fn require_changing(credential: &Credential, new: &NewPassword) -> Result<(), Failure> {
    match credential {
        Credential::Password(old) if old == new.as_str() => {
            let message = "the new password is the same as the old one";
            Err(Failure::new(Code::NewPasswordRefused, message))
        }
        Credential::Password(_) => Ok(()),
        Credential::Token(_) | Credential::Certificate => {
            let message = "a token, a JWT or a certificate changes no password";
            Err(Failure::new(Code::PasswordNotChanged, message)
                .hint("synchronize with the password and the new one"))
        }
    }
}

/// What the user learns of the time of a password; none where there is nothing to say.
fn said(standing: &Standing) -> Option<Authentication> {
    match standing {
        Standing::ExpiresSoon { in_s } => Some(Authentication {
            expires_in_s: Some(*in_s),
            ..said_of(Authentication::EXPIRES_SOON)
        }),
        Standing::Good | Standing::Expired => None,
    }
}

fn changed(said: Option<Authentication>) -> Authentication {
    let said = said.unwrap_or(said_of(Authentication::GOOD));
    Authentication { password_changed: true, ..said }
}

/// A status, and nothing else.
fn said_of(status: u16) -> Authentication {
    Authentication { status, message: None, expires_in_s: None, password_changed: false }
}

fn question(hello: &Hello, password: &str, address: IpAddr) -> Question {
    Question {
        user: hello.user.clone(),
        password: password.to_owned(),
        new_password: hello.new_password.clone(),
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
    type Item = Hashing;

    fn work(&mut self, asked: Hashing, _: &Intake<Hashing>) {
        fail_point!("password-waits");
        // The session may have ended in the meantime. Then the result is not needed.
        match asked {
            Hashing::Verify { password, hash, answer } => {
                let _ = answer.send(password::verify(&password, hash.as_deref(), self.0));
            }
            Hashing::Hash { password, answer } => {
                let hashed = random::from_system().and_then(|mut random| {
                    password::hash_with(password.as_str(), &mut random, self.0)
                });
                let _ = answer.send(hashed);
            }
        }
    }
}
