//! Types and notations of values, to a remote and back.

mod keys_postgres;
mod notations_postgres;
mod types_postgres;
