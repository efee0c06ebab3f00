//! Rows with a conflict, among many without.
//!
//! They are found and resolved as a set, with the same results as one by one.

use crate::support::center::{Backend, Center, Download, Remote, Row, Upload, int, text};
use model::Value;
use std::collections::{BTreeMap, BTreeSet};
use syncline_consolidated::Applied;

const SCHEMA: &str = "
    CREATE TABLE customer (id integer PRIMARY KEY, rep integer NOT NULL, name text, qty integer,
        code integer UNIQUE);
    CREATE TABLE line (id integer PRIMARY KEY, customer integer NOT NULL REFERENCES customer (id),
        note text, qty integer CHECK (qty <> 13));
    CREATE INDEX ON line (customer);";

/// A trigger of a user that does nothing: faults are isolated then.
const WATCHED: &str = "
    CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER nothing BEFORE INSERT OR UPDATE OR DELETE ON customer
        FOR EACH STATEMENT EXECUTE FUNCTION nothing();
    CREATE TRIGGER nothing BEFORE INSERT OR UPDATE OR DELETE ON line
        FOR EACH STATEMENT EXECUTE FUNCTION nothing();";

fn model(rule: &str) -> String {
    format!(
        "[table.customer]\npartition = \"rep = {{u.rep}}\"\nconflict = {rule}\n\
         [table.line]\nparent = \"customer\"\nconflict = {rule}\n"
    )
}

fn remote() -> Remote {
    let mut remote = Remote::another();
    remote.claims = BTreeMap::from([("rep".into(), "1".into())]);
    remote
}

fn customer(id: i64, qty: i64) -> Row {
    vec![int(id), int(1), text("n"), int(qty), int(id)]
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        _ => panic!("{value:?} is no number"),
    }
}

/// Customers from 1 to `count` as updates from one quantity to another.
fn updates(count: i64, from: i64, to: i64) -> Vec<Upload> {
    (1..=count).map(|id| Upload::Update("customer", customer(id, from), customer(id, to))).collect()
}

/// The same as deletes of rows with one quantity.
fn deletes(ids: std::ops::RangeInclusive<i64>, qty: i64) -> Vec<Upload> {
    ids.map(|id| Upload::Delete("customer", customer(id, qty))).collect()
}

fn with_customers(count: i64, rule: &str) -> (Center, Remote) {
    let rows = format!(
        "{SCHEMA}
         INSERT INTO customer SELECT n, 1, 'n', 0, n FROM generate_series(1, {count}) AS n;"
    );
    let mut center = Center::on(Backend::Postgres, &rows, &model(rule));
    let mut remote = remote();
    center.synchronize(&mut remote, &[]);
    (center, remote)
}

/// Customers that a subtransaction wrote: they were applied inside a savepoint, to isolate faults.
const ISOLATED: &str = "SELECT count(*) FROM customer \
     WHERE syncline_version::text <> xmin::text AND qty <> 99";

// S5, Trap 19: few conflicts do not make the upload be applied again.
#[test]
fn rows_beside_a_conflict_are_applied_once() {
    let (mut center, mut remote) = with_customers(300, "\"consolidated_wins\"");
    center.foreign(
        "UPDATE customer SET qty = 99 WHERE id IN (7, 150); DELETE FROM customer WHERE id = 9",
    );
    let (applied, download) = center.synchronize(&mut remote, &updates(300, 0, 5));
    assert_eq!((applied.updates, applied.conflicts, applied.rejected), (300, 3, 0));
    assert_eq!(center.list(ISOLATED), "0");
    assert_eq!(center.list("SELECT count(*) FROM customer WHERE qty = 5"), "297");
    let mut came = download.upserts;
    came.sort_by_key(|(_, row)| row[0].as_ref().display());
    assert_eq!(
        came,
        [("customer".into(), customer(150, 99)), ("customer".into(), customer(7, 99))]
    );
    assert_eq!(download.deletes, [("customer".into(), vec![int(9)])]);
    let noted = r#"SELECT operation || ' ' || coalesce(consolidated_row::json ->> 'qty', '-')
        || CASE result_row WHEN '"unchanged"' THEN '=' ELSE coalesce(result_row, '-') END
        FROM syncline.syncline_conflict ORDER BY 1"#;
    assert_eq!(center.list(noted), "update --,update 99=,update 99=");
    // What was resolved is known, so that nothing is in conflict with itself.
    let (applied, download) = center.synchronize(&mut remote, &updates(6, 5, 6));
    assert_eq!((applied.conflicts, applied.rejected), (0, 0));
    assert!(download.upserts.is_empty(), "{download:?}");
}

