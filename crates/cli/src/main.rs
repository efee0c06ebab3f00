//! The program `syncline`: one file per command.
//!
//! `args.rs` has the options that the user typed, and `config.rs` the contents of `syncline.toml`.
//! The commands combine both. The work is done by `consolidated`, `server` and `client`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod bench;
mod cert;
mod check;
mod claims;
mod config;
mod demo;
mod deploy;
mod fleet;
mod init;
mod integration;
mod log;
mod model_files;
mod notes;
mod readable;
mod remote;
mod scripts;
mod serve;
mod sync;
mod undeploy;
mod user;

use args::{Arguments, Command, given_dir, with_dir};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use model::{Code, Failure};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use terminal::output;

/// Gives memory back to the system when those have left for whom it was held (S9).
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    #[cfg(feature = "fail-points")]
    let _scenario = fail::FailScenario::setup();

    let typed = Arguments::command().get_matches_from(verb_first(std::env::args_os().collect()));
    let json = wants_json(&typed);
    let arguments = Arguments::from_arg_matches(&typed).unwrap_or_else(|error| error.exit());
    match log::start(&arguments).and_then(|()| run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = match given_dir(&typed) {
                Some(dir) => hinted(failure, dir),
                None => failure,
            };
            if json && !output::has_printed_json() {
                // The failure itself matters more than that it could not be printed twice.
                let _ = output::json(&json!({ "error": output::failure_json(&failure) }));
            }
            output::failure(&failure);
            match failure.code() {
                // Repeating the command cannot help: an option is missing.
                Code::NotConfirmed => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// The failure and those beside it, with the folder in the commands of their hints.
fn hinted(mut failure: Failure, dir: &Path) -> Failure {
    let others = failure.take_others().into_iter().map(|other| hinted(other, dir)).collect();
    let hint = with_dir(failure.hint_text(), dir);
    failure.hint(hint).beside(others)
}

/// `remote rejects FILE retry` means `remote rejects retry FILE`, and so for conflicts: both orders
/// are natural, and the options follow the verb.
fn verb_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    const VERBS: [&str; 4] = ["list", "show", "retry", "dismiss"];
    let is_verb = |word: &OsString| VERBS.iter().any(|verb| word == verb);
    let remote = arguments.iter().position(|word| word == "remote");
    if let Some([noun, file, verb]) = remote.and_then(|at| arguments.get_mut(at + 1..at + 4))
        && (noun == "rejects" || noun == "conflicts")
        && !is_verb(file)
        && is_verb(verb)
    {
        std::mem::swap(file, verb);
    }
    arguments
}

/// Whether the command was given `--json`, whichever it is. That of `bench` names a file.
fn wants_json(typed: &ArgMatches) -> bool {
    match typed.subcommand() {
        Some((_, typed)) => wants_json(typed),
        None => matches!(typed.try_get_one::<bool>("json"), Ok(Some(true))),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(options) => demo::run(&options),
        Command::Init(options) => init::run(&options),
        Command::Deploy(options) => deploy::run(&options),
        Command::Undeploy(options) => undeploy::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Model(options) => model_files::run(&options),
        Command::Scripts(options) => scripts::run(&options),
        Command::User(options) => user::run(options),
        Command::Cert(options) => cert::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Sync(options) => sync::run(&options),
        Command::Remote(options) => remote::run(&options),
        Command::Fleet(options) => fleet::run(options),
        Command::DeclareRestored(options) => fleet::declare_restored(&options),
        Command::RotateKeys(options) => fleet::rotate_keys(&options),
        Command::Rejects(options) => notes::rejects(&options),
        Command::Conflicts(options) => notes::conflicts(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Completions(options) => integration::completions(&options),
        Command::Man(options) => integration::man_pages(&options),
    }
}
