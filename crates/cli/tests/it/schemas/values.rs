//! Values that fit the type of a column, each from a number, so that no two rows share them.

use super::catalog::{Column, Table};
use harness::Dialect;

/// A value, and how to write it in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    /// A number, in digits.
    Number(String),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn literal(&self, dialect: Dialect) -> String {
        match (self, dialect) {
            (Value::Null, _) => "NULL".to_owned(),
            (Value::Number(digits), Dialect::Sqlite) => digits.clone(),
            // Without a type yet, so that any column takes it.
            (Value::Number(text), Dialect::Postgres) | (Value::Text(text), _) => {
                format!("'{}'", text.replace('\'', "''"))
            }
            (Value::Bytes(bytes), Dialect::Sqlite) => format!("x'{}'", hex(bytes)),
            (Value::Bytes(bytes), Dialect::Postgres) => format!("'\\x{}'", hex(bytes)),
        }
    }

    /// The value that a query has shown.
    pub(crate) fn read(shown: &str, dialect: Dialect) -> Value {
        let inside = |from: &str| shown.strip_prefix(from).and_then(|it| it.strip_suffix('\''));
        match dialect {
            _ if shown == "NULL" => Value::Null,
            Dialect::Postgres => match shown.strip_prefix("\\x") {
                Some(digits) => Value::Bytes(unhex(digits)),
                None => Value::Text(shown.to_owned()),
            },
            Dialect::Sqlite => match (inside("x'"), inside("'")) {
                (Some(digits), _) => Value::Bytes(unhex(digits)),
                (None, Some(text)) => Value::Text(text.to_owned()),
                (None, None) => Value::Number(shown.to_owned()),
            },
        }
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..][..2], 16));
    pairs.collect::<Result<_, _>>().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Texts that a program on the way may spoil, at the end of those that have room.
const TAILS: [&str; 4] = ["", " it's \"ü\"", " Straße €", " a\nb\\ %s"];

/// The value of this number for the column.
pub(crate) fn natural(column: &Column, dialect: Dialect, number: u64) -> Value {
    if !column.labels.is_empty() {
        return Value::Text(column.labels[number as usize % column.labels.len()].clone());
    }
    match dialect {
        Dialect::Sqlite => of_declared(&column.type_name, number),
        Dialect::Postgres => of_type(&column.type_name, number),
    }
}

/// By what SQLite and programs read from a declared type.
fn of_declared(declared: &str, number: u64) -> Value {
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["INT"]) {
        Value::Number(number.to_string())
    } else if has(&["BOOL"]) {
        Value::Number((number % 2).to_string())
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        text(sizes(declared).first().copied(), number)
    } else if has(&["BLOB", "BINARY", "IMAGE"]) || declared.is_empty() {
        bytes(number)
    } else if has(&["DATE", "TIME"]) {
        Value::Text(moment(number))
    } else {
        Value::Number(format!("{}.25", number))
    }
}

