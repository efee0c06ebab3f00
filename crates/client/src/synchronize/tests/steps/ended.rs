//! A conversation that ends between any two steps, as an app that is killed.

use super::{Conduct, assert_equal, assert_nothing_doubled, drive, joined, noting, request, sync};
use crate::testing::Site;
use crate::testing::center::Center;
use protocol::Mode;

/// Rows that do not fit with Hello, in several frames.
const LARGE: &str = "WITH RECURSIVE n(i) AS (VALUES (100) UNION ALL SELECT i + 1 FROM n
    WHERE i < 6000) INSERT INTO t SELECT i, hex(zeroblob(64)) FROM n;";

fn changed(large: bool) -> (Site, Center) {
    let center = noting();
    let site = joined(&center);
    site.write(
        "INSERT INTO t VALUES (2, 'two'), (3, 'three'); UPDATE t SET v = 'ONE' WHERE id = 1",
    );
    if large {
        site.write(LARGE);
    }
    center.write("INSERT INTO t VALUES (9, 'nine')");
    (site, center)
}

/// Ends after `steps_max` steps; false where that is never reached.
fn ends_and_goes_on(large: bool, conduct: Conduct) -> bool {
    let (mut site, center) = changed(large);
    let driven = drive(&mut site.remote, &center, request(Mode::Full), conduct);
    let was_ended = !matches!(driven.result, Some(Ok(_)));
    let mut site = site.opened_again();
    site.write("UPDATE t SET v = 'III' WHERE id = 3; INSERT INTO t VALUES (4, 'four')");
    sync(&mut site, &center).unwrap();
    assert_equal(&site, &center);
    assert_eq!(
        site.rows("SELECT v FROM t WHERE id IN (1, 2, 3, 4, 9) ORDER BY id"),
        ["'ONE'", "'two'", "'III'", "'four'", "'nine'"]
    );
    let count = site.rows("SELECT count(*) FROM t");
    assert_eq!(count, [if large { "5906" } else { "5" }]);
    // Each change came once: a row as it was when it was frozen, and what was made later.
    assert_nothing_doubled(&center, &format!("{conduct:?}"));
    was_ended
}

fn everywhere(large: bool, loses: bool, bytes_max: usize) {
    for last_is_sent in [false, true] {
        let mut steps_max = 0;
        loop {
            steps_max += 1;
            let conduct =
                Conduct { bytes_max, steps_max, last_is_sent, loses, ..Conduct::default() };
            if !ends_and_goes_on(large, conduct) {
                break;
            }
        }
        assert!(steps_max >= 4, "it had steps");
    }
}

// S1, S4: the app dies between any two steps, whether or not its last bytes have left.
#[test]
fn a_conversation_that_is_dropped_anywhere_loses_and_doubles_nothing() {
    everywhere(false, false, usize::MAX);
    everywhere(false, false, 40);
}

// S1
#[test]
fn a_connection_that_is_lost_after_any_step_loses_and_doubles_nothing() {
    everywhere(false, true, usize::MAX);
    everywhere(false, true, 40);
}

// S1, S4
#[test]
fn a_large_upload_that_is_dropped_between_any_two_frames_loses_and_doubles_nothing() {
    everywhere(true, false, usize::MAX);
}
