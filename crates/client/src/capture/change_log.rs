//! Reads the entries of the change tables as changes.

mod entry;

pub(crate) use entry::{Change, Entry};

use crate::connection::explain;
use crate::schema::spelled::Forgetting;
use crate::schema::{Image, RemoteTable};
use crate::sql::{all, ident};
use entry::Layout;
use model::{Failure, Value};
use rusqlite::{Connection, OptionalExtension};
use std::ops::ControlFlow::{self, Break, Continue};

/// Creates the change table and the incoming table of `table`.
pub(crate) fn create(connection: &Connection, table: &RemoteTable) -> rusqlite::Result<()> {
    let keys = table.our_keys_sql("");
    let captured = if table.large_bits() == 0 { "" } else { ", \"captured\" INTEGER NOT NULL" };
    connection.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {} (\"generation\" INTEGER NOT NULL, {}, \
         \"existed\" INTEGER NOT NULL, \"again\" INTEGER NOT NULL DEFAULT 0, {}{captured}, \
         PRIMARY KEY (\"generation\", {keys})) WITHOUT ROWID",
        table.change_sql(),
        table.our_keys_declared(),
        table.images_sql("", Image::Old),
    ))?;
    create_incoming(connection, table)
}

/// Creates the incoming table of `table`.
pub(crate) fn create_incoming(
    connection: &Connection,
    table: &RemoteTable,
) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {} ({}, \"present\" INTEGER NOT NULL, {}, \
         PRIMARY KEY ({})) WITHOUT ROWID",
        table.incoming_sql(),
        table.our_keys_declared(),
        table.images_sql("", Image::Incoming),
        table.our_keys_sql(""),
    ))
}

/// Records every row that lies in the table as one that did not exist before.
pub(crate) fn record_all_rows(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<usize> {
    let (captured, zero) =
        if table.large_bits() == 0 { ("", "") } else { (", \"captured\"", ", 0") };
    let not_null: Vec<String> =
        table.key.iter().map(|key| format!("{} IS NOT NULL", ident(&key.name))).collect();
    connection.execute(
        &format!(
            "INSERT INTO {}(\"generation\", {}, \"existed\"{captured}) \
             SELECT ?1, {}, 0{zero} FROM {} WHERE {} ON CONFLICT DO NOTHING",
            table.change_sql(),
            table.our_keys_sql(""),
            table.keys_sql(""),
            table.table_sql(),
            all(not_null),
        ),
        [generation],
    )
}

/// The statements that forget a generation.
fn forgetting(table: &RemoteTable) -> Forgetting {
    let (change, incoming) = (table.change_sql(), table.incoming_sql());
    Forgetting {
        incoming: format!(
            "DELETE FROM {incoming} WHERE EXISTS (SELECT 1 FROM {change} AS c \
                 WHERE c.\"generation\" = ?1 AND {})",
            table.same_our_key("c.", &format!("{incoming}.")),
        ),
        // Two probes of the key; "differs" would read every entry.
        has_others: format!(
            "SELECT EXISTS (SELECT 1 FROM {change} WHERE \"generation\" > ?1) \
                 OR EXISTS (SELECT 1 FROM {change} WHERE \"generation\" < ?1)"
        ),
        generation: format!("DELETE FROM {change} WHERE \"generation\" = ?1"),
        all: format!("DELETE FROM {change}"),
    }
}

/// True when a generation of the table has entries.
pub(crate) fn has_entries(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<bool> {
    if !table.uploads() {
        return Ok(false);
    }
    let sql = table
        .collecting
        .has_entries
        .get_or_init(|| format!("SELECT 1 FROM {} WHERE \"generation\" = ?1", table.change_sql()));
    let found = connection.prepare_cached(sql)?.query_row([generation], |_| Ok(())).optional()?;
    Ok(found.is_some())
}

/// True when a generation of the table has entries of rows that existed before.
pub(crate) fn has_old_images(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {} WHERE \"generation\" = ?1 AND \"existed\" = 1)",
        table.change_sql()
    );
    connection.query_row(&sql, [generation], |row| row.get(0))
}

/// Deletes the frozen generation of one table, which was committed, and the rows that were
/// downloaded for it in the meantime. The server has the change now, and sends the result.
///
/// Nearly always no other generation has entries. Then the table is emptied as a whole, which
/// SQLite does page by page. A range would be deleted row by row, with the tree kept balanced.
pub(crate) fn drop_generation(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
) -> rusqlite::Result<()> {
    let sql = table.collecting.forget.get_or_init(|| forgetting(table));
    connection.prepare_cached(&sql.incoming)?.execute([generation])?;
    let has_others = connection
        .prepare_cached(&sql.has_others)?
        .query_row([generation], |row| row.get::<_, bool>(0))?;
    if has_others {
        connection.prepare_cached(&sql.generation)?.execute([generation])?;
    } else {
        connection.prepare_cached(&sql.all)?.execute([])?;
    }
    Ok(())
}

/// Merges the frozen generation of one table back into the open one, because it was not
/// committed. The older base wins, and its row was entered again if the newer entry says so, or
/// that there was no row. Large columns that only the newer entry captured had not
/// changed before, so they are the older base's too.
pub(crate) fn merge_back(
    connection: &Connection,
    table: &RemoteTable,
    frozen: i64,
    open: i64,
) -> rusqlite::Result<()> {
    let change = table.change_sql();
    let newer = format!(
        "FROM {change} AS n WHERE n.\"generation\" = ?2 AND {}",
        table.same_our_key("n.", &format!("{change}."))
    );
    let large = table.published.columns.iter().zip(&table.large);
    for (name, bit) in large.filter_map(|(name, bit)| bit.map(|bit| (name, 1u64 << bit))) {
        let old = Image::Old.column(name);
        connection.execute(
            &format!(
                "UPDATE {change} SET {old} = (SELECT n.{old} {newer}), \
                 \"captured\" = \"captured\" | {bit} \
                 WHERE \"generation\" = ?1 AND \"existed\" = 1 AND NOT \"captured\" & {bit} \
                 AND EXISTS (SELECT 1 {newer} AND n.\"captured\" & {bit})"
            ),
            [frozen, open],
        )?;
    }
    connection.execute(
        &format!(
            "UPDATE {change} SET \"again\" = 1 WHERE \"generation\" = ?1 AND \"existed\" = 1 \
             AND EXISTS (SELECT 1 {newer} AND (n.\"again\" OR NOT n.\"existed\"))"
        ),
        [frozen, open],
    )?;
    connection.execute(
        &format!(
            "DELETE FROM {change} WHERE \"generation\" = ?2 AND EXISTS \
             (SELECT 1 FROM {change} AS f WHERE f.\"generation\" = ?1 AND {})",
            table.same_our_key("f.", &format!("{change}.")),
        ),
        [frozen, open],
    )?;
    connection.execute(
        &format!("UPDATE {change} SET \"generation\" = ?2 WHERE \"generation\" = ?1"),
        [frozen, open],
    )?;
    Ok(())
}

/// A generation that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) generation: i64,
    /// The generation after it, if there is one.
    pub(crate) newer: Option<i64>,
}

