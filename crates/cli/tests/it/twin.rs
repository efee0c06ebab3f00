//! One random history for two programs, which must leave the same behind.
//!
//! Each program has a consolidated database, a server and remotes of its own. Both are given the
//! same steps in the same order, one client at a time. What a command answers is compared after
//! each step. All tables of all databases, the user's and the system's, are compared after each
//! round.
//!
//! `SYNCLINE_TWIN_OLD=PATH` names the other program. Without it the program is its own twin, and
//! the run is short. `SYNCLINE_TWIN_SEEDS=N` says how many histories, `SYNCLINE_TEST_SEED=N` which
//! one, and `SYNCLINE_TWIN_IGNORE=a,b.c` names tables and columns that may differ.
//!
//! `history.rs` draws the steps, `ring.rs` and the files of `convergence` the tables and
//! the writes. `world.rs` does the steps in one world, `image.rs` reads its databases, and
//! `normal.rs` is the list of what must differ.

#![allow(clippy::print_stdout, reason = "cargo shows what a failed test printed")]

mod history;
mod image;
mod normal;
mod pair;
mod ring;
mod world;

use history::Length;
use pair::{Pair, Sabotage};
use std::path::PathBuf;
use world::Backend;

/// Names the other program.
const OLD: &str = "SYNCLINE_TWIN_OLD";
/// How many histories.
const SEEDS: &str = "SYNCLINE_TWIN_SEEDS";
const SEEDS_DEFAULT: u64 = 5;
/// The one history.
const SEED: &str = "SYNCLINE_TEST_SEED";
/// Tables and columns that may differ.
const IGNORE: &str = "SYNCLINE_TWIN_IGNORE";

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    variable(name).map(|value| value.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

fn run(backend: Backend) {
    let old = variable(OLD).map(PathBuf::from);
    let ignore = variable(IGNORE).unwrap_or_default();
    let length = if old.is_some() { Length::WHOLE } else { Length::SMOKE };
    let seeds = match (number(SEED), number(SEEDS), &old) {
        (Some(seed), _, _) => seed..=seed,
        (None, Some(seeds), _) => 1..=seeds,
        (None, None, Some(_)) => 1..=SEEDS_DEFAULT,
        (None, None, None) => 1..=1,
    };
    let old = old.unwrap_or_else(|| PROGRAM.into());
    for seed in seeds {
        println!("repeat with {}", repeat(backend, seed, &ignore));
        let pair = Pair::new(backend, seed, [&old, &PROGRAM.into()], length, &ignore);
        if let Err(difference) = pair.run(Sabotage::None) {
            panic!("seed {seed}, {difference}\nrepeat with {}", repeat(backend, seed, &ignore));
        }
    }
}

/// The command that repeats one history.
fn repeat(backend: Backend, seed: u64, ignore: &str) -> String {
    let old = variable(OLD).map(|old| format!("{OLD}={old} ")).unwrap_or_default();
    let ignore = match ignore {
        "" => String::new(),
        _ => format!("{IGNORE}={ignore} "),
    };
    let test = match backend {
        Backend::Sqlite => "twins_agree_on_sqlite",
        Backend::Postgres => "twins_agree_on_postgres",
    };
    format!("{old}{ignore}{SEED}={seed} cargo test -p syncline --test it twin::{test}")
}

#[test]
fn twins_agree_on_sqlite() {
    run(Backend::Sqlite);
}

#[test]
fn twins_agree_on_postgres() {
    run(Backend::Postgres);
}

/// One twin is not quite the other, and the difference is found where it is.
fn check(backend: Backend, sabotage: Sabotage, found: &[&str]) {
    let program = PathBuf::from(PROGRAM);
    let pair = Pair::new(backend, 1, [&program, &program], Length::SHORTEST, "");
    let difference = pair.run(sabotage).unwrap_err();
    for words in found {
        assert!(difference.contains(words), "no {words} in: {difference}");
    }
}

#[test]
fn a_row_of_the_user_that_differs_is_found() {
    check(Backend::Sqlite, Sabotage::UserRow, &["step ", "member", "'sabotage'"]);
}

#[test]
fn a_row_of_a_system_table_that_differs_is_found() {
    check(Backend::Sqlite, Sabotage::SystemRow, &["step ", "syncline_table", "'sabotage'"]);
}

#[test]
fn a_row_of_a_system_table_that_differs_is_found_on_postgres() {
    let found = ["step ", "syncline.syncline_table", "'sabotage'"];
    check(Backend::Postgres, Sabotage::SystemRow, &found);
}

#[test]
fn a_row_of_a_remote_that_differs_is_found() {
    check(Backend::Sqlite, Sabotage::Remote, &["step ", "ann", "syncline_state", "'sabotage'"]);
}

#[test]
fn an_answer_that_differs_is_found() {
    check(Backend::Sqlite, Sabotage::Answer, &["step ", "syncline sync", "E2"]);
}
