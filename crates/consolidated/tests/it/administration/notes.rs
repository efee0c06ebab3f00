//! The center's records about single rows, for people: rejects and conflicts; on every database.

use crate::support::center::{self, Backend, Center, Remote, Upload, int, text};
use model::Code;
use syncline_consolidated::{Administration, Notes, administer};

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT CHECK (a <> 'no'), b TEXT UNIQUE);
    INSERT INTO t VALUES (1, 'a', 'b'), (2, 'x', 'y');";

fn admin(center: &Center) -> Box<dyn Administration> {
    administer(&center.url).unwrap()
}

// S5, S7: a reject was only in the file of its remote. An operator who was asked for a lost order
// found its key at most, and nothing after the remote had received the reject.
#[test]
fn the_center_keeps_what_it_refused_with_its_content() {
    Backend::each(the_center_keeps_what_it_refused_on);
}

fn the_center_keeps_what_it_refused_on(backend: Backend) {
    let mut center = Center::on(backend, SCHEMA, "[table.t]\n");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let uploads = [
        Upload::Insert("t", vec![int(3), text("no"), text("c")]),
        Upload::Update("t", vec![int(1), text("a"), text("b")], vec![int(1), text("a"), text("y")]),
        Upload::Insert("t", vec![int(4), text("yes"), text("d")]),
    ];
    let applied = center.upload(&mut remote, &uploads).unwrap();
    assert_eq!(applied.rejected, 2, "{backend:?}");
    let mut notes = admin(&center).rejects(&Notes::newest(10)).unwrap();
    notes.sort_by(|a, b| a.key.cmp(&b.key));
    let told: Vec<_> = notes
        .iter()
        .map(|it| (it.operation.as_str(), it.key.as_str(), it.row.as_deref().unwrap(), it.code))
        .collect();
    let expected = [
        ("update", r#"{"id":1}"#, r#"{"id":1,"a":"a","b":"y"}"#, Code::RowNotUnique.number()),
        ("insert", r#"{"id":3}"#, r#"{"id":3,"a":"no","b":"c"}"#, Code::RowRefused.number()),
    ];
    assert_eq!(told, expected, "{backend:?}");
    assert!(notes.iter().all(|it| it.user == "ann" && it.remote_id == "r" && it.table == "t"));
    let one = admin(&center).rejects(&Notes::of(notes[1].id)).unwrap();
    assert_eq!((one.len(), &one[0]), (1, &notes[1]), "{backend:?}");

    // A reject that the remote has not received is never removed, whatever its age.
    assert!(notes.iter().all(|it| !it.learned), "{backend:?}");
    assert_eq!(admin(&center).purge_rejects(0).unwrap(), 0, "{backend:?}");
    center.writer.trim_notes(1000, 0).unwrap();
    assert_eq!(admin(&center).rejects(&Notes::newest(10)).unwrap().len(), 2, "{backend:?}");
    center.download(&mut remote, &applied);
    center.synchronize(&mut remote, &[]);
    assert!(admin(&center).rejects(&Notes::newest(10)).unwrap().iter().all(|it| it.learned));
    assert_eq!(admin(&center).purge_rejects(3600).unwrap(), 0, "{backend:?}: they are young");
    center.writer.trim_notes(1000, 3600).unwrap();
    center.writer.trim_notes(1, 3600).unwrap();
    assert_eq!(admin(&center).rejects(&Notes::newest(10)).unwrap().len(), 1, "{backend:?}: S9");
    assert_eq!(admin(&center).purge_rejects(0).unwrap(), 1, "{backend:?}");
}

// S5: a note about a conflict had three rows and not the one that the rule made of them, and arrays
// whose positions mean nothing after a column was added or dropped.
#[test]
fn a_conflict_says_what_came_of_it_by_column_name() {
    Backend::each(a_conflict_says_what_came_of_it_on);
}

// S5: the row that stays is recorded once, and shown as the result too.
#[test]
fn a_row_that_stays_is_recorded_once() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, "[table.t]\n");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE t SET a = 'theirs' WHERE id = 1; DELETE FROM t WHERE id = 2");
        let uploads = [
            Upload::Delete("t", vec![int(1), text("a"), text("b")]),
            Upload::Update(
                "t",
                vec![int(2), text("x"), text("y")],
                vec![int(2), text("x"), text("z")],
            ),
        ];
        let (applied, _) = center.synchronize(&mut remote, &uploads);
        assert_eq!(applied.conflicts, 2, "{backend:?}");
        let mut notes = admin(&center).conflicts(&Notes::newest(10)).unwrap();
        notes.sort_by(|a, b| a.operation.cmp(&b.operation));
        let (stays, gone) = (&notes[0], &notes[1]);
        let there = Some(r#"{"id":1,"a":"theirs","b":"b"}"#);
        assert_eq!((stays.consolidated.as_deref(), stays.result.as_deref()), (there, there));
        assert_eq!((&gone.consolidated, &gone.result), (&None, &None), "{backend:?}");
        let conflicts = backend.pick("syncline_conflict", "syncline.syncline_conflict");
        let sql = format!("SELECT coalesce(max(result_row), '-') FROM {conflicts}");
        assert_eq!(center.value(&sql), text(r#""unchanged""#), "{backend:?}");
    });
}

fn a_conflict_says_what_came_of_it_on(backend: Backend) {
    let mut center = Center::on(backend, SCHEMA, "[table.t]\nconflict = \"merge\"\n");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    center.foreign("UPDATE t SET a = 'theirs' WHERE id = 1; DELETE FROM t WHERE id = 2");
    let uploads = [
        Upload::Update("t", vec![int(1), text("a"), text("b")], vec![int(1), text("a"), text("c")]),
        Upload::Update("t", vec![int(2), text("x"), text("y")], vec![int(2), text("x"), text("z")]),
    ];
    let (applied, _) = center.synchronize(&mut remote, &uploads);
    assert_eq!(applied.conflicts, 2, "{backend:?}");
    let mut notes = admin(&center).conflicts(&Notes::newest(10)).unwrap();
    notes.sort_by(|a, b| a.new.cmp(&b.new));
    let both = notes.remove(0);
    assert_eq!(both.old.as_deref(), Some(r#"{"id":1,"a":"a","b":"b"}"#), "{backend:?}");
    assert_eq!(both.new.as_deref(), Some(r#"{"id":1,"a":"a","b":"c"}"#), "{backend:?}");
    assert_eq!(both.consolidated.as_deref(), Some(r#"{"id":1,"a":"theirs","b":"b"}"#));
    assert_eq!(both.result.as_deref(), Some(r#"{"id":1,"a":"theirs","b":"c"}"#), "{backend:?}");
    let gone = notes.remove(0);
    assert_eq!(gone.consolidated, None, "{backend:?}");
    let there = center.value("SELECT count(*) FROM t WHERE id = 2") == int(1);
    assert_eq!(gone.result.is_some(), there, "{backend:?}: {gone:?}");
    assert_eq!(admin(&center).purge_conflicts(3600).unwrap(), 0, "{backend:?}");
    assert_eq!(admin(&center).purge_conflicts(0).unwrap(), 2, "{backend:?}");
}

// S9: PostgreSQL quotes the whole value in what it says, so that a long one filled log and frame.
#[test]
fn a_message_that_quotes_a_long_value_is_cut() {
    let mut center = Center::on(
        Backend::Postgres,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT CHECK (a <> repeat('x', 20000)));
         CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'not %', NEW.a USING ERRCODE = 'check_violation'; END $$;
         CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no();",
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    let long = "x".repeat(2_000_000);
    let upload = [Upload::Insert("t", vec![int(1), text(&long)])];
    let applied = center.upload(&mut remote, &upload).unwrap();
    assert_eq!(applied.rejected, 1);
    let note = admin(&center).rejects(&Notes::newest(1)).unwrap().remove(0);
    assert!(note.message.chars().count() < 2_000, "{}", note.message.len());
    assert!(note.row.unwrap().len() < 100_000);
    let owed = center.value("SELECT length(message) FROM syncline.syncline_owed");
    assert!(matches!(owed, model::Value::Integer(length) if length < 2_000), "{owed:?}");
}

// S9: the report of each row was held in memory until the commit, without a limit.
#[test]
fn what_is_kept_of_rows_counts_until_the_commit_and_is_given_back() {
    const ROWS: u32 = 300;
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, "[table.t]\n");
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        let spills = std::sync::Arc::new(model::Spills::default());
        let memory = spills.memory().clone();
        let serving = syncline_consolidated::Serving { spills, ..Default::default() };
        let mut writer = serving.open_writer(&center.url).unwrap();
        let session = center.session(&remote);
        let mut rows = Vec::new();
        for id in 10..10 + ROWS {
            for value in [int(id.into()), text("no"), text("b")] {
                model::write_value(&mut rows, value.as_ref());
            }
        }
        let held = std::cell::Cell::new(0);
        let request = syncline_consolidated::UploadRequest {
            session: &session,
            identity: center::attempt(&remote),
            receipt: None,
            epoch: None,
            previous: remote.identity.progress,
            progress: model::Progress(remote.identity.progress.0 + 1),
            uploads: true,
            download_follows: true,
            marks: &[],
            left_out: None,
            entered_again: None,
            batches: &|visit| {
                // They are read for the last time when it is known which are rejected.
                held.set(memory.used_bytes());
                let change = syncline_consolidated::Change::Insert;
                visit(syncline_consolidated::UploadedRows {
                    table: 0,
                    change,
                    count: ROWS,
                    rows: &rows,
                })
            },
        };
        writer.begin().unwrap();
        let applied = writer.upload(&request).unwrap();
        writer.commit().unwrap();
        assert_eq!(applied.rejected, u64::from(ROWS), "{backend:?}");
        assert!(held.get() > u64::from(ROWS) * 100, "{backend:?}: {} bytes", held.get());
        drop(applied);
        assert_eq!(memory.used_bytes(), 0, "{backend:?}");
    });
}
