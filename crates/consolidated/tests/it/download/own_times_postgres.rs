//! Cursors that compare what rows were stamped with, on PostgreSQL.

use crate::support::center::{Center, Download, Remote, Upload, deploy_own, int, text};
use crate::support::on_postgres::connected;
use harness::postgres::{APP_ROLE, Cluster, PsqlSession, SUPERUSER, TestDatabase};
use harness::{Chance, full};
use model::{Code, Failure, Value};
use std::collections::BTreeSet;
use std::sync::Once;
use syncline_consolidated::DownloadedTable::{Changes, Refresh};
use syncline_consolidated::Event::{
    DownloadCursor, DownloadDeleteCursor, UploadDelete, UploadInsert, UploadUpdate,
};
use syncline_consolidated::Url;

const SCHEMA: &str = "
    CREATE TABLE visit (id integer PRIMARY KEY, words text, stamped timestamptz NOT NULL
        DEFAULT now(), active boolean NOT NULL);
    CREATE INDEX ON visit (stamped);
    CREATE TABLE other (id integer PRIMARY KEY, words text);
    CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.stamped := now(); RETURN NEW; END $$;
    CREATE TRIGGER touch BEFORE UPDATE ON visit FOR EACH ROW EXECUTE FUNCTION touch();
    INSERT INTO visit VALUES
        (1, 'a', '2026-01-05 08:00Z', true), (2, 'b', '2026-01-05 08:00Z', true);";

const MODEL: &str = "[table.visit]\ncolumns = [\"id\", \"words\"]\n[table.other]\n";

/// Nobody has to say what the column is that remotes do not know.
const READ_ONLY: &str =
    "[table.visit]\ncolumns = [\"id\", \"words\"]\ndirection = \"download_only\"\n[table.other]\n";

const ROWS: &str = "SELECT id, words FROM visit
    WHERE stamped >= {s.last_table_download} AND active";
const KEYS: &str = "SELECT id FROM visit
    WHERE stamped >= {s.last_table_download} AND NOT active";

type Own<'a> = (&'a str, syncline_consolidated::Event, &'a str);

