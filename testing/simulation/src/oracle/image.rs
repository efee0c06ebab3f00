//! What lies in the databases, read by plain SQL.

use crate::history::{Cell, LOG, MEMBER, Role, Schema, Table, Token};
use crate::world::World;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// A row.
pub type Row = Vec<Cell>;

/// Tokens, with table and column.
pub(super) type Tokens = BTreeMap<Token, (usize, usize)>;

/// All databases at one moment.
#[derive(Debug, Clone)]
pub struct Look {
    /// The center.
    pub center: Rc<CenterImage>,
    /// The remotes.
    pub remotes: Vec<Rc<RemoteImage>>,
    /// Of the files of the center, and of the remotes, as far as they are known.
    versions: (Option<u64>, Vec<Option<u64>>),
}

/// The center.
#[derive(Debug, Clone)]
pub struct CenterImage {
    /// The rows of each table of the schema, with all columns.
    pub tables: Vec<BTreeSet<Row>>,
    /// The tokens in them.
    pub tokens: Tokens,
    /// Who has which projects.
    pub members: BTreeSet<(i64, i64)>,
    /// The record of conflicts.
    pub conflicts: Vec<Note>,
    /// The record of rejects.
    pub rejects: Vec<Note>,
    /// How often which event has written for which table, or for none.
    pub log: BTreeMap<(String, String), i64>,
    /// Numbers that never go back, by remote ID.
    pub counters: BTreeMap<String, Vec<i64>>,
    /// What SQLite finds wrong.
    pub problems: Vec<String>,
}

/// A remote.
#[derive(Debug, Clone)]
pub struct RemoteImage {
    /// For each table of the schema that is there: its columns, and the rows.
    pub tables: Vec<Option<(Vec<usize>, BTreeSet<Row>)>>,
    /// The tokens in them.
    pub tokens: Tokens,
    /// The tables that it synchronizes, and whether they have been received.
    pub held: BTreeMap<usize, bool>,
    /// What it knows of rejects.
    pub rejects: Vec<Note>,
    /// Its identity, where it has one.
    pub remote_id: Option<String>,
    /// Numbers that never go back, by their name.
    pub counters: BTreeMap<String, i64>,
    /// What is wrong with the file.
    pub damages: Vec<String>,
    /// Rows whose foreign keys lead nowhere.
    pub orphans: Vec<String>,
}

/// An entry of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Its number.
    pub id: i64,
    /// The remote; empty at a remote.
    pub remote_id: String,
    /// The table.
    pub table: String,
    /// The key, as JSON.
    pub key: String,
    /// Why.
    pub code: i64,
    /// All that it says.
    pub text: String,
}

impl Look {
    /// Everything as it is now.
    pub fn at(schema: &Schema, world: &dyn World) -> Look {
        Look::read(schema, world, None)
    }

    /// The same later. What has not changed since is not read again.
    pub fn later(&self, schema: &Schema, world: &dyn World) -> Look {
        Look::read(schema, world, Some(self))
    }

    fn read(schema: &Schema, world: &dyn World, before: Option<&Look>) -> Look {
        // To open a file may change it, so its version is that of afterwards.
        let known = before.filter(|it| is_same(it.versions.0, world.version(None)));
        let center = match known {
            Some(known) => known.center.clone(),
            None => Rc::new(CenterImage::read(schema, &world.center())),
        };
        let (mut remotes, mut versions) = (Vec::new(), (world.version(None), Vec::new()));
        for at in 0..world.remotes() {
            let was = before.and_then(|it| Some((it.remotes.get(at)?, *it.versions.1.get(at)?)));
            let known = was.filter(|(_, version)| is_same(*version, world.version(Some(at))));
            remotes.push(match known {
                Some((known, _)) => known.clone(),
                None => Rc::new(RemoteImage::read(schema, &world.remote(at))),
            });
            versions.1.push(world.version(Some(at)));
        }
        Look { center, remotes, versions }
    }
}

fn is_same(was: Option<u64>, is: Option<u64>) -> bool {
    was.is_some() && was == is
}

fn show_notes(f: &mut fmt::Formatter<'_>, what: &str, notes: &[Note]) -> fmt::Result {
    for Note { remote_id, table, key, code, text, .. } in notes {
        writeln!(f, "  {what} {remote_id} {table} {key} {code} {text}")?;
    }
    Ok(())
}

