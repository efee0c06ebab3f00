//! What goes with a row although nobody synchronizes it.
//!
//! A row that leaves, because it was deleted at the center or is outside of the partition now,
//! takes along what lies in its columns that are not published: columns of the user's own, and
//! columns that are no longer published. The center never had these values, so they are recorded
//! (S5). A trigger notes them, whatever deletes the row. Triggers of the main database are off
//! while a download is applied; those of the temporary one are not.

use super::circumstances::Circumstances;
use super::fired;
use super::readable::{self, OwnColumn};
use super::rejects;
use crate::connection::{explain, value};
use crate::schema::RemoteTable;
use crate::sql::{ident, list};
use model::{Failure, Readable, Value, ValueRef};
use rusqlite::Connection;
use serde_json::{Value as Json, json};

/// The tables whose rows may take something along.
pub(super) struct OwnValues<'a> {
    connection: &'a Connection,
    at: &'a str,
    tables: Vec<(&'a RemoteTable, Vec<String>)>,
}

impl<'a> OwnValues<'a> {
    /// From now on what goes is noted.
    pub(super) fn watch(
        connection: &'a Connection,
        circumstances: &Circumstances<'a>,
    ) -> Result<OwnValues<'a>, Failure> {
        let mut tables = Vec::new();
        for table in circumstances.tables {
            let own = readable::own(connection, table).map_err(explain)?;
            if own.is_empty() {
                continue;
            }
            // What the application's triggers delete, the application deletes.
            let noticed = circumstances.fired.map(|_| fired::NONE_RUNS);
            connection.execute_batch(&watch_sql(table, &own, noticed)).map_err(explain)?;
            tables.push((table, own.into_iter().map(|column| column.name).collect()));
        }
        Ok(OwnValues { connection, at: circumstances.at, tables })
    }

    /// Records what has gone.
    pub(super) fn tell(self) -> Result<(), Failure> {
        for (table, own) in &self.tables {
            self.tell_of(table, own)?;
            let (gone, going) = names(table);
            let sql = format!("DROP TRIGGER temp.{going}; DROP TABLE temp.{gone}");
            self.connection.execute_batch(&sql).map_err(explain)?;
        }
        Ok(())
    }

    fn tell_of(&self, table: &RemoteTable, own: &[String]) -> Result<(), Failure> {
        let sql = format!("SELECT * FROM temp.{}", names(table).0);
        let mut statement = self.connection.prepare(&sql).map_err(explain)?;
        let mut rows = statement.query([]).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let values: Vec<ValueRef<'_>> = (0..table.width() + own.len())
                .map(|column| value(row, column))
                .collect::<rusqlite::Result<_>>()
                .map_err(explain)?;
            if !is_recorded(self.connection, table, own, &values).map_err(explain)? {
                rejects::record_taken(self.connection, table, &values, own, self.at)?;
            }
        }
        Ok(())
    }
}

/// Whether a reject of the row has what lies in the columns of `own`.
fn is_recorded(
    connection: &Connection,
    table: &RemoteTable,
    own: &[String],
    row: &[ValueRef<'_>],
) -> rusqlite::Result<bool> {
    let key: Vec<Value> = table.key.iter().map(|key| row[key.position].to_owned()).collect();
    let mut statement = connection.prepare_cached(
        "SELECT row FROM syncline_reject WHERE table_name = ?1 AND key = ?2 AND row IS NOT NULL",
    )?;
    let mut rejects = statement.query([table.name(), &readable::key_json(table, &key)])?;
    while let Some(reject) = rejects.next()? {
        let text: String = reject.get(0)?;
        // What is no JSON has nothing of it.
        let stored = serde_json::from_str::<Json>(&text).unwrap_or_default();
        let mut values = own.iter().zip(row.iter().skip(table.width()));
        let has_all = values.all(|(name, value)| {
            matches!(value, ValueRef::Null) || stored.get(name) == Some(&json!(Readable(*value)))
        });
        if has_all {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where it is noted, and the trigger that does it.
fn names(table: &RemoteTable) -> (String, String) {
    let name = |what: &str| ident(&format!("syncline_{what}_{}", table.position));
    (name("gone"), name("going"))
}

/// What is as the table would fill it in was chosen by nobody. Only what goes while `noticed` holds
/// is noted.
fn watch_sql(table: &RemoteTable, own: &[OwnColumn], noticed: Option<&str>) -> String {
    let (gone, going) = names(table);
    let chosen = own.iter().map(|column| {
        let filled_in = column.default.as_deref().unwrap_or("NULL");
        format!("OLD.{} IS NOT {filled_in}", ident(&column.name))
    });
    let chosen: Vec<String> = chosen.collect();
    let columns = table.published.columns.iter().chain(own.iter().map(|column| &column.name));
    let (mut places, mut values) = (Vec::new(), Vec::new());
    for (at, name) in columns.enumerate() {
        places.push(format!("c{at}"));
        values.push(format!("OLD.{}", ident(name)));
    }
    format!(
        "CREATE TEMP TABLE {gone} ({});
         CREATE TEMP TRIGGER {going} BEFORE DELETE ON main.{} WHEN {} AND ({}) BEGIN
             INSERT INTO {gone} VALUES ({});
         END",
        list(places),
        ident(table.name()),
        noticed.unwrap_or("1"),
        chosen.join(" OR "),
        list(values),
    )
}
