//! Files with triggers of an application, while downloads are applied.

use super::silent;
use crate::testing::{Site, int, text};
use model::{Code, Value};

const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT);
    CREATE TABLE other(id INTEGER PRIMARY KEY, n INT);
    INSERT INTO t VALUES (1, 'red fox', 'jumps'), (2, 'blue cat', 'sleeps');
    INSERT INTO other VALUES (1, 10)";

/// What SQLite's manual says of an index over a table, for FTS5 and for FTS4.
const FTS5: &str =
    "CREATE VIRTUAL TABLE fts USING fts5(title, body, content='t', content_rowid='id');
    INSERT INTO fts(fts) VALUES ('rebuild');
    CREATE TRIGGER t_ai AFTER INSERT ON t BEGIN
      INSERT INTO fts(rowid, title, body) VALUES (new.id, new.title, new.body);
    END;
    CREATE TRIGGER t_ad AFTER DELETE ON t BEGIN
      INSERT INTO fts(fts, rowid, title, body) VALUES('delete', old.id, old.title, old.body);
    END;
    CREATE TRIGGER t_au AFTER UPDATE ON t BEGIN
      INSERT INTO fts(fts, rowid, title, body) VALUES('delete', old.id, old.title, old.body);
      INSERT INTO fts(rowid, title, body) VALUES (new.id, new.title, new.body);
    END;";
const FTS4: &str = "CREATE VIRTUAL TABLE fts USING fts4(content=\"t\", title, body);
    INSERT INTO fts(fts) VALUES ('rebuild');
    CREATE TRIGGER t_bu BEFORE UPDATE ON `t` BEGIN
      DELETE FROM `fts` WHERE docid = OLD.rowid;
    END;
    CREATE TRIGGER t_bd BEFORE DELETE ON t BEGIN DELETE FROM fts WHERE docid = old.rowid; END;
    CREATE TRIGGER t_au AFTER UPDATE ON t BEGIN
      INSERT INTO fts(docid, title, body) VALUES (new.rowid, new.title, new.body);
    END;
    CREATE TRIGGER t_ai AFTER INSERT ON t BEGIN
      INSERT INTO fts(docid, title, body) VALUES (new.rowid, new.title, new.body);
    END;";

/// A remote with the tables of `sql`, in which triggers on `t` fire, and what the application adds.
fn firing(sql: &str, added: &str) -> Site {
    let mut site = Site::empty();
    site.write(sql);
    let mut tables = site.all_tables();
    tables.iter_mut().for_each(|table| table.fires = table.name == "t");
    site.publish(&tables);
    site.settle();
    site.write(added);
    site
}

fn row(id: i64, title: &str, body: &str) -> [Value; 3] {
    [int(id), text(title), text(body)]
}

/// The index has what lies in the table, and finds it.
fn check_index(site: &Site, word: &str, found: &[&str]) {
    site.write("INSERT INTO fts(fts) VALUES ('integrity-check')");
    let sql = format!("SELECT rowid FROM fts WHERE fts MATCH '{word}' ORDER BY 1");
    assert_eq!(site.rows(&sql), found, "{word}");
}