// S5: the same for deletes; what is gone already is no conflict.
#[test]
fn deletes_beside_a_conflict_are_applied_once() {
    let (mut center, mut remote) = with_customers(300, "\"consolidated_wins\"");
    center.foreign(
        "UPDATE customer SET qty = 99 WHERE id IN (7, 150); DELETE FROM customer WHERE id = 9",
    );
    let trips = center.writer.round_trips();
    let (applied, download) = center.synchronize(&mut remote, &deletes(1..=300, 0));
    assert_eq!((applied.deletes, applied.conflicts, applied.rejected), (300, 2, 0));
    let trips = center.writer.round_trips() - trips;
    // Two of them, once for each connection, ask whether policies may hide what is missing.
    assert!(trips <= 12, "{trips}: applied again");
    assert_eq!(center.list("SELECT id FROM customer ORDER BY id"), "7,150");
    assert_eq!(download.upserts.len(), 2, "{download:?}");
}

// S5, S7, Trap 19: rows whose key is there are set aside; one behind the fence stays as it is.
#[test]
fn new_rows_beside_a_duplicate_are_applied_once() {
    for (rule, qty, lost) in [("\"consolidated_wins\"", 99, 1), ("\"remote_wins\"", 3, 0)] {
        let mut center = Center::on(Backend::Postgres, SCHEMA, &model(rule));
        let mut remote = remote();
        center.synchronize(&mut remote, &[]);
        center.foreign("INSERT INTO customer VALUES (7, 1, 'n', 99, 7), (8, 2, 'theirs', 99, 8)");
        let inserts: Vec<Upload> =
            (1..=300).map(|id| Upload::Insert("customer", customer(id, 3))).collect();
        let (applied, download) = center.synchronize(&mut remote, &inserts);
        let counted = (applied.inserts, applied.conflicts, applied.rejected);
        assert_eq!(counted, (300, 1, 1 + lost), "{rule}");
        let once = "SELECT count(DISTINCT xmin::text) FROM customer WHERE id NOT IN (7, 8)";
        assert_eq!(center.list(once), "1");
        assert_eq!(center.list("SELECT name FROM customer WHERE id = 8"), "theirs");
        assert_eq!(center.list("SELECT qty FROM customer WHERE id = 7"), qty.to_string());
        let codes = [model::Code::RowKeyTaken, model::Code::RowOutsideSubscription];
        let [taken, outside] = codes.map(|code| code.number());
        let rejects =
            [("customer".into(), vec![int(7)], taken), ("customer".into(), vec![int(8)], outside)];
        assert_eq!(download.rejects, rejects[1 - lost as usize..]);
        assert_eq!(download.deletes, [("customer".into(), vec![int(8)])]);
        assert_eq!(download.upserts.len(), usize::from(qty == 99), "{download:?}");
    }
}

