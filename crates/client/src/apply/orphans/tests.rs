//! Rows without a parent, on real files.

use crate::testing::{Site, int, text};
use model::{Code, Direction};

const SHOP: &str = "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE purchase(id INTEGER PRIMARY KEY,
        customer INT REFERENCES customer ON DELETE ACTION);
    CREATE TABLE line(id INTEGER PRIMARY KEY, purchase INT REFERENCES purchase ON DELETE ACTION);";

const ACTIONS: [&str; 5] = ["NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"];

fn shop(action: &str) -> Site {
    Site::new(&SHOP.replace("ACTION", action))
}

fn all(site: &Site) -> Vec<String> {
    let mut rows = site.rows("SELECT 'customer', id FROM customer ORDER BY 2");
    rows.extend(site.rows("SELECT 'purchase', id, customer FROM purchase ORDER BY 2"));
    rows.extend(site.rows("SELECT 'line', id, purchase FROM line ORDER BY 2"));
    rows
}

fn waiting(site: &Site) -> Vec<String> {
    site.rows("SELECT value FROM syncline_state WHERE name = 'orphans' AND value IS NOT NULL")
}

// S4, Trap 26: one orphan at the center, where foreign keys are off by default, kept every remote
// from every download (E5005), for ever.
#[test]
fn a_row_without_a_parent_waits_for_it_and_stops_nobody() {
    for action in ACTIONS {
        let mut site = shop(action);
        site.download()
            .upsert("customer", &[&[int(1), text("a")]])
            .upsert("purchase", &[&[int(10), int(1)], &[int(20), int(2)]])
            .upsert("line", &[&[int(100), int(10)], &[int(200), int(20)], &[int(300), int(30)]])
            .apply()
            .unwrap();
        let first = ["'customer', 1", "'purchase', 10, 1", "'line', 100, 10"];
        assert_eq!(all(&site), first, "{action}");
        assert_eq!(waiting(&site), ["3"]);
        assert_eq!(site.upload(), Vec::<String>::new(), "{action}");
        // A change of a row that waits, and a delete of another, find it.
        site.download()
            .upsert("line", &[&[int(200), int(10)]])
            .delete("line", &[&[int(300)]])
            .apply()
            .unwrap();
        assert_eq!(all(&site), [&first[..], &["'line', 200, 10"]].concat(), "{action}");
        assert_eq!(waiting(&site), ["1"]);
        // The parent comes.
        site.download().upsert("customer", &[&[int(2), text("b")]]).apply().unwrap();
        assert_eq!(
            all(&site),
            [
                "'customer', 1",
                "'customer', 2",
                "'purchase', 10, 1",
                "'purchase', 20, 2",
                "'line', 100, 10",
                "'line', 200, 10"
            ],
            "{action}"
        );
        assert_eq!(waiting(&site), Vec::<String>::new());
        assert_eq!(site.upload(), Vec::<String>::new(), "{action}");
    }
}

// S3, Trap 26: the parent is deleted where foreign keys are off. The remote's own foreign key
// deleted the children, and they were never sent again.
#[test]
fn children_of_a_deleted_parent_that_the_center_keeps_come_back_with_it() {
    for action in ACTIONS {
        let mut site = shop(action);
        site.write(
            "INSERT INTO customer VALUES (1, 'a'), (2, 'b');
             INSERT INTO purchase VALUES (10, 1), (20, 2);
             INSERT INTO line VALUES (100, 10), (200, 20);",
        );
        site.settle();
        site.download().delete("customer", &[&[int(2)]]).apply().unwrap();
        assert_eq!(all(&site), ["'customer', 1", "'purchase', 10, 1", "'line', 100, 10"]);
        assert_eq!(waiting(&site), ["2"], "{action}");
        assert_eq!(site.upload(), Vec::<String>::new(), "{action}");
        site.download().upsert("customer", &[&[int(2), text("again")]]).apply().unwrap();
        assert_eq!(all(&site).len(), 6, "{action}");
        // What the center deletes with its children, named by it, is gone.
        site.download()
            .delete("line", &[&[int(200)]])
            .delete("purchase", &[&[int(20)]])
            .delete("customer", &[&[int(2)]])
            .apply()
            .unwrap();
        assert_eq!(all(&site), ["'customer', 1", "'purchase', 10, 1", "'line', 100, 10"]);
        assert_eq!(waiting(&site), Vec::<String>::new(), "{action}");
    }
}

