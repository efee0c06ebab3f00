//! Deletes and key changes change rows by foreign keys that the upload does not contain.
//!
//! The owner of the database declared this, and nothing is counted or told of these rows but their
//! departure. At the end of each test the remote has the rows of the center.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use model::{Code, Value};
use std::collections::BTreeMap;

/// The tables that a remote holds, each with the number of columns of its key, and the rows.
struct Held {
    keys: Vec<(&'static str, usize)>,
    rows: BTreeMap<(String, String), Row>,
}

fn place(table: &str, key: &[Value]) -> (String, String) {
    (table.to_owned(), format!("{key:?}"))
}

impl Held {
    fn width(&self, table: &str) -> usize {
        self.keys.iter().find(|(name, _)| *name == table).unwrap().1
    }

    fn put(&mut self, table: &str, row: &Row) {
        let key = place(table, &row[..self.width(table)]);
        self.rows.insert(key, row.clone());
    }

    fn change(&mut self, changes: &[Upload]) {
        for change in changes {
            match change {
                Upload::Delete(table, old) => {
                    let key = place(table, &old[..self.width(table)]);
                    self.rows.remove(&key);
                }
                Upload::Insert(..) | Upload::Update(..) | Upload::Again(..) => {}
            }
        }
        for change in changes {
            match change {
                Upload::Insert(table, new)
                | Upload::Update(table, _, new)
                | Upload::Again(table, _, new) => self.put(table, new),
                Upload::Delete(..) => {}
            }
        }
    }

    fn take(&mut self, download: &Download) {
        for (table, key) in &download.deletes {
            self.rows.remove(&place(table, key));
        }
        download.upserts.iter().for_each(|(table, row)| self.put(table, row));
    }