// S5, Trap 19: keys that exist are found between those of the new rows, or one by one where others
// are many between them.
#[test]
fn keys_that_exist_are_found_wherever_they_are() {
    let schema = "CREATE TABLE pair (a bigint, b smallint, note text, PRIMARY KEY (b, a))";
    let pair = |(a, b): (i64, i64), note: &str| vec![int(a), int(b), text(note)];
    let far = 1 << 40;
    for (there, sent, found) in [
        ("(5, 1), (6, 1)", vec![(4, 1), (5, 1), (7, 1)], 1),
        ("(-9, 2), (3, -2), (8, 9)", vec![(far, -2), (3, -2), (-9, 2), (-far, 3)], 2),
        ("(5, 5)", vec![(5, 5)], 1),
        ("(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)", vec![(0, 1), (2, 1), (9, 1)], 1),
    ] {
        let mut center = Center::on(Backend::Postgres, schema, "[table.pair]\n");
        let mut remote = remote();
        center.synchronize(&mut remote, &[]);
        center.foreign(&format!(
            "INSERT INTO pair SELECT *, 'theirs' FROM (VALUES {there}) AS t (a, b)"
        ));
        let count = sent.len() as u64;
        let inserts: Vec<Upload> =
            sent.into_iter().map(|key| Upload::Insert("pair", pair(key, "mine"))).collect();
        let (applied, _) = center.synchronize(&mut remote, &inserts);
        assert_eq!((applied.conflicts, applied.rejected), (found, found), "{there}");
        let mine = "SELECT count(*) FROM pair WHERE note = 'mine' AND syncline_version IS NOT NULL";
        assert_eq!(center.list(mine), (count - found).to_string(), "{there}");
        let carefully = "SELECT count(DISTINCT xmin::text) FROM pair WHERE note = 'mine'";
        assert!(center.list(carefully).parse::<u64>().unwrap() <= 1, "{there}: one by one");
    }
}

// S5, Trap 19: where no row was applied, all are resolved as one set.
#[test]
fn an_upload_of_nothing_but_conflicts_is_resolved_as_a_set() {
    for (rule, updated, left) in [
        ("\"consolidated_wins\"", "99", 300),
        // A delete that wins takes the rows.
        ("\"remote_wins\"", "5", 0),
    ] {
        let (mut center, mut remote) = with_customers(300, rule);
        center.foreign("UPDATE customer SET qty = 99");
        let (applied, _) = center.synchronize(&mut remote, &updates(300, 0, 5));
        assert_eq!((applied.conflicts, applied.rejected), (300, 0), "{rule}");
        assert_eq!(center.list("SELECT DISTINCT qty FROM customer"), updated, "{rule}");
        center.foreign("UPDATE customer SET qty = 98");
        let seen = updated.parse().unwrap();
        let (applied, _) = center.synchronize(&mut remote, &deletes(1..=300, seen));
        assert_eq!((applied.conflicts, applied.rejected), (300, 0), "{rule}");
        assert_eq!(center.list("SELECT count(*) FROM customer"), left.to_string(), "{rule}");
    }
}

// S5, Trap 19: it is known which rows a delete has left, and of an update that changed none too.
#[test]
fn what_a_statement_says_itself_is_not_looked_for() {
    let (mut center, mut remote) = with_customers(40, "\"consolidated_wins\"");
    // The third time all statements are prepared, also what settles that rows were owed.
    for qty in [0, 1, 2] {
        center.foreign(&format!("UPDATE customer SET qty = {}", qty + 1));
        let trips = center.writer.round_trips();
        let (applied, _) = center.synchronize(&mut remote, &updates(40, qty, 50));
        assert_eq!(applied.conflicts, 40);
        // The rows, what is there, whether that may stand, the commit.
        let trips = center.writer.round_trips() - trips;
        assert!(trips == 4 || qty < 2, "{trips} exchanges for updates");
    }
    for (first, last) in [(1, 20), (21, 40)] {
        center.foreign(&format!("UPDATE customer SET qty = 99 WHERE id = {}", first + 6));
        let trips = center.writer.round_trips();
        let (applied, _) = center.synchronize(&mut remote, &deletes(first..=last, 3));
        assert_eq!((applied.conflicts, applied.rejected), (1, 0));
        let trips = center.writer.round_trips() - trips;
        assert!(trips == 4 || first == 1, "{trips} exchanges for deletes");
    }
    assert_eq!(center.list("SELECT id FROM customer ORDER BY id"), "7,27");
}