/// All rows, and all records.
impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |f: &mut fmt::Formatter<'_>, number: usize, rows: &BTreeSet<Row>| {
            writeln!(f, "  t{number}")?;
            for row in rows {
                let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
                writeln!(f, "    {}", cells.join(", "))?;
            }
            Ok(())
        };
        writeln!(f, "the center")?;
        for (number, rows) in self.center.tables.iter().enumerate() {
            show(f, number, rows)?;
        }
        for ((event, place), times) in &self.center.log {
            writeln!(f, "  {event} {place} has written {times} times")?;
        }
        show_notes(f, "conflict", &self.center.conflicts)?;
        show_notes(f, "reject", &self.center.rejects)?;
        for (remote, image) in self.remotes.iter().enumerate() {
            writeln!(f, "remote {remote}")?;
            for (number, found) in image.tables.iter().enumerate() {
                if let Some((_, rows)) = found {
                    show(f, number, rows)?;
                }
            }
            show_notes(f, "reject", &image.rejects)?;
        }
        Ok(())
    }
}

impl CenterImage {
    fn read(schema: &Schema, connection: &Connection) -> CenterImage {
        let tables = schema.tables.iter().map(|table| {
            let all: Vec<usize> = (0..table.columns.len()).collect();
            rows(connection, table, &all)
        });
        let members = all(connection, &format!("SELECT person, project FROM {MEMBER}"));
        let number = |cell: &Cell| match cell {
            Cell::Integer(number) => *number,
            _ => 0,
        };
        let counters =
            all(connection, "SELECT remote_id, progress, counter, epoch FROM syncline_remote");
        let written = format!("SELECT event, place, count(*) FROM {LOG} GROUP BY event, place");
        let written = if schema.has_log { all(connection, &written) } else { Vec::new() };
        let tables: Vec<BTreeSet<Row>> = tables.collect();
        CenterImage {
            tokens: center_tokens(&tables),
            tables,
            members: members.iter().map(|row| (number(&row[0]), number(&row[1]))).collect(),
            conflicts: notes(
                connection,
                "SELECT conflict_id, remote_id, table_name, '', 0,
                     concat_ws(' ', operation, old_row, new_row, consolidated_row, result_row)
                 FROM syncline_conflict",
            ),
            rejects: notes(
                connection,
                "SELECT reject_id, remote_id, table_name, row_key, code,
                     concat_ws(' ', operation, row_key, row_content, message)
                 FROM syncline_reject",
            ),
            log: written
                .iter()
                .map(|row| ((text(&row[0]), text(&row[1])), number(&row[2])))
                .collect(),
            counters: counters
                .iter()
                .map(|row| (text(&row[0]), row[1..].iter().map(number).collect()))
                .collect(),
            problems: [damages(connection), orphans(connection, "")].concat(),
        }
    }
}

fn center_tokens(tables: &[BTreeSet<Row>]) -> Tokens {
    let mut tokens = Tokens::new();
    for (table, rows) in tables.iter().enumerate() {
        for (at, cell) in rows.iter().flat_map(|row| row.iter().enumerate()) {
            tokens.extend(cell.token().map(|token| (token, (table, at))));
        }
    }
    tokens
}

impl RemoteImage {
    fn read(schema: &Schema, connection: &Connection) -> RemoteImage {
        let tables = schema.tables.iter().map(|table| {
            let sql = format!("SELECT name FROM pragma_table_info('{}')", table.name);
            let names: Vec<String> =
                all(connection, &sql).iter().map(|row| text(&row[0])).collect();
            let columns = (0..table.columns.len())
                .filter(|at| names.iter().any(|name| *name == table.columns[*at].name));
            let columns: Vec<usize> = columns.collect();
            (!columns.is_empty()).then(|| (columns.clone(), rows(connection, table, &columns)))
        });
        let mut held = BTreeMap::new();
        let sql = "SELECT name, watermark IS NOT NULL FROM syncline_table";
        for row in all(connection, sql) {
            let name = text(&row[0]);
            let at = schema.tables.iter().position(|table| table.name == name);
            held.extend(at.map(|at| (at, row[1] == Cell::Integer(1))));
        }
        let state = |name: &str| {
            let sql = format!("SELECT value FROM syncline_state WHERE name = '{name}'");
            all(connection, &sql).first().map(|row| row[0].clone())
        };
        let counters = ["progress", "progress_last_used", "counter", "attempt"];
        let counters = counters.iter().filter_map(|name| match state(name) {
            Some(Cell::Integer(number)) => Some(((*name).to_owned(), number)),
            _ => None,
        });
        let tables: Vec<_> = tables.collect();
        RemoteImage {
            tokens: remote_tokens(&tables),
            tables,
            held,
            rejects: notes(
                connection,
                "SELECT id, '', table_name, key, code, concat_ws(' ', key, row, base, message)
                 FROM syncline_reject",
            ),
            remote_id: state("remote_id").map(|cell| text(&cell)),
            counters: counters.collect(),
            damages: damages(connection),
            // What an application does in tables of its own is its own.
            orphans: orphans(connection, "WHERE \"table\" IN (SELECT name FROM syncline_table)"),
        }
    }

