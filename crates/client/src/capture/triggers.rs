//! The triggers that capture, as SQL: built-in functions only, for SQLite 3.40 and later.
//!
//! Every trigger that records a base fires *before* its event and records the unchanged row.
//! Recording after the event would fail if the table has a trigger of its own that changes the same
//! row, such as one that sets a modification time. If that trigger fires first, its nested update
//! would be recorded as the base, and the real base would be lost.
//!
//! `INSERT OR REPLACE` removes rows without firing a delete trigger (trap 9). So inserts and
//! updates record the rows that REPLACE would remove: those with the same key, and those with equal
//! values in a UNIQUE index. Recording too many rows is harmless, because an unchanged row is no
//! change. So the condition of a partial index is ignored. Indexes over expressions cannot be
//! followed.
//!
//! Each statement ends in `ON CONFLICT DO NOTHING`, never in `INSERT OR IGNORE`: SQLite replaces
//! the latter by the conflict rule of the statement that fired the trigger. The one for a new key
//! ends in `ON CONFLICT DO UPDATE`, which marks the entry of a row that was deleted.

mod create;

use super::generation::GENERATION;
use crate::schema::{Image, KeyColumn, RemoteTable};
use crate::sql::{all, ident, list, literal};
use create::{Missing, create};
use rusqlite::{Connection, Rows};
use std::collections::HashMap;

/// The events with a trigger each, in the names `syncline_<event>_T`.
const EVENTS: [&str; 5] = ["insert", "inserted", "update", "move", "delete"];

/// The triggers of Syncline that the file holds, by name.
///
/// A look for one trigger reads the whole schema of the file. With a thousand tables that is done
/// once for all of them.
pub(crate) struct Installed(HashMap<String, Found>);

struct Found {
    table: String,
    sql: String,
}

impl Installed {
    /// Those of all tables.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Installed> {
        let mut statement = connection.prepare_cached(
            "SELECT name, tbl_name, sql FROM sqlite_schema
             WHERE type = 'trigger' AND name LIKE 'syncline\\_%' ESCAPE '\\'",
        )?;
        Installed::of_rows(statement.query([])?)
    }

    fn of_rows(mut rows: Rows<'_>) -> rusqlite::Result<Installed> {
        let mut installed = HashMap::new();
        while let Some(row) = rows.next()? {
            installed.insert(row.get(0)?, Found { table: row.get(1)?, sql: row.get(2)? });
        }
        Ok(Installed(installed))
    }

    fn get(&self, event: &str, table: &RemoteTable) -> Option<&Found> {
        self.0.get(&trigger_name(event, table.name()))
    }

    /// Whether the table has exactly the triggers that it should have.
    pub(crate) fn are_right(&self, table: &RemoteTable) -> bool {
        let wanted = statements(table);
        EVENTS.iter().all(|event| {
            let wanted = wanted.iter().find(|trigger| trigger.event == *event);
            self.get(event, table).map(|found| &found.sql) == wanted.map(|trigger| &trigger.sql)
        })
    }

    /// Whether changes of the table may have been missed: a trigger that records bases is missing,
    /// or belongs to another table now. Both happen when the table is created again under its name.
    pub(crate) fn were_lost(&self, table: &RemoteTable) -> bool {
        ["insert", "update", "delete"].iter().any(|event| {
            let found = self.get(event, table);
            !found.is_some_and(|found| found.table.eq_ignore_ascii_case(table.name()))
        })
    }

    /// Makes the triggers of tables what they should be: creates missing ones, replaces others.
    pub(crate) fn ensure<'t>(
        &self,
        connection: &Connection,
        tables: impl IntoIterator<Item = &'t RemoteTable>,
    ) -> rusqlite::Result<()> {
        let mut missing = Vec::new();
        for table in tables {
            let mut wanted = statements(table);
            for event in EVENTS {
                let at = wanted.iter().position(|trigger| trigger.event == event);
                let wanted = at.map(|at| wanted.swap_remove(at).sql);
                let found = self.get(event, table).map(|found| &found.sql);
                if found == wanted.as_ref() {
                    continue;
                }
                let name = trigger_name(event, table.name());
                if found.is_some() {
                    connection.execute_batch(&format!("DROP TRIGGER {}", ident(&name)))?;
                }
                missing.extend(wanted.map(|sql| Missing { name, table: table.name(), sql }));
            }
        }
        create(connection, &missing)
    }
}

