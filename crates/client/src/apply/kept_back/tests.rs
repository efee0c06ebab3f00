//! Rows that a table of the remote refuses, on real files.

use crate::apply::circumstances::Uploads;
use crate::testing::{Site, int, text};
use model::{Code, Direction, Value};

fn rows(site: &Site) -> Vec<String> {
    site.rows("SELECT * FROM t ORDER BY 1")
}

/// Table, key, code and row of each reject.
fn told(site: &Site) -> Vec<String> {
    let rejects = site.remote.rejects().unwrap();
    let line = |it: &crate::StoredReject| {
        format!("{} {} E{} {}", it.table, it.key, it.code, it.row.as_deref().unwrap_or("-"))
    };
    rejects.iter().map(line).collect()
}

fn kept(site: &Site) -> u64 {
    site.remote.status().unwrap().kept_back
}

/// A way for a table of the remote to refuse a row: the table, the row that is refused, the
/// reported row, and the statement after which it is accepted.
struct Refusal {
    table: &'static str,
    row: [Value; 3],
    told: &'static str,
    remedy: &'static str,
}

fn refusals() -> Vec<Refusal> {
    let refusal = |table, row, told, remedy| Refusal { table, row, told, remedy };
    vec![
        refusal(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT CHECK (v < 100))",
            [int(7), text("g"), int(100)],
            r#"t {"id":7} E7245 {"id":7,"u":"g","v":100}"#,
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, '< 100', '< 999') WHERE name = 't';
             PRAGMA writable_schema = RESET; CREATE TABLE bump(x); DROP TABLE bump",
        ),
        refusal(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT NOT NULL, v INT)",
            [int(7), Value::Null, int(1)],
            r#"t {"id":7} E7245 {"id":7,"u":null,"v":1}"#,
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = 't';
             PRAGMA writable_schema = RESET; CREATE TABLE bump(x); DROP TABLE bump",
        ),
        refusal(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT) STRICT",
            [int(7), text("g"), text("many")],
            r#"t {"id":7} E7245 {"id":7,"u":"g","v":"many"}"#,
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'v INT', 'v ANY') WHERE name = 't';
             PRAGMA writable_schema = RESET; CREATE TABLE bump(x); DROP TABLE bump",
        ),
        refusal(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT);
             CREATE UNIQUE INDEX own ON t(u)",
            [int(7), text("e"), int(1)],
            r#"t {"id":7} E7245 {"id":7,"u":"e","v":1}"#,
            "DROP INDEX own",
        ),
    ]
}

/// Twenty rows and the one that is refused in their middle.
fn among_others(refused: &[Value; 3]) -> Vec<Vec<Value>> {
    let mut all: Vec<Vec<Value>> =
        (1..=20).map(|n| vec![int(n * 10), text(&format!("u{n}")), int(n)]).collect();
    all.insert(0, vec![int(5), text("e"), int(5)]);
    all.insert(12, refused.to_vec());
    all
}

// S3, S4: one row that a table of the user's own refused kept the whole download from arriving
// (E5005), for ever.
#[test]
fn a_row_that_the_remote_cannot_hold_is_told_and_the_others_arrive() {
    for refusal in refusals() {
        for direction in [Direction::Both, Direction::DownloadOnly] {
            let mut site = Site::empty();
            site.write(refusal.table);
            let mut tables = site.all_tables();
            tables[0].direction = direction;
            site.publish(&tables);
            let all = among_others(&refusal.row);
            let slices: Vec<&[Value]> = all.iter().map(Vec::as_slice).collect();
            for _ in 0..2 {
                site.download().upsert("t", &slices).apply().unwrap();
                assert_eq!(rows(&site).len(), 21, "{}", refusal.table);
                assert_eq!(told(&site), [refusal.told], "told once");
                assert_eq!(kept(&site), 1);
            }
            // It is tried again, and the reject goes when it fits.
            site.write(refusal.remedy);
            site.remote.tables = None;
            site.download().upsert("t", &[&[int(900), text("z"), int(9)]]).apply().unwrap();
            assert_eq!(rows(&site).len(), 23, "{}", refusal.table);
            assert_eq!((told(&site), kept(&site)), (vec![], 0));
            assert_eq!(site.upload(), Vec::<String>::new(), "nothing of it is a change");
        }
    }
}

