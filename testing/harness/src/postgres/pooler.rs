//! A real pgbouncer in front of a cluster, which ends with the program that started it.

use super::account::Account;
use super::{PsqlSession, TestDatabase, settings};
use crate::wait::until;
use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// How often a free port may turn out to be taken by somebody else.
const STARTS_MAX: usize = 20;

/// Its input ends when the program does. The pooler has nothing that it could lose.
const SCRIPT: &str = r#"
PATH="$PATH:/usr/sbin"
exec 3<&0
pgbouncer "$1" </dev/null 3<&- &
pid=$!
(cat <&3 >/dev/null; kill -KILL "$pid" 2>/dev/null) &
exec 3<&-
wait "$pid"
"#;

/// A pooler. Dropping it ends it.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
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
            let mut command = Command::new("sh");
            account.run(&mut command);
            command.args(["-c", SCRIPT, "pooler"]).arg(&config).current_dir("/");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.process_group(0).spawn().unwrap();
            let mut runs = true;
            until("pgbouncer to listen", || {
                runs = child.try_wait().unwrap().is_none();
                !runs || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if runs {
                return Pooler { child, port, database: database.clone(), folder };
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

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
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
