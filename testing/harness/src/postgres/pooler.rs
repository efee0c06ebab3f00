//! A real pgbouncer in front of a cluster, which ends with the program that started it.

use super::account::Account;
use super::{PsqlSession, TestDatabase, settings};
use crate::beside::Beside;
use crate::wait::until;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use tempfile::TempDir;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// A pooler. Dropping it ends it.
#[derive(Debug)]
pub struct Pooler {
    _beside: Beside,
    port: u16,
    database: TestDatabase,
    folder: TempDir,
}

impl Pooler {
    /// Starts one in front of this database, with this `pool_mode`.
    pub fn start(database: &TestDatabase, mode: &str) -> Pooler {
        let account = Account::find();
        for _ in 0..STARTS_MAX {
            let folder = tempfile::Builder::new().prefix("pooler-").tempdir().unwrap();
            let port = settings::free_port();
            let config = folder.path().join("pgbouncer.ini");
            fs::write(&config, configuration(database, mode, folder.path(), port)).unwrap();
            let users = format!("\"{}\" \"\"\n", database.role());
            fs::write(folder.path().join("users"), users).unwrap();
            account.own(folder.path());
            let command = ["pgbouncer", config.to_str().unwrap()];
            let mut beside = Beside::start(&command, |shell| account.run(shell));
            let mut runs = true;
            until("pgbouncer to listen", || {
                runs = beside.runs();
                !runs || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if runs {
                return Pooler { _beside: beside, port, database: database.clone(), folder };
            }
        }
        panic!("pgbouncer does not start; is it installed?");
    }

    /// The URL of the database by way of the pooler.
    pub fn url(&self) -> String {
        let Pooler { port, database, .. } = self;
        format!("postgres://{}@127.0.0.1:{port}/{}", database.role(), database.name)
    }

    /// A connection of another program, which stays open.
    pub fn session(&self) -> PsqlSession {
        self.database.by_way_of("127.0.0.1", self.port).session()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn configuration(database: &TestDatabase, mode: &str, folder: &Path, port: u16) -> String {
    let (host, server_port) = database.place();
    let (host, folder) = (host.display(), folder.display());
    format!(
        "[databases]
* = host={host} port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
logfile = {folder}/log
pool_mode = {mode}
"
    )
}