/// Removes the table's triggers.
pub(crate) fn drop_all(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    for event in EVENTS {
        let name = ident(&trigger_name(event, table));
        connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {name}"))?;
    }
    Ok(())
}

fn trigger_name(event: &str, table: &str) -> String {
    format!("syncline_{event}_{table}")
}

struct Trigger {
    event: &'static str,
    sql: String,
}

fn statements(table: &RemoteTable) -> Vec<Trigger> {
    if !table.uploads() {
        return refuse_changes(table);
    }
    let mut triggers = vec![before_insert(table), before_update(table), before_move(table)];
    if table.key_is_rowid {
        triggers.push(after_insert(table));
    }
    triggers.push(before_delete(table));
    triggers
}

fn trigger(table: &RemoteTable, event: &'static str, when: &str, body: Vec<String>) -> Trigger {
    let name = ident(&trigger_name(event, table.name()));
    let body: String = body.iter().map(|statement| format!("  {statement};\n")).collect();
    let sql = format!("CREATE TRIGGER {name} {when}\nBEGIN\n{body}END");
    Trigger { event, sql }
}

fn refuse_changes(table: &RemoteTable) -> Vec<Trigger> {
    let message = literal(&format!("syncline: table {} is download only", table.name()));
    ["insert", "update", "delete"]
        .map(|event| {
            let when = format!("BEFORE {} ON {}", event.to_uppercase(), table.table_sql());
            trigger(table, event, &when, vec![format!("SELECT RAISE(ABORT, {message})")])
        })
        .into()
}

// === the five triggers ===

fn before_insert(table: &RemoteTable) -> Trigger {
    let mut body = record_rows(table, &key_equals(table, "NEW."));
    // A key that SQLite will choose reads as -1 here; the next one it will choose is foreseen.
    let new_key = if table.key_is_rowid {
        let key = ident(&table.key[0].name);
        format!("CASE NEW.{key} WHEN -1 THEN {} ELSE NEW.{key} END", next_rowid(table))
    } else {
        table.keys_sql("NEW.")
    };
    body.push(record_new_key(table, &new_key, &not_null(table, "NEW."), &mark_again(table)));
    body.extend(refuse_another_spelling(table));
    for index in unique_matches(table) {
        body.extend(record_rows(table, &index));
    }
    trigger(table, "insert", &format!("BEFORE INSERT ON {}", table.table_sql()), body)
}

/// For the rare rowid that was not foreseen, such as a random one beyond the largest.
fn after_insert(table: &RemoteTable) -> Trigger {
    let body = vec![record_new_key(table, &table.keys_sql("NEW."), "", "NOTHING")];
    trigger(table, "inserted", &format!("AFTER INSERT ON {}", table.table_sql()), body)
}

fn before_update(table: &RemoteTable) -> Trigger {
    let captured = if table.large_bits() == 0 { "" } else { ", 0" };
    let old: Vec<String> = table
        .published
        .columns
        .iter()
        .zip(&table.large)
        .map(|(name, large)| match large {
            Some(_) => "NULL".into(),
            None => format!("OLD.{}", ident(name)),
        })
        .collect();
    let mut body = vec![format!(
        "INSERT INTO {}({}) VALUES ({GENERATION}, {}, 1, {}{captured}) ON CONFLICT DO NOTHING",
        table.change_sql(),
        entry_columns(table),
        table.keys_sql("OLD."),
        list(old),
    )];
    body.extend(complete_updated(table));
    let when = format!("BEFORE UPDATE ON {}{}", table.table_sql(), when_not_null(table, "OLD."));
    trigger(table, "update", &when, body)
}

