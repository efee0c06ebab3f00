//! Upload scripts that users write, on PostgreSQL.

use crate::support::center::{Center, Download, Remote, Row, Upload, int, psql, text};
use crate::support::on_postgres::connected;
use harness::postgres::{Cluster, TestDatabase};
use model::{Code, Failure};
use std::collections::BTreeMap;
use syncline_consolidated::{Applied, Deployment, Event, ScriptFile, SyncModel, Url, administer};

/// A user's script: table, event, text.
type Own<'a> = (&'a str, Event, &'a str);

const INSERT: Event = Event::UploadInsert;
const UPDATE: Event = Event::UploadUpdate;
const DELETE: Event = Event::UploadDelete;

/// A table with a log of what is written to it, in the order in which that happens.
const SCHEMA: &str = "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n <> 13));
    CREATE TABLE audit (turn bigint GENERATED ALWAYS AS IDENTITY, id integer);
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit (id) VALUES (coalesce(NEW.id, OLD.id));
        RETURN NULL;
    END $$;
    CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON t
        FOR EACH ROW EXECUTE FUNCTION audit();";

const PUT: Own<'_> = ("t", INSERT, "INSERT INTO t (id, n) VALUES ({r.id}, {r.n})");
const SET: Own<'_> =
    ("t", UPDATE, "UPDATE t SET n = {r.n} WHERE id = {o.id} AND n IS NOT DISTINCT FROM {o.n}");
const CUT: Own<'_> = ("t", DELETE, "DELETE FROM t WHERE id = {o.id} AND n = {o.n}");

