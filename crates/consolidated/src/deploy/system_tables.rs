//! The system tables of a kind of database: those of today, and what those of older programs lack.

use model::{Code, Failure};
use std::collections::BTreeSet;

/// The system tables that this program makes and understands.
#[derive(Debug)]
pub(crate) struct SystemTables {
    /// The number of their layout.
    pub(crate) format: i64,
    /// The statements that make them, one a line.
    pub(crate) made: &'static str,
    /// Tables, columns and types that were not there from the beginning, in the order of their
    /// coming.
    pub(crate) later: &'static [(&'static str, &'static str, &'static str)],
    /// Binds the remotes of older programs, which had no owners: with the column [`OWNERS`].
    pub(crate) bind: &'static [&'static str],
    /// Counts the age of the passwords of older programs from now on: with the column
    /// [`SET_AT`].
    pub(crate) date: &'static str,
}

/// Tables and columns that a database has of them.
pub(crate) type SystemColumns = BTreeSet<(String, String)>;

/// The column with the owners of a remote.
const OWNERS: &str = "bound_users";

/// The column that says since when a user has a password.
const SET_AT: &str = "password_set_at";

impl SystemTables {
    /// Refuses system tables of this layout that a newer program made (trap 18).
    pub(crate) fn require_known(&self, format: i64) -> Result<(), Failure> {
        let text =
            format!("the system tables have format {format}; this program knows {}", self.format);
        match format > self.format {
            true => Err(Failure::new(Code::DeployedByNewer, text)),
            false => Ok(()),
        }
    }

    /// The same for commands that work with the system tables: those of an older program need a
    /// deploy.
    pub(crate) fn require_own(&self, format: i64) -> Result<(), Failure> {
        self.require_known(format)?;
        let text =
            format!("the system tables have format {format}; this program needs {}", self.format);
        match format < self.format {
            true => Err(Failure::new(Code::NotDeployed, text)),
            false => Ok(()),
        }
    }

    /// The statements that make them.
    pub(crate) fn statements(&self) -> Vec<String> {
        let lines = self.made.lines().filter(|line| !line.is_empty());
        lines.map(|line| line.trim_end_matches(';').to_owned()).collect()
    }

    /// The statements that bring those of `format` to today's. It examines the tables and not only
    /// the number, so a deployment that was made between two formats is completed too.
    pub(crate) fn missing(
        &self,
        prefix: &str,
        format: i64,
        present: &SystemColumns,
    ) -> Vec<String> {
        let exists = |name: &str| present.iter().any(|(table, _)| table == name);
        let mut statements = self.statements();
        statements.retain(|statement| {
            let name = statement.split(' ').nth(2).unwrap_or_default();
            !exists(name.trim_start_matches(prefix))
        });
        for (table, column, declared) in self.later {
            let is_there = present.contains(&((*table).to_owned(), (*column).to_owned()));
            if exists(table) && !is_there {
                statements
                    .push(format!("ALTER TABLE {prefix}{table} ADD COLUMN {column} {declared}"));
                if *column == OWNERS {
                    statements.extend(self.bind.iter().map(|statement| (*statement).to_owned()));
                }
                if *column == SET_AT {
                    statements.push(self.date.to_owned());
                }
            }
        }
        if format != self.format {
            statements.push(format!(
                "UPDATE {prefix}syncline_system SET value = {} WHERE name = 'format'",
                self.format
            ));
        }
        statements
    }
}
