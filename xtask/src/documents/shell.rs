//! One bash that runs the commands of a document, each with an output of its own.
//!
//! Bash reads the names of the commands from a pipe and answers each with a line on another.
//! Every command writes to its own file, so that what a background job prints later does not
//! mix with what the next command prints.

use harness::postgres::{programs_folder, without_surroundings};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use tempfile::TempDir;

/// Sources each step with the status of the last one in `$?`, and no input.
const LOOP: &str = r#"
exec 9<&0 8>&1 0</dev/null
syncline_status=0
while IFS= read -r -u 9 syncline_step; do
    exec >"$syncline_step.printed" 2>&1
    (exit $syncline_status)
    source "$syncline_step.command" 9<&- 8>&-
    syncline_status=$?
    echo done >&8
done
"#;

/// How long a background job may take to end after it was asked to.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A running bash and its folder.
pub(super) struct Shell {
    bash: Child,
    steps: Option<ChildStdin>,
    answers: Receiver<()>,
    folder: TempDir,
    count: usize,
}

impl Shell {
    /// Starts bash in an empty folder, with the programs first in `PATH` and these variables.
    pub(super) fn start(programs: &Path, environment: &[(&str, String)]) -> io::Result<Shell> {
        let folder = TempDir::with_prefix("syncline-documents-")?;
        for name in ["work", "home", "steps"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        without_surroundings(&mut command);
        let mut bash = command
            .args(["--noprofile", "--norc", "-c", LOOP])
            .current_dir(folder.path().join("work"))
            .env(
                "PATH",
                format!("{}:{}:{path}:/usr/sbin", programs.display(), programs_folder().display()),
            )
            .env("HOME", folder.path().join("home"))
            .env("NO_COLOR", "1")
            .env("TERM", "dumb")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("FAILPOINTS")
            .env_remove("RUST_LOG")
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own, so that its jobs can be ended with it.
            .process_group(0)
            .spawn()?;
        let steps = bash.stdin.take();
        let output = bash.stdout.take().ok_or_else(|| io::Error::other("bash has no output"))?;
        let (answer, answers) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for _ in lines {
                if answer.send(()).is_err() {
                    break;
                }
            }
        });
        Ok(Shell { bash, steps, answers, folder, count: 0 })
    }

    /// Runs a command and says whether it ended in time. A shell that exited has ended, too.
    pub(super) fn run(&mut self, command: &str, limit: Duration) -> io::Result<bool> {
        self.count += 1;
        let step = self.step();
        fs::write(format!("{step}.command"), format!("{command}\n"))?;
        if let Some(steps) = &mut self.steps {
            writeln!(steps, "{step}")?;
        }
        Ok(self.answers.recv_timeout(limit) != Err(RecvTimeoutError::Timeout))
    }

    /// What the last command has printed so far, without what bash says of jobs that were killed.
    pub(super) fn printed(&self) -> String {
        let bytes = fs::read(format!("{}.printed", self.step())).unwrap_or_default();
        without_job_notices(&String::from_utf8_lossy(&bytes))
    }

    fn step(&self) -> String {
        self.folder.path().join("steps").join(self.count.to_string()).display().to_string()
    }

    fn signal_group(&self, signal: &str) -> bool {
        let group = format!("-{}", self.bash.id());
        let kill =
            Command::new("kill").args(["-s", signal, "--", &group]).stderr(Stdio::null()).status();
        kill.is_ok_and(|status| status.success())
    }
}

/// Bash tells of a killed job when it learns of it: with the command that waits, or with a later
/// one. A document cannot say which.
fn without_job_notices(printed: &str) -> String {
    printed.split_inclusive('\n').filter(|line| !is_job_notice(line)).collect()
}

/// Whether a line is like `bash: line 10: 14456 Killed   sleep 60`.
fn is_job_notice(line: &str) -> bool {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let Some((_, place)) = line.split_once(": line ") else { return false };
    let Some((line_number, notice)) = place.split_once(": ") else { return false };
    let mut words = notice.split_whitespace();
    is_number(line_number)
        && words.next().is_some_and(is_number)
        && matches!(words.next(), Some("Killed" | "Terminated" | "Aborted"))
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.steps = None;
        self.signal_group("TERM");
        let step = Duration::from_millis(20);
        let mut waited = Duration::ZERO;
        while waited < END_LIMIT {
            // Until it is reaped, bash itself keeps the group alive.
            let bash_ended = !matches!(self.bash.try_wait(), Ok(None));
            if bash_ended && !self.signal_group("0") {
                return;
            }
            std::thread::sleep(step);
            waited += step;
        }
        self.signal_group("KILL");
        let _ = self.bash.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bash_says_of_killed_jobs_is_left_out() {
        let printed = "one\nbash: line 10: 14456 Killed      sleep 60\n\
                       /tmp/a b/3.command: line 1: 7 Terminated  sleep 60 > x\n\
                       a.sql: line 10: Killed by somebody\nKilled\ntwo";
        let left = "one\na.sql: line 10: Killed by somebody\nKilled\ntwo";
        assert_eq!(without_job_notices(printed), left);
    }

    #[test]
    fn a_killed_job_is_silent_wherever_bash_tells_of_it() {
        let mut shell = Shell::start(Path::new("/nonexistent"), &[]).unwrap();
        let limit = Duration::from_secs(60);
        assert!(shell.run("sleep 60 &", limit).unwrap());
        assert!(shell.run("kill -9 %1; wait", limit).unwrap());
        assert_eq!(shell.printed(), "");
        assert!(shell.run("(sleep 60) & pid=$!", limit).unwrap());
        assert!(shell.run("kill -9 $pid; sleep 0.2", limit).unwrap());
        assert_eq!(shell.printed(), "");
        assert!(shell.run("echo next", limit).unwrap());
        assert_eq!(shell.printed(), "next\n");
    }
}
