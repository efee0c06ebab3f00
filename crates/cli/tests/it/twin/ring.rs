//! Tables in a ring, each of which refers to the next one.
//!
//! They have keys of several columns and columns of many types. How many, which and with which
//! rules is drawn.

use harness::Chance;

/// Tables of one ring.
const TABLES_MAX: u64 = 3;
/// Columns of one key.
const KEY_MAX: u64 = 3;
/// Columns besides key and reference.
const COLUMNS_MAX: u64 = 5;
/// There are few values of a key, so that writers often choose the same rows.
const KEYS: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Text,
    Real,
    Numeric,
    Boolean,
    Bytes,
    Time,
}

const KINDS: [Kind; 7] =
    [Kind::Integer, Kind::Text, Kind::Real, Kind::Numeric, Kind::Boolean, Kind::Bytes, Kind::Time];

#[derive(Debug)]
struct Table {
    name: String,
    key: Vec<Kind>,
    columns: Vec<Kind>,
    conflict: String,
    is_partitioned: bool,
    on_delete: &'static str,
    on_update: &'static str,
}

#[derive(Debug)]
pub(crate) struct Ring {
    tables: Vec<Table>,
}

impl Ring {
    pub(crate) fn draw(chance: &mut Chance) -> Ring {
        let count = 1 + chance.below(TABLES_MAX);
        Ring { tables: (1..=count).map(|number| Table::draw(number, chance)).collect() }
    }

    /// The SQL that makes the tables.
    pub(crate) fn create(&self, is_sqlite: bool) -> String {
        let mut sql = String::new();
        for at in 0..self.tables.len() {
            let reference = if is_sqlite { format!(", {}", self.reference(at)) } else { "".into() };
            sql.push_str(&self.tables[at].create(self.next(at), is_sqlite, &reference));
        }
        // All tables are there before one refers to another.
        for at in (0..self.tables.len()).filter(|_| !is_sqlite) {
            let name = &self.tables[at].name;
            sql.push_str(&format!("ALTER TABLE {name} ADD {};\n", self.reference(at)));
        }
        sql
    }

    /// The sections of the model.
    pub(crate) fn model(&self) -> String {
        let section = |table: &Table| {
            let partition = match table.is_partitioned {
                true => "partition = \"k0 = {u.rep}\"\nmay_leave = true\n",
                false => "",
            };
            format!("[table.{}]\nconflict = {}\n{partition}", table.name, table.conflict)
        };
        self.tables.iter().map(section).collect()
    }

    /// One transaction, at a center or at a remote.
    pub(crate) fn transaction(&self, is_sqlite: bool, chance: &mut Chance) -> Vec<String> {
        let count = 1 + chance.below(3);
        (0..count).map(|_| self.statement(is_sqlite, chance)).collect()
    }

    fn statement(&self, is_sqlite: bool, chance: &mut Chance) -> String {
        let at = chance.below(self.tables.len() as u64) as usize;
        let (table, next) = (&self.tables[at], self.next(at));
        let name = &table.name;
        let condition = equal(&table.key_columns(), &table.key_values(chance), " AND ");
        match chance.below(8) {
            0..=2 => {
                let mut names = table.key_columns();
                let mut values = table.key_values(chance);
                names.extend(next.key_columns().iter().map(|column| format!("r{column}")));
                values.extend(next.reference_values(chance));
                for (number, kind) in table.columns.iter().enumerate() {
                    names.push(format!("c{number}"));
                    values.push(value(*kind, is_sqlite, chance));
                }
                let (names, values) = (names.join(", "), values.join(", "));
                format!("INSERT INTO {name} ({names}) VALUES ({values})")
            }
            3 | 4 => {
                let number = chance.below(table.columns.len() as u64) as usize;
                let value = value(table.columns[number], is_sqlite, chance);
                format!("UPDATE {name} SET c{number} = {value} WHERE {condition}")
            }
            5 => {
                let names: Vec<String> =
                    next.key_columns().iter().map(|column| format!("r{column}")).collect();
                let set = equal(&names, &next.reference_values(chance), ", ");
                format!("UPDATE {name} SET {set} WHERE {condition}")
            }
            6 => {
                let set = equal(&table.key_columns(), &table.key_values(chance), ", ");
                format!("UPDATE {name} SET {set} WHERE {condition}")
            }
            _ => format!("DELETE FROM {name} WHERE {condition}"),
        }
    }

    fn next(&self, at: usize) -> &Table {
        &self.tables[(at + 1) % self.tables.len()]
    }

    fn reference(&self, at: usize) -> String {
        let (table, next) = (&self.tables[at], self.next(at));
        let own: Vec<String> =
            next.key_columns().iter().map(|column| format!("r{column}")).collect();
        format!(
            "FOREIGN KEY ({}) REFERENCES {} ({}){}{} DEFERRABLE INITIALLY DEFERRED",
            own.join(", "),
            next.name,
            next.key_columns().join(", "),
            table.on_delete,
            table.on_update
        )
    }
}

