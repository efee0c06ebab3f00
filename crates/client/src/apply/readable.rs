//! Rows and keys as people read them: JSON objects by column name.

use crate::connection::{bind, value};
use crate::schema::{LocalTable, RemoteTable};
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

/// A key as programs before wrote it.
pub(super) fn key_array(key: &[Value]) -> String {
    Json::Array(key.iter().map(|value| json!(Readable(value.as_ref()))).collect()).to_string()
}

/// The row as it lies under a key: what is published of it, and of what is not published any more
/// the columns of `also`, or what lies in any.
pub(super) fn row_json(
    connection: &Connection,
    table: &RemoteTable,
    key: &[Value],
    code: u16,
    also: &[String],
) -> rusqlite::Result<Option<String>> {
    let (dropped, returned) = (Code::ColumnDropped.number(), Code::RowDiffersOnReturn.number());
    // A column that is no longer published is still here, and it is what the reject is about.
    let columns = match code {
        _ if code == dropped => "*".to_owned(),
        _ if code == returned => {
            let own = own_columns(connection, table)?;
            list(table.published.columns.iter().chain(&own).map(|name| ident(name)))
        }
        _ => {
            let mut columns = table.columns_sql("");
            for name in also {
                let published = table.published.columns.iter();
                if !published.clone().any(|it| it.eq_ignore_ascii_case(name))
                    && connection.column_exists(Some("main"), table.name(), name.as_str())?
                {
                    columns.push_str(", ");
                    columns.push_str(&ident(name));
                }
            }
            columns
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
        if code != returned || n < table.width() || !matches!(value, ValueRef::Null) {
            object.insert(name, json!(Readable(value)));
        }
    }
    Ok(Some(Json::Object(object).to_string()))
}

/// The columns of a published table that are not published. While the table was the user's own they
/// were columns like any others, under names that the centre may have given away since.
pub(crate) fn own_columns(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<Vec<String>> {
    let Some(local) = LocalTable::read(connection, table.name())? else { return Ok(Vec::new()) };
    let published =
        |name: &str| table.published.columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let own = local.columns.into_iter().filter(|it| !it.generated && !published(&it.name));
    Ok(own.map(|column| column.name).collect())
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
