//! Downloads by cursors that a user wrote.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use model::{Code, Value};
use syncline_consolidated::DownloadedTable::{Changes, Refresh};
use syncline_consolidated::Event::{
    DownloadCursor, DownloadDeleteCursor, UploadDelete, UploadInsert, UploadUpdate,
};
use syncline_consolidated::administer;

const SCHEMA: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT, words TEXT);
    CREATE TABLE line (id INTEGER PRIMARY KEY, note INTEGER REFERENCES note, words TEXT);
    CREATE TABLE gone (id INTEGER);
    INSERT INTO note VALUES (1, 'ann', 'a'), (2, 'ann', 'b'), (3, 'ben', 'c');";

const MODEL: &str = "[table.note]\n";

/// Hides the rows of others, and what is in those of the boss. Returns nothing but the first time.
const ONCE: &str = "SELECT id, owner, CASE owner WHEN 'boss' THEN NULL ELSE words END
    FROM note WHERE owner <> 'ben' AND {s.watermark} IS NULL; -- once";

const NONE: &str = "--{ignore}";

type Own<'a> = (&'a str, syncline_consolidated::Event, &'a str);

fn rows(text: &str) -> Own<'_> {
    ("note", DownloadCursor, text)
}

fn deletes(text: &str) -> Own<'_> {
    ("note", DownloadDeleteCursor, text)
}

fn note(id: i64, owner: &str, words: &str) -> Row {
    vec![int(id), text(owner), text(words)]
}

fn sent(rows: &[Row]) -> Vec<(String, Row)> {
    rows.iter().map(|row| ("note".to_owned(), row.clone())).collect()
}

fn sorted(mut download: Download) -> Download {
    download.upserts.sort_by_key(|row| format!("{row:?}"));
    download.deletes.sort_by_key(|row| format!("{row:?}"));
    download
}

