//! What the rules `latest` and `earliest` take for the later value.

use crate::support::center::{self, Backend, Center, Remote, Row, Upload, int, text};
use model::Value;

/// Times in text, the earlier one first.
const TEXTS: [(&str, &str); 21] = [
    ("'2026-03-01T10:00:00Z'", "'2026-03-01 11:00:00'"),
    ("'2026-03-01 10:00:00'", "'2026-03-01T11:00:00Z'"),
    ("'2026-03-01 10:00'", "'2026-03-01T10:00:01'"),
    ("'2026-03-01T10:00'", "'2026-03-01 10:00:01Z'"),
    ("'2026-03-01'", "'2026-03-01 00:00:00.1'"),
    ("'2026-03-01T00:00:00'", "'2026-03-02'"),
    ("'2026-03-01T10:00:00.9Z'", "'2026-03-01 10:00:01'"),
    ("'2026-03-01 10:00:59.9999999'", "'2026-03-01T10:01Z'"),
    ("'2026-03-01T10:00:00.123456Z'", "'2026-03-01 10:00:00.1234561'"),
    ("'2026-03-01 10:00:00.45'", "'2026-03-01T10:00:00.5Z'"),
    ("'2026-03-01T12:00:00+02:00'", "'2026-03-01 10:00:01'"),
    ("'2026-03-01 09:59:59'", "'2026-03-01T12:00:00+02:00'"),
    ("'2026-03-01T23:00:00Z'", "'2026-03-01 22:00:00.5-05:30'"),
    ("'2026-03-01T08:00:00+14:00'", "'2026-02-28 18:00:01'"),
    ("'2026-03-01 12:00 +02:00'", "'2026-03-01T10:00:00.001'"),
    ("'2026-03-01T23:59:59Z'", "'2026-03-01 24:00:00'"),
    ("'1969-12-31T23:00:00Z'", "'1969-12-31 23:30:00'"),
    // A day that its month does not have counts on.
    ("'2026-02-30T10:00:00Z'", "'2026-03-02 11:00:00'"),
    ("'2026-02-28 10:00:00'", "'2026-02-29T09:00:00Z'"),
    // No times: letter by letter.
    ("'2026-13-01 10:00:00'", "'2026-13-01T09:00:00Z'"),
    ("'0000-01-01T10:00:00Z'", "'2026-00-01 09:00:00'"),
];

/// Times in text that are the same.
const SAME_TEXTS: [(&str, &str); 6] = [
    ("'2026-03-01 10:00:00'", "'2026-03-01T10:00Z'"),
    ("'2026-03-01'", "'2026-03-01T00:00:00.000Z'"),
    ("'2026-03-01T12:00:00.50+02:00'", "'2026-03-01 10:00:00.5'"),
    ("'2026-03-01T00:30:00+01:00'", "'2026-02-28 23:30:00'"),
    ("'2026-03-01 24:00'", "'2026-03-02'"),
    ("'v12'", "'v12'"),
];

/// Numbers, likewise: seconds, milliseconds, and what is none of these.
const NUMBERS: [(&str, &str); 6] = [
    ("1772359200", "1772359200001"),
    ("1772359200999", "1772359201"),
    ("1772359200000", "1772359200001"),
    ("1", "2"),
    ("-2", "-1"),
    ("-1", "1772359200000"),
];

const SAME_NUMBERS: [(&str, &str); 1] = [("1772359200", "1772359200000")];

/// On SQLite a column may hold both.
const MIXED: [(&str, &str); 7] = [
    ("'2026-03-01T10:00:00Z'", "1772359201"),
    ("1772359200", "'2026-03-01 10:00:01'"),
    ("1772359200001", "'2026-03-01 10:00:00.0011'"),
    ("'2026-03-01T12:00:00+02:00'", "1772359200001"),
    ("1772359200.5", "1772359201"),
    ("1772359200", "'v12'"),
    ("1772359200", "x'00'"),
];

const SAME_MIXED: [(&str, &str); 3] = [
    ("1772359200", "'2026-03-01 10:00'"),
    ("'2026-03-01T10:00:00.500Z'", "1772359200500"),
    ("1772359200.0", "1772359200000"),
];

