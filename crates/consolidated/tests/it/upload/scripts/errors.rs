//! Errors that scripts of the user's decide about, with the same results on both databases.

use crate::support::center::{Backend, Center, Remote, Upload, deploy_own, int, text, upload};
use crate::support::on_postgres::connected;
use harness::postgres::Cluster;
use model::{Code, Failure};
use syncline_consolidated::Event::{
    HandleError, ModifyErrorMessage, ReportError, UploadInsert, UploadUpdate,
};
use syncline_consolidated::{Applied, Event, Notes, Serving, Url, administer, open_writer};

const SCHEMA: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 13), place INTEGER DEFAULT 1);
    CREATE TABLE line (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES item);
    CREATE TABLE asked (words TEXT);
    CREATE TABLE sync_error (action INTEGER, state TEXT, message TEXT, who TEXT, of TEXT);";

const MODEL: &str = "[table.item]\ncolumns = [\"id\", \"n\"]\n[table.line]\n";

type Own<'a> = (&'a str, Event, &'a str);

const INSERT: Own<'_> = ("item", UploadInsert, "INSERT INTO item (id, n) VALUES ({r.id}, {r.n})");
const UPDATE: Own<'_> = ("item", UploadUpdate, "UPDATE item SET n = {r.n} WHERE id = {r.id}");
const REPORT: Own<'_> = (
    "",
    ReportError,
    "INSERT INTO sync_error VALUES
        ({s.action_code}, {s.sqlstate}, {s.error_message}, {s.username}, {s.table})",
);

/// Notes in vain that it was asked.
fn handler(action: &str) -> String {
    format!("INSERT INTO asked VALUES ({{s.sqlstate}}); SELECT {action} AS action_code")
}

fn center(backend: Backend, model: &str, scripts: &[Own<'_>]) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, MODEL);
    center.deploy_own(model, scripts).unwrap();
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn insert(id: i64, n: i64) -> Upload {
    Upload::Insert("item", vec![int(id), int(n)])
}

/// Five rows, the third of which breaks a CHECK.
fn five() -> [Upload; 5] {
    [insert(5, 50), insert(4, 40), insert(3, 13), insert(2, 20), insert(1, 10)]
}

fn items(center: &Center) -> String {
    center.list("SELECT id || '=' || n AS v FROM item ORDER BY id")
}

fn reported(center: &Center) -> String {
    let told = "action || ' ' || state || ' ' || who || ' ' || of";
    center.list(&format!("SELECT {told} AS v FROM sync_error ORDER BY of, state"))
}

fn code(outcome: Result<Applied, Failure>) -> Code {
    outcome.unwrap_err().code()
}

#[test]
fn a_row_that_is_to_be_skipped_is_rejected_and_the_others_are_there() {
    Backend::each(|backend| {
        let handler = handler("1000");
        for own in [&[INSERT][..], &[]] {
            let scripts = [own, &[("", HandleError, &handler), REPORT]].concat();
            let (mut center, mut remote) = center(backend, MODEL, &scripts);
            let (applied, download) = center.synchronize(&mut remote, &five());
            assert_eq!((applied.rejected, applied.inserts), (1, 5));
            assert_eq!(items(&center), "1=10,2=20,4=40,5=50");
            assert_eq!(download.rejects.len(), 1, "it is told");
            assert_eq!(reported(&center), "1000 23514 ann item");
            assert_eq!(center.value("SELECT count(*) AS v FROM asked"), int(0), "only asked");
            // Nothing is asked again.
            center.synchronize(&mut remote, &[]);
            assert_eq!(reported(&center), "1000 23514 ann item");
        }
    });
}

#[test]
fn a_row_may_cancel_the_upload_and_that_is_reported_once() {
    Backend::each(|backend| {
        let none = "SELECT NULL AS action_code".to_owned();
        for handler in [handler("3000"), handler("17"), none, handler("4000")] {
            let scripts = [INSERT, ("", HandleError, handler.as_str()), REPORT];
            let (mut center, mut remote) = center(backend, MODEL, &scripts);
            assert_eq!(code(center.upload(&mut remote, &five())), Code::UploadCanceled);
            assert_eq!(items(&center), "");
            assert_eq!(reported(&center), "3000 23514 ann item");
            // What is pending comes again, without the row.
            let [first, second, _, fourth, fifth] = five();
            let rest = [first, second, fourth, fifth];
            center.synchronize(&mut remote, &rest);
            assert_eq!(items(&center), "1=10,2=20,4=40,5=50");
            assert_eq!(reported(&center), "3000 23514 ann item");
        }
    });
}

#[test]
fn a_server_ends_only_where_it_may() {
    Backend::each(|backend| {
        let handler = handler("4000");
        let scripts = [INSERT, ("", HandleError, handler.as_str()), REPORT];
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        let serving = Serving { may_drain: true, ..Serving::default() };
        center.writer = serving.open_writer(&center.url).unwrap();
        assert_eq!(code(center.upload(&mut remote, &five())), Code::ServerDrained);
        assert_eq!(
            (items(&center), reported(&center)),
            (String::new(), "4000 23514 ann item".into())
        );
    });
}

// The first error decides, and the others behind it are not heard of.
#[test]
fn a_handler_decides_by_what_the_database_says() {
    Backend::each(|backend| {
        let handler =
            "SELECT CASE {s.sqlstate} WHEN '23505' THEN 1000 ELSE 3000 END AS action_code";
        let scripts = [INSERT, ("", HandleError, handler), REPORT];
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        center.foreign("INSERT INTO item (id, n) VALUES (9, 9)");
        let (applied, _) = center.synchronize(&mut remote, &[insert(9, 8), insert(8, 8)]);
        assert_eq!(applied.rejected, 1);
        assert_eq!(
            (items(&center).as_str(), reported(&center).as_str()),
            ("8=8,9=9", "1000 23505 ann item")
        );
        let line = |id, item| Upload::Insert("line", vec![int(id), int(item)]);
        let uploads = [insert(9, 7), insert(7, 7), line(1, 99), line(2, 98)];
        assert_eq!(code(center.upload(&mut remote, &uploads)), Code::UploadCanceled);
        assert_eq!(items(&center), "8=8,9=9");
        assert_eq!(
            reported(&center),
            "1000 23505 ann item,1000 23505 ann item,3000 23503 ann line"
        );
    });
}

#[test]
fn a_handler_that_fails_cancels() {
    Backend::each(|backend| {
        let fails = backend.pick(
            "SELECT abs(-9223372036854775807 - 1) AS action_code",
            "SELECT 1 / (length({s.table}) - 4) AS action_code",
        );
        let scripts = [INSERT, ("", HandleError, fails), REPORT];
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        assert_eq!(code(center.upload(&mut remote, &five())), Code::UploadCanceled);
        assert_eq!(reported(&center), "3000 23514 ann item");
        center.synchronize(&mut remote, &[insert(1, 1)]);
        assert_eq!(items(&center), "1=1");
    });
}

#[test]
fn a_model_without_a_handler_rejects_or_cancels() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, MODEL, &[INSERT, REPORT]);
        let (applied, _) = center.synchronize(&mut remote, &five());
        assert_eq!((applied.rejected, reported(&center).as_str()), (1, "1000 23514 ann item"));
        let model = format!("on_error = \"cancel\"\n{MODEL}");
        center.deploy_own(&model, &[REPORT]).unwrap();
        center.foreign("DELETE FROM item; DELETE FROM sync_error");
        assert_eq!(code(center.upload(&mut remote, &five())), Code::UploadCanceled);
        assert_eq!(
            (items(&center).as_str(), reported(&center).as_str()),
            ("", "3000 23514 ann item")
        );
    });
}