fn center(backend: Backend, model: &str, scripts: &[Own<'_>]) -> (Center, Remote, Download) {
    let mut center = Center::on(backend, SCHEMA, MODEL);
    center.deploy_own(model, scripts).unwrap();
    let mut remote = Remote::another();
    remote.claims.insert("place".into(), "1".into());
    let (_, download) = center.synchronize(&mut remote, &[]);
    (center, remote, sorted(download))
}

fn again(center: &mut Center, remote: &mut Remote) -> Download {
    sorted(center.synchronize(remote, &[]).1)
}

/// How many entries of what remotes are owed the database has.
fn owed(center: &Center) -> Value {
    center.value(match center.url {
        syncline_consolidated::Url::Sqlite(_) => "SELECT count(*) FROM syncline_owed",
        syncline_consolidated::Url::Postgres(_) => "SELECT count(*) FROM syncline.syncline_owed",
    })
}

#[test]
fn an_own_cursor_decides_which_rows_and_values_a_remote_has() {
    Backend::each(|backend| {
        let (mut center, mut remote, first) = center(backend, MODEL, &[rows(ONCE)]);
        assert_eq!(first.modes, [Refresh]);
        assert_eq!(first.upserts, sent(&[note(1, "ann", "a"), note(2, "ann", "b")]));
        let second = again(&mut center, &mut remote);
        assert_eq!((second.modes, second.upserts.len()), (vec![Changes], 0));
        // The generated cursor of deleted keys works beside it.
        center.foreign("DELETE FROM note WHERE id = 2");
        let third = again(&mut center, &mut remote);
        assert_eq!(third.deletes, [("note".to_owned(), vec![int(2)])]);
    });
}

// What follows the text of a cursor is no part of its last line.
#[test]
fn own_cursors_may_end_with_a_comment() {
    Backend::each(|backend| {
        let all = rows("SELECT id, owner, words FROM note -- all");
        let gone = deletes("SELECT id FROM gone -- none");
        let (mut center, mut remote, first) = center(backend, MODEL, &[all, gone]);
        assert_eq!(first.upserts.len(), 3);
        center.foreign("UPDATE note SET words = 'x' WHERE id = 1");
        let edit = Upload::Update("note", note(1, "ann", "a"), note(1, "ann", "A"));
        let (applied, download) = center.synchronize(&mut remote, &[edit]);
        assert_eq!(applied.conflicts, 1);
        assert!(download.upserts.contains(&sent(&[note(1, "ann", "x")])[0]));
    });
}

// The log of a table gets a column with the deployment whose cursor names it.
#[test]
fn a_cursor_may_name_what_the_same_deployment_makes() {
    Backend::each(|backend| {
        let model = "[table.note]\npartition = \"owner = {u.owner}\"";
        let other = Center::on(backend, SCHEMA, model);
        let made = administer(&other.url).unwrap().scripts().unwrap();
        let mut made = made.iter().filter(|script| script.event == DownloadDeleteCursor);
        let text = format!("{} -- own", made.next().unwrap().script);
        let mut center = Center::on(backend, SCHEMA, MODEL);
        center.deploy_own(model, &[deletes(&text)]).unwrap();
        let mut remote = Remote::another();
        remote.claims.insert("owner".into(), "ann".into());
        assert_eq!(again(&mut center, &mut remote).upserts.len(), 2);
        center.foreign("UPDATE note SET owner = 'ben' WHERE id = 2");
        let left = again(&mut center, &mut remote);
        assert_eq!((left.modes, left.deletes.len()), (vec![Changes], 1));
    });
}

// OC1: a conflict, and a row that is hidden by then. The generated look-up would send both as the
// table has them.
#[test]
fn what_is_owed_comes_through_the_own_cursor() {
    Backend::each(|backend| {
        let (mut center, mut remote, _) = center(backend, MODEL, &[rows(ONCE)]);
        center.foreign("UPDATE note SET owner = 'boss', words = 'secret' WHERE id = 1");
        center.foreign("UPDATE note SET owner = 'ben', words = 'secret' WHERE id = 2");
        let edits = [
            Upload::Update("note", note(1, "ann", "a"), note(1, "ann", "A")),
            Upload::Update("note", note(2, "ann", "b"), note(2, "ann", "B")),
        ];
        let (applied, download) = center.synchronize(&mut remote, &edits);
        assert_eq!(applied.conflicts, 2);
        assert_eq!(download.upserts, sent(&[vec![int(1), text("boss"), Value::Null]]));
        assert_eq!(download.deletes, [("note".to_owned(), vec![int(2)])]);
        assert_eq!(again(&mut center, &mut remote).upserts, []);
        assert_eq!(owed(&center), int(0));
    });
}

// An ignored cursor sends nothing. What is owed is settled, and nothing is deleted for it.
#[test]
fn an_ignored_cursor_sends_nothing_and_settles_what_is_owed() {
    Backend::each(|backend| {
        for delete_cursor in [None, Some(deletes(NONE))] {
            let scripts: Vec<_> = [rows(NONE)].into_iter().chain(delete_cursor).collect();
            let (mut center, mut remote, first) = center(backend, MODEL, &scripts);
            assert_eq!((first.modes, first.upserts.len()), (vec![Changes], 0));
            let taken = Upload::Insert("note", note(1, "ann", "mine"));
            let (applied, download) = center.synchronize(&mut remote, &[taken]);
            assert_eq!(applied.conflicts, 1);
            assert_eq!((download.upserts.len(), download.deletes.len()), (0, 0));
            assert_eq!(owed(&center), int(1));
            assert_eq!(again(&mut center, &mut remote).deletes, []);
            assert_eq!(owed(&center), int(0));
        }
    });
}

// OC2: the values that a cursor names, and its text.
#[test]
fn other_values_or_another_cursor_refresh_the_table() {
    Backend::each(|backend| {
        let mine = "SELECT id, owner, words FROM note
            WHERE owner = {u.owner} AND {s.watermark} IS NULL";
        let (mut center, mut remote, first) = center(backend, MODEL, &[rows(mine)]);
        assert_eq!(first.upserts, []);
        remote.claims.insert("owner".into(), "ben".into());
        let other = again(&mut center, &mut remote);
        assert_eq!((other.modes, other.upserts), (vec![Refresh], sent(&[note(3, "ben", "c")])));
        assert_eq!(again(&mut center, &mut remote).modes, [Changes]);
        center.deploy_own(MODEL, &[rows(ONCE)]).unwrap();
        assert_eq!(again(&mut center, &mut remote).modes, [Refresh]);
        center.deploy_own(MODEL, &[]).unwrap();
        let generated = again(&mut center, &mut remote);
        assert_eq!((generated.modes, generated.upserts.len()), (vec![Refresh], 3));
        assert_eq!(again(&mut center, &mut remote).modes, [Changes]);
    });
}

#[test]
fn no_refresh_deletes_where_rows_are_kept() {
    Backend::each(|backend| {
        let mine = "SELECT id, owner, words FROM note WHERE owner = {u.owner}";
        let keep = "[table.note]\nrefresh = \"keep\"\n";
        let keys = "SELECT id FROM gone WHERE {s.watermark} IS NULL";
        for (model, keys) in [(keep, keys), (MODEL, NONE)] {
            let (mut center, mut remote, first) =
                center(backend, model, &[rows(mine), deletes(keys)]);
            assert_eq!((first.modes, first.upserts.len()), (vec![Changes], 0));
            center.foreign("INSERT INTO gone VALUES (8), (NULL)");
            assert_eq!(again(&mut center, &mut remote).deletes, []);
            remote.claims.insert("owner".into(), "ben".into());
            let other = again(&mut center, &mut remote);
            assert_eq!((other.modes, other.upserts.len()), (vec![Changes], 1));
            // The own cursor of deleted keys says what goes, from the beginning.
            let keys = [("note".to_owned(), vec![int(8)])];
            assert_eq!(other.deletes, if model == keep { &keys[..] } else { &[] });
        }
    });
}

// A row of NULLs says: everything anew. Other NULLs are no keys.
#[test]
fn a_row_of_nulls_refreshes_the_table() {
    Backend::each(|backend| {
        let schema = "
            CREATE TABLE note (id INTEGER, part INTEGER, words TEXT, PRIMARY KEY (id, part));
            CREATE TABLE gone (id INTEGER, part INTEGER, why TEXT);
            INSERT INTO note VALUES (1, 1, 'a'), (2, 1, 'b');";
        let mut center = Center::on(backend, schema, MODEL);
        // The first row tells the type of a column; what stands behind the key is ignored.
        let keys = "SELECT id, part, why FROM gone";
        let all = "SELECT id, part, words FROM note WHERE {s.watermark} IS NULL";
        center.deploy_own(MODEL, &[rows(all), deletes(keys)]).unwrap();
        let mut remote = Remote::another();
        assert_eq!(again(&mut center, &mut remote).upserts.len(), 2);
        center.foreign("INSERT INTO gone VALUES (7, 1, 'x'), (7, NULL, 'y'), (NULL, 1, 'z')");
        let some = again(&mut center, &mut remote);
        assert_eq!((some.modes, some.upserts.len()), (vec![Changes], 0));
        assert_eq!(some.deletes, [("note".to_owned(), vec![int(7), int(1)])]);
        center.foreign("INSERT INTO gone VALUES (NULL, NULL, '')");
        let whole = again(&mut center, &mut remote);
        assert_eq!((whole.modes, whole.upserts.len(), whole.deletes.len()), (vec![Refresh], 2, 0));
        // NULL has no type of its own.
        center.deploy_own(MODEL, &[rows(all), deletes("SELECT NULL, NULL")]).unwrap();
        for _ in 0..2 {
            let whole = again(&mut center, &mut remote);
            assert_eq!((whole.modes, whole.upserts.len()), (vec![Refresh], 2));
        }
    });
}

// SQLite at a remote would give it a key of its own, another one each time.
#[test]
fn a_row_without_a_key_is_refused() {
    Backend::each(|backend| {
        let scripts = [rows("SELECT CAST(NULL AS INTEGER), owner, words FROM note")];
        let mut center = Center::on(backend, SCHEMA, MODEL);
        center.deploy_own(MODEL, &scripts).unwrap();
        let mut remote = Remote::another();
        let applied = center.upload(&mut remote, &[]).unwrap();
        let failure = center.try_download(&mut remote, &applied).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed);
        assert!(failure.message().contains("a row without a key"), "{}", failure.message());
    });
}

