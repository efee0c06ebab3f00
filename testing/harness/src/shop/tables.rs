//! The eleven tables of the shop, written once and spelled for each database.

use super::dialect::Dialect;

/// What a column holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Number,
    /// Text of at most so many characters.
    Text(u16),
    /// A moment.
    Time,
    /// An amount with two decimals.
    Money,
}

/// A column: its name, what it holds, whether it must have a value.
type Column = (&'static str, Kind, bool);

/// A table as PostgreSQL names it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    key: &'static [&'static str],
    /// Column, and the table whose key it refers to.
    parents: &'static [(&'static str, &'static str)],
}

use Kind::{Money, Number, Text, Time};

/// Parents come first, so that their rows can be inserted in this order.
pub(super) const TABLES: [Table; 11] = [
    Table { name: "genre", columns: &NAMED_GENRE, key: &["genre_id"], parents: &[] },
    Table { name: "media_type", columns: &NAMED_MEDIA_TYPE, key: &["media_type_id"], parents: &[] },
    Table { name: "artist", columns: &NAMED_ARTIST, key: &["artist_id"], parents: &[] },
    Table { name: "playlist", columns: &NAMED_PLAYLIST, key: &["playlist_id"], parents: &[] },
    Table {
        name: "album",
        columns: &[
            ("album_id", Number, true),
            ("title", Text(160), true),
            ("artist_id", Number, true),
        ],
        key: &["album_id"],
        parents: &[("artist_id", "artist")],
    },
    Table {
        name: "track",
        columns: &[
            ("track_id", Number, true),
            ("name", Text(200), true),
            ("album_id", Number, false),
            ("media_type_id", Number, true),
            ("genre_id", Number, false),
            ("composer", Text(220), false),
            ("milliseconds", Number, true),
            ("bytes", Number, false),
            ("unit_price", Money, true),
        ],
        key: &["track_id"],
        parents: &[("album_id", "album"), ("genre_id", "genre"), ("media_type_id", "media_type")],
    },
    Table {
        name: "employee",
        columns: &[
            ("employee_id", Number, true),
            ("last_name", Text(20), true),
            ("first_name", Text(20), true),
            ("title", Text(30), false),
            ("reports_to", Number, false),
            ("birth_date", Time, false),
            ("hire_date", Time, false),
            ("address", Text(70), false),
            ("city", Text(40), false),
            ("state", Text(40), false),
            ("country", Text(40), false),
            ("postal_code", Text(10), false),
            ("phone", Text(24), false),
            ("fax", Text(24), false),
            ("email", Text(60), false),
        ],
        key: &["employee_id"],
        parents: &[("reports_to", "employee")],
    },
    Table {
        name: "customer",
        columns: &[
            ("customer_id", Number, true),
            ("first_name", Text(40), true),
            ("last_name", Text(20), true),
            ("company", Text(80), false),
            ("address", Text(70), false),
            ("city", Text(40), false),
            ("state", Text(40), false),
            ("country", Text(40), false),
            ("postal_code", Text(10), false),
            ("phone", Text(24), false),
            ("fax", Text(24), false),
            ("email", Text(60), true),
            ("support_rep_id", Number, false),
        ],
        key: &["customer_id"],
        parents: &[("support_rep_id", "employee")],
    },
    Table {
        name: "invoice",
        columns: &[
            ("invoice_id", Number, true),
            ("customer_id", Number, true),
            ("invoice_date", Time, true),
            ("billing_address", Text(70), false),
            ("billing_city", Text(40), false),
            ("billing_state", Text(40), false),
            ("billing_country", Text(40), false),
            ("billing_postal_code", Text(10), false),
            ("total", Money, true),
        ],
        key: &["invoice_id"],
        parents: &[("customer_id", "customer")],
    },
    Table {
        name: "invoice_line",
        columns: &[
            ("invoice_line_id", Number, true),
            ("invoice_id", Number, true),
            ("track_id", Number, true),
            ("unit_price", Money, true),
            ("quantity", Number, true),
        ],
        key: &["invoice_line_id"],
        parents: &[("invoice_id", "invoice"), ("track_id", "track")],
    },
    Table {
        name: "playlist_track",
        columns: &[("playlist_id", Number, true), ("track_id", Number, true)],
        key: &["playlist_id", "track_id"],
        parents: &[("playlist_id", "playlist"), ("track_id", "track")],
    },
];

