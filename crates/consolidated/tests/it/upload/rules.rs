//! What the conflict rules decide that name columns.

mod added;
mod compared;
mod latest;
mod losers;