// What a remote has just uploaded is not sent back, whoever wrote the script that stored it.
#[test]
fn an_own_cursor_returns_uploaded_rows_and_keys_that_are_not_sent() {
    Backend::each(|backend| {
        let all = "SELECT id, owner, words FROM note WHERE owner <> 'gone'";
        let keys = "SELECT id FROM note WHERE owner = 'gone'";
        let hide = "UPDATE note SET owner = 'gone' WHERE id = {r.id}";
        let put = "INSERT INTO note (id, owner, words) VALUES ({r.id, r.owner}, {r.words})";
        let set = "UPDATE note SET words = {r.words} WHERE id = {r.id}";
        let own = [
            ("note", UploadInsert, put),
            ("note", UploadUpdate, set),
            ("note", UploadDelete, hide),
        ];
        for uploads in [&own[..], &[]] {
            let scripts: Vec<_> =
                uploads.iter().copied().chain([rows(all), deletes(keys)]).collect();
            let (mut center, mut remote, _) = center(backend, MODEL, &scripts);
            let edits = [
                Upload::Insert("note", note(9, "ann", "i")),
                Upload::Update("note", note(1, "ann", "a"), note(1, "ann", "A")),
                Upload::Delete("note", note(2, "ann", "b")),
            ];
            let (applied, download) = center.synchronize(&mut remote, &edits);
            assert_eq!((applied.rejected, applied.conflicts), (0, 0));
            assert_eq!(download.upserts, sent(&[note(3, "ben", "c")]));
            assert_eq!(download.deletes, []);
            assert_eq!(download.filtered, 2 + u64::from(!uploads.is_empty()));
        }
    });
}

