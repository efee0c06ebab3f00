//! Scripts around the rows of a synchronization, with the same results on both databases.

use crate::support::center::{Backend, Center, Remote, Upload, int, upload_only};
use model::Code;
use syncline_consolidated::Event::{
    BeginPublication, BeginSynchronization, BeginUpload, BeginUploadDeletes, BeginUploadRows,
    EndPublication, EndSynchronization, EndUpload, EndUploadDeletes, EndUploadRows,
    PrepareForDownload, UploadInsert,
};
use syncline_consolidated::{Applied, Ending, Event, Session};

fn schema(backend: Backend) -> String {
    let number = backend.pick("INTEGER PRIMARY KEY", "serial PRIMARY KEY");
    format!(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 13));
         CREATE TABLE line (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES item);
         CREATE TABLE ran (number {number}, what TEXT);
         CREATE TABLE once (n INTEGER PRIMARY KEY);"
    )
}

const MODEL: &str = "[table.item]\n[table.line]\n";

const OF_BOTH: [Event; 4] = [BeginSynchronization, BeginUpload, EndUpload, EndSynchronization];

const OF_TABLES: [Event; 4] =
    [BeginUploadRows, EndUploadRows, BeginUploadDeletes, EndUploadDeletes];

const OF_VERSIONS: [Event; 3] = [BeginPublication, PrepareForDownload, EndPublication];

/// A script that notes that it ran, for what, and a value that another one has set.
fn noting(event: Event, told: &str) -> String {
    format!("INSERT INTO ran (what) VALUES ('{event} ' || coalesce({told}, '-'))")
}

/// Such a script at every event.
fn everywhere() -> Vec<(&'static str, Event, String)> {
    let mut scripts = Vec::new();
    for event in OF_BOTH.into_iter().chain(OF_TABLES) {
        scripts.extend(["item", "line"].map(|table| (table, event, noting(event, "{s.table}"))));
    }
    for event in OF_VERSIONS.into_iter().chain(OF_BOTH) {
        let told = match event {
            BeginPublication | EndPublication => "{s.publication_name}",
            _ => "{s.username}",
        };
        scripts.push(("", event, noting(event, told)));
    }
    scripts
}

fn center(backend: Backend, scripts: &[(&'static str, Event, String)]) -> (Center, Remote) {
    let mut center = Center::on(backend, &schema(backend), MODEL);
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let scripts: Vec<_> = scripts.iter().map(|(of, event, text)| (*of, *event, &**text)).collect();
    center.deploy_own(MODEL, &scripts).unwrap();
    (center, remote)
}

fn item(id: i64, n: i64) -> Upload {
    Upload::Insert("item", vec![int(id), int(n)])
}

fn line(id: i64, item: i64) -> Upload {
    Upload::Insert("line", vec![int(id), int(item)])
}

/// What has run since it was asked last.
fn ran(center: &Center) -> Vec<String> {
    let ran = center.list("SELECT what AS v FROM ran ORDER BY number");
    center.foreign("DELETE FROM ran");
    let ran = ran.split(',').filter(|what| !what.is_empty());
    ran.map(str::to_owned).collect()
}

/// Ends a synchronization as a server does.
fn end(center: &mut Center, session: &Session, applied: &Applied, ok: bool) {
    let session = applied.session(&session.clone().into());
    center.writer.begin().unwrap();
    center.writer.end(&Ending { session: &session, ok }).unwrap();
    center.writer.commit().unwrap();
}

const BEGUN: [&str; 4] = [
    "begin_synchronization ann",
    "begin_synchronization item",
    "begin_synchronization line",
    "begin_publication all",
];

const ENDED: [&str; 4] = [
    "end_publication all",
    "end_synchronization item",
    "end_synchronization line",
    "end_synchronization ann",
];

#[test]
fn scripts_run_around_the_rows_in_the_published_order() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, &everywhere());
        let rows = [item(1, 1), item(2, 2), line(1, 1)];
        let session = center.session(&remote);
        let applied = center.upload(&mut remote, &rows).unwrap();
        let uploaded = [
            "begin_upload ann",
            "begin_upload item",
            "begin_upload line",
            "begin_upload_rows item",
            "end_upload_rows item",
            "begin_upload_rows line",
            "end_upload_rows line",
            "end_upload item",
            "end_upload line",
            "end_upload ann",
            "prepare_for_download ann",
        ];
        assert_eq!(ran(&center), [&BEGUN[..], &uploaded].concat());
        end(&mut center, &session, &applied, true);
        assert_eq!(ran(&center), ENDED);
        center.download(&mut remote, &applied);

        // Parents are written first, and deleted last; other tables are passed over.
        let rows = [
            Upload::Update("item", vec![int(2), int(2)], vec![int(2), int(3)]),
            Upload::Delete("item", vec![int(1), int(1)]),
            Upload::Delete("line", vec![int(1), int(1)]),
        ];
        center.upload(&mut remote, &rows).unwrap();
        let uploaded = [
            "begin_upload ann",
            "begin_upload item",
            "begin_upload line",
            "begin_upload_rows item",
            "end_upload_rows item",
            "begin_upload_deletes line",
            "end_upload_deletes line",
            "begin_upload_deletes item",
            "end_upload_deletes item",
            "end_upload item",
            "end_upload line",
            "end_upload ann",
            "prepare_for_download ann",
        ];
        assert_eq!(ran(&center), [&BEGUN[..], &uploaded].concat());

        // Nothing to upload, and no download.
        center.upload(&mut remote, &[]).unwrap();
        let nothing = ["begin_upload ann", "end_upload ann", "prepare_for_download ann"];
        assert_eq!(ran(&center), [&BEGUN[..], &nothing].concat());
        center.writer.begin().unwrap();
        upload_only(&mut *center.writer, &session, &remote, &[]).unwrap();
        center.writer.commit().unwrap();
        assert_eq!(ran(&center), [&BEGUN[..], &nothing[..2]].concat());
    });
}

