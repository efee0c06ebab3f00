//! Changes at random, at the center and at four remotes.
//!
//! After every synchronization its outcome is compared with plain SQL.

use crate::support::center::{Backend, Upload};
use crate::support::shop::{Held, Site, row};
use harness::full;
use std::collections::BTreeSet;

const ROUNDS: u64 = 25;
const CHANGES_PER_ROUND: u64 = 6;

/// Numbers that are the same in every run: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn rep(&mut self) -> i64 {
        3 + self.below(3) as i64
    }

    fn project(&mut self) -> &'static str {
        ["p", "q", "r"][self.below(3) as usize]
    }

    fn region(&mut self) -> &'static str {
        ["north", "south", "east"][self.below(3) as usize]
    }

    fn remote(&mut self) -> &'static str {
        ["one", "two", "three", "four"][self.below(4) as usize]
    }

    /// The key of some row, early ones and children of all.
    fn key(&mut self) -> i64 {
        1 + self.below(12) as i64
    }

    /// A possible statement of another program. Some concern no row.
    fn statement(&mut self) -> String {
        let (key, other, note) = (self.key(), self.key(), self.below(1000));
        match self.below(24) {
            0 | 1 => format!("UPDATE customer SET rep = {} WHERE id = {key}", self.rep()),
            2 => format!("UPDATE customer SET name = 'n{note}' WHERE id = {key}"),
            3 => format!("INSERT INTO customer VALUES ({key}, {}, 'new')", self.rep()),
            4 => format!("DELETE FROM customer WHERE id = {key}"),
            5 | 6 => format!("INSERT INTO invoice VALUES ({key}, {other}, 'new')"),
            7 => format!("UPDATE invoice SET customer = {other} WHERE id = {key}"),
            8 => format!("DELETE FROM invoice WHERE id = {key}"),
            9 | 10 => format!("INSERT INTO line VALUES ({key}, {other}, 'new')"),
            11 => format!("UPDATE line SET invoice = {other}, note = 'm' WHERE id = {key}"),
            12 => format!("INSERT INTO member VALUES ({}, '{}')", self.rep(), self.project()),
            13 => {
                format!("DELETE FROM member WHERE person = {} AND project = '{}'", self.rep(), {
                    self.project()
                })
            }
            14 => format!("INSERT INTO task VALUES ({key}, '{}', 'new')", self.project()),
            15 => format!("UPDATE task SET project = '{}' WHERE id = {key}", self.project()),
            16 => format!("INSERT INTO comment VALUES ({key}, {other}, 'new')"),
            17 => format!("UPDATE shop SET region = '{}' WHERE id = {key}", self.region()),
            18 => format!("INSERT INTO shop VALUES ({key}, '{}', 'new')", self.region()),
            19 => format!("UPDATE line SET id = {other} WHERE id = {key}"),
            20 => format!("UPDATE shop SET id = {other} WHERE id = {key}"),
            21 => format!("UPDATE task SET id = {other} WHERE id = {key}"),
            22 => {
                format!("UPDATE customer SET id = {other}, rep = {} WHERE id = {key}", self.rep())
            }
            _ => format!("UPDATE device SET remote = '{}' WHERE id < 3", self.remote()),
        }
    }

    /// What a remote might have done to the rows that it holds, at most one change a row, parents
    /// first.
    fn changes(&mut self, held: &Held) -> Vec<Upload> {
        let mut changes = Vec::new();
        let mut touched = BTreeSet::new();
        for _ in 0..self.below(5) {
            let tables = ["customer", "invoice", "line", "task", "comment", "shop"];
            let place = self.below(tables.len() as u64) as usize;
            let table = tables[place];
            let key = self.key();
            if !touched.insert((place, key)) {
                continue;
            }
            let new = match table {
                "customer" => row(key, self.rep(), "remote"),
                "task" => row(key, self.project(), "remote"),
                "shop" => row(key, self.region(), "remote"),
                _ => row(key, self.key(), "remote"),
            };
            let old = held.get(table).and_then(|rows| rows.get(&key)).cloned();
            changes.push((
                place,
                match old {
                    None => Upload::Insert(table, new),
                    Some(old) if self.below(4) == 0 => Upload::Delete(table, old),
                    Some(old) => Upload::Update(table, old, new),
                },
            ));
        }
        changes.sort_by_key(|(place, _)| *place);
        changes.into_iter().map(|(_, change)| change).collect()
    }
}

fn check(backend: Backend, seed: u64) {
    let mut center = super::center(backend, "may_leave = true\nconflict = \"remote_wins\"");
    let mut sites = [
        Site::new("one", 3, "north, south"),
        Site::new("two", 4, "south"),
        Site::new("three", 5, "east,north"),
        Site::new("four", 3, ""),
    ];
    let mut dice = Dice(seed);
    for _ in 0..ROUNDS {
        let statements: Vec<String> = (0..CHANGES_PER_ROUND).map(|_| dice.statement()).collect();
        center.try_foreign(&statements);
        let site = &mut sites[dice.below(4) as usize];
        if dice.below(10) == 0 {
            let rep = dice.rep();
            site.claim("rep", &rep.to_string());
        }
        let changes = dice.changes(&site.held);
        site.synchronize(&mut center, &changes);
    }
    for site in &mut sites {
        site.synchronize(&mut center, &[]);
    }
}

/// Every remote holds exactly its rows after each of its synchronizations, whatever has happened
/// in between, and is never sent a foreign one.
// S2, S6, S7, Trap 4, Trap 21: keys change at the center too.
#[test]
fn remotes_hold_exactly_their_rows() {
    for seed in 1..=if full() { 8 } else { 2 } {
        Backend::each(|backend| check(backend, 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed)));
    }
}
