//! Script versions that have one connection for a whole synchronization.

use crate::support::center::{Backend, Center, Remote, Upload, fetch_request, int, marks, upload};
use syncline_consolidated::Event::{
    BeginConnection, BeginConnectionAutocommit, BeginSynchronization, DownloadCursor,
    EndConnection, EndSynchronization, UploadInsert,
};
use syncline_consolidated::{DownloadBatch, Ending, Event};

const SCHEMA: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
    CREATE TABLE opened (what TEXT);";

const MODEL: &str = "[table.item]\n";

/// A temporary table says which rows a user is sent.
fn scripts(backend: Backend) -> Vec<(&'static str, Event, String)> {
    let temporary = backend.pick("TEMP", "TEMPORARY");
    vec![
        ("", BeginConnectionAutocommit, "INSERT INTO opened VALUES ('autocommit')".into()),
        (
            "",
            BeginConnection,
            format!(
                "CREATE {temporary} TABLE mine (n INTEGER); DELETE FROM mine;
                 INSERT INTO opened VALUES ('begin')"
            ),
        ),
        ("", EndConnection, "INSERT INTO opened SELECT 'end ' || count(*) FROM mine".into()),
        ("", BeginSynchronization, "INSERT INTO mine VALUES (1)".into()),
        (
            "item",
            UploadInsert,
            "INSERT INTO item SELECT {r.id}, {r.n} FROM mine WHERE {r.n} = mine.n; \
             INSERT INTO mine VALUES ({r.id})"
                .into(),
        ),
        (
            "item",
            DownloadCursor,
            "SELECT id, item.n FROM item JOIN mine ON mine.n = item.id".into(),
        ),
        ("", EndSynchronization, "DELETE FROM mine".into()),
    ]
}

fn center(backend: Backend) -> (Center, Remote) {
    let mut center = Center::on(backend, SCHEMA, MODEL);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let scripts = scripts(backend);
    let scripts: Vec<_> = scripts.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
    center.deploy_own(MODEL, &scripts).unwrap();
    (center, remote)
}

/// A whole synchronization, as a server runs it. Returns how many rows are sent.
fn synchronize(center: &mut Center, remote: &mut Remote, rows: &[Upload]) -> u64 {
    let session = center.session(remote);
    assert!(session.is_session);
    let marks = marks(&session, remote);
    let own = center.writer.session(&session).unwrap();
    own.begin().unwrap();
    let applied = upload(own, &session, remote, rows).unwrap();
    own.commit().unwrap();
    remote.identity.progress = applied.progress;
    let session = applied.session(&session.into());
    let mut sent = 0;
    own.fetch(&fetch_request(&session, &applied, &marks, (1000, 10)), &mut |batch| {
        if let DownloadBatch::Upserts { count, .. } = batch {
            sent += u64::from(count);
        }
        Ok(())
    })
    .unwrap();
    own.begin().unwrap();
    own.end(&Ending { session: &session, ok: true }).unwrap();
    own.commit().unwrap();
    sent
}

fn item(id: i64, n: i64) -> Upload {
    Upload::Insert("item", vec![int(id), int(n)])
}

fn opened(center: &Center) -> String {
    center.list("SELECT what AS v FROM opened")
}

#[test]
fn a_temporary_table_lasts_from_the_begin_to_the_end() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend);
        let sent = synchronize(&mut center, &mut remote, &[item(7, 1), item(8, 2)]);
        assert_eq!(center.list("SELECT id AS v FROM item"), "7", "a script has read it");
        assert_eq!(sent, 1, "a cursor has");
        // The same connection serves the next one, and finds what the end has left.
        let sent = synchronize(&mut center, &mut remote, &[item(9, 1)]);
        assert_eq!((center.list("SELECT id AS v FROM item"), sent), ("7,9".to_owned(), 1));
        assert_eq!(opened(&center), "autocommit,begin");
        center.writer.end_session();
        assert_eq!(opened(&center), "autocommit,begin,end 0");
    });
}

#[test]
fn a_deployment_and_a_failure_get_another_connection() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend);
        synchronize(&mut center, &mut remote, &[item(7, 1)]);
        let scripts = scripts(backend);
        let more = "DELETE FROM mine; INSERT INTO opened VALUES ('anew')";
        let mut scripts: Vec<_> =
            scripts.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
        scripts.retain(|(_, event, _)| *event != EndSynchronization);
        scripts.push(("", EndSynchronization, more));
        center.deploy_own(MODEL, &scripts).unwrap();
        synchronize(&mut center, &mut remote, &[item(9, 1)]);
        let wanted = "autocommit,begin,end 0,autocommit,begin,anew";
        assert_eq!(opened(&center), wanted);
        center.writer.end_session();
        synchronize(&mut center, &mut remote, &[]);
        assert_eq!(opened(&center), format!("{wanted},end 0,autocommit,begin,anew"));
    });
}

// A session of the database that is gone has taken its temporary tables along.
#[test]
fn a_connection_that_is_lost_is_not_taken_for_another_one() {
    let backend = Backend::Postgres;
    let (mut center, mut remote) = center(backend);
    synchronize(&mut center, &mut remote, &[item(7, 1)]);
    center.foreign(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let sent = synchronize(&mut center, &mut remote, &[item(9, 1)]);
    assert_eq!(sent, 1);
    assert_eq!(opened(&center), "autocommit,begin,autocommit,begin");
}

#[test]
fn mistakes_are_told_although_a_table_is_made_by_a_connection() {
    Backend::each(|backend| {
        let mut center = Center::on(backend, SCHEMA, MODEL);
        let all = scripts(backend);
        let mut wrong: Vec<_> =
            all.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
        wrong.retain(|(_, event, _)| *event != EndSynchronization);
        wrong.push(("", EndSynchronization, "DELETE FROM mine WHERE nope = 1"));
        let failure = center.deploy_own(MODEL, &wrong).unwrap_err();
        let lines = failure.message().lines().count();
        assert_eq!(lines, 1, "{}", failure.message());
        assert!(
            failure.message().contains("end_synchronization.sql:1:24: "),
            "{}",
            failure.message()
        );
        assert_eq!(opened(&center), "", "nothing of it remains");
        let wrong = [("", BeginConnection, "CREATE TABLE item (id INTEGER)")];
        let failure = center.deploy_own(MODEL, &wrong).unwrap_err();
        assert!(failure.message().contains("begin_connection.sql:1:"), "{}", failure.message());
    });
}