// Trap 5: rows that are owed are owed once more, with those that came to them.
#[test]
fn what_is_owed_already_is_owed_once_more() {
    Backend::each(|backend| {
        let schema = SCHEMA.replace("customer (id integer", "customer (id INTEGER");
        let schema = match backend {
            Backend::Sqlite => schema.replace("    CREATE INDEX ON line", "CREATE INDEX l ON line"),
            Backend::Postgres => schema,
        };
        let rule = "\"consolidated_wins\"";
        let mut center = Center::on(backend, &schema, &model(rule));
        let mut remote = remote();
        let rows: Vec<_> = (1..=120).map(|id| format!("({id}, 1, 'n', 0, {id})")).collect();
        center.foreign(&format!("INSERT INTO customer VALUES {}", rows.join(", ")));
        center.synchronize(&mut remote, &[]);
        center.foreign("UPDATE customer SET qty = 99");
        // The first download is lost, and so is the second.
        let mut changes = updates(100, 0, 5);
        for count in [100, 120] {
            assert_eq!(center.upload(&mut remote, &changes).unwrap().conflicts, count);
            changes = updates(120, 5, 6);
        }
        let owed = backend.pick(
            "SELECT sum(coalesce(bundled, 1)) FROM syncline_owed",
            "SELECT sum(coalesce(bundled, 1))::int4 FROM syncline.syncline_owed",
        );
        // Keys that were owed together are not looked for.
        assert_eq!(center.value(owed), int(220));
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(download.upserts.len(), 120);
        // What was owed is settled where others are owed, many of them the same.
        center.foreign("UPDATE customer SET qty = 98");
        let (applied, download) = center.synchronize(&mut remote, &updates(80, 99, 7));
        assert_eq!((applied.conflicts, download.upserts.len()), (80, 120));
        assert_eq!(center.value(owed), int(80));
    });
}

// S3, Trap 5: of the rows that are owed, the cursor returns those that have changed, and the others
// are looked up. Each comes once, what is gone as a delete, until the remote has it.
#[test]
fn owed_rows_come_once_whether_they_have_changed_or_not() {
    Backend::each(|backend| {
        let schema = SCHEMA.replace("customer (id integer", "customer (id INTEGER");
        let schema = match backend {
            Backend::Sqlite => schema.replace("    CREATE INDEX ON line", "CREATE INDEX l ON line"),
            Backend::Postgres => schema,
        };
        let mut center = Center::on(backend, &schema, &model("\"consolidated_wins\""));
        let mut remote = remote();
        let rows: Vec<_> = (1..=150).map(|id| format!("({id}, 1, 'n', 0, {id})")).collect();
        center.foreign(&format!("INSERT INTO customer VALUES {}", rows.join(", ")));
        center.synchronize(&mut remote, &[]);
        center.foreign(
            "UPDATE customer SET qty = 9 WHERE id <= 100;
             DELETE FROM customer WHERE id BETWEEN 91 AND 95;
             DELETE FROM customer WHERE id BETWEEN 96 AND 98;
             INSERT INTO customer VALUES (96, 1, 'n', 9, 96), (97, 1, 'n', 9, 97);
             UPDATE customer SET rep = 2 WHERE id = 99",
        );
        // What the remote says that it knew of the last fifty was never there.
        let mut changes = updates(100, 0, 5);
        let stale = |id| Upload::Update("customer", customer(id, 7), customer(id, 5));
        changes.extend((101..=150).map(stale));
        let applied = center.upload(&mut remote, &changes).unwrap();
        assert_eq!(applied.conflicts + applied.rejected, 150, "{applied:?}");
        for lost in [true, false] {
            let held = remote.marks.clone();
            let (_, download) = center.synchronize(&mut remote, &[]);
            let mut came: Vec<Row> = download.upserts.into_iter().map(|(_, row)| row).collect();
            came.sort_by_key(|row| number(&row[0]));
            let ids = (1..=90).chain([96, 97, 100]).map(|id| customer(id, 9));
            let wanted: Vec<Row> = ids.chain((101..=150).map(|id| customer(id, 0))).collect();
            assert_eq!(came, wanted, "{backend:?}");
            let mut gone = download.deletes;
            gone.sort_by_key(|(_, key)| number(&key[0]));
            let ids = [91, 92, 93, 94, 95, 98, 99];
            assert_eq!(gone, ids.map(|id| ("customer".into(), vec![int(id)])), "{backend:?}");
            if lost {
                remote.marks = held;
            }
        }
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert!(download.upserts.is_empty() && download.deletes.is_empty(), "{download:?}");
    });
}

