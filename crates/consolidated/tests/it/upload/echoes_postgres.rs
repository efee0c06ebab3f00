//! A large upload to PostgreSQL is not read again, unless a row may have been stored differently.

use crate::support::center::{Center, Download, Remote, Row, Upload, int, text};
use crate::support::on_postgres;
use harness::postgres::TestDatabase;
use model::Value;
use syncline_consolidated::Applied;

/// More than are compared by digests.
const ROWS: i64 = 250;

fn synchronized(schema: &str, tables: &str) -> (Center, TestDatabase, Remote) {
    let (mut center, database) = on_postgres::center(schema, tables);
    let mut remote = Remote::new("r");
    remote.claims.insert("region".into(), "1, 2".into());
    center.synchronize(&mut remote, &[]);
    (center, database, remote)
}

fn row(id: i64, value: i64) -> Row {
    vec![int(id), int(value)]
}

fn inserts(table: &'static str) -> Vec<Upload> {
    many(|id| Upload::Insert(table, row(id, id)))
}

fn many(change: impl Fn(i64) -> Upload) -> Vec<Upload> {
    (1..=ROWS).map(change).collect()
}

/// What a download brought, except for its numbers.
fn came(download: &Download) -> Vec<String> {
    let line = |sign: &str, table: &str, row: &Row| {
        let values: Vec<String> = row.iter().map(|value| value.as_ref().display()).collect();
        format!("{sign}{table} {}", values.join(" "))
    };
    let upserts = download.upserts.iter().map(|(table, row)| line("", table, row));
    let deletes = download.deletes.iter().map(|(table, row)| line("-", table, row));
    let mut all: Vec<String> = upserts.chain(deletes).collect();
    all.sort();
    all
}

/// An upload of which no row was read.
fn unread((applied, download): (Applied, Download)) {
    assert_eq!((applied.conflicts, applied.rejected), (0, 0));
    assert_eq!((came(&download), download.filtered), (vec![], 0));
}

const EXACT: &str = "id integer PRIMARY KEY, flag boolean, small smallint, big bigint,
    single real, double double precision, amount numeric(9, 2), long numeric(30, 6),
    free numeric, words text, code varchar(4), fixed char(4), bytes bytea, mark uuid, day date,
    clock time, moment timestamp, instant timestamptz(3), nothing jsonb";

fn exact(id: i64, amount: f64) -> Row {
    let texts = ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "2024-02-29", "08:30:00.5"];
    let mut row = vec![int(id), int(1), int(-7), int(1 << 40), Value::Real(0.1), Value::Real(0.1)];
    row.extend([
        Value::Real(amount),
        text("-12.340000"),
        text("1234567.50"),
        text(" ü "),
        text("ü €"),
    ]);
    row.extend([text(" x"), Value::Blob(vec![0, 255])]);
    row.extend(texts.map(text));
    row.extend([text("1969-12-31 23:59:59.999999"), text("2024-02-29 08:30:00.123"), Value::Null]);
    row
}

// S3, Trap 8
#[test]
fn what_is_stored_as_it_was_sent_is_not_read_again() {
    let (mut center, database, mut remote) = synchronized(
        &format!(
            "CREATE TABLE t ({EXACT}); CREATE TABLE parent (id integer PRIMARY KEY, n integer);
            CREATE TABLE child (id integer PRIMARY KEY, n integer REFERENCES parent)"
        ),
        "[table.t]\n[table.parent]\n[table.child]\n",
    );
    let mut other = Remote::new("other");
    center.synchronize(&mut other, &[]);
    let mut rows = many(|id| Upload::Insert("t", exact(id, 0.25)));
    rows.extend(inserts("parent").into_iter().chain(inserts("child")));
    unread(center.synchronize(&mut remote, &rows));
    let update = |id| {
        let mut new = exact(id, 0.5);
        // Where it is not assigned, the center may have the same number with other decimals.
        new[8] = text("1234567.25");
        Upload::Update("t", exact(id, 0.25), new)
    };
    unread(center.synchronize(&mut remote, &many(update)));
    // Changes of others between upload and download are sent.
    let gone = |id| {
        let mut old = exact(id, 0.5);
        old[8] = text("1234567.25");
        Upload::Delete("t", old)
    };
    let applied = center.upload(&mut remote, &many(gone)).unwrap();
    database.sql("INSERT INTO parent VALUES (0, 0); UPDATE child SET n = 1 WHERE id = 9");
    let download = center.download(&mut remote, &applied);
    assert_eq!(
        (came(&download), download.filtered),
        (vec!["child 9 1".into(), "parent 0 0".into()], 0)
    );
    let (_, download) = center.synchronize(&mut other, &[]);
    assert_eq!(
        (download.upserts.len(), download.deletes.len()),
        (2 * ROWS as usize + 1, ROWS as usize)
    );
}

