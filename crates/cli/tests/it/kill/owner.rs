//! The owner of the center, who changes its tables while remotes synchronize.

use super::place::{ADDED, RENAMED};
use harness::{Chance, World, until};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// A deployment is killed before this time is over, if it is.
const DEPLOYMENT_MS_MAX: u64 = 120;

/// Renames columns, adds some and drops them again, each time with a deployment behind it.
#[derive(Debug)]
pub(crate) struct Owner {
    chance: Chance,
    /// Which of its names each column has that is renamed.
    names: [usize; RENAMED.len()],
    added: Vec<&'static str>,
}

impl Owner {
    pub(crate) fn new(chance: Chance) -> Owner {
        Owner { chance, names: [0; RENAMED.len()], added: Vec::new() }
    }

    /// Changes the tables, and deploys the model that says what became of them.
    pub(crate) fn change(&mut self, world: &World) {
        let (statement, table, line) = self.step();
        world.center_sql(&statement);
        fs::write(world.path("model.toml"), model(table, &line)).unwrap();
        if self.chance.below(3) == 0 {
            let mut deployment = world.syncline.command(&["deploy"]).spawn().unwrap();
            sleep(Duration::from_millis(self.chance.below(DEPLOYMENT_MS_MAX)));
            // It may have ended by itself.
            let _ = deployment.kill();
            deployment.wait().unwrap();
        }
        until("a deployment", || {
            let outcome = world.syncline.run(&["deploy"]);
            let busy = BUSY.iter().any(|code| outcome.stderr.contains(code));
            assert!(outcome.code == Some(0) || busy, "{statement}: {outcome:?}");
            outcome.code == Some(0)
        });
    }

    /// The next change: a statement, its table, and what the model has to say of it.
    fn step(&mut self) -> (String, &'static str, String) {
        let (table, names) = ADDED;
        let new: Vec<&str> = names.into_iter().filter(|it| !self.added.contains(it)).collect();
        match self.chance.below(4) {
            0 if !new.is_empty() => {
                let (name, default) = (*self.chance.choose(&new), self.chance.below(100));
                self.added.push(name);
                let column = format!("{name} INTEGER DEFAULT {default}");
                (format!("ALTER TABLE \"{table}\" ADD COLUMN {column}"), table, String::new())
            }
            1 if !self.added.is_empty() => {
                let at = self.chance.below(self.added.len() as u64) as usize;
                let name = self.added.remove(at);
                let line = format!("dropped = [\"{name}\"]\n");
                (format!("ALTER TABLE \"{table}\" DROP COLUMN {name}"), table, line)
            }
            _ => {
                let at = self.chance.below(RENAMED.len() as u64) as usize;
                let (table, names) = RENAMED[at];
                let old = names[self.names[at]];
                self.names[at] = (self.names[at] + 1 + self.chance.below(2) as usize) % names.len();
                let new = names[self.names[at]];
                let line = format!("renamed = {{ {new} = \"{old}\" }}\n");
                (format!("ALTER TABLE {table} RENAME COLUMN {old} TO {new}"), table, line)
            }
        }
    }
}

/// Others hold what it needs.
const BUSY: [&str; 2] = ["E3001", "E3002"];

/// The tables that are published, in the order of their names.
pub(crate) const TABLES: [&str; 5] = ["counter", "customer", "journal", "line", "order"];

/// The model of all tables, with a line for one of them.
pub(crate) fn model(of: &str, line: &str) -> String {
    let section = |table: &str| {
        let line = if table == of { line } else { "" };
        format!("[table.{table}]\n{line}")
    };
    let sections: String = TABLES.into_iter().map(section).collect();
    format!("script_version = \"v1\"\n{sections}")
}
