//! Deletes and key changes change rows by foreign keys that the upload does not contain.
//!
//! The owner of the database declared this, and the rows are counted. At the end of each test the
//! remote has the rows of the center.

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
                Upload::Delete(table, old) | Upload::KeyChange(table, old, _) => {
                    let key = place(table, &old[..self.width(table)]);
                    self.rows.remove(&key);
                }
                Upload::Insert(..) | Upload::Update(..) => {}
            }
        }
        for change in changes {
            match change {
                Upload::Insert(table, new)
                | Upload::Update(table, _, new)
                | Upload::KeyChange(table, _, new) => self.put(table, new),
                Upload::Delete(..) => {}
            }
        }
    }

    fn take(&mut self, download: &Download) {
        for (table, old, _) in &download.key_changes {
            self.rows.remove(&place(table, old));
        }
        for (table, key) in &download.deletes {
            self.rows.remove(&place(table, key));
        }
        download.key_changes.iter().for_each(|(table, _, row)| self.put(table, row));
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

/// What an upload came to: reached, conflicts, rejected.
type Came = (u64, u64, u64);

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
        ((applied.reached, applied.conflicts, applied.rejected), download)
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

/// On PostgreSQL nothing was counted, and at an SQLite center no row of a table without the
/// remote's tables once.
// S5, S11
#[test]
fn what_deletes_reach_is_counted_once_on_all_levels() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        // It removes one child that the upload names, and one that another user has inserted.
        world.center.foreign("INSERT INTO child VALUES (11, 1)");
        let changes =
            [Upload::Delete("child", vec![int(10), int(1)]), Upload::Delete("parent", row(1, "a"))];
        let (came, download) = world.synchronize(&changes);
        // child 11, hidden 1, 2, 3, deep 1, 2, loose x and y.
        assert_eq!(came, (8, 0, 0), "{backend:?}");
        assert_eq!(download.rejects, []);
        assert_eq!((world.count("hidden"), world.count("deep")), (int(2), int(2)));
        // Nothing refers to it.
        let (came, _) = world.synchronize(&[Upload::Delete("parent", row(4, "d"))]);
        assert_eq!(came, (0, 0, 0));
        // Two at once: child 20, hidden 4, deep 2, loose z; child 30, hidden 5, deep 3.
        let changes =
            [Upload::Delete("parent", row(2, "b")), Upload::Delete("parent", row(3, "c"))];
        assert_eq!(world.synchronize(&changes).0, (7, 0, 0), "{backend:?}");
    });
}

/// Key changes were not counted at all.
// S5, S11, Trap 21
#[test]
fn what_key_changes_reach_is_counted_without_what_the_upload_names() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        world.center.foreign("INSERT INTO child VALUES (11, 1)");
        // The remote's own foreign key changed the child.
        let changes = [
            Upload::KeyChange("parent", row(1, "a"), row(9, "a")),
            Upload::Update("child", vec![int(10), int(1)], vec![int(10), int(9)]),
        ];
        // child 11, hidden 1, deep 1 and 2, both by two foreign keys.
        assert_eq!(world.synchronize(&changes).0, (4, 0, 0), "{backend:?}");
        assert_eq!(
            world
                .center
                .list("SELECT parent AS v FROM hidden WHERE parent IS NOT NULL ORDER BY id"),
            "9,2,3"
        );
        // A ring, in which rows have other keys for a while: child 20, hidden 4; child 30,
        // hidden 5 and deep 3.
        let changes = [
            Upload::KeyChange("parent", row(2, "b"), row(3, "b")),
            Upload::KeyChange("parent", row(3, "c"), row(2, "c")),
        ];
        assert_eq!(world.synchronize(&changes).0, (5, 0, 0), "{backend:?}");
        // A key change and a delete in one upload: deep 1 and 2 are cleared by the one and gone
        // or cleared by the other.
        let changes = [
            Upload::KeyChange("parent", row(2, "c"), row(8, "c")),
            Upload::Delete("parent", row(9, "a")),
        ];
        // child 30, hidden 5; child 10, 11, hidden 1 to 3, deep 1, 2, loose x, y; deep 3.
        assert_eq!(world.synchronize(&changes).0, (12, 0, 0), "{backend:?}");
    });
}

/// What is not applied reaches nothing.
// S5, Trap 21
#[test]
fn deletes_and_key_changes_that_lose_or_are_refused_reach_nothing() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        world.center.foreign("UPDATE parent SET v = 'theirs' WHERE id = 1");
        let changes =
            [Upload::Delete("parent", row(1, "a")), Upload::Delete("parent", row(2, "b"))];
        // child 20, hidden 4, deep 2, loose z.
        assert_eq!(world.synchronize(&changes).0, (4, 1, 0), "{backend:?}");
        let changes = [
            Upload::KeyChange("parent", row(1, "theirs"), row(3, "theirs")),
            Upload::KeyChange("parent", row(4, "d"), row(5, "d")),
        ];
        assert_eq!(world.synchronize(&changes).0, (0, 0, 1), "{backend:?}");
    });
}

