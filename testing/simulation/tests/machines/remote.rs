//! Power cuts of a remote.

use super::fleet::Fleet;
use simulation::vfs::Count;

/// Cuts the power at every `step`th change of the disk that a synchronization makes.
fn cut_at_changes(journal: &str, step: usize) {
    let mut fleet = Fleet::new(1, "wal", journal);
    for nth in (1..).step_by(step) {
        fleet.write();
        fleet.site.die_at(Count::Changes, nth);
        let is_whole = fleet.synchronize().is_ok();
        fleet.cut_remote();
        // What is pending now is more than what may have arrived.
        fleet.write();
        fleet.synchronize().unwrap_or_else(|failure| panic!("{journal} {nth}: {failure:?}"));
        fleet.require_all();
        if is_whole {
            assert!(nth > 10, "{nth}");
            break;
        }
    }
}

// S1, S3, Trap 6
#[test]
fn a_power_cut_of_a_remote_at_any_change_loses_nothing_with_a_log() {
    cut_at_changes("wal", 1);
}

// S1, S3, Trap 6
#[test]
fn a_power_cut_of_a_remote_at_any_change_loses_nothing_with_a_journal() {
    cut_at_changes("delete", 1);
}
