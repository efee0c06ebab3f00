//! Random numbers of the operating system. Only this file of the crate draws them (A6).

use model::{Code, Failure};

/// A number that cannot be guessed and is unlikely to occur twice.
#[allow(clippy::disallowed_methods, reason = "this is the file that draws")]
pub(crate) fn number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(Code::Bug, format!("the operating system has no random numbers: {error}"))
    })?;
    Ok(u64::from_le_bytes(bytes))
}
