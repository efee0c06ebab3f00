//! Remotes change keys, rows and references at random; in the end all have the rows of the center.

use crate::support::center::{Backend, Center, Remote, Row, Upload, int, text};
use model::Value;
use std::collections::BTreeMap;

/// A small generator: the same seed makes the same story.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

const TABLES: [&str; 3] = ["parent", "child", "line"];
const KEYS: [usize; 3] = [1, 1, 2];

/// A row with what it was when the remote synchronized last.
#[derive(Debug, Clone)]
struct Local {
    base: Option<Row>,
    now: Option<Row>,
}

struct Site {
    remote: Remote,
    tables: [Vec<Local>; 3],
}

fn key(table: usize, row: &Row) -> Vec<String> {
    row[..KEYS[table]].iter().map(|value| value.as_ref().display()).collect()
}

impl Site {
    fn taken(&self, table: usize, wanted: &Row) -> bool {
        let wanted = key(table, wanted);
        self.tables[table].iter().any(|l| l.now.as_ref().is_some_and(|n| key(table, n) == wanted))
    }

    /// One change of a user of the remote, which has no foreign keys.
    fn change(&mut self, chance: &mut Chance, number: i64) {
        let table = chance.below(3) as usize;
        let id = int(1 + chance.below(7) as i64);
        let other = int(1 + chance.below(7) as i64);
        let note = text(&format!("n{number}"));
        let new = match table {
            0 => vec![id, note],
            _ => vec![id, other, note],
        };
        let act = chance.below(10);
        if act < 2 {
            if !self.taken(table, &new) {
                self.tables[table].push(Local { base: None, now: Some(new) });
            }
            return;
        }
        let alive: Vec<usize> = (0..self.tables[table].len())
            .filter(|at| self.tables[table][*at].now.is_some())
            .collect();
        if alive.is_empty() {
            return;
        }
        let at = *chance.pick(&alive);
        let mut row = self.tables[table][at].now.clone().unwrap();
        match act {
            2 => {
                self.tables[table][at].now = None;
                return;
            }
            3..=5 => {
                row[0] = new[0].clone();
                if self.taken(table, &row) {
                    return;
                }
            }
            _ => {
                let last = row.len() - 1;
                row[last] = new[last].clone();
                if table == 1 && chance.below(3) == 0 {
                    row[1] = new[1].clone();
                }
            }
        }
        self.tables[table][at].now = Some(row);
    }

    fn synchronize(&mut self, center: &mut Center) {
        let mut uploads = Vec::new();
        for (table, name) in TABLES.into_iter().enumerate() {
            for local in &self.tables[table] {
                match (local.base.clone(), local.now.clone()) {
                    (None, Some(now)) => uploads.push(Upload::Insert(name, now)),
                    (Some(base), None) => uploads.push(Upload::Delete(name, base)),
                    (Some(base), Some(now)) if base == now => {}
                    (Some(base), Some(now)) => {
                        uploads.push(match key(table, &base) == key(table, &now) {
                            true => Upload::Update(name, base, now),
                            false => Upload::KeyChange(name, base, now),
                        })
                    }
                    (None, None) => {}
                }
            }
        }
        let (_, download) = center.synchronize(&mut self.remote, &uploads);
        for (table, wanted) in TABLES.into_iter().enumerate() {
            let rows = std::mem::take(&mut self.tables[table]);
            let mut held: BTreeMap<Vec<String>, Row> =
                rows.into_iter().filter_map(|l| l.now).map(|row| (key(table, &row), row)).collect();
            for (name, row) in &download.upserts {
                if name == wanted {
                    held.insert(key(table, row), row.clone());
                }
            }
            for (name, row) in &download.deletes {
                if name == wanted {
                    held.remove(&key(table, row));
                }
            }
            let local = |row: Row| Local { base: Some(row.clone()), now: Some(row) };
            self.tables[table] = held.into_values().map(local).collect();
        }
    }

    fn held(&self, table: usize) -> Vec<String> {
        let rows = self.tables[table].iter().filter_map(|local| local.now.as_ref());
        let mut rows: Vec<String> = rows.map(|row| shown(row)).collect();
        rows.sort();
        rows
    }
}

fn shown(row: &[Value]) -> String {
    row.iter().map(|value| value.as_ref().display()).collect::<Vec<_>>().join(" ")
}

fn story(seed: u64) {
    let mut chance = Chance(seed);
    let actions =
        ["CASCADE", "SET NULL", "NO ACTION", "RESTRICT", "SET DEFAULT", "NO ACTION DEFERRABLE"];
    let (update, delete) = (*chance.pick(&actions), *chance.pick(&actions[..4]));
    let child = match update.strip_suffix(" DEFERRABLE") {
        Some(update) => format!("ON DELETE {delete} ON UPDATE {update} DEFERRABLE"),
        None => format!("ON DELETE {delete} ON UPDATE {update}"),
    };
    let line = *chance.pick(&["CASCADE", "NO ACTION", "RESTRICT"]);
    let rule = *chance.pick(&["consolidated_wins", "remote_wins", "merge"]);
    let schema = format!(
        "CREATE TABLE parent (id integer PRIMARY KEY, note text);
         CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent {child},
             note text);
         CREATE TABLE line (child integer REFERENCES child ON UPDATE {line} ON DELETE {line},
             n integer,
             note text, PRIMARY KEY (child, n));
         INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');
         INSERT INTO child VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'z');
         INSERT INTO line VALUES (1, 1, 'p'), (1, 2, 'q'), (3, 1, 'r');"
    );
    let model = TABLES.map(|table| format!("[table.{table}]\nconflict = \"{rule}\"\n")).concat();
    let mut center = Center::on(Backend::Postgres, &schema, &model);
    let mut sites = ["one", "two"]
        .map(|id| Site { remote: Remote::new(id), tables: [Vec::new(), Vec::new(), Vec::new()] });
    for site in &mut sites {
        site.synchronize(&mut center);
    }
    for round in 0..4 {
        for site in &mut sites {
            for step in 0..1 + chance.below(8) {
                site.change(&mut chance, round * 100 + step as i64);
            }
        }
        let first = chance.below(2) as usize;
        sites[first].synchronize(&mut center);
        sites[1 - first].synchronize(&mut center);
    }
    for _ in 0..2 {
        for site in &mut sites {
            site.synchronize(&mut center);
        }
    }
    for (table, name) in TABLES.iter().enumerate() {
        let mut rows: Vec<String> = center
            .rows(&format!("SELECT * FROM (SELECT * FROM {name}) AS t"))
            .iter()
            .map(|row| shown(&row[..row.len() - 1]))
            .collect();
        rows.sort();
        for site in &sites {
            assert_eq!(
                site.held(table),
                rows,
                "seed {seed}: {name} at {} ({child}; {line}; {rule})",
                site.remote.id
            );
        }
    }
}

// S3, S5, Trap 21
#[test]
fn random_key_changes_of_two_remotes_converge() {
    let seeds = std::env::var("KEY_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(10);
    (1..=seeds).for_each(story);
}
