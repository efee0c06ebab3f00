//! Random numbers of the operating system. Only this file of the crate draws them (A6).

use model::{Code, Failure, Random};

/// A generator seeded by the operating system.
#[allow(clippy::disallowed_methods, reason = "this is the file that draws")]
pub(crate) fn system() -> Result<Random, Failure> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::new(Code::Bug, format!("the operating system has no random numbers: {error}"))
    })?;
    Ok(Random::from_seed(seed))
}
