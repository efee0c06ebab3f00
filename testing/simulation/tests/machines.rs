//! A real server and real remotes on simulated disks, which lose power.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod machines {
    mod center;
    mod fleet;
    mod remote;
}
