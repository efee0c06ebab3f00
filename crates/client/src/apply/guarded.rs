//! Rows that a download does not delete, because a row refers to them that cannot go.
//!
//! A row in a table of the user's own is never uploaded. And a change may have to wait for the
//! download, or until the center has its table again. So the row that it refers to cannot be
//! deleted without breaking a foreign key, however often the remote synchronizes. The download is
//! applied once more: these rows, and all rows to which they refer, directly or not, stay. Their
//! deletes are kept back (`apply/kept_back.rs`), and the next download begins in this way. They get
//! the values that come, unless others may refer to these.

use super::circumstances::Circumstances;
use super::{incoming, rejects};
use crate::connection::{explain, value};
use crate::schema::reference::{Clinging, Reference};
use crate::schema::{RemoteTable, reference};
use crate::sql::ident;
use model::{Failure, Value};
use rusqlite::Connection;

/// The table that holds the keys of guarded rows.
pub(super) fn guarded_sql(table: &RemoteTable) -> String {
    ident(&format!("syncline_guarded_{}", table.position))
}

/// Finds a key among the guarded ones. The last parameter is a generation, which does not matter.
pub(super) fn is_guarded_sql(table: &RemoteTable) -> String {
    format!(
        "SELECT 1 FROM temp.{} WHERE {} AND ?{} IS NOT NULL",
        guarded_sql(table),
        table.our_key_is_parameter(1),
        table.key.len() + 1
    )
}

/// Finds a key among those of what is kept back.
pub(super) fn is_kept_sql(table: &RemoteTable) -> String {
    format!("SELECT 1 FROM {} WHERE {}", table.incoming_sql(), table.our_key_is_parameter(1))
}

/// Notes the keys of the rows that stay as they are.
pub(super) fn begin(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    let tables = circumstances.tables;
    let run = |sql: &str| connection.execute(sql, []).map_err(explain);
    for table in tables {
        incoming::create(connection, table)?;
        let guarded = guarded_sql(table);
        run(&format!("DROP TABLE IF EXISTS temp.{guarded}"))?;
        run(&format!(
            "CREATE TEMP TABLE {guarded} ({}, \"held_by\" TEXT, PRIMARY KEY ({})) WITHOUT ROWID",
            table.our_keys_declared(),
            table.our_keys_sql(""),
        ))?;
    }
    let references = reference::references(connection, tables).map_err(explain)?;
    for Clinging { child, reference } in reference::unpublished_references(connection, tables)? {
        let held_by = quoted(&child);
        add_parents(connection, tables, &reference, &held_by, &format!("{} AS c", ident(&child)))?;
    }
    add_ancestors(connection, tables, &references)?;
    for table in tables {
        let guarded = guarded_sql(table);
        // What was kept back before was reported then.
        run(&format!(
            "UPDATE temp.{guarded} SET \"held_by\" = NULL WHERE EXISTS \
             (SELECT 1 FROM {} AS i WHERE {} AND NOT i.\"present\")",
            table.incoming_sql(),
            table.same_our_key("i.", &format!("{guarded}.")),
        ))?;
        if circumstances.uploads.have_to_wait() && table.uploads() {
            run(&format!(
                "INSERT OR IGNORE INTO temp.{guarded} SELECT {}, NULL FROM {} \
                 WHERE \"generation\" = {}",
                table.our_keys_sql(""),
                table.change_sql(),
                circumstances.open_generation,
            ))?;
        }
    }
    add_ancestors(connection, tables, &references)
}

/// Tells of the rows that should have gone with this download, and stay because a row of a table
/// that is not published refers to them. Otherwise they would lie here in silence.
pub(super) fn tell(
    connection: &Connection,
    circumstances: &Circumstances<'_>,
) -> Result<(), Failure> {
    for table in circumstances.tables {
        let sql = format!(
            "SELECT {}, g.\"held_by\" FROM temp.{} AS g JOIN {} AS i ON {} \
             WHERE g.\"held_by\" IS NOT NULL AND NOT i.\"present\"",
            table.our_keys_sql("g."),
            guarded_sql(table),
            table.incoming_sql(),
            table.same_our_key("i.", "g."),
        );
        let read = || -> rusqlite::Result<()> {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let key: rusqlite::Result<Vec<Value>> =
                    (0..table.key.len()).map(|n| Ok(value(row, n)?.to_owned())).collect();
                let held_by: String = row.get(table.key.len())?;
                let why = format!("{held_by} refers to it here");
                rejects::record_held(connection, table, &key?, &why, circumstances.at)?;
            }
            Ok(())
        };
        read().map_err(explain)?;
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}

fn add_ancestors(
    connection: &Connection,
    tables: &[RemoteTable],
    references: &[Reference],
) -> Result<(), Failure> {
    // Every round but the last adds a row.
    loop {
        let mut added = 0;
        for reference in references {
            let child = &tables[reference.child];
            let guarded = format!(
                "temp.{} AS g JOIN {} AS c ON {}",
                guarded_sql(child),
                child.table_sql(),
                child.same_key("c.", "g.")
            );
            added += add_parents(connection, tables, reference, "g.\"held_by\"", &guarded)?;
        }
        if added == 0 {
            return Ok(());
        }
    }
}

/// Guards the rows that `children`, rows called `c`, refer to, and notes who holds them.
fn add_parents(
    connection: &Connection,
    tables: &[RemoteTable],
    reference: &Reference,
    held_by: &str,
    children: &str,
) -> Result<usize, Failure> {
    let Some(parent) = reference.parent_at.map(|at| &tables[at]) else { return Ok(0) };
    let sql = format!(
        "INSERT OR IGNORE INTO temp.{} SELECT {}, {held_by} FROM {children} JOIN {} AS p ON {}",
        guarded_sql(parent),
        parent.keys_sql("p."),
        parent.table_sql(),
        reference.same(),
    );
    connection.execute(&sql, []).map_err(explain)
}

/// Forgets them, where they were noted.
pub(super) fn end(connection: &Connection, tables: &[RemoteTable]) -> Result<(), Failure> {
    for table in tables {
        let sql = format!("DROP TABLE IF EXISTS temp.{}", guarded_sql(table));
        connection.execute_batch(&sql).map_err(explain)?;
    }
    Ok(())
}