fn deploy(
    url: &Url,
    tables: &str,
    scripts: &[Own<'_>],
    dry_run: bool,
) -> Result<Deployment, Failure> {
    let text = format!("script_version = \"v1\"\n{tables}");
    let mut model = SyncModel::parse(&text, "model.toml").unwrap();
    for (table, event, text) in scripts {
        let (name, text) = (format!("{table}.{event}.sql"), (*text).to_owned());
        let file = ScriptFile { name, text, for_all: false };
        model.own_scripts.insert(((*table).to_owned(), *event), file);
    }
    administer(url)?.deploy(&[model], dry_run)
}

fn database(schema: &str) -> (TestDatabase, Url) {
    let database = Cluster::shared().database();
    database.sql(schema);
    let url = Url::parse(&database.url()).unwrap();
    (database, url)
}

/// A center with scripts of users, and a remote that has what is there.
fn center(schema: &str, tables: &str, scripts: &[Own<'_>]) -> (Center, Remote) {
    let (database, url) = database(schema);
    deploy(&url, tables, scripts, false).unwrap();
    let mut center = connected(&database);
    let mut remote = Remote::another();
    remote.claims = BTreeMap::from([("rep".into(), "1".into())]);
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

fn pair(id: i64, n: i64) -> Row {
    vec![int(id), int(n)]
}

fn insert(id: i64, n: i64) -> Upload {
    Upload::Insert("t", pair(id, n))
}

fn update(id: i64, from: i64, to: i64) -> Upload {
    Upload::Update("t", pair(id, from), pair(id, to))
}

fn delete(id: i64, n: i64) -> Upload {
    Upload::Delete("t", pair(id, n))
}

/// What became of rows: written, then conflicts, rejected and ignored ones.
fn outcome(applied: &Applied) -> ([u64; 3], [u64; 3]) {
    let Applied { inserts, updates, deletes, conflicts, rejected, ignored, .. } = applied;
    ([*inserts, *updates, *deletes], [*conflicts, *rejected, *ignored])
}

fn rejects(download: &Download) -> Vec<String> {
    let told = download.rejects.iter();
    let told = told.map(|(_, key, code)| format!("{} E{code}", key[0].as_ref().display()));
    let mut told: Vec<String> = told.collect();
    told.sort();
    told
}

fn rows(center: &Center) -> String {
    center.list("SELECT id || '=' || n FROM t ORDER BY id")
}

fn audited(center: &Center) -> String {
    center.list("SELECT id FROM audit ORDER BY turn")
}

// S1
#[test]
fn rows_go_one_by_one_through_the_scripts_of_users_in_the_order_sent() {
    let (mut center, mut remote) = center(SCHEMA, "[table.t]\n", &[PUT, SET, CUT]);
    let inserts = [insert(3, 30), insert(1, 10), insert(2, 20)];
    let (applied, download) = center.synchronize(&mut remote, &inserts);
    assert_eq!(outcome(&applied), ([3, 0, 0], [0, 0, 0]));
    assert_eq!((download.upserts.len(), download.filtered), (0, 3), "the remote has them");
    let changes = [update(2, 20, 21), update(1, 10, 11), delete(3, 30)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!(outcome(&applied), ([0, 2, 1], [0, 0, 0]));
    assert!(download.rejects.is_empty() && download.upserts.is_empty(), "{download:?}");
    assert_eq!(rows(&center), "1=11,2=21");
    assert_eq!(audited(&center), "3,1,2,2,1,3");
}

/// Rows that find what they expect were applied before those that do not.
// S5
#[test]
fn a_row_that_changed_nothing_is_found_and_decided_by_the_rule_in_its_turn() {
    for (rule, found) in [("remote_wins", "1=11,2=21,3=31"), ("consolidated_wins", "1=11,2=7,3=31")]
    {
        let tables = format!("[table.t]\nconflict = \"{rule}\"\n");
        let (mut center, mut remote) = center(SCHEMA, &tables, &[PUT, SET, CUT]);
        center.synchronize(&mut remote, &[insert(1, 10), insert(2, 20), insert(3, 30)]);
        center.foreign("UPDATE t SET n = 7 WHERE id = 2; DELETE FROM audit");
        let changes = [update(2, 20, 21), update(3, 30, 31), update(1, 10, 11)];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(outcome(&applied), ([0, 3, 0], [1, 0, 0]), "{rule}");
        assert_eq!(rows(&center), found, "{rule}");
        let turns = if rule == "remote_wins" { "2,3,1" } else { "3,1" };
        assert_eq!(audited(&center), turns, "{rule}");
        assert!(download.rejects.is_empty(), "{rule}");
        let told = usize::from(rule != "remote_wins");
        assert_eq!(download.upserts.len(), told, "{rule}: {:?}", download.upserts);
        let stored = center.value("SELECT count(*) FROM syncline.syncline_conflict");
        assert_eq!(stored, int(1), "{rule}");
    }
}

// S1, S5
#[test]
fn a_row_at_fault_is_rejected_alone_and_the_others_keep_their_order() {
    let (mut center, mut remote) = center(
        &format!("{SCHEMA} INSERT INTO t VALUES (4, 40); DELETE FROM audit"),
        "[table.t]\nconflict = \"remote_wins\"\n",
        &[PUT],
    );
    // A value that the table refuses, and a key that is there.
    let inserts = [insert(5, 1), insert(2, 13), insert(4, 2), insert(1, 3), insert(3, 4)];
    let (applied, download) = center.synchronize(&mut remote, &inserts);
    assert_eq!(outcome(&applied), ([5, 0, 0], [0, 2, 0]));
    assert_eq!(rejects(&download), ["2 E7002", "4 E7001"]);
    assert_eq!(rows(&center), "1=3,3=4,4=40,5=1");
    assert_eq!(audited(&center), "5,1,3");
}

/// Such a row waited until all others were applied.
// S5
#[test]
fn a_row_of_a_users_script_is_not_tried_again_later() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer REFERENCES t)";
    let (mut center, mut remote) = center(schema, "[table.t]\n", &[PUT]);
    let (applied, download) = center.synchronize(&mut remote, &[insert(1, 2), insert(2, 2)]);
    assert_eq!(outcome(&applied), ([2, 0, 0], [0, 1, 0]));
    assert_eq!(rejects(&download), ["1 E7003"]);
    assert_eq!(rows(&center), "2=2");
}

// S5
#[test]
fn a_call_says_nothing_of_what_it_did() {
    let schema = format!(
        "{SCHEMA} CREATE TABLE seen (id integer, n integer);
         CREATE PROCEDURE put(id integer, n integer) LANGUAGE sql AS $$
             INSERT INTO seen VALUES (id, n) $$;"
    );
    let call = ("t", INSERT, "{call put({r.id}, {r.n})}");
    let (mut center, mut remote) = center(&schema, "[table.t]\n", &[call]);
    let (applied, download) = center.synchronize(&mut remote, &[insert(2, 20), insert(1, 10)]);
    assert_eq!(outcome(&applied), ([2, 0, 0], [0, 0, 0]));
    assert!(download.rejects.is_empty() && download.deletes.is_empty(), "{download:?}");
    assert_eq!(center.list("SELECT id || '=' || n FROM seen"), "2=20,1=10");
}

// S1
#[test]
fn a_row_runs_all_statements_of_a_script_before_the_next() {
    let script = "INSERT INTO t (id, n) VALUES ({r.id}, {r.n}); -- and then
        INSERT INTO audit (id) VALUES (-{r.n}::integer);
        UPDATE t SET n = n WHERE false";
    let (mut center, mut remote) = center(SCHEMA, "[table.t]\n", &[("t", INSERT, script)]);
    let trips = center.writer.round_trips();
    let (applied, _) = center.synchronize(&mut remote, &[insert(2, 20), insert(1, 10)]);
    assert_eq!(outcome(&applied), ([2, 0, 0], [0, 0, 0]));
    assert_eq!(audited(&center), "2,-20,1,-10");
    assert!(center.writer.round_trips() - trips <= 8);
    // A row at fault takes back all that its statements did.
    let (applied, download) =
        center.synchronize(&mut remote, &[insert(3, 30), insert(4, 13), insert(5, 50)]);
    assert_eq!(
        (outcome(&applied), rejects(&download)),
        (([3, 0, 0], [0, 1, 0]), vec!["4 E7002".into()])
    );
    assert_eq!(audited(&center), "2,-20,1,-10,3,-30,5,-50");
}

const PUT_ALL: Own<'_> = (
    "t",
    INSERT,
    "INSERT INTO t (id, n) SELECT id, n FROM {inserts} AS i WHERE n <> 5 RETURNING id",
);
const SET_ALL: Own<'_> = (
    "t",
    UPDATE,
    "UPDATE t SET n = u.n FROM {updates} AS u WHERE t.id = u.old_id AND t.n = u.old_n",
);
const CUT_ALL: Own<'_> = ("t", DELETE, "DELETE FROM t USING {deletes} AS d WHERE t.id = d.old_id");