// S3: a newer version replaces a row that is kept back.
#[test]
fn a_newer_row_or_a_delete_takes_the_place_of_one_that_is_kept_back() {
    for refusal in refusals() {
        for refresh in [false, true] {
            let mut site = Site::new(refusal.table);
            site.download()
                .upsert("t", &[&[int(5), text("e"), int(5)], &[int(7), text("old"), int(1)]])
                .apply()
                .unwrap();
            site.download().upsert("t", &[&refusal.row]).apply().unwrap();
            assert_eq!(rows(&site), ["5, 'e', 5", "7, 'old', 1"], "it keeps what it had");
            assert_eq!(told(&site), [refusal.told]);
            let newer = [int(7), text("new"), int(2)];
            let other = [int(5), text("e"), int(5)];
            let download = site.download();
            match refresh {
                true => download.refresh("t").upsert("t", &[&other, &newer]),
                false => download.upsert("t", &[&newer]),
            }
            .apply()
            .unwrap();
            assert_eq!(rows(&site), ["5, 'e', 5", "7, 'new', 2"]);
            assert_eq!((told(&site), kept(&site)), (vec![], 0));
            site.download().upsert("t", &[&refusal.row]).apply().unwrap();
            let download = site.download();
            match refresh {
                true => download.refresh("t").upsert("t", &[&other]),
                false => download.delete("t", &[&[int(7)]]),
            }
            .apply()
            .unwrap();
            assert_eq!(rows(&site), ["5, 'e', 5"]);
            assert_eq!(kept(&site), 0);
            assert_eq!(told(&site), Vec::<String>::new(), "{}, {refresh}", refusal.table);
        }
    }
}

// S3, S4: rows that swap their values beside one that is refused for its value.
#[test]
fn rows_that_block_each_other_are_parted_from_one_that_the_remote_refuses() {
    let mut site = Site::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);
         INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)",
    );
    site.download()
        .upsert(
            "t",
            &[
                &[int(1), text("b"), int(1)],
                &[int(2), text("a"), int(2)],
                &[int(3), text("d"), int(3)],
            ],
        )
        .apply()
        .unwrap();
    assert_eq!(rows(&site), ["1, 'b', 1", "2, 'a', 2", "3, 'c', 3", "4, 'd', 4"]);
    assert_eq!(told(&site), [r#"t {"id":3} E7245 {"id":3,"u":"d","v":3}"#]);
    // The row that blocked it is deleted, and no other row arrives.
    site.download().delete("t", &[&[int(4)]]).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'b', 1", "2, 'a', 2", "3, 'd', 3"]);
    assert_eq!(told(&site), Vec::<String>::new());
}

// S4, S5: a change that waits for its table has the value of a downloaded row. The row waits, and
// comes when the change has gone.
#[test]
fn a_change_that_waits_for_its_table_keeps_only_the_row_back_that_has_its_value() {
    let mut site = Site::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v INT);
         INSERT INTO t VALUES (1, 'a', 1)",
    );
    site.write("INSERT INTO t VALUES (9, 'taken', 9)");
    let rows_come: [&[Value]; 2] = [&[int(1), text("b"), int(1)], &[int(2), text("taken"), int(2)]];
    let blocked = site.download().upsert("t", &rows_come).uploads(Uploads::Not).apply();
    assert_eq!(blocked.unwrap_err().code(), Code::DownloadBlocked);
    site.download().upsert("t", &rows_come).uploads(Uploads::WithTheirTable).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'b', 1", "9, 'taken', 9"]);
    assert_eq!(told(&site), [r#"t {"id":2} E7245 {"id":2,"u":"taken","v":2}"#]);
    assert_eq!(kept(&site), 1);
    site.write("DELETE FROM t WHERE id = 9");
    site.download().uploads(Uploads::WithTheirTable).apply().unwrap();
    assert_eq!(rows(&site), ["1, 'b', 1", "2, 'taken', 2"]);
    assert_eq!((told(&site), kept(&site)), (Vec::new(), 0));
}

const OWN: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT CHECK (v <> 'no'));
    CREATE TABLE c(id INTEGER PRIMARY KEY, t INT REFERENCES t);";

