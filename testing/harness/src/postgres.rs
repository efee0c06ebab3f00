//! A real PostgreSQL, in a temporary folder, that ends with the program that started it.
//!
//! Most tests take a [`TestDatabase`] of their own in the one cluster that all tests of a program
//! share; it starts with the first. A test that kills, copies or promotes a whole cluster starts
//! one for itself. Nothing of the surroundings reaches any of them: neither a configuration nor a
//! `PG…` variable of the environment.

mod account;
mod certificate;
mod client;
mod content;
mod database;
mod finished;
mod pooler;
mod programs;
mod recovery;
mod session;
pub(crate) mod settings;
mod watchdog;

pub use client::{client_command, run_client};
pub(crate) use content::RemoteColumn;
pub use database::{APP_PASSWORD, APP_ROLE, SUPERUSER, TestDatabase};
pub use pooler::Pooler;
pub use programs::{programs_folder, without_surroundings};
pub use recovery::ARCHIVING;
pub use session::PsqlSession;

use crate::program::finish;
use crate::wait::until;
use account::Account;
use finished::Finished;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use watchdog::Watchdog;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// One PostgreSQL server with its data. Dropping it stops it and removes the data.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    port: u16,
    account: Account,
    postmaster: Mutex<Option<Child>>,
    databases: AtomicUsize,
    finished: Finished,
    // Ends the server where the destructor does not run: a killed test, the shared cluster.
    _watchdog: Watchdog,
}

static SHARED: LazyLock<Cluster> = LazyLock::new(Cluster::start);