// S3, Trap 8: the server has been connected for a long time when a trigger that writes is added.
#[test]
fn whatever_else_writes_in_the_same_transaction_is_noticed() {
    let (mut center, database, mut remote) = synchronized(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer);
         CREATE TABLE total (id integer PRIMARY KEY, n integer); INSERT INTO total VALUES (0, 0);
         CREATE FUNCTION negates() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             NEW.n := -NEW.n; RETURN NEW; END $$;
         CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             UPDATE total SET n = n + 1; RETURN NULL; END $$;
         CREATE FUNCTION next_number() RETURNS integer LANGUAGE sql AS
             'UPDATE total SET n = n + 1 RETURNING n';
         CREATE FUNCTION fine(integer) RETURNS boolean LANGUAGE sql AS
             'UPDATE total SET n = $1 RETURNING true';",
        "[table.t]\n[table.total]\n",
    );
    let counts = "FOR EACH ROW WHEN (NEW.n = 7) EXECUTE FUNCTION counts()";
    for (foreign, undo, expected) in [
        (
            "CREATE TRIGGER other BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.n = 7)
             EXECUTE FUNCTION negates()",
            "DROP TRIGGER other ON t",
            "t 7 -7",
        ),
        (
            &format!("CREATE TRIGGER other AFTER INSERT ON t {counts}"),
            "DROP TRIGGER other ON t",
            "total 0 1",
        ),
        (
            &format!(
                "CREATE CONSTRAINT TRIGGER other AFTER INSERT ON t
                 DEFERRABLE INITIALLY DEFERRED {counts}"
            ),
            "DROP TRIGGER other ON t",
            "total 0 1",
        ),
        (
            "CREATE TRIGGER other AFTER UPDATE ON syncline.syncline_remote
             FOR EACH ROW WHEN (NEW.progress > OLD.progress) EXECUTE FUNCTION counts()",
            "DROP TRIGGER other ON syncline.syncline_remote",
            "total 0 1",
        ),
        (
            "CREATE RULE other AS ON INSERT TO t DO ALSO UPDATE total SET n = 1",
            "DROP RULE other ON t",
            "total 0 1",
        ),
        (
            "ALTER TABLE t ADD COLUMN number integer DEFAULT next_number();
             UPDATE total SET n = 0",
            "ALTER TABLE t DROP COLUMN number",
            "total 0 250",
        ),
        (
            "ALTER TABLE t ADD CHECK (fine(n))",
            "ALTER TABLE t DROP CONSTRAINT t_n_check",
            "total 0 250",
        ),
    ] {
        unread(center.synchronize(&mut remote, &inserts("t")));
        database.sql(&format!("DELETE FROM t; UPDATE total SET n = 0; {foreign}"));
        center.synchronize(&mut remote, &[]);
        let (_, download) = center.synchronize(&mut remote, &inserts("t"));
        assert_eq!(came(&download), [expected], "{foreign}");
        database.sql(&format!("{undo}; DELETE FROM t"));
        // Until then PostgreSQL itself only knows that there may be triggers and rules.
        database.sql("VACUUM t");
        database.sql("VACUUM syncline.syncline_remote");
        center.synchronize(&mut remote, &[]);
    }
}

// S3, Trap 8
#[test]
fn a_column_that_became_another_one_is_noticed() {
    let (mut center, database, mut remote) =
        synchronized("CREATE TABLE t (id integer PRIMARY KEY, n numeric(9, 2))", "[table.t]\n");
    database.sql("ALTER TABLE t ALTER COLUMN n TYPE numeric(9, 1)");
    center.reconnect();
    let value = |id: i64| Value::Real(if id == 7 { 0.26 } else { 0.5 });
    let rows = many(|id| Upload::Insert("t", vec![int(id), value(id)]));
    let (_, download) = center.synchronize(&mut remote, &rows);
    assert_eq!(download.upserts, [("t".into(), vec![int(7), Value::Real(0.3)])]);
}