    fn is_what_is_at(&self, center: &Center) {
        for (table, width) in &self.keys {
            let there: BTreeMap<_, _> = center
                .rows(&format!("SELECT * FROM {table}_for_test"))
                .into_iter()
                .map(|row| (place(table, &row[..*width]), row))
                .collect();
            let here: BTreeMap<_, _> = self
                .rows
                .iter()
                .filter(|((name, _), _)| name == table)
                .map(|(key, row)| (key.clone(), row.clone()))
                .collect();
            assert_eq!(here, there, "{table}");
        }
    }
}

struct World {
    center: Center,
    remote: Remote,
    held: Held,
}

/// What an upload came to: conflicts, rejected.
type Came = (u64, u64);

impl World {
    /// `published` are tables with the number of columns of their keys, which come first, and all
    /// columns.
    fn new(backend: Backend, schema: &str, published: &[(&'static str, usize, &str)]) -> World {
        let views = published.iter().map(|(table, _, columns)| {
            format!("CREATE VIEW {table}_for_test AS SELECT {columns} FROM {table};")
        });
        let schema = format!("{schema} {}", views.collect::<String>());
        let model: String =
            published.iter().map(|(name, ..)| format!("[table.{name}]\n")).collect();
        let mut center = Center::on(backend, &schema, &model);
        let mut remote = Remote::another();
        let keys = published.iter().map(|(name, width, _)| (*name, *width)).collect();
        let mut held = Held { keys, rows: BTreeMap::new() };
        let (_, download) = center.synchronize(&mut remote, &[]);
        held.take(&download);
        held.is_what_is_at(&center);
        World { center, remote, held }
    }

    /// Synchronizes twice at most, and compares.
    fn synchronize(&mut self, changes: &[Upload]) -> (Came, Download) {
        self.held.change(changes);
        let (applied, download) = self.center.synchronize(&mut self.remote, changes);
        self.held.take(&download);
        let (_, second) = self.center.synchronize(&mut self.remote, &[]);
        self.held.take(&second);
        self.held.is_what_is_at(&self.center);
        ((applied.conflicts, applied.rejected), download)
    }

    fn count(&self, table: &str) -> Value {
        self.center.value(&format!("SELECT count(*) FROM {table}"))
    }
}

fn row(id: i64, v: &str) -> Row {
    vec![int(id), text(v)]
}

/// Several levels, a table that refers to itself, two ways to one row, one that is only cleared.
const TREE: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY,
        parent INTEGER REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE hidden (id INTEGER PRIMARY KEY,
        parent INTEGER REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
        above INTEGER REFERENCES hidden (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE deep (id INTEGER PRIMARY KEY,
        hidden INTEGER REFERENCES hidden (id) ON DELETE CASCADE,
        parent INTEGER REFERENCES parent (id) ON DELETE SET NULL ON UPDATE SET NULL,
        other INTEGER REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE);
    CREATE TABLE loose (v TEXT,
        deep INTEGER REFERENCES deep (id) ON DELETE SET NULL ON UPDATE CASCADE);
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
    INSERT INTO child VALUES (10, 1), (20, 2), (30, 3);
    INSERT INTO hidden VALUES (1, 1, NULL), (2, NULL, 1), (3, NULL, 2), (4, 2, NULL), (5, 3, NULL);
    INSERT INTO deep VALUES (1, 3, 1, 1), (2, 4, 1, 1), (3, NULL, 3, 3);
    INSERT INTO loose VALUES ('x', 1), ('y', 1), ('z', 2);";

fn tree(backend: Backend) -> World {
    World::new(backend, TREE, &[("parent", 1, "id, v"), ("child", 1, "id, parent")])
}

/// Several levels, and a child of another user that the remote has not seen.
// S3, S5
#[test]
fn a_delete_takes_rows_along_on_all_levels_and_nothing_is_told_of_them() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        world.center.foreign("INSERT INTO child VALUES (11, 1)");
        let changes =
            [Upload::Delete("child", vec![int(10), int(1)]), Upload::Delete("parent", row(1, "a"))];
        let (came, download) = world.synchronize(&changes);
        assert_eq!((came, download.rejects), ((0, 0), Vec::new()), "{backend:?}");
        assert_eq!((world.count("hidden"), world.count("deep")), (int(2), int(2)));
        // Two at once, and one to which nothing refers.
        let changes = [
            Upload::Delete("parent", row(2, "b")),
            Upload::Delete("parent", row(3, "c")),
            Upload::Delete("parent", row(4, "d")),
        ];
        assert_eq!(world.synchronize(&changes).0, (0, 0), "{backend:?}");
        assert_eq!((world.count("hidden"), world.count("deep")), (int(0), int(1)));
        assert_eq!((world.count("child"), world.count("loose")), (int(0), int(3)));
    });
}

/// The other remote has the children, and it is not the one that deleted the parent.
// S1, S3
#[test]
fn another_remote_gets_the_deletes_of_rows_that_a_cascade_took() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        let mut other = Remote::another();
        world.center.synchronize(&mut other, &[]);
        let (came, _) = world.synchronize(&[Upload::Delete("parent", row(1, "a"))]);
        assert_eq!(came, (0, 0), "{backend:?}");
        let (_, mut download) = world.center.synchronize(&mut other, &[]);
        download.deletes.sort_by(|one, two| one.0.cmp(&two.0));
        let gone = [("child".into(), vec![int(10)]), ("parent".into(), vec![int(1)])];
        assert_eq!(download.deletes, gone, "{backend:?}");
        assert_eq!((download.upserts, download.rejects), (Vec::new(), Vec::new()), "{backend:?}");
    });
}

/// What is not applied takes nothing along.
// S5
#[test]
fn a_delete_that_loses_takes_no_row_along() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        world.center.foreign("UPDATE parent SET v = 'theirs' WHERE id = 1");
        let changes =
            [Upload::Delete("parent", row(1, "a")), Upload::Delete("parent", row(2, "b"))];
        assert_eq!(world.synchronize(&changes).0, (1, 0), "{backend:?}");
        assert_eq!(world.center.list("SELECT id AS v FROM child ORDER BY id"), "10,30");
        assert_eq!(world.center.list("SELECT id AS v FROM hidden ORDER BY id"), "1,2,3,5");
    });
}

