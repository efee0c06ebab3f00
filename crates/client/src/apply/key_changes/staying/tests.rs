//! What stays and what goes where a key changes at the center, on real files.

use crate::testing::{Site, int, text};
use model::{Code, Value};

const NONE: Vec<String> = Vec::new();
const ACTIONS: [&str; 5] = ["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", "RESTRICT"];

/// A parent, children by a column and by their key, and a table of the user's own.
fn family(action: &str) -> Site {
    let site = Site::new(&format!(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT);
         CREATE TABLE c(id INTEGER PRIMARY KEY,
            p INT DEFAULT 9 CHECK (p > 0) REFERENCES p ON UPDATE {action}, v TEXT);
         CREATE TABLE n(p INT REFERENCES p ON UPDATE {action}, n INT, v TEXT, PRIMARY KEY (p, n))
            WITHOUT ROWID;
         INSERT INTO p VALUES (1, 'one'), (2, 'two'), (9, 'nine');
         INSERT INTO c VALUES (10, 1, 'of one'), (20, 2, 'of two');
         INSERT INTO n VALUES (1, 1, 'of one'), (2, 1, 'of two');"
    ));
    site.write(
        "CREATE TABLE own(p INT REFERENCES p ON UPDATE CASCADE, name TEXT);
         INSERT INTO own VALUES (1, 'of one'), (2, 'of two');",
    );
    site
}

fn swap() -> [(Vec<Value>, Vec<Value>); 2] {
    [(vec![int(1)], vec![int(2), text("one")]), (vec![int(2)], vec![int(1), text("two")])]
}

fn slices(changes: &[(Vec<Value>, Vec<Value>)]) -> Vec<(&[Value], &[Value])> {
    changes.iter().map(|(old, new)| (old.as_slice(), new.as_slice())).collect()
}

fn own(site: &Site) -> Vec<String> {
    site.rows("SELECT name, v FROM own JOIN p ON id = p ORDER BY 1")
}

// S3, Trap 26: keys are swapped at the center while its foreign keys are off, so that its children
// stay. The remote's own ON UPDATE moved them, and they were never sent again.
#[test]
fn children_that_the_center_has_not_moved_stay() {
    for action in ACTIONS {
        let mut site = family(action);
        site.download().key_change("p", &slices(&swap())).apply().unwrap();
        assert_eq!(site.rows("SELECT * FROM p"), ["1, 'two'", "2, 'one'", "9, 'nine'"], "{action}");
        assert_eq!(
            site.rows("SELECT * FROM c"),
            ["10, 1, 'of one'", "20, 2, 'of two'"],
            "{action}"
        );
        assert_eq!(site.rows("SELECT * FROM n"), ["1, 1, 'of one'", "2, 1, 'of two'"], "{action}");
        assert_eq!(own(&site), ["'of one', 'one'", "'of two', 'two'"], "{action}");
        assert_eq!(site.upload(), NONE, "{action}");
    }
}

// S3, S4, Trap 26: a child that refers to nothing at the center does so here, and waits.
#[test]
fn a_child_that_has_lost_its_parent_at_the_center_waits() {
    for action in ACTIONS {
        let mut site = family(action);
        let change = [(vec![int(1)], vec![int(5), text("one")])];
        site.download().key_change("p", &slices(&change)).apply().unwrap();
        assert_eq!(site.rows("SELECT * FROM c"), ["20, 2, 'of two'"], "{action}");
        assert_eq!(site.rows("SELECT * FROM n"), ["2, 1, 'of two'"], "{action}");
        assert_eq!(own(&site), ["'of one', 'one'", "'of two', 'two'"], "{action}");
        site.download().upsert("p", &[&[int(1), text("new")]]).apply().unwrap();
        assert_eq!(site.rows("SELECT * FROM c").len(), 2, "{action}");
        assert_eq!(site.rows("SELECT * FROM n").len(), 2, "{action}");
        assert_eq!(site.upload(), NONE, "{action}");
    }
}

