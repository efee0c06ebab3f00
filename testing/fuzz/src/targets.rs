//! One file per target.

pub(crate) mod configuration;
pub(crate) mod model;
pub(crate) mod postgres;
pub(crate) mod protocol;
mod refusal;
pub(crate) mod remote_tables;
pub(crate) mod script;

#[path = "../../../crates/cli/src"]
#[allow(dead_code, reason = "the program uses the rest")]
mod product {
    pub(crate) mod config;
}
