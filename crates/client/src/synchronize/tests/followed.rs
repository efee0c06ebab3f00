//! Values that pass from row to row at a center that checks no foreign keys.

use super::sync_as;
use crate::testing::Site;
use crate::testing::center::Center;
use protocol::Mode;

const ACTIONS: [&str; 3] = ["CASCADE", "SET NULL", "NO ACTION"];

/// Parents with a UNIQUE code, children by that code, and theirs by their key.
fn joined(action: &str) -> (Center, Site) {
    let center = Center::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, code TEXT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, code TEXT);
         CREATE TABLE g(id INTEGER PRIMARY KEY, c INT);
         INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO c VALUES (10, 'a'), (20, 'b');
         INSERT INTO g VALUES (100, 10)",
    );
    let mut site = Site::empty();
    site.write(&format!(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, code TEXT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY,
            code TEXT REFERENCES p(code) ON UPDATE {action} ON DELETE {action});
         CREATE TABLE g(id INTEGER PRIMARY KEY, c INT REFERENCES c)"
    ));
    sync_as(&mut site.remote, &center, Mode::Full, &mut |_| {}).unwrap();
    (center, site)
}

// S3, S4, Trap 10: the children stay at the center, and the file's own foreign keys let them
// follow. One synchronization leaves both sides equal, whatever part of one it is.
#[test]
fn children_that_have_followed_a_value_are_received_again() {
    for mode in [Mode::Full, Mode::DownloadOnly] {
        for action in ACTIONS {
            let (center, mut site) = joined(action);
            for change in [
                "UPDATE p SET code = 'x' WHERE id = 1; UPDATE p SET code = 'a' WHERE id = 2;
                 UPDATE p SET code = 'b' WHERE id = 1",
                "UPDATE p SET code = 'new' WHERE id = 1; INSERT INTO p VALUES (3, 'b')",
                "DELETE FROM p WHERE id = 2; INSERT INTO p VALUES (4, 'a')",
            ] {
                center.write(change);
                sync_as(&mut site.remote, &center, mode, &mut |_| {}).unwrap();
                for table in ["p", "c", "g"] {
                    let sql = format!("SELECT * FROM {table}");
                    assert_eq!(site.rows(&sql), center.rows(&sql), "{action}: {change}");
                }
                assert_eq!(site.remote.pending().unwrap(), []);
                let received = site.remote.status().unwrap().tables;
                assert!(received.iter().all(|table| table.received), "{action}: {change}");
            }
        }
    }
}