impl Cluster {
    /// The cluster of all tests of this program that need none for themselves.
    pub fn shared() -> &'static Cluster {
        &SHARED
    }

    /// A cluster of one's own.
    pub fn start() -> Cluster {
        Cluster::start_with("")
    }

    /// A cluster of one's own with further lines in its `postgresql.conf`.
    pub fn start_with(settings: &str) -> Cluster {
        Cluster::start_with_access(settings, "")
    }

    /// The same with rules in front of those of its `pg_hba.conf`. It knows certificates that
    /// [`Cluster::client_certificate`] makes.
    pub fn start_with_access(settings: &str, rules: &str) -> Cluster {
        let mut cluster = Cluster::folder_only();
        let data = cluster.data();
        cluster.must_run(
            cluster
                .command("initdb")
                .args(["--no-sync", "--username", SUPERUSER, "--auth", "trust"])
                .args(["--encoding", "UTF8", "--locale", "C.UTF-8", "-D"])
                .arg(&data),
        );
        // Everything is written before the start: a reload happens at some later moment.
        certificate::write(&data);
        settings::write(&data, settings, rules);
        cluster.account.own(&cluster.folder);
        cluster.start_on_free_port();
        cluster.superuser_sql(&format!("CREATE ROLE {APP_ROLE} LOGIN PASSWORD '{APP_PASSWORD}'"));
        cluster
    }

    /// A standby of this cluster, which follows it as fast as it can until it is promoted.
    pub fn standby(&self) -> Cluster {
        let mut standby = self.backup(&["--write-recovery-conf"]);
        standby.start_on_free_port();
        standby
    }

    /// Waits until this standby has replayed everything that its primary has written so far.
    pub fn wait_until_replayed(&self, primary: &Cluster) {
        let written = primary.superuser_query("SELECT pg_current_wal_insert_lsn()");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", written.trim());
        until("the standby to follow", || self.superuser_query(&replayed).trim() == "t");
    }

    /// Lets no commit of this primary succeed before a standby has it, which must be there.
    pub fn wait_for_standbys(&self) {
        self.superuser_sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.superuser_sql("SELECT pg_reload_conf()");
        let waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        until("a synchronous standby", || self.superuser_query(waits).trim() == "1");
    }

    /// Makes this standby a primary.
    pub fn promote(&self) {
        self.superuser_sql("SELECT pg_promote()");
        until("the promotion", || self.superuser_query("SELECT pg_is_in_recovery()").trim() == "f");
    }

    /// `kill -9` of the server and of all its processes: nobody gets to say goodbye.
    pub fn kill(&self) {
        let mut postmaster = self.postmaster.lock().unwrap().take().expect("it runs");
        let children = children_of(postmaster.id());
        postmaster.kill().unwrap();
        postmaster.wait().unwrap();
        for child in children {
            // A child that has seen the end of its parent has ended itself.
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// Stops all processes of the server where they stand, until the guard is dropped: connections
    /// stay, and nobody answers.
    pub fn freeze(&self) -> Frozen {
        let postmaster = self.postmaster.lock().unwrap();
        let postmaster = postmaster.as_ref().expect("it runs").id();
        let mut processes = vec![Pid::from_raw(postmaster.cast_signed()).unwrap()];
        kill_process(processes[0], Signal::STOP).unwrap();
        // From here on it starts no other.
        processes.extend(children_of(postmaster));
        for process in &processes[1..] {
            // One may have ended meanwhile.
            let _ = kill_process(*process, Signal::STOP);
        }
        Frozen(processes)
    }

    /// Stops the server in good order, but without waiting for its clients.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Starts the server again, where it was, after [`Cluster::kill`] or [`Cluster::stop`].
    pub fn restart(&self) {
        // The memory of a killed server is in use for as long as one of its processes lives.
        until("the server to start again", || self.try_start());
    }

    /// A database of its own for one test, which belongs to the ordinary role [`APP_ROLE`]. It is
    /// dropped some time after the end of the test.
    pub fn database(&self) -> TestDatabase {
        self.database_with("")
    }

    /// The same in another encoding.
    pub fn database_in(&self, encoding: &str) -> TestDatabase {
        self.database_with(&format!("TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"))
    }

    fn database_with(&self, options: &str) -> TestDatabase {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("test{number}");
        let cleared = self.finished.dropping();
        self.superuser_sql(&format!("{cleared}CREATE DATABASE {name} OWNER {APP_ROLE} {options}"));
        let lifetime = self.finished.begin(&name);
        TestDatabase::new(self.socket_folder(), self.port, &name).living(lifetime)
    }

    /// The database of this name, for example that of the primary at a standby.
    pub fn database_named(&self, name: &str) -> TestDatabase {
        TestDatabase::new(self.socket_folder(), self.port, name)
    }

    /// The folder of the Unix socket.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// The port on 127.0.0.1, which also names the Unix socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate that signed the server's own, which is for `localhost` and 127.0.0.1.
    pub fn root_certificate(&self) -> PathBuf {
        self.data().join(certificate::ROOT)
    }

    /// A certificate for this user, which the server's authority signed, and its key.
    pub fn client_certificate(&self, user: &str) -> (PathBuf, PathBuf) {
        certificate::write_client(&self.data(), user)
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Runs SQL as the superuser in the database `postgres`.
    pub fn superuser_sql(&self, text: &str) {
        self.database_named("postgres").as_role(SUPERUSER).sql(text);
    }

    fn superuser_query(&self, text: &str) -> String {
        self.database_named("postgres").as_role(SUPERUSER).text(text)
    }

    fn folder_only() -> Cluster {
        let account = Account::find();
        let folder = tempfile::Builder::new().prefix("pg-").tempdir().unwrap().keep();
        account.own(&folder);
        let watchdog = Watchdog::start(&folder);
        Cluster {
            folder,
            port: 0,
            account,
            postmaster: Mutex::new(None),
            databases: AtomicUsize::new(0),
            finished: Finished::default(),
            _watchdog: watchdog,
        }
    }

    fn start_on_free_port(&mut self) {
        for _ in 0..STARTS_MAX {
            self.port = settings::free_port();
            settings::write_place(&self.data(), &self.folder, self.port);
            if self.try_start() {
                return;
            }
        }
        panic!("PostgreSQL does not start:\n{}", self.log());
    }

    /// Starts the server and waits until it takes connections, or has ended.
    fn try_start(&self) -> bool {
        let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut postmaster = self
            .command("postgres")
            .arg("-D")
            .arg(self.data())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut runs = true;
        until("PostgreSQL to start", || {
            runs = postmaster.try_wait().unwrap().is_none();
            !runs || self.is_ready(postmaster.id())
        });
        if runs {
            *self.postmaster.lock().unwrap() = Some(postmaster);
        }
        runs
    }

    /// Whether the server says that it takes connections, in the file that `pg_ctl` reads.
    fn is_ready(&self, postmaster: u32) -> bool {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.first() == Some(&postmaster.to_string().as_str()) && lines.get(7) == Some(&"ready")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// One of the server's programs, run by the account that owns the data.
    fn command(&self, program: &str) -> Command {
        let mut command = programs::command(program);
        self.account.run(&mut command);
        command.current_dir(&self.folder);
        command
    }

    fn must_run(&self, command: &mut Command) {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let outcome = finish(command.spawn().unwrap());
        assert_eq!(outcome.code, Some(0), "{command:?}: {}", outcome.stderr);
    }

    fn end(&self, signal: Signal) {
        let postmaster = self.postmaster.lock().unwrap().take();
        if let Some(mut postmaster) = postmaster {
            let id = Pid::from_raw(postmaster.id().cast_signed()).unwrap();
            // Fails where it has ended already, which is what is wanted.
            let _ = kill_process(id, signal);
            postmaster.wait().unwrap();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

/// Processes that stand still. Dropping it lets them go on.
#[derive(Debug)]
pub struct Frozen(Vec<Pid>);

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.0 {
            // Fails where it has ended, which is what is wanted.
            let _ = kill_process(*process, Signal::CONT);
        }
    }
}

/// The living children of a process.
fn children_of(parent: u32) -> Vec<Pid> {
    let parent = parent.to_string();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        // Its name, which may hold anything, ends with the last bracket; then state and parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        if after_name.split_whitespace().nth(1) == Some(parent.as_str()) {
            children.extend(Pid::from_raw(id));
        }
    }
    children
}

#[cfg(test)]
mod tests;