fn of_type(type_name: &str, number: u64) -> Value {
    if let Some(element) = type_name.strip_suffix("[]") {
        let of = |number| match of_type(element, number) {
            Value::Number(text) | Value::Text(text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Value::Null | Value::Bytes(_) => "NULL".to_owned(),
        };
        return Value::Text(format!("{{{},{}}}", of(number), of(number + 1)));
    }
    let sizes = sizes(type_name);
    match type_name.split('(').next().unwrap_or_default() {
        "smallint" | "integer" | "bigint" | "oid" => Value::Number(number.to_string()),
        "boolean" => Value::Number((number % 2).to_string()),
        "real" | "double precision" => Value::Number(format!("{number}.5")),
        "numeric" => numeric(&sizes, number),
        "money" => Value::Text(format!("{number}.5")),
        "character varying" | "character" => text(sizes.first().copied(), number),
        "bytea" => bytes(number),
        "uuid" => uuid(number),
        "date" => Value::Text(moment(number)[..10].to_owned()),
        "json" | "jsonb" => {
            let json = format!("{{\"n\":{number}, \"list\": [1,2.50,null], \"a\":\"ü\"}}");
            Value::Text(json)
        }
        "xml" => Value::Text(format!("<row><n at='{number}'>ü</n></row>")),
        "tsvector" => Value::Text(format!("'b{number}':2 'a':1")),
        "inet" => Value::Text(format!("10.0.{}.{}", number / 250 % 250, number % 250)),
        "interval" => Value::Text(format!("{number} minutes")),
        // A key is refused in any other spelling than that of remotes.
        name if name.starts_with("timestamp") => Value::Text(moment(number)),
        name if name.starts_with("time") => Value::Text(moment(number)[11..].to_owned()),
        _ => text(None, number),
    }
}

/// Text of so many letters has a UUID.
const UUID_LEN: usize = 36;

fn uuid(number: u64) -> Value {
    Value::Text(format!("00000000-0000-4000-8000-{number:012x}"))
}

/// The numbers in the parentheses of a type.
fn sizes(type_name: &str) -> Vec<usize> {
    let inside = type_name.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let inside = inside.map_or("", |(inside, _)| inside);
    inside.split(',').filter_map(|size| size.trim().parse().ok()).collect()
}

fn numeric(sizes: &[usize], number: u64) -> Value {
    let (digits, scale) = match sizes {
        [digits, scale, ..] => (*digits, *scale),
        [digits] => (*digits, 0),
        [] => (30, 3),
    };
    let whole = number % 10_u64.pow((digits - scale).min(15) as u32);
    let fraction = &"125"[..scale.min(3)];
    Value::Number(if scale > 0 { format!("{whole}.{fraction}") } else { whole.to_string() })
}

/// The digits that change fastest come first, so that few letters suffice.
fn text(size: Option<usize>, number: u64) -> Value {
    let mut word = String::new();
    let mut rest = number;
    while rest > 0 {
        word.extend(char::from_digit((rest % 36) as u32, 36));
        rest /= 36;
    }
    let room = size.unwrap_or(1000);
    if room == UUID_LEN {
        return uuid(number);
    }
    if room >= 20 {
        word.push_str(TAILS[number as usize % TAILS.len()]);
    }
    Value::Text(word.chars().take(room).collect())
}

fn bytes(number: u64) -> Value {
    Value::Bytes([&[0, 0xff][..], &number.to_be_bytes()[4..]].concat())
}

/// A moment in an even minute of a day that each year has.
fn moment(number: u64) -> String {
    let (month, day) = (1 + number / 28 % 12, 1 + number % 28);
    let (year, minute) = (2001 + number / 336 % 20, number % 60);
    format!("{year:04}-{month:02}-{day:02} 09:{minute:02}:00")
}

/// Whether a constraint is about the column.
pub(crate) fn is_checked(table: &Table, column: &Column) -> bool {
    !column.domain_checks.is_empty()
        || table.checks.iter().any(|check| mentions(check, &column.name))
}

/// What constraints say of a column: each literal there, and the numbers beside it.
pub(crate) fn hints(table: &Table, column: &Column) -> Vec<Value> {
    let mut found = literals(&column.domain_checks);
    for check in table.checks.iter().filter(|check| mentions(check, &column.name)) {
        found.extend(literals(check));
    }
    found
}

fn mentions(check: &str, column: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    check.split(|letter| !is_part(letter)).any(|word| word.eq_ignore_ascii_case(column))
        || check.contains(column) && column.contains(|letter| !is_part(letter))
}

fn literals(sql: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for (place, part) in sql.split('\'').enumerate() {
        if place % 2 == 1 {
            found.push(Value::Text(part.to_owned()));
            continue;
        }
        let words = part.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for number in words.filter_map(|word| word.parse::<i64>().ok()) {
            found.extend([number, number + 1, number - 1].map(|it| Value::Number(it.to_string())));
        }
    }
    found
}
