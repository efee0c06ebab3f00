//! What the database is asked of the cursors that a user wrote, beside what they return.

use crate::postgres::statement::Statement;
use crate::postgres::values::ColumnType;
use crate::quote::ident;
use crate::script::Relation;
use model::PublishedTable;

/// The rows that `cursor` returns under keys of `table` (OC1).
pub(in crate::postgres) fn by_key(
    cursor: &Statement,
    table: &PublishedTable,
    columns: &[ColumnType],
) -> Statement {
    let mut statement = cursor.clone();
    let keys = statement.relation(Relation::Keys, table, columns, false);
    let names: Vec<String> = (0..table.width()).map(|at| format!("c{at}")).collect();
    let equal = table.key.iter().map(|at| {
        let key = ident(&table.columns[usize::from(*at)]);
        format!("syncline_rows.c{at} = syncline_keys.{key}")
    });
    statement.sql = format!(
        "SELECT syncline_rows.* FROM (\n{}\n) AS syncline_rows ({})\n\
         JOIN {keys} AS syncline_keys ON {}",
        cursor.sql,
        names.join(", "),
        equal.collect::<Vec<_>>().join(" AND "),
    );
    Statement { set_based: true, ..statement }
}

/// The keys that `cursor` returns, without further columns.
pub(in crate::postgres) fn keys(cursor: &Statement, table: &PublishedTable) -> Statement {
    let names = names(table);
    let (selected, rows) = (names.join(", "), named(cursor, &names));
    Statement { sql: format!("SELECT {selected} FROM {rows}"), ..cursor.clone() }
}

/// Whether `cursor` returns a row of NULLs.
pub(in crate::postgres) fn nulls(cursor: &Statement, table: &PublishedTable) -> Statement {
    let names = names(table);
    let absent: Vec<String> = names.iter().map(|name| format!("{name} IS NULL")).collect();
    let (rows, absent) = (named(cursor, &names), absent.join(" AND "));
    Statement { sql: format!("SELECT 1 FROM {rows} WHERE {absent} LIMIT 1"), ..cursor.clone() }
}

fn names(table: &PublishedTable) -> Vec<String> {
    (0..table.key.len()).map(|at| format!("k{at}")).collect()
}

fn named(cursor: &Statement, names: &[String]) -> String {
    format!("(\n{}\n) AS syncline_keys ({})", cursor.sql, names.join(", "))
}
