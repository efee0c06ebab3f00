//! What differs between two twins although they do the same: the one list of it.

use serde_json::Value;

/// Why a value differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is drawn.
    Random,
    /// It is a time of the clock.
    Time,
    /// It is the number of a transaction, or a snapshot of them.
    Transaction,
    /// It is a place: a folder, a port, a database.
    Place,
    /// It is noted a moment later, and until then it is not there or of an earlier time.
    Late,
}

use Why::{Late, Place, Random, Time, Transaction};

/// Table, column, and why. A table of names and values has the name behind its column. On
/// PostgreSQL the types in `of_type` are added.
const DIFFERS: [(&str, &str, Why); 42] = [
    ("syncline_system", "value:database_id", Random),
    ("syncline_system", "value:generation", Random),
    ("syncline_system", "value:home", Place),
    ("syncline_system", "value:incarnation", Random),
    ("syncline_system", "value:last_start", Random),
    ("syncline_system", "value:receipt_key", Random),
    ("syncline_system", "value:token_key", Random),
    // The first deployment has a drawn number there.
    ("syncline.syncline_system", "value:deployment", Random),
    ("syncline.syncline_shape", "deployment", Random),
    ("syncline.syncline_shape", "superseded", Random),
    ("syncline.syncline_remote", "held_deployment", Random),
    ("syncline_logs", "incarnation", Random),
    // A sum over the numbers of triggers.
    ("syncline.syncline_logs", "triggers", Place),
    ("syncline_user", "password_hash", Random),
    ("syncline_user", "password_version", Random),
    ("syncline_user", "password_set_at", Time),
    ("syncline_remote", "progress", Random),
    ("syncline_remote", "nonce", Random),
    ("syncline_remote", "secret", Random),
    ("syncline_remote", "last_upload_at", Time),
    ("syncline_remote", "last_download_at", Time),
    ("syncline_remote", "acknowledged_at", Time),
    ("syncline_remote", "forgotten_at", Time),
    ("syncline_former_file", "progress", Random),
    ("syncline_former_file", "secret", Random),
    ("syncline_former_file", "replaced_at", Time),
    ("syncline_conflict", "detected_at", Time),
    ("syncline_reject", "rejected_at", Time),
    ("syncline_reject", "settled", Late),
    ("syncline_shape", "deployed_at", Time),
    ("syncline_shape", "superseded_at", Time),
    // The remote's own.
    ("syncline_state", "value:database_id", Random),
    ("syncline_state", "value:file_secret", Random),
    ("syncline_state", "value:nonce_attempt", Random),
    ("syncline_state", "value:nonce_confirmed", Random),
    ("syncline_state", "value:progress", Random),
    ("syncline_state", "value:progress_frozen", Random),
    ("syncline_state", "value:progress_last_used", Random),
    ("syncline_state", "value:receipt", Random),
    ("syncline_state", "value:server", Place),
    ("syncline_table", "watermark", Transaction),
    ("syncline_reject", "at", Time),
];

/// Names of `syncline_system` that begin so end with something random.
const RANDOM_NAMES: &str = "start ";

/// Members of answers that differ.
const DIFFERING_MEMBERS: [(&str, Why); 13] = [
    ("duration_ms", Time),
    ("last_download_age_s", Time),
    ("last_contact_age_s", Time),
    ("rows_waiting", Late),
    ("rows_waiting_more", Late),
    ("rejects", Late),
    ("settled", Late),
    ("failing", Late),
    ("last_error", Late),
    ("last_transfer", Late),
    ("at", Time),
    ("progress", Random),
    ("database_id", Random),
];
/// Members of answers with SQL, in which long numbers and times are values of the tables above.
const STATEMENTS: &str = "statements";
/// Digits of a number that is drawn.
const DRAWN_DIGITS_MIN: usize = 7;
/// Members of answers that end so are times of the clock.
const TIME_SUFFIX: &str = "_at";

/// Why all values of a type of PostgreSQL differ.
pub(crate) fn of_type(name: &str) -> Option<Why> {
    matches!(name, "xid8" | "pg_snapshot").then_some(Transaction)
}

/// Why a value differs; `name` is the first column of its row.
pub(crate) fn of_value(table: &str, column: &str, name: &str) -> Option<Why> {
    let short = table.strip_prefix("syncline.").unwrap_or(table);
    if short == "syncline_system" && name.starts_with(RANDOM_NAMES) {
        return Some(Random);
    }
    let differs = |&&(in_table, what, _): &&(&str, &str, Why)| {
        let is_it = match what.split_once(':') {
            Some((in_column, of_name)) => in_column == column && of_name == name,
            None => what == column,
        };
        (in_table == table || in_table == short) && is_it
    };
    DIFFERS.iter().find(differs).map(|(_, _, why)| *why)
}

