//! A consolidated database with its server's folder, users and remotes.

use crate::dump::{Center, Share, count, differences_in, sql, tables};
use crate::postgres::{Cluster, TestDatabase};
use crate::program::{Outcome, Syncline};
use crate::server::Server;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use tempfile::TempDir;

/// Everything one test needs, in one temporary folder that ends with it.
#[derive(Debug)]
pub struct World {
    folder: TempDir,
    center: Center,
    /// The program, run in the folder of the world.
    pub syncline: Syncline,
}

impl World {
    /// A consolidated database made by this SQL, initialized and deployed.
    pub fn new(executable: impl AsRef<Path>, create: &str) -> World {
        let world = World::without_deployment(executable, create);
        world.syncline.ok(&["init", ".", "--consolidated", "sqlite:consolidated.db"]);
        world.syncline.ok(&["deploy"]);
        world
    }

    /// A consolidated database made by this SQL, and nothing else.
    pub fn without_deployment(executable: impl AsRef<Path>, create: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consolidated.db");
        sql(&path, create);
        let syncline = Syncline::new(executable, folder.path());
        World { folder, center: Center::Sqlite(path), syncline }
    }

    /// The same on PostgreSQL, in a database of its own.
    pub fn on_postgres(executable: impl AsRef<Path>, create: &str) -> World {
        World::deployed_on(executable, Cluster::shared().database(), create)
    }

    /// The same on this empty database.
    pub fn deployed_on(
        executable: impl AsRef<Path>,
        database: TestDatabase,
        create: &str,
    ) -> World {
        database.sql(create);
        let world = World::on_database(executable, database);
        world.syncline.ok(&["init", ".", "--consolidated", &world.database().url()]);
        world.syncline.ok(&["deploy"]);
        world
    }

    /// One on SQLite and one on PostgreSQL, made by this SQL, initialized and not deployed.
    pub fn on_each(executable: impl AsRef<Path>, create: &str) -> [World; 2] {
        let database = Cluster::shared().database();
        database.sql(create);
        let url = database.url();
        let worlds = [
            (World::without_deployment(&executable, create), "sqlite:consolidated.db"),
            (World::on_database(&executable, database), &*url),
        ];
        worlds.map(|(world, url)| {
            world.syncline.ok(&["init", ".", "--consolidated", url]);
            world
        })
    }

    /// A world around this database of PostgreSQL, as it is.
    pub fn on_database(executable: impl AsRef<Path>, database: TestDatabase) -> World {
        let folder = tempfile::tempdir().unwrap();
        let syncline = Syncline::new(executable, folder.path());
        World { folder, center: Center::Postgres(database), syncline }
    }

    /// The same folder and remotes around another database of PostgreSQL.
    #[must_use]
    pub fn with_database(self, database: TestDatabase) -> World {
        World { center: Center::Postgres(database), ..self }
    }

    /// The consolidated database, where it is one of PostgreSQL.
    ///
    /// # Panics
    /// When it is a file.
    pub fn database(&self) -> &TestDatabase {
        match &self.center {
            Center::Postgres(database) => database,
            Center::Sqlite(path) => panic!("{} is no database of PostgreSQL", path.display()),
        }
    }

    /// Runs SQL at the consolidated database, by a program that knows nothing of Syncline.
    pub fn center_sql(&self, text: &str) {
        match &self.center {
            Center::Sqlite(path) => sql(path, text),
            Center::Postgres(database) => database.sql(text),
        }
    }

    /// The one number that a query at the consolidated database answers.
    pub fn center_count(&self, text: &str) -> i64 {
        match &self.center {
            Center::Sqlite(path) => count(path, text),
            Center::Postgres(database) => database.count(text),
        }
    }

    /// The user's tables at the consolidated database, as a remote calls them.
    pub fn center_tables(&self) -> Vec<String> {
        match &self.center {
            Center::Sqlite(path) => tables(path),
            Center::Postgres(database) => database.tables(),
        }
    }

    /// A file of the world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of the consolidated database, where it is one of SQLite.
    pub fn consolidated(&self) -> PathBuf {
        self.path("consolidated.db")
    }

    /// The remote database of this name, which is also that of its user.
    pub fn remote(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.db"))
    }

    /// Adds notes of 1,000 bytes each at a remote, in its table `note`.
    pub fn add_notes(&self, name: &str, from: i64, rows: i64) {
        let text = format!(
            "WITH RECURSIVE n(id) AS (VALUES({from}) UNION ALL SELECT id + 1 FROM n WHERE id + 1 < \
             {from} + {rows}) INSERT INTO note SELECT id, hex(randomblob(500)) FROM n"
        );
        sql(&self.remote(name), &text);
    }

    /// Adds a user with the password `NAME-password` in the file `NAME.password`, which costs the
    /// server next to nothing to verify.
    pub fn add_user(&self, name: &str) {
        self.add_user_with(name, &[]);
    }