fn pair(backend: Backend) -> World {
    let schema = "
        CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT);
        CREATE TABLE child (id INTEGER PRIMARY KEY,
            parent INTEGER REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
        INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');
        INSERT INTO child VALUES (10, 1), (20, 2), (30, 3);";
    World::new(backend, schema, &[("parent", 1, "id, v"), ("child", 1, "id, parent")])
}

/// A row of the remote moved to the row that took the key of its deleted parent, so that it is as
/// it was. At the center it went with the parent that was deleted, and the user heard nothing.
// S3, S5, S11, Trap 21
#[test]
fn a_child_that_follows_a_taken_key_does_not_go_with_the_old_parent() {
    Backend::each(|backend| {
        // The remote: child 10 to parent 2, parent 1 deleted, parent 2 becomes 1.
        let changes = || {
            [
                Upload::Delete("parent", row(1, "a")),
                Upload::KeyChange("parent", row(2, "b"), row(1, "b")),
                Upload::Update("child", vec![int(20), int(2)], vec![int(20), int(1)]),
            ]
        };
        let told = |download: &Download| {
            let mut codes: Vec<u16> = download.rejects.iter().map(|(.., code)| *code).collect();
            codes.sort_unstable();
            codes
        };
        let refused = [Code::RowReferences.number(), Code::RowKeyTaken.number()];
        let refused = |download: &Download| told(download) == refused;
        let children = "SELECT id || ':' || parent AS v FROM child ORDER BY id";

        let mut world = pair(backend);
        let (came, download) = world.synchronize(&changes());
        match backend {
            Backend::Sqlite => {
                assert_eq!((came.1, came.2), (0, 0), "{download:?}");
                assert_eq!(world.center.list(children), "10:1,20:1,30:3");
                assert_eq!(world.center.list("SELECT v FROM parent ORDER BY id"), "b,c");
            }
            Backend::Postgres => {
                assert!(refused(&download), "{download:?}");
                assert_eq!(world.center.list(children), "10:1,20:2,30:3");
            }
        }
        // Another user has inserted one: it is unknown to which parent it belongs.
        let mut world = pair(backend);
        world.center.foreign("INSERT INTO child VALUES (11, 1)");
        let (_, download) = world.synchronize(&changes());
        assert!(refused(&download), "{download:?}");
        assert_eq!(world.center.list(children), "10:1,11:1,20:2,30:3");
        // Where all are named, the key is free.
        let mut world = pair(backend);
        let named = [Upload::Delete("child", vec![int(10), int(1)])];
        let all: Vec<Upload> = named.into_iter().chain(changes()).collect();
        let (came, download) = world.synchronize(&all);
        assert_eq!((came.1, came.2), (0, 0), "{backend:?} {download:?}");
        assert_eq!(world.center.list(children), "20:1,30:3");
        // One that went elsewhere does not go either.
        let mut world = pair(backend);
        let moved = [Upload::Update("child", vec![int(10), int(1)], vec![int(10), int(3)])];
        let all: Vec<Upload> = changes().into_iter().chain(moved).collect();
        let (came, download) = world.synchronize(&all);
        assert_eq!(came.1, 0, "{backend:?} {download:?}");
        let there = backend.pick("10:3,20:1,30:3", "10:3,20:2,30:3");
        assert_eq!(world.center.list(children), there, "{backend:?}");
    });
}