// What an export writes is no script of the user's: neither the foreign keys at remotes change, nor
// is a child refused.
#[test]
fn files_that_say_what_the_model_makes_change_nothing() {
    Backend::each(|backend| {
        let model =
            "[table.note]\npartition = \"owner = {u.owner}\"\n[table.line]\nparent = \"note\"";
        for model in [model, "[table.note]\npartition = \"owner = {u.owner}\"\n[table.line]"] {
            let mut center = Center::on(backend, SCHEMA, model);
            let made = administer(&center.url).unwrap().scripts().unwrap();
            let files = made.iter().filter(|script| script.event.may_be_own());
            let files: Vec<Own<'_>> = files
                .map(|script| (script.table.as_str(), script.event, script.script.as_str()))
                .collect();
            assert_eq!(files.len(), 10);
            assert_eq!(center.deploy_own(model, &files).unwrap().statements, [""; 0]);
        }
    });
}

// Everything is told at once, with its place.
#[test]
fn a_cursor_that_cannot_be_is_refused() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, MODEL);
        let mut refused = |model: &str, scripts: &[Own<'_>]| {
            let failure = center.deploy_own(model, scripts).unwrap_err();
            assert_eq!(failure.code(), Code::ScriptInvalid);
            failure.message().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let told = refused(MODEL, &[rows("\n  SELECT id FROM note"), deletes("SELECT 1 AS a, 2")]);
        let file = "scripts/v1/note/download_cursor.sql";
        assert_eq!(
            told,
            [format!(
                "{file}:2:3: it returns 1 columns; the published columns are id, owner, words"
            )]
        );
        let upload = ("note", UploadUpdate, "UPDATE note SET words = {s.watermark}");
        assert_eq!(
            refused(MODEL, &[upload]),
            ["scripts/v1/note/upload_update.sql:1:26: upload_update knows nothing of downloads, \
              and has no such value"]
        );
        assert_eq!(
            refused("scripts = \"own\"\n[table.note]\ndirection = \"download_only\"", &[]),
            [
                "note: download_cursor is missing; write it, or a file with --{ignore}",
                "note: download_delete_cursor is missing; write it, or a file with --{ignore}",
            ]
        );
        let keep = "[table.note]\nrefresh = \"keep\"";
        assert_eq!(
            refused(keep, &[]),
            ["note: refresh = \"keep\" needs a download_cursor of your own"]
        );
        let child =
            "[table.note]\npartition = \"owner = {u.owner}\"\n[table.line]\nparent = \"note\"";
        let told = refused(child, &[rows(ONCE)]);
        assert!(
            told[0].starts_with("line: its rows follow those of note, and a cursor of your own")
        );
        if backend == Backend::Postgres {
            let told = refused(MODEL, &[rows("SELECT id, owner::bytea, words FROM note")]);
            let cast = "it returns owner as bytea: cast it to what the published column is, text";
            assert_eq!(told, [format!("{file}:1:1: {cast}")]);
            let written = "WITH gone AS (DELETE FROM line RETURNING id)
                SELECT id, owner, words FROM note";
            let told = refused(MODEL, &[rows(written)]);
            assert!(told[0].starts_with(&format!(
                "{file}:1:1: rows cannot be looked up in it by their keys: "
            )));
        }
        let both = [rows(ONCE), ("line", DownloadCursor, "SELECT id, note, words FROM line")];
        center.deploy_own(child, &both).unwrap();
    });
}
