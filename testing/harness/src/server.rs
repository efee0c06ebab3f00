//! A running `syncline serve`, to talk to, to kill and to stop.

use crate::wait::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The first listener, for example `tcp://127.0.0.1:40123`.
    pub url: String,
    log: PathBuf,
    // Held open: a server whose standard output is gone could fail for that.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the command and waits until it says where it listens.
    pub(crate) fn start(mut command: Command, log: &Path) -> Server {
        let log_file = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log_file).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").map(str::to_owned);
        let log_text = || std::fs::read_to_string(log).unwrap_or_default();
        let url = url.unwrap_or_else(|| panic!("the server does not listen: {line}{}", log_text()));
        Server { child, url, log: log.to_owned(), _stdout: stdout }
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_memory_bytes(&self) -> u64 {
        peak_memory_bytes(self.id()).unwrap()
    }

    /// Forgets how much memory it held before.
    pub fn forget_peak_memory(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.id()), "5").unwrap();
    }

    /// The memory that it holds now, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        memory_of(self.id(), "VmRSS:").unwrap()
    }

    /// What it logged so far, together with its predecessors.
    pub fn log(&self) -> String {
        std::io::read_to_string(File::open(&self.log).unwrap()).unwrap()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it where it stands, with all that it holds.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGHUP and waits until the server has logged what became of it.
    pub fn reload(&self) {
        let count = || self.log().matches("configuration ").count();
        let before = count();
        self.hang_up();
        until("the server to read its configuration", || count() > before);
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the end of the server", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Stops it with SIGTERM; it must exit with 0.
    pub fn stop(mut self) {
        self.terminate();
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// True once the process has ended, for example by a fail point.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

/// The most memory that a living process ever held, in bytes; none if it is gone.
pub fn peak_memory_bytes(process: u32) -> Option<u64> {
    memory_of(process, "VmHWM:")
}

/// What the system says of the memory of a process, in bytes.
fn memory_of(process: u32, what: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().unwrap();
    Some(kib << 10)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