/// A table that the owner has parted, with a table below one of its parts, and triggers of the
/// owner, which count for nothing.
// S5, S11, Trap 12
#[test]
fn rows_of_partitions_and_below_them_are_counted_once() {
    let schema = "
        CREATE TABLE parent (id integer PRIMARY KEY, v text);
        CREATE TABLE child (id integer PRIMARY KEY,
            parent integer REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE TABLE parted (id integer, region integer, parent integer
            REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE, PRIMARY KEY (id, region)
        ) PARTITION BY LIST (region);
        CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
        CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2) PARTITION BY LIST (id);
        CREATE TABLE parted_2_all PARTITION OF parted_2 DEFAULT;
        CREATE TABLE below (id integer PRIMARY KEY, parted integer, region integer,
            FOREIGN KEY (parted, region) REFERENCES parted (id, region)
                ON DELETE SET NULL ON UPDATE CASCADE);
        CREATE TABLE below_one (parted integer, region integer,
            FOREIGN KEY (parted, region) REFERENCES parted_1 (id, region) ON DELETE CASCADE);
        CREATE TABLE \"odd {name}\" (\"a}b\" text, parent smallint
            REFERENCES parent (id) ON DELETE SET DEFAULT ON UPDATE CASCADE);
        CREATE TABLE counter (n integer);
        INSERT INTO counter VALUES (0);
        CREATE FUNCTION counting() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN UPDATE counter SET n = n + 1; RETURN NULL; END $$;
        CREATE TRIGGER counting AFTER UPDATE OR DELETE ON child
            FOR EACH ROW EXECUTE FUNCTION counting();
        INSERT INTO parent VALUES (1, 'a'), (2, 'b');
        INSERT INTO child VALUES (10, 1), (20, 2);
        INSERT INTO parted VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2);
        INSERT INTO below VALUES (1, 1, 1), (2, 3, 2), (3, 4, 2);
        INSERT INTO below_one VALUES (1, 1), (1, 1), (2, 1);
        INSERT INTO \"odd {name}\" VALUES ('x', 1), ('y', 2);";
    let published = [("parent", 1, "id, v"), ("child", 1, "id, parent")];
    let mut world = World::new(Backend::Postgres, schema, &published);
    // child 20, two rows of parts, the odd one.
    let change = Upload::KeyChange("parent", row(2, "b"), row(3, "b"));
    assert_eq!(world.synchronize(&[change]).0, (4, 0, 0));
    // child 10, two rows of parts, two below, two below the one part, the odd one.
    assert_eq!(world.synchronize(&[Upload::Delete("parent", row(1, "a"))]).0, (8, 0, 0));
}

/// The owner drops or renames a table that rows were looked for in while the server runs: every
/// delete of a parent would have failed from then on.
// S5, S11
#[test]
fn tables_that_come_and_go_while_the_server_runs_stop_nobody() {
    Backend::each(|backend| {
        let mut world = tree(backend);
        world.synchronize(&[Upload::Delete("parent", row(4, "d"))]);
        world.center.foreign("DROP TABLE loose");
        // child 30, hidden 5, deep 3.
        assert_eq!(world.synchronize(&[Upload::Delete("parent", row(3, "c"))]).0, (3, 0, 0));
        world.center.foreign("ALTER TABLE deep RENAME TO deeper");
        let change = Upload::KeyChange("parent", row(2, "b"), row(5, "b"));
        // child 20, hidden 4.
        assert_eq!(world.synchronize(&[change]).0, (2, 0, 0));
        world.center.foreign("DROP TABLE deeper");
        // child 10, hidden 1 to 3.
        assert_eq!(world.synchronize(&[Upload::Delete("parent", row(1, "a"))]).0, (4, 0, 0));
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
        assert_eq!(world.synchronize(&changes).0, (3, 0, 0), "{backend:?}");
        let changes = [
            Upload::Update("child", vec![int(20), Value::Null], vec![int(20), int(2)]),
            Upload::Insert("child", vec![int(12), int(2)]),
        ];
        assert_eq!(world.synchronize(&changes).0, (0, 0, 0), "{backend:?}");
        // child 12; the other one is named.
        let changes = [
            Upload::KeyChange("parent", row(2, "b"), row(3, "b")),
            Upload::Update("child", vec![int(20), int(2)], vec![int(20), Value::Null]),
        ];
        assert_eq!(world.synchronize(&changes).0, (1, 0, 0), "{backend:?}");
    });
}

/// Rows of one table that refer to each other, all of which the upload names.
// S5, S11
#[test]
fn rows_that_refer_to_each_other_and_are_named_are_not_counted() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE part (id INTEGER PRIMARY KEY,
                above INTEGER REFERENCES part (id) ON DELETE CASCADE ON UPDATE CASCADE);
            INSERT INTO part VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL), (6, 5);";
        let mut world = World::new(backend, schema, &[("part", 1, "id, above")]);
        world.center.foreign("INSERT INTO part VALUES (7, 4)");
        let below = |id: i64, above: i64| vec![int(id), int(above)];
        let changes = [
            Upload::KeyChange("part", vec![int(5), Value::Null], vec![int(8), Value::Null]),
            Upload::Update("part", below(6, 5), below(6, 8)),
            Upload::Delete("part", vec![int(1), Value::Null]),
            Upload::Delete("part", below(2, 1)),
            Upload::Delete("part", below(3, 2)),
            Upload::Delete("part", below(4, 3)),
        ];
        assert_eq!(world.synchronize(&changes).0, (1, 0, 0), "{backend:?}");
    });
}
