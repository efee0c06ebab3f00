//! What every backend needs to apply an upload.

pub(crate) mod changed_columns;
pub(crate) mod decisions;
pub(crate) mod detected;
pub(crate) mod echo;
pub(crate) mod entered_again;
pub(crate) mod halving;
pub(crate) mod loser;
pub(crate) mod lost_inserts;
pub(crate) mod owed_rows;
pub(crate) mod reason;
pub(crate) mod rebase;
pub(crate) mod reject;
pub(crate) mod row_map;
pub(crate) mod uploaded_row;
pub(crate) mod verdict;
pub(crate) mod waiting;
