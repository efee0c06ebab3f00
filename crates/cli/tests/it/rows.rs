//! Single rows: which remotes receive them, and what becomes of those that fail.

mod added;
mod applications;
mod around_rows;
mod entered_again;
mod errors_by_scripts;
mod key_changes;
mod latest;
mod lost_conflicts;
mod notations;
mod owed_rows;
mod own_scripts;
mod partitions;
mod refresh;
mod rejects;
mod row_faults;
mod sessions;
mod statistics;