// S1, Trap 7: a change of such a row is uploaded first.
#[test]
fn a_changed_row_is_never_set_aside() {
    for action in ACTIONS {
        let mut site = shop(action);
        site.write("INSERT INTO customer VALUES (1, 'a'); INSERT INTO purchase VALUES (10, 1);");
        site.settle();
        site.write("INSERT INTO line VALUES (100, 10)");
        let failure = site.download().delete("customer", &[&[int(1)]]).apply().unwrap_err();
        assert_eq!(failure.code(), Code::ApplyBlocked, "{action}");
        assert_eq!(all(&site), ["'customer', 1", "'purchase', 10, 1", "'line', 100, 10"]);
        assert_eq!(site.upload(), ["insert line (100, 10)"]);
    }
}

// S3: a table that is sent as a whole contains its orphans again, or they were deleted.
#[test]
fn a_refresh_forgets_what_waits() {
    let mut site = shop("CASCADE");
    site.download()
        .upsert("purchase", &[&[int(10), int(1)]])
        .upsert("line", &[&[int(100), int(10)]])
        .apply()
        .unwrap();
    assert_eq!(waiting(&site), ["2"]);
    site.download()
        .refresh("purchase")
        .upsert("customer", &[&[int(1), text("a")]])
        .apply()
        .unwrap();
    assert_eq!(all(&site), ["'customer', 1"]);
    assert_eq!(waiting(&site), ["1"], "the line goes on waiting");
    site.download().upsert("purchase", &[&[int(10), int(1)]]).apply().unwrap();
    assert_eq!(all(&site), ["'customer', 1", "'purchase', 10, 1", "'line', 100, 10"]);
}