/// A row that no statement took was lost in silence.
// S1, S5
#[test]
fn a_row_that_a_set_leaves_out_is_told() {
    let (mut center, mut remote) = center(SCHEMA, "[table.t]\n", &[PUT_ALL, SET_ALL, CUT_ALL]);
    let inserts: Vec<Upload> = (1..=9).map(|id| insert(id, id)).collect();
    let (applied, download) = center.synchronize(&mut remote, &inserts);
    assert_eq!(outcome(&applied), ([9, 0, 0], [0, 1, 0]));
    assert_eq!(rejects(&download), ["5 E7004"]);
    assert_eq!(audited(&center), "1,2,3,4,6,7,8,9");
    center.foreign("UPDATE t SET n = 70 WHERE id = 7; DELETE FROM audit");
    let changes =
        [update(6, 6, 60), update(7, 7, 71), update(8, 8, 80), delete(9, 9), delete(1, 1)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!(outcome(&applied), ([0, 3, 2], [1, 0, 0]));
    assert_eq!(download.upserts, [("t".to_owned(), pair(7, 70))]);
    assert_eq!(rows(&center), "2=2,3=3,4=4,6=60,7=70,8=80");
}

/// Each row was a statement that the database understood anew.
#[test]
fn a_thousand_rows_one_by_one_take_few_exchanges() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer)";
    let (mut center, mut remote) = center(schema, "[table.t]\n", &[PUT]);
    for first in [1, 2001] {
        let inserts: Vec<Upload> = (first..first + 1000).map(|id| insert(id, id)).collect();
        let trips = center.writer.round_trips();
        let (applied, download) = center.synchronize(&mut remote, &inserts);
        let trips = center.writer.round_trips() - trips;
        assert_eq!(outcome(&applied), ([1000, 0, 0], [0, 0, 0]));
        assert_eq!(download.filtered, 1000);
        assert!(trips <= 8, "{trips}");
    }
    assert_eq!(center.value("SELECT count(*) FROM t"), int(2000));
}

/// What reads the row again names all its columns: the upload failed, again and again.
// S1, S11
#[test]
fn a_value_that_no_column_holds_is_refused_although_the_script_does_not_name_it() {
    let put = ("t", INSERT, "INSERT INTO t (id) SELECT {r.id}::integer WHERE {r.id} <> 2");
    for tables in ["[table.t]\n", "[table.t]\nconflict = \"remote_wins\"\n", &fence(false)] {
        let (mut center, mut remote) = center(SCHEMA, tables, &[put]);
        let odd = Upload::Insert("t", vec![int(2), text("odd")]);
        let applied = center.upload(&mut remote, &[odd]).unwrap();
        assert_eq!(outcome(&applied), ([1, 0, 0], [0, 1, 0]), "{tables}");
    }
}

