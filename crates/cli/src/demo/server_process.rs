//! The server of the demo: a separate process, so that it can be killed.

use super::folder::Folder;
use super::program::Program;
use model::{Code, Failure};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use terminal::output;

/// A running `syncline serve`. Dropping it kills it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    url: String,
}

impl ServerProcess {
    /// Starts a server on a free port and waits until it is ready.
    pub(super) fn start(program: &Program, folder: &Folder) -> Result<ServerProcess, Failure> {
        let arguments = ["serve", "--listen", "tcp://127.0.0.1:0"];
        output::line(&format!("  $ syncline {} &", arguments.join(" ")))?;
        let log = folder.path("server.log");
        let log = OpenOptions::new().create(true).append(true).open(&log).map_err(|error| {
            Failure::new(Code::CannotWrite, format!("cannot write {}", log.display())).source(error)
        })?;
        let failed = |error| Failure::new(Code::Bug, "cannot start the server").source(error);
        let mut child = program
            .command(&arguments)?
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            // A server that cannot start ends, and so does this line.
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        let mut server = ServerProcess { child, url: String::new() };
        match line.trim_end().strip_prefix("listening on ") {
            Some(url) => server.url = url.to_owned(),
            None => {
                return Err(Failure::new(
                    Code::CannotListen,
                    "the server of the demo did not start",
                )
                .hint(format!("see {}", folder.path("server.log").display())));
            }
        }
        output::line(&format!("  listening on {} (process {})", server.url, server.child.id()))?;
        Ok(server)
    }

    /// The number of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Kills the process as `kill -9` does: it gets no chance to do anything more.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::new(Code::Bug, "cannot kill the server").source(error);
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)?;
        Ok(())
    }

    /// Asks the server to end, and waits until it has.
    #[cfg(unix)]
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::new(Code::Bug, "cannot stop the server").source(error);
        if let Some(id) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)
                .map_err(|error| failed(error.into()))?;
        }
        let status = self.child.wait().map_err(failed)?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(Code::Bug, format!("the server ended with {status}"))),
        }
    }

    /// Ends the server.
    #[cfg(not(unix))]
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.kill()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Fails where it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