    /// The same with claims, for example `rep=7`.
    pub fn add_user_with(&self, name: &str, claims: &[&str]) {
        let file = format!("{name}.password");
        self.write_secret(&file, &format!("{name}-password\n"));
        let mut add = vec!["user", "add", name, "--password-file", &file];
        add.extend(claims.iter().flat_map(|claim| ["--claim", claim]));
        let outcome = self.syncline.run_with_fail_points("user-cheap-password=return", &add);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    /// Writes a file that only its owner can read.
    pub fn write_secret(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    /// Adds lines to the end of `syncline.toml`, which is its table `[server]`.
    pub fn configure(&self, lines: &str) {
        let mut file =
            fs::OpenOptions::new().append(true).open(self.path("syncline.toml")).unwrap();
        writeln!(file, "{lines}").unwrap();
    }

    /// Starts a server on a free port.
    pub fn serve(&self) -> Server {
        self.serve_with(&[], None)
    }

    /// Starts a server where one listened before.
    pub fn serve_at(&self, url: &str) -> Server {
        let command = self.syncline.command(&["serve", "--listen", url]);
        Server::start(command, &self.path("server.log"))
    }

    /// The same with fail points.
    pub fn serve_at_with(&self, url: &str, fail_points: &str) -> Server {
        let mut command = self.syncline.command(&["serve", "--listen", url]);
        command.env("FAILPOINTS", fail_points);
        Server::start(command, &self.path("server.log"))
    }

    /// Starts a server on a free port with further arguments, and with fail points if wanted.
    pub fn serve_with(&self, arguments: &[&str], fail_points: Option<&str>) -> Server {
        let listen = listen();
        let mut all = vec!["serve", "--listen", &listen];
        all.extend(arguments);
        let mut command = self.syncline.command(&all);
        if let Some(fail_points) = fail_points {
            command.env("FAILPOINTS", fail_points);
        }
        Server::start(command, &self.path("server.log"))
    }

    /// Starts a server on a free port that finds this in its environment.
    pub fn serve_with_environment(&self, variables: &[(&str, &str)]) -> Server {
        let mut command = self.syncline.command(&["serve", "--listen", "tcp://127.0.0.1:0"]);
        command.envs(variables.iter().copied());
        Server::start(command, &self.path("server.log"))
    }

    /// The arguments that synchronize this remote, for tests that add to them.
    pub fn sync_arguments(&self, name: &str, server: &Server) -> Vec<String> {
        let password = format!("{name}.password");
        let file = format!("{name}.db");
        ["sync", &file, "--server", &server.url, "--user", name, "--password-file", &password]
            .map(str::to_owned)
            .to_vec()
    }

    /// Synchronizes this remote, which must succeed; gives the JSON result.
    pub fn sync(&self, name: &str, server: &Server) -> Value {
        let mut arguments = self.sync_arguments(name, server);
        arguments.push("--json".to_owned());
        self.syncline.json(&arguments)
    }

    /// Tries to synchronize this remote, with fail points in the client if wanted.
    pub fn try_sync(&self, name: &str, server: &Server, fail_points: Option<&str>) -> Outcome {
        let arguments = self.sync_arguments(name, server);
        match fail_points {
            Some(fail_points) => self.syncline.run_with_fail_points(fail_points, &arguments),
            None => self.syncline.run(&arguments),
        }
    }

    /// Synchronizes this remote through another address than the server's own.
    pub fn sync_through(&self, name: &str, url: &str) -> Child {
        let (file, password) = (format!("{name}.db"), format!("{name}.password"));
        let arguments =
            ["sync", &file, "--server", url, "--user", name, "--password-file", &password];
        self.syncline.command(&arguments).spawn().unwrap()
    }

    /// Synchronizes this remote, which must fail with this code; gives the `error` of the JSON.
    pub fn sync_fails(&self, name: &str, server: &Server, code: &str) -> Value {
        let mut arguments = self.sync_arguments(name, server);
        arguments.push("--json".to_owned());
        let outcome = self.syncline.run(&arguments);
        let result: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
        assert_eq!(result["error"]["code"], code, "{outcome:?}");
        result["error"].clone()
    }

    /// What is different between this remote and the consolidated database.
    pub fn differences(&self, name: &str) -> Vec<String> {
        let tables = self.center_tables();
        let whole: Vec<Share> = tables.iter().map(|table| Share::whole(table)).collect();
        self.differences_in(name, &whole)
    }

    /// What is different between this remote and its share of the consolidated database.
    pub fn differences_in(&self, name: &str, shares: &[Share]) -> Vec<String> {
        differences_in(&self.center, &self.remote(name), shares)
    }

    /// Checks that these remotes hold what the consolidated database holds (S3).
    ///
    /// # Panics
    /// With the rows that differ.
    pub fn assert_converged(&self, names: &[&str]) {
        for name in names {
            let lines = self.differences(name);
            assert!(lines.is_empty(), "{name} differs:\n{}", lines.join("\n"));
        }
    }
}

/// Where servers listen: a free port, over TCP unless the environment names another transport, so
/// that any test can be tried over it.
fn listen() -> String {
    std::env::var("SYNCLINE_TEST_LISTEN").unwrap_or_else(|_| "tcp://127.0.0.1:0".to_owned())
}