/// A function that is said to be immutable runs whenever a plan is made.
#[test]
fn a_users_script_is_not_planned_for_each_row() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer);
        CREATE SEQUENCE plans;
        CREATE FUNCTION planned() RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
            RETURN nextval('plans'); END $$;";
    let script = "INSERT INTO t (id, n) SELECT {r.id}, {r.n} + 0 * planned()";
    let (mut center, mut remote) = center(schema, "[table.t]\n", &[("t", INSERT, script)]);
    let inserts: Vec<Upload> = (1..=100).map(|id| insert(id, id)).collect();
    let (applied, _) = center.synchronize(&mut remote, &inserts);
    assert_eq!(outcome(&applied), ([100, 0, 0], [0, 0, 0]));
    assert_eq!(center.value("SELECT last_value < 20 FROM plans"), text("t"));
}

/// The remote had a conflict with itself: it does not know yet what became of its row.
// S5
#[test]
fn a_change_of_a_row_that_a_script_stored_otherwise_is_no_conflict() {
    let put = ("t", INSERT, "INSERT INTO t (id, n) VALUES ({r.id}, 2 * {r.n})");
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer)";
    let (mut center, mut remote) = center(schema, "[table.t]\n", &[put, SET]);
    center.upload(&mut remote, &[insert(1, 10)]).unwrap();
    let applied = center.upload(&mut remote, &[update(1, 10, 11)]).unwrap();
    assert_eq!(outcome(&applied), ([0, 1, 0], [0, 0, 0]));
    assert_eq!(rows(&center), "1=11");
}

/// A row that the rule could not write waited for others.
// S5
#[test]
fn a_conflict_of_a_users_script_waits_for_nothing() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer UNIQUE);
        INSERT INTO t VALUES (1, 10), (2, 20)";
    let tables = "[table.t]\nconflict = \"remote_wins\"\n";
    let (mut center, mut remote) = center(schema, tables, &[SET]);
    center.foreign("UPDATE t SET n = 11 WHERE id = 1");
    let changes = [update(1, 10, 20), update(2, 20, 30)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!((applied.rejected, rejects(&download)), (1, vec!["1 E7001".to_owned()]));
    assert_eq!(rows(&center), "1=11,2=30");
}

/// The trigger that logs deletes took the script for one that logs them itself.
// S2
#[test]
fn a_delete_by_a_users_script_reaches_other_remotes_however_it_begins() {
    let gone = "WITH gone AS (DELETE FROM t WHERE id = {o.id} RETURNING id) SELECT id FROM gone";
    for script in [gone, CUT.2, "{call cut({o.id})}"] {
        let schema = format!(
            "{SCHEMA} INSERT INTO t VALUES (1, 10), (2, 20);
             CREATE PROCEDURE cut(key integer) LANGUAGE sql AS $$ DELETE FROM t WHERE id = key $$"
        );
        let (mut center, mut remote) = center(&schema, "[table.t]\n", &[("t", DELETE, script)]);
        let mut other = Remote::another();
        assert_eq!(center.synchronize(&mut other, &[]).1.upserts.len(), 2);
        let (applied, _) = center.synchronize(&mut remote, &[delete(1, 10)]);
        assert_eq!(outcome(&applied), ([0, 0, 1], [0, 0, 0]), "{script}");
        let (_, download) = center.synchronize(&mut other, &[]);
        assert_eq!(download.deletes, [("t".to_owned(), vec![int(1)])], "{script}");
    }
}

