//! Remotes: what they keep, what they remember, and what other programs do to them.

mod acknowledge;
mod first_fill;
mod fleet;
mod foreign_writers;
mod one_at_a_time;
mod other_pasts;
mod restores;
mod resume;
mod triggers;
mod verify;
