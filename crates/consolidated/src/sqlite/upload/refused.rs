//! Rows that are not applied with the others.

use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::RowId;
use model::Code;
use std::cell::RefCell;
use std::collections::HashMap;

/// Rows that are left out, and why.
pub(in crate::sqlite) type Refused = HashMap<RowId, (Code, String)>;

/// Rows at which the owner's database has ended the whole transaction; each attempt may find one.
pub(in crate::sqlite) type Ended = RefCell<Refused>;

/// Rows for which a script failed that only reads.
pub(in crate::sqlite) type Unanswered = RefCell<OwedRows>;

/// Rows that are not applied with the others, as earlier attempts have found.
#[derive(Clone, Copy)]
pub(in crate::sqlite) struct LeftOut<'a> {
    pub(super) refused: &'a OwedRows,
    /// Applied after the others.
    pub(super) postponed: &'a OwedRows,
    /// Found by this attempt: rows for which a script failed that only reads.
    pub(super) unanswered: &'a Unanswered,
    /// An attempt before has found one: now all are searched for.
    pub(super) searching: bool,
}