// S1, S2
#[test]
fn rows_that_a_script_ignores_are_neither_applied_nor_owed_nor_rejected() {
    let ignore = |event| ("t", event, "--{ignore}\n");
    let (mut center, mut remote) = center(
        &format!("{SCHEMA} INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)"),
        "[table.t]\n",
        &[ignore(UPDATE), ignore(DELETE)],
    );
    let changes = [insert(4, 40), update(1, 10, 11), update(2, 20, 21), delete(3, 30)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!(outcome(&applied), ([1, 0, 0], [0, 0, 3]));
    assert!(download.upserts.is_empty() && download.rejects.is_empty(), "{download:?}");
    assert!(download.deletes.is_empty(), "{download:?}");
    assert_eq!(rows(&center), "1=10,2=20,3=30,4=40");
    // What the center changes later arrives.
    center.foreign("UPDATE t SET n = 11 WHERE id = 1; UPDATE t SET n = 33 WHERE id = 3");
    let (_, download) = center.synchronize(&mut remote, &[]);
    let arrived = [("t".to_owned(), pair(1, 11)), ("t".to_owned(), pair(3, 33))];
    assert_eq!(download.upserts, arrived);
    let (applied, download) = center.synchronize(&mut remote, &[update(2, 21, 22)]);
    assert_eq!(outcome(&applied), ([0, 0, 0], [0, 0, 1]));
    assert!(download.upserts.is_empty() && download.rejects.is_empty(), "{download:?}");
}

const SHOP: &str = "CREATE TABLE t (id integer PRIMARY KEY, n integer);
    INSERT INTO t VALUES (1, 1), (2, 1), (3, 1), (7, 2), (8, 2);";

const ALL_SET: Own<'_> = ("t", UPDATE, "UPDATE t SET n = {r.n} WHERE id = {o.id}");
const ALL_CUT: Own<'_> = ("t", DELETE, "DELETE FROM t WHERE id = {o.id}");

fn fence(leaves: bool) -> String {
    let leaves = if leaves { "may_leave = true\n" } else { "" };
    format!("[table.t]\npartition = \"n = {{u.rep}}\"\n{leaves}")
}

const ALL: [&[Own<'_>]; 2] = [
    &[PUT, ALL_SET, ALL_CUT],
    &[
        ("t", INSERT, "INSERT INTO t (id, n) SELECT id, n FROM {inserts} AS i"),
        ("t", UPDATE, "UPDATE t SET n = u.n FROM {updates} AS u WHERE t.id = u.old_id"),
        ("t", DELETE, "DELETE FROM t USING {deletes} AS d WHERE t.id = d.old_id"),
    ],
];

/// A user's script did what no remote may do.
// S7
#[test]
fn a_users_script_neither_touches_a_row_outside_nor_leads_there() {
    for scripts in ALL {
        let (mut center, mut remote) = center(SHOP, &fence(false), scripts);
        let changes = [
            insert(4, 1),
            insert(5, 2),
            insert(6, 1),
            update(1, 1, 1),
            update(7, 1, 1),
            update(2, 1, 2),
            delete(8, 1),
            delete(3, 1),
        ];
        let (applied, download) = center.synchronize(&mut remote, &changes);
        assert_eq!(outcome(&applied), ([3, 3, 2], [0, 4, 0]));
        let code = Code::RowOutsideSubscription.number();
        let refused = [2, 5, 7, 8].map(|id| format!("{id} E{code}"));
        assert_eq!(rejects(&download), refused);
        assert_eq!(rows(&center), "1=1,2=1,4=1,6=1,7=2,8=2");
    }
}

/// Each of the four is alone in its upload, where nothing else would have noticed it.
// S7
#[test]
fn each_way_out_of_the_partition_is_watched() {
    for scripts in ALL {
        for change in [insert(5, 2), update(7, 1, 1), update(2, 1, 2), delete(8, 1)] {
            let (mut center, mut remote) = center(SHOP, &fence(false), scripts);
            let applied = center.upload(&mut remote, &[change]).unwrap();
            assert_eq!(applied.rejected, 1);
            assert_eq!(rows(&center), "1=1,2=1,3=1,7=2,8=2");
        }
    }
}

// S6, S7
#[test]
fn a_row_leaves_by_a_users_script_only_where_it_may() {
    let (mut center, mut remote) = center(SHOP, &fence(true), &[PUT, ALL_SET]);
    let trips = center.writer.round_trips();
    let changes = [insert(4, 1), update(1, 1, 2), update(2, 1, 1)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    let trips = center.writer.round_trips() - trips;
    assert_eq!(outcome(&applied), ([1, 2, 0], [0, 0, 0]));
    assert!(trips <= 8, "{trips}");
    assert_eq!(download.deletes, [("t".to_owned(), vec![int(1)])]);
    assert_eq!(rows(&center), "1=2,2=1,3=1,4=1,7=2,8=2");
    // It is outside now, and a new row was never inside.
    let changes = [update(1, 2, 1), insert(5, 2), update(3, 1, 2)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!(outcome(&applied), ([1, 2, 0], [0, 2, 0]));
    assert_eq!(rejects(&download).len(), 2);
    assert_eq!(rows(&center), "1=2,2=1,3=2,4=1,7=2,8=2");
}

/// An update may insert where a user says so; what leaves must have been inside.
// S7
#[test]
fn a_row_that_was_nowhere_does_not_leave() {
    let upsert = "INSERT INTO t (id, n) VALUES ({o.id}, {r.n})
        ON CONFLICT (id) DO UPDATE SET n = excluded.n";
    let (mut center, mut remote) = center(SHOP, &fence(true), &[("t", UPDATE, upsert)]);
    let changes = [update(1, 1, 2), update(9, 1, 2), update(6, 1, 1)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!(outcome(&applied), ([0, 3, 0], [0, 1, 0]));
    assert_eq!(rejects(&download), [format!("9 E{}", Code::RowOutsideSubscription.number())]);
    assert_eq!(rows(&center), "1=2,2=1,3=1,6=1,7=2,8=2");
}

/// Rows that left were kept until all others were applied.
// S6, S7
#[test]
fn a_row_that_leaves_by_a_users_script_keeps_its_turn() {
    let schema = format!("{SCHEMA} INSERT INTO t VALUES (1, 1), (2, 1), (3, 1); DELETE FROM audit");
    let (mut center, mut remote) = center(&schema, &fence(true), &[ALL_SET]);
    let changes = [update(2, 1, 2), update(1, 1, 13), update(3, 1, 1)];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!(
        (outcome(&applied), rejects(&download)),
        (([0, 3, 0], [0, 1, 0]), vec!["1 E7002".into()])
    );
    assert_eq!(audited(&center), "2,3");
}

/// The fence costs no exchange of its own.
// S7
#[test]
fn a_thousand_rows_inside_a_fence_take_few_exchanges() {
    let (mut center, mut remote) = center(SHOP, &fence(false), &[PUT]);
    let inserts: Vec<Upload> = (1001..=2000).map(|id| insert(id, 1)).collect();
    let trips = center.writer.round_trips();
    let applied = center.upload(&mut remote, &inserts).unwrap();
    let trips = center.writer.round_trips() - trips;
    assert_eq!(outcome(&applied), ([1000, 0, 0], [0, 0, 0]));
    assert!(trips <= 8, "{trips}");
    // A run of rows over several flights.
    let place = |id| if id == 7999 { 2 } else { 1 };
    let inserts: Vec<Upload> = (3001..=8000).map(|id| insert(id, place(id))).collect();
    let applied = center.upload(&mut remote, &inserts).unwrap();
    assert_eq!(outcome(&applied), ([5000, 0, 0], [0, 1, 0]));
    assert_eq!(center.value("SELECT count(*) FROM t WHERE id > 3000 AND n = 1"), int(4999));
}

/// A table with a script of a user sent the conflicts of all others into isolation.
// S5
#[test]
fn conflicts_of_generated_tables_are_sought_beside_a_users_script() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer);
        CREATE TABLE g (id integer PRIMARY KEY, n integer);
        INSERT INTO g SELECT n, 0 FROM generate_series(1, 300) AS n;";
    let run = |scripts: &[Own<'_>]| {
        let (mut center, mut remote) = center(schema, "[table.t]\n[table.g]\n", scripts);
        center.foreign("UPDATE g SET n = 7 WHERE id % 50 = 0");
        let change = |id| Upload::Update("g", pair(id, 0), pair(id, -id));
        let changes: Vec<Upload> = (1..=300).map(change).chain([insert(1, 1)]).collect();
        let trips = center.writer.round_trips();
        let applied = center.upload(&mut remote, &changes).unwrap();
        assert_eq!(outcome(&applied), ([1, 300, 0], [6, 0, 0]));
        assert_eq!(center.value("SELECT count(*) FROM g WHERE n = -id"), int(294));
        center.writer.round_trips() - trips
    };
    let (generated, own) = (run(&[]), run(&[PUT]));
    // What was made of the rows of the script is read and noted.
    assert!(own <= generated + 4, "{generated} {own}");
}

// S1
#[test]
fn the_shortcuts_of_generated_scripts_are_off() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer);
        CREATE TABLE g (id integer PRIMARY KEY, n integer)";
    let (center, _) = center(schema, "[table.t]\n[table.g]\n", &[PUT]);
    for key in ["verbatim", "stamping"] {
        let has = |table: &str| {
            center.value(&format!(
                "SELECT coalesce(details::jsonb ->> '{key}', '') <> '' FROM syncline.syncline_table
                 WHERE published::jsonb ->> 'name' = '{table}'"
            ))
        };
        assert_eq!((has("t"), has("g")), (text("f"), text("t")), "{key}");
    }
}

// S11
#[test]
fn what_the_database_does_not_understand_is_told_with_its_place_before_anything_is_done() {
    let (_database, url) = database(SCHEMA);
    let scripts = [
        ("t", INSERT, "INSERT INTO t (id, n)\nVALUES ({r.id}, {r.n}, nothing({r.n}))"),
        (
            "t",
            UPDATE,
            "UPDATE t SET n = 1;\n-- ä\nUPDATE t SET n = {r.n} WHERE /* ä */ ix = {o.id}",
        ),
        ("t", DELETE, "{call nowhere({o.id})}"),
    ];
    for dry_run in [true, false] {
        let failure = deploy(&url, "[table.t]\n", &scripts, dry_run).unwrap_err();
        assert_eq!(failure.code(), Code::ScriptInvalid);
        let told: Vec<&str> = failure.message().lines().collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].starts_with("t.upload_insert.sql:2:24: function nothing(integer)"),
            "{told:?}"
        );
        let column = r#"t.upload_update.sql:3:38: column "ix" does not exist"#;
        assert_eq!(told[1], column);
        assert!(
            told[2].starts_with("t.upload_delete.sql:1:7: procedure nowhere(integer)"),
            "{told:?}"
        );
        let deployed = "SELECT count(*) FROM pg_namespace WHERE nspname = 'syncline'";
        assert_eq!(psql(&url.to_string(), deployed).trim(), "0");
    }
    // The same where nothing else has to be done.
    deploy(&url, "[table.t]\n", &[PUT], false).unwrap();
    assert!(deploy(&url, "[table.t]\n", &[PUT], false).unwrap().statements.is_empty());
    let batch = ("t", INSERT, "INSERT INTO t SELECT {r.id}, n FROM {inserts} AS i");
    let failure = deploy(&url, "[table.t]\n", &[batch], false).unwrap_err();
    assert_eq!(
        failure.message(),
        "t.upload_insert.sql:1:23: a script that names a batch cannot name the values of one row"
    );
}

