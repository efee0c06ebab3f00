//! A remote whose `syncline_*` tables somebody has edited by hand, and that then synchronizes.

use super::refusal;
use client::transport::tcp::{self, Timeouts};
use client::{Components, Credential, Mode, Remote, Report, Request, Settings, Transport};
use consolidated::{SyncModel, Url, administer};
use model::{Failure, RemoteId, UserName};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use server::password::Costs;
use server::{Config, Server};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

const TABLES: &str = "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (a INTEGER, b TEXT, parent INTEGER REFERENCES parent ON UPDATE CASCADE
        ON DELETE CASCADE, v, PRIMARY KEY (a, b));
    INSERT INTO parent VALUES (1, 'one'), (2, 'two'), (3, 'three');
    INSERT INTO child VALUES (1, 'x', 1, 1.5), (2, 'y', 2, x'00ff'), (3, 'z', 3, NULL);";
const MODEL: &str = "script_version = \"v1\"\n[table.parent]\nconflict = \"merge\"\n
    [table.child]\nconflict = \"consolidated_wins\"\n";
/// What the application has changed and was not uploaded.
const PENDING: &str = "UPDATE parent SET v = 'changed' WHERE id = 1;
    INSERT INTO parent VALUES (9, 'nine'); DELETE FROM parent WHERE id = 3;
    INSERT INTO child VALUES (7, 'w', 1, 'new'), (1, 'q', NULL, 2);";
const PASSWORD: &str = "secret";
/// A server on this machine that says nothing for so long is stuck.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Edits of one input, and bytes of each.
const EDITS_MAX: usize = 8;
const EDIT_BYTES: usize = 6;

/// Both databases before anybody touched them, and a token: a password takes longer to check.
struct Before {
    folder: TempDir,
    token: String,
    center: Vec<u8>,
    remote: Vec<u8>,
}

static BEFORE: LazyLock<Before> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let (center, file) = (folder.path().join("center.db"), folder.path().join("remote.db"));
    Connection::open(&center).unwrap().execute_batch(TABLES).unwrap();
    let url = Url::parse(&format!("sqlite:{}", center.display())).unwrap();
    let mut admin = administer(&url).unwrap();
    admin.deploy(&[SyncModel::parse(MODEL, "model.toml").unwrap()], false).unwrap();
    let hash = server::password::hash(PASSWORD, Costs::LEAST).unwrap();
    admin.add_user(&user(), &hash, &BTreeMap::new()).unwrap();
    drop(admin);
    let server = serve(&center);
    let mut remote = Remote::open_or_create(&file, components(folder.path())).unwrap();
    let remote_id = Some(RemoteId::new("remote").unwrap());
    remote.remember(&Settings { user: Some(user()), remote_id, ..Settings::default() }).unwrap();
    let password = Credential::Password(PASSWORD.into());
    let token = synchronize(&mut remote, &server, password).unwrap().token.unwrap();
    // The center refuses a child without a parent.
    let application = Connection::open(&file).unwrap();
    application.pragma_update(None, "foreign_keys", false).unwrap();
    application.execute_batch("INSERT INTO child VALUES (4, 'v', 77, 0)").unwrap();
    drop(application);
    synchronize(&mut remote, &server, Credential::Token(token.clone())).unwrap();
    assert_eq!(remote.rejects().unwrap().len(), 1);
    remote.execute(PENDING).unwrap();
    drop(remote);
    server.drain();
    let read = |path: &Path| {
        // What is still in the log goes to the file.
        let to_file = "PRAGMA wal_checkpoint(TRUNCATE)";
        Connection::open(path).unwrap().query_row(to_file, [], |_| Ok(())).unwrap();
        std::fs::read(path).unwrap()
    };
    Before { center: read(&center), remote: read(&file), token, folder }
});

fn user() -> UserName {
    UserName::new("ann").unwrap()
}

fn components(folder: &Path) -> Components {
    Components::system(folder).unwrap()
}

fn serve(center: &Path) -> Server {
    let url = Url::parse(&format!("sqlite:{}", center.display())).unwrap();
    let listen = vec!["tcp://127.0.0.1:0".to_owned()];
    let config = Config { listen, workers: 1, ..Config::default() };
    let components = server::Components::system(&config).unwrap();
    server::start(config, &url, components).unwrap()
}

fn synchronize(
    remote: &mut Remote,
    server: &Server,
    credential: Credential,
) -> Result<Report, Failure> {
    let request = Request { mode: Mode::Full, credential, client: "fuzz".into() };
    let address = server.addresses()[0].clone();
    let mut connect = || -> Result<Box<dyn Transport>, Failure> {
        let timeouts = Timeouts { connect: WAIT_MAX, receive: WAIT_MAX, send: WAIT_MAX };
        Ok(Box::new(tcp::connect(&address, timeouts)?))
    };
    remote.synchronize(&request, &mut connect, &mut |_| {})
}

