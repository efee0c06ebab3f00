//! Random histories of fleets, faults included, and what must hold after every step.
//!
//! [`history`] draws tables, a model and steps from one seed. A [`world::World`] does the steps,
//! with real clients, the real server and the real center. [`oracle`] looks at all databases after
//! every step. [`run`] connects the three, and [`shrink`] makes short what has found something. The
//! world of [`simulated`] is one thread in virtual time, so a seed takes the same course each time.
//! [`vfs`] has the disks of its machines.

#![allow(clippy::unwrap_used, reason = "what is no part of the product fails by panicking")]

pub mod history;
pub mod oracle;
pub mod run;
pub mod shrink;
pub mod simulated;
pub mod vfs;
pub mod world;