/// A script that names what the deployment is about to make was refused.
#[test]
fn a_script_may_name_what_tracks_its_table() {
    let script =
        "UPDATE t SET n = {r.n}, syncline_version = pg_current_xact_id() WHERE id = {o.id}";
    let (mut center, mut remote) = center(SCHEMA, "[table.t]\n", &[("t", UPDATE, script)]);
    center.synchronize(&mut remote, &[insert(1, 1)]);
    let (applied, _) = center.synchronize(&mut remote, &[update(1, 1, 2)]);
    assert_eq!(outcome(&applied), ([0, 1, 0], [0, 0, 0]));
    let wrong = script.replace("_version", "_versiom");
    let failure = deploy(&center.url, "[table.t]\n", &[("t", UPDATE, &wrong)], false).unwrap_err();
    assert!(failure.message().starts_with("t.upload_update.sql:1:25: column"), "{failure:?}");
}

/// A center whose remote holds `t` without `added`, and with `n` as `m`.
fn with_an_older_remote(schema: &str, scripts: &[Own<'_>]) -> (Center, Remote) {
    let (database, url) = database(schema);
    deploy(&url, "[table.t]\ncolumns = [\"id\", \"m\"]\n", &[], false).unwrap();
    let (mut before, mut remote) = (connected(&database), Remote::another());
    before.synchronize(&mut remote, &[]);
    database.sql("ALTER TABLE t RENAME COLUMN m TO n");
    deploy(&url, "[table.t]\nrenamed = { n = \"m\" }\n", scripts, false).unwrap();
    (connected(&database), remote)
}

const WIDE: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, added numeric(9, 2) DEFAULT 5, m integer);
    INSERT INTO t SELECT id, nullif(id, 3) * 1.5, 10 * id FROM generate_series(1, 2000) AS id;";

