//! The tables change at the center, in every way, while remotes have pending changes.

mod changing_tables;
mod left_out;
mod returning_tables;
mod schema_attacks;
mod schema_change;
mod schema_left_behind;
mod wide;
