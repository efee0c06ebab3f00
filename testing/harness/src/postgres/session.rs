//! A `psql` that stays connected, so that a test can leave a transaction open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Printed after every answer.
const MARK: &str = "-- answered --";

/// One connection. Dropping it kills the program, which rolls back what is open.
#[derive(Debug)]
pub struct PsqlSession {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl PsqlSession {
    pub(super) fn start(mut psql: Command) -> PsqlSession {
        let mut child = psql.stderr(Stdio::inherit()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        PsqlSession { child, stdin, stdout }
    }

    /// Runs SQL that must succeed and waits for its end; gives what it answers.
    pub fn sql(&mut self, text: &str) -> String {
        self.begin(text);
        self.wait()
    }

    /// Sends SQL without waiting, for statements that wait for somebody else.
    pub fn begin(&mut self, text: &str) {
        writeln!(self.stdin, "{text};\n\\echo {MARK}").unwrap();
        self.stdin.flush().unwrap();
    }

    /// Waits for the end of what was sent last; gives what it answers.
    pub fn wait(&mut self) -> String {
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            let length = self.stdout.read_line(&mut line).unwrap();
            assert!(length > 0, "psql has ended: {answer}");
            if line.trim_end() == MARK {
                return answer;
            }
            answer.push_str(&line);
        }
    }
}

impl Drop for PsqlSession {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