// S4, trap 26: children of a row that is refused wait for it.
#[test]
fn children_of_a_row_that_is_refused_wait_with_it() {
    let mut site = Site::new(OWN);
    site.download()
        .upsert("t", &[&[int(1), text("yes")], &[int(2), text("no")]])
        .upsert("c", &[&[int(10), int(1)], &[int(20), int(2)]])
        .apply()
        .unwrap();
    assert_eq!(rows(&site), ["1, 'yes'"]);
    assert_eq!(site.rows("SELECT * FROM c"), ["10, 1"]);
    let status = site.remote.status().unwrap();
    assert_eq!((status.kept_back, status.orphans), (1, 1));
    site.download().upsert("t", &[&[int(2), text("well")]]).apply().unwrap();
    assert_eq!(site.rows("SELECT * FROM c"), ["10, 1", "20, 2"]);
}

// S3, S4: a table of the user's own refers to a row that goes at the center. The whole download
// failed (E5005), for ever.
#[test]
fn a_row_that_a_table_of_the_users_own_refers_to_stays_and_the_rest_arrives() {
    const DEFERRED: &str = "DEFERRABLE INITIALLY DEFERRED";
    let actions = [("NO ACTION", ""), ("RESTRICT", ""), ("RESTRICT", DEFERRED)];
    for (action, when) in actions.into_iter().chain([("NO ACTION", DEFERRED)]) {
        let mut site = Site::empty();
        site.write(&format!(
            "CREATE TABLE g(id INTEGER PRIMARY KEY);
             CREATE TABLE t(id INTEGER PRIMARY KEY, g INT REFERENCES g {when})"
        ));
        let tables = site.all_tables();
        site.publish(&tables);
        site.write(&format!(
            "CREATE TABLE note(t INT REFERENCES t ON DELETE {action} {when}, words TEXT)"
        ));
        site.remote.tables = None;
        site.download()
            .upsert("g", &[&[int(1)], &[int(2)]])
            .upsert("t", &[&[int(1), int(1)], &[int(2), int(2)]])
            .apply()
            .unwrap();
        site.write("INSERT INTO note VALUES (1, 'mine')");
        site.download()
            .delete("g", &[&[int(1)], &[int(2)]])
            .delete("t", &[&[int(1)], &[int(2)]])
            .upsert("t", &[&[int(3), Value::Null]])
            .apply()
            .unwrap();
        assert_eq!(rows(&site), ["1, 1", "3, NULL"], "{action}");
        assert_eq!(site.rows("SELECT * FROM g"), ["1"]);
        assert_eq!(kept(&site), 2);
        let held = [r#"g {"id":1} E7240 {"id":1}"#, r#"t {"id":1} E7240 {"id":1,"g":1}"#];
        assert_eq!(told(&site), held);
        // Not again.
        site.download().delete("t", &[&[int(1)]]).apply().unwrap();
        assert_eq!(told(&site), held);
        // The user lets it go.
        site.write("DELETE FROM note");
        site.download().upsert("t", &[&[int(4), Value::Null]]).apply().unwrap();
        assert_eq!(rows(&site), ["3, NULL", "4, NULL"]);
        assert_eq!((site.rows("SELECT * FROM g").len(), kept(&site)), (0, 0));
        assert_eq!(told(&site), Vec::<String>::new());
    }
}

// A reject of a downloaded row is not a change of this remote.
#[test]
fn what_is_kept_back_is_not_retried_as_a_change() {
    let mut site = Site::new(OWN);
    site.download().upsert("t", &[&[int(2), text("no")]]).apply().unwrap();
    let id = site.remote.rejects().unwrap()[0].id;
    let refused = site.remote.retry_rejects(&[id], true).unwrap_err();
    assert_eq!(refused.code(), Code::RejectNotRetried);
    assert_eq!(told(&site).len(), 1);
}

// S3, S4: a downloaded row refers to a row that was deleted here in the meantime. Where that
// foreign key is deferred, no attempt got as far as uploading the delete (E9001).
#[test]
fn what_came_waits_for_a_parent_that_was_deleted_here() {
    for deferred in ["", "DEFERRABLE INITIALLY DEFERRED"] {
        let mut site = Site::new(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
             CREATE TABLE c(id INTEGER PRIMARY KEY, t INT REFERENCES t {deferred});"
        ));
        site.download()
            .upsert("t", &[&[int(1), text("one")], &[int(2), text("two")]])
            .upsert("c", &[&[int(10), int(1)]])
            .apply()
            .unwrap();
        site.write("UPDATE c SET t = NULL WHERE id = 10");
        site.download().upsert("c", &[&[int(10), int(2)]]).apply().unwrap();
        site.write("UPDATE c SET t = 1 WHERE id = 10; DELETE FROM t WHERE id = 2");
        assert_eq!(site.upload().len(), 1, "{deferred}: the delete goes up");
        assert_eq!(site.rows("SELECT * FROM c"), ["10, 1"], "{deferred}");
    }
}

