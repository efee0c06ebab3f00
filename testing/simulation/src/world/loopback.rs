//! The real server, real files and the loopback network, in this process and in real time.

use super::clock::Adjustable;
use super::line::{Reached, Talk};
use super::{Outcome, World, application};
use crate::history::{
    CENTER, Fault, History, Mode, Model, Place, REMOTES, REMOTES_MAX, Schema, Step, USERS, claims,
};
use client::transport::tcp::Tcp;
use client::{Components, Conversation, Credential, Remote, Report, Request, Settings};
use consolidated::{Url, administer};
use model::{Code, Failure, Random, UserName};
use rusqlite::Connection;
use server::password::Costs;
use server::{Config, Server};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tempfile::TempDir;

const PASSWORD: &str = "secret";
/// It costs as much as a synchronization.
static PASSWORD_HASH: LazyLock<String> =
    LazyLock::new(|| server::password::hash(PASSWORD, Costs::LEAST).unwrap());
/// How long the center has to be as it is until nothing moves there any more.
const STILL: Duration = Duration::from_millis(40);
/// How often it has to be found so.
const LOOKS: u32 = 4;
/// What cannot happen here: nothing stands between the programs and their disks.
const UNKNOWN: [&str; 6] = [
    "crash of the center",
    "crash of a remote",
    "power cut of the center",
    "power cut of a remote",
    "full disk",
    "disk error",
];

/// A world whose time and threads are those of the machine: the same seed may take another course.
pub struct Loopback {
    schema: Schema,
    seed: u64,
    folder: TempDir,
    url: Url,
    server: Option<Server>,
    clock: Arc<Adjustable>,
    sites: Vec<Site>,
    /// Connections of remotes that have died.
    left: Vec<Tcp>,
    has_kept: bool,
}

struct Site {
    path: PathBuf,
    user: usize,
    clock: Arc<Adjustable>,
    /// None for a moment only.
    remote: Option<Remote>,
    token: Option<String>,
    stalled: Option<Talk>,
    has_kept: bool,
}

