//! What an operator sees of the remotes that a center knows; on every database.

use crate::support::center::{Backend, Center, Remote, Upload, int, text};
use model::{Counter, Nonce, RemoteId};
use syncline_consolidated::{Acknowledgement, administer};

/// From so many rows on they are owed in bundles.
const MANY: i64 = 60;

fn update(id: i64, old: &str, new: &str) -> Upload {
    Upload::Update("t", vec![int(id), text(old)], vec![int(id), text(new)])
}

fn owed(center: &Center) -> i64 {
    let remotes = administer(&center.url).unwrap().remotes(None).unwrap();
    remotes.iter().find(|remote| remote.remote_id == "r").unwrap().owed
}

// Trap 5: a row that was owed in a bundle, and is owed again before that is settled, is one row.
#[test]
fn a_row_that_is_owed_again_is_counted_once() {
    Backend::each(|backend| {
        let mut center =
            Center::on(backend, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);", "[table.t]\n");
        for id in 1..=MANY {
            center.foreign(&format!("INSERT INTO t VALUES ({id}, 'old')"));
        }
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE t SET a = 'theirs'");
        let lost: Vec<Upload> = (1..=MANY).map(|id| update(id, "old", "mine")).collect();
        center.upload(&mut remote, &lost).unwrap();
        assert_eq!(owed(&center), MANY, "{backend:?}");
        // The download was lost, and three of these rows lose once more, with one that is new.
        center.foreign("INSERT INTO t VALUES (1000, 'theirs')");
        let mut again: Vec<Upload> = (1..=3).map(|id| update(id, "mine", "again")).collect();
        again.push(Upload::Insert("t", vec![int(1000), text("mine")]));
        center.upload(&mut remote, &again).unwrap();
        assert_eq!(owed(&center), MANY + 1, "{backend:?}");
    });
}

fn acknowledged(center: &mut Center, said: &Acknowledgement) -> i64 {
    center.writer.begin().unwrap();
    center.writer.acknowledge(said).unwrap();
    center.writer.commit().unwrap();
    administer(&center.url).unwrap().remotes(None).unwrap()[0].acknowledged
}

// S8, Trap 3, Trap 30: what is forged, late or of another life of the database changes nothing.
#[test]
fn an_acknowledgement_counts_for_this_very_download() {
    Backend::each(|backend| {
        let create = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);";
        let mut center = Center::on(backend, create, "[table.t]\n");
        let mut remote = Remote::new("r");
        let nonce = remote.identity.nonce_attempt;
        let (applied, _) = center.synchronize(&mut remote, &[]);
        let remote_id = RemoteId::new("r").unwrap();
        let (epoch, counter, incarnation) = (applied.epoch, applied.counter, applied.incarnation);
        let good =
            || Acknowledgement { remote_id: remote_id.clone(), epoch, counter, nonce, incarnation };
        for forged in [
            Acknowledgement { remote_id: RemoteId::new("other").unwrap(), ..good() },
            Acknowledgement { epoch: epoch + 1, ..good() },
            Acknowledgement { counter: Counter(counter.0 + 1), ..good() },
            Acknowledgement { counter: Counter(0), ..good() },
            Acknowledgement { nonce: Nonce(nonce.0 + 1), ..good() },
            Acknowledgement { incarnation: incarnation ^ 1, ..good() },
        ] {
            assert_eq!(acknowledged(&mut center, &forged), 0, "{backend:?} {forged:?}");
        }
        assert_eq!(acknowledged(&mut center, &good()), 1, "{backend:?}");

        // The next one is said after another synchronization has begun, or a restore.
        let nonce = remote.identity.nonce_attempt;
        let (applied, _) = center.synchronize(&mut remote, &[]);
        let (epoch, counter) = (applied.epoch, applied.counter);
        let second = || Acknowledgement { epoch, counter, nonce, ..good() };
        administer(&center.url).unwrap().declare_restored().unwrap();
        assert_eq!(acknowledged(&mut center, &second()), 1, "{backend:?}");
        center.upload(&mut remote, &[]).unwrap();
        assert_eq!(acknowledged(&mut center, &second()), 1, "{backend:?}");
    });
}
