//! Whom a failure concerns.

/// Who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// Those who use or build the remote.
    Remote,
    /// Those who run the server or the consolidated database.
    Operator,
    /// Nobody: the problem is temporary.
    Nobody,
    /// The developers of Syncline.
    Maker,
}
