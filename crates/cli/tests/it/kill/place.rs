//! A database in which an application writes that does not know Syncline.
//!
//! It writes to the columns by their present names.

use harness::postgres::TestDatabase;
use harness::query;
use rusqlite::Connection;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Columns that get other names, with all names that they have in turn.
pub(crate) const RENAMED: [(&str, [&str; 3]); 2] = [
    ("customer", ["name", "title", "label"]),
    // Also where every row counts.
    ("journal", ["entry", "remark", "words"]),
];

/// The table whose columns come and go, and their names, which are used again.
pub(crate) const ADDED: (&str, [&str; 2]) = ("order", ["color", "size"]);

/// A database: the center, or the file of a remote.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    File(PathBuf),
    Postgres(TestDatabase),
}

/// Who runs the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Application,
    Shell,
}

impl Place {
    /// Runs statements in one transaction. They say `{customer}` and `{journal}` for the columns
    /// that get other names; those that say `{added}` are left out where no column came.
    pub(crate) fn write(&self, statements: &[String], program: Program) {
        // The names may change between the look at them and the statements.
        for _ in 0..ATTEMPTS_MAX {
            let text = self.resolved(statements);
            let done = match self {
                Place::File(path) if program == Program::Shell => by_shell(path, &text),
                Place::File(path) => by_application(path, &text),
                Place::Postgres(database) => {
                    let outcome = database.try_sql(&format!("BEGIN; {text} COMMIT;"));
                    if outcome.code == Some(0) { Ok(()) } else { Err(outcome.stderr) }
                }
            };
            match done {
                Ok(()) => return,
                Err(message) if self.was_overtaken(&message) => {}
                Err(message) => panic!("{message} in {text}"),
            }
        }
        panic!("overtaken {ATTEMPTS_MAX} times: {statements:?}");
    }

    /// Whether another writer was faster, so that the transaction is tried again.
    fn was_overtaken(&self, message: &str) -> bool {
        let said = |what: &[&str]| what.iter().any(|what| message.contains(what));
        match self {
            Place::File(_) => said(&["no such column", "has no column named"]),
            // Here others write at the same time.
            Place::Postgres(_) => said(&["does not exist", "deadlock detected", "violates"]),
        }
    }

    fn resolved(&self, statements: &[String]) -> String {
        let columns = self.columns();
        let name = |table: &str, names: &[&'static str]| {
            let there = |name: &&&str| columns.contains(&(table.to_owned(), name.to_string()));
            names.iter().find(there).copied()
        };
        let mut text = String::new();
        for statement in statements {
            let mut statement = statement.clone();
            for (table, names) in &RENAMED {
                let name = name(table, names).unwrap();
                statement = statement.replace(&format!("{{{table}}}"), name);
            }
            match name(ADDED.0, &ADDED.1) {
                Some(name) => statement = statement.replace("{added}", name),
                None if statement.contains("{added}") => continue,
                None => {}
            }
            text.push_str(&statement);
            text.push_str(";\n");
        }
        text
    }

    /// Table and name of all columns.
    pub(crate) fn columns(&self) -> Vec<(String, String)> {
        let rows = self.rows(match self {
            Place::File(_) => {
                "SELECT it.name, of.name FROM sqlite_schema AS it, pragma_table_info(it.name) AS of
                 WHERE it.type = 'table'"
            }
            Place::Postgres(_) => {
                "SELECT table_name, column_name FROM information_schema.columns
                 WHERE table_schema = 'public'"
            }
        });
        let plain = |text: &str| text.trim_matches('\'').to_owned();
        rows.iter().map(|row| (plain(&row[0]), plain(&row[1]))).collect()
    }

    /// The rows that a query answers.
    pub(crate) fn rows(&self, text: &str) -> Vec<Vec<String>> {
        match self {
            Place::File(path) => query(path, text),
            Place::Postgres(database) => database.query(text),
        }
    }

    /// The one number that a query answers.
    pub(crate) fn count(&self, text: &str) -> i64 {
        self.rows(text)[0][0].parse().unwrap()
    }
}

/// More attempts than a writer needs by chance.
const ATTEMPTS_MAX: usize = 50;

fn by_application(path: &Path, text: &str) -> Result<(), String> {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    let text = format!("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;\n{text}COMMIT;");
    connection.execute_batch(&text).map_err(|error| error.to_string())
}

/// Runs SQL in one transaction by the `sqlite3` shell.
fn by_shell(path: &Path, text: &str) -> Result<(), String> {
    let mut shell = Command::new("sqlite3")
        .args(["-batch", "-bail", "-cmd", ".timeout 20000"])
        .arg(path)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;\n{text}COMMIT;\n");
    // A shell that has failed already reads nothing further, which its exit code says.
    let _ = shell.stdin.take().unwrap().write_all(text.as_bytes());
    let output = shell.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(message) }
}
