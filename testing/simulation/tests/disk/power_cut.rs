//! Power cuts: what SQLite promises holds on this disk, and what it does not promise is lost.

use super::workload::{Damage, Mode, cut_often};

fn cuts(journal: &'static str, synchronous: &'static str) -> Damage {
    let (damage, in_work) = cut_often(Mode { journal, synchronous }, 0..60);
    assert!(in_work > 50, "{in_work}");
    damage
}

#[test]
fn a_file_that_syncs_fully_loses_nothing() {
    assert_eq!(cuts("wal", "FULL"), Damage::default());
    assert_eq!(cuts("truncate", "FULL"), Damage::default());
    assert_eq!(cuts("persist", "FULL"), Damage::default());
    assert_eq!(cuts("delete", "EXTRA"), Damage::default());
}

/// The end of a journal is a name that is gone, and only EXTRA brings that to the disk.
#[test]
fn a_deleted_journal_comes_back_unless_the_folder_is_synced() {
    let damage = cuts("delete", "FULL");
    assert!(damage.lost > 0, "{damage:?}");
    assert_eq!((damage.torn, damage.corrupt), (0, 0));
}

#[test]
fn a_wal_that_is_not_synced_at_commits_loses_commits_and_nothing_else() {
    let damage = cuts("wal", "NORMAL");
    assert!(damage.lost > 0, "{damage:?}");
    assert_eq!((damage.torn, damage.corrupt), (0, 0));
}

#[test]
fn a_file_that_never_syncs_is_damaged() {
    for journal in ["delete", "wal"] {
        let damage = cuts(journal, "OFF");
        assert!(damage.corrupt > 0, "{journal} {damage:?}");
    }
}
