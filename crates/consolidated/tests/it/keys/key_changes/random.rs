//! Keys and rows change at random, at a remote with the foreign keys of the center.
//!
//! The seeds are the same in every run. SYNCLINE_TEST_SEED chooses another one.

use crate::support::center::{Backend, Center, Remote, Row, Upload};
use model::Value;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

const ROUNDS: u64 = 30;
const CHANGES_PER_ROUND: u64 = 10;

/// The tables, parents first, with their columns and those of the key.
const TABLES: [(&str, &str, usize); 3] =
    [("parent", "id, v", 1), ("child", "id, parent, v", 1), ("grandchild", "child, n, v", 2)];

/// The stories of every day, the first few and those that have found something; or the one that the
/// environment names.
fn seeds(usual: u64, found: &[u64]) -> Vec<u64> {
    let named = std::env::var("SYNCLINE_TEST_SEED").map(|seed| vec![seed.parse().unwrap()]);
    named.unwrap_or_else(|_| (1..=usual).chain(found.iter().copied()).collect())
}

fn schema(actions: &str, identity: &str) -> String {
    format!(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY, v TEXT{identity});
         CREATE TABLE child (id TEXT PRIMARY KEY NOT NULL, parent INTEGER
             REFERENCES parent (id) {actions}, v TEXT{identity});
         CREATE TABLE grandchild (child TEXT NOT NULL REFERENCES child (id)
             ON UPDATE CASCADE ON DELETE CASCADE, n INTEGER NOT NULL, v TEXT{identity},
             PRIMARY KEY (child, n));"
    )
}

/// Numbers that are the same in every run: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A statement of the remote's user; some concern no row, and some break a constraint.
    fn statement(&mut self) -> String {
        let (a, b, v, n) = (self.below(6), self.below(6), self.below(4), self.below(3));
        match self.below(13) {
            0 | 1 => format!("INSERT INTO parent (id, v) VALUES ({a}, 'v{v}')"),
            2 | 3 => format!("UPDATE parent SET id = {b} WHERE id = {a}"),
            4 => format!(
                "UPDATE parent SET id = -1 WHERE id = {a}; UPDATE parent SET id = {a} \
                 WHERE id = {b}; UPDATE parent SET id = {b}, v = 'v{v}' WHERE id = -1"
            ),
            5 => format!("DELETE FROM parent WHERE id = {a}"),
            6 => format!("UPDATE parent SET v = 'v{v}' WHERE id = {a}"),
            7 => format!("INSERT INTO child (id, parent, v) VALUES ('c{b}', {a}, 'v{v}')"),
            8 => format!("UPDATE child SET id = 'c{b}', v = 'v{v}' WHERE id = 'c{a}'"),
            9 => format!("UPDATE child SET parent = {a} WHERE id = 'c{b}'"),
            10 => format!("DELETE FROM child WHERE id = 'c{a}'"),
            11 => format!("INSERT INTO grandchild (child, n, v) VALUES ('c{a}', {n}, 'v{v}')"),
            _ => format!("UPDATE grandchild SET n = {n}, v = 'v{v}' WHERE child = 'c{a}'"),
        }
    }
}

/// The rows of each table by their key.
type Held = BTreeMap<&'static str, BTreeMap<String, Row>>;

fn key_of(table: &str, row: &[Value]) -> String {
    let (.., width) = TABLES[place(table)];
    format!("{:?}", &row[..width])
}

/// What a row refers to: the table and the key.
fn referred(table: usize, row: &[Value]) -> (usize, String) {
    let column = [None, Some(1), Some(0)][table];
    column.map_or((TABLES.len(), String::new()), |at| (table - 1, format!("{:?}", &row[at..=at])))
}

fn place(table: &str) -> usize {
    TABLES.iter().position(|(name, ..)| *name == table).unwrap()
}

/// Gives every new row an identity: numbers in no order, which follow from the seed. What is
/// uploaded is in their order.
fn identities(seed: u64) -> String {
    let step = 1 + seed % (IDENTITIES - 1);
    let triggers: String = TABLES
        .iter()
        .map(|(name, ..)| {
            format!(
                "CREATE TRIGGER identity_of_{name} AFTER INSERT ON {name}
                 BEGIN
                     UPDATE identity SET last = (last + {step}) % {IDENTITIES};
                     UPDATE {name} SET identity = (SELECT last FROM identity)
                         WHERE rowid = new.rowid;
                 END;"
            )
        })
        .collect();
    format!("CREATE TABLE identity (last INTEGER); INSERT INTO identity VALUES (0); {triggers}")
}