// S3, Trap 8, Trap 11
#[test]
fn rows_that_a_foreign_key_changes_come_back() {
    for (action, expected) in [("SET NULL", "child 1000 NULL"), ("CASCADE", "-child 1000")] {
        let (mut center, database, mut remote) = synchronized(
            "CREATE TABLE parent (id integer PRIMARY KEY, n integer);
             CREATE TABLE child (id integer PRIMARY KEY, n integer)",
            "[table.parent]\n[table.child]\n",
        );
        unread(center.synchronize(&mut remote, &inserts("parent")));
        database.sql("INSERT INTO child VALUES (1000, 17)");
        assert_eq!(came(&center.synchronize(&mut remote, &[]).1), ["child 1000 17"]);
        database.sql(&format!(
            "ALTER TABLE child ADD FOREIGN KEY (n) REFERENCES parent ON DELETE {action}"
        ));
        let deletes: Vec<Upload> =
            (1..=ROWS).map(|id| Upload::Delete("parent", row(id, id))).collect();
        let (applied, download) = center.synchronize(&mut remote, &deletes);
        assert_eq!((applied.conflicts, applied.rejected), (0, 0), "{action}");
        assert_eq!(came(&download), [expected], "{action}");
    }
}

// S3, Trap 8, Trap 15
#[test]
fn a_value_that_the_database_changes_comes_back() {
    let real = Value::Real;
    each_alone(&[
        ("real", real(0.123456789), Some(real(0.12345679))),
        ("real", int(16_777_217), Some(real(16_777_216.0))),
        ("numeric(9, 2)", real(0.126), Some(real(0.13))),
        ("numeric(9, -1)", int(14), Some(int(10))),
        ("numeric(30, 2)", text("1.505"), Some(text("1.51"))),
        ("varchar(3)", text("ab    "), Some(text("ab "))),
        ("time(1)", text("08:30:00.55"), Some(text("08:30:00.6"))),
        (
            "timestamp",
            text("2024-02-29 08:30:00.1234567"),
            Some(text("2024-02-29 08:30:00.123457")),
        ),
        ("timestamp(0)", text("2024-02-29 08:30:00.600000"), Some(text("2024-02-29 08:30:01"))),
        ("interval day", text("1 day 02:00:00"), Some(text("P1D"))),
        ("jsonb", text("{\"a\":1}"), Some(text("{\"a\": 1}"))),
        ("word", text("ab    "), Some(text("ab "))),
    ]);
}

