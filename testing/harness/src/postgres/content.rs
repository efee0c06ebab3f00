//! What a table of PostgreSQL holds, as its rows must look at a remote.
//!
//! Written down from what is documented and not from the product: integers and booleans are
//! INTEGER, floating-point numbers REAL, bytes BLOB, all else text in one fixed form.

use super::TestDatabase;
use std::collections::BTreeMap;

/// How values look, whatever the database says by default.
const SETTINGS: &str = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET extra_float_digits = 3;
    SET IntervalStyle = 'iso_8601'; SET search_path = public;";

/// A column of the remote.
pub(crate) struct RemoteColumn {
    pub(crate) name: String,
    /// Its declared type, which for a number of any length is the model's choice.
    pub(crate) declared: String,
}

impl TestDatabase {
    /// The tables of the user, as they are called at a remote.
    pub fn tables(&self) -> Vec<String> {
        let text = "SELECT CASE nspname WHEN 'public' THEN '' ELSE nspname || '.' END || relname
            FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
            WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname <> 'syncline'
                AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%' ORDER BY 1";
        self.query(text).into_iter().flatten().collect()
    }

    /// Every row as text, with how often it occurs.
    pub(crate) fn dump_table(
        &self,
        table: &str,
        columns: &[RemoteColumn],
        condition: &str,
    ) -> BTreeMap<String, usize> {
        let table = quoted_table(table);
        let types = self.column_types(&table);
        let kinds: Vec<Kind> = columns
            .iter()
            .map(|column| Kind::of(types.get(&column.name).map_or("", |name| name), column))
            .collect();
        let selected: Vec<String> = columns
            .iter()
            .zip(&kinds)
            .map(|(column, kind)| kind.expression(&format!("t.{}", quoted(&column.name))))
            .collect();
        let text = format!(
            "{SETTINGS} SELECT {} FROM {table} AS t WHERE {condition}",
            selected.join(", ")
        );
        let mut rows = BTreeMap::new();
        for row in self.query(&text) {
            let values: Vec<String> =
                row.iter().zip(&kinds).map(|(value, kind)| kind.shown(value)).collect();
            *rows.entry(format!("({})", values.join(", "))).or_insert(0) += 1;
        }
        rows
    }

    fn column_types(&self, table: &str) -> BTreeMap<String, String> {
        let text = format!(
            "SELECT attname,
             CASE WHEN typtype = 'd' AND typbasetype = 'boolean'::regtype THEN 'truth'
                WHEN typtype = 'd' THEN 'domain' ELSE format_type(t.oid, NULL) END
             FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid
             WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped",
            literal(table)
        );
        let pair = |row: Vec<String>| <[String; 2]>::try_from(row).unwrap().into();
        self.query(&text).into_iter().map(pair).collect()
    }
}

/// How the values of a type look at the remote.
#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Boolean,
    /// Text as SQL casts it: of a domain over booleans `true` or `false`, of a char no blanks at
    /// its end.
    Cast,
    Real,
    /// INTEGER where it is whole, else REAL.
    Numeric,
    Bytes,
    Timestamp,
    Text,
}

impl Kind {
    fn of(type_name: &str, column: &RemoteColumn) -> Kind {
        match type_name {
            "smallint" | "integer" | "bigint" => Kind::Integer,
            "boolean" => Kind::Boolean,
            "truth" | "character" => Kind::Cast,
            "real" | "double precision" => Kind::Real,
            "numeric" => match column.declared.as_str() {
                "TEXT" => Kind::Text,
                "REAL" => Kind::Real,
                _ => Kind::Numeric,
            },
            "bytea" => Kind::Bytes,
            "timestamp without time zone" | "timestamp with time zone" => Kind::Timestamp,
            _ => Kind::Text,
        }
    }

    fn expression(self, column: &str) -> String {
        match self {
            Kind::Boolean => format!("{column}::int"),
            Kind::Cast => format!("'''' || {column}::text || ''''"),
            Kind::Bytes => format!("'x''' || encode({column}, 'hex') || ''''"),
            // Unlike a cast, the output function shows what the database stores.
            Kind::Text => format!(
                "CASE WHEN {column} IS NOT NULL THEN '''' || format('%s', {column}) || '''' END"
            ),
            _ => column.to_owned(),
        }
    }

    fn shown(self, value: &str) -> String {
        match (self, value) {
            (_, "NULL") => value.to_owned(),
            (Kind::Real | Kind::Numeric, "NaN") => "'NaN'".to_owned(),
            (Kind::Real, value) => format!("{:?}", value.parse::<f64>().unwrap()),
            (Kind::Numeric, value) => {
                let number: f64 = value.parse().unwrap();
                match number.fract() == 0.0 {
                    true => value.split('.').next().unwrap_or_default().to_owned(),
                    false => format!("{number:?}"),
                }
            }
            (Kind::Timestamp, value) => format!("'{}'", moment(value)),
            (_, value) => value.to_owned(),
        }
    }
}

/// A timestamp as PostgreSQL shows it, without the zone.
fn moment(shown: &str) -> String {
    shown.replace("+00", "")
}

/// The name as SQL, from the one that a remote has for it.
fn quoted_table(table: &str) -> String {
    match table.split_once('.') {
        Some((schema, name)) => format!("{}.{}", quoted(schema), quoted(name)),
        None => format!("public.{}", quoted(table)),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
