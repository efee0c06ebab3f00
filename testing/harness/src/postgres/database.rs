//! A database for one test, and `psql`, the program that knows nothing of Syncline.

use super::finished::Lifetime;
use super::session::PsqlSession;
use super::{client, programs};
use crate::program::{Outcome, finish};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The ordinary role that owns the databases of the tests.
pub const APP_ROLE: &str = "app";
/// Its password, which it needs over TCP.
pub const APP_PASSWORD: &str = "app-password";
/// The role that may do everything.
pub const SUPERUSER: &str = "postgres";

/// Stands for NULL in what `psql` prints.
const NULL: &str = "NULL";

/// One database and the role that speaks to it.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    socket_folder: PathBuf,
    port: u16,
    /// The name of the database.
    pub name: String,
    role: String,
    // Shared by all that speak to it; none where it lives as long as its cluster.
    _lifetime: Option<Arc<Lifetime>>,
}

impl TestDatabase {
    pub(super) fn new(socket_folder: &Path, port: u16, name: &str) -> TestDatabase {
        TestDatabase {
            socket_folder: socket_folder.to_owned(),
            port,
            name: name.to_owned(),
            role: APP_ROLE.to_owned(),
            _lifetime: None,
        }
    }

    /// The same database, which ends some time after the last that speaks to it.
    pub(super) fn living(self, lifetime: Arc<Lifetime>) -> TestDatabase {
        TestDatabase { _lifetime: Some(lifetime), ..self }
    }

    /// The same database for another role.
    #[must_use]
    pub fn as_role(&self, role: &str) -> TestDatabase {
        TestDatabase { role: role.to_owned(), ..self.clone() }
    }

    /// The same database by way of somebody else.
    pub(super) fn by_way_of(&self, host: &str, port: u16) -> TestDatabase {
        TestDatabase { socket_folder: PathBuf::from(host), port, ..self.clone() }
    }

    /// The role that speaks to it.
    pub(super) fn role(&self) -> &str {
        &self.role
    }

    /// The folder of the Unix socket, and the port that names it.
    pub(super) fn place(&self) -> (&Path, u16) {
        (&self.socket_folder, self.port)
    }

    /// Its URL by the Unix socket, which asks for no password.
    pub fn url(&self) -> String {
        let TestDatabase { socket_folder, port, name, role, .. } = self;
        format!("postgres:///{name}?host={}&port={port}&user={role}", socket_folder.display())
    }

    /// Its URL by TCP, with a password that need not be right.
    pub fn tcp_url(&self, password: &str) -> String {
        let TestDatabase { port, name, role, .. } = self;
        format!("postgres://{role}:{password}@127.0.0.1:{port}/{name}")
    }

    /// The environment that leads libpq to this database.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PGHOST", self.socket_folder.display().to_string()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", self.role.clone()),
            ("PGDATABASE", self.name.clone()),
        ]
    }

    /// One of PostgreSQL's client programs, led to this database.
    pub fn client(&self, program: &str) -> Command {
        let mut command = programs::command(program);
        command.envs(self.environment());
        command
    }

    /// `psql`, led to this database: quiet, unaligned, stopping at the first failure.
    pub(super) fn psql(&self) -> Command {
        let mut command = self.client("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-P"]);
        command.arg(format!("null={NULL}"));
        // Whatever the encoding of the database is.
        command.env("PGCLIENTENCODING", "UTF8");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs SQL, statement by statement.
    pub fn try_sql(&self, text: &str) -> Outcome {
        feed(&mut self.psql(), text)
    }

    /// Runs SQL that must succeed.
    pub fn sql(&self, text: &str) {
        self.text(text);
    }

    /// What SQL that must succeed prints.
    pub fn text(&self, text: &str) -> String {
        let outcome = self.try_sql(text);
        assert_eq!(outcome.code, Some(0), "{} in {text}", outcome.stderr);
        outcome.stdout
    }

    /// The rows that one query answers, as text; NULL is `NULL`.
    pub fn query(&self, text: &str) -> Vec<Vec<String>> {
        // No value can hold the character that stands between them.
        let outcome = feed(self.psql().args(["-z", "-R", "\u{1}\u{2}\n"]), text);
        assert_eq!(outcome.code, Some(0), "{} in {text}", outcome.stderr);
        let printed = outcome.stdout.strip_suffix('\n').unwrap_or(&outcome.stdout);
        if printed.is_empty() {
            return Vec::new();
        }
        let row = |row: &str| row.split('\0').map(str::to_owned).collect();
        printed.split("\u{1}\u{2}\n").map(row).collect()
    }

    /// The one number that a query answers.
    pub fn count(&self, text: &str) -> i64 {
        let printed = self.text(text);
        printed.trim().parse().unwrap_or_else(|error| panic!("{error}: {printed} for {text}"))
    }

    /// A connection that stays open, for transactions that last.
    pub fn session(&self) -> PsqlSession {
        PsqlSession::start(self.psql())
    }

    /// The definition of everything in the database, and of its rows if wanted, by `pg_dump`.
    pub fn dump(&self, arguments: &[&str]) -> String {
        let dump = client::run_client(self.client("pg_dump").args(arguments)).stdout;
        // Two lines have a random word, so that two dumps of the same database would differ.
        let random =
            |line: &&str| line.starts_with("\\restrict") || line.starts_with("\\unrestrict");
        dump.split_inclusive('\n').filter(|line| !random(line)).collect()
    }
}

fn feed(command: &mut Command, text: &str) -> Outcome {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // What is written here may fill the pipe while psql waits for somebody to read its answers.
    let text = text.to_owned();
    let writer = std::thread::spawn(move || {
        // A program that has failed already reads nothing further, which is known from its exit
        // code.
        let _ = stdin.write_all(text.as_bytes());
    });
    let outcome = finish(child);
    writer.join().unwrap();
    outcome
}
