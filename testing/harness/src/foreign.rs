//! Other programs that write to the same files: the `sqlite3` shell and Python's module.
//!
//! They know nothing of Syncline and bring SQLite libraries of their own, so what holds for them
//! holds for any program.

use crate::program::{Outcome, finish};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Runs the SQL on standard input; each statement is a transaction of its own unless it says so.
const PYTHON: &str = "
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
connection.execute('PRAGMA foreign_keys = ON')
connection.executescript(sys.stdin.read())
";

/// A program that is not Syncline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignTool {
    /// The `sqlite3` shell.
    Shell,
    /// Python's `sqlite3` module.
    Python,
}

/// The interpreter itself. What `PATH` has is often a script that looks for it, and takes five
/// times as long.
static INTERPRETER: LazyLock<String> = LazyLock::new(|| {
    let ask = ["-c", "import sys; print(sys.executable)"];
    let answer = Command::new("python3").args(ask).output().unwrap();
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
});

impl ForeignTool {
    /// Both.
    pub const ALL: [ForeignTool; 2] = [ForeignTool::Shell, ForeignTool::Python];

    /// The other one.
    #[must_use]
    pub fn other(self) -> ForeignTool {
        match self {
            ForeignTool::Shell => ForeignTool::Python,
            ForeignTool::Python => ForeignTool::Shell,
        }
    }

    /// Runs SQL with foreign keys on, statement by statement, and stops at the first failure.
    pub fn try_sql(self, path: &Path, text: &str) -> Outcome {
        let mut command = match self {
            ForeignTool::Shell => Command::new("sqlite3"),
            ForeignTool::Python => Command::new(&*INTERPRETER),
        };
        match self {
            ForeignTool::Shell => command.args(["-batch", "-bail"]),
            // Without what a site adds, it starts in half the time.
            ForeignTool::Python => command.args(["-I", "-S", "-c", PYTHON]),
        };
        command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let mut stdin = child.stdin.take().unwrap();
        let prelude = match self {
            ForeignTool::Shell => ".timeout 20000\nPRAGMA foreign_keys = ON;\n",
            ForeignTool::Python => "",
        };
        // A program that has failed already reads nothing further, which is known from its exit
        // code.
        let _ = stdin.write_all(prelude.as_bytes()).and_then(|()| stdin.write_all(text.as_bytes()));
        drop(stdin);
        finish(child)
    }

    /// Runs SQL that must succeed.
    pub fn sql(self, path: &Path, text: &str) {
        let outcome = self.try_sql(path, text);
        assert_eq!(outcome.code, Some(0), "{self:?}: {} in {text}", outcome.stderr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{count, query};

    #[test]
    fn both_programs_write_and_stop_at_the_first_failure() {
        let folder = tempfile::tempdir().unwrap();
        for tool in ForeignTool::ALL {
            let path = folder.path().join(format!("{tool:?}.db"));
            tool.sql(&path, "CREATE TABLE t (v UNIQUE); INSERT INTO t VALUES ('ü'), (x'00');");
            assert_eq!(query(&path, "SELECT v FROM t"), [["'ü'"], ["x'00'"]]);
            let failing = "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1), (2);\n\
                           INSERT INTO t VALUES (3);";
            let outcome = tool.try_sql(&path, failing);
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            assert!(outcome.stderr.contains("UNIQUE constraint failed"), "{outcome:?}");
            assert_eq!(count(&path, "SELECT count(*) FROM t"), 3);
        }
    }
}
