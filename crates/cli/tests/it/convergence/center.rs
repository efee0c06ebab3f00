//! The consolidated database of the walk, as other programs see it.

use super::shop::Shop;
use consolidated::{Notes, SyncModel, Url, administer};
use harness::postgres::{Cluster, SUPERUSER};
use model::Code;
use rusqlite::Connection;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A row, each value as text.
pub(crate) type Row = Vec<Option<String>>;

pub(crate) struct Center {
    pub(crate) url: Url,
    other: Other,
    _folder: tempfile::TempDir,
}

/// Another program.
enum Other {
    Sqlite(Connection),
    Postgres { runtime: Box<Runtime>, client: Box<Client>, superuser: Box<Client> },
}

/// Where the walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

impl Center {
    pub(crate) fn new(backend: Backend, create: &str) -> Center {
        let folder = tempfile::tempdir().unwrap();
        let (url, other) = match backend {
            Backend::Sqlite => {
                let path = folder.path().join("consolidated.db");
                let connection = Connection::open(&path).unwrap();
                connection.busy_timeout(Duration::from_secs(20)).unwrap();
                connection.execute_batch(create).unwrap();
                (format!("sqlite:{}", path.display()), Other::Sqlite(connection))
            }
            Backend::Postgres => {
                let database = Cluster::shared().database();
                database.sql(create);
                let runtime = Box::new(Runtime::new().unwrap());
                let client = connect(&runtime, &database.url());
                let superuser = connect(&runtime, &database.as_role(SUPERUSER).url());
                (database.url(), Other::Postgres { runtime, client, superuser })
            }
        };
        Center { url: Url::parse(&url).unwrap(), other, _folder: folder }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.other, Other::Sqlite(_))
    }

    /// One transaction of an application. What breaks a constraint changes nothing.
    pub(crate) fn write(&self, statements: &[String]) -> bool {
        let sql = statements.join("; ");
        match &self.other {
            Other::Sqlite(connection) => {
                connection.pragma_update(None, "foreign_keys", true).unwrap();
                try_sqlite(connection, &sql)
            }
            Other::Postgres { runtime, client, .. } => try_postgres(runtime, client, &sql),
        }
    }

    /// The same without foreign keys, like a restore or a replication.
    pub(crate) fn write_unchecked(&self, statements: &[String]) -> bool {
        let sql = statements.join("; ");
        match &self.other {
            Other::Sqlite(connection) => {
                connection.pragma_update(None, "foreign_keys", false).unwrap();
                try_sqlite(connection, &sql)
            }
            Other::Postgres { runtime, superuser, .. } => {
                let sql = format!("SET LOCAL session_replication_role = replica; {sql}");
                try_postgres(runtime, superuser, &sql)
            }
        }
    }

    /// What the owner of the database does, which must succeed.
    pub(crate) fn own(&self, sql: &str) {
        match &self.other {
            Other::Sqlite(connection) => {
                connection.pragma_update(None, "foreign_keys", true).unwrap();
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{error} in {sql}"));
            }
            Other::Postgres { runtime, client, .. } => {
                let done = runtime.block_on(client.batch_execute(sql));
                done.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
            }
        }
    }

    /// The rows of a query.
    pub(crate) fn rows(&self, sql: &str) -> Vec<Row> {
        match &self.other {
            Other::Sqlite(connection) => rows_of(connection, sql),
            Other::Postgres { runtime, client, .. } => {
                let answer = runtime.block_on(client.simple_query(sql)).unwrap();
                let row = |message| match message {
                    SimpleQueryMessage::Row(row) => {
                        Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
                    }
                    _ => None,
                };
                answer.into_iter().filter_map(row).collect()
            }
        }
    }

    /// Makes the database what the model of the shop says, with the own scripts of its tables.
    pub(crate) fn deploy(&self, model: &str, shop: &Shop) {
        let parsed = || SyncModel::parse(model, "model.toml").unwrap();
        let mut admin = administer(&self.url).unwrap();
        let mut with_own = parsed();
        if shop.has_own_scripts() {
            let planned = admin.planned_scripts(&[parsed()]).unwrap();
            with_own.own_scripts.extend(shop.files(self.is_sqlite(), &planned));
        }
        let models = [with_own];
        let mut deployed = admin.deploy(&models, false);
        // A cursor with the text of the model may name what a deployment has to make first.
        if deployed.as_ref().is_err_and(|it| it.code() == Code::ScriptInvalid) {
            assert!(!self.is_sqlite(), "{deployed:?}");
            admin.deploy(&[parsed()], false).unwrap();
            deployed = admin.deploy(&models, false);
        }
        deployed.unwrap_or_else(|failure| panic!("{failure:?} for {model}"));
    }

    /// Everything that the center has noted about rows that lost, one text each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut admin = administer(&self.url).unwrap();
        let all = &Notes::newest(1_000_000);
        let rejects = admin.rejects(all).unwrap().into_iter().map(|note| format!("{note:?}"));
        let rejects: Vec<String> = rejects.collect();
        let conflicts = admin.conflicts(all).unwrap().into_iter().map(|note| format!("{note:?}"));
        rejects.into_iter().chain(conflicts).collect()
    }
}

fn connect(runtime: &Runtime, url: &str) -> Box<Client> {
    let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).unwrap();
    // It ends with its client.
    runtime.spawn(async move {
        let _ = connection.await;
    });
    Box::new(client)
}

/// One transaction, undone where it breaks a constraint.
pub(crate) fn try_sqlite(connection: &Connection, sql: &str) -> bool {
    let done = connection.execute_batch(&format!("BEGIN IMMEDIATE; {sql}; COMMIT"));
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").unwrap();
    }
    let refused = done.as_ref().is_err_and(|error| {
        // A table that is no longer published may refer to a key with another name now.
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
            || error.to_string().contains("foreign key mismatch")
    });
    assert!(done.is_ok() || refused, "{sql}: {done:?}");
    done.is_ok()
}

fn try_postgres(runtime: &Runtime, client: &Client, sql: &str) -> bool {
    let done = runtime.block_on(client.batch_execute(&format!("BEGIN; {sql}; COMMIT")));
    if let Err(error) = &done {
        runtime.block_on(client.batch_execute("ROLLBACK")).unwrap();
        let state = error.code().map_or("", |state| state.code());
        // Until the deployment our triggers use the old names of keys and places: of no column, or
        // of one of another type.
        let renamed = ["42703", "42804"].contains(&state);
        assert!(state.starts_with("23") || renamed, "{sql}: {error:?}");
    }
    done.is_ok()
}

pub(crate) fn rows_of(connection: &Connection, sql: &str) -> Vec<Row> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|e| panic!("{e} in {sql}"));
    let width = statement.column_count();
    let rows = statement.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}