/// The script of an event that fails.
fn failing(of: &'static str, event: Event) -> Vec<(&'static str, Event, String)> {
    let mut scripts = everywhere();
    scripts.retain(|(table, other, _)| (*table, *other) != (of, event));
    let fails = "INSERT INTO once VALUES (1);\nINSERT INTO once VALUES (1)";
    scripts.push((of, event, fails.to_owned()));
    scripts
}

// T2 and T6 have transactions of their own, and T6 follows whatever happened behind T2.
#[test]
fn what_was_done_before_an_upload_fails_stays() {
    Backend::each(|backend| {
        for (of, event) in [("", EndUpload), ("item", BeginUploadRows), ("line", EndUploadDeletes)]
        {
            let mut scripts = failing(of, event);
            let ended = scripts.iter_mut().find(|it| it.0.is_empty() && it.1 == EndSynchronization);
            ended.unwrap().2 = noting(EndSynchronization, "{s.synchronization_ok}")
                .replace("coalesce({s.synchronization_ok}, '-')", "{s.synchronization_ok}");
            let (mut center, mut remote) = center(backend, &scripts);
            center.foreign("INSERT INTO item VALUES (9, 9); INSERT INTO line VALUES (9, 9)");
            let rows = [item(1, 1), Upload::Delete("line", vec![int(9), int(9)])];
            let failure = center.upload(&mut remote, &rows).unwrap_err();
            assert_eq!(failure.code(), Code::ScriptFailed);
            let place = match of {
                "" => format!("scripts/v1/{event}.sql:2:1: "),
                table => format!("scripts/v1/{table}/{event}.sql:2:1: "),
            };
            assert!(failure.message().contains(&place), "{}", failure.message());
            let ran = ran(&center);
            let ended = [&ENDED[..3], &["end_synchronization 0"]].concat();
            assert_eq!(ran, [&BEGUN[..], &ended].concat(), "{event}");
            let left = center.list("SELECT id AS v FROM item UNION ALL SELECT id FROM line");
            assert_eq!(left, "9,9");
        }
    });
}

#[test]
fn a_synchronization_that_cannot_begin_leaves_nothing_and_has_no_end() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, &failing("line", BeginSynchronization));
        let failure = center.upload(&mut remote, &[item(1, 1)]).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptFailed);
        assert!(ran(&center).is_empty());
        assert_eq!(center.value("SELECT count(*) AS v FROM item"), int(0));
    });
}

