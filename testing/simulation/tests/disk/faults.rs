//! Disks that are full, that fail, and programs that are killed.

use super::workload::{Damage, Mode, check, disk, write};
use rusqlite::ErrorCode;
use simulation::vfs::{Chance, Count};

const MODES: [Mode; 4] = [
    Mode { journal: "wal", synchronous: "FULL" },
    Mode { journal: "delete", synchronous: "FULL" },
    Mode { journal: "truncate", synchronous: "FULL" },
    Mode { journal: "persist", synchronous: "FULL" },
];

#[test]
fn a_full_disk_says_so_and_goes_on_when_there_is_room() {
    for (mode, seed) in MODES.iter().flat_map(|mode| (0..8).map(move |seed| (*mode, seed))) {
        let _chance = Chance::seed(seed);
        let (disk, _) = disk(seed);
        mode.prepare(&disk);
        disk.limit(Some(30_000 + seed * 9_876));
        let mut committed = 0;
        let error = write(&disk, mode, &mut committed).unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::DiskFull), "{mode:?} {seed} {error}");
        disk.limit(None);
        assert_eq!(check(&disk, mode, &mut committed), Damage::default(), "{mode:?} {seed}");
        write(&disk, mode, &mut committed).unwrap();
        assert_eq!(check(&disk, mode, &mut committed), Damage::default(), "{mode:?} {seed}");
    }
}

/// Every operation of some work fails once, in a run of its own.
#[test]
fn an_operation_that_fails_leaves_an_intact_file() {
    for mode in MODES {
        let (mut failed, mut nth) = (0, 1);
        loop {
            let _chance = Chance::seed(nth);
            let (disk, _) = disk(nth);
            mode.prepare(&disk);
            let before = disk.count(Count::Operations);
            disk.fail_at(Count::Operations, nth);
            let mut committed = 0;
            failed += u32::from(write(&disk, mode, &mut committed).is_err());
            let done = disk.count(Count::Operations) - before;
            disk.heal();
            assert_eq!(check(&disk, mode, &mut committed), Damage::default(), "{mode:?} {nth}");
            if nth > done {
                break;
            }
            nth += 23;
        }
        assert!(failed > 5, "{mode:?}: {failed} of {nth}");
    }
}

#[test]
fn a_program_that_is_killed_at_an_operation_loses_no_commit() {
    for mode in MODES {
        for nth in (1..400).step_by(9) {
            let _chance = Chance::seed(nth);
            let (disk, _) = disk(nth);
            mode.prepare(&disk);
            disk.die_at(Count::Operations, nth);
            let mut committed = 0;
            write(&disk, mode, &mut committed).unwrap_err();
            assert!(disk.is_dead());
            disk.restart();
            assert_eq!(check(&disk, mode, &mut committed), Damage::default(), "{mode:?} {nth}");
        }
    }
}