#[test]
fn an_index_that_triggers_keep_follows_a_download() {
    for index in [FTS5, FTS4] {
        let mut site = firing(T, index);
        let before = site.rows("SELECT name, sql FROM sqlite_schema ORDER BY 1");
        let news = [row(1, "red wolf", "jumps"), row(3, "green owl", "watches")];
        site.download()
            .upsert("t", &[&news[0], &news[1]])
            .delete("t", &[&[int(2)]])
            .apply()
            .unwrap();
        for (word, found) in
            [("fox", vec![]), ("wolf", vec!["1"]), ("cat", vec![]), ("owl", vec!["3"])]
        {
            check_index(&site, word, &found);
        }
        // Two rows exchange a value that is UNIQUE.
        let swapped = [row(1, "green owl", "jumps"), row(3, "red wolf", "watches")];
        site.download().upsert("t", &[&swapped[0], &swapped[1]]).apply().unwrap();
        check_index(&site, "wolf", &["3"]);
        check_index(&site, "owl", &["1"]);
        // The whole table, without one of its rows.
        let whole = [row(3, "red wolf", "howls"), row(4, "grey owl", "watches")];
        site.download().refresh("t").upsert("t", &[&whole[0], &whole[1]]).apply().unwrap();
        check_index(&site, "howls", &["3"]);
        check_index(&site, "owl", &["4"]);
        assert_eq!(site.upload(), Vec::<String>::new(), "nothing was changed here");
        // The triggers of the file are as they were, and fire for the application.
        assert_eq!(site.rows("SELECT name, sql FROM sqlite_schema ORDER BY 1"), before);
        assert_eq!(site.rows("SELECT * FROM temp.sqlite_schema"), Vec::<String>::new());
        site.write("INSERT INTO t VALUES (5, 'own ant', 'digs')");
        check_index(&site, "ant", &["5"]);
        assert_eq!(site.upload(), ["insert t (5, 'own ant', 'digs')"]);
    }
}

#[test]
fn an_index_is_filled_by_a_first_download_of_many_rows() {
    for index in [FTS5, FTS4] {
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT)";
        let mut site = firing(sql, index);
        site.remote.fill_rows_min = 10;
        let rows: Vec<_> = (1..100).map(|id| row(id, &format!("title {id}"), "same")).collect();
        let rows: Vec<&[Value]> = rows.iter().map(|row| row.as_slice()).collect();
        site.download().refresh("t").upsert("t", &rows).apply().unwrap();
        assert_eq!(site.rows("SELECT count(*) FROM fts WHERE fts MATCH 'same'"), ["99"]);
        check_index(&site, "77", &["77"]);
    }
}

// The other table is filled under a hidden name and takes its place in the same transaction.
#[test]
fn what_triggers_write_into_a_table_that_was_just_filled_is_captured() {
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT);
        CREATE TABLE other(id INTEGER PRIMARY KEY, n INT)";
    let trigger = "CREATE TRIGGER own AFTER INSERT ON t BEGIN
        UPDATE other SET n = -n WHERE id = NEW.id; END";
    let mut site = firing(sql, trigger);
    site.remote.fill_rows_min = 10;
    let rows: Vec<_> = (1..100).map(|id| [int(id), int(id)]).collect();
    let rows: Vec<&[Value]> = rows.iter().map(|row| row.as_slice()).collect();
    let download = site.download().refresh("t").refresh("other").upsert("other", &rows);
    download.upsert("t", &[&row(7, "a", "b"), &row(70, "c", "d")]).apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM other WHERE n < 0"), ["7", "70"]);
    let uploaded = ["update other (7, 7) -> (7, -7)", "update other (70, 70) -> (70, -70)"];
    assert_eq!(site.upload(), uploaded);
}