#[test]
fn an_upload_survives_what_fails_behind_it() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, &failing("", PrepareForDownload));
        let applied = center.upload(&mut remote, &[item(1, 1)]).unwrap();
        let why = applied.stopped.as_ref().expect("a script has failed");
        assert_eq!(why.code(), Code::ScriptFailed);
        assert_eq!((applied.inserts, center.list("SELECT id AS v FROM item")), (1, "1".into()));
        assert_eq!(center.value("SELECT count(*) AS v FROM once"), int(0));

        // What fails at the end alone is undone alone.
        center
            .deploy_own(
                MODEL,
                &[(
                    "",
                    EndSynchronization,
                    "INSERT INTO once VALUES (1); INSERT INTO once VALUES (1)",
                )],
            )
            .unwrap();
        let session = center.session(&remote);
        let applied = center.upload(&mut remote, &[item(2, 2)]).unwrap();
        center.writer.begin().unwrap();
        let ended = center.writer.end(&Ending { session: &session, ok: true });
        center.writer.commit().unwrap();
        assert_eq!(ended.unwrap_err().code(), Code::ScriptFailed);
        assert!(applied.stopped.is_none());
        assert_eq!(center.list("SELECT id AS v FROM item ORDER BY id"), "1,2");
    });
}

#[test]
fn what_a_script_sets_is_known_to_all_that_follow() {
    Backend::each(|backend| {
        let begun = "SELECT 'north' AS \"u.region\", 7 AS u_team";
        let scripts = [
            ("", BeginSynchronization, begun.to_owned()),
            ("item", BeginUpload, "SELECT {u.team} || '!' AS u_team".to_owned()),
            (
                "item",
                UploadInsert,
                "INSERT INTO item VALUES ({r.id}, {r.n});
                 INSERT INTO ran (what) VALUES ({u.region} || {u.team} || {u.own})"
                    .to_owned(),
            ),
            ("", EndUpload, "SELECT NULL AS u_own".to_owned()),
            ("", PrepareForDownload, noting(PrepareForDownload, "{u.own}")),
            ("", EndSynchronization, noting(EndSynchronization, "{u.region}")),
        ];
        let (mut center, mut remote) = center(backend, &scripts);
        remote.claims.insert("own".to_owned(), "claim".to_owned());
        remote.claims.insert("region".to_owned(), "south".to_owned());
        let session = center.session(&remote);
        let applied = center.upload(&mut remote, &[item(1, 1)]).unwrap();
        end(&mut center, &session, &applied, true);
        let wanted = ["north7!claim", "prepare_for_download -", "end_synchronization north"];
        assert_eq!(ran(&center), wanted);
    });
}

// S2: the remote has to see what scripts make of the rows that it has just uploaded.
#[test]
fn what_scripts_around_the_rows_change_comes_back() {
    Backend::each(|backend| {
        for event in [EndUploadRows, EndUpload, PrepareForDownload] {
            let of = if event == EndUploadRows { "item" } else { "" };
            let change = "UPDATE item SET n = n + 100 WHERE n < 100".to_owned();
            let (mut center, mut remote) = center(backend, &[(of, event, change)]);
            let (_, download) = center.synchronize(&mut remote, &[item(1, 1), item(2, 2)]);
            let rows: Vec<_> = download.upserts.into_iter().map(|(_, row)| row).collect();
            assert_eq!(rows, [vec![int(1), int(101)], vec![int(2), int(102)]], "{event}");
        }
    });
}

// A row that the database refuses is told, and the scripts run all the same.
#[test]
fn a_rejected_row_does_not_stop_the_scripts() {
    Backend::each(|backend| {
        let (mut center, mut remote) = center(backend, &everywhere());
        let rows = [item(1, 1), item(2, 13), item(3, 3)];
        let applied = center.upload(&mut remote, &rows).unwrap();
        assert_eq!(
            (applied.rejected, center.list("SELECT id AS v FROM item ORDER BY id")),
            (1, "1,3".into())
        );
        let ran = ran(&center);
        let times = |what: &str| ran.iter().filter(|it| *it == what).count();
        for what in [
            "begin_synchronization ann",
            "begin_upload ann",
            "begin_upload_rows item",
            "end_upload_rows item",
            "end_upload ann",
        ] {
            assert_eq!(times(what), 1, "{what}: {ran:?}");
        }
    });
}
