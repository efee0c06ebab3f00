//! What scripts hear of uploads and of whole synchronizations, with the same on both databases.

use crate::support::center::{Backend, Center, Remote, Upload, fetch_request, int, text, upload};
use model::Code;
use syncline_consolidated::Event::{
    BeginSynchronization, BeginUpload, EndSynchronization, SynchronizationStatistics,
    TimeStatistics, UploadDelete, UploadFetch, UploadInsert, UploadStatistics, UploadUpdate,
};
use syncline_consolidated::{Applied, Ending, Event, Session};

fn schema(backend: Backend) -> String {
    let number = backend.pick("INTEGER PRIMARY KEY", "serial PRIMARY KEY");
    format!(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 13));
         CREATE TABLE line (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES item);
         CREATE TABLE sale (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 13), words TEXT);
         CREATE TABLE heard (number {number}, what TEXT);
         CREATE TABLE once (n INTEGER PRIMARY KEY);
         INSERT INTO item VALUES (1, 1), (2, 2), (3, 3), (4, 4);
         INSERT INTO sale VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');"
    )
}

const MODEL: &str = "[table.item]\n[table.line]\n[table.sale]\n";

type Own = (&'static str, Event, String);

fn heard_as(words: &str, parameters: &[&str]) -> String {
    let told = parameters.iter().map(|name| format!(" || ' ' || {{s.{name}}}"));
    format!("INSERT INTO heard (what) VALUES ('{words}'{})", told.collect::<String>())
}

/// What is told of an upload; bytes come apart.
fn of_uploads() -> Vec<Own> {
    let told = [
        "inserted_rows",
        "updated_rows",
        "deleted_rows",
        "conflicted_inserts",
        "conflicted_updates",
        "conflicted_deletes",
        "ignored_inserts",
        "ignored_updates",
        "ignored_deletes",
        "errors",
        "warnings",
        "deadlocks",
    ];
    let script = |of: &str| heard_as(if of.is_empty() { "all" } else { of }, &told);
    ["", "item", "line", "sale"].map(|of| (of, UploadStatistics, script(of))).into()
}

/// The sales are a script's: new ones are ignored, and only their numbers are compared.
fn of_sales() -> Vec<Own> {
    let own = [
        (UploadInsert, "--{ignore}"),
        (UploadDelete, "--{ignore}"),
        (UploadUpdate, "UPDATE sale SET n = {r.n} WHERE id = {r.id} AND n = {o.n}"),
        (UploadFetch, "SELECT id, n, words FROM sale WHERE id = {r.id}"),
        (Event::ResolveConflict, "UPDATE sale SET n = n + {r.n} - {o.n} WHERE id = {r.id}"),
    ];
    own.map(|(event, script)| ("sale", event, script.to_owned())).into()
}

fn center(backend: Backend, scripts: &[Own]) -> (Center, Remote) {
    let mut center = Center::on(backend, &schema(backend), MODEL);
    let mut remote = Remote::another();
    let scripts: Vec<_> = scripts.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
    center.deploy_own(MODEL, &scripts).unwrap();
    center.synchronize(&mut remote, &[]);
    heard(&center);
    (center, remote)
}

/// What was heard since it was asked last.
fn heard(center: &Center) -> Vec<String> {
    let heard = center.list("SELECT what AS v FROM heard ORDER BY number");
    center.foreign("DELETE FROM heard");
    heard.split(',').filter(|what| !what.is_empty()).map(str::to_owned).collect()
}

fn item(id: i64, n: i64) -> Upload {
    Upload::Insert("item", vec![int(id), int(n)])
}

fn line(id: i64, item: i64) -> Upload {
    Upload::Insert("line", vec![int(id), int(item)])
}

fn changed(id: i64, from: i64, to: i64) -> Upload {
    Upload::Update("item", vec![int(id), int(from)], vec![int(id), int(to)])
}

fn sold(id: i64, words: &str, from: i64, to: i64) -> Upload {
    let sale = |n| vec![int(id), int(n), text(words)];
    Upload::Update("sale", sale(from), sale(to))
}

/// Some rows of each table.
fn rows() -> Vec<Upload> {
    vec![
        item(10, 10),
        item(11, 11),
        item(12, 13),
        // Somebody else has this number.
        item(4, 44),
        changed(1, 1, 100),
        changed(2, 2, 13),
        // Somebody else has changed it.
        changed(3, 3, 300),
        line(1, 10),
        line(2, 99),
        Upload::Insert("sale", vec![int(9), int(9), text("new")]),
        sold(1, "a", 1, 5),
        sold(2, "b", 2, 5),
        Upload::Delete("sale", vec![int(3), int(3), text("c")]),
    ]
}

#[test]
fn scripts_hear_what_became_of_the_rows_of_an_upload() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, &[of_uploads(), of_sales()].concat());
        center.foreign("UPDATE item SET n = 33 WHERE id = 3; UPDATE sale SET n = 22 WHERE id = 2");
        let applied = center.upload(&mut remote, &rows()).unwrap();
        // Of the items, 4 and 3 have a conflict, and the first of them is rejected as well.
        let heard_of_it = [
            "item 2 1 0 0 2 0 0 0 0 3 0 0",
            "line 1 0 0 0 0 0 0 0 0 1 0 0",
            "sale 0 1 0 0 1 0 1 0 1 0 0 0",
            "all 3 2 0 0 3 0 1 0 1 4 0 0",
        ];
        assert_eq!(heard(&center), heard_of_it);
        assert_eq!((applied.conflicts, applied.rejected, applied.ignored), (3, 4, 2));

        // Tables without rows are passed over, and an upload without any is heard of as a whole.
        let delete = Upload::Delete("line", vec![int(1), int(10)]);
        center.upload(&mut remote, &[delete]).unwrap();
        let deleted = ["line 0 0 1 0 0 0 0 0 0 0 0 0", "all 0 0 1 0 0 0 0 0 0 0 0 0"];
        assert_eq!(heard(&center), deleted);
        center.upload(&mut remote, &[]).unwrap();
        assert_eq!(heard(&center), ["all 0 0 0 0 0 0 0 0 0 0 0 0"]);
    });
}

