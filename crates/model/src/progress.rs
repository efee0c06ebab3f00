//! What both sides have agreed on: progress, counter, nonce.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers the uploads of one remote. Grows, with gaps; a number is never reused for other
/// content (trap 6). Zero means that nothing was uploaded yet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Progress(pub i64);

/// Counts the synchronizations of one remote in which the server handed out watermarks.
///
/// A remote that is ahead of the server proves that the consolidated database was restored
/// (trap 3); one that is lower, without a nonce that explains it, is a copied file (trap 13).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Counter(pub i64);

/// Random mark of one attempt to synchronize: tells a lost answer from a copied file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub i64);

/// Random identity of a consolidated database, made once by the first `deploy`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DatabaseId(pub String);

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
