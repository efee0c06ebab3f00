//! What becomes of changes that wait while the schema changes.

use crate::progress::state::Frozen;

/// What happens to pending changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waiting {
    /// They were uploaded under the held tables, and this generation, if any, is committed. Changes
    /// since then must be uploaded first ([`Code::ApplyBlocked`]).
    Uploaded(Option<Frozen>),
    /// They stay. If they block the change, nothing is done ([`Code::ShapeChangeBlocked`]).
    Kept,
    /// They are uploaded under the new tables. What is frozen has not left, or in vain.
    CarriedOver(Names),
}

/// What the names of columns are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// The server says where they differ.
    Told,
    /// A missing column may be a new one with another name.
    Guessed,
}
