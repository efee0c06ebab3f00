//! What is wrong with compressed rows.

use model::{Code, Failure};

/// The failure of rows that their reader has not said that it reads.
pub(crate) fn not_agreed(what: &str) -> Failure {
    let message = format!("compressed rows ({what}) that were not agreed on");
    Failure::new(Code::CompressionNotAgreed, message)
}

pub(super) fn broken(why: &str) -> Failure {
    Failure::new(Code::CompressionBroken, format!("compressed rows do not unpack: {why}"))
}