// S7: a line leaves with its purchase, and changes that depend on a row that lost are reported.
#[test]
fn children_of_rows_that_were_left_out_are_left_out_too() {
    let (mut center, mut remote) = with_customers(3, "\"remote_wins\"");
    center.foreign("UPDATE customer SET rep = 2 WHERE id = 2");
    let line = |id: i64, of: i64| Upload::Insert("line", vec![int(id), int(of), text("x"), int(1)]);
    let changes = [
        Upload::Update("customer", customer(1, 0), customer(1, 4)),
        Upload::Update("customer", customer(2, 0), customer(2, 4)),
        line(1, 1),
        line(2, 2),
        line(3, 3),
    ];
    let (applied, download) = center.synchronize(&mut remote, &changes);
    assert_eq!((applied.conflicts, applied.rejected), (0, 2), "{download:?}");
    assert_eq!(center.list("SELECT id FROM line ORDER BY id"), "1,3");
    assert_eq!(center.list("SELECT qty FROM customer ORDER BY id"), "4,0,0");
}

// E7004: a trigger that ignores rows, added after the deployment.
#[test]
fn a_row_that_a_trigger_ignores_is_still_told() {
    let (mut center, mut remote) = with_customers(300, "\"remote_wins\"");
    center.foreign(
        "CREATE FUNCTION ignoring() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.id = 5 THEN RETURN NULL; END IF; RETURN NEW; END $$;
         CREATE TRIGGER ignoring BEFORE UPDATE ON customer
             FOR EACH ROW EXECUTE FUNCTION ignoring();
         UPDATE customer SET qty = 99 WHERE id = 7",
    );
    let (applied, download) = center.synchronize(&mut remote, &updates(300, 0, 5));
    assert_eq!((applied.conflicts, applied.rejected), (1, 1));
    let code = model::Code::RowVetoed.number();
    assert_eq!(download.rejects, [("customer".into(), vec![int(5)], code)]);
    assert_eq!(center.list("SELECT qty FROM customer WHERE id IN (5, 7) ORDER BY id"), "0,5");
}

/// A small generator: the same seed makes the same story.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((self.0 >> 33) % end as u64) as i64
    }
}

