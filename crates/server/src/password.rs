//! Passwords: hashed by Argon2id, with at most one verification per core at a time.
//!
//! One verification costs about 20 ms of CPU, as much as applying thousands of rows. So it is done
//! once, and then a token replaces the password (`token.rs`).

use crate::random;
use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use model::{Code, Failure};

/// Hashes `password` with Argon2id, into the PHC string form.
pub fn hash(password: &str) -> Result<String, Failure> {
    let failed = |error: argon2::password_hash::Error| {
        Failure::new(Code::Bug, "cannot hash the password").source(error.to_string())
    };
    let salt = random::from_system()?.next_bytes();
    let salt = SaltString::encode_b64(&salt).map_err(failed)?;
    Ok(Argon2::default().hash_password(password.as_bytes(), &salt).map_err(failed)?.to_string())
}

/// Whether `password` is the one behind `hash`. Without a hash it takes as long and fails, so that
/// the time does not tell which users exist, or are locked.
pub(crate) fn verify(password: &str, hash: Option<&str>) -> bool {
    /// A hash of unknown bytes, with the default costs.
    const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm9ib2R5\
                          $pT3HgLvNu3bFzj1mWnq0hJ6dO3k1dEr0tqjvbV6v2mY";
    // That of a locked user does not parse.
    let known = hash.and_then(|hash| PasswordHash::new(hash).ok());
    let exists = known.is_some();
    let Some(parsed) = known.or_else(|| PasswordHash::new(NOBODY).ok()) else { return false };
    let matches = Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
    matches && exists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_verifies() {
        let hashed = hash("correct horse").unwrap();
        assert!(hashed.starts_with("$argon2id$"));
        assert!(verify("correct horse", Some(&hashed)));
        assert!(!verify("wrong horse", Some(&hashed)));
        assert!(!verify("correct horse", None));
        assert!(!verify("correct horse", Some("rubbish")));
        assert!(!verify("correct horse", Some(&format!("!{hashed}"))), "locked");
    }
}
