//! One of two twins: a program with a consolidated database, a server and remotes of its own.

use super::image::{Ignored, Image, Places, of_database, of_file};
use super::normal::{answer, text};
use harness::postgres::Cluster;
use harness::{Outcome, Server, World};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

/// The cluster of the second twin: no transaction of one is in a snapshot of the other.
static SECOND: LazyLock<Cluster> = LazyLock::new(Cluster::start);

pub(crate) struct Twin {
    world: World,
    backend: Backend,
    server: Option<Server>,
    places: Places,
}

impl Twin {
    pub(crate) fn new(backend: Backend, is_second: bool, program: &Path, create: &str) -> Twin {
        let cluster = || if is_second { &*SECOND } else { Cluster::shared() };
        let (world, url) = match backend {
            Backend::Sqlite => {
                let world = World::without_deployment(program, create);
                let url = format!("sqlite:{}", world.consolidated().display());
                (world, url)
            }
            Backend::Postgres => {
                let database = cluster().database();
                database.sql(create);
                let url = database.url();
                (World::on_database(program, database), url)
            }
        };
        world.syncline.ok(&["init", ".", "--consolidated", &url]);
        // Several frames a table, although there are few rows.
        world.configure("batch_rows = 3");
        let folder = world.path("").display().to_string();
        let folder = folder.trim_end_matches('/').to_owned();
        let places = vec![(url, "<database>"), (folder, "<folder>")];
        Twin { world, backend, server: None, places }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.backend == Backend::Sqlite
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    pub(crate) fn write_file(&self, name: &str, content: &str) {
        self.world.write_secret(name, content);
    }

    /// Starts the server, where it listened before if it did.
    pub(crate) fn serve(&mut self) {
        let before = self.server.take().map(|server| {
            let url = server.url.clone();
            server.stop();
            url
        });
        let server = match before {
            Some(url) => self.world.serve_at(&url),
            None => self.world.serve(),
        };
        self.places.retain(|(_, name)| *name != "<server>");
        self.places.push((server.url.clone(), "<server>"));
        self.server = Some(server);
    }

    /// What a command answers. `SERVER` stands for the server's URL.
    pub(crate) fn run(&self, arguments: &[String]) -> String {
        let url = self.server.as_ref().map_or("", |server| server.url.as_str());
        let arguments: Vec<&str> =
            arguments.iter().map(|it| if it == "SERVER" { url } else { it.as_str() }).collect();
        let Outcome { code, stdout, stderr } = self.world.syncline.run(&arguments);
        let (stdout, stderr) = (answer(&stdout, &self.places), answer(&stderr, &self.places));
        format!("exit code {code:?}\n{stdout}\n{stderr}")
    }

    /// One transaction of another program at the center; what came of it.
    pub(crate) fn write(&self, statements: &[String], is_checked: bool) -> String {
        let sql = statements.join("; ");
        match self.backend {
            Backend::Sqlite => try_sqlite(&self.world.consolidated(), &sql, is_checked),
            Backend::Postgres => {
                let database = self.world.database();
                let (database, bypass) = match is_checked {
                    true => (database.clone(), ""),
                    false => (
                        database.as_role(harness::postgres::SUPERUSER),
                        "SET LOCAL session_replication_role = replica; ",
                    ),
                };
                let outcome = database.try_sql(&format!("BEGIN; {bypass}{sql}; COMMIT;"));
                outcome_of(outcome.code == Some(0), &outcome.stderr)
            }
        }
    }

    /// What the owner of the center does.
    pub(crate) fn own(&self, sql: &str) -> String {
        match self.backend {
            Backend::Sqlite => {
                let connection = open(&self.world.consolidated());
                connection.pragma_update(None, "foreign_keys", true).unwrap();
                let done = connection.execute_batch(sql);
                outcome_of(done.is_ok(), &done.err().map_or(String::new(), |it| it.to_string()))
            }
            Backend::Postgres => {
                let outcome = self.world.database().try_sql(sql);
                outcome_of(outcome.code == Some(0), &outcome.stderr)
            }
        }
    }

    /// One transaction of the application of a remote; what came of it.
    pub(crate) fn write_remote(&self, name: &str, statements: &[String]) -> String {
        try_sqlite(&self.world.remote(name), &statements.join("; "), true)
    }

    /// Copies the file of a remote with everything that waits there, and its token.
    pub(crate) fn copy_remote(&self, name: &str, copy: &str) -> String {
        let file = self.world.remote(copy);
        let connection = open(&self.world.remote(name));
        connection.execute("VACUUM INTO ?1", [file.to_str().unwrap()]).unwrap();
        std::fs::copy(self.path(&token(name)), self.path(&token(copy)))
            .map_or_else(|error| text(&error.to_string(), &self.places), |_| "copied".to_owned())
    }

    /// Names and fingerprints of the tables that a remote holds.
    pub(crate) fn held(&self, name: &str) -> Vec<(String, String)> {
        let path = self.world.remote(name);
        if !path.exists() {
            return Vec::new();
        }
        let connection = open(&path);
        let sql = "SELECT json_extract(published, '$.name'),
            json_extract(published, '$.fingerprint') FROM syncline_table ORDER BY 1";
        // A file that is no remote has no such table.
        let Ok(mut statement) = connection.prepare(sql) else { return Vec::new() };
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Everything at the center.
    pub(crate) fn center_image(&self, ignored: &Ignored) -> Image {
        match self.backend {
            Backend::Sqlite => of_file(&self.world.consolidated(), &self.places, ignored),
            Backend::Postgres => of_database(self.world.database(), &self.places, ignored),
        }
    }

    /// Everything in a file of a remote; nothing where there is none.
    pub(crate) fn remote_image(&self, name: &str, ignored: &Ignored) -> Image {
        let path = self.world.remote(name);
        if path.exists() { of_file(&path, &self.places, ignored) } else { Image::new() }
    }
}

/// The file with the token of a remote.
pub(crate) fn token(remote: &str) -> String {
    format!("{remote}.token")
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection
}

fn try_sqlite(path: &Path, sql: &str, is_checked: bool) -> String {
    let connection = open(path);
    connection.pragma_update(None, "foreign_keys", is_checked).unwrap();
    // What is open ends with the connection.
    let done = connection.execute_batch(&format!("BEGIN IMMEDIATE; {sql}; COMMIT"));
    outcome_of(done.is_ok(), &done.err().map_or(String::new(), |error| error.to_string()))
}

fn outcome_of(done: bool, message: &str) -> String {
    if done { "done".to_owned() } else { format!("refused: {}", message.trim_end()) }
}
