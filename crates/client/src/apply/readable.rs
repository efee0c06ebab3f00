//! Rows and keys as people read them: JSON objects by column name.

use crate::connection::{bind, value};
use crate::schema::RemoteTable;
use crate::sql::{ident, list};
use model::{Code, Readable, Value, ValueRef};
use rusqlite::Connection;
use serde_json::{Map, Value as Json, json};

/// A key by column name.
pub(super) fn key_json(table: &RemoteTable, key: &[Value]) -> String {
    let columns = table.key.iter().map(|column| column.name.clone());
    Json::Object(columns.zip(key.iter().map(|value| json!(Readable(value.as_ref())))).collect())
        .to_string()
}

/// The row as it lies under a key: what is published of it, and of what is not published the
/// columns of `also`, and what lies in any other.
pub(super) fn row_json(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    code: u16,
    also: &[String],
) -> rusqlite::Result<Option<String>> {
    let dropped = code == Code::ColumnDropped.number();
    // A column that is no longer published is still here, and it is what the reject is about.
    let columns = match dropped {
        true => "*".to_owned(),
        false => {
            let own = own_columns(connection, table)?;
            list(table.published.columns.iter().chain(&own).map(|name| ident(name)))
        }
    };
    let sql = format!(
        "SELECT {columns} FROM {} WHERE {}",
        table.table_sql(),
        table.key_is_parameter("", 1)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for (n, value) in key.iter().enumerate() {
        bind(&mut statement, n + 1, value.as_ref())?;
    }
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut object = Map::new();
    for (n, name) in names.into_iter().enumerate() {
        let value = value(row, n)?;
        let is_wanted = dropped
            || n < table.width()
            || also.iter().any(|column| column.eq_ignore_ascii_case(&name));
        if is_wanted || !matches!(value, ValueRef::Null) {
            object.insert(name, json!(Readable(value)));
        }
    }
    Ok(Some(Json::Object(object).to_string()))
}

/// A column that is not published.
pub(super) struct OwnColumn {
    pub(super) name: String,
    /// What a row has there that was made without it, where that is a literal.
    pub(super) default: Option<String>,
}

/// The columns of a published table that are not published. While the table was the user's own they
/// were columns like any others, under names that the center may have given away since.
pub(crate) fn own_columns(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<Vec<String>> {
    Ok(own(connection, table)?.into_iter().map(|column| column.name).collect())
}

/// The same with what fills them in. Generated columns have nothing of their own.
pub(super) fn own(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<Vec<OwnColumn>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, dflt_value FROM pragma_table_xinfo(?1, 'main') WHERE hidden = 0",
    )?;
    let mut rows = statement.query([table.name()])?;
    let mut own = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if !table.published.columns.iter().any(|column| column.eq_ignore_ascii_case(&name)) {
            let default: Option<String> = row.get(1)?;
            own.push(OwnColumn { name, default: default.filter(|it| is_literal(it)) });
        }
    }
    Ok(own)
}

/// Whether this is a number or a quoted text and nothing else.
pub(super) fn is_literal(sql: &str) -> bool {
    let text = sql.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    let is_text = text.is_some_and(|it| !it.replace("''", "").contains('\''));
    is_text || sql.parse::<f64>().is_ok_and(f64::is_finite)
}

/// A row by column name: what is published of it, and what lies in the columns of `own`.
pub(super) fn row_text(table: &RemoteTable, own: &[String], row: &[ValueRef<'_>]) -> String {
    let columns = table.published.columns.iter().chain(own).zip(row).enumerate();
    let told =
        columns.filter(|(n, (_, value))| *n < table.width() || !matches!(value, ValueRef::Null));
    let object: Map<String, Json> =
        told.map(|(_, (name, value))| (name.clone(), json!(Readable(*value)))).collect();
    Json::Object(object).to_string()
}