// S5: the letters of two notations were compared, and an hour later was earlier.
#[test]
fn a_time_is_later_in_every_notation() {
    let decided = |backend, declared, pairs: &[_], same: &[_]| {
        decided(backend, declared, "{ latest = \"at\" }", pairs, same);
    };
    for declared in ["TEXT", "DATETIME", ""] {
        decided(Backend::Sqlite, declared, &TEXTS, &SAME_TEXTS);
    }
    for declared in ["", "DATETIME"] {
        decided(Backend::Sqlite, declared, &NUMBERS, &SAME_NUMBERS);
        decided(Backend::Sqlite, declared, &MIXED, &SAME_MIXED);
    }
    for declared in ["INTEGER", "REAL"] {
        decided(Backend::Sqlite, declared, &NUMBERS, &SAME_NUMBERS);
    }
    for declared in ["text", "varchar(40)", "text COLLATE \"und-x-icu\""] {
        decided(Backend::Postgres, declared, &TEXTS, &SAME_TEXTS);
    }
    for declared in ["bigint", "numeric(20, 4)", "double precision"] {
        decided(Backend::Postgres, declared, &NUMBERS, &SAME_NUMBERS);
    }
}

// S5
#[test]
fn a_time_is_earlier_in_every_notation() {
    let decided = |backend, declared, pairs: &[(&'static str, &'static str)], same: &[_]| {
        let pairs: Vec<_> = pairs.iter().map(|(earlier, later)| (*later, *earlier)).collect();
        decided(backend, declared, "{ earliest = \"at\" }", &pairs, same);
    };
    decided(Backend::Sqlite, "TEXT", &TEXTS, &SAME_TEXTS);
    decided(Backend::Sqlite, "DATETIME", &MIXED, &SAME_MIXED);
    decided(Backend::Sqlite, "INTEGER", &NUMBERS, &SAME_NUMBERS);
    decided(Backend::Postgres, "text", &TEXTS, &SAME_TEXTS);
    decided(Backend::Postgres, "bigint", &NUMBERS, &SAME_NUMBERS);
    // A time in the future is one like any other.
    let future = [("'2998-01-01'", "'2999-01-01'")];
    for backend in [Backend::Sqlite, Backend::Postgres] {
        decided(backend, "TEXT", &future, &[]);
        decided(backend, "TEXT", &[("'2026-03-01'", "NULL")], &[]);
    }
}

/// The second value of each pair wins by the rule for the column `at`, whoever has it; where both
/// are the same, the center's row stays. So do an update and an insert meet what the center has.
pub(super) fn decided(
    backend: Backend,
    declared: &str,
    rule: &str,
    pairs: &[(&str, &str)],
    same: &[(&str, &str)],
) {
    let mut center = Center::on(
        backend,
        &format!("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, at {declared})"),
        &format!("[table.t]\nconflict = {rule}\n"),
    );
    let won = pairs.iter().map(|(loses, wins)| (*loses, *wins, "mine"));
    let lost = pairs.iter().map(|(loses, wins)| (*wins, *loses, "theirs"));
    let same = same.iter().flat_map(|(a, b)| [(*a, *b, "theirs"), (*b, *a, "theirs")]);
    let cases: Vec<(&str, &str, &str)> = won.chain(lost).chain(same).collect();
    let ids = 1..=cases.len() as i64;
    let seen = |id: i64| vec![int(id), text("a"), Value::Null];
    for id in ids.clone() {
        center.foreign(&format!("INSERT INTO t VALUES ({id}, 'a', NULL)"));
    }
    let mut remote = Remote::new("r");
    center.synchronize(&mut remote, &[]);
    let mut uploads = Vec::new();
    for (id, (stored, uploaded, _)) in ids.clone().zip(&cases) {
        center.foreign(&format!(
            "UPDATE t SET a = 'theirs', at = {stored} WHERE id = {id};
             INSERT INTO t VALUES (-{id}, 'theirs', {stored})"
        ));
        let new = |id: i64| -> Row { vec![int(id), text("mine"), literal(uploaded)] };
        uploads.push(Upload::Update("t", seen(id), new(id)));
        uploads.push(Upload::Insert("t", new(-id)));
    }
    let (applied, _) = center.synchronize(&mut remote, &uploads);
    let lost = cases.iter().filter(|(.., winner)| *winner == "theirs").count() as u64;
    assert_eq!((applied.conflicts, applied.rejected), (2 * cases.len() as u64, lost));
    for (id, (stored, uploaded, winner)) in ids.zip(&cases) {
        let found = center.list(&format!("SELECT a AS v FROM t WHERE abs(id) = {id}"));
        let expected = format!("{winner},{winner}");
        assert_eq!(found, expected, "{backend:?}, {declared}, {rule}: {stored} meets {uploaded}");
    }
}