#[test]
fn a_script_words_what_the_remote_is_told() {
    Backend::each(|backend| {
        let words = "SELECT 'not so: ' || {s.table} AS error_message";
        let scripts = [INSERT, ("", ModifyErrorMessage, words), REPORT];
        let (mut center, mut remote) = center(backend, MODEL, &scripts);
        center.synchronize(&mut remote, &five());
        let told = administer(&center.url).unwrap().rejects(&Notes::newest(9)).unwrap();
        assert_eq!(told[0].message, "not so: item");
        let model = format!("on_error = \"cancel\"\n{MODEL}");
        center.deploy_own(&model, &scripts).unwrap();
        let failure = center.upload(&mut remote, &[insert(30, 13)]).unwrap_err();
        assert_eq!(failure.message(), "a row of table item: not so: item");
    });
}

// S7: a partition is no error, and nobody is asked to open it.
#[test]
fn a_fence_is_not_asked_about() {
    Backend::each(|backend| {
        let model = MODEL.replace(
            "columns = [\"id\", \"n\"]",
            "columns = [\"id\", \"n\"]\npartition = \"n = {u.n}\"",
        );
        let handler = handler("3000");
        let scripts = [UPDATE, ("", HandleError, handler.as_str()), REPORT];
        let (mut center, mut remote) = center(backend, &model, &scripts);
        remote.claims.insert("n".into(), "1".into());
        let (applied, _) = center.synchronize(&mut remote, &[insert(1, 2), insert(2, 1)]);
        assert_eq!((applied.rejected, items(&center).as_str()), (1, "2=1"));
        assert_eq!(reported(&center), "");
    });
}

#[test]
fn a_thousand_rows_are_asked_about_together() {
    let handler = "SELECT 1000 AS action_code";
    let scripts = [INSERT, ("", HandleError, handler), REPORT];
    let (mut center, mut remote) = center(Backend::Postgres, MODEL, &scripts);
    center.foreign("INSERT INTO item SELECT i, 0 FROM generate_series(1, 100) AS i");
    let uploads: Vec<Upload> = (1..=100).map(|id| insert(id, 1)).collect();
    let alone: Vec<Upload> = vec![insert(101, 13)];
    center.upload(&mut remote, &alone).unwrap();
    center.foreign("DELETE FROM sync_error");
    let trips = center.writer.round_trips();
    let applied = center.upload(&mut remote, &uploads).unwrap();
    let trips = center.writer.round_trips() - trips;
    assert_eq!(applied.rejected, 100);
    assert_eq!(center.value("SELECT count(*) AS v FROM sync_error"), int(100));
    // Finding the rows at fault costs what it cost before: two flights for each, about.
    assert!(trips < 300, "{trips}");
}

