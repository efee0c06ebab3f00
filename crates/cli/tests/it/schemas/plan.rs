//! Writes that are possible together: who inserts, edits and deletes which rows.
//!
//! Each is tried at the center after all before it. So no constraint stands against it, wherever it
//! is made and in whatever order it arrives: rows of one place refer to rows that all places have,
//! or to rows of the same place.

use super::catalog::{Catalog, Column, ForeignKey, Table};
use super::statement::{Spelling, quoted};
use super::trial::Trial;
use super::values::{Value, hints, is_checked, natural};
use harness::{Chance, Dialect, World};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Rows of each table before anybody synchronizes, and how many of them others may refer to.
const FIRST_ROWS: usize = 8;
const FIRST_PARENTS: usize = 5;
/// Rows that were there before, and are known here.
const KNOWN_ROWS_MAX: usize = 20;
/// Rows that each place inserts.
const ROWS: usize = 2;
/// The one of the first rows that all places edit.
const SHARED: usize = 3;
/// Values tried for a row until it fits.
const ATTEMPTS_MAX: usize = 300;
/// Values begin here, above the keys of rows that a schema brings along.
const FIRST_NUMBER: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Center,
    Remote(usize),
}

impl Place {
    pub(crate) const ALL: [Place; 3] = [Place::Center, Place::Remote(0), Place::Remote(1)];

    fn number(self) -> usize {
        match self {
            Place::Center => 0,
            Place::Remote(number) => number + 1,
        }
    }
}

struct Row {
    /// Where it was inserted; nowhere if all places have it.
    of: Option<Place>,
    values: Vec<Value>,
    is_parent: bool,
    is_deleted: bool,
}

