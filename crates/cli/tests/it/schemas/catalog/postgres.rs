//! What PostgreSQL says of its tables.

use super::{Column, ForeignKey, Table};
use harness::postgres::TestDatabase;

/// The tables of the user, partitions not among them, and how a remote calls them.
const TABLES: &str = "SET DateStyle = 'ISO'; WITH tables AS (SELECT c.oid,
    CASE nspname WHEN 'public' THEN '' ELSE nspname || '.' END || relname AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname NOT LIKE 'pg\\_%'
    AND nspname NOT IN ('information_schema', 'syncline'))";

const COLUMNS: &str = "SELECT tables.name, attname,
    format_type(b.oid, CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE atttypmod END),
    (attnotnull OR t.typnotnull)::int, (attidentity = 'a')::int,
    array_to_string(ARRAY(SELECT enumlabel FROM pg_enum WHERE enumtypid = b.oid
        ORDER BY enumsortorder), chr(10)),
    array_to_string(ARRAY(SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE contypid = t.oid), ' ')
    FROM tables JOIN pg_attribute ON attrelid = tables.oid JOIN pg_type t ON t.oid = atttypid
    JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
    WHERE attnum > 0 AND NOT attisdropped AND attgenerated = ''
    AND attname <> 'syncline_version' ORDER BY tables.name, attnum";

const CONSTRAINTS: &str = "SELECT tables.name, contype, coalesce(parents.name, ''),
    array_to_string(ARRAY(SELECT attname FROM unnest(conkey) WITH ORDINALITY AS u(number, place)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place), chr(10)),
    array_to_string(ARRAY(SELECT attname FROM unnest(confkey) WITH ORDINALITY AS u(number, place)
        JOIN pg_attribute ON attrelid = confrelid AND attnum = number ORDER BY place), chr(10)),
    CASE contype WHEN 'c' THEN pg_get_constraintdef(k.oid) ELSE '' END
    FROM tables JOIN pg_constraint k ON conrelid = tables.oid
    LEFT JOIN tables AS parents ON parents.oid = confrelid
    WHERE contype IN ('p', 'f', 'c') ORDER BY tables.name, conname";

pub(super) fn read(database: &TestDatabase) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    for row in database.query(&format!("{TABLES} {COLUMNS}")) {
        let [table, name, type_name, not_null, always, labels, domain_checks] = fields(row);
        if found.last().is_none_or(|last| last.name != table) {
            found.push(Table { name: table, ..Table::default() });
        }
        let Some(last) = found.last_mut() else { continue };
        last.columns.push(Column {
            name,
            type_name,
            not_null: not_null == "1",
            labels: lines(&labels),
            domain_checks,
            is_always_identity: always == "1",
        });
    }
    for row in database.query(&format!("{TABLES} {CONSTRAINTS}")) {
        let [table, kind, parent, columns, parent_columns, check] = fields(row);
        let Some(table) = found.iter_mut().find(|it| it.name == table) else { continue };
        let (columns, parent_columns) = (lines(&columns), lines(&parent_columns));
        match kind.as_str() {
            "p" => table.key = columns,
            "f" => table.foreign_keys.push(ForeignKey { columns, parent, parent_columns }),
            _ => table.checks.push(check),
        }
    }
    found
}

fn fields<const WIDTH: usize>(row: Vec<String>) -> [String; WIDTH] {
    row.try_into().unwrap()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
