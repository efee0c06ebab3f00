//! Runs the commands that the documents show and compares what they print.
//!
//! All `console` blocks of a file are one story: they share an empty folder, the environment and
//! the background jobs. A line that starts with `$ ` is a command, the lines below it are what it
//! prints on both outputs, and `…` stands for anything. A story that mentions `$PGDATABASE` finds
//! a database of PostgreSQL there.

mod correction;
mod expectation;
mod shell;
mod transcript;

use crate::checkout::{Checkout, SourceFile};
use crate::problem::Problem;
use correction::Correction;
use harness::postgres::Cluster;
use shell::Shell;
use std::path::Path;
use std::time::Duration;
use transcript::Step;

const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// How often the output of a background job is looked at, and how long in all.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 1500;

/// Runs the named files, or README.md and everything in docs/.
pub(crate) fn check(checkout: &Checkout, files: &[&str]) -> Result<Vec<Problem>, String> {
    run(checkout, files, |_, _| Ok(()))
}

/// The same, and writes into the files what their commands print now, where they say something
/// else. What is found is the author's to read: it is reported all the same.
pub(crate) fn write(checkout: &Checkout, files: &[&str]) -> Result<Vec<Problem>, String> {
    run(checkout, files, |file, corrections| {
        let plain: Vec<Correction> = corrections.into_iter().filter(Correction::is_plain).collect();
        let text = correction::apply(&file.text, &plain);
        let path = checkout.root.join(&file.path);
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", file.path))
    })
}

fn run(
    checkout: &Checkout,
    files: &[&str],
    mut correct: impl FnMut(&SourceFile, Vec<Correction>) -> Result<(), String>,
) -> Result<Vec<Problem>, String> {
    let programs = checkout.root.join("target/debug");
    if !programs.join("syncline").exists() {
        return Err("target/debug/syncline is missing: run `cargo build`".to_owned());
    }
    for file in files {
        if checkout.text(file).is_none() {
            return Err(format!("there is no `{file}`"));
        }
    }
    let is_meant = |file: &&SourceFile| match files {
        [] => file.path == "README.md" || file.path.starts_with("docs/"),
        files => files.contains(&file.path.as_str()),
    };
    let mut problems = Vec::new();
    for file in checkout.markdown().filter(is_meant) {
        let transcript = transcript::read(&file.text);
        for (line, fault) in &transcript.faults {
            problems.push(Problem::at(&file.path, *line, fault));
        }
        for line in &transcript.skipped {
            println!("{}:{line}: not run here, .ci/run does", file.path);
        }
        if !transcript.steps.is_empty() {
            let (found, corrections) = run_steps(&file.path, &transcript.steps, &programs)?;
            let count = transcript.steps.len();
            println!("{}: {count} commands, {} problems", file.path, found.len());
            problems.extend(found);
            if !corrections.is_empty() {
                correct(file, corrections)?;
            }
        }
    }
    Ok(problems)
}

/// Runs the story of one file. After a command that hangs there is no way to go on.
fn run_steps(
    path: &str,
    steps: &[Step],
    programs: &Path,
) -> Result<(Vec<Problem>, Vec<Correction>), String> {
    let database = needs_postgres(steps).then(|| Cluster::shared().database().environment());
    let environment = database.unwrap_or_default();
    let mut shell =
        Shell::start(programs, &environment).map_err(|error| format!("no shell: {error}"))?;
    let (mut problems, mut corrections) = (Vec::new(), Vec::new());
    for step in steps {
        let ended = shell.run(&step.command, COMMAND_LIMIT).map_err(|error| error.to_string())?;
        if !ended {
            let message = format!(
                "`{}` has not ended after {} s; so far it printed:\n{}",
                step.command,
                COMMAND_LIMIT.as_secs(),
                shell.printed()
            );
            problems.push(Problem::at(path, step.line, message));
            break;
        }
        if let Some(difference) = compare(step, &shell) {
            let message = format!("`{}` prints something else:\n{difference}", step.command);
            problems.push(Problem::at(path, step.line, message));
            corrections.push(Correction { step: step.clone(), printed: shell.printed() });
        }
    }
    Ok((problems, corrections))
}

/// Whether a story uses the database that libpq's variables name. It gets an empty database of its
/// own, which belongs to an ordinary role.
fn needs_postgres(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.command.contains("$PGDATABASE"))
}

/// The difference between what a command should print and what it did, if there is one.
fn compare(step: &Step, shell: &Shell) -> Option<String> {
    if !step.is_background() {
        return expectation::difference(&step.expected, &shell.printed());
    }
    // A job goes on, and so does its output: wait for its beginning.
    let expected = format!("{}…\n", step.expected);
    for _ in 0..LOOKS_MAX {
        expectation::difference(&expected, &shell.printed())?;
        std::thread::sleep(LOOK_INTERVAL);
    }
    expectation::difference(&expected, &shell.printed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> usize {
        let transcript = transcript::read(text);
        assert_eq!(transcript.faults, []);
        run_steps("a.md", &transcript.steps, Path::new("/nonexistent")).unwrap().0.len()
    }

    #[test]
    fn a_story_shares_folder_environment_and_status() {
        let text = "```console\n$ mkdir a && cd a\n$ b=1\n$ ls\n```\nThen\n\
                    ```console\n$ echo $b; basename $PWD\n1\na\n$ false\n$ echo $?\n1\n```\n";
        assert_eq!(check(text), 0);
    }

    #[test]
    fn a_lie_is_found() {
        assert_eq!(check("```console\n$ echo one\ntwo\n```\n"), 1);
        assert_eq!(check("```console\n$ echo silent >&2\n```\n"), 1);
    }

    #[test]
    fn a_story_may_have_a_database() {
        let text = "```console\n$ psql -Atc 'SELECT current_user' $PGDATABASE\napp\n```\n";
        assert_eq!(check(text), 0);
        assert_eq!(check("```console\n$ echo ${PGHOST-none}\nnone\n```\n"), 0);
    }

    #[test]
    fn a_job_in_the_background_is_waited_for_and_keeps_its_output() {
        let text = "```console\n\
                    $ (sleep 0.2; echo ready; sleep 0.1; echo more; sleep 60) &\nready\n\
                    $ sleep 0.3; echo next\nnext\n```\n";
        assert_eq!(check(text), 0);
    }

    #[test]
    fn a_command_gets_no_input_and_does_not_eat_the_story() {
        assert_eq!(check("```console\n$ cat\n$ echo here\nhere\n```\n"), 0);
    }
}
