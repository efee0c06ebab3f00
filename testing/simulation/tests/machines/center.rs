//! Power cuts of a center.

use super::fleet::{CENTER, Fleet, disk, journal, url};
use consolidated::{DownloadBatch, Echo, FetchRequest, Serving, SyncModel, administer_on};
use model::{Counter, RemoteId, UserName};
use simulation::vfs::{Count, Disk};
use std::path::Path;
use std::sync::Arc;

/// Cuts the power at every `step`th change of the disk that a synchronization makes.
fn cut_at_changes(seed: u64, journal: &str) {
    let mut fleet = Fleet::new(seed, journal, "wal");
    for nth in 1.. {
        fleet.write();
        fleet.center.die_at(Count::Changes, nth);
        let is_whole = fleet.synchronize().is_ok();
        fleet.cut_center();
        fleet.write();
        fleet.synchronize().unwrap_or_else(|failure| panic!("{journal} {nth}: {failure:?}"));
        fleet.require_all();
        if is_whole {
            assert!(nth > 3, "{nth}");
            break;
        }
    }
}

// S1, S2, Trap 17
#[test]
fn a_power_cut_of_the_center_at_any_change_loses_nothing() {
    cut_at_changes(2, "wal");
}

// S1, S2, Trap 17, Trap 27: another program has switched the log off. The commit that was
// acknowledged came back as a journal.
#[test]
fn what_the_center_has_acknowledged_survives_a_power_cut_without_a_log() {
    for seed in 0..20 {
        let mut fleet = Fleet::new(100 + seed, "delete", "wal");
        fleet.write();
        fleet.synchronize().unwrap();
        fleet.cut_center();
        fleet.require_all();
        fleet.write();
        fleet.synchronize().unwrap();
        fleet.require_all();
    }
    for seed in 0..3 {
        cut_at_changes(200 + seed, "delete");
    }
}

/// A center without a log, and nothing else.
fn without_log(seed: u64) -> Arc<Disk> {
    let disk = disk(seed);
    let application = disk.open(Path::new(CENTER)).unwrap();
    application.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY)").unwrap();
    let model = SyncModel::parse("script_version = \"v1\"\n[table.t]", "model.toml").unwrap();
    administer_on(&url(), disk.clone()).unwrap().deploy(&[model], false).unwrap();
    drop(application);
    journal(&disk, CENTER, "delete");
    disk
}

// S2: the journal of the commit came back.
#[test]
fn what_an_administrator_has_done_survives_a_power_cut_without_a_log() {
    for seed in 0..20 {
        let disk = without_log(300 + seed);
        let mut admin = administer_on(&url(), disk.clone()).unwrap();
        let user = UserName::new("ann").unwrap();
        admin.add_user(&user, "hash", &Default::default()).unwrap();
        drop(admin);
        disk.kill();
        disk.cut_power();
        let mut admin = administer_on(&url(), disk.clone()).unwrap();
        assert_eq!(admin.users().unwrap().len(), 1, "{seed}");
    }
}

// S2, Trap 27: a change of another program was sent to a remote, and its journal came back.
#[test]
fn what_was_downloaded_survives_a_power_cut_without_a_log() {
    for seed in 0..20 {
        let disk = without_log(400 + seed);
        let serving = Serving { disk: disk.clone(), ..Serving::default() };
        let mut reader = serving.open_reader(&url()).unwrap();
        let (user, remote) = (UserName::new("ann").unwrap(), RemoteId::new("r").unwrap());
        let session = reader.session(&user, Default::default(), &remote, None, &[]).unwrap();
        let application = disk.open(Path::new(CENTER)).unwrap();
        application.execute_batch("PRAGMA synchronous = FULL; INSERT INTO t VALUES (7)").unwrap();
        let request = FetchRequest {
            session: &session,
            counter: Counter(1),
            marks: &[],
            held_marks: &[],
            is_counted: false,
            echo: &Echo::default(),
            time_us: None,
            wanted: &[],
            batch_bytes: 1 << 20,
            batch_rows: 100,
            row_bytes_max: u64::MAX,
            resuming: Default::default(),
        };
        let mut rows = 0;
        reader
            .fetch(&request, &mut |batch| {
                if let DownloadBatch::Upserts { count, .. } = batch {
                    rows += count;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, 1);
        disk.kill();
        drop((reader, application));
        disk.cut_power();
        let connection = disk.open(Path::new(CENTER)).unwrap();
        let count = connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(count.unwrap(), 1, "{seed}");
    }
}
