//! One seed, one run.

use super::workload::{Mode, check, disk, write};
use model::Clock;
use simulation::vfs::{Chance, Count};

const WAL: Mode = Mode { journal: "wal", synchronous: "FULL" };

/// What follows from a run: the operations, the files, the time.
fn run(seed: u64, mode: Mode) -> (u64, u64, u64) {
    let _chance = Chance::seed(seed);
    let (disk, time) = disk(seed);
    mode.prepare(&disk);
    let mut committed = 0;
    disk.die_at(Count::Changes, 150);
    write(&disk, mode, &mut committed).unwrap_err();
    disk.cut_power();
    check(&disk, mode, &mut committed);
    disk.fail_one_in(300);
    let _ = write(&disk, mode, &mut committed);
    (disk.fingerprint(), disk.image().fingerprint(), time.monotonic_ms())
}

#[test]
fn a_run_can_be_repeated_and_another_seed_is_another_run() {
    for mode in [WAL, Mode { journal: "delete", synchronous: "EXTRA" }] {
        assert_eq!(run(7, mode), run(7, mode));
        assert_ne!(run(7, mode), run(8, mode));
    }
}

/// Nobody can give a lock back while another waits for it: the wait ends, in virtual time.
#[test]
fn waiting_for_a_lock_ends_busy_and_only_virtual_time_passes() {
    let _chance = Chance::seed(1);
    let (disk, time) = disk(1);
    for mode in [Mode { journal: "delete", synchronous: "FULL" }, WAL] {
        let (one, other) = (mode.open(&disk).unwrap(), mode.open(&disk).unwrap());
        one.execute_batch("CREATE TABLE IF NOT EXISTS t (a); BEGIN IMMEDIATE").unwrap();
        let before = time.monotonic_ms();
        let error = other.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        assert!(time.monotonic_ms() >= before + 4_000);
        one.execute_batch("COMMIT").unwrap();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT").unwrap();
    }
}

#[test]
fn sqlite_takes_time_and_chance_from_the_world() {
    let drawn = |seed| {
        let _chance = Chance::seed(seed);
        let (disk, _) = disk(seed);
        let connection = WAL.open(&disk).unwrap();
        let query = "SELECT hex(randomblob(8)), datetime('now')";
        connection
            .query_row(query, [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .unwrap()
    };
    assert_eq!(drawn(3), drawn(3));
    assert_ne!(drawn(3).0, drawn(4).0);
    assert_eq!(drawn(3).1, "2023-11-14 22:13:20");
}
