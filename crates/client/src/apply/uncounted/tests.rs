//! Orphans that come while a row that was broken before is mended: SQLite counts none.

use crate::testing::{Site, int, text};
use model::Value;

const ACTIONS: [&str; 5] = ["NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"];

fn waiting(site: &Site) -> Vec<String> {
    site.rows("SELECT value FROM syncline_state WHERE name = 'orphans' AND value IS NOT NULL")
}

fn none() -> Vec<String> {
    Vec::new()
}

/// The application breaks foreign keys, and what it did counts as uploaded.
fn break_keys(site: &mut Site, sql: &str) {
    site.write(&format!("PRAGMA foreign_keys = OFF; {sql}"));
    site.settle();
}

/// The downloaded version of the broken row.
#[derive(Debug, Clone, Copy)]
enum Mend {
    /// Its parent.
    Parent,
    /// It refers to a missing row now.
    Change,
    /// It is gone.
    Delete,
}

const MENDS: [Mend; 3] = [Mend::Parent, Mend::Change, Mend::Delete];

/// A table that refers to itself.
struct Tree {
    create: &'static str,
    /// The broken row: what makes it, its parent, itself without one, its key.
    breaks: &'static str,
    parent: Vec<Value>,
    change: Vec<Value>,
    key: Vec<Value>,
    /// An orphan, and its parent.
    orphan: Vec<Value>,
    comes: Vec<Value>,
}

fn trees() -> [Tree; 3] {
    [
        Tree {
            create: "CREATE TABLE node(id INTEGER PRIMARY KEY, up INT REFERENCES node ACTION)",
            breaks: "INSERT INTO node VALUES (4, 9)",
            parent: vec![int(9), int(9)],
            change: vec![int(4), int(4)],
            key: vec![int(4)],
            orphan: vec![int(1), int(2)],
            comes: vec![int(2), Value::Null],
        },
        Tree {
            create: "CREATE TABLE node(town TEXT, id INT, up INT, PRIMARY KEY(town, id),
                FOREIGN KEY(town, up) REFERENCES node(town, id) ACTION)",
            breaks: "INSERT INTO node VALUES ('a', 4, 9)",
            parent: vec![text("a"), int(9), int(9)],
            change: vec![text("a"), int(4), int(4)],
            key: vec![text("a"), int(4)],
            orphan: vec![text("b"), int(1), int(4)],
            comes: vec![text("b"), int(4), Value::Null],
        },
        Tree {
            create: "CREATE TABLE node(id INTEGER PRIMARY KEY, one INT REFERENCES node ACTION,
                two INT REFERENCES node ACTION)",
            breaks: "INSERT INTO node VALUES (4, 4, 9)",
            parent: vec![int(9), int(9), int(4)],
            change: vec![int(4), Value::Null, int(4)],
            key: vec![int(4)],
            orphan: vec![int(1), int(1), int(2)],
            comes: vec![int(2), int(2), int(1)],
        },
    ]
}

// S3, S4, Trap 26: SQLite only counts broken foreign keys. The application had broken one, and the
// download repaired it and brought an orphan. The count was zero, so the orphan was committed.
#[test]
fn a_row_that_is_mended_hides_no_orphan() {
    for mend in MENDS {
        for action in ACTIONS {
            for tree in trees() {
                let said = format!("{mend:?}, {action}: {}", tree.create);
                let action = format!("ON DELETE {action} ON UPDATE {action}");
                let mut site = Site::new(&tree.create.replace("ACTION", &action));
                break_keys(&mut site, tree.breaks);
                let comes = site.download().upsert("node", &[&tree.orphan]);
                let comes = match mend {
                    Mend::Parent => comes.upsert("node", &[&tree.parent]),
                    Mend::Change => comes.upsert("node", &[&tree.change]),
                    Mend::Delete => comes.delete("node", &[&tree.key]),
                };
                comes.apply().unwrap();
                assert_eq!(waiting(&site), ["1"], "{said}");
                assert_eq!(site.rows("PRAGMA foreign_key_check"), none(), "{said}");
                site.download().upsert("node", &[&tree.comes]).apply().unwrap();
                assert_eq!(waiting(&site), none(), "{said}");
                assert_eq!(site.upload(), none(), "{said}");
            }
        }
    }
}

const SHOP: &str = "CREATE TABLE customer(id INTEGER PRIMARY KEY, code TEXT UNIQUE);
    CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INT REFERENCES customer ACTION);
    CREATE TABLE card(id INTEGER PRIMARY KEY, code TEXT REFERENCES customer(code));
    INSERT INTO customer VALUES (2, 'b'), (5, 'e');
    INSERT INTO purchase VALUES (20, 2);
    INSERT INTO card VALUES (200, 'b');";

