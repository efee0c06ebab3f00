//! The randomness of the operating system. Only this file of the server draws from it.

use model::{Code, Failure, Random};

/// A generator seeded by the operating system.
#[allow(clippy::disallowed_methods)] // The one place that may.
pub(crate) fn from_system() -> Result<Random, Failure> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::new(Code::Bug, "the operating system gives no random numbers")
            .source(error.to_string())
    })?;
    Ok(Random::from_seed(seed))
}