pub(crate) struct Plan<'a> {
    catalog: &'a Catalog,
    dialect: Dialect,
    chance: Chance,
    /// Of each table, in the order of the catalog.
    is_published: Vec<bool>,
    rows: Vec<Vec<Row>>,
    number: u64,
    statements: BTreeMap<Place, Vec<String>>,
    /// Deletes, edits and inserts.
    counts: [usize; 3],
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        catalog: &'a Catalog,
        dialect: Dialect,
        chance: Chance,
        is_left_out: impl Fn(&Table) -> bool,
    ) -> Plan<'a> {
        Plan {
            catalog,
            dialect,
            chance,
            is_published: catalog.tables.iter().map(|table| !is_left_out(table)).collect(),
            rows: catalog.tables.iter().map(|_| Vec::new()).collect(),
            number: FIRST_NUMBER,
            statements: BTreeMap::new(),
            counts: [0; 3],
        }
    }

    pub(crate) fn published(&self) -> impl Iterator<Item = &'a Table> {
        let of = |(table, is_published): (&'a Table, &bool)| is_published.then_some(table);
        self.catalog.tables.iter().zip(&self.is_published).filter_map(of)
    }

    /// The tables without a row.
    pub(crate) fn empty(&self) -> Vec<&str> {
        let tables = self.catalog.tables.iter().zip(&self.rows);
        tables.filter(|(_, rows)| rows.is_empty()).map(|(table, _)| table.name.as_str()).collect()
    }

    /// What a place has to run since the last time.
    pub(crate) fn take(&mut self, place: Place) -> String {
        let statements = self.statements.remove(&place).unwrap_or_default().join(";\n");
        match (place, self.dialect) {
            (Place::Center, Dialect::Postgres) => format!("BEGIN;\n{statements};\nCOMMIT"),
            _ => statements,
        }
    }

    /// The first rows, of tables too that are not published: others may refer to them.
    pub(crate) fn fill(&mut self, world: &World, trial: &mut Trial) {
        for (table, rows) in self.catalog.tables.iter().zip(&mut self.rows) {
            let row = |values| Row { of: None, values, is_parent: true, is_deleted: false };
            *rows = known_rows(world, self.dialect, table).into_iter().map(row).collect();
        }
        for at in 0..self.catalog.tables.len() {
            for number in 0..FIRST_ROWS {
                let is_parent = number < FIRST_PARENTS;
                if !self.insert_row(at, (Place::Center, None), is_parent, trial) {
                    break;
                }
            }
        }
        self.counts = [0; 3];
    }

    /// One row of each table, to which nothing refers.
    pub(crate) fn delete(&mut self, place: Place, trial: &mut Trial) {
        for at in self.published_positions() {
            let table = &self.catalog.tables[at];
            let is_free = |row: &Row| !row.is_parent && !row.is_deleted;
            let Some(row) = self.rows[at].iter().position(is_free) else { continue };
            let values = self.rows[at][row].values.clone();
            if self.keep(place, 0, trial, |spelling| spelling.delete(table, &values)).is_ok() {
                self.rows[at][row].is_deleted = true;
            }
        }
    }

    /// Two rows of each table, one of which all places edit.
    pub(crate) fn edit(&mut self, place: Place, trial: &mut Trial) {
        for at in self.published_positions() {
            let table = &self.catalog.tables[at];
            let editable = self.editable(table);
            let stays = |row: &&Row| row.of.is_none() && row.is_parent;
            let rows: Vec<Vec<Value>> =
                self.rows[at].iter().filter(stays).map(|row| row.values.clone()).collect();
            if editable.is_empty() || rows.is_empty() {
                continue;
            }
            for number in [place.number(), SHARED] {
                let row = &rows[number % rows.len()];
                self.number += 1;
                for attempt in 0..ATTEMPTS_MAX {
                    let columns = [*self.chance.choose(&editable), *self.chance.choose(&editable)];
                    let mut to = BTreeMap::new();
                    for column in columns {
                        to.insert(column, self.value(table, column, attempt));
                    }
                    let to: Vec<(usize, Value)> = to.into_iter().collect();
                    let update = |spelling: Spelling| spelling.update(table, row, &to);
                    if self.keep(place, 1, trial, update).is_ok() {
                        break;
                    }
                }
            }
        }
    }

    pub(crate) fn insert(&mut self, place: Place, trial: &mut Trial) {
        for at in self.published_positions() {
            for _ in 0..ROWS {
                self.insert_row(at, (place, Some(place)), true, trial);
            }
        }
    }

    /// Inserts a row at a place; `of` says who alone has it then.
    fn insert_row(
        &mut self,
        at: usize,
        (place, of): (Place, Option<Place>),
        is_parent: bool,
        trial: &mut Trial,
    ) -> bool {
        let table = &self.catalog.tables[at];
        self.number += 1;
        let mut wrong = "its parents have no rows".to_owned();
        for attempt in 0..ATTEMPTS_MAX {
            let Some(values) = self.draw(table, of, attempt) else { continue };
            match self.keep(place, 2, trial, |spelling| spelling.insert(table, &values)) {
                Ok(()) => {
                    self.rows[at].push(Row { of, values, is_parent, is_deleted: false });
                    return true;
                }
                Err(told) => wrong = told,
            }
        }
        if self.rows[at].is_empty() {
            println!("{}: no row fits: {wrong}", table.name);
        }
        false
    }

    /// A row that may fit, unless a parent is missing.
    fn draw(&mut self, table: &Table, of: Option<Place>, attempt: usize) -> Option<Vec<Value>> {
        let mut values: Vec<Option<Value>> = vec![None; table.columns.len()];
        for key in &table.foreign_keys {
            self.refer(table, key, of, &mut values)?;
        }
        let fresh = |(at, value): (usize, Option<Value>)| match value {
            Some(value) => value,
            None => self.value(table, at, attempt),
        };
        Some(values.into_iter().enumerate().map(fresh).collect())
    }

    /// Chooses a parent among the rows that are there, or none where that is possible.
    fn refer(
        &mut self,
        table: &Table,
        key: &ForeignKey,
        of: Option<Place>,
        values: &mut [Option<Value>],
    ) -> Option<()> {
        let columns: Vec<usize> = key.columns.iter().map(|it| table.column_position(it)).collect();
        let open: Vec<usize> = columns
            .iter()
            .copied()
            .filter(|at| values[*at].is_none() && table.may_be_null(&table.columns[*at]))
            .collect();
        let parents = self.parents(key, of);
        let fits = |parent: &&Vec<Value>| {
            let pairs = columns.iter().zip(*parent);
            pairs.into_iter().all(|(at, value)| values[*at].as_ref().is_none_or(|it| it == value))
        };
        let fitting: Vec<&Vec<Value>> = parents.iter().filter(fits).collect();
        if columns.iter().any(|at| values[*at] == Some(Value::Null)) {
            return Some(());
        }
        if !open.is_empty() && (fitting.is_empty() || self.chance.below(4) == 0) {
            open.into_iter().for_each(|at| values[at] = Some(Value::Null));
            return Some(());
        }
        if fitting.is_empty() {
            return None;
        }
        let parent = *self.chance.choose(&fitting);
        columns.iter().zip(parent).for_each(|(at, value)| values[*at] = Some(value.clone()));
        Some(())
    }

    /// What a row of this place may refer to.
    fn parents(&self, key: &ForeignKey, of: Option<Place>) -> Vec<Vec<Value>> {
        let Some(at) = self.catalog.position(&key.parent) else { return Vec::new() };
        let parent = &self.catalog.tables[at];
        let is_there =
            |row: &&Row| row.is_parent && !row.is_deleted && (row.of.is_none() || row.of == of);
        let referred = |row: &Row| -> Vec<Value> {
            let value = |column: &String| row.values[parent.column_position(column)].clone();
            key.parent_columns.iter().map(value).collect()
        };
        let rows = self.rows[at].iter().filter(is_there).map(referred);
        rows.filter(|values| !values.contains(&Value::Null)).collect()
    }

    /// A value of the column by itself. The later the attempt, the more is tried.
    fn value(&mut self, table: &Table, at: usize, attempt: usize) -> Value {
        let column = &table.columns[at];
        let hints = hints(table, column);
        if table.may_be_null(column) && self.chance.below(4) == 0 {
            return Value::Null;
        }
        if !hints.is_empty() && self.chance.below(3) > 0 {
            return self.chance.choose(&hints).clone();
        }
        let is_free = is_checked(table, column) && attempt > 2;
        let more = if is_free { self.chance.below(500) } else { 0 };
        natural(column, self.dialect, self.number + more)
    }

    /// The columns that are neither of the key nor of a reference.
    fn editable(&self, table: &Table) -> Vec<usize> {
        let refers = |name: &String| table.foreign_keys.iter().any(|it| it.columns.contains(name));
        let is_referred = |name: &String| {
            let keys = self.catalog.tables.iter().flat_map(|it| &it.foreign_keys);
            keys.filter(|it| it.parent == table.name).any(|it| it.parent_columns.contains(name))
        };
        let is_editable = |column: &Column| {
            let name = &column.name;
            let is_key = table.key.contains(name) || column.is_always_identity;
            !(is_key || refers(name) || is_referred(name))
        };
        (0..table.columns.len()).filter(|at| is_editable(&table.columns[*at])).collect()
    }

    fn published_positions(&self) -> Vec<usize> {
        (0..self.is_published.len()).filter(|at| self.is_published[*at]).collect()
    }

    /// Tries a statement, and keeps it for the place where it works.
    fn keep(
        &mut self,
        place: Place,
        kind: usize,
        trial: &mut Trial,
        statement: impl Fn(Spelling) -> String,
    ) -> Result<(), String> {
        let center = Spelling::Center(self.dialect);
        trial.attempt(&statement(center))?;
        let spelling = if place == Place::Center { center } else { Spelling::Remote };
        self.statements.entry(place).or_default().push(statement(spelling));
        self.counts[kind] += 1;
        Ok(())
    }
}

impl Display for Plan<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let [deletes, edits, inserts] = self.counts;
        write!(to, "{inserts} inserts, {edits} edits and {deletes} deletes on three sides")
    }
}

/// Some of the rows that a schema has brought along.
fn known_rows(world: &World, dialect: Dialect, table: &Table) -> Vec<Vec<Value>> {
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let name = Spelling::Center(dialect).table(&table.name);
    let text = format!("SELECT {} FROM {name} LIMIT {KNOWN_ROWS_MAX}", columns.join(", "));
    let rows = match dialect {
        Dialect::Sqlite => harness::query(&world.consolidated(), &text),
        Dialect::Postgres => world.database().query(&text),
    };
    rows.iter().map(|row| row.iter().map(|shown| Value::read(shown, dialect)).collect()).collect()
}