// S5, Trap 3: a row of a table of the user's own keeps some rows of a restored center from going.
// What the download overwrites among those that stay is recorded all the same.
#[test]
fn rows_that_stay_for_others_are_compared_with_a_restored_center() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT)");
    let rows: [&[Value]; 2] = [&[int(1), text("a"), int(1)], &[int(2), text("b"), int(2)]];
    site.download().refresh("t").upsert("t", &rows).apply().unwrap();
    site.write("CREATE TABLE own(t INTEGER REFERENCES t(id)); INSERT INTO own VALUES (1), (2)");
    let older: [&[Value]; 1] = [&[int(1), text("a"), int(0)]];
    site.download().refresh("t").restored().upsert("t", &older).apply().unwrap();
    let told = told(&site);
    let overwritten = r#"t {"id":1} E7160 {"id":1,"u":"a","v":1}"#.to_owned();
    let lost = r#"t {"id":2} E7005 {"id":2,"u":"b","v":2}"#.to_owned();
    assert!(told.contains(&overwritten), "{told:?}");
    assert!(told.contains(&lost), "{told:?}");
    assert_eq!(site.rows("SELECT v FROM t WHERE id = 1"), ["0"]);
}

// S7, Trap 13: after a new identity the center counts from the beginning. A reject with the number
// of one that is known is another one.
#[test]
fn a_reject_of_a_new_identity_is_not_one_of_the_former() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, v INT)");
    let rows: [&[Value]; 1] = [&[int(1), text("a"), int(1)]];
    site.download().refresh("t").upsert("t", &rows).apply().unwrap();
    for times in 1..=2 {
        site.download().reject("t", &[int(1)], 3, Code::RowNotUnique).apply().unwrap();
        assert_eq!(site.remote.rejects().unwrap().len(), times);
        // It is repeated until it is known.
        site.download().reject("t", &[int(1)], 3, Code::RowNotUnique).apply().unwrap();
        assert_eq!(site.remote.rejects().unwrap().len(), times);
        let tables = site.tables();
        let remote = &mut site.remote;
        let (connection, random) = (&remote.connection, &mut remote.random);
        crate::progress::take_new_identity(connection, &tables, random, None).unwrap();
    }
}