const WIDE_SETS: [Own<'_>; 3] = [
    ("t", INSERT, "INSERT INTO t SELECT * FROM {inserts} AS i"),
    (
        "t",
        UPDATE,
        "UPDATE t SET n = u.n, added = u.added FROM {updates} AS u WHERE t.id = u.old_id
             AND t.n = u.old_n AND t.added IS NOT DISTINCT FROM u.old_added",
    ),
    (
        "t",
        DELETE,
        "DELETE FROM t USING {deletes} AS d WHERE t.id = d.old_id
             AND t.added IS NOT DISTINCT FROM d.old_added AND t.n = d.old_n",
    ),
];

const WIDE_ROWS: [Own<'_>; 3] = [
    ("t", INSERT, "INSERT INTO t VALUES ({r.1, r.2, r.3})"),
    (
        "t",
        UPDATE,
        "UPDATE t SET n = {r.n}, added = {r.added} WHERE id = {o.id} AND n = {o.n}
             AND added IS NOT DISTINCT FROM {o.added}",
    ),
    (
        "t",
        DELETE,
        "DELETE FROM t WHERE id = {o.id} AND added IS NOT DISTINCT FROM {r.added} AND n = {o.n}",
    ),
];

/// All of it became rejects. What the remote lacks stays, and is looked up for many rows at once.
// S1, S5, Trap 24
#[test]
fn scripts_of_users_take_rows_of_an_older_definition() {
    for scripts in [&WIDE_SETS, &WIDE_ROWS] {
        let (mut center, mut remote) = with_an_older_remote(WIDE, scripts);
        let mut changes: Vec<Upload> =
            (1..=1500).map(|id| update(id, 10 * id, 10 * id + 1)).collect();
        changes.extend((1501..=1900).map(|id| delete(id, 10 * id)));
        changes.extend([insert(3000, 1), insert(3001, 2)]);
        let trips = center.writer.round_trips();
        let applied = center.upload(&mut remote, &changes).unwrap();
        let trips = center.writer.round_trips() - trips;
        assert_eq!(outcome(&applied), ([2, 1500, 400], [0, 0, 0]));
        assert!(trips <= 40, "{trips}");
        let strange = "SELECT count(*) FROM t WHERE id <= 2000
            AND (added IS DISTINCT FROM nullif(id, 3) * 1.5 OR n <> 10 * id + (id <= 1500)::int)";
        assert_eq!(center.value(strange), int(0));
        assert_eq!(center.value("SELECT count(*) FROM t WHERE id > 1500 AND id <= 1900"), int(0));
        let new = "SELECT id || '=' || n FROM t WHERE added IS NULL AND id > 3 ORDER BY id";
        assert_eq!(center.list(new), "3000=1,3001=2");
    }
}

