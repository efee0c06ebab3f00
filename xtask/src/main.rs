//! Automation in Rust: what a reviewer should not have to say, and what nobody should type twice.
//!
//! `tidy` checks the rules of the house, `generate` writes the documents that have their source
//! in the code, `documents` runs the commands that the documents show, `dependencies` checks
//! licenses and duplicate versions. `./test` calls all four, and shows by `failures` what failed;
//! `./test --quick` asks `differing` for its crates. `package` makes what users install, and
//! `./test --full` tries it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its answers go to the terminal")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checkout;
mod dependencies;
mod differing;
mod documents;
mod failures;
mod fuzz;
mod generate;
mod package;
mod problem;
mod tidy;
mod workspace;

use checkout::Checkout;
use differing::Purpose;
use problem::Problem;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run -q -p xtask -- COMMAND
  tidy                  checks the rules of the house
  generate [--check]    writes the generated documents, or fails where they are not current
  documents [FILE]...   runs the documented commands (all of README.md and docs/ by default)
  documents --write [FILE]...
                        the same, and writes into the files what the commands print now
  dependencies          checks licenses and duplicate versions against deny.toml
  differing BRANCH lint|tests
                        prints options of cargo: the packages that differ from BRANCH, for the
                        tests in their sources; for lint also those that need them
  failures FILE         shows what failed in the run of `cargo test` that printed FILE
  fuzz TARGET SECONDS   looks for inputs that break what reads bytes of others
  package [--try]       makes an archive and a package of Debian in target/package, and uses them";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let checkout = match Checkout::read() {
        Ok(checkout) => checkout,
        Err(message) => return fail(&message),
    };
    let result = match arguments.as_slice() {
        ["tidy"] => tidy::check(&checkout),
        ["generate"] => generate::write(&checkout),
        ["generate", "--check"] => generate::check(&checkout),
        ["documents", "--write", files @ ..] => documents::write(&checkout, files),
        ["documents", files @ ..] => documents::check(&checkout, files),
        ["dependencies"] => dependencies::check(&checkout),
        ["differing", branch, "lint"] => differing::show(&checkout.root, branch, Purpose::Lint),
        ["differing", branch, "tests"] => {
            differing::show(&checkout.root, branch, Purpose::UnitTests)
        }
        ["failures", file] => failures::show(&checkout.root, file),
        ["package"] => package::make(&checkout.root),
        ["package", "--try"] => package::make_and_try(&checkout.root),
        ["fuzz", target, seconds] => fuzz::run(&checkout.root, target, seconds),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(problems) => report(arguments[0], &problems),
        Err(message) => fail(&message),
    }
}

fn report(command: &str, problems: &[Problem]) -> ExitCode {
    for problem in problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => ExitCode::SUCCESS,
        1 => fail(&format!("{command}: 1 problem")),
        count => fail(&format!("{command}: {count} problems")),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("xtask: {message}");
    ExitCode::FAILURE
}
