//! Every type of PostgreSQL with its awkward values, to a remote and back.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::{Code, Value};

/// One column: its type, literals of the center, and what each is at a remote.
struct Case {
    kind: &'static str,
    literals: &'static [&'static str],
    remote: Vec<Value>,
}

fn case(kind: &'static str, literals: &'static [&'static str], remote: Vec<Value>) -> Case {
    Case { kind, literals, remote }
}

fn texts(values: &[&str]) -> Vec<Value> {
    values.iter().map(|value| text(value)).collect()
}

fn numbers() -> Vec<Case> {
    let real = Value::Real;
    vec![
        case("boolean", &["true", "false"], vec![int(1), int(0)]),
        case("smallint", &["-32768", "32767"], vec![int(-32768), int(32767)]),
        case("integer", &["-2147483648", "7"], vec![int(-2_147_483_648), int(7)]),
        case(
            "bigint",
            &["-9223372036854775808", "9223372036854775807"],
            vec![int(i64::MIN), int(i64::MAX)],
        ),
        case(
            "real",
            &["0.1", "'NaN'", "'-Infinity'"],
            vec![real(0.1), text("NaN"), real(f64::NEG_INFINITY)],
        ),
        case(
            "double precision",
            &["0.1", "5e-324", "'NaN'", "'Infinity'"],
            vec![real(0.1), real(5e-324), text("NaN"), real(f64::INFINITY)],
        ),
        case(
            "numeric",
            &["99", "100.50", "123456789012345678901234567890.123", "'NaN'", "'-Infinity'"],
            texts(&["99", "100.50", "123456789012345678901234567890.123", "NaN", "-Infinity"]),
        ),
        case("numeric(9, 2)", &["99", "-100.25", "0.1"], vec![int(99), real(-100.25), real(0.1)]),
    ]
}

fn letters() -> Vec<Case> {
    vec![
        case("text", &["''", "'naïve 東京 🚀'", "' x '"], texts(&["", "naïve 東京 🚀", " x "])),
        case("varchar(5)", &["'abcde'", "'a  '"], texts(&["abcde", "a  "])),
        case("char(5)", &["'ab'", "' x'"], texts(&["ab", " x"])),
        case("bytea", &["''", "'\\x00ff'"], vec![Value::Blob(vec![]), Value::Blob(vec![0, 255])]),
        case(
            "uuid",
            &["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
            texts(&["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ),
        case("json", &["'{\"b\":1,  \"a\":2}'"], texts(&["{\"b\":1,  \"a\":2}"])),
        case("jsonb", &["'{\"b\":1,  \"a\":2}'"], texts(&["{\"a\": 2, \"b\": 1}"])),
        case("mood", &["'so so'", "'fine'"], texts(&["so so", "fine"])),
        case("integer[]", &["'{1,NULL,3}'", "'{}'"], texts(&["{1,NULL,3}", "{}"])),
        case("text[]", &["'{\"a b\",\"c\\\"d\"}'"], texts(&["{\"a b\",\"c\\\"d\"}"])),
        case("code", &["'xyz'"], texts(&["xyz"])),
        case("positive", &["5"], texts(&["5"])),
        case("inet", &["'10.0.0.1/8'"], texts(&["10.0.0.1/8"])),
        case("bit varying", &["'1011'"], texts(&["1011"])),
        case("int4range", &["'[1,5)'"], texts(&["[1,5)"])),
        case("tsvector", &["'a:1 b:2'"], texts(&["'a':1 'b':2"])),
        case("xml", &["'<a/>'"], texts(&["<a/>"])),
    ]
}

fn times() -> Vec<Case> {
    vec![
        case(
            "date",
            &["'2024-02-29'", "'0044-03-15 BC'", "'infinity'", "'10000-01-01'"],
            texts(&["2024-02-29", "0044-03-15 BC", "infinity", "10000-01-01"]),
        ),
        case("time", &["'08:30'", "'23:59:59.999999'"], texts(&["08:30:00", "23:59:59.999999"])),
        case("time with time zone", &["'08:30+02'"], texts(&["08:30:00+02"])),
        case(
            "timestamp",
            &["'1969-12-31 23:59:59.5'", "'-infinity'", "'0044-03-15 12:00 BC'"],
            texts(&["1969-12-31 23:59:59.5", "-infinity", "0044-03-15 12:00:00 BC"]),
        ),
        case(
            "timestamptz",
            &["'2024-02-29 08:30:00.000001+02'", "'infinity'"],
            texts(&["2024-02-29 06:30:00.000001", "infinity"]),
        ),
        case("interval", &["'1 year 2 days 03:04:05.5'"], texts(&["P1Y2DT3H4M5.5S"])),
    ]
}

fn cases() -> Vec<Case> {
    numbers().into_iter().chain(letters()).chain(times()).collect()
}

const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'so so', 'fine');
    CREATE DOMAIN code AS varchar(3) CHECK (VALUE <> 'no');
    CREATE DOMAIN positive AS integer CHECK (VALUE > 0);";

/// One table with all of `cases`, and a row for each of their values and one of NULLs.
fn schema(cases: &[Case]) -> String {
    let columns: Vec<String> =
        cases.iter().enumerate().map(|(at, case)| format!("c{at} {}", case.kind)).collect();
    let rows = cases.iter().map(|case| case.literals.len()).max().unwrap() + 1;
    let row = |number: usize| {
        let values = cases.iter().map(|case| *case.literals.get(number).unwrap_or(&"NULL"));
        format!("({number}, {})", values.collect::<Vec<_>>().join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!(
        "{TYPES} CREATE TABLE t (id integer PRIMARY KEY, {}); INSERT INTO t VALUES {};",
        columns.join(", "),
        rows.join(", ")
    )
}

/// The row with this number as a remote has it.
fn expected(cases: &[Case], number: usize) -> Row {
    let values = cases.iter().map(|case| case.remote.get(number).cloned().unwrap_or(Value::Null));
    std::iter::once(int(number as i64)).chain(values).collect()
}

fn identical(one: &Row, other: &Row) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.as_ref().identical(b.as_ref()))
}

// Trap 15
#[test]
fn every_value_of_every_type_arrives_and_comes_back() {
    let cases = cases();
    let mut center = Center::on(Backend::Postgres, &schema(&cases), "[table.t]\n");
    let mut remote = Remote::new("r");
    let (_, download) = center.synchronize(&mut remote, &[]);
    let mut rows: Vec<Row> = download.upserts.into_iter().map(|(_, row)| row).collect();
    rows.sort_by_key(|row| row[0].as_ref().display().parse::<i64>().unwrap());
    for (number, row) in rows.iter().enumerate() {
        let expected = expected(&cases, number);
        for (at, (is, should)) in row.iter().zip(&expected).enumerate() {
            let kind = at.checked_sub(1).map_or("id", |at| cases[at].kind);
            assert!(is.as_ref().identical(should.as_ref()), "{kind}: {is:?}, not {should:?}");
        }
    }
    // The same rows, uploaded under other keys, are the same at the center and need not return.
    let copies: Vec<Upload> = rows
        .iter()
        .map(|row| {
            let mut copy = row.clone();
            copy[0] = int(1000 + row[0].as_ref().display().parse::<i64>().unwrap());
            Upload::Insert("t", copy)
        })
        .collect();
    let (applied, download) = center.synchronize(&mut remote, &copies);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0), "{:?}", download.rejects);
    assert_eq!((download.upserts.len(), download.filtered), (0, copies.len() as u64));
    for (at, case) in cases.iter().enumerate() {
        let different = format!(
            "SELECT count(*) FROM t AS a JOIN t AS b ON b.id = a.id + 1000
             WHERE a.c{at}::text IS DISTINCT FROM b.c{at}::text"
        );
        assert_eq!(center.value(&different), int(0), "{}", case.kind);
    }
    // Every old value is recognized, in updates and in deletes.
    let emptied = |row: &Row| -> Row {
        let nulls = std::iter::repeat_n(Value::Null, cases.len());
        std::iter::once(row[0].clone()).chain(nulls).collect()
    };
    let updates: Vec<Upload> =
        rows.iter().map(|row| Upload::Update("t", row.clone(), emptied(row))).collect();
    let (applied, _) = center.synchronize(&mut remote, &updates);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    let deletes: Vec<Upload> = copies
        .into_iter()
        .map(|copy| match copy {
            Upload::Insert(table, row) => Upload::Delete(table, row),
            other => other,
        })
        .collect();
    let (applied, _) = center.synchronize(&mut remote, &deletes);
    assert_eq!((applied.rejected, applied.conflicts), (0, 0));
    assert_eq!(center.value("SELECT count(*) FROM t"), int(rows.len() as i64));
    let mut other = Remote::new("other");
    let (_, download) = center.synchronize(&mut other, &[]);
    assert!(download.upserts.iter().all(|(_, row)| identical(row, &emptied(row))));
}

// Trap 15, S7
#[test]
fn a_value_that_the_center_cannot_hold_rejects_its_row_and_no_other() {
    let (blob, bytes) = (Value::Blob, |bytes: &[u8]| Value::Text(bytes.to_vec()));
    let cases: Vec<(&str, Value)> = vec![
        ("boolean", int(2)),
        ("smallint", int(32768)),
        ("integer", text("seven")),
        ("bigint", Value::Real(0.5)),
        ("real", Value::Real(1e300)),
        ("double precision", blob(vec![1])),
        ("numeric", text("1,5")),
        ("numeric(3, 1)", int(1000)),
        ("text", bytes(b"with\0NUL")),
        ("text", bytes(&[0xff, 0xfe])),
        ("text", blob(vec![65])),
        ("varchar(2)", text("abc")),
        ("char(2)", text("abc")),
        ("code", text("abcd")),
        ("code", text("no")),
        ("positive", text("0")),
        ("bytea", text("abc")),
        ("uuid", text("not a uuid")),
        ("json", text("{")),
        ("jsonb", text("{\"a\": \"\\u0000\"}")),
        ("mood", text("angry")),
        ("integer[]", text("{1,x}")),
        ("date", text("2023-02-29")),
        ("timestamp", text("2024-01-01T00:00+01")),
        ("timestamptz", int(1_700_000_000)),
        ("interval", text("a while")),
        ("inet", text("10.0.0.256")),
    ];
    let columns: Vec<String> =
        cases.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}")).collect();
    let schema = format!("{TYPES} CREATE TABLE t (id integer PRIMARY KEY, {})", columns.join(", "));
    let mut center = Center::on(Backend::Postgres, &schema, "[table.t]\n");
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let row = |id: usize| -> Row {
        let value = |at: usize| match at == id {
            true => cases[at].1.clone(),
            false => Value::Null,
        };
        std::iter::once(int(id as i64)).chain((0..cases.len()).map(value)).collect()
    };
    let uploads: Vec<Upload> = (0..=cases.len()).map(|id| Upload::Insert("t", row(id))).collect();
    let (applied, download) = center.synchronize(&mut remote, &uploads);
    let refused: Vec<i64> = download
        .rejects
        .iter()
        .inspect(|(_, _, code)| assert_eq!(*code, Code::RowRefused.number()))
        .map(|(_, key, _)| key[0].as_ref().display().parse().unwrap())
        .collect();
    for (at, (kind, value)) in cases.iter().enumerate() {
        assert!(refused.contains(&(at as i64)), "{value:?} fits into {kind}");
    }
    assert_eq!(applied.rejected, cases.len() as u64);
    assert_eq!(center.list("SELECT id FROM t"), cases.len().to_string(), "the last one fits");
    let named = center.value("SELECT message FROM syncline.syncline_owed ORDER BY row_key LIMIT 1");
    assert_eq!(named, text("column c0: 2 is neither 0 nor 1"));
}

// Trap 15
#[test]
fn a_key_that_the_center_spells_otherwise_is_rejected() {
    let mut center = Center::on(
        Backend::Postgres,
        "CREATE TABLE t (id uuid PRIMARY KEY, a text)",
        "[table.t]\n",
    );
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let shouted = text("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11");
    let insert = Upload::Insert("t", vec![shouted.clone(), text("a")]);
    let (applied, download) = center.synchronize(&mut remote, &[insert]);
    assert_eq!(applied.rejected, 1);
    assert_eq!(download.deletes, [("t".to_owned(), vec![shouted])]);
    assert_eq!(center.value("SELECT count(*) FROM t"), int(0));
}