/// What stands for such a value. No drawn number is 0, which says that there is none.
pub(crate) fn mask(why: Why, value: &str) -> String {
    match why {
        Random if value.trim_matches('\'') == "0" => "0",
        Random => "<random>",
        Time => "<time>",
        Late => "<late>",
        Transaction => "<transaction>",
        Place => "<place>",
    }
    .to_owned()
}

/// A text in which the places of one twin have names, and no UUID is left.
pub(crate) fn text(text: &str, places: &[(String, &str)]) -> String {
    let mut text = text.to_owned();
    for (place, name) in places.iter().filter(|(place, _)| !place.is_empty()) {
        text = text.replace(place, name);
    }
    without_uuids(&text)
}

/// An answer without what differs: lines of JSON, or lines for people.
pub(crate) fn answer(printed: &str, places: &[(String, &str)]) -> String {
    let line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(value) => json(value).to_string(),
        Err(_) => line.to_owned(),
    };
    let lines: Vec<String> = match serde_json::from_str::<Value>(printed) {
        Ok(value) => vec![json(value).to_string()],
        Err(_) => printed.lines().map(line).collect(),
    };
    text(&lines.join("\n"), places)
}

/// A value of a table: where it is an object of JSON, its members are like those of an answer.
pub(crate) fn value(shown: &str, places: &[(String, &str)]) -> String {
    let inner = shown.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')).unwrap_or(shown);
    match inner.starts_with('{').then(|| serde_json::from_str::<Value>(inner)) {
        Some(Ok(object)) => text(&json(object).to_string(), places),
        _ => text(shown, places),
    }
}

fn json(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(json).collect(),
        Value::Object(members) => {
            let member = |(name, value): (String, Value)| {
                let is_time = name.ends_with(TIME_SUFFIX);
                let differs = DIFFERING_MEMBERS.iter().find(|(member, _)| *member == name);
                let why = differs.map(|(_, why)| *why).or(is_time.then_some(Time));
                let value = match why.filter(|why| *why == Late || !value.is_null()) {
                    Some(why) => Value::from(mask(why, &value.to_string())),
                    None if name == STATEMENTS => Value::from(statements(&value.to_string())),
                    None => json(value),
                };
                (name, value)
            };
            Value::Object(members.into_iter().map(member).collect())
        }
        other => other,
    }
}

/// SQL without long numbers and times.
fn statements(sql: &str) -> String {
    let mut out = String::new();
    for (at, part) in sql.split('\'').enumerate() {
        let is_time = part.starts_with("20") && part.get(4..5) == Some("-");
        out.push_str(if at > 0 { "'" } else { "" });
        out.push_str(&if is_time { mask(Time, part) } else { without_long_numbers(part) });
    }
    out
}

fn without_long_numbers(text: &str) -> String {
    let (mut out, mut digits) = (String::new(), String::new());
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let is_drawn = digits.len() >= DRAWN_DIGITS_MIN;
        out.push_str(&if is_drawn { mask(Random, &digits) } else { digits.clone() });
        digits.clear();
        out.push(letter);
    }
    out.pop();
    out
}

/// How the parts of a UUID are long.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

fn without_uuids(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        match uuid_length(rest) {
            Some(length) => {
                out.push_str("<uuid>");
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

fn uuid_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for (number, length) in UUID_PARTS.into_iter().enumerate() {
        if number > 0 {
            (bytes.get(at) == Some(&b'-')).then_some(())?;
            at += 1;
        }
        let part = bytes.get(at..at + length)?;
        part.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += length;
    }
    Some(at)
}

#[test]
fn what_differs_has_a_name_and_the_rest_stays() {
    let places = [("/tmp/x".to_owned(), "<folder>")];
    let printed = r#"{"id":"0f0e0d0c-0b0a-4908-8706-050403020100","duration_ms":7,
        "n":[1,"/tmp/x/a"],"last_at":"2026","no_at":null,"progress":0}"#;
    let wanted = r#"{"id":"<uuid>","duration_ms":"<time>","n":[1,"<folder>/a"],"#.to_owned()
        + r#""last_at":"<time>","no_at":null,"progress":"0"}"#;
    assert_eq!(answer(printed, &places), wanted);
    let nested = r#"'{"former":[{"database_id":"a0"}]}'"#;
    assert_eq!(value(nested, &places), r#"{"former":[{"database_id":"<random>"}]}"#);
    let sql = "INSERT INTO t VALUES ('ä', 12345678, '2026-11-23 12:00:00', 7)";
    let wanted = "INSERT INTO t VALUES ('ä', <random>, '<time>', 7)";
    assert_eq!(statements(sql), wanted);
    assert_eq!(of_value("syncline_remote", "nonce", "ann"), Some(Random));
    assert_eq!(of_value("syncline_remote", "epoch", "ann"), None);
    assert_eq!(of_value("syncline.syncline_system", "value", "home"), Some(Place));
    assert_eq!(of_value("syncline_system", "value", "format"), None);
    assert_eq!(of_value("customer", "nonce", "1"), None);
}
