//! The server of a run: a separate process with default options, except for its limits.

mod certificate;

use crate::machine::cpu;
use crate::options::BenchRunOptions;
use consolidated::Url;
use model::{Code, Failure};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use terminal::secret;

/// Synchronizations that the server works on at once, unless clients or options want more.
const SESSIONS_DEFAULT: u32 = 1000;

/// A running `syncline serve`. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    url: String,
    /// The authority of its certificate.
    ca_file: Option<PathBuf>,
    log: PathBuf,
    // Held open: a server whose standard output is gone could fail for that.
    _stdout: BufReader<ChildStdout>,
}

/// What timed synchronizations cost at the database, all together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DatabaseCost {
    pub(crate) synchronizations: u64,
    pub(crate) round_trips: u64,
    pub(crate) commits: f64,
}

impl AddAssign for DatabaseCost {
    fn add_assign(&mut self, more: DatabaseCost) {
        self.synchronizations += more.synchronizations;
        self.round_trips += more.round_trips;
        self.commits += more.commits;
    }
}

impl ServerProcess {
    /// Starts a server on a free port of this address and waits until it is ready.
    pub(crate) fn start(
        folder: &Path,
        consolidated: &Url,
        options: &BenchRunOptions,
        address: IpAddr,
    ) -> Result<ServerProcess, Failure> {
        let cannot_write =
            |error| Failure::new(Code::CannotWrite, "cannot configure the server").source(error);
        let log = folder.join("server.log");
        fs::write(folder.join("syncline.toml"), config(consolidated, options))
            .map_err(cannot_write)?;
        if let Url::Postgres(url) = consolidated
            && let Some(password) = &url.password
        {
            let file = folder.join(consolidated::PASSWORD_FILE_NAME);
            secret::write_file(&file, "password", password.reveal())?;
        }
        let ca_file = match options.certificate() {
            Some(kind) => Some(certificate::write(folder, address, kind)?),
            None => None,
        };
        let log_file = File::create(&log).map_err(cannot_write)?;

        let failed = |error| Failure::new(Code::Bug, "cannot start the server").source(error);
        let listen = format!("{}://{address}:0", options.transport().name());
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["serve", "--listen", &listen])
            .args(["--log", "info", "--log-format", "json", "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .map_err(failed)?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Failure::new(Code::Bug, "the server has no output"));
        };
        let stdout = BufReader::new(stdout);
        let mut server = ServerProcess { child, url: String::new(), ca_file, log, _stdout: stdout };
        let mut line = String::new();
        // A server that cannot start ends, and so does this line.
        server._stdout.read_line(&mut line).map_err(failed)?;
        match line.trim_end().strip_prefix("listening on ") {
            Some(url) => server.url = url.to_owned(),
            None => return Err(server.last_words()),
        }
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The authority that its clients have to believe, if it has a certificate.
    pub(crate) fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        cpu::used_by(self.child.id())
    }

    /// The most memory that it ever held, in bytes.
    pub(crate) fn peak_memory_bytes(&self) -> Option<u64> {
        cpu::peak_memory_bytes(self.child.id())
    }

    /// Stops the server, and reads from its log what the synchronizations of every remote cost,
    /// without its first `untimed` ones, `timed` of each.
    pub(crate) fn stop(mut self, untimed: usize, timed: usize) -> Result<DatabaseCost, Failure> {
        self.terminate()?;
        let file = File::open(&self.log).map_err(|error| {
            Failure::new(Code::CannotWrite, "cannot read the server's log").source(error)
        })?;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        Ok(cost(lines, untimed, timed))
    }

    #[cfg(unix)]
    fn terminate(&mut self) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::new(Code::Bug, "cannot stop the server").source(error);
        if let Some(id) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)
                .map_err(|error| failed(error.into()))?;
        }
        self.child.wait().map(drop).map_err(failed)
    }

    #[cfg(not(unix))]
    fn terminate(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::new(Code::Bug, "cannot stop the server").source(error);
        self.child.kill().map_err(failed)?;
        self.child.wait().map(drop).map_err(failed)
    }

    /// Why it did not start: the failure that it printed.
    fn last_words(&mut self) -> Failure {
        let _ = self.child.wait();
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let told = log.lines().find_map(|line| line.strip_prefix("error E")?.split_once(": "));
        let code = told.and_then(|(number, _)| Code::from_number(number.parse().ok()?));
        let message = told.map_or("it said nothing", |(_, message)| message);
        Failure::new(
            code.unwrap_or(Code::Bug),
            format!("the server of the benchmark did not start: {message}"),
        )
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Fails where it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Room for a fingerprint and a watermark.
const FIRST_MESSAGE_BYTES_PER_TABLE: u64 = 256;

/// The `syncline.toml` of the server: what it must not refuse because of the run's size.
fn config(consolidated: &Url, options: &BenchRunOptions) -> String {
    let queue = options.clients.max(SESSIONS_DEFAULT);
    let transfers = options.connection_limit.unwrap_or(queue);
    let logged = u64::from(options.clients) * u64::from(options.rows) * u64::from(options.sets) * 4;
    let mut text = format!(
        "consolidated = {}\n[server]\ntransfers_max = {transfers}\nsessions_max = {queue}\n\
         queue_len_max = {queue}\npassword_queue_len_max = {queue}\nlog_rows_max = {}\n",
        toml::Value::from(consolidated.to_string()),
        logged.clamp(1_000_000, 1_000_000_000)
    );
    // The first message of a client has a watermark for each table.
    let first = (u64::from(options.tables) * FIRST_MESSAGE_BYTES_PER_TABLE).max(64 << 10);
    text.push_str(&format!("unauthenticated_bytes_max = {first}\n"));
    if options.certificate().is_some() {
        text.push_str(&format!(
            "tls_certificate = \"{}\"\ntls_key = \"{}\"\n",
            certificate::CERTIFICATE_FILE_NAME,
            certificate::KEY_FILE_NAME
        ));
    }
    if let Some(workers) = options.workers {
        text.push_str(&format!("workers = {0}\nupload_appliers = {0}\n", workers.0));
    }
    text
}

/// Adds up the lines of the timed synchronizations of every remote.
fn cost(lines: impl Iterator<Item = String>, untimed: usize, timed: usize) -> DatabaseCost {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut cost = DatabaseCost::default();
    for line in lines {
        let Ok(fields) = serde_json::from_str::<Value>(&line) else { continue };
        if fields["message"] != "synchronized" {
            continue;
        }
        let seen =
            seen.entry(fields["remote"].as_str().unwrap_or_default().to_owned()).or_default();
        *seen += 1;
        if (untimed + 1..=untimed + timed).contains(seen) {
            cost.synchronizations += 1;
            cost.round_trips += fields["round_trips"].as_u64().unwrap_or(0);
            cost.commits += fields["commits"].as_f64().unwrap_or(0.0);
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_timed_synchronizations_count() {
        let line = |remote: &str, message: &str, round_trips: u32| {
            format!(
                "{{\"message\":\"{message}\",\"remote\":\"{remote}\",\
                 \"round_trips\":{round_trips},\"commits\":0.5}}"
            )
        };
        let lines = [
            line("a", "synchronized", 100),
            line("a", "synchronization failed", 100),
            line("b", "synchronized", 100),
            line("a", "synchronized", 3),
            "no JSON".to_owned(),
            line("b", "synchronized", 4),
            line("b", "synchronized", 100),
        ];
        let cost = cost(lines.into_iter(), 1, 1);
        assert_eq!((cost.synchronizations, cost.round_trips), (2, 7));
        assert!((cost.commits - 1.0).abs() < 1e-9);
    }
}
