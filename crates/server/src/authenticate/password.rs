//! Passwords: hashed by Argon2id, with at most one verification per core at a time.
//!
//! One verification costs about 20 ms of CPU, as much as applying thousands of rows. So it is done
//! once, and then a token replaces the password (`token.rs`).

use crate::random;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use model::{Code, Failure, Random};

/// What one verification costs. It is no setting: a server that asks for less is easier to rob.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl Costs {
    /// The least that Argon2id allows. For passwords that protect nothing, as those of tests.
    pub const LEAST: Costs = Costs { memory_kib: Params::MIN_M_COST, passes: Params::MIN_T_COST };
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { memory_kib: Params::DEFAULT_M_COST, passes: Params::DEFAULT_T_COST }
    }
}

/// Fewer characters are guessed too soon.
pub const CHARACTERS_MIN: usize = 8;

/// Whether the password has too few characters.
pub fn is_short(password: &str) -> bool {
    password.chars().count() < CHARACTERS_MIN
}

/// Hashes `password` with Argon2id, into the PHC string form.
pub fn hash(password: &str, costs: Costs) -> Result<String, Failure> {
    hash_with(password, &mut random::from_system()?, costs)
}

/// The same with a salt of this generator.
pub fn hash_with(password: &str, random: &mut Random, costs: Costs) -> Result<String, Failure> {
    let failed = |error: argon2::password_hash::Error| {
        Failure::new(Code::Bug, "cannot hash the password").source(error.to_string())
    };
    let salt = SaltString::encode_b64(&random.next_bytes()).map_err(failed)?;
    let params = Params::new(costs.memory_kib, costs.passes, Params::DEFAULT_P_COST, None);
    let params = params.map_err(|error| failed(error.into()))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    Ok(argon2.hash_password(password.as_bytes(), &salt).map_err(failed)?.to_string())
}

/// Whether `password` is the one behind `hash`. Without a hash it takes as long as one of these
/// costs and fails, so that the time does not tell which users exist, or are locked.
pub(crate) fn verify(password: &str, hash: Option<&str>, costs: Costs) -> bool {
    // That of a locked user does not parse.
    let known = hash.and_then(|hash| PasswordHash::new(hash).ok());
    let exists = known.is_some();
    let nobody = nobody(costs);
    let Some(parsed) = known.or_else(|| PasswordHash::new(&nobody).ok()) else { return false };
    let matches = Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
    matches && exists
}

/// A hash of unknown bytes.
fn nobody(costs: Costs) -> String {
    let Costs { memory_kib, passes } = costs;
    format!(
        "$argon2id$v=19$m={memory_kib},t={passes},p=1$bm9ib2R5bm9ib2R5bm9ib2R5\
         $pT3HgLvNu3bFzj1mWnq0hJ6dO3k1dEr0tqjvbV6v2mY"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_verifies() {
        let hashed = hash("correct horse", Costs::default()).unwrap();
        assert!(hashed.starts_with("$argon2id$"));
        assert!(hashed.contains("$m=19456,t=2,p=1$"), "{hashed}");
        assert!(nobody(Costs::default()).contains("$m=19456,t=2,p=1$"), "and nobody's");
        let verify =
            |password: &str, hash: Option<&str>| super::verify(password, hash, Costs::default());
        assert!(verify("correct horse", Some(&hashed)));
        assert!(!verify("wrong horse", Some(&hashed)));
        assert!(!verify("correct horse", None));
        assert!(!verify("correct horse", Some("rubbish")));
        assert!(!verify("correct horse", Some(&format!("!{hashed}"))), "locked");
    }

    #[test]
    fn one_seed_and_low_costs_give_one_hash_which_verifies() {
        let costs = Costs::LEAST;
        let hash = |seed| hash_with("secret", &mut Random::from_seed([seed; 32]), costs).unwrap();
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
        assert!(hash(1).contains("$m=8,t=1,p=1$"));
        assert!(verify("secret", Some(&hash(1)), costs));
        assert!(!verify("secret", None, costs));
        assert!(PasswordHash::new(&nobody(costs)).is_ok(), "it takes as long");
    }
}
