//! The programs of PostgreSQL's clients.

use super::programs;
use crate::program::{Outcome, finish};
use std::process::{Command, Stdio};

/// A command of PostgreSQL's clients (`pg_dump`, `pg_restore`, …), free of the surroundings.
pub fn client_command(program: &str) -> Command {
    programs::command(program)
}

/// Runs a command to its end; it must succeed.
pub fn run_client(command: &mut Command) -> Outcome {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let outcome = finish(command.spawn().unwrap());
    assert_eq!(outcome.code, Some(0), "{command:?}: {}", outcome.stderr);
    outcome
}