/// A prime, so that every step leads through all numbers below it before one comes again.
const IDENTITIES: u64 = 1_000_003;

/// A remote whose rows have an identity that nothing changes.
struct Site {
    remote: Remote,
    file: Connection,
    held: Held,
}

impl Site {
    fn new(actions: &str, seed: u64) -> Site {
        let file = Connection::open_in_memory().unwrap();
        file.execute_batch(&schema(actions, ", identity INTEGER")).unwrap();
        file.execute_batch(&identities(seed)).unwrap();
        file.pragma_update(None, "foreign_keys", true).unwrap();
        Site { remote: Remote::another(), file, held: Held::new() }
    }

    fn rows(&self, table: usize) -> BTreeMap<i64, Row> {
        let (name, columns, _) = TABLES[table];
        let sql = format!("SELECT identity, {columns} FROM {name}");
        let mut statement = self.file.prepare(&sql).unwrap();
        let width = statement.column_count();
        let value = |row: &rusqlite::Row<'_>, at: usize| match row.get_ref(at).unwrap() {
            rusqlite::types::ValueRef::Null => Value::Null,
            rusqlite::types::ValueRef::Integer(i) => Value::Integer(i),
            rusqlite::types::ValueRef::Text(t) => Value::Text(t.to_vec()),
            other => panic!("{other:?}"),
        };
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, (1..width).map(|at| value(row, at)).collect()))
        };
        statement.query_map([], read).unwrap().map(Result::unwrap).collect()
    }

    /// Runs statements, and says what they came to.
    fn change(&self, statements: &[String]) -> Vec<Upload> {
        let before: Vec<_> = (0..TABLES.len()).map(|table| self.rows(table)).collect();
        for sql in statements {
            let _ = self.file.execute_batch(&format!("BEGIN; {sql}; COMMIT"));
            if !self.file.is_autocommit() {
                self.file.execute_batch("ROLLBACK").unwrap();
            }
        }
        let (mut changes, mut deletes) = (Vec::new(), Vec::new());
        let mut left = BTreeSet::new();
        for (table, before) in before.iter().enumerate() {
            let (name, after) = (TABLES[table].0, self.rows(table));
            // A row that took the place of a deleted one is an update for who reads keys.
            let mut replaced = BTreeMap::new();
            for (identity, old) in before.iter().filter(|(it, _)| !after.contains_key(it)) {
                replaced.insert(key_of(name, old), (*identity, old));
            }
            let mut taken = BTreeSet::new();
            for (identity, new) in &after {
                let old =
                    replaced.get(&key_of(name, new)).filter(|_| !before.contains_key(identity));
                taken.extend(old.map(|(identity, _)| *identity));
                match before.get(identity).or(old.map(|(_, old)| *old)) {
                    None => changes.push(Upload::Insert(name, new.clone())),
                    // The foreign key took the row along, and the user has set it back.
                    Some(old) if old == new && left.contains(&referred(table, old)) => {
                        changes.push(Upload::Update(name, old.clone(), new.clone()))
                    }
                    Some(old) if old == new => {}
                    Some(old) if key_of(name, old) == key_of(name, new) => {
                        changes.push(Upload::Update(name, old.clone(), new.clone()))
                    }
                    Some(old) => {
                        left.insert((table, key_of(name, old)));
                        changes.push(Upload::KeyChange(name, old.clone(), new.clone()));
                    }
                }
            }
            let stays = |identity| after.contains_key(identity) || taken.contains(identity);
            let gone = before.iter().filter(|(identity, _)| !stays(identity));
            deletes.extend(gone.map(|(_, old)| Upload::Delete(name, old.clone())));
        }
        changes.extend(deletes);
        changes
    }

    /// Synchronizes, and compares.
    fn synchronize(&mut self, center: &mut Center, statements: &[String], what: &str) {
        let alone = what.starts_with("alone");
        let changes = self.change(statements);
        for (table, (name, ..)) in TABLES.iter().enumerate() {
            let rows = self.rows(table).into_values().map(|row| (key_of(name, &row), row));
            self.held.insert(name, rows.collect());
        }
        let sent = self.held.clone();
        let (applied, download) = center.synchronize(&mut self.remote, &changes);
        for (table, mode) in TABLES.iter().zip(&download.modes) {
            if *mode == syncline_consolidated::DownloadedTable::Refresh {
                self.held.entry(table.0).or_default().clear();
            }
        }
        for (table, row) in &download.upserts {
            let name = TABLES[place(table)].0;
            self.held.entry(name).or_default().insert(key_of(name, row), row.clone());
        }
        for (table, key) in &download.deletes {
            let name = TABLES[place(table)].0;
            self.held.entry(name).or_default().remove(&format!("{key:?}"));
        }
        let center = at(center);
        assert_eq!(self.held, center, "{what}\n{changes:?}\n{download:?}");
        self.write();
        if alone {
            let lost = applied.conflicts + applied.rejected;
            assert_eq!(lost, 0, "{what}\n{changes:?}\n{download:?}");
            assert_eq!(self.held, sent, "{what}\n{changes:?}\n{download:?}");
        }
    }

    /// Makes the file what the remote holds.
    fn write(&self) {
        self.file.pragma_update(None, "foreign_keys", false).unwrap();
        for (name, columns, _) in TABLES {
            self.file.execute(&format!("DELETE FROM {name}"), []).unwrap();
            for row in self.held[name].values() {
                let values: Vec<String> = row.iter().map(literal).collect();
                let sql = format!("INSERT INTO {name} ({columns}) VALUES ({})", values.join(", "));
                self.file.execute(&sql, []).unwrap();
            }
        }
        self.file.pragma_update(None, "foreign_keys", true).unwrap();
        let mut broken = self.file.prepare("PRAGMA foreign_key_check").unwrap();
        assert!(!broken.exists([]).unwrap());
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        other => panic!("{other:?}"),
    }
}

