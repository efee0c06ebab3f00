//! What a failed test printed, and the few lines of it that say why it failed.

/// How many lines of it are shown.
const LINES_MAX: usize = 3;

/// All that it printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<String>);

impl Message {
    pub(super) fn push(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }

    /// The seed that repeats what the test drew.
    pub(super) fn seed(&self) -> Option<&str> {
        let seed = self.0.iter().find_map(|line| line.strip_prefix("repeat with "))?;
        seed.starts_with("SYNCLINE_TEST_SEED=").then_some(seed)
    }

    /// The place and the words of the first panic. A test that returned a failure has no panic:
    /// then its first lines.
    pub(super) fn first_lines(&self) -> Vec<String> {
        for (at, line) in self.0.iter().enumerate() {
            if line.starts_with("thread '")
                && let Some((_, place)) = line.split_once(" panicked at ")
            {
                let words = reason(&self.0[at + 1..]);
                return std::iter::once(place.to_owned()).chain(words).collect();
            }
        }
        reason(&self.0)
    }
}

/// The lines before a backtrace and before what says how to get one.
fn reason(lines: &[String]) -> Vec<String> {
    let is_reason =
        |line: &&String| !line.starts_with("note: run with") && *line != "stack backtrace:";
    let lines = lines.iter().take_while(is_reason).filter(|line| !line.trim().is_empty());
    lines.take(LINES_MAX).cloned().collect()
}
