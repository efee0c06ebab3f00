//! A center with its server, and one remote, each on a disk of its own.

use client::transport::tcp::{self, Timeouts};
use client::{Components, Credential, Mode, Remote, Report, Request, Settings, Transport};
use consolidated::{SyncModel, Url, administer_on};
use model::{Clock, Failure, UserName};
use rusqlite::Connection;
use server::password::Costs;
use server::{Config, Server};
use simulation::vfs::Disk;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const CENTER: &str = "/center.db";
const REMOTE: &str = "/remote.db";
const PASSWORD: &str = "secret";
const MODEL: &str = "script_version = \"v1\"\n[table.line]\n";
/// A server on this machine that says nothing for so long is stuck.
const WAIT_MAX: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

pub(super) fn disk(seed: u64) -> Arc<Disk> {
    // Threads of the server may really wait for each other.
    Arc::new(Disk::new(seed, Arc::new(Standing), Arc::new(std::thread::sleep)))
}

pub(super) struct Fleet {
    pub(super) center: Arc<Disk>,
    pub(super) site: Arc<Disk>,
    server: Option<Server>,
    remote: Option<Remote>,
    token: Option<String>,
    /// Every value that an application has written.
    written: i64,
    folder: tempfile::TempDir,
}

impl Fleet {
    /// A fleet that has synchronized, whose files have these journals.
    pub(super) fn new(seed: u64, center_journal: &str, remote_journal: &str) -> Fleet {
        let (center, site) = (disk(seed), disk(seed + 1));
        let folder = tempfile::tempdir().unwrap();
        let application = center.open(Path::new(CENTER)).unwrap();
        application
            .execute_batch(
                "CREATE TABLE line (id INTEGER PRIMARY KEY, value INTEGER, text TEXT);
                 INSERT INTO line VALUES (1, 0, 'first');",
            )
            .unwrap();
        let mut admin = administer_on(&url(), center.clone()).unwrap();
        admin.deploy(&[SyncModel::parse(MODEL, "model.toml").unwrap()], false).unwrap();
        let hash = server::password::hash(PASSWORD, Costs::LEAST).unwrap();
        admin.add_user(&UserName::new("ann").unwrap(), &hash, &BTreeMap::new()).unwrap();
        drop(admin);
        drop(application);
        journal(&center, CENTER, center_journal);
        let mut fleet =
            Fleet { center, site, server: None, remote: None, token: None, written: 0, folder };
        fleet.serve();
        fleet.open().unwrap();
        let user = Some(UserName::new("ann").unwrap());
        let remote = fleet.remote.as_mut().unwrap();
        remote.remember(&Settings { user, ..Settings::default() }).unwrap();
        fleet.synchronize().unwrap();
        fleet.remote = None;
        journal(&fleet.site, REMOTE, remote_journal);
        fleet.open().unwrap();
        fleet
    }

    fn serve(&mut self) {
        let config = Config {
            listen: vec!["tcp://127.0.0.1:0".to_owned()],
            workers: 1,
            drain_timeout_s: 0,
            mark_dir: Some(self.folder.path().to_owned()),
            ..Config::default()
        };
        let mut components = server::Components::system(&config).unwrap();
        components.disk = self.center.clone();
        self.server = Some(server::start(config, &url(), components).unwrap());
    }

    fn open(&mut self) -> Result<(), Failure> {
        let mut components = Components::system(self.folder.path()).unwrap();
        components.disk = self.site.clone();
        self.remote = Some(Remote::open_or_create(Path::new(REMOTE), components)?);
        Ok(())
    }

    pub(super) fn synchronize(&mut self) -> Result<Report, Failure> {
        let address = self.server.as_ref().unwrap().addresses()[0].clone();
        let credential = match self.token.clone() {
            Some(token) => Credential::Token(token),
            None => Credential::Password(PASSWORD.into()),
        };
        let request = Request { mode: Mode::Full, credential, client: "test".into() };
        let mut connect = || -> Result<Box<dyn Transport>, Failure> {
            let timeouts = Timeouts { connect: WAIT_MAX, receive: WAIT_MAX, send: WAIT_MAX };
            Ok(Box::new(tcp::connect(&address, timeouts)?))
        };
        let remote = self.remote.as_mut().unwrap();
        let report = remote.synchronize(&request, &mut connect, &mut |_| {})?;
        self.token = report.token.clone().or(self.token.take());
        Ok(report)
    }

    /// An application at the remote writes, and sees to it that this is on the disk.
    pub(super) fn write(&mut self) {
        let application = self.site.open(Path::new(REMOTE)).unwrap();
        self.written += 1;
        let value = self.written;
        let sql = format!(
            "PRAGMA synchronous = EXTRA; BEGIN;
             UPDATE line SET value = {value} WHERE id = 1;
             INSERT INTO line VALUES ({value} * 10, {value}, 'more'); COMMIT;"
        );
        application.execute_batch(&sql).unwrap();
    }

    /// The power of the remote fails and comes back.
    pub(super) fn cut_remote(&mut self) {
        self.site.kill();
        self.remote = None;
        self.site.cut_power();
        check(&self.site.open(Path::new(REMOTE)).unwrap());
        self.open().unwrap();
    }

    /// The power of the center fails and comes back.
    pub(super) fn cut_center(&mut self) {
        self.center.kill();
        self.server.take().unwrap().drain();
        self.center.cut_power();
        check(&self.center.open(Path::new(CENTER)).unwrap());
        self.serve();
    }

    /// Everything that was written is at both sides, and nothing else.
    pub(super) fn require_all(&mut self) {
        let mut expected = vec![(1, self.written, "first".to_owned())];
        expected.extend((1..=self.written).map(|value| (value * 10, value, "more".to_owned())));
        for (disk, path) in [(&self.center, CENTER), (&self.site, REMOTE)] {
            let connection = disk.open(Path::new(path)).unwrap();
            let mut rows =
                connection.prepare("SELECT id, value, text FROM line ORDER BY id").unwrap();
            let rows: Vec<(i64, i64, String)> = rows
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap();
            assert_eq!(rows, expected, "{path}");
            check(&connection);
        }
        let remote = self.remote.as_ref().unwrap();
        assert_eq!(remote.pending().unwrap().len(), 0);
        assert_eq!(remote.rejects().unwrap().len(), 0);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
        }
    }
}

pub(super) fn url() -> Url {
    Url::parse(&format!("sqlite:{CENTER}")).unwrap()
}

pub(super) fn journal(disk: &Disk, path: &str, mode: &str) {
    let now: String = disk
        .open(Path::new(path))
        .unwrap()
        .query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0))
        .unwrap();
    assert_eq!(now, mode);
}

fn check(connection: &Connection) {
    let integrity: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}
