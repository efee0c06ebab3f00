//! What a simulated disk keeps and what it takes, seen through SQLite.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk {
    mod copies;
    mod faults;
    mod power_cut;
    mod repetition;
    mod workload;
}
