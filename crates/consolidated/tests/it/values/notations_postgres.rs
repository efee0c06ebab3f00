//! Moments, UUIDs and intervals in the notation of whoever wrote them, and in that of the model.

use crate::support::center::{Center, Remote, Row, Upload, deploy, int, text};
use crate::support::on_postgres;
use harness::postgres::TestDatabase;
use syncline_consolidated::Url;

const VISIT: &str = "CREATE TABLE visit (id integer PRIMARY KEY, placed timestamptz,
    plain timestamp, mark uuid, took interval, paid boolean, note text)";

fn visit(id: i64, [placed, plain, mark, took]: [&str; 4], note: &str) -> Row {
    let mut row = vec![int(id)];
    row.extend([placed, plain, mark, took].map(text));
    row.extend([int(1), text(note)]);
    row
}

/// As Ann's application writes it, and as others get it.
const WRITTEN: [&str; 4] = [
    "2026-12-01T08:00:00.000Z",
    "2026-12-01 08:00",
    "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    "1 day",
];
const GIVEN: [&str; 4] =
    ["2026-12-01 08:00:00", "2026-12-01 08:00:00", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "P1D"];

fn remotes(center: &mut Center) -> [Remote; 2] {
    ["ann", "ben"].map(|name| {
        let mut remote = Remote::new(name);
        center.synchronize(&mut remote, &[]);
        remote
    })
}

fn upserts(rows: &[Row]) -> Vec<(String, Row)> {
    rows.iter().map(|row| ("visit".into(), row.clone())).collect()
}

// S3, Trap 8, Trap 15
#[test]
fn who_wrote_a_row_keeps_its_notation_until_another_changes_it() {
    let (mut center, _database) = on_postgres::center(VISIT, "[table.visit]\n");
    let [mut ann, mut ben] = remotes(&mut center);
    let written = visit(1, WRITTEN, "new");
    let (_, download) = center.synchronize(&mut ann, &[Upload::Insert("visit", written.clone())]);
    assert_eq!(download.upserts, []);
    assert_eq!(center.synchronize(&mut ann, &[]).1.upserts, []);
    let given = visit(1, GIVEN, "new");
    let (_, download) = center.synchronize(&mut ben, &[]);
    assert_eq!(download.upserts, upserts(std::slice::from_ref(&given)));
    // Ann's next change is of what she has written.
    let noted = visit(1, WRITTEN, "noted");
    let (applied, download) =
        center.synchronize(&mut ann, &[Upload::Update("visit", written, noted)]);
    assert_eq!((applied.conflicts, applied.rejected), (0, 0));
    assert_eq!(download.upserts, []);
    let (_, download) = center.synchronize(&mut ben, &[]);
    let (given, changed) = (visit(1, GIVEN, "noted"), visit(1, GIVEN, "ben's"));
    assert_eq!(download.upserts, upserts(std::slice::from_ref(&given)));
    let (applied, download) =
        center.synchronize(&mut ben, &[Upload::Update("visit", given, changed.clone())]);
    assert_eq!((applied.conflicts, download.upserts), (0, vec![]));
    let (_, download) = center.synchronize(&mut ann, &[]);
    assert_eq!(download.upserts, upserts(&[changed]));
    assert_eq!(center.synchronize(&mut ann, &[]).1.upserts, []);
}

// S5, Trap 8: both sides have the same, and what has won is not sent back.
#[test]
fn a_conflict_is_one_of_values() {
    let (mut center, database) =
        on_postgres::center(VISIT, "[table.visit]\nconflict = \"remote_wins\"\n");
    let [mut ann, _] = remotes(&mut center);
    let written = visit(1, WRITTEN, "new");
    center.synchronize(&mut ann, &[Upload::Insert("visit", written.clone())]);
    database.sql("UPDATE visit SET note = 'center'");
    let same = Upload::Update("visit", written.clone(), visit(1, WRITTEN, "center"));
    let (applied, download) = center.synchronize(&mut ann, &[same]);
    assert_eq!((applied.conflicts, download.upserts), (0, vec![]));
    database.sql("UPDATE visit SET note = 'again'");
    let other = visit(1, WRITTEN, "ann's");
    let wins = Upload::Update("visit", visit(1, WRITTEN, "center"), other);
    let (applied, download) = center.synchronize(&mut ann, &[wins]);
    assert_eq!((applied.conflicts, download.upserts), (1, vec![]));
    assert_eq!(database.query("SELECT note FROM visit"), [["ann's"]]);
}