// S3, S5: some have moved with their parent, and some have not; some have a pending change.
#[test]
fn a_change_of_a_child_that_stays_is_no_move() {
    for action in ACTIONS {
        let mut site = family(action);
        site.write(
            "UPDATE c SET v = 'mine'; UPDATE n SET v = 'mine';
             INSERT INTO c VALUES (11, 1, 'new'); UPDATE c SET p = 1 WHERE id = 20;",
        );
        // A part of a key becomes nothing else by an action.
        let key_goes = !action.starts_with("SET");
        if key_goes {
            site.write("INSERT INTO n VALUES (1, 7, 'new')");
        }
        let changed = [(vec![int(1)], vec![int(5), text("one")])];
        let mut others = [(vec![int(2)], vec![int(1), text("two")])].to_vec();
        others.extend(changed);
        site.download()
            .key_change("p", &slices(&others))
            .upsert("p", &[&[int(2), text("new")]])
            .upsert("c", &[&[int(10), int(5), text("of one")]])
            .apply()
            .unwrap();
        // The parent of 20 was chosen here, and is the one that is 5 now; so it is of what is new.
        let new = match action {
            "SET NULL" => "NULL",
            "SET DEFAULT" => "9",
            _ => "5",
        };
        assert_eq!(
            site.rows("SELECT id, p FROM c"),
            ["10, 5".into(), format!("11, {new}"), format!("20, {new}")],
            "{action}"
        );
        let upload = site.upload();
        let moved = "update c (10, 5, 'of one') -> (10, 5, 'mine')".to_owned();
        let chosen = format!("update c (20, 2, 'of two') -> (20, {new}, 'mine')");
        assert!(upload.contains(&moved) && upload.contains(&chosen), "{action}: {upload:?}");
        let goes = upload.contains(&"insert n (5, 7, 'new')".to_owned());
        assert_eq!(goes, key_goes, "{action}: {upload:?}");
        for stays in ["(1, 1, 'of one') -> (1, 1, 'mine')", "(2, 1, 'of two') -> (2, 1, 'mine')"] {
            assert!(upload.contains(&format!("update n {stays}")), "{action}: {upload:?}");
        }
    }
}

// S3, Trap 10, Trap 26: rows that refer to each other in their own table, swapped and chained.
#[test]
fn rows_of_a_tree_stay_and_go_with_what_was_told() {
    for action in ACTIONS {
        for edited in [false, true] {
            let mut site = Site::new(&format!(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, up INT REFERENCES t ON UPDATE {action});
                 BEGIN; PRAGMA defer_foreign_keys = ON;
                 INSERT INTO t VALUES (1, 1), (2, 1), (3, 2), (4, 2), (5, 4); COMMIT;"
            ));
            if edited {
                site.write("INSERT INTO t VALUES (7, NULL)");
            }
            // 2 and 4 are swapped; 3 alone has gone along with the former 2, which is 4 now.
            let swap = [(vec![int(2)], vec![int(4), int(1)]), (vec![int(4)], vec![int(2), int(2)])];
            site.download()
                .key_change("t", &slices(&swap))
                .upsert("t", &[&[int(3), int(4)]])
                .apply()
                .unwrap();
            let wanted = ["1, 1", "2, 2", "3, 4", "4, 1", "5, 4"];
            assert_eq!(site.rows("SELECT * FROM t WHERE id < 7"), wanted, "{action}");
            let upload: &[&str] = if edited { &["insert t (7, NULL)"] } else { &[] };
            assert_eq!(site.upload(), upload, "{action}");
        }
    }
}

// S3, Trap 22: a child keeps its own spelling of the key that it refers to.
#[test]
fn a_child_that_stays_keeps_its_spelling() {
    let mut site = Site::new(
        "CREATE TABLE p(id TEXT COLLATE NOCASE PRIMARY KEY, v INT);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT UNIQUE REFERENCES p ON UPDATE CASCADE);
         INSERT INTO p VALUES ('a', 1), ('b', 2);
         INSERT INTO c VALUES (1, 'A'), (2, 'a'), (3, 'B');",
    );
    let change = [(vec![text("a")], vec![text("c"), int(1)])];
    site.download()
        .key_change("p", &slices(&change))
        .upsert("p", &[&[text("a"), int(3)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT * FROM c"), ["1, 'A'", "2, 'a'", "3, 'B'"]);
    assert_eq!(site.upload(), NONE);
}

// S2, S4: a child that has become too large to be sent followed its parent, without a message.
#[test]
fn a_child_that_is_withheld_goes_along() {
    for action in ACTIONS {
        let mut site = family(action);
        let change = [(vec![int(1)], vec![int(5), text("one")])];
        site.download()
            .key_change("p", &slices(&change))
            .reject("c", &[int(10)], 1, Code::RowTooLargeToSend)
            .apply()
            .unwrap();
        let rows = site.rows("SELECT * FROM c");
        assert_eq!(rows, ["10, 5, 'of one'", "20, 2, 'of two'"], "{action}");
        assert_eq!(site.upload(), NONE, "{action}");
    }
}
