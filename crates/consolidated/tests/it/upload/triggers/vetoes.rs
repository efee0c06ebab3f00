//! Rows that triggers of the center ignore.
//!
//! Each is rejected alone, with a reason, and the remote gets the row as it is (S7). Nobody else
//! has changed it, so it is no conflict.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::Code;

fn row(id: i64, note: &str) -> Row {
    vec![int(id), text(note)]
}

/// A table with five rows, of which the triggers ignore changes of 2, and a remote that has them.
fn ignoring(backend: Backend, rule: &str) -> (Center, Remote) {
    let triggers = backend.pick(
        "CREATE TRIGGER t_update BEFORE UPDATE ON t WHEN OLD.id = 2
             BEGIN SELECT RAISE(IGNORE); END;
         CREATE TRIGGER t_delete BEFORE DELETE ON t WHEN OLD.id = 2
             BEGIN SELECT RAISE(IGNORE); END;",
        "CREATE FUNCTION ignoring() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF OLD.id = 2 THEN RETURN NULL; END IF;
             IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER t_ignoring BEFORE UPDATE OR DELETE ON t
             FOR EACH ROW EXECUTE FUNCTION ignoring();",
    );
    let schema = format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT);
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');{triggers}"
    );
    let mut center = Center::on(backend, &schema, &format!("[table.t]\nconflict = {rule}\n"));
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

const RULES: [&str; 2] = ["\"consolidated_wins\"", "\"remote_wins\""];

fn each(test: impl Fn(Backend, &str)) {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        RULES.iter().for_each(|rule| test(backend, rule));
    }
}

/// Synchronizes the changes, of which the one of row 2 is vetoed and nothing else happens.
fn only_two_is_vetoed(center: &mut Center, remote: &mut Remote, changes: &[Upload]) {
    let (applied, download) = center.synchronize(remote, changes);
    assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{download:?}");
    let vetoed = Code::RowVetoed.number();
    assert_eq!(download.rejects, [("t".to_owned(), vec![int(2)], vetoed)]);
    assert!(download.upserts.contains(&("t".to_owned(), row(2, "b"))), "{download:?}");
}

#[test]
fn an_update_that_a_trigger_ignores_is_vetoed() {
    each(|backend, rule| {
        let (mut center, mut remote) = ignoring(backend, rule);
        let change = |id, seen: &str| Upload::Update("t", row(id, seen), row(id, "new"));
        let changes = [change(1, "a"), change(2, "b"), change(3, "c")];
        only_two_is_vetoed(&mut center, &mut remote, &changes);
        assert_eq!(center.list("SELECT note AS v FROM t ORDER BY id"), "new,b,new,d,e");
    });
}

#[test]
fn a_delete_that_a_trigger_ignores_is_vetoed() {
    each(|backend, rule| {
        let (mut center, mut remote) = ignoring(backend, rule);
        let changes = [Upload::Delete("t", row(2, "b")), Upload::Delete("t", row(4, "d"))];
        only_two_is_vetoed(&mut center, &mut remote, &changes);
        assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "1,2,3,5");
    });
}

// S5: the row that a trigger keeps was changed by others too. That is a conflict.
#[test]
fn a_row_that_others_have_changed_is_a_conflict_although_a_trigger_ignores_it() {
    each(|backend, rule| {
        let (mut center, mut remote) = ignoring(backend, rule);
        let mut stale = row(2, "b");
        stale[1] = text("what it never was");
        let changes = [Upload::Update("t", stale, row(2, "new"))];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (1, 0), "{download:?}");
        assert_eq!(download.upserts, [("t".to_owned(), row(2, "b"))]);
    });
}

// A key that is taken in another table, by a trigger, is no reason to call the row a conflict.
#[test]
fn an_insert_whose_trigger_meets_a_taken_key_is_rejected() {
    each(|backend, rule| {
        let schema = backend.pick(
            "CREATE TABLE seen (id INTEGER PRIMARY KEY); INSERT INTO seen VALUES (7);
             CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT);
             CREATE TRIGGER t_seen AFTER INSERT ON t BEGIN INSERT INTO seen VALUES (NEW.id); END;",
            "CREATE TABLE seen (id INTEGER PRIMARY KEY); INSERT INTO seen VALUES (7);
             CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT);
             CREATE FUNCTION seeing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO seen VALUES (NEW.id); RETURN NEW;
             END $$;
             CREATE TRIGGER t_seen AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION seeing();",
        );
        let model = format!("[table.t]\nconflict = {rule}\n");
        let mut center = Center::on(backend, schema, &model);
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        let changes = [6, 7, 8].map(|id| Upload::Insert("t", row(id, "x")));
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 1), "{download:?}");
        let code = Code::RowNotUnique.number();
        assert_eq!(download.rejects, [("t".to_owned(), vec![int(7)], code)]);
        assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "6,8");
        assert_eq!(center.list("SELECT id AS v FROM seen ORDER BY id"), "6,7,8");
    });
}

