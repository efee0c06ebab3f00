//! JSON Web Tokens of an identity provider, in place of passwords.
//!
//! A JWT proves who the user is, and says claims that the provider alone decides. It is verified
//! in memory; only a key that is not known is looked up, at most once a minute.

mod key_source;
mod keys;
mod refused;
mod ring;

use super::granted::Granted;
use crate::config::JwtOptions;
use crate::stage;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, Validation};
use key_source::KeySource;
use keys::Keys;
use model::{Clock, Failure, UserName};
use refused::{of_its_claims, refused};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// How much the clocks of the provider and of the server may differ.
const LEEWAY_S: f64 = 60.0;

/// How often at most keys are looked up again.
const LOOK_UP_EVERY_MS: u64 = 60_000;

/// Verifies the JWTs of one provider.
pub(crate) struct Jwts {
    options: JwtOptions,
    source: Arc<KeySource>,
    known: Mutex<Known>,
    clock: Arc<dyn Clock>,
}

struct Known {
    keys: Keys,
    looked_up_ms: u64,
}

impl Jwts {
    /// Reads the keys. None where the configuration names none.
    pub(crate) fn start(
        options: &JwtOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Jwts>, Failure> {
        if !options.enabled() {
            return Ok(None);
        }
        ring::install();
        let source = KeySource::new(options)?;
        let known = Known { keys: source.read()?, looked_up_ms: clock.monotonic_ms() };
        let (options, source) = (options.clone(), Arc::new(source));
        Ok(Some(Jwts { options, source, known: Mutex::new(known), clock }))
    }

    /// Whether this is a JWT, and no token of a database.
    pub(crate) fn is_one(token: &str) -> bool {
        token.matches('.').count() == 2
    }

    /// Whether the database gets users that it does not know.
    pub(crate) fn registers(&self) -> bool {
        self.options.register
    }

    /// Accepts a JWT of `user`, and gives the claims in it.
    pub(crate) async fn verify(&self, token: &str, user: &UserName) -> Result<Granted, Failure> {
        let token = token.trim();
        let header = jsonwebtoken::decode_header(token).map_err(|_| refused("cannot be read"))?;
        check_header(&header)?;
        if self.key_is_missing(&header) {
            self.look_up().await?;
        }
        let claims = self.verified(token, &header)?;
        self.check_time(&claims)?;
        match claims.get(&self.options.user_claim).and_then(Value::as_str) {
            Some(name) if name == user.as_str() => {
                Granted::read(&claims, &self.options.claims).map_err(|why| of_its_claims(&why))
            }
            Some(_) => Err(refused("belongs to another user")),
            None => {
                let claim = &self.options.user_claim;
                let why = format!("has no claim {claim} with the name of the user as text");
                Err(of_its_claims(&why))
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_is_missing(&self, header: &Header) -> bool {
        self.known().keys.find(header.kid.as_deref(), header.alg).is_none()
    }

    /// Asks for the keys again, unless that was done within the last minute.
    async fn look_up(&self) -> Result<(), Failure> {
        {
            let (mut known, now) = (self.known(), self.clock.monotonic_ms());
            if now.saturating_sub(known.looked_up_ms) < LOOK_UP_EVERY_MS {
                return Ok(());
            }
            // Before the answer: who comes meanwhile does not ask, too.
            known.looked_up_ms = now;
        }
        let source = self.source.clone();
        match stage::aside_until_done("jwt-keys", move || source.read()).await? {
            Ok(keys) => self.known().keys = keys,
            // Those that are known stay good.
            Err(failure) => tracing::warn!(error = %failure.full_message(), "no new keys of JWTs"),
        }
        Ok(())
    }

    /// The claims behind a good signature, with their issuer and audience checked.
    fn verified(&self, token: &str, header: &Header) -> Result<Map<String, Value>, Failure> {
        let known = self.known();
        let key = known.keys.find(header.kid.as_deref(), header.alg).ok_or_else(|| {
            refused("is signed with a key or an algorithm that is not configured here")
        })?;
        let mut validation = Validation::new(key.algorithm);
        validation.algorithms = vec![key.algorithm];
        validation.required_spec_claims = HashSet::from(["exp", "iss", "aud"].map(str::to_owned));
        validation.set_issuer(&[&self.options.issuer]);
        validation.set_audience(&[&self.options.audience]);
        // By the server's clock, below.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        let data = jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &validation);
        data.map(|data| data.claims).map_err(|error| {
            let JwtOptions { issuer, audience, .. } = &self.options;
            match error.kind() {
                ErrorKind::InvalidSignature => refused("has a wrong signature"),
                ErrorKind::InvalidIssuer => of_its_claims(&format!(
                    "is of another issuer: its claim iss is not the text {issuer}"
                )),
                ErrorKind::InvalidAudience => of_its_claims(&format!(
                    "is for another audience: its claim aud does not contain the text {audience}"
                )),
                ErrorKind::MissingRequiredClaim(claim) => of_its_claims(&format!(
                    "has no claim {claim}, or of another type; exp is a time in seconds, iss and \
                     aud are texts"
                )),
                _ => refused("cannot be read"),
            }
        })
    }

    fn check_time(&self, claims: &Map<String, Value>) -> Result<(), Failure> {
        let now_s = self.clock.unix_ms() as f64 / 1000.0;
        let expires = claims.get("exp").and_then(Value::as_f64);
        let expires =
            expires.ok_or_else(|| of_its_claims("has no time in seconds in its claim exp"))?;
        if now_s >= expires + LEEWAY_S {
            return Err(refused("has expired"));
        }
        match claims.get("nbf").map(Value::as_f64) {
            Some(None) => Err(of_its_claims("has no time in seconds in its claim nbf")),
            Some(Some(begins)) if now_s < begins - LEEWAY_S => Err(refused("is not valid yet")),
            _ => Ok(()),
        }
    }
}

fn check_header(header: &Header) -> Result<(), Failure> {
    let brings_key = header.jku.is_some()
        || header.jwk.is_some()
        || header.x5u.is_some()
        || header.x5c.is_some();
    if brings_key {
        return Err(refused("brings its own key (jku, jwk, x5u, x5c)"));
    }
    // No extension is known here.
    match &header.crit {
        Some(_) => Err(refused("has an extension in crit that is not known here")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
