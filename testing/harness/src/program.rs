//! The program under test, run as a user runs it.

use crate::postgres::without_surroundings;
use crate::wait::until;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs a program on a terminal of its own, waits until it has printed a text, and types another.
const TERMINAL: &str = "
import os, pty, sys
awaited, typed = (text.encode() for text in sys.argv[1:3])
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[3], sys.argv[3:])
shown = b''
while True:
    if typed and awaited in shown:
        os.write(terminal, typed)
        typed = b''
    try:
        text = os.read(terminal, 4096)
    except OSError:
        break
    if not text:
        break
    shown += text
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// The executable `syncline` and the folder in which it runs.
#[derive(Debug, Clone)]
pub struct Syncline {
    executable: PathBuf,
    folder: PathBuf,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed on standard output.
    pub stdout: String,
    /// What it printed on standard error.
    pub stderr: String,
}

impl Syncline {
    /// The executable (`env!("CARGO_BIN_EXE_syncline")`), run in `folder`.
    pub fn new(executable: impl AsRef<Path>, folder: &Path) -> Syncline {
        Syncline { executable: executable.as_ref().to_owned(), folder: folder.to_owned() }
    }

    /// A command with these arguments, for tests that need more than [`Syncline::run`].
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.executable);
        without_surroundings(&mut command);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_remove("FAILPOINTS")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Outcome {
        finish(self.command(arguments).spawn().unwrap())
    }

    /// Runs a command with a fail point set, for example `client-frozen=return`.
    pub fn run_with_fail_points<S: AsRef<OsStr>>(
        &self,
        fail_points: &str,
        arguments: &[S],
    ) -> Outcome {
        finish(self.command(arguments).env("FAILPOINTS", fail_points).spawn().unwrap())
    }

    /// Runs a command on a terminal: as soon as `awaited` is shown, `typed` is typed. What is shown
    /// is in `stdout`.
    pub fn on_terminal<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        awaited: &str,
        typed: &str,
    ) -> Outcome {
        let command = self.command(arguments);
        let mut terminal = Command::new("python3");
        without_surroundings(&mut terminal);
        terminal
            .args(["-c", TERMINAL, awaited, typed])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(&self.folder)
            .env_remove("FAILPOINTS")
            .env("NO_COLOR", "1")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(terminal.spawn().unwrap())
    }

    /// Runs a command that must succeed; gives what it printed on standard output.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let outcome = self.run(arguments);
        let shown: Vec<_> = arguments.iter().map(|a| a.as_ref().to_string_lossy()).collect();
        assert_eq!(outcome.code, Some(0), "syncline {}: {}", shown.join(" "), outcome.stderr);
        outcome.stdout
    }

    /// Runs a command that must fail with exit code 1 and this error code (`E2101`), printed in the
    /// form that scripts rely on; gives the message.
    pub fn fails<S: AsRef<OsStr>>(&self, code: &str, arguments: &[S]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        outcome.message(code)
    }

    /// Runs a command that prints JSON.
    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Value {
        let printed = self.ok(arguments);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }
}

impl Outcome {
    /// The message of the failure on standard error, which must have this code.
    pub fn message(&self, code: &str) -> String {
        let mut lines = self.stderr.lines().skip_while(|line| !line.starts_with("error E"));
        let message = lines
            .next()
            .and_then(|line| line.strip_prefix(&format!("error {code}: ")))
            .unwrap_or_else(|| panic!("no `error {code}: …` in {self:?}"));
        assert!(lines.next().is_some_and(|line| line.starts_with("hint: ")), "{self:?}");
        message.to_owned()
    }
}

/// Waits for the end of a process and collects what it printed.
pub fn finish(mut child: Child) -> Outcome {
    // Two pipes are read at once, or a full one would stop the process.
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let mut status = None;
    until("the end of a command", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let text = |pipe: Option<std::thread::JoinHandle<Vec<u8>>>| {
        pipe.map(|reader| String::from_utf8_lossy(&reader.join().unwrap()).into_owned())
            .unwrap_or_default()
    };
    Outcome { code: status.unwrap().code(), stdout: text(stdout), stderr: text(stderr) }
}

fn collect(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