// One row never blocks a remote: its trigger breaks a foreign key between tables that the upload
// does not name.
#[test]
fn a_row_whose_trigger_breaks_a_foreign_key_elsewhere_is_rejected_alone() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let tables =
            "CREATE TABLE account (id INTEGER PRIMARY KEY); INSERT INTO account VALUES (1);
             CREATE TABLE booking (id INTEGER PRIMARY KEY, account INTEGER REFERENCES account);
             CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT);
             INSERT INTO t VALUES (100, 'kept'), (101, 'kept'), (102, 'kept');";
        let trigger = backend.pick(
            // A parent that is no table cannot be asked.
            "CREATE TABLE stray (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES nowhere);
             CREATE TRIGGER t_booking AFTER INSERT ON t
                 BEGIN INSERT INTO booking VALUES (NEW.id, length(NEW.note)); END;
             CREATE TRIGGER t_rebooking AFTER UPDATE ON t
                 BEGIN INSERT INTO booking VALUES (NEW.id, length(NEW.note)); END;",
            "CREATE FUNCTION booking() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO booking VALUES (NEW.id, length(NEW.note)); RETURN NEW;
             END $$;
             CREATE TRIGGER t_booking AFTER INSERT OR UPDATE ON t
                 FOR EACH ROW EXECUTE FUNCTION booking();",
        );
        let mut center = Center::on(backend, &format!("{tables}{trigger}"), "[table.t]\n");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        let changes = [
            Upload::Insert("t", row(1, "x")),
            Upload::Insert("t", row(2, "xx")),
            Upload::Insert("t", row(3, "y")),
            Upload::Update("t", row(100, "kept"), row(100, "z")),
            Upload::Update("t", row(101, "kept"), row(101, "zzz")),
            Upload::Delete("t", row(102, "kept")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 2), "{backend:?}: {download:?}");
        let code = Code::RowReferences.number();
        let rejects = [2, 101].map(|id| ("t".to_owned(), vec![int(id)], code));
        assert_eq!(download.rejects, rejects, "{backend:?}");
        assert_eq!(center.list("SELECT id AS v FROM t ORDER BY id"), "1,3,100,101");
        assert_eq!(center.list("SELECT id AS v FROM booking ORDER BY id"), "1,3,100");
    }
}

// The same while children come before their parents, with a trigger that writes to an uploaded
// table.
#[test]
fn it_is_found_between_rows_that_refer_to_later_ones() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let tables = "CREATE TABLE person (id INTEGER PRIMARY KEY, boss INTEGER REFERENCES person);
             CREATE TABLE visit (id INTEGER PRIMARY KEY, person INTEGER REFERENCES person);";
        let trigger = backend.pick(
            "CREATE TRIGGER greet AFTER INSERT ON person WHEN NEW.id % 10 = 3
                 BEGIN INSERT INTO visit VALUES (NEW.id, NEW.id + 1000); END;",
            "CREATE FUNCTION greet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO visit VALUES (NEW.id, NEW.id + 1000); RETURN NEW;
             END $$;
             CREATE TRIGGER greet AFTER INSERT ON person FOR EACH ROW
                 WHEN (NEW.id % 10 = 3) EXECUTE FUNCTION greet();",
        );
        let model = "[table.person]\n[table.visit]\n";
        let mut center = Center::on(backend, &format!("{tables}{trigger}"), model);
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        let person = |id: i64, boss: i64| Upload::Insert("person", vec![int(id), int(boss)]);
        let visit = |id: i64, of: i64| Upload::Insert("visit", vec![int(id), int(of)]);
        let changes = [
            visit(1, 12),
            visit(2, 13),
            person(11, 12),
            person(12, 11),
            person(13, 12),
            person(14, 13),
            person(15, 16),
            person(16, 15),
        ];
        let (_, download) = center.synchronize(&mut remote, &changes);
        let rejects = download.told();
        let people = center.list("SELECT id AS v FROM person ORDER BY id");
        let visits = center.list("SELECT id AS v FROM visit ORDER BY id");
        assert!(rejects.iter().all(|told| told.ends_with("E7003")), "{backend:?}: {rejects:?}");
        match backend {
            // It does not say which row has broken a foreign key. So circles of rows are told with
            // the row whose trigger has broken one.
            Backend::Sqlite => {
                assert_eq!((rejects.len(), people, visits), (8, "".into(), "".into()))
            }
            Backend::Postgres => {
                let told = ["person 13 E7003", "person 14 E7003", "visit 2 E7003"];
                assert_eq!(
                    (&rejects[..], &*people, &*visits),
                    (&told.map(String::from)[..], "11,12,15,16", "1")
                );
            }
        }
    }
}
