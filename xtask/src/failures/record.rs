//! What cargo and its test programs printed, read line by line.

use super::message::Message;
use std::collections::VecDeque;

/// How many of the last lines of a program that died are shown.
const LAST_LINES_MAX: usize = 3;

/// One thing that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) what: What,
    /// `tests/it/main.rs (target/debug/deps/it-0123)`.
    pub(super) program: String,
    /// What cargo wants to run this program again: `-p syncline --test it`.
    pub(super) options: Option<String>,
    /// `SYNCLINE_TEST_SEED=7`, where a test said so.
    pub(super) seed: Option<String>,
    /// The first lines of the reason.
    pub(super) why: Vec<String>,
}

/// What it is that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A test, by its name.
    Test(String),
    /// A program that ended before it said how its tests ended.
    Program,
}

/// Finds everything that failed, in the order in which it was printed.
pub(super) fn read(text: &str) -> Vec<Failure> {
    let mut record = Record::default();
    for line in text.lines() {
        record.take(line);
    }
    record.end_program();
    record.failures
}

#[derive(Default)]
struct Record {
    failures: Vec<Failure>,
    program: Program,
}

/// What is known of the program that runs.
#[derive(Default)]
struct Program {
    name: String,
    /// It has begun tests and did not say how they ended.
    is_running: bool,
    options: Option<String>,
    status: Option<String>,
    tests: Vec<(String, Message)>,
    place: Place,
    last_lines: VecDeque<String>,
}

/// In which part of the output the next line stands.
#[derive(Default, PartialEq, Eq)]
enum Place {
    #[default]
    Results,
    /// In what the last failed test printed.
    Message,
    /// In the list of all failed tests.
    List,
}

impl Record {
    fn take(&mut self, line: &str) {
        if let Some(name) = program_name(line) {
            self.end_program();
            self.program.name = name.to_owned();
        } else if is_end(line) {
            self.end_program();
        } else {
            self.program.take(line);
        }
    }

    fn end_program(&mut self) {
        let program = std::mem::take(&mut self.program);
        let (name, options) = (program.name, program.options);
        let failure = |what, seed, why| Failure {
            what,
            program: name.clone(),
            options: options.clone(),
            seed,
            why,
        };
        for (test, message) in program.tests {
            let seed = message.seed().map(str::to_owned);
            self.failures.push(failure(What::Test(test), seed, message.first_lines()));
        }
        if program.is_running {
            let mut why = vec![program.status.unwrap_or("it left without a result".to_owned())];
            why.extend(program.last_lines);
            self.failures.push(failure(What::Program, None, why));
        }
    }
}

impl Program {
    fn take(&mut self, line: &str) {
        if let Some(options) = line.split_once("failed, to rerun pass `").map(|it| it.1) {
            self.options = Some(options.trim_end_matches('`').to_owned());
        } else if line.starts_with("  process didn't exit successfully: ") {
            let status = line.rsplit_once("` (").map(|it| it.1.trim_end_matches(')'));
            self.status = status.map(str::to_owned);
        } else if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            self.is_running = true;
        } else if line.starts_with("test result: ") {
            self.is_running = false;
            self.place = Place::Results;
        } else if line == "failures:" {
            self.place = Place::List;
        } else if let Some(test) = failed_test(line) {
            self.tests.push((test.to_owned(), Message::default()));
            self.place = Place::Message;
        } else {
            self.take_text(line);
        }
    }

    fn take_text(&mut self, line: &str) {
        match self.place {
            Place::Message => {
                if let Some((_, message)) = self.tests.last_mut() {
                    message.push(line);
                }
            }
            Place::List => {
                // A test that printed nothing stands in the list alone.
                if let Some(test) = line.strip_prefix("    ")
                    && !self.tests.iter().any(|(known, _)| known == test)
                {
                    self.tests.push((test.to_owned(), Message::default()));
                }
            }
            Place::Results if self.options.is_none() => self.keep_last(line),
            Place::Results => {}
        }
    }

    /// What a program said last tells why it died, unless it is the result of a test.
    fn keep_last(&mut self, line: &str) {
        if line.is_empty() || line.starts_with("test ") {
            return;
        }
        self.last_lines.push_back(line.to_owned());
        if self.last_lines.len() > LAST_LINES_MAX {
            self.last_lines.pop_front();
        }
    }
}

/// Cargo says which program it starts, and indents that.
fn program_name(line: &str) -> Option<&str> {
    let (verb, name) = line.trim_start().split_once(' ')?;
    let is_said = line.starts_with("   ") && ["Running", "Doc-tests"].contains(&verb);
    is_said.then_some(name)
}

/// Cargo says `error: 2 targets failed:` after the last program.
fn is_end(line: &str) -> bool {
    line.starts_with("error: ") && line.ends_with(" failed:")
}

/// The heading above what a failed test printed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}