    /// The key of the row with this mark.
    pub fn key_of(&self, schema: &Schema, table: usize, mark: Token) -> Row {
        let shape = &schema.tables[table];
        let Some((columns, rows)) = &self.tables[table] else { return Row::new() };
        let at = shape.position(&Role::Mark);
        let at = at.and_then(|at| columns.iter().position(|column| *column == at));
        let mut rows = rows.iter().filter(|row| at.is_some_and(|at| row[at].token() == Some(mark)));
        rows.next().map(|row| shape.key(row).to_vec()).unwrap_or_default()
    }

    /// The rows of a table with these columns only, which all have to be there. One that is no
    /// longer published stays in the file.
    pub fn published(&self, table: usize, columns: &[usize]) -> BTreeSet<Row> {
        let Some((found, rows)) = &self.tables[table] else { return BTreeSet::new() };
        let places = columns.iter().map(|at| found.iter().position(|it| it == at));
        let Some(places) = places.collect::<Option<Vec<usize>>>() else { return BTreeSet::new() };
        rows.iter().map(|row| places.iter().map(|at| row[*at].clone()).collect()).collect()
    }
}

fn remote_tokens(tables: &[Option<(Vec<usize>, BTreeSet<Row>)>]) -> Tokens {
    let mut tokens = Tokens::new();
    for (table, found) in tables.iter().enumerate() {
        let Some((columns, rows)) = found else { continue };
        for row in rows {
            for (at, cell) in columns.iter().zip(row) {
                tokens.extend(cell.token().map(|token| (token, (table, *at))));
            }
        }
    }
    tokens
}

fn rows(connection: &Connection, table: &Table, columns: &[usize]) -> BTreeSet<Row> {
    if table.is_gone() {
        return BTreeSet::new();
    }
    let names: Vec<&str> = columns.iter().map(|at| table.columns[*at].name.as_str()).collect();
    all(connection, &format!("SELECT {} FROM {}", names.join(", "), table.name))
        .into_iter()
        .collect()
}

fn notes(connection: &Connection, sql: &str) -> Vec<Note> {
    let number = |cell: &Cell| match cell {
        Cell::Integer(number) => *number,
        _ => 0,
    };
    let note = |row: &Row| Note {
        id: number(&row[0]),
        remote_id: text(&row[1]),
        table: text(&row[2]),
        key: text(&row[3]),
        code: number(&row[4]),
        text: text(&row[5]),
    };
    all(connection, sql).iter().map(note).collect()
}

fn damages(connection: &Connection) -> Vec<String> {
    let found = all(connection, "PRAGMA integrity_check");
    let damages = found.iter().filter(|row| row[0] != Cell::text("ok"));
    damages.map(|row| format!("integrity_check: {}", row[0])).collect()
}

fn orphans(connection: &Connection, which: &str) -> Vec<String> {
    let sql = format!("SELECT \"table\", rowid, parent FROM pragma_foreign_key_check {which}");
    let found = all(connection, &sql);
    let orphan = |row: &Row| format!("foreign_key_check: {} {} {}", row[0], row[1], row[2]);
    found.iter().map(orphan).collect()
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(bits) => f64::from_bits(*bits).to_string(),
        Cell::Text(bytes) | Cell::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn all(connection: &Connection, sql: &str) -> Vec<Row> {
    let mut statement =
        connection.prepare_cached(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let width = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| {
        (0..width).map(|at| row.get_ref(at).map(Cell::read)).collect::<rusqlite::Result<Row>>()
    };
    let rows = statement.query_map([], read).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap_or_else(|error| panic!("{error}: {sql}"))
}