const CURSORS: [Own<'_>; 2] =
    [("visit", DownloadCursor, ROWS), ("visit", DownloadDeleteCursor, KEYS)];

/// Rows are never deleted, and have a column that remotes do not know.
const UPLOADS: [Own<'_>; 3] = [
    (
        "visit",
        UploadInsert,
        "INSERT INTO visit (id, words, active) VALUES ({r.id}, {r.words}, true)",
    ),
    ("visit", UploadUpdate, "UPDATE visit SET words = {r.words} WHERE id = {r.id}"),
    ("visit", UploadDelete, "UPDATE visit SET active = false WHERE id = {r.id}"),
];

pub(crate) fn grant() {
    static GRANTED: Once = Once::new();
    GRANTED.call_once(|| {
        Cluster::shared().superuser_sql(&format!("GRANT pg_read_all_stats TO {APP_ROLE}"));
    });
}

/// The role of the server may see since when transactions are open.
fn database(schema: &str) -> TestDatabase {
    grant();
    let database = Cluster::shared().database();
    database.sql(schema);
    database
}

fn deployed(database: &TestDatabase, model: &str, scripts: &[Own<'_>]) -> Result<Center, Failure> {
    deploy_own(&Url::parse(&database.url()).unwrap(), model, scripts)?;
    Ok(connected(database))
}

fn ready() -> (TestDatabase, Center, Remote) {
    let database = database(SCHEMA);
    let scripts: Vec<Own<'_>> = CURSORS.into_iter().chain(UPLOADS).collect();
    let center = deployed(&database, MODEL, &scripts).unwrap();
    (database, center, Remote::another())
}

fn again(center: &mut Center, remote: &mut Remote) -> Download {
    center.synchronize(remote, &[]).1
}

fn ids(download: &Download) -> BTreeSet<i64> {
    let id = |(_, row): &(String, Vec<Value>)| match row[0] {
        Value::Integer(id) => id,
        _ => panic!("a key that is no number"),
    };
    download.upserts.iter().map(id).collect()
}

#[test]
fn rows_that_were_stamped_since_the_last_download_arrive_and_soft_deletes_too() {
    let (database, mut center, mut remote) = ready();
    let first = again(&mut center, &mut remote);
    assert_eq!((first.modes[0], ids(&first)), (Refresh, BTreeSet::from([1, 2])));
    let second = again(&mut center, &mut remote);
    assert_eq!((second.modes[0], ids(&second)), (Changes, BTreeSet::new()));
    database.sql("UPDATE visit SET words = 'A' WHERE id = 1");
    assert_eq!(ids(&again(&mut center, &mut remote)), BTreeSet::from([1]));
    // What the remote itself does is not sent back, the key of a row that stays there included.
    let row = |id, words| vec![int(id), text(words)];
    let uploads = [
        Upload::Insert("visit", row(9, "n")),
        Upload::Update("visit", row(1, "A"), row(1, "B")),
        Upload::Delete("visit", row(2, "b")),
    ];
    let (applied, download) = center.synchronize(&mut remote, &uploads);
    assert_eq!((applied.conflicts, applied.rejected), (0, 0));
    assert_eq!((download.upserts.len(), download.deletes.len()), (0, 0));
    assert_eq!(download.filtered, 3);
    let there =
        database.text("SELECT string_agg(id || words || active, ',' ORDER BY id) FROM visit");
    assert_eq!(there.trim(), "1Btrue,2bfalse,9ntrue");
    // Another remote never has the row that is not active.
    assert_eq!(ids(&again(&mut center, &mut Remote::another())), BTreeSet::from([1, 9]));
}

// DT1: a transaction that began before a download and commits behind it.
#[test]
fn a_transaction_that_is_open_during_a_download_is_not_missed() {
    let (database, mut center, mut remote) = ready();
    again(&mut center, &mut remote);
    let mut open = database.session();
    open.sql("BEGIN; UPDATE visit SET words = 'late' WHERE id = 2");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    database.sql("UPDATE visit SET words = 'early' WHERE id = 1");
    assert_eq!(ids(&again(&mut center, &mut remote)), BTreeSet::from([1]));
    open.sql("COMMIT");
    assert!(ids(&again(&mut center, &mut remote)).contains(&2));
}

// DT2: nobody can tell when a prepared transaction began.
#[test]
fn a_prepared_transaction_is_not_missed() {
    let (database, mut center, mut remote) = ready();
    again(&mut center, &mut remote);
    database
        .sql("BEGIN; UPDATE visit SET words = 'late' WHERE id = 2; PREPARE TRANSACTION 'times'");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(ids(&again(&mut center, &mut remote)), BTreeSet::new());
    database.sql("COMMIT PREPARED 'times'");
    assert!(ids(&again(&mut center, &mut remote)).contains(&2));
}

/// Transactions that commit at random moments.
struct Writers {
    seed: u64,
    chance: Chance,
    open: Vec<(PsqlSession, Option<String>)>,
    /// What was written by transactions that are committed.
    written: i64,
}

impl Writers {
    fn step(&mut self, database: &TestDatabase) {
        match self.chance.below(3) {
            0 => {
                let mut session = database.session();
                self.written += 1;
                let id = self.written + 10;
                session.sql(&format!(
                    "BEGIN; INSERT INTO visit (id, words, active) VALUES ({id}, '', true)"
                ));
                let name = (self.chance.below(2) == 0).then(|| format!("times {} {id}", self.seed));
                if let Some(name) = &name {
                    session.sql(&format!("PREPARE TRANSACTION '{name}'"));
                }
                self.open.push((session, name));
            }
            1 if !self.open.is_empty() => {
                let at = self.chance.below(self.open.len() as u64) as usize;
                self.commit(at);
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(self.chance.below(1200))),
        }
    }

    fn commit(&mut self, at: usize) {
        let (mut session, name) = self.open.swap_remove(at);
        session.sql(&match name {
            None => "COMMIT".to_owned(),
            Some(name) => format!("COMMIT PREPARED '{name}'"),
        });
    }
}

// DT1, DT2, against what a remote would miss that asked since its own last download.
#[test]
fn transactions_that_commit_at_random_moments_are_not_missed() {
    // Most of the time they wait, so some go on at the same time.
    const TOGETHER: u64 = 10;
    let missed = (0..if full() { 20 } else { 1 }).map(|turn| {
        std::thread::scope(|scope| {
            let seeds = turn * TOGETHER..(turn + 1) * TOGETHER;
            let all: Vec<_> = seeds.map(|seed| scope.spawn(move || missed_naively(seed))).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum::<usize>()
        })
    });
    assert!(missed.sum::<usize>() > 0, "no transaction was open during a download");
}

/// Writes and downloads at random; all must arrive. Returns what does not if one asks for what was
/// stamped since the last download.
fn missed_naively(seed: u64) -> usize {
    let (database, mut center, mut remote) = ready();
    database.sql("TRUNCATE visit");
    let chance = Chance::from_seed(seed);
    let mut writers = Writers { seed, chance, open: Vec::new(), written: 0 };
    let (mut received, mut naive) = (BTreeSet::new(), BTreeSet::new());
    let mut since = "1900-01-01".to_owned();
    let mut download = |received: &mut BTreeSet<i64>| {
        received.extend(ids(&again(&mut center, &mut remote)));
        let seen = format!("SELECT id FROM visit WHERE stamped >= '{since}'");
        naive.extend(database.query(&seen).iter().map(|row| row[0].parse::<i64>().unwrap()));
        since = database.text("SELECT now()").trim().to_owned();
    };
    for _ in 0..20 {
        writers.step(&database);
        if writers.chance.below(3) == 0 {
            download(&mut received);
        }
    }
    while !writers.open.is_empty() {
        writers.commit(0);
    }
    download(&mut received);
    let all: BTreeSet<i64> = (11..11 + writers.written).collect();
    assert_eq!(received, all, "seed {seed}");
    all.difference(&naive).count()
}

#[test]
fn the_time_of_a_table_is_its_own_and_the_other_one_is_the_oldest() {
    let database = database(SCHEMA);
    let both = "SELECT 1, {s.last_table_download}::text || ' ' || {s.last_download}::text";
    let scripts = [("other", DownloadCursor, both)];
    let model =
        "[publication.all]\n[publication.one]\ntables = [\"other\"]\n".to_owned() + READ_ONLY;
    let mut center = deployed(&database, &model, &scripts).unwrap();
    let mut remote = Remote::another();
    let never = "1900-01-01 00:00:00+00";
    let told = |download: &Download| {
        let (_, row) = download.upserts.iter().find(|(table, _)| table == "other").unwrap();
        match &row[1] {
            Value::Text(told) => String::from_utf8(told.clone()).unwrap(),
            _ => panic!("no text"),
        }
    };
    assert_eq!(told(&again(&mut center, &mut remote)), format!("{never} {never}"));
    let second = told(&again(&mut center, &mut remote));
    assert!(second.starts_with("20") && !second.contains(never), "{second}");
    // As if the remote had never received the other table.
    let schema = center.session(&remote).schema;
    let visit = schema.tables.iter().position(|table| table.name == "visit").unwrap();
    remote.marks[visit].watermark = None;
    let third = told(&again(&mut center, &mut remote));
    assert!(third.starts_with("20") && third.ends_with(never), "{third}");
}

#[test]
fn a_role_that_does_not_see_open_transactions_is_refused() {
    let (database, mut center, mut remote) = ready();
    let role = format!("blind_{}", std::process::id());
    database.as_role(SUPERUSER).sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public, syncline TO {role};
         GRANT ALL ON SCHEMA syncline TO {role};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA syncline TO {role}"
    ));
    again(&mut center, &mut remote);
    let mut blind = connected(&database.as_role(&role));
    let applied = blind.upload(&mut remote, &[]).unwrap();
    let failure = blind.try_download(&mut remote, &applied).unwrap_err();
    assert_eq!(failure.code(), Code::DatabaseRights);
    let message = failure.full_message();
    assert!(message.contains("{s.last_table_download}") && message.contains(&role), "{message}");
}

