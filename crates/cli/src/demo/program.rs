//! Runs the commands of this program, as a user would type them.

use super::folder::Folder;
use model::{Code, Failure};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use terminal::output;

/// The program `syncline`, run in the folder of the demo.
#[derive(Debug, Clone)]
pub(super) struct Program {
    executable: PathBuf,
    folder: PathBuf,
    /// Ctrl-C was pressed.
    interrupted: Arc<AtomicBool>,
}

impl Program {
    /// This program, working in this folder.
    pub(super) fn new(folder: &Folder, interrupted: Arc<AtomicBool>) -> Result<Program, Failure> {
        let executable = std::env::current_exe()
            .map_err(|error| Failure::new(Code::Bug, "cannot find this program").source(error))?;
        Ok(Program { executable, folder: folder.root().to_owned(), interrupted })
    }

    /// The path of this program, unless typing `syncline` finds it.
    pub(super) fn path_to_show(&self) -> Option<String> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let is_this = |folder: PathBuf| {
            folder.join("syncline").canonicalize().ok() == self.executable.canonicalize().ok()
        };
        let found = std::env::split_paths(&folders).any(is_this);
        (!found).then(|| self.executable.display().to_string())
    }

    /// A command with these arguments, not started yet; none after Ctrl-C.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        if self.interrupted.load(Ordering::SeqCst) {
            return Err(Failure::new(Code::Interrupted, "the demo was interrupted"));
        }
        let mut command = Command::new(&self.executable);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        // The programs that the demo kills must start without fail points of the user's
        // environment.
        command.env_remove("FAILPOINTS");
        Ok(command)
    }

    /// Shows the command, runs it to its end and gives what it printed.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        output::line(&format!("  $ syncline {}", arguments.join(" ")))?;
        let output = self
            .command(arguments)?
            .output()
            .map_err(|error| Failure::new(Code::Bug, "cannot run this program").source(error))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(told_failure(arguments[0], &String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// Synchronizes the remote of this sales representative and gives the JSON result.
    pub(super) fn sync(&self, name: &str, server: &str) -> Result<Value, Failure> {
        let (file, password) = (format!("remotes/{name}.db"), format!("passwords/{name}"));
        let printed = self.run(&[
            "sync",
            &file,
            "--server",
            server,
            "--user",
            name,
            "--password-file",
            &password,
            "--json",
        ])?;
        serde_json::from_str(&printed).map_err(|error| {
            Failure::new(Code::Bug, "`syncline sync --json` did not print JSON").source(error)
        })
    }
}

/// The failure that a command printed, with its code where it has one.
fn told_failure(command: &str, stderr: &str) -> Failure {
    let told = stderr.lines().find_map(|line| line.strip_prefix("error E")?.split_once(": "));
    let code = told.and_then(|(number, _)| Code::from_number(number.parse().ok()?));
    match (code, told) {
        (Some(code), Some((_, message))) => {
            Failure::new(code, format!("`syncline {command}` failed: {message}"))
        }
        _ => Failure::new(Code::Bug, format!("`syncline {command}` failed: {}", stderr.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_failure_keeps_its_code() {
        let failure = told_failure("sync", "warning: x\nerror E4001: full\nhint: wait\n");
        assert_eq!(failure.code(), Code::ServerFull);
        assert_eq!(failure.message(), "`syncline sync` failed: full");
        assert_eq!(told_failure("sync", "thread panicked\n").code(), Code::Bug);
    }
}
