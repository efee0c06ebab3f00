//! Chance that can be repeated: everything drawn follows from a seed that is printed.

use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable that repeats a run: `SYNCLINE_TEST_SEED=7 cargo test …`.
const SEED_VARIABLE: &str = "SYNCLINE_TEST_SEED";

/// A generator of numbers (SplitMix64), good enough to choose what to do next.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A generator whose whole sequence follows from `seed`.
    pub fn from_seed(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A generator with another seed each time, unless the environment names one. The seed is
    /// printed, which a test shows when it fails.
    #[allow(clippy::print_stdout, reason = "cargo shows what a failed test printed")]
    pub fn from_environment() -> Chance {
        let fresh = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) ^ now.as_secs() << 20
        };
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().unwrap(),
            Err(_) => fresh(),
        };
        println!("repeat with {SEED_VARIABLE}={seed}");
        Chance(seed)
    }

    /// A generator with this seed, unless the environment names another one, and with another one
    /// each time where longer runs are wanted. For tests whose every run must be as long as the
    /// last one.
    #[allow(clippy::print_stdout, reason = "cargo shows what a failed test printed")]
    pub fn usual(seed: u64) -> Chance {
        if full() || std::env::var_os(SEED_VARIABLE).is_some() {
            return Chance::from_environment();
        }
        println!("repeat with {SEED_VARIABLE}={seed}");
        Chance(seed)
    }

    /// A generator for somebody who draws at the same time as this one.
    pub fn split(&mut self) -> Chance {
        Chance(self.next())
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// One of `choices`.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Whether longer runs are wanted: `./test --full`.
pub fn full() -> bool {
    std::env::var_os("SYNCLINE_TEST_FULL").is_some()
}