// A timestamp without a zone is a local time of whoever stamps.
#[test]
fn local_times_need_the_time_zone_in_the_model() {
    let local = SCHEMA.replace("stamped timestamptz", "stamped timestamp");
    let place = "scripts/v1/visit/download_cursor.sql:2:23: it is compared with";
    let berlin = format!("time_zone = \"Europe/Berlin\"\n{READ_ONLY}");
    let of = |schema: &str, zone: &str| {
        let database = database(schema);
        let (superuser, name) =
            (database.as_role(SUPERUSER), database.text("SELECT current_database()"));
        superuser.sql(&format!("ALTER DATABASE \"{}\" SET TimeZone = '{zone}'", name.trim()));
        database
    };
    let refused = |database: &TestDatabase, model: &str| {
        let failure = deployed(database, model, &CURSORS[..1]).map(drop).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptInvalid);
        failure.message().to_owned()
    };
    let database = of(&local, "Europe/Berlin");
    let message = refused(&database, READ_ONLY);
    assert!(message.starts_with(place) && message.contains("Europe/Berlin"), "{message}");
    assert!(refused(&database, &berlin.replace("Berlin", "Atlantis")).contains("Atlantis"));
    assert!(refused(&of(SCHEMA, "Europe/Berlin"), &berlin).starts_with(place));
    deployed(&of(&local, "UTC"), READ_ONLY, &CURSORS[..1]).unwrap();
    deployed(&of(SCHEMA, "Europe/Berlin"), READ_ONLY, &CURSORS[..1]).unwrap();

    let mut center = deployed(&database, &berlin, &CURSORS[..1]).unwrap();
    let mut remote = Remote::another();
    assert_eq!(ids(&again(&mut center, &mut remote)).len(), 2);
    database.sql("UPDATE visit SET words = 'A' WHERE id = 1");
    assert_eq!(ids(&again(&mut center, &mut remote)), BTreeSet::from([1]));
    std::thread::sleep(std::time::Duration::from_millis(2500));
    again(&mut center, &mut remote);
    assert_eq!(ids(&again(&mut center, &mut remote)), BTreeSet::new());
}
