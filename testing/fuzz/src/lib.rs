//! What reads bytes of others, given random ones.
//!
//! A [`Target`] is a function that takes any bytes. It must return, without a panic, and without
//! more memory than its bound. `tests/corpus.rs` gives it the inputs in `corpus/`, and random
//! changes of them. The program in `guided/` gives it inputs that libFuzzer looks for, by the parts
//! of the program that they reach; what it finds goes to `corpus/`.

#![allow(clippy::unwrap_used, reason = "what is no part of the product fails by panicking")]

mod mutation;
mod targets;

pub use mutation::Mutator;

use std::path::{Path, PathBuf};

/// Something that reads bytes of others.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Random inputs of the short run.
    pub iterations: u32,
    /// All that one input may allocate, in bytes, though not at the same time.
    pub allocated_bytes_max: usize,
    /// Words from which inputs are made.
    pub words: &'static [&'static str],
}

const MIB: usize = 1 << 20;

/// All of them.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "protocol",
        run: targets::protocol::run,
        iterations: 20_000,
        allocated_bytes_max: 4 * MIB,
        words: targets::protocol::WORDS,
    },
    Target {
        name: "model",
        run: targets::model::run,
        iterations: 5_000,
        allocated_bytes_max: 16 * MIB,
        words: targets::model::WORDS,
    },
    Target {
        name: "configuration",
        run: targets::configuration::run,
        iterations: 3_000,
        allocated_bytes_max: 16 * MIB,
        words: targets::configuration::WORDS,
    },
    Target {
        name: "script",
        run: targets::script::run,
        iterations: 20_000,
        allocated_bytes_max: 4 * MIB,
        words: targets::script::WORDS,
    },
    Target {
        name: "remote_tables",
        run: targets::remote_tables::run,
        iterations: 40,
        allocated_bytes_max: 64 * MIB,
        words: &[],
    },
    Target {
        name: "postgres",
        run: targets::postgres::run,
        iterations: 2_000,
        allocated_bytes_max: 64 * MIB,
        words: targets::postgres::WORDS,
    },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

impl Target {
    /// The folder with its inputs.
    pub fn corpus(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }
}
