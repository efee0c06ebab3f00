//! The keys of an identity provider, each for one algorithm.
//!
//! The algorithm follows from the key and the configuration. The header of a JWT says which key
//! it means, and never how its signature is to be checked.

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use model::{Code, Failure};

/// The fewest bytes of a shared secret: as many as its signature has.
const SECRET_BYTES_MIN: usize = 32;

/// A key, for one algorithm.
#[derive(Debug, Clone)]
pub(super) struct Key {
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// Every key that a JWT may be signed with.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// The keys of a JSON Web Key Set that can verify under one of `algorithms`. Others are left
    /// out: a provider has keys for other purposes, too.
    pub(super) fn of_set(
        text: &[u8],
        from: &str,
        algorithms: &[Algorithm],
    ) -> Result<Keys, Failure> {
        let unusable = |why: &str| {
            Failure::new(Code::JwtKeysUnusable, format!("the keys of JWTs in {from} {why}"))
        };
        let set: JwkSet = serde_json::from_slice(text)
            .map_err(|error| unusable("are not a JSON Web Key Set").source(error))?;
        let keys: Vec<Key> =
            set.keys.iter().filter_map(|jwk| verifying_key(jwk, algorithms)).collect();
        match keys.is_empty() {
            true => Err(unusable("have none that can verify under an algorithm of jwt_algorithms")),
            false => Ok(Keys(keys)),
        }
    }

    /// A secret that the provider shares with the server.
    pub(super) fn of_secret(secret: &[u8], from: &str) -> Result<Keys, Failure> {
        if secret.len() < SECRET_BYTES_MIN {
            let message = format!(
                "the secret of JWTs in {from} has {} bytes; it needs at least {SECRET_BYTES_MIN}",
                secret.len()
            );
            return Err(Failure::new(Code::JwtKeysUnusable, message));
        }
        let key = DecodingKey::from_secret(secret);
        Ok(Keys(vec![Key { id: None, algorithm: Algorithm::HS256, key }]))
    }

    /// These and `others`.
    pub(super) fn and(mut self, others: Keys) -> Keys {
        self.0.extend(others.0);
        self
    }

    /// The key that a header means. Without an ID it means the only one for its algorithm.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let fitting = || self.0.iter().filter(move |key| key.algorithm == algorithm);
        let named = id.and_then(|id| fitting().find(|key| key.id.as_deref() == Some(id)));
        let mut unnamed = fitting().filter(|key| id.is_none() || key.id.is_none());
        named.or_else(|| unnamed.next().filter(|_| unnamed.next().is_none()))
    }
}

/// What a published key can verify, unless it is for something else.
fn verifying_key(jwk: &Jwk, algorithms: &[Algorithm]) -> Option<Key> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let (algorithm, name) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        // A secret among published keys is none.
        _ => return None,
    };
    let other = jwk.common.key_algorithm.is_some_and(|said| said != name);
    if other || !algorithms.contains(&algorithm) {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(Key { id: jwk.common.key_id.clone(), algorithm, key })
}

/// The algorithms of published keys that these names mean.
pub(super) fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, Failure> {
    let algorithm = |name: &String| match name.as_str() {
        "RS256" => Ok(Algorithm::RS256),
        "ES256" => Ok(Algorithm::ES256),
        "EdDSA" => Ok(Algorithm::EdDSA),
        other => {
            let message = format!("jwt_algorithms has {other:?}; it can have RS256, ES256, EdDSA");
            Err(Failure::new(Code::ConfigInvalid, message))
        }
    };
    names.iter().map(algorithm).collect()
}