// S3, Trap 8
#[test]
fn a_row_that_a_trigger_changes_comes_back_in_the_notation_of_the_model() {
    let (mut center, _database) = on_postgres::center(
        &format!(
            "{VISIT}; CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN NEW.placed := NEW.placed + interval '1.5 s'; RETURN NEW; END $$;
             CREATE TRIGGER later BEFORE INSERT ON visit FOR EACH ROW EXECUTE FUNCTION later()"
        ),
        "[table.visit]\ntimes = { placed = \"rfc3339\" }\n",
    );
    let [mut ann, _] = remotes(&mut center);
    let written = visit(1, WRITTEN, "new");
    let (_, download) = center.synchronize(&mut ann, &[Upload::Insert("visit", written)]);
    let made = visit(1, ["2026-12-01T08:00:01.5Z", GIVEN[1], GIVEN[2], GIVEN[3]], "new");
    assert_eq!(download.upserts, upserts(&[made]));
}

fn failure(database: &TestDatabase, table: &str) -> String {
    let url = Url::parse(&database.url()).unwrap();
    deploy(&url, table).unwrap_err().full_message()
}

// Trap 15, Trap 18
#[test]
fn another_notation_is_for_moments_that_remotes_do_not_compare() {
    let (mut center, database) = on_postgres::center(
        &format!("{VISIT}; CREATE TABLE day (at timestamp PRIMARY KEY)"),
        "[table.visit]\n",
    );
    for (table, why) in [
        ("[table.visit]\ntimes = { note = \"rfc3339\" }\n", "names note, which is not"),
        ("[table.visit]\ntimes = { gone = \"sqlite\" }\n", "names gone, which is not"),
        ("[table.day]\ntimes = { at = \"rfc3339\" }\n", "names at, which is part of a key"),
    ] {
        let message = failure(&database, table);
        assert!(message.contains(why), "{message}");
    }
    let [mut ann, _] = remotes(&mut center);
    center.synchronize(&mut ann, &[Upload::Insert("visit", visit(1, WRITTEN, "new"))]);
    // Another notation is sent to all, with their next synchronization.
    let mut center =
        on_postgres::deployed(&database, "[table.visit]\ntimes = { placed = \"rfc3339\" }\n");
    let given = visit(1, ["2026-12-01T08:00:00Z", GIVEN[1], GIVEN[2], GIVEN[3]], "new");
    let (_, download) = center.synchronize(&mut ann, &[]);
    assert_eq!(download.upserts, upserts(&[given]));
}

// S9, Trap 18: another notation alone sends nothing, and a deployment keeps its own until the next.
#[test]
fn what_was_deployed_with_one_notation_is_not_sent_again() {
    let (mut center, database) = on_postgres::center(VISIT, "[table.visit]\n");
    database.sql("INSERT INTO visit (id, placed) VALUES (1, '2026-12-01 08:00Z')");
    let [mut ann, _] = remotes(&mut center);
    let older = "UPDATE syncline.syncline_table
        SET details = replace(details, ',\"times\":\"sqlite\"', '')";
    database.sql(older);
    center.reconnect();
    let moment = |center: &mut Center, remote: &mut Remote, id: i64| {
        let sql = format!("INSERT INTO visit (id, placed) VALUES ({id}, '2026-12-01 08:00Z')");
        database.sql(&sql);
        let upserts = center.synchronize(remote, &[]).1.upserts;
        upserts.into_iter().map(|(_, row)| (row[0].clone(), row[1].clone())).collect::<Vec<_>>()
    };
    let full = (int(2), text("2026-12-01 08:00:00.000000Z"));
    assert_eq!(moment(&mut center, &mut ann, 2), [full]);
    let mut center = on_postgres::deployed(&database, "[table.visit]\n");
    assert_eq!(moment(&mut center, &mut ann, 3), [(int(3), text(GIVEN[0]))]);
}
