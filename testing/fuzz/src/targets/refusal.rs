//! What a refusal must be.

use model::{Code, Failure};

/// A refusal has a number of its own and words. That of a defect is no refusal.
pub(crate) fn is_told(failure: &Failure) {
    assert!(failure.code() != Code::Bug, "{failure:?}");
    assert!(!failure.full_message().is_empty(), "{failure:?}");
}