/// Updates that may give the row another key, or put others out of its way.
fn before_move(table: &RemoteTable) -> Trigger {
    let own = format!("({}) IS NOT 1", key_equals_old(table));
    let moved = format!("({}) IS NOT 1", same_new_and_old_key(table));
    let others = |matches: &str| format!("{matches} AND {own}");
    let mut body = vec![refuse_key_change(table)];
    body.extend(record_rows(table, &others(&key_equals(table, "NEW."))));
    let guard = match not_null(table, "NEW.") {
        guard if guard.is_empty() => moved,
        guard => format!("{guard} AND {moved}"),
    };
    body.push(record_new_key(table, &table.keys_sql("NEW."), &guard, &mark_again(table)));
    body.extend(refuse_another_spelling(table));
    let mut columns = key_idents(table);
    for (index, matches) in table.unique.iter().zip(unique_matches(table)) {
        body.extend(record_rows(table, &others(&matches)));
        columns.extend(index.iter().map(|column| ident(&column.name)));
    }
    columns.extend(rowid_names(table));
    columns.sort();
    columns.dedup();
    let computed = table.unique.iter().flatten().any(|column| column.generated);
    let of = if computed { String::new() } else { format!(" OF {}", list(columns)) };
    let when = format!("BEFORE UPDATE{of} ON {}", table.table_sql());
    trigger(table, "move", &when, body)
}

/// The statement that refuses another key, or another spelling of it, for a row that the center
/// knows or may know: one that was there when the generation began. A row that was inserted since
/// may get another key, because its insert is uploaded with the key that it has then.
fn refuse_key_change(table: &RemoteTable) -> String {
    let message = literal(&format!(
        "syncline: the key of a synchronized row of table {} cannot change; \
         delete the row and insert it again",
        table.name()
    ));
    let differs = table.key.iter().map(|key| {
        let name = ident(&key.name);
        is_spelled_differently(&format!("OLD.{name}"), &format!("NEW.{name}"))
    });
    let guard = match not_null(table, "OLD.") {
        guard if guard.is_empty() => guard,
        guard => format!("{guard} AND "),
    };
    format!(
        "SELECT RAISE(ABORT, {message}) WHERE {guard}({}) AND NOT EXISTS (SELECT 1 FROM {} \
         WHERE \"generation\" = {GENERATION} AND {} AND \"existed\" = 0)",
        differs.collect::<Vec<_>>().join(" OR "),
        table.change_sql(),
        table.our_key_is_of("OLD."),
    )
}

/// The statement that refuses to insert a row that the center knows in another spelling of its
/// key, after it was deleted here, be it in an upload whose outcome is unknown. None where equal
/// keys are spelled in one way.
fn refuse_another_spelling(table: &RemoteTable) -> Option<String> {
    if table.key.iter().all(KeyColumn::is_exact) {
        return None;
    }
    let message = literal(&format!(
        "syncline: a row of table {} was synchronized with this key in another spelling, \
         which cannot change",
        table.name()
    ));
    let differs = table.key.iter().map(|key| {
        is_spelled_differently(&Image::Old.column(&key.name), &format!("NEW.{}", ident(&key.name)))
    });
    Some(format!(
        "SELECT RAISE(ABORT, {message}) FROM {} WHERE \"generation\" IN ({GENERATION}, \
         {GENERATION} - 1) AND {} AND \"existed\" = 1 AND ({})",
        table.change_sql(),
        table.our_key_is_of("NEW."),
        differs.collect::<Vec<_>>().join(" OR "),
    ))
}

fn is_spelled_differently(old: &str, new: &str) -> String {
    format!("({old} COLLATE BINARY IS NOT {new} OR typeof({old}) IS NOT typeof({new}))")
}