#[test]
fn each_row_fires_as_what_it_is_and_only_if_it_differs() {
    let mut site = firing(
        T,
        "CREATE TABLE log(n INTEGER PRIMARY KEY, what);
         CREATE TRIGGER \"on\" BEFORE INSERT ON t /* ON x */ BEGIN
           INSERT INTO log(what) VALUES ('insert ' || NEW.id); -- END
         END;
         CREATE TRIGGER [begin]AFTER UPDATE OF body ON \"t\" FOR EACH ROW
           WHEN CASE WHEN NEW.body = OLD.body THEN 0 ELSE 1 END BEGIN
           INSERT INTO log(what) VALUES ('body ' || NEW.id);
         END;
         CREATE TRIGGER title AFTER UPDATE OF title ON T BEGIN
           INSERT INTO log(what) VALUES ('title ' || OLD.title || '; END');
         END;
         CREATE TRIGGER gone AFTER DELETE ON t BEGIN
           INSERT INTO log(what) VALUES ('delete ' || OLD.id);
         END;",
    );
    let rows = [row(1, "red fox", "runs"), row(2, "blue cat", "sleeps"), row(3, "new", "x")];
    let rows: Vec<&[Value]> = rows.iter().map(|row| row.as_slice()).collect();
    site.download().upsert("t", &rows).apply().unwrap();
    let log = "SELECT what FROM log ORDER BY n";
    assert_eq!(site.rows(log), ["'body 1'", "'insert 3'"]);
    site.write("DELETE FROM log");
    site.download()
        .upsert("t", &[&row(2, "cat", "sleeps")])
        .delete("t", &[&[int(3)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows(log), ["'title blue cat; END'", "'delete 3'"]);
    assert_eq!(site.upload(), Vec::<String>::new());
}

#[test]
fn what_triggers_write_is_captured_and_what_comes_is_not() {
    let mut site = firing(
        T,
        "CREATE TABLE audit(n INTEGER PRIMARY KEY, what); CREATE TABLE deep(what);
         CREATE TRIGGER audited AFTER INSERT ON audit BEGIN
           INSERT INTO deep VALUES ('saw ' || NEW.what);
         END;
         CREATE TRIGGER counted AFTER UPDATE ON other BEGIN
           INSERT INTO deep VALUES (OLD.n || ' to ' || NEW.n);
         END;
         CREATE TRIGGER own AFTER INSERT ON t BEGIN
           UPDATE t SET body = upper(NEW.body) WHERE id = NEW.id;
           UPDATE other SET n = n + 1;
           INSERT INTO audit(what) VALUES (NEW.title);
         END;",
    );
    site.download()
        .upsert("t", &[&row(3, "new", "low"), &row(4, "newer", "low")])
        .upsert("other", &[&[int(2), int(20)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT * FROM t WHERE id > 2"), ["3, 'new', 'LOW'", "4, 'newer', 'LOW'"]);
    assert_eq!(
        site.rows("SELECT what FROM deep"),
        ["'10 to 11'", "'saw new'", "'11 to 12'", "'saw newer'"]
    );
    assert_eq!(
        site.upload(),
        [
            "update t (3, 'new', 'low') -> (3, 'new', 'LOW')",
            "update t (4, 'newer', 'low') -> (4, 'newer', 'LOW')",
            "update other (1, 10) -> (1, 12)",
        ]
    );
    // The answer of the center is as it lies here.
    site.download().upsert("t", &[&row(3, "new", "LOW")]).apply().unwrap();
    assert_eq!(site.upload(), Vec::<String>::new());
    assert_eq!(site.rows("SELECT count(*) FROM audit"), ["2"]);
}

#[test]
fn triggers_of_views_fire_for_what_triggers_write_into_them() {
    let mut site = firing(
        T,
        "CREATE VIEW v AS SELECT id AS \"the id\" FROM other;
         CREATE TRIGGER instead INSTEAD OF INSERT ON v BEGIN
           INSERT INTO other VALUES (NEW.\"the id\", 5);
         END;
         CREATE VIEW broken AS SELECT * FROM lost;
         CREATE TRIGGER never INSTEAD OF UPDATE ON broken BEGIN SELECT 1; END;
         CREATE TRIGGER own AFTER INSERT ON t BEGIN
           INSERT INTO v VALUES (NEW.id);
           SELECT 'broken' AS broken;
         END;",
    );
    site.download().upsert("t", &[&row(3, "new", "low")]).apply().unwrap();
    assert_eq!(site.upload(), ["insert other (3, 5)"]);
}

// A row that a trigger has changed comes itself with the same download: its change is pending as
// any other.
#[test]
fn a_row_that_comes_does_not_overwrite_what_a_trigger_has_written() {
    let mut site = firing(
        T,
        "CREATE TRIGGER own AFTER INSERT ON t BEGIN UPDATE other SET n = n + 1 WHERE id = 1; END",
    );
    site.write("UPDATE other SET n = 11 WHERE id = 1; INSERT INTO other VALUES (7, 7)");
    site.download()
        .upsert("t", &[&row(3, "new", "low")])
        .upsert("other", &[&[int(1), int(50)], &[int(2), int(20)]])
        .apply()
        .unwrap();
    assert_eq!(site.rows("SELECT * FROM other"), ["1, 12", "2, 20", "7, 7"]);
    assert_eq!(site.upload(), ["insert other (7, 7)", "update other (1, 10) -> (1, 12)"]);
}

#[test]
fn rows_that_exchange_values_leave_no_placeholder_in_what_triggers_write() {
    let mut site = firing(
        T,
        "CREATE TRIGGER own AFTER UPDATE OF title ON t BEGIN
           UPDATE t SET body = NEW.title WHERE id = NEW.id;
           UPDATE other SET n = n + 1;
         END",
    );
    let swapped = [row(1, "blue cat", "jumps"), row(2, "red fox", "sleeps")];
    site.download().upsert("t", &[&swapped[0], &swapped[1]]).apply().unwrap();
    let rows = ["1, 'blue cat', 'blue cat'", "2, 'red fox', 'red fox'"];
    assert_eq!(site.rows("SELECT * FROM t"), rows);
    let mut uploaded = site.upload();
    uploaded.sort();
    assert_eq!(
        uploaded,
        [
            "update other (1, 10) -> (1, 14)",
            "update t (1, 'blue cat', 'jumps') -> (1, 'blue cat', 'blue cat')",
            "update t (2, 'red fox', 'sleeps') -> (2, 'red fox', 'red fox')",
        ]
    );
}

#[test]
fn a_trigger_that_writes_to_rows_that_wait_leaves_no_placeholder_in_them() {
    let mut site = firing(
        T,
        "CREATE TRIGGER own AFTER UPDATE OF title ON t BEGIN
           UPDATE t SET body = body || '!' WHERE id <> NEW.id;
         END",
    );
    let swapped = [row(1, "blue cat", "jumps"), row(2, "red fox", "sleeps")];
    site.download().upsert("t", &[&swapped[0], &swapped[1]]).apply().unwrap();
    assert_eq!(site.rows("SELECT id, title FROM t"), ["1, 'blue cat'", "2, 'red fox'"]);
}

#[test]
fn what_a_trigger_cannot_write_keeps_its_row_back() {
    let mut site = firing(
        T,
        "CREATE TABLE tag(name TEXT UNIQUE, CHECK (name <> 'bad')); INSERT INTO tag VALUES ('old');
         CREATE TRIGGER own AFTER INSERT ON t BEGIN INSERT INTO tag VALUES (NEW.body); END;
         CREATE TRIGGER gone AFTER DELETE ON t BEGIN
           INSERT INTO tag VALUES (CASE OLD.id WHEN 1 THEN 'bad' ELSE 'good' END);
         END;",
    );
    let rows = [row(3, "a", "bad"), row(4, "b", "old"), row(5, "c", "new")];
    let rows: Vec<&[Value]> = rows.iter().map(|row| row.as_slice()).collect();
    let deleted: [&[Value]; 2] = [&[int(1)], &[int(2)]];
    site.download().upsert("t", &rows).delete("t", &deleted).apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM t ORDER BY 1"), ["1", "5"]);
    assert_eq!(site.rows("SELECT * FROM tag ORDER BY 1"), ["'good'", "'new'", "'old'"]);
    let told = || {
        let rejects = site.remote.rejects().unwrap();
        rejects.into_iter().map(|it| (it.key, it.code, it.message)).collect::<Vec<_>>()
    };
    let (unfit, held) = (Code::RowUnfit.number(), Code::RowHeld.number());
    assert_eq!(
        told(),
        [
            (r#"{"id":3}"#.into(), unfit, "CHECK constraint failed: name <> 'bad'".into()),
            (r#"{"id":4}"#.into(), unfit, "UNIQUE constraint failed: tag.name".into()),
            (
                r#"{"id":1}"#.into(),
                held,
                "the row no longer belongs to this remote, but a trigger here cannot follow its \
                 delete: CHECK constraint failed: name <> 'bad'"
                    .into()
            ),
        ]
    );
    assert_eq!(site.upload(), Vec::<String>::new());
    // They are tried again.
    site.write("DELETE FROM tag; DROP TRIGGER gone");
    site.download().apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM t ORDER BY 1"), ["4", "5"]);
    assert_eq!(site.remote.rejects().unwrap().len(), 1);
}

#[test]
fn a_trigger_that_cannot_fire_is_told_and_refuses_nothing() {
    let mut site = firing(
        T,
        "CREATE TRIGGER a AFTER INSERT ON t WHEN NEW.id > 2 BEGIN
           SELECT RAISE(ABORT, 'no');
         END;
         CREATE TRIGGER b AFTER INSERT ON t BEGIN INSERT OR ROLLBACK INTO other VALUES (1, 1); END;
         CREATE TRIGGER c AFTER INSERT ON t BEGIN INSERT INTO lost VALUES (1); END;
         CREATE TRIGGER d AFTER INSERT ON t BEGIN UPDATE other SET n = 0; END;",
    );
    site.download().upsert("t", &[&row(3, "new", "low")]).apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM t ORDER BY 1"), ["1", "2", "3"]);
    assert_eq!(site.upload(), ["update other (1, 10) -> (1, 0)"]);
    let tables = site.tables();
    let connection = &site.remote.connection;
    let unfit = || {
        let transaction = crate::connection::begin_immediate(connection).unwrap();
        let tables = tables.clone();
        let silent = crate::testing::fired(connection, &tables).unwrap().end(connection).unwrap();
        transaction.rollback().unwrap();
        silent
    };
    let told = |unfit| -> Vec<String> {
        let told = silent::tell(connection, Vec::new(), unfit).unwrap().into_iter();
        told.map(|it| format!("{} {}: {}", it.table, it.trigger, it.why.unwrap())).collect()
    };
    assert_eq!(
        told(unfit()),
        ["t a: it uses RAISE", "t b: it uses FAIL or ROLLBACK", "t c: no such table: lost",]
    );
    assert_eq!(told(unfit()), Vec::<String>::new(), "once");
}

// Children follow their parents by foreign keys of the file, and their indexes hear of it.
#[test]
fn actions_of_foreign_keys_fire_too() {
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY);
        CREATE TABLE t(id INTEGER PRIMARY KEY, title TEXT, body TEXT,
            p INT REFERENCES p ON DELETE CASCADE);
        INSERT INTO p VALUES (1), (2);
        INSERT INTO t VALUES (10, 'red fox', 'x', 1), (20, 'blue cat', 'y', 2)";
    for index in [FTS5, FTS4] {
        let mut site = firing(sql, index);
        // The child is set aside, because the center has not named it.
        site.download().delete("p", &[&[int(1)]]).apply().unwrap();
        assert_eq!(site.rows("SELECT id FROM t ORDER BY 1"), ["20"]);
        check_index(&site, "fox", &[]);
        site.download().upsert("p", &[&[int(1)]]).apply().unwrap();
        check_index(&site, "fox", &["10"]);
        // Parent and child go together, and the parent is deleted first.
        site.download().delete("p", &[&[int(2)]]).delete("t", &[&[int(20)]]).apply().unwrap();
        check_index(&site, "cat", &[]);
        assert_eq!(site.rows("SELECT id FROM t ORDER BY 1"), ["10"]);
        assert_eq!(site.upload(), Vec::<String>::new());
    }
}

#[test]
fn a_row_waits_for_its_parent_as_long_as_a_trigger_cannot_follow_it() {
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY);
        CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p)";
    let mut site = firing(
        sql,
        "CREATE TABLE tag(id UNIQUE);
         CREATE TRIGGER come AFTER INSERT ON t BEGIN INSERT INTO tag VALUES (NEW.id); END;
         CREATE TRIGGER gone AFTER DELETE ON t BEGIN DELETE FROM tag WHERE id = OLD.id; END;",
    );
    site.download().upsert("t", &[&[int(10), int(1)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM syncline_orphan_t"), ["1"]);
    site.write("INSERT INTO tag VALUES (10)");
    site.download().upsert("p", &[&[int(1)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM syncline_orphan_t"), ["1"]);
    site.write("DELETE FROM tag");
    site.download().upsert("p", &[&[int(2)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), ["10, 1"]);
    assert_eq!(site.rows("SELECT * FROM tag"), ["10"]);
}

// S5: values in columns that are not published are told when a download takes them, and only then.
#[test]
fn what_a_trigger_deletes_is_not_told_as_gone() {
    let mut site = firing(
        T,
        "ALTER TABLE other ADD COLUMN own TEXT; UPDATE other SET own = 'kept here';
         INSERT INTO other VALUES (2, 20, 'kept too');
         CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM other WHERE id = 1; END",
    );
    site.settle();
    let download = site.download().upsert("t", &[&row(3, "new", "low")]);
    download.delete("other", &[&[int(2)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM other"), Vec::<String>::new());
    let told = site.remote.rejects().unwrap().into_iter().map(|it| it.key);
    assert_eq!(told.collect::<Vec<_>>(), [r#"{"id":2}"#]);
    assert_eq!(site.upload(), ["delete other (1, 10)"]);
}

#[test]
fn a_trigger_that_does_not_let_a_row_go_is_named_by_its_table() {
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY);
        CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p)";
    let mut site = firing(
        sql,
        "CREATE TABLE tag(id CHECK (id < 0));
         CREATE TRIGGER gone AFTER DELETE ON t BEGIN INSERT INTO tag VALUES (OLD.id); END;",
    );
    let failure = site.download().upsert("t", &[&[int(10), int(1)]]).apply().unwrap_err();
    assert_eq!((failure.code(), failure.table_name()), (Code::RemoteSchemaDiffers, Some("t")));
    assert!(failure.full_message().contains("CHECK constraint failed: id < 0"), "{failure:?}");
    site.write("DROP TRIGGER gone");
    site.download().upsert("t", &[&[int(10), int(1)]]).apply().unwrap();
    assert_eq!(site.rows("SELECT count(*) FROM syncline_orphan_t"), ["1"]);
}

#[test]
fn what_foreign_keys_do_to_what_triggers_delete_is_captured() {
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE p(id INTEGER PRIMARY KEY);
        CREATE TABLE child(id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE);
        INSERT INTO p VALUES (1); INSERT INTO child VALUES (5, 1)";
    let trigger = "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM p WHERE id = NEW.id; END";
    let mut site = firing(sql, trigger);
    site.download().upsert("t", &[&[int(1)]]).apply().unwrap();
    let mut uploaded = site.upload();
    uploaded.sort();
    assert_eq!(uploaded, ["delete child (5, 1)", "delete p (1)"]);
}

#[test]
fn keys_of_any_kind_fire() {
    for (key, declared) in [("", ""), ("COLLATE NOCASE", ""), ("COLLATE NOCASE", "WITHOUT ROWID")] {
        let sql = format!(
            "CREATE TABLE t(id TEXT NOT NULL {key}, n INT, v TEXT, PRIMARY KEY (n, id)) {declared};
             INSERT INTO t VALUES ('a', 1, 'x'), ('b', 1, 'y')"
        );
        let mut site = firing(
            &sql,
            "CREATE TABLE log(n INTEGER PRIMARY KEY, what);
             CREATE TRIGGER gone AFTER DELETE ON t BEGIN
               INSERT INTO log(what) VALUES ('- ' || OLD.id);
             END;
             CREATE TRIGGER come AFTER INSERT ON t BEGIN
               INSERT INTO log(what) VALUES ('+ ' || NEW.id);
             END;
             CREATE TRIGGER other AFTER UPDATE ON t BEGIN
               INSERT INTO log(what) VALUES (OLD.id || ' to ' || NEW.id);
             END;",
        );
        let (renamed, spelled) = ([text("c"), int(1), text("y")], [text("A"), int(1), text("x")]);
        let (old, respelled) = ([int(1), text("b")], [int(1), text("a")]);
        let download = site.download().upsert("t", &[&renamed, &spelled]);
        download.delete("t", &[&old, &respelled]).apply().unwrap();
        let log = site.rows("SELECT what FROM log ORDER BY n");
        match key {
            "" => assert_eq!(log, ["'+ c'", "'+ A'", "'- b'", "'- a'"]),
            _ => assert_eq!(log, ["'+ c'", "'a to A'", "'- b'"]),
        }
        assert_eq!(site.rows("SELECT id FROM t ORDER BY 1"), ["'A'", "'c'"]);
        assert_eq!(site.upload(), Vec::<String>::new());
    }
}

#[test]
fn changes_that_triggers_add_beside_pending_ones_stop_no_download() {
    let mut site = firing(
        T,
        "CREATE TRIGGER own AFTER DELETE ON t BEGIN
           UPDATE other SET n = n + 1;
           INSERT INTO other VALUES (OLD.id + 100, 0);
         END",
    );
    site.write("INSERT INTO other VALUES (7, 7)");
    site.download().delete("t", &[&[int(1)]]).apply().unwrap();
    let mut uploaded = site.upload();
    uploaded.sort();
    assert_eq!(
        uploaded,
        ["insert other (101, 0)", "insert other (7, 8)", "update other (1, 10) -> (1, 11)"]
    );
}

// A statement that fails may leave what it has done before, by the rule of its table. The next row
// must not be taken for what a trigger writes.
#[test]
fn nothing_is_captured_behind_a_statement_that_has_failed_halfway() {
    let mut site = firing(
        T,
        "CREATE TABLE tag(name TEXT UNIQUE ON CONFLICT FAIL); INSERT INTO tag VALUES ('old');
         CREATE TRIGGER own AFTER INSERT ON t BEGIN INSERT INTO tag VALUES (NEW.body); END;
         CREATE TRIGGER twice AFTER INSERT ON t BEGIN UPDATE t SET body = 'own' WHERE 0; END;",
    );
    site.download().upsert("t", &[&row(3, "a", "old"), &row(4, "b", "new")]).apply().unwrap();
    assert_eq!(site.upload(), Vec::<String>::new());
    site.write(
        "DROP TABLE tag; CREATE TABLE tag(name TEXT UNIQUE ON CONFLICT ROLLBACK);
        INSERT INTO tag VALUES ('old')",
    );
    let failure = site.download().upsert("t", &[&row(5, "c", "old")]).apply().unwrap_err();
    assert!(failure.full_message().contains("rolled the download back"), "{failure:?}");
    assert_eq!(site.rows("SELECT id FROM t WHERE id > 4"), Vec::<String>::new());
    site.write("DELETE FROM tag");
    site.download().upsert("t", &[&row(5, "c", "old")]).apply().unwrap();
    assert_eq!(site.rows("SELECT id FROM t WHERE id > 4"), ["5"]);
}

// REPLACE of a table's own would lose a row without a word; that of a trigger stays what it is.
#[test]
fn conflict_rules_of_tables_do_not_count_and_those_of_triggers_do() {
    let mut site = firing(
        "CREATE TABLE t(
           id INTEGER PRIMARY KEY ON CONFLICT REPLACE, u TEXT UNIQUE ON CONFLICT IGNORE
         );
         INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE log(what TEXT);
         CREATE TRIGGER x AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (OLD.u); END;",
    );
    site.download().upsert("t", &[&[int(1), text("b")], &[int(2), text("c")]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), ["1, 'b'", "2, 'c'"]);
    assert_eq!(site.rows("SELECT * FROM log"), ["'b'", "'a'"]);
    let mut site = firing(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT); INSERT INTO t VALUES (1, 'a')",
        "CREATE TABLE last(id INTEGER PRIMARY KEY, u TEXT);
         CREATE TRIGGER x AFTER UPDATE ON t BEGIN
           INSERT OR REPLACE INTO last VALUES (1, NEW.u);
           INSERT OR IGNORE INTO last VALUES (1, 'no');
         END;",
    );
    site.download().upsert("t", &[&[int(1), text("b")]]).apply().unwrap();
    site.download().upsert("t", &[&[int(1), text("c")]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM last"), ["1, 'c'"]);
}
