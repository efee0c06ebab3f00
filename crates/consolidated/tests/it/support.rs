//! Consolidated databases for the tests, and the remotes that speak to them.

pub(crate) mod center;
pub(crate) mod on_postgres;
pub(crate) mod shop;
