//! Records every change of a table: a log, and the triggers that write it.
//!
//! An entry is the key of a row that was inserted, updated or deleted. A download looks up the row:
//! if it does not exist, it was deleted. The triggers use only built-in functions, so that they run
//! in any program that writes to the file.
//!
//! If rows of the table decide what a partition covers, the log also has the *place* of a row
//! before it was deleted, moved or got another key. It says which entries are of that kind, so that
//! an ordinary update of a parent is not taken for a move. Other entries have a place only if the
//! log is searched by it: the new place of the row.
//!
//! Trap 9: `REPLACE` removes rows without firing delete triggers. The insert itself logs the row
//! with the same key. Rows that conflict in other UNIQUE indexes are logged before it.

use super::errors::failed;
use crate::deploy::TableFacts;
use crate::quote::{ident, idents, join};
use crate::selection::place_column;
use crate::sqlite::deploy::tables::{UniqueIndex, UserTable};
use crate::sqlite::download::runs;
use log_table::{Kept, MOVED, SEQUENCE, kept_column, log_name};
use object::Object;
pub(super) mod firing;
pub(super) mod log_table;
pub(super) mod object;

use model::Failure;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// The log of a table and its triggers, with what is `kept`; none if departures are not needed.
pub(super) fn objects(table: &UserTable, kept: Option<&Kept>) -> Vec<Object> {
    let place = kept.map(|kept| kept.place.iter().cloned().collect::<Vec<_>>());
    let place = place.as_deref();
    let sought = kept.map(|kept| &kept.sought);
    let log = Log { table, place, sought };
    let mut objects = vec![log.table()];
    objects.extend(kept.and_then(|kept| runs::object(table, kept)));
    objects.push(log.trigger("insert", "AFTER INSERT", vec![log.note("NEW", Kind::Came)]));
    objects.push(log.trigger("update", "AFTER UPDATE", vec![log.note("NEW", Kind::Updated)]));
    objects.push(log.moved());
    objects.push(log.trigger("delete", "AFTER DELETE", vec![log.note("OLD", Kind::Went)]));
    let (mut by_insert, mut by_update) = (Vec::new(), Vec::new());
    let mut watched = unique_columns(table);
    if let Some(place) = place {
        // Elsewhere the entry of the new row tells enough about the one with its key.
        if !place.is_empty() {
            let moves = log.differs(place, &ident(&table.name));
            by_insert.push(log.replaced(&format!("{} AND ({moves})", log.has_new_key())));
        }
        let another = format!("{} AND NOT ({})", log.has_new_key(), log.key_stays());
        by_update.push(log.replaced(&another));
        let more = table.key.iter().filter(|column| !watched.contains(column));
        watched.extend(more.cloned().collect::<Vec<_>>());
    }
    for same in table.uniques.iter().filter_map(|unique| log.has_new_values(unique)) {
        let (insert, update) = match place {
            None => (same.clone(), same),
            // What the row itself becomes is not to look like a departure.
            Some(_) => (
                format!("{same} AND NOT ({})", log.has_new_key()),
                format!("{same} AND NOT ({})", log.has_old_key()),
            ),
        };
        by_insert.push(log.replaced(&insert));
        by_update.push(log.replaced(&update));
    }
    if !by_insert.is_empty() {
        objects.push(log.trigger("replace", "BEFORE INSERT", by_insert));
    }
    if !by_update.is_empty() {
        let before_update = format!("BEFORE UPDATE{}", log.of(&watched));
        objects.push(log.trigger("displace", &before_update, by_update));
    }
    objects
}

/// What happened to the row of an entry.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Came,
    Updated,
    MovedAway,
    Went,
}

struct Log<'a> {
    table: &'a UserTable,
    place: Option<&'a [String]>,
    sought: Option<&'a BTreeSet<String>>,
}