/// The owner drops or renames tables on which a delete acts, while the server runs.
// S5
#[test]
fn tables_that_come_and_go_while_the_server_runs_stop_nobody() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        world.synchronize(&[Upload::Delete("parent", row(4, "d"))]);
        world.center.foreign("DROP TABLE loose");
        assert_eq!(world.synchronize(&[Upload::Delete("parent", row(3, "c"))]).0, (0, 0));
        world.center.foreign("ALTER TABLE deep RENAME TO deeper");
        assert_eq!(world.synchronize(&[Upload::Delete("parent", row(2, "b"))]).0, (0, 0));
        world.center.foreign("DROP TABLE deeper");
        assert_eq!(world.synchronize(&[Upload::Delete("parent", row(1, "a"))]).0, (0, 0));
        assert_eq!((world.count("child"), world.count("hidden")), (int(0), int(0)));
    });
}

/// A value goes from a row that is deleted to another one. The delete comes first at the center, so
/// it takes the children that refer to the value, as its foreign key says. One that the same upload
/// has made is told.
// S5, S11
#[test]
fn children_of_a_value_that_passes_on_are_what_the_foreign_key_makes_of_them() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE parent (id INTEGER PRIMARY KEY, code TEXT UNIQUE);
            CREATE TABLE child (id INTEGER PRIMARY KEY,
                code TEXT REFERENCES parent (code) ON DELETE CASCADE);
            INSERT INTO parent VALUES (1, 'a'), (2, 'b');
            INSERT INTO child VALUES (10, 'a'), (20, 'b');";
        let published = [("parent", 1, "id, code"), ("child", 1, "id, code")];
        let mut world = World::new(backend, schema, &published);
        let changes = [
            Upload::Update("parent", row(2, "b"), row(2, "a")),
            Upload::Update("child", row(20, "b"), vec![int(20), Value::Null]),
            Upload::Insert("child", row(11, "a")),
            Upload::Delete("parent", row(1, "a")),
            Upload::Delete("child", row(10, "a")),
        ];
        let (came, download) = world.synchronize(&changes);
        let taken = ("child".to_owned(), vec![int(11)], Code::RowTakenAlong.number());
        assert_eq!((came, download.rejects), ((0, 1), vec![taken]), "{backend:?}");
        assert_eq!(world.center.list("SELECT id || code AS v FROM parent"), "2a", "{backend:?}");
    });
}

/// A row that came in the same upload is cleared by the delete of its parent, which the remote
/// lacks the foreign key for: what became of it arrives.
// S3, S5
#[test]
fn a_new_row_that_a_delete_clears_comes_back_as_it_is() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
            CREATE TABLE child (id INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES parent (id) ON DELETE SET NULL ON UPDATE SET NULL);
            INSERT INTO parent VALUES (1, 'a'), (2, 'b');
            INSERT INTO child VALUES (10, 1), (20, 2);";
        let published = [("parent", 1, "id, v"), ("child", 1, "id, parent")];
        let mut world = World::new(backend, schema, &published);
        let changes = [
            Upload::Insert("child", vec![int(11), int(1)]),
            Upload::Update("child", vec![int(20), int(2)], vec![int(20), int(1)]),
            Upload::Delete("parent", row(1, "a")),
        ];
        assert_eq!(world.synchronize(&changes).0, (0, 0), "{backend:?}");
        let changes = [
            Upload::Update("child", vec![int(20), Value::Null], vec![int(20), int(2)]),
            Upload::Insert("child", vec![int(12), int(2)]),
        ];
        assert_eq!(world.synchronize(&changes).0, (0, 0), "{backend:?}");
    });
}

/// Rows of one table that refer to each other, all of which the upload deletes: each may be gone
/// with the one above it before its own delete comes.
// S5
#[test]
fn rows_that_refer_to_each_other_go_together() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE part (id INTEGER PRIMARY KEY,
                above INTEGER REFERENCES part (id) ON DELETE CASCADE);
            INSERT INTO part VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL), (6, 5);";
        let mut world = World::new(backend, schema, &[("part", 1, "id, above")]);
        world.center.foreign("INSERT INTO part VALUES (7, 4)");
        let below = |id: i64, above: i64| vec![int(id), int(above)];
        let changes = [
            Upload::Delete("part", vec![int(1), Value::Null]),
            Upload::Delete("part", below(2, 1)),
            Upload::Delete("part", below(3, 2)),
            Upload::Delete("part", below(4, 3)),
        ];
        assert_eq!(world.synchronize(&changes).0, (0, 0), "{backend:?}");
        assert_eq!(world.center.list("SELECT id AS v FROM part ORDER BY id"), "5,6");
    });
}