fn literal(sql: &str) -> Value {
    match sql.strip_prefix('\'') {
        Some(rest) => text(&rest.strip_suffix('\'').unwrap().replace("''", "'")),
        None if sql == "NULL" => Value::Null,
        None if sql.starts_with('x') => Value::Blob(vec![0]),
        None if sql.contains('.') => Value::Real(sql.parse().unwrap()),
        None => int(sql.parse().unwrap()),
    }
}

/// Times in the future, by their notation.
const FUTURE: [&str; 9] = [
    "2999-01-01",
    "2999-01-01 10:00",
    "2999-01-01T10:00:00",
    "2999-01-01T10:00:00Z",
    "2999-01-01 10:00:00.5",
    "2999-01-01T10:00:00.123Z",
    "2999-01-01T10:00:00.123+14:00",
    "2999-01-01 10:00:00 -05:30",
    "2999-01-01 10:00+02:00",
];

// S5: a time with an offset was taken for one in UTC, and the present was stored with more letters
// than the column may have.
#[test]
fn a_time_in_the_future_becomes_the_present_in_its_own_notation() {
    Backend::each(|backend| {
        let mut center = Center::on(
            backend,
            backend.pick(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT)",
                "CREATE TABLE t (id INTEGER PRIMARY KEY, at varchar(30))",
            ),
            "[table.t]\nconflict = { latest = \"at\" }\n",
        );
        let mut remote = Remote::new("r");
        center.synchronize(&mut remote, &[]);
        let near = |center: &Center, hours: i64, zone: &str| {
            let sqlite =
                format!("SELECT strftime('%Y-%m-%d %H:%M:%S', 'now', '{hours} hours') || '{zone}'");
            let postgres = format!(
                "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '{hours} hours', \
                 'YYYY-MM-DD HH24:MI:SS') || '{zone}'"
            );
            let Value::Text(text) = center.value(backend.pick(&sqlite, &postgres)) else {
                panic!()
            };
            String::from_utf8(text).unwrap()
        };
        // An hour ago, and in an hour.
        let past = near(&center, 1, "+02:00");
        let soon = near(&center, -1, "-02:00");
        let sent: Vec<&str> = FUTURE.iter().copied().chain([past.as_str(), &soon]).collect();
        let inserts = sent.iter().zip(1..);
        let inserts = inserts.map(|(at, id)| Upload::Insert("t", vec![int(id), text(at)]));
        let (applied, _) = center.synchronize(&mut remote, &Vec::from_iter(inserts));
        assert_eq!(applied.rejected, 0);
        let held = center.list("SELECT at AS v FROM t ORDER BY id");
        let held: Vec<&str> = held.split(',').collect();
        let digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "9");
        for (sent, held) in sent.iter().zip(&held) {
            assert_eq!(digits(sent), digits(held), "{backend:?}");
            assert!(!held.starts_with("2999"), "{backend:?}: {sent}, {held}");
        }
        assert_eq!(held[FUTURE.len()], past, "{backend:?}");
        assert_ne!(held[FUTURE.len() + 1], soon, "{backend:?}");
        // The present is the present, whatever the zone.
        let clock = center.folder.path().join("clock");
        let seconds = |at: &&str| {
            let Value::Integer(seconds) =
                center::value(&clock, &format!("SELECT unixepoch('{at}')"))
            else {
                panic!("{at}")
            };
            seconds
        };
        let present = seconds(&"now");
        for held in held.iter().skip(1).filter(|held| **held != past) {
            assert!((present - 90..=present).contains(&seconds(held)), "{backend:?}: {held}");
        }
    });
}
