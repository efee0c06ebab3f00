//! The rows of the generated shop: always the same, with the letters that go wrong first.

use super::dialect::Dialect;
use super::tables::{Kind, TABLES, Table, name};
use crate::chance::Chance;

/// Rows of one statement.
const ROWS_AT_ONCE: usize = 500;

const GENRES: u64 = 25;
const MEDIA_TYPES: u64 = 5;
const ARTISTS: u64 = 275;
const ALBUMS: u64 = 347;
const TRACKS: u64 = 1200;
const EMPLOYEES: u64 = 8;
const CUSTOMERS: u64 = 59;
const INVOICES: u64 = 412;
const INVOICE_LINES: u64 = 2240;
const PLAYLISTS: u64 = 18;
const PLAYLIST_TRACKS: u64 = 3000;

/// Values of text that a careless program changes on the way.
const TEXTS: [&str; 8] =
    ["Straße", "Ærø's", "São José", "北京 €", "\"quoted\"", "a\\b", "007", "Привет, мир"];

/// The statements that fill the tables.
pub(super) fn insert(dialect: Dialect) -> String {
    let mut chance = Chance::from_seed(0);
    TABLES.iter().map(|table| insert_into(table, dialect, &mut chance)).collect()
}

fn insert_into(table: &Table, dialect: Dialect, chance: &mut Chance) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|(column, ..)| name(column, dialect)).collect();
    let (table_name, columns) = (name(table.name, dialect), columns.join(", "));
    let rows: Vec<String> = (1..=rows_of(table.name))
        .map(|number| {
            let values = table.columns.iter().map(|(column, kind, required)| {
                value(table.name, column, *kind, *required, number, dialect, chance)
            });
            format!("    ({})", values.collect::<Vec<_>>().join(", "))
        })
        .collect();
    { rows.chunks(ROWS_AT_ONCE) }
        .map(|rows| format!("INSERT INTO {table_name} ({columns}) VALUES\n{};\n", rows.join(",\n")))
        .collect()
}

fn rows_of(table: &str) -> u64 {
    match table {
        "genre" => GENRES,
        "media_type" => MEDIA_TYPES,
        "artist" => ARTISTS,
        "album" => ALBUMS,
        "track" => TRACKS,
        "employee" => EMPLOYEES,
        "customer" => CUSTOMERS,
        "invoice" => INVOICES,
        "invoice_line" => INVOICE_LINES,
        "playlist" => PLAYLISTS,
        _ => PLAYLIST_TRACKS,
    }
}

fn value(
    table: &str,
    column: &str,
    kind: Kind,
    required: bool,
    number: u64,
    dialect: Dialect,
    chance: &mut Chance,
) -> String {
    // Every pair of them once.
    let in_list = |number: u64| (1 + number % PLAYLISTS, 1 + number / PLAYLISTS);
    match (table, column) {
        ("playlist_track", "playlist_id") => return in_list(number).0.to_string(),
        ("playlist_track", "track_id") => return in_list(number).1.to_string(),
        ("employee", "reports_to") if number == 1 => return "NULL".to_owned(),
        ("employee", "reports_to") => return (number / 2).to_string(),
        _ => {}
    }
    if column == format!("{table}_id") {
        return number.to_string();
    }
    if !required && chance.below(5) == 0 {
        return "NULL".to_owned();
    }
    match (column, kind) {
        ("artist_id", _) => (1 + chance.below(ARTISTS)).to_string(),
        ("album_id", _) => (1 + chance.below(ALBUMS)).to_string(),
        ("media_type_id", _) => (1 + chance.below(MEDIA_TYPES)).to_string(),
        ("genre_id", _) => (1 + chance.below(GENRES)).to_string(),
        ("customer_id", _) => (1 + chance.below(CUSTOMERS)).to_string(),
        ("support_rep_id", _) => (1 + chance.below(EMPLOYEES)).to_string(),
        ("invoice_id", _) => (1 + chance.below(INVOICES)).to_string(),
        ("track_id", _) => (1 + chance.below(TRACKS)).to_string(),
        ("quantity", _) => "1".to_owned(),
        (_, Kind::Number) => chance.below(12_000_000).to_string(),
        (_, Kind::Money) => format!("{}.{:02}", chance.below(30), chance.below(100)),
        (_, Kind::Time) => {
            let (year, month, day) =
                (1950 + chance.below(75), 1 + chance.below(12), 1 + chance.below(28));
            format!("'{year}-{month:02}-{day:02} 00:00:00'")
        }
        (_, Kind::Text(most)) => {
            let text = format!("{} {number}", chance.choose(&TEXTS)).replace('\'', "''");
            let text: String = text.chars().take(usize::from(most)).collect();
            // As scripts for many databases have it.
            let national = if dialect == Dialect::Postgres { "N" } else { "" };
            format!("{national}'{text}'")
        }
    }
}