fn at(center: &Center) -> Held {
    let queries = TABLES.map(|(name, columns, _)| format!("SELECT {columns} FROM {name}"));
    let answers = center.answers(&queries).into_iter();
    let tables = TABLES.iter().zip(answers).map(|((name, ..), rows)| {
        (*name, rows.into_iter().map(|row| (key_of(name, &row), row)).collect())
    });
    tables.collect()
}

fn center(backend: Backend, actions: &str, rule: &str) -> Center {
    let model: String =
        TABLES.iter().map(|(name, ..)| format!("[table.{name}]\nconflict = {rule}\n")).collect();
    Center::on(backend, &schema(actions, ""), &model)
}

fn alone(seed: u64, actions: &str) {
    let mut center = center(Backend::Sqlite, actions, "\"consolidated_wins\"");
    let (mut site, mut dice) = (Site::new(actions, seed), Dice(seed));
    for round in 0..ROUNDS {
        let statements: Vec<String> = (0..CHANGES_PER_ROUND).map(|_| dice.statement()).collect();
        let what = format!("alone, {actions}, seed {seed}, round {round}");
        site.synchronize(&mut center, &statements, &what);
    }
}

/// No other user changes anything, so there is no conflict and no reject, whatever keys change.
// S3, S5, Trap 21
#[test]
fn a_remote_alone_never_loses_a_change() {
    for actions in [
        "ON UPDATE CASCADE ON DELETE CASCADE",
        "ON UPDATE CASCADE ON DELETE SET NULL",
        "ON UPDATE SET NULL ON DELETE SET NULL",
    ] {
        for seed in seeds(4, &[22, 72]) {
            alone(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed), actions);
        }
    }
}

/// Two remotes change the same few rows.
// S3, Trap 21
#[test]
fn two_remotes_that_change_keys_hold_the_same() {
    for rule in ["\"consolidated_wins\"", "\"remote_wins\"", "\"merge\""] {
        for (number, actions) in
            ["ON UPDATE CASCADE ON DELETE CASCADE", "ON UPDATE RESTRICT ON DELETE CASCADE"]
                .iter()
                .enumerate()
        {
            for seed in seeds(3, &[147]) {
                let mut center = center(Backend::Sqlite, actions, rule);
                let seed_of_both = 0xD1B5_4A32_D192_ED03_u64.wrapping_mul(seed + number as u64);
                let mut sites = [seed_of_both, !seed_of_both].map(|seed| Site::new(actions, seed));
                let mut dice = Dice(seed_of_both);
                for round in 0..ROUNDS {
                    let statements: Vec<String> =
                        (0..CHANGES_PER_ROUND).map(|_| dice.statement()).collect();
                    let what = format!("{rule}, {actions}, seed {seed}, round {round}");
                    let site = &mut sites[dice.below(2) as usize];
                    site.synchronize(&mut center, &statements, &what);
                }
            }
        }
    }
}