impl Table {
    fn draw(number: u64, chance: &mut Chance) -> Table {
        let kinds = |count: u64, of: &[Kind], chance: &mut Chance| -> Vec<Kind> {
            (0..count).map(|_| *chance.choose(of)).collect()
        };
        let key_count = chance.below(KEY_MAX);
        // The first part of a key is a number, because a claim is one.
        let mut key = vec![Kind::Integer];
        key.extend(kinds(key_count, &[Kind::Integer, Kind::Text], chance));
        let count = 1 + chance.below(COLUMNS_MAX);
        let columns = kinds(count, &KINDS, chance);
        let latest = columns.iter().position(|kind| *kind == Kind::Time);
        let conflict = match (chance.below(4), latest) {
            (0, Some(at)) => format!("{{ latest = \"c{at}\" }}"),
            (1, _) => "\"consolidated_wins\"".to_owned(),
            (2, _) => "\"remote_wins\"".to_owned(),
            _ => "\"merge\"".to_owned(),
        };
        Table {
            name: format!("ring{number}"),
            key,
            columns,
            conflict,
            is_partitioned: chance.below(2) == 0,
            on_delete: chance.choose::<&str>(&[" ON DELETE CASCADE", " ON DELETE SET NULL", ""]),
            on_update: chance.choose::<&str>(&[" ON UPDATE CASCADE", ""]),
        }
    }

    fn create(&self, next: &Table, is_sqlite: bool, reference: &str) -> String {
        let mut columns = Vec::new();
        for (name, kind) in self.key_columns().iter().zip(&self.key) {
            columns.push(format!("{name} {} NOT NULL", declared(*kind, is_sqlite)));
        }
        for (name, kind) in next.key_columns().iter().zip(&next.key) {
            columns.push(format!("r{name} {}", declared(*kind, is_sqlite)));
        }
        for (number, kind) in self.columns.iter().enumerate() {
            columns.push(format!("c{number} {}", declared(*kind, is_sqlite)));
        }
        let (columns, key) = (columns.join(", "), self.key_columns().join(", "));
        format!("CREATE TABLE {} ({columns}, PRIMARY KEY ({key}){reference});\n", self.name)
    }

    fn key_columns(&self) -> Vec<String> {
        (0..self.key.len()).map(|number| format!("k{number}")).collect()
    }

    fn key_values(&self, chance: &mut Chance) -> Vec<String> {
        let value = |kind: &Kind| {
            let number = 1 + chance.below(KEYS);
            if *kind == Kind::Text { format!("'k{number}'") } else { number.to_string() }
        };
        self.key.iter().map(value).collect()
    }

    /// The key of a row of this table, of which another one refers to none more often.
    fn reference_values(&self, chance: &mut Chance) -> Vec<String> {
        match chance.below(3) {
            0 => self.key_values(chance),
            _ => vec!["NULL".to_owned(); self.key.len()],
        }
    }
}

fn equal(names: &[String], values: &[String], between: &str) -> String {
    let pairs = names.iter().zip(values).map(|(name, value)| format!("{name} = {value}"));
    pairs.collect::<Vec<_>>().join(between)
}

fn declared(kind: Kind, is_sqlite: bool) -> &'static str {
    match (kind, is_sqlite) {
        (Kind::Integer, _) => "INTEGER",
        (Kind::Text, _) => "TEXT",
        (Kind::Real, true) => "REAL",
        (Kind::Real, false) => "DOUBLE PRECISION",
        (Kind::Numeric, _) => "NUMERIC(10,2)",
        (Kind::Boolean, _) => "BOOLEAN",
        (Kind::Bytes, true) => "BLOB",
        (Kind::Bytes, false) => "BYTEA",
        (Kind::Time, true) => "DATETIME",
        (Kind::Time, false) => "TIMESTAMP",
    }
}

fn value(kind: Kind, is_sqlite: bool, chance: &mut Chance) -> String {
    let number = chance.below(1000);
    match (kind, chance.below(6)) {
        (_, 0) => "NULL".to_owned(),
        (Kind::Integer, _) => number.to_string(),
        (Kind::Text, 1) => "''".to_owned(),
        (Kind::Text, _) => format!("'wörd {number}'"),
        (Kind::Real, _) => format!("{number}.125"),
        (Kind::Numeric, 1) => number.to_string(),
        (Kind::Numeric, _) => format!("{}.{:02}", number, number % 100),
        (Kind::Boolean, _) if is_sqlite => (number % 2).to_string(),
        (Kind::Boolean, _) => number.is_multiple_of(2).to_string(),
        (Kind::Bytes, _) if is_sqlite => format!("x'{number:04x}00ff'"),
        (Kind::Bytes, _) => format!("'\\x{number:04x}00ff'"),
        (Kind::Time, _) => format!("'2026-01-{:02} 10:00:00'", 1 + number % 28),
    }
}
