//! What makes uploads and downloads cheaper and decides nothing.

pub(super) mod departure_probe;
pub(super) mod plan_cache;
pub(super) mod round_trip_proof;
pub(super) mod xmin_horizon;