// S3, S4, Trap 26: likewise where the parent goes, gets another key or another value that children
// refer to, and they stay at the center without it.
#[test]
fn a_row_that_is_mended_hides_none_whose_parent_goes() {
    for action in ACTIONS {
        for goes in ["delete", "key", "value", "refresh"] {
            let said = format!("{goes}, {action}");
            let action = format!("ON DELETE {action} ON UPDATE {action}");
            let mut site = Site::new(&SHOP.replace("ACTION", &action));
            break_keys(&mut site, "INSERT INTO purchase VALUES (30, 3), (40, 3)");
            let comes = [int(3), text("c")];
            let both = [int(2), int(5)].map(|id| [id, text("x")]);
            let download = match goes {
                "delete" => site.download().delete("customer", &[&[int(2)]]),
                "key" => {
                    let moved = [int(6), text("x")];
                    site.download().upsert("customer", &[&moved]).delete("customer", &[&[int(2)]])
                }
                "value" => site.download().upsert("customer", &[&both[0]]),
                _ => {
                    site.download().refresh("customer").upsert("customer", &[&[int(5), text("e")]])
                }
            };
            download.upsert("customer", &[&comes]).apply().unwrap();
            let rows = match goes {
                "value" => vec!["20, 2", "30, 3", "40, 3"],
                _ => vec!["30, 3", "40, 3"],
            };
            assert_eq!(site.rows("SELECT * FROM purchase"), rows, "{said}");
            assert_eq!(site.rows("SELECT * FROM card"), none(), "{said}");
            assert_eq!(waiting(&site), [if goes == "value" { "1" } else { "2" }], "{said}");
            assert_eq!(site.upload(), none(), "{said}");
        }
    }
}

// S3, S4, Trap 26: likewise where it is a table of the user's own that is mended.
#[test]
fn a_table_of_the_users_own_hides_no_orphan() {
    let mut site = Site::new(&SHOP.replace("ACTION", ""));
    break_keys(
        &mut site,
        "CREATE TABLE private(id INTEGER PRIMARY KEY, purchase INT REFERENCES purchase);
         INSERT INTO private VALUES (1, 30);",
    );
    site.download().upsert("purchase", &[&[int(70), int(7)], &[int(30), int(2)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM purchase"), ["20, 2", "30, 2"]);
    assert_eq!(waiting(&site), ["1"]);
}

// S3, S4, Trap 26: the first rows of all tables come to a file where only the user's own tables
// have any.
#[test]
fn the_first_download_hides_no_orphan() {
    let mut site = Site::new(
        "CREATE TABLE node(id INTEGER PRIMARY KEY, up INT REFERENCES node);
         CREATE TABLE private(id INTEGER PRIMARY KEY, node INT REFERENCES node);",
    );
    break_keys(&mut site, "INSERT INTO private VALUES (1, 3)");
    let rows: Vec<[Value; 2]> = (3..40).map(|id| [int(id), int(id)]).collect();
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    site.download()
        .refresh("node")
        .upsert("node", &[&[int(1), int(2)]])
        .upsert("node", &rows)
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM node"), ["37"]);
    assert_eq!(waiting(&site), ["1"]);
}

// S1, S3, Trap 7, Trap 26: a row that the application has broken and not uploaded yet stays, and a
// downloaded orphan is still set aside.
#[test]
fn a_broken_change_that_waits_keeps_no_orphan_here() {
    for action in ACTIONS {
        let said = action;
        let action = format!("ON DELETE {action} ON UPDATE {action}");
        let mut site = Site::new(&SHOP.replace("ACTION", &action));
        site.write("PRAGMA foreign_keys = OFF; INSERT INTO purchase VALUES (30, 3), (40, 4)");
        site.download()
            .upsert("customer", &[&[int(3), text("c")]])
            .upsert("purchase", &[&[int(70), int(7)]])
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT * FROM purchase"), ["20, 2", "30, 3", "40, 4"], "{said}");
        assert_eq!(waiting(&site), ["1"], "{said}");
        // One that waits does not come back among them either.
        site.download().upsert("customer", &[&[int(4), text("d")]]).apply().unwrap();
        assert_eq!(site.rows("SELECT * FROM purchase"), ["20, 2", "30, 3", "40, 4"], "{said}");
        assert_eq!(waiting(&site), ["1"], "{said}");
        assert_eq!(site.upload(), ["insert purchase (30, 3)", "insert purchase (40, 4)"], "{said}");
    }
}
