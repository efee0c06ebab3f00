//! Uploads with many conflicts, one directly after the other; on every database.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::Value;
use syncline_consolidated::{ConflictNote, Notes, administer};

fn row(id: i64, a: &str, n: i64) -> Row {
    vec![int(id), text(a), int(n)]
}

/// Rows from 1 to `count` that the remote has seen.
fn with_rows(backend: Backend, count: i64) -> (Center, Remote) {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, n NUMERIC);";
    let schema = backend.pick(schema, "CREATE TABLE t (id integer PRIMARY KEY, a text, n integer)");
    let mut center = Center::on(backend, schema, "[table.t]\n");
    center.foreign(&format!(
        "WITH RECURSIVE s (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM s WHERE id < {count})
         INSERT INTO t SELECT id, 'a', id FROM s"
    ));
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

// S5: rows among those with a conflict that have none are applied, and every conflict is noted.
#[test]
fn rows_between_many_conflicts_are_applied() {
    Backend::each(|backend| {
        let (mut center, mut remote) = with_rows(backend, 60);
        // The rows up to 30 get an update, the others are deleted. Of each, the last ten and every
        // seventh are as the remote saw them.
        center.foreign(
            "UPDATE t SET a = 'theirs' WHERE (id - 1) % 30 < 20 AND id % 7 <> 0 AND id <> 40;
             DELETE FROM t WHERE id = 40",
        );
        let uploads: Vec<Upload> = (1..=60)
            .map(|id| match id {
                1..=30 => Upload::Update("t", row(id, "a", id), row(id, "mine", id)),
                _ => Upload::Delete("t", row(id, "a", id)),
            })
            .collect();
        let (applied, download) = center.synchronize(&mut remote, &uploads);
        let lost = (1..=60).filter(|id| (id - 1) % 30 < 20 && id % 7 != 0 && *id != 40);
        let lost: Vec<i64> = lost.collect();
        assert_eq!((applied.conflicts, applied.rejected), (lost.len() as u64, 0), "{backend:?}");
        let conflicts = backend.pick("syncline_conflict", "syncline.syncline_conflict");
        let noted = center.value(&format!("SELECT count(*) FROM {conflicts}"));
        assert_eq!(noted, int(lost.len() as i64), "{backend:?}");
        let mut came: Vec<Row> = download.upserts.into_iter().map(|(_, row)| row).collect();
        came.sort_by_key(|row| lost.iter().position(|id| row[0] == int(*id)));
        let wanted: Vec<Row> = lost.iter().map(|id| row(*id, "theirs", *id)).collect();
        assert_eq!(came, wanted, "{backend:?}");
        let mine = center.value("SELECT count(*) FROM t WHERE a = 'mine' AND id <= 30");
        let kept = lost.iter().filter(|id| **id <= 30).count() as i64;
        assert_eq!(mine, int(30 - kept), "{backend:?}");
        let left = center.value("SELECT count(*) FROM t WHERE id > 30");
        assert_eq!(left, int(lost.len() as i64 - kept), "{backend:?}");
    });
}