fn key_idents(table: &RemoteTable) -> Vec<String> {
    table.key.iter().map(|key| ident(&key.name)).collect()
}

/// `UPDATE t SET rowid = …` changes the key without naming its column.
fn rowid_names(table: &RemoteTable) -> impl Iterator<Item = String> {
    ["rowid", "_rowid_", "oid"].into_iter().filter(|_| table.key_is_rowid).map(ident)
}

fn before_delete(table: &RemoteTable) -> Trigger {
    let bits = table.large_bits();
    let captured = if bits == 0 { String::new() } else { format!(", {bits}") };
    let mut body = vec![format!(
        "INSERT INTO {}({}) VALUES ({GENERATION}, {}, 1, {}{captured}) ON CONFLICT DO NOTHING",
        table.change_sql(),
        entry_columns(table),
        table.keys_sql("OLD."),
        table.columns_sql("OLD."),
    )];
    if bits != 0 {
        let values = |column: &str| format!("OLD.{column}");
        body.push(complete(table, &table.our_key_is_of("OLD."), values));
    }
    let when = format!("BEFORE DELETE ON {}{}", table.table_sql(), when_not_null(table, "OLD."));
    trigger(table, "delete", &when, body)
}

// === statements ===

fn entry_columns(table: &RemoteTable) -> String {
    let captured = if table.large_bits() == 0 { "" } else { ", \"captured\"" };
    format!(
        "\"generation\", {}, \"existed\", {}{captured}",
        table.our_keys_sql(""),
        table.images_sql("", Image::Old)
    )
}

/// Records the rows that meet `condition` as they are, large columns included.
fn record_rows(table: &RemoteTable, condition: &str) -> Vec<String> {
    let (name, bits) = (table.table_sql(), table.large_bits());
    let captured = if bits == 0 { String::new() } else { format!(", {bits}") };
    let condition = match not_null(table, "") {
        guard if guard.is_empty() => condition.to_owned(),
        guard => format!("{condition} AND {guard}"),
    };
    let mut statements = vec![format!(
        "INSERT INTO {}({}) SELECT {GENERATION}, {}, 1, {}{captured} FROM {name} \
         WHERE {condition} ON CONFLICT DO NOTHING",
        table.change_sql(),
        entry_columns(table),
        table.keys_sql(""),
        table.columns_sql(""),
    )];
    if bits != 0 {
        let change = table.change_sql();
        let same_key = table.same_key(&format!("{name}."), &format!("{change}."));
        let live = |column: &str| format!("(SELECT {column} FROM {name} WHERE {same_key})");
        let keys = format!(
            "({}) IN (SELECT {} FROM {name} WHERE {condition})",
            table.our_keys_sql(""),
            table.keys_sql("")
        );
        statements.push(complete(table, &keys, live));
    }
    statements
}

/// Records that there was no row with this key, or does what is told if there is an entry.
fn record_new_key(table: &RemoteTable, key: &str, guard: &str, on_conflict: &str) -> String {
    let (captured, zero) =
        if table.large_bits() == 0 { ("", "") } else { (", \"captured\"", ", 0") };
    let source = match guard {
        "" => format!("VALUES ({GENERATION}, {key}, 0{zero})"),
        guard => format!("SELECT {GENERATION}, {key}, 0{zero} WHERE {guard}"),
    };
    format!(
        "INSERT INTO {}(\"generation\", {}, \"existed\"{captured}) {source} \
         ON CONFLICT DO {on_conflict}",
        table.change_sql(),
        table.our_keys_sql(""),
    )
}

/// Marks the entry of a row that was there before and is gone now: it is entered again.
fn mark_again(table: &RemoteTable) -> String {
    let (change, name) = (table.change_sql(), table.table_sql());
    format!(
        "UPDATE SET \"again\" = 1 WHERE \"existed\" = 1 \
         AND NOT EXISTS (SELECT 1 FROM {name} WHERE {})",
        table.same_key(&format!("{name}."), &format!("{change}.")),
    )
}

