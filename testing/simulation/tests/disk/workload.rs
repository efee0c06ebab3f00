//! Two programs that write to one file, and what of it must be there afterwards.

use rusqlite::Connection;
use simulation::vfs::{Chance, Count, Disk};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The rows of one transaction.
const ROWS: i64 = 5;
const BATCHES: i64 = 12;

pub(super) const PATH: &str = "/shop.db";

/// A clock that stands still unless SQLite sleeps.
#[derive(Debug, Default)]
pub(super) struct Time(AtomicU64);

impl model::Clock for Time {
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000 + self.0.load(Ordering::Relaxed) as i64
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) fn disk(seed: u64) -> (Disk, Arc<Time>) {
    let time = Arc::new(Time::default());
    let slept = time.clone();
    let sleep = move |by: Duration| {
        slept.0.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    };
    (Disk::new(seed, time.clone(), Arc::new(sleep)), time)
}

/// How a file is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    pub(super) journal: &'static str,
    pub(super) synchronous: &'static str,
}

impl Mode {
    pub(super) fn open(self, disk: &Disk) -> rusqlite::Result<Connection> {
        let connection = disk.open(Path::new(PATH))?;
        connection.pragma_update(None, "synchronous", self.synchronous)?;
        connection.pragma_update_and_check(None, "journal_mode", self.journal, |_| Ok(()))?;
        // Often, so that the database file changes too.
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 20, |_| Ok(()))?;
        // Small, so that pages reach the file before a transaction ends.
        connection.pragma_update(None, "cache_size", 8)?;
        Ok(connection)
    }

    /// An empty table, on the disk.
    pub(super) fn prepare(self, disk: &Disk) {
        let connection = self.open(disk).unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection
            .execute_batch(
                "CREATE TABLE line (batch INTEGER, nr INTEGER, text BLOB, PRIMARY KEY (batch, nr));
                 CREATE INDEX by_text ON line (text);",
            )
            .unwrap();
    }
}

/// Writes batches in turns through two connections until the disk fails; counts the commits that
/// SQLite reported in `committed`.
pub(super) fn write(disk: &Disk, mode: Mode, committed: &mut i64) -> rusqlite::Result<()> {
    let mut connections = [mode.open(disk)?, mode.open(disk)?];
    for batch in *committed..*committed + BATCHES {
        let connection = &mut connections[usize::from(batch % 2 == 1)];
        let transaction = connection.transaction()?;
        for nr in 0..ROWS {
            transaction.execute(
                "INSERT INTO line VALUES (?1, ?2, randomblob(100 + abs(random()) % 3000))",
                [batch, nr],
            )?;
        }
        transaction.execute("UPDATE line SET text = randomblob(900) WHERE nr = 2", [])?;
        transaction.commit()?;
        *committed += 1;
    }
    Ok(())
}

/// What is wrong with a file after a power cut.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) lost: u32,
    pub(super) torn: u32,
    pub(super) corrupt: u32,
}

/// Compares the file with what was committed; corrects `committed` to what there is.
pub(super) fn check(disk: &Disk, mode: Mode, committed: &mut i64) -> Damage {
    let looked = || -> rusqlite::Result<(String, i64, i64)> {
        let connection = mode.open(disk)?;
        let integrity =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
        let batches = connection.query_row(
            "SELECT ifnull(max(batch) + 1, 0), count(*) FROM line",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok((integrity, batches.0, batches.1))
    };
    let mut damage = Damage::default();
    match looked() {
        Ok((integrity, batches, rows)) if integrity == "ok" => {
            damage.torn += u32::from(rows != batches * ROWS);
            damage.lost += u32::from(batches < *committed);
            *committed = batches;
        }
        _ => damage.corrupt += 1,
    }
    damage
}

/// Cuts the power once for each seed, somewhere in the work, and adds up the damage.
pub(super) fn cut_often(mode: Mode, seeds: std::ops::Range<u64>) -> (Damage, u32) {
    let (mut sum, mut in_work) = (Damage::default(), 0);
    for seed in seeds {
        let _chance = Chance::seed(seed);
        let (disk, _) = disk(seed);
        mode.prepare(&disk);
        disk.die_at(Count::Changes, 1 + seed * 7 % 250);
        let mut committed = 0;
        in_work += u32::from(write(&disk, mode, &mut committed).is_err());
        disk.cut_power();
        let damage = check(&disk, mode, &mut committed);
        if damage == Damage::default() {
            // The file can be worked with, and not only read.
            write(&disk, mode, &mut committed).unwrap();
            assert_eq!(check(&disk, mode, &mut committed), Damage::default(), "seed {seed}");
        }
        sum.lost += damage.lost;
        sum.torn += damage.torn;
        sum.corrupt += damage.corrupt;
    }
    (sum, in_work)
}
