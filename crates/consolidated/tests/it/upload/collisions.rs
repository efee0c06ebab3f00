//! An upload and a deployment meet at an SQLite center.

use crate::support::center::{self, Center, Remote, Upload, int, text, upload};
use model::{Code, Failure};
use std::sync::mpsc::sync_channel;
use std::thread;
use syncline_consolidated::{Applied, Session};

/// Every row that is written notes which deployment held at that moment.
const SCHEMA: &str = "CREATE TABLE note (id INTEGER PRIMARY KEY, region TEXT);
    CREATE TABLE written (id INTEGER, deployment INTEGER);";
const WATCH: &str = "CREATE TRIGGER watch AFTER INSERT ON note BEGIN INSERT INTO written
    SELECT new.id, value FROM syncline_system WHERE name = 'deployment'; END";

const OPEN: &str = "[table.note]\n";
/// Rows of other regions are outside of the fence.
const FENCED: &str = "[table.note]\npartition = \"region IN {u.regions}\"\n";

/// How often both wait for a third program; who is first is chance.
const ROUNDS: i64 = 12;

fn synchronized() -> (Center, Remote) {
    let mut center = Center::new(SCHEMA, OPEN);
    center.foreign(WATCH);
    center::deploy(&center.url, OPEN).unwrap();
    center.reconnect();
    let mut remote = Remote::another();
    remote.claims.insert("regions".into(), "north".into());
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

/// A row that only the open model takes.
fn outside(id: i64) -> [Upload; 1] {
    [Upload::Insert("note", vec![int(id), text("south")])]
}

/// Uploads for a session that may be of an earlier deployment.
fn apply(
    center: &mut Center,
    session: &Session,
    remote: &mut Remote,
    id: i64,
) -> Result<Applied, Failure> {
    center.writer.begin()?;
    let applied = upload(center.writer.as_mut(), session, remote, &outside(id));
    center.writer.commit()?;
    let applied = applied?;
    remote.identity.progress = applied.progress;
    Ok(applied)
}

/// The deployments under which rows were written, by the rows.
fn written(center: &Center) -> String {
    center.list("SELECT id || ':' || deployment AS v FROM written ORDER BY id")
}

// S7, Trap 28: what an upload has begun under a model it ends under that model.
#[test]
fn a_deployment_waits_for_the_upload_that_holds_the_file() {
    let (mut center, mut remote) = synchronized();
    let session = center.session(&remote);
    center.writer.begin().unwrap();
    let applied = upload(center.writer.as_mut(), &session, &remote, &outside(1)).unwrap();
    let (started, starts) = sync_channel(2);
    let url = center.url.clone();
    let deploy = thread::spawn(move || {
        started.send(()).unwrap();
        center::deploy(&url, FENCED).unwrap();
    });
    starts.recv().unwrap();
    let rows = outside(2);
    let more = upload(center.writer.as_mut(), &session, &Remote::another(), &rows).unwrap();
    assert!(!deploy.is_finished());
    center.writer.commit().unwrap();
    deploy.join().unwrap();
    assert_eq!((applied.rejected, more.rejected), (0, 0));
    let held = session.deployment;
    assert_eq!(written(&center), format!("1:{held},2:{held}"));
    // The download after it uses the new model, which has no such row for this remote.
    remote.identity.progress = applied.progress;
    let download = center.download(&mut remote, &applied);
    assert_eq!(download.upserts, []);
}

// S7, Trap 28: a session of the model before is refused, and writes nothing.
#[test]
fn an_upload_behind_a_deployment_is_not_applied_under_the_model_before() {
    let (mut center, mut remote) = synchronized();
    let session = center.session(&remote);
    center::deploy(&center.url, FENCED).unwrap();
    let refused = apply(&mut center, &session, &mut remote, 1).unwrap_err();
    assert_eq!(refused.code(), Code::Superseded);
    assert_eq!(written(&center), "");
    let session = center.session(&remote);
    assert_eq!(apply(&mut center, &session, &mut remote, 1).unwrap().rejected, 1);
    assert_eq!(written(&center), "");
}

/// An upload and a deployment wait for a third program, which then makes room.
fn meet(
    center: &mut Center,
    session: &Session,
    remote: &mut Remote,
    (model, id): (&str, i64),
) -> Result<Applied, Failure> {
    let other = rusqlite::Connection::open(center.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (started, starts) = sync_channel(2);
    let url = center.url.clone();
    thread::scope(|scope| {
        let started_too = started.clone();
        let deploy = scope.spawn(move || {
            started.send(()).unwrap();
            drop(started);
            center::deploy(&url, model).unwrap();
        });
        let upload = scope.spawn(move || {
            started_too.send(()).unwrap();
            drop(started_too);
            apply(center, session, remote, id)
        });
        starts.iter().for_each(drop);
        other.execute_batch("COMMIT").unwrap();
        deploy.join().unwrap();
        upload.join().unwrap()
    })
}

// S7, Trap 28: either may be first.
#[test]
fn an_upload_and_a_deployment_that_wait_are_applied_one_after_the_other() {
    let (mut center, mut remote) = synchronized();
    for round in 0..ROUNDS {
        let session = center.session(&remote);
        let fenced = round % 2 == 1;
        let model = if fenced { OPEN } else { FENCED };
        let applied = meet(&mut center, &session, &mut remote, (model, round));
        let expected = match applied {
            // Only the open model takes the row.
            Ok(applied) => {
                assert_eq!(applied.rejected, u64::from(fenced));
                (!fenced).then(|| format!("{round}:{}", session.deployment))
            }
            Err(failure) => {
                assert_eq!(failure.code(), Code::Superseded);
                None
            }
        };
        let all = written(&center);
        let found = all.split(',').find(|it| it.starts_with(&format!("{round}:")));
        assert_eq!(found, expected.as_deref(), "round {round}: {all}");
    }
}