pub(crate) fn run(bytes: &[u8]) {
    let before = &*BEFORE;
    // What is beside the files, such as locks, goes with them.
    let folder = tempfile::tempdir_in(before.folder.path()).unwrap();
    let (center, file) = (folder.path().join("center.db"), folder.path().join("remote.db"));
    std::fs::write(&center, &before.center).unwrap();
    std::fs::write(&file, &before.remote).unwrap();
    let connection = Connection::open(&file).unwrap();
    for edit in bytes.chunks(EDIT_BYTES).take(EDITS_MAX) {
        edit_table(&connection, edit);
    }
    drop(connection);
    let server = serve(&center);
    told(use_remote(&file, folder.path(), &server));
    server.drain();
}

/// What a user does with a remote.
fn use_remote(file: &Path, folder: &Path, server: &Server) -> Result<(), Failure> {
    let mut remote = Remote::open(file, components(folder))?;
    let token = || Credential::Token(BEFORE.token.clone());
    told(remote.status().map(|_| ()));
    told(remote.pending().map(|_| ()));
    told(remote.execute("UPDATE parent SET v = 'again'"));
    told(synchronize(&mut remote, server, token()).map(|_| ()));
    told(synchronize(&mut remote, server, token()).map(|_| ()));
    let rejects = remote.rejects();
    let ids: Vec<i64> = rejects.iter().flatten().map(|reject| reject.id).collect();
    told(rejects.map(|_| ()));
    told(remote.retry_rejects(&ids, true));
    told(remote.reset(true));
    told(synchronize(&mut remote, server, token()).map(|_| ()));
    remote.detach()
}

fn told(done: Result<(), Failure>) {
    if let Err(failure) = done {
        refusal::is_told(&failure);
    }
}

/// One edit; what SQLite refuses is not made.
fn edit_table(connection: &Connection, edit: &[u8]) {
    let byte = |at: usize| usize::from(edit.get(at).copied().unwrap_or_default());
    let names = texts(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'syncline\\_%'
         ESCAPE '\\' ORDER BY name",
    );
    let Some(table) = names.get(byte(0) % names.len().max(1)) else { return };
    let columns = texts(connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
    let Some(column) = columns.get(byte(1) % columns.len().max(1)) else { return };
    let rows = connection
        .query_row(&format!("SELECT count(*) FROM \"{table}\""), [], |row| row.get::<_, i64>(0));
    let row = i64::from(edit.get(2).copied().unwrap_or_default()) % rows.unwrap_or(0).max(1);
    let place = format!("SELECT \"{column}\" FROM \"{table}\" ORDER BY 1 LIMIT 1 OFFSET {row}");
    let here = format!("WHERE \"{column}\" IS ({place})");
    let (sql, value) = match byte(3) % 16 {
        0 => (format!("DELETE FROM \"{table}\" {here}"), None),
        1 => (format!("DELETE FROM \"{table}\""), None),
        2 => (format!("DROP TABLE \"{table}\""), None),
        3 => (format!("ALTER TABLE \"{table}\" RENAME COLUMN \"{column}\" TO other"), None),
        4 => (format!("ALTER TABLE \"{table}\" DROP COLUMN \"{column}\""), None),
        5 => (format!("INSERT INTO \"{table}\" SELECT * FROM \"{table}\""), None),
        6 => (format!("INSERT INTO \"{table}\" DEFAULT VALUES"), None),
        kind => {
            let old = connection.query_row(&place, [], |row| row.get(0)).unwrap_or(Value::Null);
            let value = other_value(kind, &old, byte(4), byte(5));
            (format!("UPDATE OR REPLACE \"{table}\" SET \"{column}\" = ?1 {here}"), Some(value))
        }
    };
    // Whether the edit can be made is a matter of SQLite.
    let _ = connection.execute(&sql, params_from_iter(value));
}

fn other_value(kind: usize, old: &Value, at: usize, by: usize) -> Value {
    let numbers = [0, 1, -1, 2, i64::from(u32::MAX), i64::MAX, i64::MIN, 1 << 40];
    match kind {
        7 => Value::Null,
        8 => Value::Integer(numbers[at % numbers.len()]),
        9 => Value::Real([0.5, -1.0, f64::MAX, f64::INFINITY][at % 4]),
        10 => Value::Text(["", "x", "[]", "{}", "null", "[1]", "\u{e4}"][at % 7].to_owned()),
        11 => Value::Blob(vec![by as u8; at]),
        _ => match old.clone() {
            Value::Integer(number) => Value::Integer(number ^ (1 << (at % 64))),
            Value::Text(text) => {
                let mut letters: Vec<char> = text.chars().collect();
                let count = letters.len().max(1);
                match kind {
                    12 => letters.truncate(at * 7 % count),
                    _ => letters.iter_mut().skip(at * 7 % count).take(1).for_each(|letter| {
                        *letter = char::from(by as u8);
                    }),
                }
                Value::Text(letters.into_iter().collect())
            }
            Value::Blob(mut bytes) => {
                let count = bytes.len().max(1);
                match kind {
                    12 => bytes.truncate(at % count),
                    _ => bytes.iter_mut().skip(at % count).take(1).for_each(|it| *it ^= by as u8),
                }
                Value::Blob(bytes)
            }
            other => other,
        },
    }
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