/// Adds the large columns that entries lack, because their rows are about to go.
fn complete(table: &RemoteTable, keys: &str, value: impl Fn(&str) -> String) -> String {
    let sets = large_columns(table).map(|(name, bit)| {
        let old = Image::Old.column(name);
        let value = value(&ident(name));
        format!("{old} = CASE WHEN \"captured\" & {} THEN {old} ELSE {value} END", 1u64 << bit)
    });
    let bits = table.large_bits();
    format!(
        "UPDATE {} SET {}, \"captured\" = {bits} WHERE \"generation\" = {GENERATION} AND {keys} \
         AND \"existed\" = 1 AND \"captured\" <> {bits}",
        table.change_sql(),
        list(sets),
    )
}

/// Adds the large columns that the update changes: one statement each, so that an update that
/// leaves them alone reads none of them.
fn complete_updated(table: &RemoteTable) -> Vec<String> {
    let moved = format!("({}) IS NOT 1", same_new_and_old_key(table));
    large_columns(table)
        .map(|(name, bit)| {
            let (column, old, bit) = (ident(name), Image::Old.column(name), 1u64 << bit);
            format!(
                "UPDATE {} SET {old} = OLD.{column}, \"captured\" = \"captured\" | {bit} \
                 WHERE \"generation\" = {GENERATION} AND {} AND \"existed\" = 1 \
                 AND NOT \"captured\" & {bit} \
                 AND (OLD.{column} COLLATE BINARY IS NOT NEW.{column} \
                 OR typeof(OLD.{column}) IS NOT typeof(NEW.{column}) OR {moved})",
                table.change_sql(),
                table.our_key_is_of("OLD."),
            )
        })
        .collect()
}

// === conditions ===

fn large_columns(table: &RemoteTable) -> impl Iterator<Item = (&str, u32)> {
    table
        .published
        .columns
        .iter()
        .zip(&table.large)
        .filter_map(|(name, bit)| bit.map(|bit| (name.as_str(), bit)))
}

fn key_equals(table: &RemoteTable, row: &str) -> String {
    all(table.key.iter().map(|key| {
        let name = ident(&key.name);
        format!("{name} = {row}{name}{}", key.collate())
    }))
}

fn key_equals_old(table: &RemoteTable) -> String {
    key_equals(table, "OLD.")
}

fn same_new_and_old_key(table: &RemoteTable) -> String {
    all(table.key.iter().map(|key| {
        let name = ident(&key.name);
        format!("NEW.{name} = OLD.{name}{}", key.collate())
    }))
}

/// Per UNIQUE index: the rows that have the values of NEW. As in the index, NULL equals nothing.
fn unique_matches(table: &RemoteTable) -> Vec<String> {
    let matches = |index: &Vec<crate::schema::UniqueColumn>| {
        all(index.iter().map(|column| {
            let name = ident(&column.name);
            format!("{name} = NEW.{name} COLLATE {}", ident(&column.collation))
        }))
    };
    table.unique.iter().map(matches).collect()
}

/// Rows with NULL in the key have no identity and are not captured.
fn not_null(table: &RemoteTable, row: &str) -> String {
    let nullable = table.key.iter().filter(|key| key.nullable);
    all(nullable.map(|key| format!("{row}{} IS NOT NULL", ident(&key.name))))
}

fn when_not_null(table: &RemoteTable, row: &str) -> String {
    match not_null(table, row) {
        guard if guard.is_empty() => guard,
        guard => format!(" WHEN {guard}"),
    }
}

fn next_rowid(table: &RemoteTable) -> String {
    let (name, key) = (table.table_sql(), ident(&table.key[0].name));
    let largest = format!("coalesce((SELECT max({key}) FROM {name}), 0)");
    if table.autoincrement {
        let used = format!(
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = {}), 0)",
            literal(table.name())
        );
        return format!("max({largest}, {used}) + 1");
    }
    format!("{largest} + 1")
}
