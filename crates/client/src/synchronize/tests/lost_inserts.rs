//! New rows of this remote that lose their keys to rows of another one.
//!
//! The application goes on with them before it has heard.

use super::{sync, sync_as};
use crate::synchronize::Step;
use crate::testing::Site;
use crate::testing::center::Center;
use harness::Fault;
use model::Code;
use protocol::Mode;

const ORDERS: &str = "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT);
    CREATE TABLE line(id TEXT PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders ON DELETE
        CASCADE, n INT);
    CREATE TABLE remark(id TEXT PRIMARY KEY, line_id TEXT REFERENCES line ON DELETE CASCADE);
    INSERT INTO orders VALUES (7, 'Evans'); INSERT INTO line VALUES ('g', 7, 1)";

/// A remote that knows nothing of the order of another one.
fn joined() -> (Center, Site) {
    let sections = "[table.orders]\nconflict = \"merge\"\n[table.line]\nconflict = \"merge\"\n\
                    [table.remark]\n";
    let center = Center::publishing(ORDERS, Some(sections));
    let mut site = Site::empty();
    sync(&mut site, &center).unwrap();
    center.write("INSERT INTO orders VALUES (1, 'Adams'); INSERT INTO line VALUES ('a', 1, 1)");
    (center, site)
}

fn told(site: &Site) -> Vec<String> {
    let rejects = site.remote.rejects().unwrap();
    let told = rejects
        .into_iter()
        .map(|it| format!("{} {} E{} {}", it.table, it.key, it.code, it.row.unwrap_or_default()));
    let mut told: Vec<String> = told.collect();
    told.sort();
    told
}

/// What the application enters while it waits for the answer.
const LATER: &str = "INSERT INTO line VALUES ('c', 1, 3), ('d', 7, 4);
    INSERT INTO remark VALUES ('of b', 'b'), ('of c', 'c'), ('of d', 'd');
    UPDATE line SET order_id = 1 WHERE id = 'g'; UPDATE line SET n = 22 WHERE id = 'b';
    UPDATE orders SET customer = 'Bruno' WHERE id = 1";

/// Both ends have the order of the other remote, with its line, and what belongs to no order of
/// this one.
fn assert_settled(center: &Center, site: &mut Site) {
    sync(site, center).unwrap();
    assert_eq!(site.remote.pending().unwrap(), []);
    for (sql, wanted) in [
        ("SELECT * FROM orders ORDER BY id", &["1, 'Adams'", "7, 'Evans'"][..]),
        ("SELECT * FROM line ORDER BY id", &["'a', 1, 1", "'d', 7, 4", "'g', 7, 1"]),
        ("SELECT * FROM remark", &["'of d', 'd'"]),
    ] {
        assert_eq!(site.rows(sql), wanted, "{sql}");
        assert_eq!(center.rows(sql), wanted, "{sql}");
    }
    let refused = [
        (r#"line {"id":"b"} E7008"#, r#""n":22"#),
        (r#"line {"id":"c"} E7008"#, r#""n":3"#),
        (r#"line {"id":"g"} E7008"#, r#""order_id":1"#),
        (r#"orders {"id":1} E7007"#, "Brun"),
        (r#"remark {"id":"of b"} E7008"#, r#""line_id":"b""#),
        (r#"remark {"id":"of c"} E700"#, r#""line_id":"c""#),
    ];
    let told = told(site);
    assert!(told.iter().any(|it| it.contains("Brun")), "{told:?}");
    for (head, content) in refused {
        let one = told.iter().find(|it| it.starts_with(head) && it.contains(content));
        assert!(one.is_some(), "{head} {content}: {told:#?}");
    }
}

// S5: it became part of the order of somebody else.
#[test]
fn what_is_entered_while_the_answer_is_under_way_is_rejected_here() {
    let (center, mut site) = joined();
    site.write("INSERT INTO orders VALUES (1, 'Brun'); INSERT INTO line VALUES ('b', 1, 2)");
    let (path, mut written) = (site.path(), false);
    let report = sync_as(&mut site.remote, &center, Mode::Full, &mut |step| {
        if let Step::Waiting = step
            && !written
        {
            written = true;
            let application = rusqlite::Connection::open(&path).unwrap();
            application.execute_batch(&format!("PRAGMA foreign_keys = ON; {LATER}")).unwrap();
        }
    })
    .unwrap();
    assert!(written && report.rejected > 0, "{report:?}");
    assert_settled(&center, &mut site);
}

// S5, S1: the center has answered, and the remote did not hear it.
#[test]
fn what_is_entered_after_the_answer_was_lost_is_rejected_by_the_center() {
    for fault in [Fault::AfterCommit, Fault::AfterAcknowledgement, Fault::WithinDownload] {
        let (center, mut site) = joined();
        site.write("INSERT INTO orders VALUES (1, 'Brun'); INSERT INTO line VALUES ('b', 1, 2)");
        center.proxy.strike(fault);
        sync(&mut site, &center).unwrap_err();
        site.write(LATER);
        sync(&mut site, &center).unwrap();
        assert_settled(&center, &mut site);
    }
}

// The remote has heard, and has the order of the other one: what it adds belongs to that.
#[test]
fn what_is_entered_afterwards_belongs_to_the_row_that_is_there() {
    let (center, mut site) = joined();
    site.write("INSERT INTO orders VALUES (1, 'Brun')");
    assert_eq!(sync(&mut site, &center).unwrap().rejected, 1);
    assert_eq!(site.rows("SELECT customer FROM orders WHERE id = 1"), ["'Adams'"]);
    site.write("INSERT INTO line VALUES ('e', 1, 5)");
    assert_eq!(sync(&mut site, &center).unwrap().rejected, 0);
    assert_eq!(center.rows("SELECT order_id FROM line WHERE id = 'e'"), ["1"]);
    assert_eq!(site.remote.rejects().unwrap()[0].code, Code::RowKeyTaken.number());
}