// S5: records are written several at a time; each says of its own row what came of it, in the order
// of the conflicts.
#[test]
fn each_of_many_conflicts_has_its_own_record() {
    Backend::each(|backend| {
        let (mut center, mut remote) = with_rows(backend, 40);
        center.foreign("UPDATE t SET a = 'theirs'; DELETE FROM t WHERE id IN (5, 17, 35)");
        let uploads: Vec<Upload> = (1..=40)
            .map(|id| match id {
                1..=21 => Upload::Update("t", row(id, "a", id), row(id, "mine", id)),
                _ => Upload::Delete("t", row(id, "a", id)),
            })
            .collect();
        let (applied, _) = center.synchronize(&mut remote, &uploads);
        let mut notes = administer(&center.url).unwrap().conflicts(&Notes::newest(100)).unwrap();
        assert_eq!(notes.len() as u64, applied.conflicts, "{backend:?}");
        assert!(notes.iter().all(|it| it.table == "t" && it.remote_id == "r" && it.user == "ann"));
        let number = |note: &ConflictNote| -> i64 {
            let old: serde_json::Value =
                serde_json::from_str(note.old.as_deref().unwrap()).unwrap();
            old["id"].as_i64().unwrap()
        };
        notes.sort_by_key(number);
        // Where the row is gone, a delete meets what it wants.
        let ids: Vec<i64> = notes.iter().map(number).collect();
        assert_eq!(ids, (1..=40).filter(|id| *id != 35).collect::<Vec<_>>(), "{backend:?}");
        for (note, id) in notes.iter().zip(ids) {
            let image = |a: &str| Some(format!(r#"{{"id":{id},"a":"{a}","n":{id}}}"#));
            let (gone, deletes) = ([5, 17].contains(&id), id > 21);
            assert_eq!(note.operation, if deletes { "delete" } else { "update" });
            assert_eq!(note.old, image("a"), "{backend:?}");
            assert_eq!(note.new, if deletes { None } else { image("mine") }, "{backend:?}");
            let there = if gone { None } else { image("theirs") };
            assert_eq!(note.consolidated, there, "{backend:?}");
            assert_eq!(note.result, there, "{backend:?}");
        }
    });
}

// S5, Trap 22: after conflicts a row is looked up first. What SQLite calls equal is no conflict
// then either, however it is written.
#[test]
fn a_value_that_is_equal_is_no_conflict_after_many() {
    let (mut center, mut remote) = with_rows(Backend::Sqlite, 12);
    center.foreign("UPDATE t SET a = 'theirs' WHERE id <= 5 OR id > 10");
    let seen = |id: i64| {
        let mut seen = row(id, "a", id);
        if id > 5 {
            // The column makes a number of it before it compares.
            seen[2] = text(&format!("{id}.0"));
        }
        seen
    };
    let uploads: Vec<Upload> =
        (1..=12).map(|id| Upload::Update("t", seen(id), row(id, "mine", id))).collect();
    let (applied, _) = center.synchronize(&mut remote, &uploads);
    assert_eq!(applied.conflicts, 7);
    assert_eq!(center.value("SELECT group_concat(id) FROM t WHERE a = 'mine'"), text("6,7,8,9,10"));
}

/// The exchanges with the database that as many conflicts take, and how many they are.
fn exchanges(count: i64) -> u64 {
    let (mut center, mut remote) = with_rows(Backend::Postgres, count);
    center.foreign("UPDATE t SET n = -1");
    let uploads: Vec<Upload> =
        (1..=count).map(|id| Upload::Update("t", row(id, "a", id), row(id, "b", id))).collect();
    let before = center.writer.round_trips();
    let applied = center.upload(&mut remote, &uploads).unwrap();
    assert_eq!(applied.conflicts, count as u64);
    let all = center.value("SELECT count(*) FROM syncline.syncline_conflict");
    assert_eq!(all, Value::Integer(count));
    center.writer.round_trips() - before
}

// S8, S11: hundreds of thousands of small rows were resolved at once. The database was asked
// nothing for so long that it ended the transaction as that of a server that hangs.
#[test]
fn the_database_is_asked_something_after_every_ten_thousand_rows() {
    let (few, many) = (exchanges(5_000), exchanges(35_000));
    assert!(many >= few + 10, "{few} and {many} exchanges");
}

// S5, Trap 15: a database of UTF-16 replaces what is no text. What it would call equal is no
// conflict, after conflicts either.
#[test]
fn a_text_that_the_center_cannot_keep_is_no_conflict_after_many() {
    let schema = "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);
        WITH RECURSIVE s (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM s WHERE id < 8)
        INSERT INTO t SELECT id, 'a' || char(65533) FROM s";
    let mut center = Center::new(schema, "[table.t]\n");
    assert_eq!(center.value("PRAGMA encoding"), text("UTF-16le"));
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign("UPDATE t SET a = 'theirs' WHERE id <= 5");
    let seen = |id: i64| match id {
        1..=5 => text("a"),
        6 => Value::Text(b"a\xff".to_vec()),
        _ => text("a\u{fffd}"),
    };
    let update = |id| Upload::Update("t", vec![int(id), seen(id)], vec![int(id), text("mine")]);
    let uploads: Vec<Upload> = (1..=8).map(update).collect();
    let (applied, _) = center.synchronize(&mut remote, &uploads);
    assert_eq!((applied.conflicts, applied.rejected), (5, 0));
    assert_eq!(center.value("SELECT count(*) FROM t WHERE a = 'mine'"), int(3));
}
