//! A server in this process, and uploads of many rows with wide keys to it.

use super::{ALLOCATOR, PROGRAM};
use harness::{Peer, World, full, hello};
use model::{Progress, ValueRef, write_value};
use protocol::{Message, Mode, Operation, RowsFrame, UploadBegin, UploadEnd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The memory for streams.
const STREAM_MEMORY: u64 = 1 << 20;

/// What the server may take of memory beside it: the rows that wait for others, and at SQLite a few
/// frames, at PostgreSQL batches of 4 MiB as rows, as parameters and as messages.
const BESIDE_SQLITE: usize = WAITING + (5 << 20);
const BESIDE_POSTGRES: usize = 2 * WAITING + (40 << 20);

/// Bytes of rows of an upload that may wait for others. PostgreSQL has them in statements too.
const WAITING: usize = 16 << 20;

/// Characters of a key.
const KEY_CHARS: usize = 4_000;

/// How often what is allocated is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Whoever measures is alone: all of the process is measured.
static ALONE: Mutex<()> = Mutex::new(());

/// Rows of a table in an upload. Held in memory, the keys of all of them are more than the server
/// may take.
fn rows_on(world: &World) -> u32 {
    match world.consolidated().exists() {
        true if full() => 12_000,
        true => 4_000,
        false => 12_000,
    }
}

/// A key, which differs from others at its beginning.
pub(crate) fn key(kind: &str, n: u32) -> String {
    format!("{kind}{n:06}{}", "k".repeat(KEY_CHARS))
}

/// The same in SQL, of a number `n`.
pub(crate) fn key_sql(kind: &str) -> String {
    let padding = "k".repeat(KEY_CHARS);
    format!("'{kind}' || substr(CAST(1000000 + n AS TEXT), 2) || '{padding}'")
}

/// A value of an uploaded row.
pub(crate) enum Cell {
    Number(i64),
    Text(String),
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Number(number)
    }
}

/// Rows of one table with one change: the images of the row with each number.
pub(crate) struct Part<'p> {
    pub(crate) table: &'p str,
    pub(crate) operation: Operation,
    pub(crate) row: &'p dyn Fn(u32) -> Vec<Cell>,
}

/// What came of an upload.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) rejected: u64,
}

/// A server in this process.
pub(crate) struct Site {
    pub(crate) world: World,
    /// Rows of a table in an upload.
    pub(crate) rows: u32,
    server: server::Server,
}

impl Site {
    /// Runs a test with these tables, and rows that are made by SQL with `n` from 1 on. At
    /// PostgreSQL so many rows are necessary that only the full tests have the time.
    pub(crate) fn each(tables: &str, rows: &[String], test: impl Fn(&Site)) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut worlds = vec![World::new(PROGRAM, tables)];
        worlds.extend(full().then(|| World::on_postgres(PROGRAM, tables)));
        for world in worlds {
            world.add_user("ann");
            for insert in rows {
                world.center_sql(&format!(
                    "WITH RECURSIVE number(n) AS (
                         SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {})
                     INSERT INTO {insert} FROM number",
                    rows_on(&world),
                ));
            }
            let site = Site::around(world);
            test(&site);
            site.server.drain();
        }
    }

    fn around(world: World) -> Site {
        let text = std::fs::read_to_string(world.path("syncline.toml")).unwrap();
        let line = text.lines().find(|line| line.starts_with("consolidated = ")).unwrap();
        let url = consolidated::Url::parse(line.split('"').nth(1).unwrap()).unwrap();
        let config = server::Config {
            listen: vec!["tcp://127.0.0.1:0".to_owned()],
            stream_memory_bytes_max: STREAM_MEMORY,
            ..server::Config::default()
        };
        let components = server::Components::system(&config).unwrap();
        let rows = rows_on(&world);
        Site { world, rows, server: server::start(config, &url, components).unwrap() }
    }

    /// Uploads rows as a remote that knows nothing, and sees that the server has not taken too much
    /// memory meanwhile.
    pub(crate) fn upload(&self, parts: &[Part<'_>]) -> Committed {
        let hello = protocol::Hello { mode: Mode::UploadOnly, ..hello("ann", "remote") };
        let (mut peer, _) = Peer::greeting(&self.server.addresses()[0], hello);
        let Some(Message::SchemaChange(change)) = peer.receive() else {
            panic!("there is no schema");
        };
        let position = |name: &str| change.schema.tables.iter().position(|it| it.name == name);
        self.measured("an upload", || {
            let (previous, progress) = (Progress(0), Progress(1));
            peer.send(&Message::UploadBegin(UploadBegin { previous, progress }));
            for part in parts {
                self.send(&mut peer, position(part.table).unwrap(), part);
            }
            let rows = u64::from(self.rows) * parts.len() as u64;
            peer.send(&Message::UploadEnd(UploadEnd { rows }));
            match peer.receive() {
                Some(Message::UploadCommitted(said)) => Committed { rejected: said.rejected },
                other => panic!("{other:?}"),
            }
        })
    }

    /// Sends rows in frames of about a hundred.
    fn send(&self, peer: &mut Peer, table: usize, part: &Part<'_>) {
        for first in (1..=self.rows).step_by(100) {
            let last = (first + 100).min(self.rows + 1);
            let mut bytes = Vec::new();
            for cell in (first..last).flat_map(part.row) {
                write_value(
                    &mut bytes,
                    match &cell {
                        Cell::Number(number) => ValueRef::Integer(*number),
                        Cell::Text(text) => ValueRef::Text(text.as_bytes()),
                    },
                );
            }
            let (table, count) = (u16::try_from(table).unwrap(), last - first);
            peer.send(&Message::Rows(RowsFrame { table, operation: part.operation, count, bytes }));
        }
    }

    /// Synchronizes ann's remote, and returns what was said of it. From the second time on no
    /// password is checked, which takes 19 MiB.
    pub(crate) fn synchronize(&self) -> serde_json::Value {
        let server = &self.server.addresses()[0];
        let mut arguments = vec!["sync", "ann.db", "--server", server, "--user", "ann", "--json"];
        arguments.extend(["--token-file", "ann.token"]);
        if !self.world.path("ann.token").exists() {
            arguments.extend(["--password-file", "ann.password"]);
        }
        self.world.syncline.json(&arguments)
    }

    /// The same, and sees that the server has not taken too much memory meanwhile.
    pub(crate) fn synchronize_measured(&self) -> serde_json::Value {
        self.measured("a synchronization", || self.synchronize())
    }

    /// Does something, and sees that no more is allocated for it at any time than may be.
    fn measured<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let (before, ended) = (allocated(), AtomicBool::new(false));
        let (result, peak) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut peak = before;
                while !ended.load(Ordering::Relaxed) {
                    peak = peak.max(allocated());
                    std::thread::sleep(LOOK_EVERY);
                }
                peak
            });
            let result = work();
            ended.store(true, Ordering::Relaxed);
            (result, looking.join().unwrap())
        });
        let taken = peak.saturating_sub(before);
        println!("{what} of {} rows: {taken} bytes", self.rows);
        let beside = match self.world.consolidated().exists() {
            true => BESIDE_SQLITE,
            false => BESIDE_POSTGRES,
        };
        assert!(taken < STREAM_MEMORY as usize + beside, "{what}: {taken} bytes");
        result
    }

    /// The one number that a query at the consolidated database answers.
    pub(crate) fn count(&self, sql: &str) -> i64 {
        self.world.center_count(sql)
    }
}

/// Bytes that are allocated now.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}