// S4, Trap 11: rows that refer to themselves or to each other in a ring, and to nothing in between.
#[test]
fn trees_and_rings_wait_as_a_whole() {
    let mut site = Site::new(
        "CREATE TABLE node(id TEXT PRIMARY KEY, up TEXT REFERENCES node ON DELETE CASCADE)
         WITHOUT ROWID;",
    );
    let ring: [&[model::Value]; 3] =
        [&[text("a"), text("b")], &[text("b"), text("a")], &[text("c"), text("gone")]];
    site.download()
        .upsert("node", &ring)
        .upsert("node", &[&[text("d"), text("c")], &[text("e"), text("d")]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT id FROM node"), ["'a'", "'b'"]);
    assert_eq!(waiting(&site), ["3"]);
    site.download().upsert("node", &[&[text("gone"), text("a")]]).apply().unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM node"), ["6"]);
    assert_eq!(waiting(&site), Vec::<String>::new());
}

// S3: a tree is deleted in several frames, parents first. Rows that a later frame named were set
// aside by an earlier one, and came back when all was deleted.
#[test]
fn a_row_that_a_later_frame_deletes_does_not_come_back() {
    let mut site = Site::new(
        "CREATE TABLE node(id INTEGER PRIMARY KEY, up INT REFERENCES node ON DELETE CASCADE);
         INSERT INTO node VALUES (1, NULL), (2, 1), (3, 2), (4, 3);",
    );
    site.download()
        .delete("node", &[&[int(1)]])
        .delete("node", &[&[int(2)]])
        .delete("node", &[&[int(3)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT id FROM node"), Vec::<String>::new());
    assert_eq!(waiting(&site), ["1"], "the center did not name the last one");
}

// S4, Trap 26: SQLite counts broken foreign keys. One that the application had broken, and that the
// download took back with its reject, made up for the orphan that had waited: it was committed
// among the others.
#[test]
fn a_broken_row_that_goes_hides_no_orphan() {
    for action in ACTIONS {
        let mut site = shop(action);
        site.download().upsert("purchase", &[&[int(20), int(2)]]).apply().unwrap();
        assert_eq!(waiting(&site), ["1"], "{action}");
        site.write("PRAGMA foreign_keys = OFF; INSERT INTO purchase VALUES (30, 3)");
        assert_eq!(site.upload(), ["insert purchase (30, 3)"]);
        site.download()
            .reject("purchase", &[int(30)], 1, Code::RowReferences)
            .delete("purchase", &[&[int(30)]])
            .apply()
            .unwrap();
        assert_eq!(all(&site), Vec::<String>::new(), "{action}");
        assert_eq!(waiting(&site), ["1"], "{action}");
    }
}

// S2, Trap 26: a parent that comes takes one from SQLite's count of broken foreign keys for each
// row that waited for it, those included that the application had broken and that were never
// counted. The count was negative, and every later download failed (E5005).
#[test]
fn a_parent_that_mends_more_than_was_counted_arrives() {
    for action in ACTIONS {
        let mut site = shop(action);
        site.download().upsert("purchase", &[&[int(20), int(2)]]).apply().unwrap();
        assert_eq!(waiting(&site), ["1"], "{action}");
        site.write(
            "PRAGMA foreign_keys = OFF; INSERT INTO purchase VALUES (30, 2);
             CREATE TABLE private(id INTEGER PRIMARY KEY, up INT REFERENCES private);
             INSERT INTO private VALUES (1, 2);",
        );
        assert_eq!(site.upload(), ["insert purchase (30, 2)"]);
        site.download().upsert("customer", &[&[int(2), text("b")]]).apply().unwrap();
        let rows = ["'customer', 2", "'purchase', 20, 2", "'purchase', 30, 2"];
        assert_eq!(all(&site), rows, "{action}");
        assert_eq!(waiting(&site), Vec::<String>::new(), "{action}");
    }
}

// S3, Trap 11: a ring is deleted in two frames, and a row beside it. Rows of the first frame were
// set aside as descendants of the row that only the second one names, and all came back.
#[test]
fn a_ring_that_is_deleted_in_several_frames_does_not_come_back() {
    for action in ["CASCADE", "SET NULL", "NO ACTION"] {
        let mut site = Site::new(&format!(
            "CREATE TABLE node(id INTEGER PRIMARY KEY,
                up INT REFERENCES node ON DELETE {action} DEFERRABLE INITIALLY DEFERRED);
             BEGIN; INSERT INTO node VALUES (1, 4), (2, 4), (3, 2), (4, 3), (5, 5); COMMIT;",
        ));
        site.download()
            .delete("node", &[&[int(1)], &[int(2)], &[int(3)]])
            .delete("node", &[&[int(4)]])
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT id FROM node"), ["5"], "{action}");
        assert_eq!(waiting(&site), Vec::<String>::new(), "{action}");
        assert_eq!(site.upload(), Vec::<String>::new(), "{action}");
    }
}

// S3, Trap 26: the parent that rows wait for is made here and uploaded. The center has nothing to
// send then, and the rows waited for the next download that brought anything.
#[test]
fn rows_come_back_to_a_parent_that_is_made_here() {
    for action in ACTIONS {
        let mut site = shop(action);
        site.download()
            .upsert("purchase", &[&[int(20), int(2)]])
            .upsert("line", &[&[int(200), int(20)], &[int(300), int(30)]])
            .apply()
            .unwrap();
        assert_eq!(waiting(&site), ["3"], "{action}");
        site.write("INSERT INTO customer VALUES (2, 'b')");
        site.freeze();
        site.download().apply().unwrap();
        let rows = ["'customer', 2", "'purchase', 20, 2", "'line', 200, 20"];
        assert_eq!(all(&site), rows, "{action}");
        assert_eq!(waiting(&site), ["1"], "{action}");
        assert_eq!(site.upload(), Vec::<String>::new(), "{action}");
    }
}

const NONE: Vec<String> = Vec::new();

/// Customers, and what refers to their keys and codes in tables that are only uploaded.
fn customers() -> Site {
    let mut site = Site::empty();
    site.write(
        "CREATE TABLE customer(name TEXT COLLATE NOCASE PRIMARY KEY, code TEXT UNIQUE);
         CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer TEXT
            REFERENCES customer ON DELETE CASCADE, words TEXT);
         CREATE TABLE card(id INTEGER PRIMARY KEY, code TEXT REFERENCES customer(code));
         INSERT INTO customer VALUES ('a', 'x'), ('b', 'y');
         INSERT INTO purchase VALUES (10, 'A', ''), (20, 'B', '');
         INSERT INTO card VALUES (200, 'y');",
    );
    let mut tables = site.all_tables();
    for table in tables.iter_mut().filter(|table| table.name != "customer") {
        table.direction = Direction::UploadOnly;
    }
    site.publish(&tables);
    site.settle();
    site.download().apply().unwrap();
    site
}

fn orphans(site: &Site) -> Vec<String> {
    site.rows("SELECT \"table\", rowid FROM pragma_foreign_key_check ORDER BY 1, 2")
}

// S4, Trap 26: an application that does not check foreign keys deletes a parent. At the center its
// children go with it, and nothing is sent of a table that is only uploaded. So they stayed here
// without their parent, for ever. Likewise a row whose parent only the center has.
#[test]
fn what_was_broken_here_and_is_uploaded_waits_for_its_parent() {
    let cases = [
        ("DELETE FROM customer WHERE name = 'b'", "2"),
        ("UPDATE customer SET code = 'z' WHERE name = 'b'", "1"),
        ("DELETE FROM card; INSERT INTO purchase VALUES (30, 'c', ''), (40, 'd', '')", "2"),
        ("DELETE FROM card; UPDATE purchase SET customer = 'c' WHERE id = 20", "1"),
    ];
    for (breaks, count) in cases {
        for known_before in [false, true] {
            let mut site = customers();
            site.write(&format!("PRAGMA foreign_keys = OFF; {breaks}"));
            match known_before {
                true => drop(site.upload()),
                false => drop(site.freeze()),
            }
            site.download().apply().unwrap();
            assert_eq!(orphans(&site), NONE, "{breaks}");
            assert_eq!(waiting(&site), [count], "{breaks}");
            let parents: [&[model::Value]; 3] =
                [&[text("b"), text("y")], &[text("c"), text("v")], &[text("d"), text("w")]];
            site.download().upsert("customer", &parents).apply().unwrap();
            assert_eq!((orphans(&site), waiting(&site)), (NONE, NONE), "{breaks}");
            assert_eq!(site.upload(), NONE, "{breaks}");
        }
    }
}

// S1, S4, Trap 26: a change of such a row is uploaded first.
#[test]
fn what_was_broken_here_waits_when_its_changes_are_uploaded() {
    let mut site = customers();
    site.write(
        "PRAGMA foreign_keys = OFF; DELETE FROM card; DELETE FROM customer WHERE code = 'y'",
    );
    site.freeze();
    site.write("PRAGMA foreign_keys = OFF; UPDATE purchase SET words = 'mine' WHERE id = 20");
    site.download().apply().unwrap();
    assert_eq!(orphans(&site), ["'purchase', 20"]);
    assert_eq!(site.upload(), ["update purchase (20, 'B', '') -> (20, 'B', 'mine')"]);
    site.download().apply().unwrap();
    assert_eq!((orphans(&site), waiting(&site)), (NONE, vec!["1".to_owned()]));
    assert_eq!(site.rows("SELECT id FROM purchase"), ["10"]);
}

// S3: what breaks no foreign key sets no row aside, and is not looked at again.
#[test]
fn what_breaks_no_foreign_key_leaves_nothing_to_look_at() {
    let mut site = customers();
    site.write(
        "INSERT INTO purchase VALUES (30, 'A', ''), (40, NULL, ''); DELETE FROM card;
         DELETE FROM customer WHERE name = 'b'; UPDATE customer SET code = 'z' WHERE name = 'a'",
    );
    site.upload();
    assert_eq!(site.rows("SELECT value FROM syncline_state WHERE name = 'broken'"), NONE);
    site.download().apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM purchase"), ["10", "30", "40"]);
    assert_eq!(waiting(&site), NONE);
}

// S4, Trap 26: the same while the table was not published. Nothing recorded that it was written to.
#[test]
fn what_was_broken_while_nothing_was_captured_waits_for_its_parent() {
    let mut site = customers();
    let published = site.tables().iter().map(|table| table.published.clone()).collect::<Vec<_>>();
    let without = published.iter().filter(|table| table.name != "purchase").cloned();
    site.publish(&without.collect::<Vec<_>>());
    site.write("PRAGMA foreign_keys = OFF; INSERT INTO purchase VALUES (30, 'c', '')");
    site.publish(&published);
    // One more change of the tables comes before the download.
    site.publish(&published);
    site.download().apply().unwrap();
    assert_eq!((orphans(&site), waiting(&site)), (NONE, vec!["1".to_owned()]));
    site.download().upsert("customer", &[&[text("c"), text("v")]]).apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM purchase"), ["10", "20", "30"]);
}
