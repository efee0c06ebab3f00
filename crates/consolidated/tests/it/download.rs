//! What the center sends: every change once, whoever made it and however.

mod around_cursors;
mod by_writer;
mod bypasses_postgres;
mod changes;
mod downloads_postgres;
mod firing_order;
mod owed_batches;
mod own_cursors;
mod own_times;
mod own_times_postgres;
mod plans_postgres;
mod set_times;
mod snapshots_postgres;
mod watermarks;