impl Log<'_> {
    fn table(&self) -> Object {
        let table = self.table;
        let name = log_name(&table.name);
        let mut columns = vec![format!("{SEQUENCE} INTEGER PRIMARY KEY")];
        columns.extend(table.key.iter().map(|name| kept_column(table, name, name)));
        if let Some(place) = self.place {
            let kept = place.iter().map(|name| kept_column(table, name, &place_column(name)));
            columns.extend(kept);
            columns.push(format!("{MOVED} INTEGER"));
        }
        let sql = format!("CREATE TABLE {} ({})", ident(&name), columns.join(", "));
        Object { kind: "TABLE", name, table: table.name.clone(), sql }
    }

    fn trigger(&self, event: &str, when: &str, statements: Vec<String>) -> Object {
        self.guarded_trigger(event, when, "", statements)
    }

    fn guarded_trigger(
        &self,
        event: &str,
        when: &str,
        guard: &str,
        statements: Vec<String>,
    ) -> Object {
        let name = format!("syncline_{event}_{}", self.table.name);
        let body: String = statements.iter().map(|s| format!("    {s};\n")).collect();
        let sql = format!(
            "CREATE TRIGGER {} {when} ON {}\n{guard}BEGIN\n{body}END",
            ident(&name),
            ident(&self.table.name)
        );
        Object { kind: "TRIGGER", name, table: self.table.name.clone(), sql }
    }

    /// Notes that a row is no longer where it was, or what it was. A trigger of its own: statements
    /// that set neither key nor place do not pay for it.
    fn moved(&self) -> Object {
        let mut columns = self.table.key.clone();
        columns.extend(self.place.into_iter().flatten().cloned());
        let differs = self.differs(&columns, "OLD");
        let when = format!("AFTER UPDATE{}", self.of(&columns));
        let note = vec![self.note("OLD", Kind::MovedAway)];
        self.guarded_trigger("moved", &when, &format!("WHEN {differs}\n"), note)
    }

    /// The clause for updates that set one of `columns`. SQLite compares the names in the
    /// statement, so a key that is the rowid has all of its names. A computed column is never set:
    /// where one is among them, every update counts.
    fn of(&self, columns: &[String]) -> String {
        let among = |name: &String| self.table.column(name).is_some_and(|column| column.generated);
        if columns.iter().any(among) {
            return String::new();
        }
        let rowid = self.table.rowid_key().is_some_and(|key| columns.iter().any(|c| c == key));
        let others = if rowid { ", rowid, _rowid_, oid" } else { "" };
        format!(" OF {}{others}", idents("", columns))
    }

    /// The statement that appends an entry for `row`, which is NEW or OLD.
    fn note(&self, row: &str, kind: Kind) -> String {
        let key = idents(&format!("{row}."), &self.table.key);
        let Some(place) = self.place else {
            return format!("{} VALUES ({key})", self.into());
        };
        let (into, old) = (self.into(), self.place_values(place, row));
        let new: String = place
            .iter()
            .map(|column| match self.sought.is_some_and(|sought| sought.contains(column)) {
                true => format!(", NEW.{}", ident(column)),
                false => ", NULL".into(),
            })
            .collect();
        match kind {
            Kind::Came => format!("{into} VALUES ({key}{new}, 2)"),
            Kind::Updated => {
                let moved_key = self.differs(&self.table.key, "OLD");
                format!("{into} VALUES ({key}{new}, CASE WHEN {moved_key} THEN 2 END)")
            }
            Kind::Went | Kind::MovedAway => format!("{into} VALUES ({key}{old}, 1)"),
        }
    }

    /// Logs the rows of this condition, which REPLACE would remove. The condition of a partial
    /// index is left out: an entry too many does no harm.
    fn replaced(&self, condition: &str) -> String {
        let table = ident(&self.table.name);
        let place = self.place.map(|place| format!("{}, 1", self.place_values(place, &table)));
        format!(
            "{} SELECT {}{} FROM {table} WHERE {condition}",
            self.into(),
            idents("", &self.table.key),
            place.unwrap_or_default(),
        )
    }

    /// Nothing can go wrong with an entry. `FAIL` tells SQLite so: where a trigger may abort its
    /// statement, a DELETE keeps a journal for each row, which costs more than all the rest.
    fn into(&self) -> String {
        let mut columns = idents("", &self.table.key);
        if let Some(place) = self.place {
            columns.extend(place.iter().map(|name| format!(", {}", ident(&place_column(name)))));
            columns.push_str(&format!(", {MOVED}"));
        }
        format!("INSERT OR FAIL INTO {} ({columns})", ident(&log_name(&self.table.name)))
    }

    fn place_values(&self, place: &[String], row: &str) -> String {
        place.iter().map(|column| format!(", {row}.{}", ident(column))).collect()
    }

    /// The new row differs from `other` in one of these columns.
    fn differs(&self, columns: &[String], other: &str) -> String {
        join(columns, " OR ", |column| {
            let column = ident(column);
            format!("NEW.{column} COLLATE BINARY IS NOT {other}.{column}")
        })
    }

    fn has_new_key(&self) -> String {
        self.key(|column| format!("{column} = NEW.{column}"))
    }

    fn has_old_key(&self) -> String {
        self.key(|column| format!("{column} IS OLD.{column}"))
    }

    fn key_stays(&self) -> String {
        self.key(|column| format!("NEW.{column} IS OLD.{column}"))
    }

    fn key(&self, form: impl Fn(&str) -> String) -> String {
        join(&self.table.key, " AND ", |column| form(&ident(column)))
    }

    /// The same values in all columns of an index, under its collations; none where it has
    /// expressions.
    fn has_new_values(&self, unique: &UniqueIndex) -> Option<String> {
        let columns: Option<Vec<_>> = unique.columns.iter().cloned().collect();
        let same = columns?.into_iter().map(|(column, collation)| {
            let column = ident(&column);
            format!("{column} = NEW.{column} COLLATE {}", ident(&collation))
        });
        Some(same.collect::<Vec<_>>().join(" AND "))
    }
}

/// What the log of `table` keeps, as it was deployed.
pub(super) fn deployed(
    connection: &Connection,
    table: &UserTable,
) -> Result<Option<Kept>, Failure> {
    let columns = runs::columns_of(connection, &log_name(&table.name));
    let columns = columns.map_err(failed("describe a log"))?;
    if !columns.iter().any(|column| column == MOVED) {
        return Ok(None);
    }
    let own = |column: &str| column.strip_prefix(&place_column("")).map(str::to_owned);
    Ok(Some(Kept {
        place: columns.iter().filter_map(|column| own(column)).collect(),
        sought: runs::deployed(connection, &table.name)?.into_iter().collect(),
    }))
}

/// Columns of UNIQUE indexes, each once.
pub(super) fn unique_columns(table: &UserTable) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for (column, _) in table.uniques.iter().flat_map(|unique| unique.columns.iter().flatten()) {
        if !columns.contains(column) {
            columns.push(column.clone());
        }
    }
    columns
}
