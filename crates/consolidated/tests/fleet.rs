//! What an operator sees of the remotes that a center knows; on every database.

#![allow(clippy::unwrap_used)]

#[path = "support/center.rs"]
#[allow(dead_code, reason = "no test needs all of it")]
mod center;

use center::{Backend, Center, Remote, Upload, int, text};
use consolidated::administer;

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
