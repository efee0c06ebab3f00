//! Numbers to which two remotes add, over connections that end anywhere.

use super::{assert_equal, rows, sync, sync_as};
use crate::testing::Site;
use crate::testing::center::Center;
use harness::Fault;
use protocol::Mode;
use rusqlite::Connection;

const FAULTS: [Fault; 5] = [
    Fault::BeforeCommit,
    Fault::AfterCommit,
    Fault::AfterAcknowledgement,
    Fault::WithinDownload,
    Fault::Miscount,
];

const SELL: &str = "UPDATE t SET n = n - 1";

/// Two remotes with one stock of a hundred.
fn sharing() -> (Center, [Site; 2]) {
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 100)";
    let center = Center::publishing(sql, Some("[table.t]\nconflict = { add = \"n\" }\n"));
    let sites = [(); 2].map(|()| {
        let mut site = Site::empty();
        sync(&mut site, &center).unwrap();
        site
    });
    (center, sites)
}

fn assert_left(center: &Center, sites: &mut [Site; 2], left: u32, place: &str) {
    // Each hears of what the other has sold.
    for at in [0, 1, 0] {
        sync(&mut sites[at], center).unwrap();
    }
    for site in sites {
        assert_equal(site, center);
        assert_eq!(rows(site), [format!("1, {left}")], "{place}");
    }
}

// S1, S5: whatever was sold is counted once. Each time both sell the same.
#[test]
fn every_sale_counts_once_wherever_the_connection_ends() {
    for first in FAULTS {
        for second in FAULTS {
            let (center, mut sites) = sharing();
            let [one, two] = &mut sites;
            for fault in [first, second] {
                one.write(SELL);
                two.write(SELL);
                sync(two, &center).unwrap();
                center.proxy.strike(fault);
                sync(one, &center).unwrap_err();
                one.write(SELL);
            }
            sync(one, &center).unwrap();
            assert_left(&center, &mut sites, 94, &format!("{first:?} {second:?}"));
        }
    }
}

// S1, S5: what comes for a row with a new change is no change of its number.
#[test]
fn a_sale_during_a_synchronization_counts_once() {
    let (center, mut sites) = sharing();
    let [one, two] = &mut sites;
    let mut sold = 0;
    for _ in 0..3 {
        two.write(SELL);
        sync(two, &center).unwrap();
        let application = Connection::open(one.path()).unwrap();
        one.write(SELL);
        sold += 2;
        sync_as(&mut one.remote, &center, Mode::Full, &mut |_| {
            sold += u32::from(application.execute(SELL, []).is_ok());
        })
        .unwrap();
    }
    assert!(sold > 12, "{sold} sales");
    assert_left(&center, &mut sites, 100 - sold, "while it synchronizes");
}