const NAMED_GENRE: [Column; 2] = [("genre_id", Number, true), ("name", Text(120), false)];
const NAMED_MEDIA_TYPE: [Column; 2] = [("media_type_id", Number, true), ("name", Text(120), false)];
const NAMED_ARTIST: [Column; 2] = [("artist_id", Number, true), ("name", Text(120), false)];
const NAMED_PLAYLIST: [Column; 2] = [("playlist_id", Number, true), ("name", Text(120), false)];

/// The statements that make the tables, with their indexes and foreign keys.
pub(super) fn create(dialect: Dialect) -> String {
    let mut text: String = TABLES.iter().map(|table| create_table(table, dialect)).collect();
    for table in &TABLES {
        for (column, parent) in table.parents {
            if dialect == Dialect::Postgres {
                let foreign = foreign_key(column, parent, dialect);
                text.push_str(&format!("ALTER TABLE {} ADD {foreign};\n", table.name));
            }
            text.push_str(&format!(
                "CREATE INDEX {} ON {} ({});\n",
                name(&format!("{}_{column}_idx", table.name), dialect),
                name(table.name, dialect),
                name(column, dialect)
            ));
        }
    }
    text
}

fn create_table(table: &Table, dialect: Dialect) -> String {
    let mut lines: Vec<String> = { table.columns.iter() }
        .map(|(column, kind, required)| {
            let required = if *required { " NOT NULL" } else { "" };
            format!("{} {}{required}", name(column, dialect), type_name(*kind, dialect))
        })
        .collect();
    let key: Vec<String> = table.key.iter().map(|column| name(column, dialect)).collect();
    let constraint = name(&format!("{}_pkey", table.name), dialect);
    lines.push(format!("CONSTRAINT {constraint} PRIMARY KEY ({})", key.join(", ")));
    if dialect == Dialect::Sqlite {
        let parents = table.parents.iter();
        lines.extend(parents.map(|(column, parent)| foreign_key(column, parent, dialect)));
    }
    format!("CREATE TABLE {} (\n    {}\n);\n", name(table.name, dialect), lines.join(",\n    "))
}

fn foreign_key(column: &str, parent: &str, dialect: Dialect) -> String {
    format!(
        "FOREIGN KEY ({}) REFERENCES {} ({}) ON DELETE NO ACTION ON UPDATE NO ACTION",
        name(column, dialect),
        name(parent, dialect),
        name(&format!("{parent}_id"), dialect)
    )
}

fn type_name(kind: Kind, dialect: Dialect) -> String {
    match (kind, dialect) {
        (Kind::Number, Dialect::Sqlite) => "INTEGER".to_owned(),
        (Kind::Number, Dialect::Postgres) => "INT".to_owned(),
        (Kind::Text(most), Dialect::Sqlite) => format!("NVARCHAR({most})"),
        (Kind::Text(most), Dialect::Postgres) => format!("VARCHAR({most})"),
        (Kind::Time, Dialect::Sqlite) => "DATETIME".to_owned(),
        (Kind::Time, Dialect::Postgres) => "TIMESTAMP".to_owned(),
        (Kind::Money, _) => "NUMERIC(10,2)".to_owned(),
    }
}

/// `invoice_line` is `[InvoiceLine]` on SQLite.
pub(super) fn name(name: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Postgres => name.to_owned(),
        Dialect::Sqlite => {
            let words = name.split('_').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
            format!("[{}]", words.collect::<String>())
        }
    }
}
