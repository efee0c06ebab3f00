//! Values that go from row to row in a download, and the children that refer to them.

use crate::testing::{Site, int, text};
use model::Value;

const NONE: Vec<String> = Vec::new();
const ACTIONS: [&str; 5] = ["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", "RESTRICT"];

/// Parents with a UNIQUE code, children by that code, and theirs by a name.
fn family(on_update: &str, on_delete: &str) -> Site {
    Site::new(&format!(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, code TEXT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, name TEXT UNIQUE DEFAULT 'none',
            code TEXT DEFAULT 'c' REFERENCES p(code) ON UPDATE {on_update} ON DELETE {on_delete});
         CREATE TABLE g(id INTEGER PRIMARY KEY,
            name TEXT REFERENCES c(name) ON UPDATE {on_update} ON DELETE {on_delete});
         INSERT INTO p VALUES (7, 'b'), (4, 'e'), (3, 'c');
         INSERT INTO c VALUES (70, 'of b', 'b'), (40, 'of e', 'e');
         INSERT INTO g VALUES (700, 'of b'), (400, 'of e');"
    ))
}

fn row(id: i64, code: &str) -> Vec<Value> {
    vec![int(id), text(code)]
}

/// Tables that are received as a whole next.
fn anew(site: &Site) -> Vec<String> {
    site.rows("SELECT name FROM syncline_table WHERE watermark IS NULL ORDER BY name")
}

/// Everything is as the center has it when the tables are received that it wants.
fn assert_children_come(site: &mut Site, what: &str) {
    let c: [&[Value]; 2] =
        [&[int(40), text("of e"), text("e")], &[int(70), text("of b"), text("b")]];
    let g: [&[Value]; 2] = [&[int(400), text("of e")], &[int(700), text("of b")]];
    if !anew(site).is_empty() {
        assert_eq!(anew(site), ["'c'", "'g'"], "{what}");
        site.download().refresh("c").refresh("g").upsert("c", &c).upsert("g", &g).apply().unwrap();
    }
    assert_eq!(anew(site), NONE, "{what}");
    assert_eq!(site.rows("SELECT * FROM c"), ["40, 'of e', 'e'", "70, 'of b', 'b'"], "{what}");
    assert_eq!(site.rows("SELECT * FROM g"), ["400, 'of e'", "700, 'of b'"], "{what}");
    assert_eq!(site.upload(), NONE, "{what}");
}

fn for_each_pair(try_it: &dyn Fn(Site, &str)) {
    for on_update in ACTIONS {
        for on_delete in ACTIONS {
            try_it(family(on_update, on_delete), &format!("{on_update}, {on_delete}"));
        }
    }
}

// S3, Trap 21: a row has moved to the key of one that was replaced, and its value with it.
#[test]
fn children_are_right_where_a_row_takes_the_key_of_another() {
    for_each_pair(&|mut site, what| {
        site.download()
            .upsert("p", &[&row(4, "b"), &row(6, "e")])
            .delete("p", &[&[int(7)]])
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT * FROM p"), ["3, 'c'", "4, 'b'", "6, 'e'"], "{what}");
        assert_children_come(&mut site, what);
    });
}

// S3, Trap 10: two rows swap their values, and the center's children have stayed.
#[test]
fn children_are_right_where_values_are_swapped() {
    for_each_pair(&|mut site, what| {
        site.download().upsert("p", &[&row(7, "e"), &row(4, "b")]).apply().unwrap();
        assert_eq!(site.rows("SELECT * FROM p"), ["3, 'c'", "4, 'b'", "7, 'e'"], "{what}");
        assert_children_come(&mut site, what);
    });
}

// S3: a new row has the value of one that is deleted, or that has another now.
#[test]
fn children_are_right_where_another_row_has_the_value() {
    for_each_pair(&|mut site, what| {
        site.download().upsert("p", &[&row(5, "b")]).delete("p", &[&[int(7)]]).apply().unwrap();
        assert_eq!(site.rows("SELECT * FROM p"), ["3, 'c'", "4, 'e'", "5, 'b'"], "{what}");
        assert_children_come(&mut site, what);
        site.download().upsert("p", &[&row(5, "new"), &row(9, "b")]).apply().unwrap();
        assert_children_come(&mut site, what);
    });
}

// S3: what the center says of a child holds, whatever the file's own actions do.
#[test]
fn children_that_the_center_names_refer_to_what_it_says() {
    for_each_pair(&|mut site, what| {
        site.download()
            .upsert("p", &[&row(7, "new"), &row(9, "b")])
            .upsert("c", &[&[int(70), text("of b"), text("new")]])
            .apply()
            .unwrap();
        assert_eq!(site.rows("SELECT code FROM c"), ["'e'", "'new'"], "{what}");
        assert_eq!(site.rows("SELECT * FROM g"), ["400, 'of e'", "700, 'of b'"], "{what}");
    });
}