/// Rows of one remote, by table and key.
type Held = BTreeMap<(&'static str, i64), Row>;

/// Most identifiers of customers and lines.
const IDS: i64 = 330;

fn some_row(chance: &mut Chance, table: &'static str, id: i64, of: i64) -> Row {
    // Now and then one that the database refuses.
    let qty = if chance.below(400) == 0 { 13 } else { 20 + chance.below(40) };
    let value = text(["a", "b", "c"][chance.below(3) as usize]);
    match table {
        "customer" => {
            let rep = if chance.below(25) == 0 { 2 } else { 1 };
            // Now and then a value that another row has.
            let code = if chance.below(400) == 0 { chance.below(IDS) } else { id };
            vec![int(id), int(rep), value, int(qty), int(code)]
        }
        _ => vec![int(id), int(of), value, int(qty)],
    }
}

/// The lines of a customer.
fn lines_of(held: &Held, customer: i64) -> Vec<((&'static str, i64), Row)> {
    let lines = held.iter().filter(|((table, _), row)| *table == "line" && row[1] == int(customer));
    lines.map(|(key, row)| (*key, row.clone())).collect()
}

/// Whether a row may be deleted: a customer with its lines, if its own foreign key does so and
/// these are as they were.
fn may_go(
    held: &Held,
    touched: &BTreeSet<(&'static str, i64)>,
    cascades: bool,
    table: &str,
    id: i64,
) -> bool {
    let lines = lines_of(held, id);
    table == "line"
        || lines.is_empty()
        || cascades && lines.iter().all(|(key, _)| !touched.contains(key))
}

/// What the remote changes; each row once.
fn some_changes(chance: &mut Chance, held: &mut Held, cascades: bool) -> Vec<Upload> {
    let (mut changes, mut deletes) = (Vec::new(), Vec::new());
    let mut touched = BTreeSet::new();
    let count = if chance.below(3) == 0 { 400 } else { 1 + chance.below(12) };
    let one_table = chance.below(3) == 0;
    for _ in 0..count {
        let table = ["customer", "line"][chance.below(if one_table { 1 } else { 2 }) as usize];
        let id = 1 + chance.below(IDS);
        // Lines are of customers that the remote has, as its own foreign key wants.
        let from = ("customer", 1 + chance.below(IDS));
        let of = held.range(from..=("customer", IDS)).next().map(|((_, id), _)| *id);
        let of = of.filter(|of| !touched.contains(&("gone", *of)));
        if table == "line" && of.is_none() || !touched.insert((table, id)) {
            continue;
        }
        let new = some_row(chance, table, id, of.unwrap_or(0));
        match held.remove(&(table, id)) {
            None => changes.push(Upload::Insert(table, new.clone())),
            Some(old) if chance.below(12) == 0 && may_go(held, &touched, cascades, table, id) => {
                touched.insert(("gone", id));
                for (key, line) in lines_of(held, if table == "customer" { id } else { 0 }) {
                    held.remove(&key);
                    touched.insert(key);
                    deletes.push(Upload::Delete("line", line));
                }
                deletes.push(Upload::Delete(table, old));
                continue;
            }
            Some(old) => {
                // One column changes, so that there is something to merge.
                let mut changed = old.clone();
                let at = 1 + chance.below(old.len() as i64 - 1) as usize;
                changed[at] = new[at].clone();
                held.insert((table, id), changed.clone());
                changes.push(Upload::Update(table, old, changed));
                continue;
            }
        }
        held.insert((table, id), new);
    }
    let place = |change: &Upload| match change {
        Upload::Insert(table, _) => (*table, 0),
        Upload::Update(table, ..) | Upload::Again(table, ..) => (*table, 1),
        Upload::Delete(table, _) => (*table, 2),
    };
    changes.sort_by_key(place);
    deletes.sort_by_key(place);
    deletes.reverse();
    changes.extend(deletes);
    changes
}

/// What others do at the center meanwhile.
fn others(chance: &mut Chance) -> String {
    let mut sql = String::new();
    for _ in 0..2 + chance.below(8) {
        let (from, qty) = (1 + chance.below(IDS), 20 + chance.below(40));
        let until = from + chance.below(12);
        let range = format!("WHERE id BETWEEN {from} AND {until}");
        sql.push_str(&match chance.below(6) {
            0 => format!("UPDATE customer SET qty = {qty} {range};"),
            1 => format!("UPDATE customer SET name = 'z', rep = 1 {range};"),
            2 => format!("UPDATE customer SET rep = 2 {range};"),
            3 => format!("UPDATE line SET note = 'z' {range};"),
            4 => format!("DELETE FROM line {range};"),
            _ => format!(
                "INSERT INTO customer
                 SELECT n, 1, 'y', {qty}, n FROM generate_series({from}, {until}) AS n
                     ON CONFLICT DO NOTHING;
                 INSERT INTO line SELECT id, id, 'y', 1 FROM customer {range}
                     ON CONFLICT DO NOTHING;"
            ),
        });
    }
    sql
}

/// Everything that an upload leaves behind.
fn left_behind(center: &Center) -> Vec<Vec<Row>> {
    let queries = [
        "SELECT id, rep, name, qty, code FROM customer ORDER BY id",
        "SELECT id, customer, note, qty FROM line ORDER BY id",
        "SELECT table_name, operation, conflict_rule, coalesce(old_row, '-'),
             coalesce(new_row, '-'), coalesce(consolidated_row, '-'), coalesce(result_row, '-')
         FROM syncline.syncline_conflict ORDER BY 1, 2, 4, 5, 6, 7",
        "SELECT table_name, encode(row_key, 'hex'), counter, coalesce(code, 0),
             coalesce(message, '-') FROM syncline.syncline_owed ORDER BY 1, 2",
        "SELECT counter, table_name, operation, row_key, coalesce(row_content, '-'), code, message
         FROM syncline.syncline_reject ORDER BY 1, 2, 3, 4",
    ];
    center.answers(&queries.map(str::to_owned))
}

/// Applies the download and returns its rows.
fn take(held: &mut Held, download: Download) -> Vec<String> {
    let table = |name: &str| if name == "line" { "line" } else { "customer" };
    let id = |row: &Row| match row[0] {
        Value::Integer(id) => id,
        _ => panic!("a key is no number"),
    };
    let mut told: Vec<String> = Vec::new();
    for (name, row) in download.upserts {
        told.push(format!("{name} {row:?}"));
        held.insert((table(&name), id(&row)), row);
    }
    for (name, key) in download.deletes {
        // A delete that both have made may be sent once more.
        if held.remove(&(table(&name), id(&key))).is_some() {
            told.push(format!("{name} without {key:?}"));
        }
        if name == "customer" {
            held.retain(|(of, _), row| *of == "customer" || row[1] != key[0]);
        }
    }
    told.extend(download.rejects.iter().map(|reject| format!("{reject:?}")));
    told.sort();
    told
}

fn shown(rows: &[Row]) -> String {
    let row = |row: &Row| row.iter().map(|value| value.as_ref().display()).collect::<Vec<_>>();
    rows.iter().map(|it| row(it).join("|")).collect::<Vec<_>>().join("; ")
}

/// What was left behind is the same; or else what is at one side alone is shown.
fn assert_same(left: &[Vec<Row>], its_left: &[Vec<Row>], when: &str) {
    for (left, its_left) in left.iter().zip(its_left) {
        let only = |these: &[Row], those: &[Row]| -> Vec<Row> {
            these.iter().filter(|row| !those.contains(row)).cloned().collect()
        };
        let (only, its_only) = (only(left, its_left), only(its_left, left));
        let (shown, its_shown) = (shown(&only), shown(&its_only));
        assert!(shown == its_shown, "{when}: fast path {shown}, isolating {its_shown}");
    }
}

fn counts(applied: &Applied) -> [u64; 5] {
    let Applied { inserts, updates, deletes, conflicts, rejected, .. } = applied;
    [*inserts, *updates, *deletes, *conflicts, *rejected]
}

// S3, S5, S7, Trap 5, Trap 8: the set and the single rows come to the same, whatever happens.
#[test]
fn what_is_resolved_as_a_set_is_what_would_be_resolved_one_by_one() {
    let rules = [
        "\"consolidated_wins\"",
        "\"remote_wins\"",
        "\"merge\"",
        "{ latest = \"qty\" }",
        "{ add = \"qty\" }",
    ];
    let mut exchanges = [0, 0];
    let cases = rules.into_iter().flat_map(|rule| [(rule, false), (rule, true)]);
    for (seed, (rule, cascades)) in cases.enumerate() {
        let mut chance = Chance(seed as u64 + 1);
        let referring = "REFERENCES customer (id)";
        let schema = match cascades {
            true => SCHEMA.replace(referring, &format!("{referring} ON DELETE CASCADE")),
            false => SCHEMA.to_owned(),
        };
        let isolating = format!("{schema}{WATCHED}");
        let mut sides = [&schema, &isolating].map(|schema| {
            let mut center = Center::on(Backend::Postgres, schema, &model(rule));
            let mut remote = remote();
            center.synchronize(&mut remote, &[]);
            (center, remote, 0)
        });
        let mut held = Held::new();
        let mut conflicts = 0;
        for round in 0..10 {
            let sql = others(&mut chance);
            let changes = some_changes(&mut chance, &mut held, cascades);
            let mut found = Vec::new();
            for (center, remote, trips) in &mut sides {
                if !sql.is_empty() {
                    center.foreign(&sql);
                }
                let before = center.writer.round_trips();
                let (applied, download) = center.synchronize(remote, &changes);
                *trips += center.writer.round_trips() - before;
                found.push((counts(&applied), download, left_behind(center)));
            }
            let [(one, download, left), (other, its_download, its_left)] =
                <[_; 2]>::try_from(found).unwrap();
            conflicts += one[3];
            assert_same(&left, &its_left, &format!("{rule}, round {round}"));
            assert_eq!(one, other, "{rule}, round {round}");
            let its_download = take(&mut held.clone(), its_download);
            assert_eq!(take(&mut held, download), its_download, "{rule}, round {round}");
        }
        assert!(conflicts > 2, "{rule}: {conflicts} conflicts are few");
        exchanges[0] += sides[0].2;
        exchanges[1] += sides[1].2;
    }
    assert!(exchanges[0] < exchanges[1], "exchanges on the fast path, isolating: {exchanges:?}");
}
