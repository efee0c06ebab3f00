//! Rows that are not applied with the others.

use crate::sqlite::upload::constraint::ForeignKeys;
use crate::upload::owed_rows::OwedRows;
use crate::upload::uploaded_row::RowId;
use model::Code;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Rows that are left out, and why.
pub(in crate::sqlite) type Refused = HashMap<RowId, (Code, String)>;

/// Rows at which the owner's database has ended the whole transaction; each attempt may find one.
pub(in crate::sqlite) type Ended = RefCell<Refused>;

/// Rows for which a script failed that only reads.
pub(in crate::sqlite) type Unanswered = RefCell<OwedRows>;

/// What an attempt knows from those before.
pub(in crate::sqlite) struct Known<'a> {
    /// Rows that are impossible.
    pub(in crate::sqlite) refused: &'a OwedRows,
    /// Rows to be applied after the others, because they leave.
    pub(in crate::sqlite) postponed: &'a OwedRows,
    /// Found by this attempt: rows for which a script failed that only reads. The upload goes on
    /// without them.
    pub(super) unanswered: &'a Unanswered,
    /// An attempt before has found one: now all are searched for.
    pub(super) searching: bool,
    pub(super) ended: &'a Ended,
    /// Each statement has a savepoint of its own.
    pub(super) apart: bool,
    /// The foreign keys that are looked at after each row, where the attempt only searches for the
    /// rows that break some.
    pub(in crate::sqlite) foreign_keys: Option<Arc<ForeignKeys>>,
    /// A search has found that the uploaded rows themselves break none.
    pub(in crate::sqlite) acquitted: bool,
    /// Rows in each other's way are refused together, because there were many attempts.
    pub(in crate::sqlite) hurried: bool,
}