#[test]
fn scripts_hear_how_many_bytes_were_uploaded() {
    Backend::each(|backend| {
        let scripts =
            ["", "item", "line"].map(|of| (of, UploadStatistics, heard_as(of, &["bytes"])));
        let (mut center, mut remote) = center(backend, &scripts);
        center.upload(&mut remote, &[item(10, 10), item(11, 11), line(1, 10)]).unwrap();
        let bytes: Vec<u64> = heard(&center)
            .iter()
            .map(|heard| heard.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(bytes[0] > bytes[1] && bytes[1] > 0, "{bytes:?}");
        assert_eq!(bytes[2], bytes[0] + bytes[1]);
    });
}

/// Ends a synchronization as a server does.
fn end(center: &mut Center, session: &Session) -> Result<(), model::Failure> {
    center.writer.begin().unwrap();
    let ended = center.writer.end(&Ending { session, ok: true });
    center.writer.commit().unwrap();
    ended
}

/// Uploads with a session that goes on.
fn begun(center: &mut Center, remote: &mut Remote, rows: &[Upload]) -> (Session, Applied) {
    let session = center.session(remote);
    center.writer.begin().unwrap();
    let applied = upload(&mut *center.writer, &session, remote, rows).unwrap();
    center.writer.commit().unwrap();
    remote.identity.progress = applied.progress;
    (session, applied)
}

fn of_synchronizations() -> Vec<Own> {
    let of_table = |of| (of, SynchronizationStatistics, heard_as(of, &["errors", "warnings"]));
    let told = ["errors", "warnings", "deadlocks", "synchronized_tables", "connection_retries"];
    let of_all = ("", SynchronizationStatistics, heard_as("all", &told));
    [["item", "line", "sale"].map(of_table).as_slice(), &[of_all]].concat()
}

#[test]
fn scripts_hear_of_a_whole_synchronization_at_its_end() {
    Backend::each(|backend| {
        // With and without scripts around the rows of the upload.
        for more in [Vec::new(), vec![("", BeginUpload, heard_as("begun", &[]))]] {
            let scripts = [of_synchronizations(), of_sales(), more].concat();
            let (mut center, mut remote) = center(backend, &scripts);
            let (session, applied) = begun(&mut center, &mut remote, &rows());
            heard(&center);
            let request = fetch_request(&session, &applied, &[], (1 << 20, 100));
            center.fetch(&request, &mut |_| Ok(())).unwrap();
            // What a server finds too large.
            session.counted.as_ref().unwrap().withheld([2, 2].into_iter());
            end(&mut center, &session).unwrap();
            assert_eq!(heard(&center), ["item 3 0", "line 1 0", "sale 0 2", "all 4 2 0 3 0"]);

            // Nothing is left of it for the next one.
            let (session, _) = begun(&mut center, &mut remote, &[item(30, 30)]);
            heard(&center);
            end(&mut center, &session).unwrap();
            assert_eq!(heard(&center), ["item 0 0", "line 0 0", "sale 0 0", "all 0 0 0 3 0"]);
        }
    });
}

// The positions of the tables that a remote holds are not those of today.
#[test]
fn rows_of_older_tables_are_counted_for_the_tables_of_today() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, &[]);
        center.foreign("DROP TABLE line; UPDATE sale SET n = 22 WHERE id = 2");
        let mut scripts = [of_uploads(), of_synchronizations()].concat();
        scripts.retain(|(of, ..)| *of != "line");
        let scripts: Vec<_> =
            scripts.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
        let model = "dropped_tables = [\"line\"]\n[table.item]\n[table.sale]\n";
        center.deploy_own(model, &scripts).unwrap();
        let rows = [item(10, 10), sold(1, "a", 1, 13), sold(2, "b", 2, 5), sold(3, "c", 3, 4)];
        let (session, applied) = begun(&mut center, &mut remote, &rows);
        end(&mut center, &session).unwrap();
        let heard_of_it = [
            "item 1 0 0 0 0 0 0 0 0 0 0 0",
            "sale 0 1 0 0 1 0 0 0 0 1 0 0",
            "all 1 1 0 0 1 0 0 0 0 1 0 0",
            "item 0 0",
            "sale 1 0",
            "all 1 0 0 2 0",
        ];
        assert_eq!(heard(&center), heard_of_it);
        let met = applied.unusual.iter().map(|(at, rows)| (*at, rows.conflicts()));
        assert_eq!(met.collect::<Vec<_>>(), [(1, 1)]);
    });
}