/// Shows `visit` every entry of a generation, in key order. Stops at the first failure.
pub(crate) fn for_each(
    connection: &Connection,
    table: &RemoteTable,
    reading: Reading,
    visit: &mut dyn FnMut(&Entry<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let visit = &mut |entry: &Entry<'_>| visit(entry).map(Continue);
    for_each_until(connection, table, reading, visit).map(drop)
}

/// The same up to where `visit` breaks; says whether it has.
pub(crate) fn for_each_until(
    connection: &Connection,
    table: &RemoteTable,
    reading: Reading,
    visit: &mut dyn FnMut(&Entry<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<ControlFlow<()>, Failure> {
    let generation = reading.generation;
    // Nearly always nothing was changed since the freeze, and the join can be left out.
    let newer = match reading.newer {
        Some(newer) if has_entries(connection, table, newer).map_err(explain)? => Some(newer),
        _ => None,
    };
    let layout = Layout::new(table, newer.is_some());
    let mut statement = connection.prepare_cached(layout.spelled()).map_err(explain)?;
    statement.raw_bind_parameter(1, generation).map_err(explain)?;
    if let Some(newer) = newer {
        statement.raw_bind_parameter(2, newer).map_err(explain)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(explain)? {
        if visit(&Entry::new(row, layout).map_err(explain)?)?.is_break() {
            return Ok(Break(()));
        }
    }
    Ok(Continue(()))
}

/// Forgets what was captured of one row in `generation`, and what was downloaded for it.
pub(crate) fn forget(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    key: &[Value],
) -> rusqlite::Result<()> {
    let condition = table.our_key_is_parameter(1);
    let run = |sql: &str, generation: Option<i64>| {
        let mut statement = connection.prepare_cached(sql)?;
        for (n, value) in key.iter().enumerate() {
            crate::connection::bind(&mut statement, n + 1, value.as_ref())?;
        }
        if let Some(generation) = generation {
            statement.raw_bind_parameter(key.len() + 1, generation)?;
        }
        statement.raw_execute()
    };
    run(&format!("DELETE FROM {} WHERE {condition}", table.incoming_sql()), None)?;
    let at = key.len() + 1;
    let entry =
        format!("DELETE FROM {} WHERE {condition} AND \"generation\" = ?{at}", table.change_sql());
    run(&entry, Some(generation)).map(drop)
}

/// Rows of the table that exist and have an entry `c` in `generation` of this kind.
pub(crate) fn live_entries(
    connection: &Connection,
    table: &RemoteTable,
    generation: i64,
    kind: &str,
) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(&format!(
            "SELECT count(*) FROM {} AS c JOIN {} AS t ON {} \
             WHERE c.\"generation\" = ?1 AND {kind}",
            table.change_sql(),
            table.table_sql(),
            table.same_key("t.", "c."),
        ))?
        .query_row([generation], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[test]
    fn collecting_looks_up_the_changed_rows_and_no_others() {
        for key in
            ["id INTEGER PRIMARY KEY", "id TEXT PRIMARY KEY COLLATE NOCASE", "id PRIMARY KEY"]
        {
            let mut site = Site::new(&format!("CREATE TABLE t({key}, v)"));
            let tables = site.tables();
            for with_newer in [false, true] {
                let sql = Layout::new(&tables[0], with_newer).sql();
                let plan =
                    format!("EXPLAIN QUERY PLAN {}", sql.replace("?1", "1").replace("?2", "2"));
                for line in site.rows(&plan) {
                    assert!(!line.contains("SCAN"), "{key}: {line}");
                }
            }
        }
    }
}
