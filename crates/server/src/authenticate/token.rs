//! Session tokens, which replace a verified password.
//!
//! A token is `payload.signature`, both in base64: the user, the end of its validity, the version
//! of the password, and the claims where somebody else decides them. It is signed with a key in the
//! consolidated database. So every server of that database accepts it, and none has to store it. A
//! changed password or a removed user revokes it.

use super::granted::Granted;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use model::{Code, Failure, UserName};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::sync::{PoisonError, RwLock};

#[derive(Serialize, Deserialize)]
struct Payload {
    user: UserName,
    expires_unix_ms: i64,
    password_version: i64,
    /// What the service said that verified the password; none where that was the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    granted: Option<Granted>,
}

/// What a good token says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) password_version: i64,
    pub(crate) granted: Option<Granted>,
}

/// Issues and checks tokens.
pub(crate) struct Tokens {
    key: RwLock<Vec<u8>>,
}

impl Tokens {
    pub(crate) fn new(key: Vec<u8>) -> Tokens {
        Tokens { key: RwLock::new(key) }
    }

    /// From now on signs with this key, and accepts no other.
    pub(crate) fn set_key(&self, key: Vec<u8>) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = key;
    }

    pub(crate) fn issue(
        &self,
        user: &UserName,
        password_version: i64,
        granted: Option<Granted>,
        expires_unix_ms: i64,
    ) -> Result<String, Failure> {
        let payload = Payload { user: user.clone(), expires_unix_ms, password_version, granted };
        let payload = serde_json::to_vec(&payload)
            .map_err(|error| Failure::new(Code::Bug, "a token does not encode").source(error))?;
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let signature = URL_SAFE_NO_PAD.encode(self.sign(&payload)?.finalize().into_bytes());
        Ok(format!("{payload}.{signature}"))
    }

    /// Accepts a token of `user`, and gives what it was issued for.
    pub(crate) fn check(
        &self,
        token: &str,
        user: &UserName,
        now_unix_ms: i64,
    ) -> Result<Checked, Failure> {
        let refused = |why: &str| Failure::new(Code::TokenRefused, format!("the token {why}"));
        let invalid = || refused("was not issued by this database");
        let (payload, signature) = token.trim().split_once('.').ok_or_else(invalid)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| invalid())?;
        // Compares in constant time.
        self.sign(payload)?.verify_slice(&signature).map_err(|_| invalid())?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| invalid())?;
        let payload: Payload = serde_json::from_slice(&payload).map_err(|_| invalid())?;
        if payload.user != *user {
            return Err(refused("belongs to another user"));
        }
        if payload.expires_unix_ms <= now_unix_ms {
            return Err(refused("has expired"));
        }
        let Payload { password_version, granted, .. } = payload;
        Ok(Checked { password_version, granted })
    }

    fn sign(&self, payload: &str) -> Result<Hmac<Sha256>, Failure> {
        let key = self.key.read().unwrap_or_else(PoisonError::into_inner);
        let mut mac = Hmac::<Sha256>::new_from_slice(&key)
            .map_err(|_| Failure::new(Code::Bug, "the token key is unusable"))?;
        mac.update(payload.as_bytes());
        Ok(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_user_and_time_only() {
        let tokens = Tokens::new(vec![1; 32]);
        let (ann, bob) = (UserName::new("ann").unwrap(), UserName::new("bob").unwrap());
        let token = tokens.issue(&ann, 7, None, 1000).unwrap();
        let checked = Checked { password_version: 7, granted: None };
        assert_eq!(tokens.check(&token, &ann, 999).unwrap(), checked);
        let refused = |tokens: &Tokens, token: &str, user, now| {
            assert_eq!(tokens.check(token, user, now).unwrap_err().code(), Code::TokenRefused);
        };
        refused(&tokens, &token, &bob, 999);
        refused(&tokens, &token, &ann, 1000);
        refused(&Tokens::new(vec![2; 32]), &token, &ann, 999);
        for rubbish in ["", ".", "a.b", &token[1..], &token[..token.len() - 1]] {
            refused(&tokens, rubbish, &ann, 999);
        }
    }
}
