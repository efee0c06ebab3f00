//! What a deployment writes to a database, and removes again.

mod deployment;
mod deployment_postgres;
mod golden;
mod names;