// S5
#[test]
fn conflicts_of_an_older_definition_are_found_among_many_rows() {
    for scripts in [&WIDE_SETS, &WIDE_ROWS] {
        let (mut center, mut remote) = with_an_older_remote(WIDE, scripts);
        center.foreign(
            "UPDATE t SET n = 7 WHERE id IN (20, 120); DELETE FROM t WHERE id IN (30, 130);
             UPDATE t SET added = 77 WHERE id IN (40, 140)",
        );
        let mut changes: Vec<Upload> = (1..=99).map(|id| update(id, 10 * id, 1)).collect();
        changes.extend((101..=199).map(|id| delete(id, 10 * id)));
        let (applied, download) = center.synchronize(&mut remote, &changes);
        // What is gone on both sides is the same.
        assert_eq!(outcome(&applied), ([0, 99, 99], [3, 0, 0]));
        assert!(download.rejects.is_empty());
        let left = "SELECT id || '=' || n FROM t WHERE id <= 199 AND n <> 1 ORDER BY id";
        assert_eq!(center.list(left), "20=7,100=1000,120=7");
        assert_eq!(center.list("SELECT id || '=' || n FROM t WHERE added = 77"), "40=1");
    }
}

/// What was looked up for many rows is not what a row met that an earlier one had changed.
// S5
#[test]
fn what_the_remote_lacks_is_looked_up_again_where_an_earlier_row_has_changed_it() {
    let schema = format!(
        "{WIDE} CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             UPDATE t SET added = added + 1 WHERE id = NEW.id + 1;
             RETURN NULL;
         END $$;
         CREATE TRIGGER mark AFTER UPDATE OF m ON t FOR EACH ROW EXECUTE FUNCTION mark();"
    );
    let (mut center, mut remote) = with_an_older_remote(&schema, &WIDE_ROWS);
    let changes: Vec<Upload> = (10..=14).map(|id| update(id, 10 * id, id)).collect();
    let applied = center.upload(&mut remote, &changes).unwrap();
    assert_eq!(outcome(&applied), ([0, 5, 0], [0, 0, 0]));
    let now = "SELECT n || '=' || added FROM t WHERE id BETWEEN 10 AND 15 ORDER BY id";
    assert_eq!(center.list(now), "10=15.00,11=17.50,12=19.00,13=20.50,14=22.00,150=23.50");
}

/// The sequence stands for another session, which commits between the look and the script.
// S5
#[test]
fn a_row_runs_again_where_what_the_remote_lacks_may_have_changed_meanwhile() {
    let script = "UPDATE t SET n = {r.n}, added = {r.added} WHERE id = {o.id} AND n = {o.n}
        AND added = {o.added} AND nextval('looks') > 1";
    let schema = format!("{WIDE} CREATE SEQUENCE looks");
    let (mut center, mut remote) = with_an_older_remote(&schema, &[("t", UPDATE, script)]);
    let applied = center.upload(&mut remote, &[update(10, 100, 1)]).unwrap();
    assert_eq!(outcome(&applied), ([0, 1, 0], [0, 0, 0]));
    assert_eq!(center.list("SELECT n || '=' || added FROM t WHERE id = 10"), "1=15.00");
}