#[test]
fn what_a_handler_cannot_say_is_refused_at_deploy() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, MODEL);
        let mut refused = |event: Event, script: &str| {
            center.deploy_own(MODEL, &[("", event, script)]).unwrap_err().message().to_owned()
        };
        for (event, script, told) in [
            (HandleError, "SELECT 1000 AS action", "it returns no column action_code"),
            (HandleError, "DELETE FROM asked", "it returns no column action_code"),
            (HandleError, "SELECT {r.id} AS action_code", "has no such row"),
            (HandleError, "SELECT {s.inserted} AS action_code", "unknown parameter {s.inserted}"),
            (HandleError, "COMMIT", "must not control it"),
            (ReportError, "SELECT {s.watermark}", "knows nothing of downloads"),
            (ReportError, "DELETE FROM nowhere", "nowhere"),
            (ModifyErrorMessage, "SELECT 1 AS action_code", "it returns no column error_message"),
        ] {
            let message = refused(event, script);
            assert!(message.contains(told), "{script}: {message}");
        }
        if backend == Backend::Postgres {
            let numeric = refused(HandleError, "SELECT 1000::numeric AS action_code");
            assert!(numeric.contains("it returns action_code as numeric"), "{numeric}");
        }
        let of_table = center.deploy_own(MODEL, &[("item", UploadInsert, "SELECT {s.sqlstate}")]);
        assert!(of_table.unwrap_err().message().contains("this event has no such value"));
    });
}

#[test]
fn a_procedure_decides_by_its_inout_parameter() {
    let scripts = [
        INSERT,
        ("", HandleError, "CALL decide({s.action_code}, {s.sqlstate}, {s.error_message})"),
        REPORT,
    ];
    let mut center = Center::on(Backend::Postgres, SCHEMA, MODEL);
    center.foreign(
        "CREATE PROCEDURE decide(INOUT action int, state text, message text) LANGUAGE plpgsql AS $$
         BEGIN
             action := CASE WHEN state = '23514' AND action = 3000 THEN 1000 ELSE 3000 END;
         END $$",
    );
    center.deploy_own(MODEL, &scripts).unwrap();
    let mut remote = Remote::new("r");
    let (applied, _) = center.synchronize(&mut remote, &five());
    assert_eq!((applied.rejected, reported(&center).as_str()), (1, "1000 23514 ann item"));
    let message = center.value("SELECT message AS v FROM sync_error");
    assert_eq!(
        message,
        text("new row for relation \"item\" violates check constraint \"item_n_check\"")
    );
}

// S4: transactions that block each other are no errors of rows: nobody is asked.
#[test]
fn uploads_in_opposite_order_are_all_committed() {
    let update = ("item", UploadUpdate, "UPDATE item SET n = n + 100 WHERE id = {r.id}");
    let handler = handler("3000");
    let scripts = [update, ("", HandleError, handler.as_str()), REPORT];
    // The victim of a deadlock is found soon.
    let cluster = Cluster::start_with("deadlock_timeout = 20ms");
    let database = cluster.database();
    database.sql(SCHEMA);
    database.sql("INSERT INTO item SELECT i, 0 FROM generate_series(1, 20) AS i");
    deploy_own(&Url::parse(&database.url()).unwrap(), MODEL, &scripts).unwrap();
    let (mut center, mut first) = (connected(&database), Remote::new("r"));
    center.synchronize(&mut first, &[]);
    let mut second = Remote::new("s");
    center.synchronize(&mut second, &[]);
    let pairs = if harness::full() { 500 } else { 60 };
    let sessions = [center.session(&first), center.session(&second)];
    let changes = |reversed: bool| -> Vec<Upload> {
        let update = |id| Upload::Update("item", vec![int(id), int(0)], vec![int(id), int(1)]);
        let ids: Vec<i64> = if reversed { (1..=20).rev().collect() } else { (1..=20).collect() };
        ids.into_iter().map(update).collect()
    };
    std::thread::scope(|scope| {
        for ((remote, session), reversed) in
            [&mut first, &mut second].into_iter().zip(&sessions).zip([false, true])
        {
            let (url, changes) = (&center.url, changes(reversed));
            scope.spawn(move || {
                let mut writer = open_writer(url).unwrap();
                for _ in 0..pairs {
                    let applied = upload(writer.as_mut(), session, remote, &changes).unwrap();
                    assert_eq!(applied.rejected, 0);
                    remote.identity.progress = applied.progress;
                }
            });
        }
    });
    assert_eq!(center.value("SELECT sum(n) AS v FROM item"), int(2 * pairs * 20 * 100));
    assert_eq!(reported(&center), "");
}