// S3, Trap 8, Trap 15
#[test]
fn an_equal_value_keeps_the_notation_of_the_remote_that_wrote_it() {
    each_alone(&[
        ("double precision", int(1), None),
        ("integer", Value::Real(1.0), None),
        ("boolean", Value::Real(1.0), None),
        ("numeric(9, 2)", Value::Real(2.0), None),
        ("numeric(9, 2)", text("1.50"), None),
        ("numeric(30, 2)", text("1.5"), None),
        ("numeric(30, 2)", Value::Real(1.5), None),
        ("numeric", text("1e3"), None),
        ("numeric", text("-0.0"), None),
        ("numeric", text("01.5"), None),
        ("char(3)", text("ab "), None),
        ("uuid", text("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), None),
        ("uuid", text("a0eebc999c0b4ef8bb6d6bb9bd380a11"), None),
        ("time", text("08:30"), None),
        ("time", text("08:30:00.550000"), None),
        ("timestamp", text("2024-02-29 08:30:00.500"), None),
        ("timestamp", text("2024-02-29T08:30:00.000000"), None),
        ("timestamp", text("2024-02-29 24:00:00.000000"), None),
        ("timestamp", text("2024-02-29 08:30:00.12345Z"), None),
        ("timestamptz", text("2024-02-29 08:30:00.000000Z"), None),
        ("timestamptz", text("2024-02-29 08:30:00+01"), None),
        ("interval", text("90 minutes"), None),
        ("interval", text("1 day"), None),
        ("word", text("ab"), None),
    ]);
}

/// Uploads many rows, one of them with a value: what comes back of the value, if anything does.
fn each_alone(cases: &[(&str, Value, Option<Value>)]) {
    let column =
        |(at, (kind, _, _)): (usize, &(&str, Value, Option<Value>))| format!("v{at} {kind}");
    let columns: Vec<String> = cases.iter().enumerate().map(column).collect();
    let (mut center, _, mut remote) = synchronized(
        &format!(
            "CREATE DOMAIN word AS varchar(3);
             CREATE TABLE t (id integer PRIMARY KEY, {}); CREATE TABLE plain (LIKE t INCLUDING ALL);
             ALTER TABLE plain DROP COLUMN v{}",
            columns.join(", "),
            cases.len() - 1,
        ),
        "[table.plain]\n[table.t]\n",
    );
    for (at, (kind, sent, stored)) in cases.iter().enumerate() {
        // A table with a domain is never trusted.
        let (table, width) = match *kind {
            "word" => ("t", cases.len() + 1),
            _ => ("plain", cases.len()),
        };
        let with = |id: i64, value: &Value| {
            let mut row = vec![Value::Null; width];
            row[0] = int(id + at as i64 * 1000);
            if id == 7 {
                row[at + 1] = value.clone();
            }
            row
        };
        let rows = many(|id| Upload::Insert(table, with(id, sent)));
        let (applied, download) = center.synchronize(&mut remote, &rows);
        assert_eq!(applied.rejected, 0, "{kind}: {:?}", download.rejects);
        let back: Vec<_> = stored.iter().map(|it| (table.into(), with(7, it))).collect();
        assert_eq!(download.upserts, back, "{kind}: {sent:?}");
    }
}

// S3, Trap 8
#[test]
fn a_script_of_ones_own_is_not_trusted() {
    for (change, came_back) in [
        ("'{s.last_upload}', '''0''' WHERE event LIKE 'download%'", 0),
        ("'r.\"n\"', '2 * r.\"n\"' WHERE event = 'upload_insert'", ROWS as usize),
    ] {
        let (mut center, database, mut remote) =
            synchronized("CREATE TABLE t (id integer PRIMARY KEY, n integer)", "[table.t]\n");
        let change = change.replacen(" WHERE", ") WHERE", 1);
        database
            .sql(&format!("UPDATE syncline.syncline_script SET script = replace(script, {change}"));
        center.reconnect();
        let (_, download) = center.synchronize(&mut remote, &inserts("t"));
        let filtered = ROWS as usize - came_back;
        assert_eq!((download.upserts.len(), download.filtered as usize), (came_back, filtered));
    }
}

// Trap 8
#[test]
fn check_names_what_writes_beside_an_upload() {
    let schema = "CREATE TABLE parent (id integer PRIMARY KEY, n integer);
        CREATE TABLE child (id integer PRIMARY KEY, n integer
            REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE);
        CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER ours AFTER INSERT ON child FOR EACH ROW EXECUTE FUNCTION nothing();";
    let tables = "[table.parent]\n[table.child]\n";
    let (center, _) = on_postgres::center(schema, tables);
    let model = format!("script_version = \"v1\"\n{tables}");
    let model = syncline_consolidated::SyncModel::parse(&model, "model.toml").unwrap();
    let findings = syncline_consolidated::administer(&center.url).unwrap().check(&[model]).unwrap();
    let mut said: Vec<(Option<String>, String)> =
        findings.into_iter().map(|finding| (finding.table, finding.message)).collect();
    said.sort();
    // Of no table: what the foreign key does at a delete, and at another key.
    let [(None, _), (None, _), child, parent] = said.as_slice() else { panic!("{said:?}") };
    assert!(child.0.as_deref() == Some("child") && child.1.contains("trigger ours"), "{child:?}");
    for action in ["ON DELETE SET NULL of child", "ON UPDATE CASCADE of child"] {
        assert!(parent.0.as_deref() == Some("parent") && parent.1.contains(action), "{parent:?}");
    }
}

// S6, Trap 8
#[test]
fn what_a_large_upload_moves_in_or_out_is_followed() {
    const SCHEMA: &str = "CREATE TABLE parent (id integer PRIMARY KEY, region integer);
        CREATE TABLE child (id integer PRIMARY KEY, parent integer);
        INSERT INTO child VALUES (1000, 17), (1001, 1017);";
    let tables = |leave: &str| {
        format!(
            "[table.parent]\npartition = \"region IN {{u.region}}\"\n{leave}\n\
             [table.child]\nparent = {{ table = \"parent\", columns = [\"parent\"] }}\n"
        )
    };
    let parents =
        |from: i64, to: i64| many(|id| Upload::Update("parent", row(id, from), row(id, to)));
    let new = || many(|id| Upload::Insert("parent", row(id, 1)));
    for leave in ["", "may_leave = true\n"] {
        let (mut center, _, mut remote) = synchronized(SCHEMA, &tables(leave));
        // A parent that the remote brings has a child already.
        let (_, download) = center.synchronize(&mut remote, &new());
        assert_eq!((came(&download), download.filtered), (vec!["child 1000 17".into()], 0));
        // Between two regions that are both its own; children may have entered with any.
        let (_, download) = center.synchronize(&mut remote, &parents(1, 2));
        assert_eq!(came(&download), ["child 1000 17"]);
        assert_eq!(download.filtered > 0, !leave.is_empty(), "{leave}");
    }
    let (mut center, _, mut remote) = synchronized(SCHEMA, &tables("may_leave = true\n"));
    let mut new = new();
    new.push(Upload::Insert("child", row(5, 17)));
    center.synchronize(&mut remote, &new);
    let (applied, download) = center.synchronize(&mut remote, &parents(1, 3));
    assert_eq!((applied.conflicts, applied.rejected), (0, 0));
    assert_eq!((download.upserts.len(), download.deletes.len()), (0, ROWS as usize + 2));
}