impl Loopback {
    /// The world at the beginning of a history.
    pub fn new(history: &History) -> Loopback {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("center.db");
        open(&path).execute_batch(&history.schema.create()).unwrap();
        let url = Url::parse(&format!("sqlite:{}", path.display())).unwrap();
        let mut world = Loopback {
            schema: history.schema.clone(),
            seed: history.seed,
            folder,
            url,
            server: None,
            clock: Arc::new(Adjustable::new()),
            sites: Vec::new(),
            left: Vec::new(),
            has_kept: false,
        };
        let text = history.model.toml(&history.schema);
        world.deploy(&history.model).unwrap_or_else(|failure| panic!("{failure:?} for {text}"));
        for (name, rep) in USERS {
            let mut admin = administer(&world.url).unwrap();
            admin.add_user(&UserName::new(name).unwrap(), &PASSWORD_HASH, &claims(rep)).unwrap();
        }
        world.start();
        for user in REMOTES {
            world.add_site(user);
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self) {
        let config = Config {
            listen: vec!["tcp://127.0.0.1:0".into()],
            // Several frames a table, although there are few rows.
            batch_rows: 3,
            spill_dir: Some(self.folder.path().to_owned()),
            mark_dir: Some(self.folder.path().to_owned()),
            drain_timeout_s: 0,
            workers: 2,
            ..Config::default()
        };
        let mut components = server::Components::system(&config).unwrap();
        components.clock = self.clock.clone();
        components.random = self.random(CENTER);
        self.server = Some(server::start(config, &self.url, components).unwrap());
    }

    fn stop(&mut self) {
        self.left.clear();
        if let Some(server) = self.server.take() {
            server.drain();
        }
    }

    fn random(&self, whose: usize) -> Random {
        let mut seed = [whose as u8; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        // Two programs of one machine never draw the same.
        seed[8] = rand_of_call();
        Random::from_seed(seed)
    }

    fn add_site(&mut self, user: usize) {
        let number = self.sites.len();
        let clock = Arc::new(Adjustable::new());
        let path = self.path(&format!("remote{number}.db"));
        let site =
            Site { path, user, clock, remote: None, token: None, stalled: None, has_kept: false };
        self.sites.push(site);
        self.open(number);
    }

    /// Opens the file of a remote, as a program does that begins.
    fn open(&mut self, number: usize) {
        let mut components = Components::system(self.folder.path()).unwrap();
        components.clock = self.sites[number].clock.clone();
        components.random = self.random(number);
        let site = &mut self.sites[number];
        (site.stalled, site.remote) = (None, None);
        let mut remote = Remote::open_or_create(&site.path, components).unwrap();
        let user = Some(UserName::new(USERS[site.user].0).unwrap());
        remote.remember(&Settings { user, ..Settings::default() }).unwrap();
        site.remote = Some(remote);
    }

    fn deploy(&mut self, model: &Model) -> Result<(), Failure> {
        model.deploy(&self.schema, &mut *administer(&self.url)?)
    }

    fn synchronize(&mut self, number: usize, mode: Mode, fault: Fault) -> Outcome {
        let site = &mut self.sites[number];
        if site.stalled.is_some() {
            return Outcome::Nothing;
        }
        let credential = match &site.token {
            Some(token) => Credential::Token(token.clone()),
            None => Credential::Password(PASSWORD.into()),
        };
        let mode = match mode {
            Mode::Full => client::Mode::Full,
            Mode::Up => client::Mode::UploadOnly,
            Mode::Down => client::Mode::DownloadOnly,
        };
        let request = Request { mode, credential, client: "simulation".into() };
        let remote = site.remote.as_mut().unwrap();
        let begun = remote.claim().and_then(|claim| Conversation::begin(remote, claim, request));
        match begun {
            Ok(conversation) => self.go_on(number, Talk::new(conversation, fault), fault),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn go_on(&mut self, number: usize, talk: Talk, fault: Fault) -> Outcome {
        let stop = match fault {
            Fault::Kill(bytes) | Fault::Vanish(bytes) | Fault::Stall(bytes) => Some(bytes),
            Fault::None | Fault::CutUp(_) | Fault::CutDown(_) => None,
        };
        let address = self.server.as_ref().unwrap().addresses()[0].clone();
        let site = &mut self.sites[number];
        let remote = site.remote.as_mut().unwrap();
        let outcome = match talk.go(remote, &*site.clock, &address, stop) {
            Reached::End(Ok(report)) => return self.synchronized(number, *report),
            Reached::End(Err(failure)) => {
                if failure.code() == Code::TokenRefused {
                    site.token = None;
                }
                Outcome::Failed(failure)
            }
            Reached::Fault(talk) => match fault {
                Fault::Stall(_) => {
                    site.stalled = Some(*talk);
                    Outcome::Stalled
                }
                Fault::Vanish(_) => {
                    self.left.extend(talk.into_connection());
                    self.open(number);
                    Outcome::Died
                }
                _ => {
                    drop(talk);
                    self.open(number);
                    Outcome::Died
                }
            },
        };
        self.wait_for_center();
        outcome
    }

    fn synchronized(&mut self, number: usize, report: Report) -> Outcome {
        if report.token.is_some() {
            self.sites[number].token.clone_from(&report.token);
        }
        Outcome::Synchronized(Box::new(report))
    }

    /// A server may go on for a moment with what it has received.
    fn wait_for_center(&self) {
        let center = self.center();
        let version =
            || -> i64 { center.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
        let (mut last, mut still) = (version(), 0);
        while still < LOOKS {
            std::thread::sleep(STILL);
            let now = version();
            still = if now == last { still + 1 } else { 0 };
            last = now;
        }
    }

    /// Makes a copy that is complete.
    fn keep(connection: &Connection, to: &Path) {
        remove(to);
        connection.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
    }

    fn restore(kept: &Path, to: &Path) {
        remove(to);
        std::fs::copy(kept, to).unwrap();
    }

    fn copy(&mut self, number: usize) -> Outcome {
        if self.sites.len() >= REMOTES_MAX {
            return Outcome::Nothing;
        }
        let to = self.path(&format!("remote{}.db", self.sites.len()));
        Loopback::keep(&self.remote(number), &to);
        let (user, token) = (self.sites[number].user, self.sites[number].token.clone());
        self.add_site(user);
        self.sites.last_mut().unwrap().token = token;
        Outcome::Done
    }

    fn restore_remote(&mut self, number: usize) -> Outcome {
        let site = &mut self.sites[number];
        if !site.has_kept {
            return Outcome::Nothing;
        }
        (site.stalled, site.remote) = (None, None);
        Loopback::restore(&site.path.with_extension("kept"), &site.path);
        self.open(number);
        Outcome::Done
    }

    fn restore_center(&mut self) -> Outcome {
        if !self.has_kept {
            return Outcome::Nothing;
        }
        self.stop();
        Loopback::restore(&self.path("center.kept"), &self.path("center.db"));
        self.start();
        Outcome::Done
    }

    fn set_claims(&mut self, user: usize, rep: i64) -> Outcome {
        let name = UserName::new(USERS[user].0).unwrap();
        administer(&self.url).unwrap().set_claims(&name, &claims(rep)).unwrap();
        Outcome::Done
    }

    fn has(&self, step: &Step) -> bool {
        step.remote().is_none_or(|remote| remote < self.sites.len())
    }
}

impl World for Loopback {
    fn apply(&mut self, step: &Step) -> Outcome {
        if !self.has(step) {
            return Outcome::Nothing;
        }
        match step {
            Step::WriteRemote { remote, writes } => {
                application::write(&self.schema, &self.remote(*remote), writes)
            }
            Step::WriteCenter { writes } => {
                application::write(&self.schema, &self.center(), writes)
            }
            Step::Synchronize { remote, mode, fault } => self.synchronize(*remote, *mode, *fault),
            Step::Continue { remote } => match self.sites[*remote].stalled.take() {
                Some(talk) => self.go_on(*remote, talk, Fault::None),
                None => Outcome::Nothing,
            },
            Step::SetClaims { user, rep } => self.set_claims(*user, *rep),
            Step::Deploy { model } => match self.deploy(model) {
                Ok(()) => Outcome::Done,
                Err(failure) => Outcome::Refused(format!("{failure:?}")),
            },
            Step::RestartServer => {
                self.stop();
                self.start();
                Outcome::Done
            }
            Step::StepClock { place, by_ms } => {
                match place {
                    Place::Center => self.clock.adjust(*by_ms),
                    Place::Remote(remote) => self.sites[*remote].clock.adjust(*by_ms),
                }
                Outcome::Done
            }
            Step::CopyRemote { remote } => self.copy(*remote),
            Step::KeepRemote { remote } => {
                let site = &self.sites[*remote];
                Loopback::keep(&self.remote(*remote), &site.path.with_extension("kept"));
                self.sites[*remote].has_kept = true;
                Outcome::Done
            }
            Step::RestoreRemote { remote } => self.restore_remote(*remote),
            Step::KeepCenter => {
                Loopback::keep(&self.center(), &self.path("center.kept"));
                self.has_kept = true;
                Outcome::Done
            }
            Step::RestoreCenter => self.restore_center(),
            Step::Disk { .. } | Step::Quiet => Outcome::Nothing,
        }
    }

    fn calm(&mut self) {
        self.left.clear();
    }

    fn remotes(&self) -> usize {
        self.sites.len()
    }

    fn center(&self) -> Rc<Connection> {
        Rc::new(open(&self.path("center.db")))
    }

    fn remote(&self, number: usize) -> Rc<Connection> {
        Rc::new(open(&self.sites[number].path))
    }

    fn knows(&self, kind: &str) -> bool {
        !UNKNOWN.contains(&kind)
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.stop();
    }
}

fn rand_of_call() -> u8 {
    use std::sync::atomic::{AtomicU8, Ordering};
    static CALLS: AtomicU8 = AtomicU8::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed)
}

fn open(path: &Path) -> Connection {
    application::set_up(Connection::open(path).unwrap())
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let file = format!("{}{suffix}", path.display());
        match std::fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{file}: {error}"),
        }
    }
}