// What is committed stays.
#[test]
fn statistics_that_fail_at_the_end_lose_no_upload() {
    Backend::each(|backend| {
        for event in [SynchronizationStatistics, TimeStatistics] {
            let twice = "INSERT INTO once VALUES (1);\nINSERT INTO once VALUES (1)";
            let ended = ("", EndSynchronization, heard_as("ended", &[]));
            let (mut center, mut remote) = center(backend, &[ended, ("", event, twice.to_owned())]);
            let (session, _) = begun(&mut center, &mut remote, &[item(10, 10)]);
            let failure = end(&mut center, &session).unwrap_err();
            assert_eq!(failure.code(), Code::ScriptFailed);
            let place = format!("scripts/v1/{event}.sql:2:1: ");
            assert!(failure.message().contains(&place), "{}", failure.message());
            assert_eq!(heard(&center), Vec::<String>::new(), "{event}");
            assert_eq!(center.value("SELECT n AS v FROM item WHERE id = 10"), int(10));
        }
    });
}

#[test]
fn an_upload_whose_statistics_fail_is_not_applied() {
    Backend::each(|backend| {
        let twice = "INSERT INTO once VALUES (1);\nINSERT INTO once VALUES (1)".to_owned();
        let (mut center, mut remote) = center(backend, &[("item", UploadStatistics, twice)]);
        let failure = center.upload(&mut remote, &[item(10, 10)]).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed);
        assert_eq!(center.value("SELECT count(*) AS v FROM item WHERE id = 10"), int(0));
    });
}

#[test]
fn scripts_hear_how_long_scripts_took() {
    Backend::each(|backend| {
        let told = "({s.minimum_time} <= {s.maximum_time}
            AND {s.maximum_time} <= {s.total_time} AND {s.total_time} < 60000)";
        let script = |of: &str| {
            format!(
                "INSERT INTO heard (what) SELECT '{of} ' || {{s.event_name}} || ' '
                 || {{s.number_of_calls}} WHERE {told}"
            )
        };
        let noop = || "SELECT 1".to_owned();
        let scripts = [
            ("", BeginSynchronization, noop()),
            ("item", BeginSynchronization, noop()),
            ("item", Event::BeginUploadRows, noop()),
            ("line", EndSynchronization, noop()),
            ("", SynchronizationStatistics, noop()),
            ("", TimeStatistics, script("all")),
            ("item", TimeStatistics, script("item")),
        ];
        let (mut center, mut remote) = center(backend, &scripts);
        let rows = [item(10, 10), item(11, 11), changed(1, 1, 5), line(1, 10)];
        let (session, _) = begun(&mut center, &mut remote, &rows);
        end(&mut center, &session).unwrap();
        let expected = [
            "item begin_synchronization 1",
            "item begin_upload_rows 1",
            "item upload_insert 1",
            "item upload_update 1",
            "all begin_synchronization 1",
            "all synchronization_statistics 1",
        ];
        assert_eq!(heard(&center), expected);
    });
}

// Trap 14: a transaction that met another one is begun again.
#[test]
fn scripts_hear_how_often_an_upload_met_others() {
    let scripts = [
        ("", UploadStatistics, heard_as("upload", &["deadlocks", "inserted_rows", "errors"])),
        ("", SynchronizationStatistics, heard_as("synchronization", &["deadlocks", "errors"])),
    ];
    let (mut center, mut remote) = center(Backend::Postgres, &scripts);
    // A sequence goes on although its transaction is undone.
    center.foreign(
        "CREATE SEQUENCE tried;
         CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('tried') <= 2 THEN
                 RAISE EXCEPTION 'others' USING ERRCODE = 'deadlock_detected';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER meet BEFORE INSERT ON line FOR EACH ROW EXECUTE FUNCTION meet();",
    );
    let (session, _) = begun(&mut center, &mut remote, &[item(10, 10), line(1, 10)]);
    end(&mut center, &session).unwrap();
    assert_eq!(heard(&center), ["upload 2 2 0", "synchronization 2 0"]);
}

#[test]
fn nothing_is_counted_where_no_script_hears_of_it() {
    Backend::each(|backend| {
        let (mut center, remote) = center(backend, &of_uploads());
        assert!(center.session(&remote).counted.is_none());
    });
}
